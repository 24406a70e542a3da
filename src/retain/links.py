"""Find the wikilinks of a body, and say from the words around each how it relates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from retain.chunks import fences

__all__ = ["MOST", "Link", "count", "links", "normal"]

MOST: Final = 10_000  # links of one text; a memory that has more is no longer one
_LONGEST: Final = 500  # characters of a target, and of its anchor and label together
_AROUND: Final = 100  # characters of context on each side


class Link(NamedTuple):
    """One `[[wikilink]]`; `memory_edge` is its edge if the target turns out to be a memory."""

    target: str
    kind: str  # memory, ghost, or empty: a memory if there is one of that id
    label: str
    anchor: str
    edge: str
    memory_edge: str
    context: str
    line: int


class _Target(NamedTuple):
    name: str
    kind: str
    label: str
    anchor: str


class _Found(NamedTuple):
    start: int
    end: int
    target: _Target


def links(body: str) -> list[Link]:
    """Read the links outside code, in order; several to one target are all kept."""
    if "[[" not in body:
        return []
    found = list(islice(_outside(_found(body), _code(body)), MOST))
    cuts = [0, *(_divide(body, one.end, other.start) for one, other in pairwise(found)), len(body)]
    result = []
    line, counted = 1, 0
    for one, (first, last) in zip(found, pairwise(cuts), strict=False):
        line += body.count("\n", counted, one.start)
        counted = one.start
        before, after = _before(body, first, one.start), _after(body, one.end, last)
        context = " ".join((before + body[one.start : one.end] + after).split())
        result.append(_link(one.target, before, after, context, line))
    return result


def count(body: str) -> int:
    """How many links stand outside code, those beyond the first MOST among them."""
    return sum(1 for _ in _outside(_found(body), _code(body))) if "[[" in body else 0


def _link(target: _Target, before: str, after: str, context: str, line: int) -> Link:
    name, kind, label, anchor = target
    edge, memory_edge = _edges(before, after)
    edge = memory_edge if kind == "memory" else edge
    return Link(name, kind, label, anchor, edge, memory_edge, context, line)


def normal(target: str) -> str:
    """A path as lookups compare it: no `./`, `//` or `a/..`; one that leaves the root is kept."""
    given = target.strip()
    if "/" not in given or "://" in given:
        return given
    steps: list[str] = []
    for step in map(str.strip, given.split("/")):
        if step == ".." and not steps:
            return given
        if step == "..":
            steps.pop()
        elif step not in ("", "."):
            steps.append(step)
    root = "/" if given.startswith("/") else ""
    return root + "/".join(steps) or "."


# Links


def _found(body: str) -> Iterator[_Found]:
    """The links, code or not; text is passed over once, however many brackets it has."""
    at = 0
    while (end := body.find("]]", at)) >= 0:
        start = body.rfind("[[", at, end)
        if start >= 0:
            if body.startswith("]", end + 2) and _is_open(body, start + 2, end):
                end += 1  # [[app/[id]]]
            target = _target(body[start + 2 : end]) if end - start <= 2 * _LONGEST else None
            if target:
                yield _Found(start, end + 2, target)
        at = end + 2


def _is_open(body: str, start: int, end: int) -> bool:
    return body.count("[", start, end) > body.count("]", start, end)


def _target(text: str) -> _Target | None:
    if "\n" in text:
        return None
    place, _, label = text.partition("|")
    # In a table the bar is written `\|`.
    place = place.removesuffix("\\") if label else place
    name, _, anchor = place.partition("#")
    name, kind = _kind(name.strip())
    name = normal(name)
    if not name or len(name) > _LONGEST:
        return None
    return _Target(name, kind, label.strip(), anchor.strip())


# Endings of files that people point at; a memory is meant by a bare `name.md`.
_ENDINGS: Final = frozenset(
    """
    asm astro avif bash bat bin bz2 c cc cfg cjs clj cmake cmd conf cpp cs css csv cts cxx dart db
    diff dll doc docx ejs elm env erl ex exs fish gif go gradle graphql groovy gz h hbs hcl hh hpp
    hrl hs htm html hxx ico ini ipynb jar java jl jpeg jpg js json json5 jsonc jsonl jsx kt kts less
    lock log lua m mdx mjs mk ml mm mts nim nix odt org parquet patch pdf php pl plist png pptx
    prisma properties proto ps1 psd1 psm1 py pyc pyi pyx r rb rs rst sass scala scss sh sln so sol
    sql sqlite svelte svg swift tar tex tf tfvars tgz tmpl toml ts tsv tsx txt vim vue wasm webp
    whl xls xlsx xml yaml yml zig zip zsh
    """.split()
)


def _kind(name: str) -> tuple[str, str]:
    """A target without the prefix that says its kind, and the kind."""
    prefix, colon, rest = name.partition(":")
    kind = prefix.strip().lower()
    if colon and kind == "memory":
        return rest.strip().removesuffix(".md"), kind
    if colon and kind == "ghost":
        return rest.strip(), kind
    return name, "ghost" if _is_path(name) else ""


def _is_path(name: str) -> bool:
    stem, dot, ending = name.rpartition(".")
    return "/" in name or "\\" in name or bool(dot and (not stem or ending.lower() in _ENDINGS))


# Code

_TICKS: Final = re.compile(r"(?<!\\)`+")
_NEW_BLOCK: Final = re.compile(r"[ \t]*(?:[#>|]|(?:[-*+]|\d{1,9}[.)])[ \t])")


def _outside(found: Iterable[_Found], code: Iterable[tuple[int, int]]) -> Iterator[_Found]:
    spans = iter(code)
    span = next(spans, None)
    for one in found:
        while span and span[1] <= one.start:
            span = next(spans, None)
        if not span or one.end <= span[0]:
            yield one


def _code(body: str) -> Iterator[tuple[int, int]]:
    """The code of a body, in order: its fences, and the spans between backticks."""
    if "`" not in body and "~~~" not in body:
        return
    lines = body.split("\n")
    at = 0
    for start, end, is_fence in _blocks(lines):
        size = sum(map(len, lines[start:end])) + end - start
        if is_fence:
            yield at, at + size
        else:
            yield from _spans(body, at, at + size)
        at += size


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    """All lines as fences and blocks of text; no code within a line reaches beyond its block."""
    at = 0
    for first, last in (*fences(lines), (len(lines), len(lines))):
        starts = [n for n in range(at + 1, first) if _starts_block(lines[n])]
        for start, end in pairwise((at, *starts, first)):
            yield start, end, False
        if first < last:
            yield first, last, True
        at = last


def _starts_block(line: str) -> bool:
    return not line.strip() or bool(_NEW_BLOCK.match(line))


def _spans(body: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Pair each run of backticks with the next one of the same length."""
    runs = [found.span() for found in _TICKS.finditer(body, start, end)]
    following: dict[int, int] = {}
    closing: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        size = runs[at][1] - runs[at][0]
        if size in following:
            closing[at] = following[size]
        following[size] = at
    at = 0
    while at < len(runs):
        close = closing.get(at)
        if close is not None:
            yield runs[at][0], runs[close][1]
            at = close
        at += 1


