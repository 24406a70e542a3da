"""search, brief."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retain import shapes
from retain.app import App
from retain.cli.inputs import add_collection, count, read_lines, share, split_words
from retain.cli.parser import Command, Parser, open_app
from retain.cli.progress import Bar
from retain.cli.render import Line, Output
from retain.errors import UsageError
from retain.model import Answer, Degraded, Hit
from retain.words import words

if TYPE_CHECKING:
    from retain.recall.asking import Wanted

__all__ = [
    "INDENT",
    "brief_command",
    "flat",
    "highlighting",
    "search_command",
    "shortfalls",
]

INDENT = " " * 6
_MOST_LINES = 6
_MOST_CHARS = 240
_WORD = re.compile(r"\w[\w.'+#-]{0,39}")


# search


def _search_arguments(parser: Parser) -> None:
    parser.add_argument("query", nargs="?", metavar="QUERY", help="words, or a whole question")
    add_collection(parser, "only in this collection")
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="EXPR",
        help="as in `retain list`: key=a,b, key!=v, key>=v, key~text; several must all hold",
    )
    parser.add_argument("--type", default="", help="only this type")
    parser.add_argument("--tags", default="", metavar="A,B", help="only with any of these tags")
    parser.add_argument("--since", default="", metavar="WHEN", help="7d, 2026-05-08, last week ...")
    parser.add_argument("--until", default="", metavar="WHEN", help="the same, its end included")
    parser.add_argument("--limit", type=count, default=10, metavar="N", help="how many (10)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--semantic",
        dest="mode",
        action="store_const",
        const="semantic",
        default="hybrid",
        help="by meaning alone",
    )
    mode.add_argument(
        "--text", dest="mode", action="store_const", const="text", help="by words alone"
    )
    parser.add_argument(
        "--min-score", type=share, default=0.0, metavar="X", help="nothing below, from 0 to 1"
    )
    parser.add_argument("--explain", action="store_true", help="say where each score comes from")
    parser.add_argument("--full", action="store_true", help="whole memories, not excerpts")
    parser.add_argument(
        "--per",
        choices=("memory", "chunk"),
        default="memory",
        help="each memory once, by its best part (the default), or every part by itself",
    )
    parser.add_argument(
        "--batch",
        metavar="FILE",
        help="one query on each line of a file (- is stdin); one JSON answer on each line",
    )


def _search(args: argparse.Namespace) -> Output:
    _refuse_both_or_none(args)
    app = open_app(args)
    wanted = _wanted(args)
    if args.batch is not None:
        return Output(None, stream=_answers(app, wanted, read_lines(args.batch), args.full))
    answer = _searched(app, wanted)
    notes = [] if answer.hits else _unknown(app, wanted)
    return Output(
        functools.partial(_answer_data, app, wanted, answer, args.full, notes),
        _listing(app, wanted.query, answer, args.full),
        quiet="".join(f"{hit.ref}\n" for hit in answer.hits),
        messages=[*_judged(wanted.query, answer), *notes],
        warnings=shortfalls(answer.degraded),
        paint=highlighting(wanted.query),
    )


def _refuse_both_or_none(args: argparse.Namespace) -> None:
    if args.query is not None and args.batch is not None:
        raise UsageError(
            f"a query ({args.query!r}) and --batch {args.batch} were both given",
            unchanged="Nothing was searched.",
            hint="Leave one out: --batch reads its queries from the file, one on each line.",
        )
    if args.query is None and args.batch is None:
        raise UsageError('say what to look for: retain search "QUERY", or --batch FILE')


def _unknown(app: App, wanted: Wanted) -> list[str]:
    """What a search asks for that this bank does not have at all."""
    collection, kind = wanted.conditions.collection, wanted.conditions.type
    notes = []
    if collection is not None:
        names = dict.fromkeys(name or "(root)" for name, _, _ in app.collections())
        if (collection or "(root)") not in names:
            notes.append(_missing("collection", collection, names))
    if kind:
        types = app.library.types()
        if kind not in types:
            notes.append(_missing("memory of the type", kind, types))
    return notes


def _missing(what: str, wanted: str, known: Iterable[str]) -> str:
    return f"there is no {what} {wanted!r}; there are: {', '.join(sorted(known)) or 'none yet'}"


def _wanted(args: argparse.Namespace) -> Wanted:
    from retain.recall.asking import Wanted, conditions

    found = conditions(
        collection=args.collection,
        kind=args.type,
        tags=split_words(args.tags),
        since=args.since,
        until=args.until,
        filters=args.filter,
    )
    return Wanted(
        args.query or "", args.limit, args.mode, args.per, found, args.min_score, args.explain
    )


def _searched(app: App, wanted: Wanted) -> Answer:
    with Bar("Indexing") as bar:
        if bar:  # someone is looking on: a first index should not seem to hang
            app.library.refresh(bar)
        return app.library.search(wanted)


def _answers(app: App, wanted: Wanted, queries: Sequence[str], full: bool) -> Iterator[Line]:
    """One answer for each query; the bank, its index and the model are opened once for all."""
    for query in queries:
        one = wanted._replace(query=query)
        answer = app.library.search(one)
        notes = [] if answer.hits else _unknown(app, one)
        yield Line(_answer_data(app, one, answer, full, notes))


def _answer_data(
    app: App, wanted: Wanted, answer: Answer, full: bool, notes: Sequence[str]
) -> dict[str, object]:
    found = shapes.answer(wanted.query, wanted.mode, answer)
    if full:
        bodies = (app.library.body(hit) for hit in answer.hits)
        hits = [{**shapes.hit(hit), "content": next(bodies)} for hit in answer.hits]
        found["hits"] = hits
    return {**found, "notes": list(notes)}


def shortfalls(degraded: Degraded) -> list[str]:
    """In what an answer falls short, for a person."""
    notes = list(degraded.reasons)
    if degraded.pending:
        notes.append(
            f"{degraded.pending} parts are found by their words only until they have a vector; "
            "`retain index` makes them"
        )
    return notes


def _judged(query: str, answer: Answer) -> list[str]:
    """What is to be said of an answer that is not simply one."""
    from retain.recall.sureness import sureness, terms

    if not answer.hits:
        return ["Nothing found."]
    return [] if answer.is_confident else [sureness(answer, terms(query))]


def _listing(app: App, query: str, answer: Answer, full: bool) -> str:
    asked = set(words(query))
    several = any(hit.scope != app.place.scope for hit in answer.hits)
    return "\n".join(
        _shown(hit, app.library.body(hit) if full else _excerpt(hit, asked), several)
        for hit in answer.hits
    )


def _shown(hit: Hit, text: str, several: bool) -> str:
    """One hit: where it is and what to beware of, then what it says."""
    from retain.brief import cautions

    about = [
        hit.ref,
        hit.header_path or hit.title,
        f"line {hit.line}",
        hit.created_at[:10],
        ", ".join(hit.tags),
        hit.scope if several else "",
        *dict.fromkeys(cautions(hit)),
    ]
    head = " · ".join(flat(part) for part in about if part)
    lines = [f"{hit.score:.2f}  {head}", *text.splitlines(), *_explained(hit)]
    return "".join(
        f"{INDENT if number else ''}{line}".rstrip() + "\n" for number, line in enumerate(lines)
    )


def flat(text: str) -> str:
    return " ".join(text.split())


def _excerpt(hit: Hit, asked: set[str]) -> str:
    """The lines around the first one that answers the question."""
    lines = [line.rstrip() for line in hit.text.splitlines() if line.strip()]
    if hit.header_path and len(lines) > 1 and lines[0].startswith("#"):
        del lines[0]  # the heading, which stands in the line above
    meets = [number for number, line in enumerate(lines) if asked & set(words(line))]
    first = max(0, min(meets[0] - 1, len(lines) - _MOST_LINES)) if meets else 0
    shown = [_cut(line, asked) for line in lines[first : first + _MOST_LINES]]
    if first:
        shown.insert(0, "…")
    if first + _MOST_LINES < len(lines):
        shown.append("…")
    return "\n".join(shown)


def _cut(line: str, asked: set[str]) -> str:
    """A long line cut to what stands around the first word that was asked for."""
    if len(line) <= _MOST_CHARS:
        return line
    places = (match.start() for match in _WORD.finditer(line) if asked & set(words(match[0])))
    start = max(0, min(next(places, 0) - _MOST_CHARS // 3, len(line) - _MOST_CHARS))
    cut = line[start : start + _MOST_CHARS].strip()
    before, after = "…" if start else "", "…" if start + _MOST_CHARS < len(line) else ""
    return f"{before}{cut}{after}"


def _explained(hit: Hit) -> list[str]:
    """Each arm's rank and score, what every part added, and every boost."""
    why = hit.explanation
    if why is None:
        return []
    arms = [f"{arm} {_arm(why[arm])}" for arm in ("text", "vector")]
    added = _numbers(why["parts"], "{} {:+.3f}")
    boosts = _numbers(why["boosts"], "{} x{:g}")
    parts = [", ".join(arms), f"= {added}" if added else "", boosts, _step(why)]
    lines = ["why: " + "; ".join(filter(None, parts))]
    for name in ("names", "dates"):
        found = why[name]
        if isinstance(found, list) and found:
            lines.append(f"{name} in the question: {', '.join(map(str, found))}")
    return lines


