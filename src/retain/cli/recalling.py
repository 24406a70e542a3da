"""search, brief, linked, related, graph."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retain.app import App
from retain.cli.inputs import add_collection, add_id, count, read_lines, share, split_words
from retain.cli.parser import Command, Parser, open_app
from retain.cli.progress import Bar
from retain.cli.render import Line, Output, Table
from retain.errors import BadName, NotFound, UsageError
from retain.model import Answer, Degraded, Hit, Linked
from retain.words import words

if TYPE_CHECKING:
    from retain.brief import Item
    from retain.recall import Wanted
    from retain.recall.linking import Graph

__all__ = [
    "brief_command",
    "degraded_data",
    "graph_command",
    "linked_command",
    "related_command",
    "search_command",
    "shortfalls",
]

_INDENT = " " * 6
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
        messages=[*_judged(answer), *notes],
        warnings=shortfalls(answer.degraded),
        paint=_highlighting(wanted.query),
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
    from retain.recall import Wanted
    from retain.recall.asking import conditions

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
    hits = [_hit_data(hit) for hit in answer.hits]
    if full:
        for data, hit in zip(hits, answer.hits, strict=True):
            data["content"] = app.library.body(hit)
    return {
        "query": wanted.query,
        "mode": wanted.mode,
        "hits": hits,
        "confidence": answer.confidence,
        "confident": answer.is_confident,
        "degraded": degraded_data(answer.degraded),
        "notes": list(notes),
    }


def _hit_data(hit: Hit) -> dict[str, object]:
    data: dict[str, object] = {
        "id": hit.id,
        "collection": hit.collection,
        "score": hit.score,
        "text": hit.text,
        "header_path": hit.header_path,
        "line": hit.line,
        "title": hit.title,
        "type": hit.type,
        "status": hit.status,
        "tags": list(hit.tags),
        "created_at": hit.created_at or None,
        "who": hit.who or None,
        "scope": hit.scope,
        "file_path": hit.path,
        "superseded": hit.is_superseded,
        "superseded_by": hit.superseded_by or None,
        "links": list(map(_link_data, hit.links)),
    }
    if hit.explanation is not None:
        data["explanation"] = dict(hit.explanation)
    return data


def _link_data(link: Linked) -> dict[str, object]:
    return {
        "target": link.target,
        "edge_type": link.edge,
        "anchor_context": link.context,
        "line": link.line,
        "freshness": link.freshness or None,
        "now_at": link.now_at or None,
        "anchor": link.anchor or None,
        "label": link.label or None,
    }


def degraded_data(degraded: Degraded) -> dict[str, object] | None:
    """In what an answer falls short, for a program."""
    if not degraded:
        return None
    return {"pending": degraded.pending, "reasons": list(degraded.reasons)}


def shortfalls(degraded: Degraded) -> list[str]:
    """The same for a person."""
    notes = list(degraded.reasons)
    if degraded.pending:
        notes.append(
            f"{degraded.pending} parts are found by their words only until they have a vector; "
            "`retain index` makes them"
        )
    return notes


def _judged(answer: Answer) -> list[str]:
    if not answer.hits:
        return ["Nothing found."]
    return [] if answer.is_confident else ["Nothing fits well; these are only the nearest."]


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
    head = " · ".join(_flat(part) for part in about if part)
    lines = [f"{hit.score:.2f}  {head}", *text.splitlines(), *_explained(hit)]
    return "".join(
        f"{_INDENT if number else ''}{line}".rstrip() + "\n" for number, line in enumerate(lines)
    )


def _flat(text: str) -> str:
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


def _highlighting(query: str) -> Callable[[str], str]:
    """Bold for the words of a question, in the text under each head."""
    asked = set(words(query))

    def bold(match: re.Match[str]) -> str:
        word = match[0].rstrip(".'-")
        is_asked = asked & set(words(word))
        return f"\x1b[1m{word}\x1b[0m{match[0][len(word) :]}" if is_asked else match[0]

    def paint(text: str) -> str:
        return "".join(
            _WORD.sub(bold, line) if line.startswith(_INDENT) else line
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
    data = {
        "query": args.query,
        "text": brief.text,
        "items": list(map(_item_data, brief.items)),
        "tokens": brief.tokens,
        "budget": brief.budget,
        "left_out": brief.left_out,
        "confidence": brief.confidence,
        "confident": brief.is_confident,
        "degraded": degraded_data(brief.degraded),
    }
    messages = []
    if not brief.items:
        messages.append(
            f"{brief.left_out} memories fit the question, but not into {brief.budget} tokens."
            if brief.left_out
            else "Nothing fits well enough; `retain search` lists what is nearest."
        )
    return Output(
        data,
        brief.text,
        quiet=brief.text,
        messages=messages,
        warnings=shortfalls(brief.degraded),
    )


def _item_data(item: Item) -> dict[str, object]:
    hit = item.hit
    return {
        "handle": item.handle,
        "id": hit.id,
        "collection": hit.collection,
        "title": hit.title,
        "created_at": hit.created_at or None,
        "score": hit.score,
        "scope": hit.scope,
        "file_path": hit.path,
        "line": hit.line,
        "superseded": hit.is_superseded,
        "superseded_by": hit.superseded_by or None,
        "links": list(map(_link_data, hit.links)),
        "text": item.text,
        "tokens": item.tokens,
        "cut": item.is_cut,
    }


brief_command = Command(
    _brief_arguments,
    _brief,
    """What an agent should know before it starts: the best hits with title, date, source and a