# Context

_SENTENCE_END: Final = re.compile(r"[.!?\u2026][\"')\]*_\u2019\u201d]*\s|[\u3002\uff01\uff1f]")
_LINE_END: Final = re.compile(r"\n")
_CLAUSE_END: Final = re.compile(
    r"[,;:]\s|[\uff0c\uff1b\u3001\u2014]|\s[-\u2013]\s|\s(?=(?:and|but|or|then|while)\s)"
)
_CUT_START: Final = re.compile(r"\w{1,30}(?!\w)")
_CUT_END: Final = re.compile(r"(?<!\w)\w{1,30}$")


def _divide(body: str, start: int, end: int) -> int:
    """Where the text between two links stops to be about the first of them."""
    middle = (start + end) // 2
    if start == end or end - start > 2 * _AROUND:  # neither reaches as far
        return middle
    for pattern in (_LINE_END, _SENTENCE_END, _CLAUSE_END):
        cuts = [found.end() for found in pattern.finditer(body, start, end)]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    # A word in the middle goes to the second: verbs stand before what they are about.
    space = body.rfind(" ", start, middle + 1)
    return space if space >= 0 else middle


def _before(body: str, first: int, start: int) -> str:
    """The text before a link, without the end of a word whose start is too far away."""
    at = max(first, start - _AROUND)
    found = _CUT_START.match(body, at, start) if at > first and body[at - 1].isalnum() else None
    return body[found.end() if found else at : start]


def _after(body: str, end: int, last: int) -> str:
    at = min(last, end + _AROUND)
    found = _CUT_END.search(body[end:at]) if at < last and body[at].isalnum() else None
    return body[end : end + found.start() if found else at]


