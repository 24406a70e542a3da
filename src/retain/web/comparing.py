"""Two texts side by side: which lines are the same, which changed, and which words in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from itertools import zip_longest
from typing import Final, NamedTuple

from markupsafe import Markup

__all__ = ["Compared", "Line", "Side", "compared"]

_AROUND: Final = 3  # lines that are the same and shown around those that are not
_MOST_LINES: Final = (
    6_000  # of which lines that moved are looked for; beyond, the middle is one block
)
_LONGEST: Final = 2_000  # characters of a line whose words are compared
_ALIKE: Final = 0.3  # how much of two lines must be the same to compare them word by word
_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")


class Side(NamedTuple):
    """A line of one of the two texts; no number where it has none beside the other's."""

    number: int | None
    text: Markup


class Line(NamedTuple):
    """A line of both, or some that are left out because they are the same."""

    kind: str  # same, changed, removed, added, skipped
    old: Side
    new: Side
    skipped: int = 0


class Compared(NamedTuple):
    """Two texts, compared."""

    lines: tuple[Line, ...]
    removed: int
    added: int


_NOTHING: Final = Side(None, Markup(""))


def compared(old: str, new: str) -> Compared:
    """What changed from one text to another."""
    before, after = old.splitlines(), new.splitlines()
    lines: list[Line] = []
    for tag, first, last, start, end in _steps(before, after):
        if tag == "equal":
            lines += _same(before[first:last], first, start, end < len(after))
        else:
            lines += _changed(before[first:last], after[start:end], first, start)
    removed = sum(line.kind in ("removed", "changed") for line in lines)
    added = sum(line.kind in ("added", "changed") for line in lines)
    return Compared(tuple(lines), removed, added)


_Step = tuple[str, int, int, int, int]


def _steps(before: Sequence[str], after: Sequence[str]) -> Iterator[_Step]:
    """How one list of lines becomes the other; what both begin and end with costs nothing."""
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    if head:
        yield ("equal", 0, head, 0, head)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(old) + len(new) > _MOST_LINES:
        yield ("replace", head, head + len(old), head, head + len(new))
    else:
        for tag, *at in SequenceMatcher(None, old, new).get_opcodes():
            first, last, start, end = (head + one for one in at)
            yield (tag, first, last, start, end)
    if tail:
        size, other = len(before), len(after)
        yield ("equal", size - tail, size, other - tail, other)


def _same(lines: Sequence[str], first: int, start: int, goes_on: bool) -> Iterator[Line]:
    """Lines that are the same; the middle of many is left out."""
    lead = _AROUND if first or start else 0
    trail = _AROUND if goes_on else 0
    hidden = len(lines) - lead - trail
    for at, text in enumerate(lines):
        if hidden > 2 and lead <= at < lead + hidden:
            if at == lead:
                yield Line("skipped", _NOTHING, _NOTHING, hidden)
            continue
        shown = Markup(escape(text))  # noqa: S704
        yield Line("same", Side(first + at + 1, shown), Side(start + at + 1, shown))


def _changed(old: Sequence[str], new: Sequence[str], first: int, start: int) -> Iterator[Line]:
    for at, (was, now) in enumerate(zip_longest(old, new)):
        if was is None:
            yield Line("added", _NOTHING, Side(start + at + 1, _marked("ins", [(now, True)])))
        elif now is None:
            yield Line("removed", Side(first + at + 1, _marked("del", [(was, True)])), _NOTHING)
        else:
            left, right = _words(was, now)
            yield Line(
                "changed",
                Side(first + at + 1, _marked("del", left)),
                Side(start + at + 1, _marked("ins", right)),
            )


_Pieces = list[tuple[str, bool]]  # text, and whether it is in this one alone


def _words(was: str, now: str) -> tuple[_Pieces, _Pieces]:
    """Both lines in pieces; lines that have little in common differ as a whole."""
    if max(len(was), len(now)) > _LONGEST:
        return [(was, True)], [(now, True)]
    old, new = _WORDS.findall(was), _WORDS.findall(now)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [(was, True)], [(now, True)]
    left: _Pieces = []
    right: _Pieces = []
    for tag, first, last, start, end in matcher.get_opcodes():
        left.append(("".join(old[first:last]), tag != "equal"))
        right.append(("".join(new[start:end]), tag != "equal"))
    return left, right


def _marked(mark: str, pieces: _Pieces) -> Markup:
    made = (
        f"<{mark}>{escape(text)}</{mark}>" if is_own else escape(text)
        for text, is_own in pieces
        if text
    )
    return Markup("".join(made))  # noqa: S704 - each piece is escaped