handle, fenced as data. `retain get m:4f2a` gives the whole memory. When nothing fits, it
prints nothing.

  retain brief "move the login to JWT"
  retain brief "GPU kernels" --budget 800 --json""",
)


# linked


def _linked_arguments(parser: Parser) -> None:
    parser.add_argument("document", metavar="DOC", help="a file of the project, or a memory")
    parser.add_argument(
        "query", nargs="?", default="", metavar="QUERY", help="rank by this; else newest first"
    )
    parser.add_argument("--limit", type=count, default=5, metavar="N", help="how many (5)")


def _linked(args: argparse.Namespace) -> Output:
    answer = open_app(args).library.linked(args.document, args.query, args.limit)
    messages = [] if answer.hits else [f"No memory links to {args.document}."]
    return Output(
        [_linked_data(hit, answer.degraded) for hit in answer.hits],
        "\n".join(_shown_links(hit, bool(args.query)) for hit in answer.hits),
        quiet="".join(f"{hit.ref}\n" for hit in answer.hits),
        messages=messages,
        warnings=shortfalls(answer.degraded),
        paint=_highlighting(args.query),
    )


def _linked_data(hit: Hit, degraded: Degraded) -> dict[str, object]:
    first = _link_data(hit.links[0])
    return {
        "memory_id": f"memory:{hit.ref}",
        "id": hit.id,
        "collection": hit.collection,
        "score": hit.score,
        "title": hit.title,
        "type": hit.type,
        "content": hit.text,
        "anchor_context": first["anchor_context"],
        "edge_type": first["edge_type"],
        "file_path": hit.path,
        "freshness": first["freshness"],
        "line": first["line"],
        "links": list(map(_link_data, hit.links)),
        "degraded": degraded_data(degraded),
    }


def _shown_links(hit: Hit, is_ranked: bool) -> str:
    head = " · ".join(filter(None, (hit.ref, _flat(hit.title), hit.created_at[:10])))
    lines = [f"{hit.score:.2f}  {head}" if is_ranked else head]
    for link in hit.links:
        anchor = f"at #{_flat(link.anchor)}" if link.anchor else ""
        about = filter(None, (link.edge, f"line {link.line}", anchor, _state(link)))
        lines += [f"{_INDENT}{', '.join(about)}: {_flat(link.context)}"]
    return "\n".join(lines) + "\n"


def _state(link: Linked) -> str:
    """How the linked file is now, in words."""
    return f"moved to {link.now_at}" if link.freshness == "moved" else link.freshness


linked_command = Command(
    _linked_arguments,
    _linked,
    """A memory links to a file by naming it in double brackets: [[src/auth.py]]. The words