def _step(why: Mapping[str, object]) -> str:
    """The step from the sum to the score."""
    step = why["shown"]
    if not isinstance(step, dict):
        return ""
    less = f" - {step['granted']:g} granted" if step["granted"] else ""
    return f"sum {why['sum']:.3f}{less}, shown by {step['slope']:g} around {step['middle']:g}"


def _arm(place: object) -> str:
    rank, score = (place["rank"], place["score"]) if isinstance(place, dict) else (None, 0.0)
    return f"#{rank} ({score:.3f})" if rank else f"({score:.3f})"


def _numbers(values: object, form: str) -> str:
    items = values.items() if isinstance(values, dict) else ()
    return ", ".join(form.format(name, value) for name, value in items)


def highlighting(query: str) -> Callable[[str], str]:
    """Bold for the words of a question, in the text under each head."""
    asked = set(words(query))

    def bold(match: re.Match[str]) -> str:
        word = match[0].rstrip(".'-")
        is_asked = asked & set(words(word))
        return f"\x1b[1m{word}\x1b[0m{match[0][len(word) :]}" if is_asked else match[0]

    def paint(text: str) -> str:
        return "".join(
            _WORD.sub(bold, line) if line.startswith(INDENT) else line
            for line in text.splitlines(keepends=True)
        )

    return paint


