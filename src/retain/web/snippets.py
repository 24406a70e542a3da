"""A hit as people read it: the passage that fits with its words marked, and why it was found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from html import escape
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from retain.memory import Hit
from retain.text import tokens

_WORD: Final = re.compile(r"\w+(?:[.'\u2019+#]\w+)*(?:\+\+|#)?")
# What stands before a line, and what stands around words.
_LEADS: Final = re.compile(
    r"^[ \t]*(?:#{1,6}|>|[-*+]|\d{1,3}[.)])[ \t]+|^[ \t]*(?:```|~~~).*$", re.MULTILINE
)
_MARKS: Final = re.compile(r"\*\*|`|\[\[|\]\]")
_LEANING: Final = re.compile(r"(?<![\w*])([*_])(?=\S)([^*_\n]{1,400}?)(?<=\S)\1(?![\w*])")
_LONGEST: Final = 320  # characters of a passage
_LEAD: Final = 80  # that stand before the first marked word

_NAMES: Final = {
    "text": "words",
    "neighbours": "words nearby",
    "vector": "meaning",
    "answer": "stands below a question like this",
    "memory": "the memory as a whole",
    "speaker": "who said it",
    "date": "date",
    "links": "links",
    "title": "words of its title",
    "question": "is itself a question",
    "first hits": "near the first hits",
}
_BOOSTS: Final = {
    "recent": "recent",
    "superseded": "superseded by another",
    "archived": "archived",
}


class Part(NamedTuple):
    """One thing that speaks for a hit, or against it."""

    name: str
    value: float
    share: float  # of all that speaks for it, from 0 to 1


class Why(NamedTuple):
    """Why a memory was found."""

    short: str
    parts: tuple[Part, ...]
    factors: tuple[tuple[str, float], ...]  # what the sum is multiplied by
    ranks: tuple[tuple[str, int], ...]  # its place among all, by words and by meaning
    sum: float  # of the parts, with the factors; what is shown is made of it


def plain(text: str) -> str:
    """Markdown without its marks, on one line."""
    rows = "\n".join(map(_row, text.splitlines())) if "|" in text else text
    bare = _LEANING.sub(r"\2", _MARKS.sub("", _LEADS.sub(" ", rows)))
    return " ".join(bare.replace(" | ", " · ").split())


def _row(line: str) -> str:
    """A line of a table without its edges; of the line below a table's head nothing is left."""
    if "|" not in line:
        return line
    inner = line.strip().strip("|").strip()
    return "" if "-" in inner and not inner.strip("|:- ") else inner


def excerpt(text: str, wanted: frozenset[str], title: str = "") -> Markup:
    """The part of a text where most of the terms stand, with every form of them marked.

    A title that the text begins with stands above it anyway.
    """
    shown = plain(text)
    rest = shown.removeprefix(plain(title))
    if not rest[:1].isalnum():  # else it is only a word that begins alike
        shown = rest.lstrip(" .")
    if not any(map(str.isalnum, shown)):  # a full stop, or a line of dashes
        return Markup()
    spans = list(_spans(shown, wanted))
    start = _start(shown, spans)
    end = min(len(shown), start + _LONGEST)
    if end < len(shown):
        end = max(shown.rfind(" ", start, end), start + _LONGEST // 2)
    inner = [(first, last) for first, last in spans if start <= first and last <= end]
    made = "".join(_pieces(shown, start, end, inner))
    before, after = "…" if start else "", "…" if end < len(shown) else ""
    return Markup(f"{before}{made}{after}")  # noqa: S704 - every piece is escaped


def marked(text: str, wanted: frozenset[str]) -> Markup:
    """A whole text, on one line, with every form of the terms marked."""
    made = "".join(_pieces(text, 0, len(text), list(_spans(text, wanted))))
    return Markup(made)  # noqa: S704 - every piece is escaped


def _pieces(text: str, start: int, end: int, spans: Collection[tuple[int, int]]) -> Iterator[str]:
    at = start
    for first, last in spans:
        yield escape(text[at:first])
        yield f"<mark>{escape(text[first:last])}</mark>"
        at = last
    yield escape(text[at:end])


def _spans(text: str, wanted: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where words stand whose terms are wanted."""
    if not wanted:
        return
    for word in _WORD.finditer(text):
        found = wanted.intersection(_stems(word[0]))
        if not found:
            continue
        inside = [] if word[0].isascii() else list(_inside(word, found))
        yield from inside or [word.span()]


@lru_cache(maxsize=20_000)
def _stems(word: str) -> tuple[str, ...]:
    """A word's terms; fifty passages on a page have most of their words in common."""
    return tuple(tokens.words(word))


def _inside(word: re.Match[str], found: Collection[str]) -> Iterator[tuple[int, int]]:
    """In scripts without spaces a run of letters is no word: what was asked for is marked alone."""
    pattern = "|".join(re.escape(term) for term in sorted(found, key=len, reverse=True))
    look = re.compile(pattern)
    runs: list[tuple[int, int]] = []
    for at in range(len(word[0])):
        hit = look.match(word[0], at)
        if hit and runs and at <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(runs[-1][1], hit.end()))
        elif hit:
            runs.append(hit.span())
    return ((word.start() + first, word.start() + last) for first, last in runs)


def _start(text: str, spans: list[tuple[int, int]]) -> int:
    """Where an excerpt begins so that most marks are in it."""
    if len(text) <= _LONGEST or not spans:
        return 0
    best, most = 0, 0
    for first, _ in spans[:200]:
        count = sum(first <= one < first + _LONGEST - _LEAD for one, _ in spans[:200])
        if count > most:
            best, most = first, count
    if best <= _LEAD:
        return 0
    cut = text.find(" ", best - _LEAD, best)
    return cut + 1 if cut >= 0 else best


def why(hit: Hit) -> Why | None:
    """Why a hit was found, in words and numbers."""
    told: Mapping[str, Any] | None = hit.explanation
    if told is None:
        return None
    parts: dict[str, float] = told["parts"]
    whole = sum(value for value in parts.values() if value > 0) or 1.0
    ordered = sorted(parts.items(), key=lambda one: -abs(one[1]))
    shown = tuple(
        Part(_NAMES.get(name, name), value, max(0.0, value) / whole) for name, value in ordered
    )
    factors = tuple((_BOOSTS.get(name, name), value) for name, value in told["boosts"].items())
    places = (("by words", told["text"]["rank"]), ("by meaning", told["vector"]["rank"]))
    return Why(
        _short(shown, factors),
        shown,
        factors,
        tuple((name, rank) for name, rank in places if rank),
        told["sum"],
    )


def _short(parts: Collection[Part], factors: Collection[tuple[str, float]]) -> str:
    """The two things that count most, and what changed the score besides."""
    said = [part.name for part in parts if part.share >= 0.15][:2]
    return ", ".join([" and ".join(said), *(name for name, _ in factors)]).strip(", ")
