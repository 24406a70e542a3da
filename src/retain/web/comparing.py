"""Two texts side by side: which lines are the same, which changed, and which words in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import Match, SequenceMatcher
from html import escape
from itertools import islice, zip_longest
from typing import Final, NamedTuple

from markupsafe import Markup

_AROUND: Final = 3  # lines that are the same and shown around those that are not
_MOST_LINES: Final = (
    6_000  # of which lines that moved are looked for; beyond, the middle is one block
)
_MOST_SHOWN: Final = 2_000  # rows; how many more there are is said
_LONGEST: Final = 2_000  # characters of a line whose words are compared
_LOOKS: Final = 5_000_000  # from one word or line to another, for both texts: under a second
_ALIKE: Final = 0.3  # how much of two lines must be the same to compare them word by word
_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")


class Side(NamedTuple):
    """A line of one of the two texts; no number where it has none beside the other's."""

    number: int | None
    text: Markup


class Line(NamedTuple):
    """A line of both, or some that are left out: the same in both, or more than are shown."""

    kind: str  # same, changed, removed, added, skipped, more
    old: Side
    new: Side
    skipped: int = 0


class Compared(NamedTuple):
    """Two texts, compared."""

    lines: tuple[Line, ...]
    removed: int
    added: int
    is_same: bool  # to the byte; texts without a line that differs may have other line endings


_NOTHING: Final = Side(None, Markup(""))


class _Spent(Exception):
    """Two texts take longer to compare than anyone waits."""


class _Work:
    """How often one word or line was looked for among others, for two texts in all."""

    def __init__(self) -> None:
        self._left = _LOOKS

    def spend(self, looks: int) -> None:
        self._left -= looks  # and stays below none: what comes after a long one is not tried
        if self._left < 0:
            raise _Spent


class _Matcher(SequenceMatcher[str]):
    """Finds what two lists have in common, as long as there is work left to do it with."""

    a: Sequence[str]
    b2j: Mapping[str, Sequence[int]]  # where the second list has each

    def __init__(self, work: _Work, old: Sequence[str], new: Sequence[str], autojunk: bool) -> None:
        self._work = work
        super().__init__(None, old, new, autojunk)

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        # Each is looked for at every place where the other list has it, and that once again for
        # each piece that is left: what looks like a short list may take for ever.
        self._work.spend(sum(1 + len(self.b2j.get(one, ())) for one in self.a[alo:ahi]))
        return super().find_longest_match(alo, ahi, blo, bhi)


def compared(old: str, new: str) -> Compared:
    """What changed from one text to another."""
    before, after = old.splitlines(), new.splitlines()
    work = _Work()
    steps = list(_steps(before, after, work))
    lines = list(islice(_rows(steps, before, after, work), _MOST_SHOWN))
    skipped = sum(line.skipped for line in lines)
    more = max(
        len(before) - skipped - sum(line.old.number is not None for line in lines),
        len(after) - skipped - sum(line.new.number is not None for line in lines),
    )
    if more:
        lines.append(Line("more", _NOTHING, _NOTHING, more))
    differing = [step for step in steps if step[0] != "equal"]
    removed = sum(last - first for _, first, last, _, _ in differing)
    added = sum(end - start for _, _, _, start, end in differing)
    return Compared(tuple(lines), removed, added, old == new)


_Step = tuple[str, int, int, int, int]


def _steps(before: Sequence[str], after: Sequence[str], work: _Work) -> Iterator[_Step]:
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
    for tag, *at in _middle(old, new, work):
        first, last, start, end = (head + one for one in at)
        yield (tag, first, last, start, end)
    if tail:
        size, other = len(before), len(after)
        yield ("equal", size - tail, size, other - tail, other)


def _middle(old: Sequence[str], new: Sequence[str], work: _Work) -> Sequence[_Step]:
    whole: _Step = ("replace", 0, len(old), 0, len(new))
    if len(old) + len(new) > _MOST_LINES:
        return [whole]
    try:
        return _Matcher(work, old, new, autojunk=True).get_opcodes()
    except _Spent:
        return [whole]


def _rows(
    steps: Sequence[_Step], before: Sequence[str], after: Sequence[str], work: _Work
) -> Iterator[Line]:
    for tag, first, last, start, end in steps:
        if tag == "equal":
            yield from _same(before[first:last], first, start, end < len(after))
        else:
            yield from _changed(before[first:last], after[start:end], first, start, work)


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


def _changed(
    old: Sequence[str], new: Sequence[str], first: int, start: int, work: _Work
) -> Iterator[Line]:
    for at, (was, now) in enumerate(zip_longest(old, new)):
        if was is None:
            yield Line("added", _NOTHING, Side(start + at + 1, _marked("ins", [(now, True)])))
        elif now is None:
            yield Line("removed", Side(first + at + 1, _marked("del", [(was, True)])), _NOTHING)
        else:
            left, right = _words(was, now, work)
            yield Line(
                "changed",
                Side(first + at + 1, _marked("del", left)),
                Side(start + at + 1, _marked("ins", right)),
            )


_Pieces = list[tuple[str, bool]]  # text, and whether it is in this one alone


def _words(was: str, now: str, work: _Work) -> tuple[_Pieces, _Pieces]:
    """Both lines in pieces; lines that have little in common differ as a whole."""
    whole: tuple[_Pieces, _Pieces] = ([(was, True)], [(now, True)])
    if max(len(was), len(now)) > _LONGEST:
        return whole
    try:
        work.spend(len(was) + len(now))
        old, new = _WORDS.findall(was), _WORDS.findall(now)
        matcher = _Matcher(work, old, new, autojunk=False)
        if matcher.ratio() < _ALIKE:
            return whole
    except _Spent:
        return whole
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