search_command = Command(
    _search_arguments,
    _search,
    """Words and meaning count together; a question may name people, files and dates. Files that
changed since the last command are taken in first. Each hit says how it is scored (0 to 1),
where it stands, and whether a file it links to changed, moved or went since it was written,
or is yet to be made.

  retain search "GPU acceleration"
  retain search "what did we decide about tokens last week" --type decision --since 30d
  retain search "JWT" --tags auth,security --text --explain
  retain search "auth" --filter priority=high --json | jq -r '.hits[].id'
  retain search --batch questions.txt > answers.jsonl""",
)


# brief


def _brief_arguments(parser: Parser) -> None:
    parser.add_argument("query", metavar="QUERY", help="what you are about to do")
    parser.add_argument(
        "--budget", type=count, default=2000, metavar="N", help="tokens it may have (2000)"
    )
    parser.add_argument("--limit", type=count, default=12, metavar="N", help="memories (12)")


def _brief(args: argparse.Namespace) -> Output:
    brief = open_app(args).library.brief(args.query, args.budget, args.limit)
    messages = []
    if not brief.items:
        messages.append(
            f"{brief.left_out} memories fit the question, but not into {brief.budget} tokens."
            if brief.left_out
            else "Nothing fits well enough; `retain search` lists what is nearest."
        )
    return Output(
        shapes.brief(args.query, brief),
        brief.text,
        quiet=brief.text,
        messages=messages,
        warnings=shortfalls(brief.degraded),
    )


brief_command = Command(
    _brief_arguments,
    _brief,
    """What an agent should know before it starts: the best hits with title, date, source and a
handle, fenced as data. `retain get m:4f2a` gives the whole memory. When nothing fits, it
prints nothing.

  retain brief "move the login to JWT"
  retain brief "GPU kernels" --budget 800 --json""",
)