around it tell how: mentions, plans, refactors, debugs, related_to. Each link says whether
the file is still what it was: fresh, changed, moved or gone; planned is one that never was.
DOC is a path from where you stand, from the project's root as links have it, or a whole one;
a file that moved is found by its new name too.

  retain linked src/auth.py
  retain linked src/auth.py "refactor plans" --limit 10 --json""",
)


# related


def _related_arguments(parser: Parser) -> None:
    add_id(parser, handles=True)
    parser.add_argument("--limit", type=count, default=10, metavar="N", help="how many (10)")


def _related(args: argparse.Namespace) -> Output:
    app = open_app(args)
    found = app.library.related(app.ours(args.id).address, args.limit)
    degraded = app.library.shortfalls()
    table = Table(
        ("Score", "Memory", "Title", "Why"),
        [
            (
                f"{one.score:.2f}",
                f"{one.collection}/{one.id}" if one.collection else one.id,
                one.title,
                ", ".join(f"{why} {value:.2f}" for why, value in one.reasons.items()),
            )
            for one in found
        ],
        empty="Nothing is connected with it.",
        flexible=("Title",),
    )
    return Output(
        [
            {**one._asdict(), "reasons": dict(one.reasons), "degraded": degraded_data(degraded)}
            for one in found
        ],
        table=table,
        quiet="".join(f"{one.collection}/{one.id}\n".removeprefix("/") for one in found),
        warnings=shortfalls(degraded),
    )


related_command = Command(
    _related_arguments,
    _related,
    """By links in either direction, files that both link to, tags they share, and meaning.

  retain related auth-plan
  retain related m:4f2a
  retain related auth-plan --limit 3 --quiet""",
)


# graph


def _graph_arguments(parser: Parser) -> None:
    add_id(parser, handles=True, more="; or a file that memories link to", nargs="?")
    parser.add_argument(
        "--depth", type=count, default=2, metavar="N", help="with an ID: how many steps away (2)"
    )
    parser.add_argument(
        "--format",
        choices=("tree", "json", "dot"),
        default="tree",
        help="tree: for reading, the default; json; dot: for Graphviz",
    )


def _graph(args: argparse.Namespace) -> Output:
    from retain.cli.drawing import dot, tree

    app = open_app(args)
    address, start = _start(app, args.id) if args.id else ("", "")
    graph = app.library.graph(address, args.depth)
    text = dot(graph) if args.format == "dot" else tree(graph, start)
    messages = [] if graph.nodes else ["There are no memories yet."]
    names = "".join(f"{node.name}\n" for node in graph.nodes)
    return Output(lambda: _graph_data(graph), text, quiet=names, messages=messages)


def _start(app: App, ref: str) -> tuple[str, str]:
    """Where a graph begins, as it is asked for and as it is drawn: at a memory, or at a file."""
    try:
        memory = app.ours(ref)
    except (NotFound, BadName):
        ghost = app.library.ghost(ref) if app.place.exists else ""
        if not ghost:
            raise
        return ghost, ghost
    return memory.address, memory.ref


def _graph_data(graph: Graph) -> dict[str, object]:
    return {
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "title": node.title or None,
                "freshness": node.freshness or None,
                "now_at": node.now_at or None,
            }
            for node in graph.nodes
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target.removeprefix("?"),
                "edge_type": edge.edge,
                "anchor_context": edge.context,
                "line": edge.line,
            }
            for edge in graph.edges
        ],
    }


graph_command = Command(
    _graph_arguments,
    _graph,
    """The whole bank, or what is within some steps of one memory or file, in both directions.
Files outside the bank say how they are now; a link that leads nowhere says so; ↑ marks what
is drawn elsewhere already.

  retain graph
  retain graph auth-plan --depth 1
  retain graph src/auth.py
  retain graph --format dot | dot -Tsvg > graph.svg""",
)