def _own(before: str, after: str) -> tuple[str, str]:
    """What stands in the same sentence, on the same line."""
    before = before.rpartition("\n")[2]
    after = after.partition("\n")[0]
    for found in [*_SENTENCE_END.finditer(before)][-1:]:
        before = before[found.end() :]
    ends = _SENTENCE_END.search(after)
    return before, after[: ends.end()] if ends else after


# Edges

_Ranks = Mapping[str, tuple[int, str]]


def _ranks(words: Mapping[str, str]) -> _Ranks:
    """Each word (`_` is a space in it) with its edge; the edge of the lowest number wins."""
    return {
        word.replace("_", " "): (rank, edge)
        for rank, (edge, listed) in enumerate(words.items())
        for word in listed.split()
    }


_GHOST_EDGES: Final = _ranks(
    {
        "refactors": """
            refactor refactors refactored refactoring refactorings rewrite rewrites rewrote
            rewritten rewriting restructure restructures restructured restructuring reorganize
            reorganizes reorganized reorganizing reorganise reorganises reorganised reorganising
            cleanup cleanups clean-up clean_up cleans_up cleaned_up cleaning_up
        """,
        "plans": """
            plan plans planned planning todo todos to-do to-dos will ll should shouldn need_to
            needs_to needed_to going_to gonna
        """,
        "debugs": """
            bug bugs buggy debug debugs debugged debugging bugfix bugfixes hotfix hotfixes fix fixes
            fixed fixing issue issues error errors problem problems broken
        """,
        "mentions": """
            note notes noted noting remember remembers remembered remembering mention mentions
            mentioned mentioning see_also refer refers referred referring reference references
            referenced referencing
        """,
    }
)
_MEMORY_EDGES: Final = _ranks(
    {
        "superseded_by": "superseded_by replaced_by obsoleted_by deprecated_by",
        "supersedes": """
            supersede supersedes superseded superseding replace replaces replaced replacing obsolete
            obsoletes obsoleted obsoleting deprecate deprecates deprecated deprecating
        """,
        "contradicts": """
            contradict contradicts contradicted contradicting conflict_with conflicts_with
            conflicted_with conflicting_with disagree_with disagrees_with disagreed_with
            disagreeing_with
        """,
        "extends": """
            extend extends extended extending build_on builds_on built_on building_on elaborate
            elaborates elaborated elaborating expand_on expands_on expanded_on expanding_on
        """,
        "depends_on": """
            depend_on depends_on depended_on depending_on dependent_on require requires required
            requiring need needs needed needing
        """,
    }
)
_PHRASES: Final = [word for word in (*_GHOST_EDGES, *_MEMORY_EDGES) if not word.isalnum()]
# A phrase is one word, so that "need to" is no need; so is a path, which only names something.
_WORD: Final = re.compile(rf"(?:{'|'.join(_PHRASES)})\b|\w+(?:[./\\]\w+)*")
# With these right after a link, the link is what supersedes, or is superseded.
_TURNED: Final = dict.fromkeys("supersedes replaces obsoletes deprecates".split(), "superseded by")
_TURNED.update(dict.fromkeys((word for word in _PHRASES if word.endswith(" by")), "supersedes"))
_BETWEEN: Final = frozenset(
    "is are was were has have had been being be now which that also".split()
)


def _edges(before: str, after: str) -> tuple[str, str]:
    """The edge of a ghost and that of a memory, by the link's own sentence or else by all."""
    own = _own(before, after)
    edge, memory_edge = _reading(*own)
    if own != (before, after):
        wider = _reading(before, after)
        edge, memory_edge = edge or wider[0], memory_edge or wider[1]
    return edge or "related_to", memory_edge or "related_to"


def _reading(before: str, after: str) -> tuple[str, str]:
    words = _words(before) + _turned(_words(after))
    return _edge(_GHOST_EDGES, words), _edge(_MEMORY_EDGES, words)


def _edge(ranks: _Ranks, words: Iterable[str]) -> str:
    return min((ranks[word] for word in words if word in ranks), default=(0, ""))[1]


def _words(text: str) -> list[str]:
    return _WORD.findall(" ".join(text.lower().split()))


def _turned(words: list[str]) -> list[str]:
    """The words after a link, with their verb as if the link were its object."""
    at = next((at for at, word in enumerate(words) if word not in _BETWEEN), 0)
    return words[:at] + [_TURNED.get(word, word) for word in words[at : at + 1]] + words[at + 1 :]
