"""Two texts side by side: which lines are the same, which changed, and which words in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from itertools import islice, zip_longest
from typing import Final, NamedTuple

from markupsafe import Markup

_CONTEXT: Final = 3  # equal lines that are shown around those that differ
_MAX_ROWS: Final = 2_000  # that are shown; the others are counted
# SequenceMatcher is cubic at worst: what is larger differs as a whole.
_MAX_LINES: Final = 3_000  # of both texts, between their common beginning and end
_MAX_LINE_WORDS: Final = 1_000  # of two lines that are compared word by word
_MAX_WORDS: Final = 10_000  # of all those lines
_MIN_RATIO: Final = 0.3  # of two lines that are compared word by word
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")


class Side(NamedTuple):
    """A line of one of the two texts; no number where it has none beside the other's."""

    number: int | None
    text: Markup


class Row(NamedTuple):
    """A line of both texts, or some that are left out: equal ones, or more than are shown."""

    kind: str  # same, changed, removed, added, skipped, more
    old: Side
    new: Side
    skipped: int = 0


class Diff(NamedTuple):
    """The difference between two texts."""

    rows: tuple[Row, ...]
    removed: int
    added: int
    is_same: bool  # to the byte; texts without a line that differs may have other line endings


_Block = tuple[str, int, int, int, int]  # as SequenceMatcher's opcodes
_EMPTY: Final = Side(None, Markup(""))


def compare(old: str, new: str) -> Diff:
    """Return what changed from one text to another."""
    before, after = old.splitlines(), new.splitlines()
    blocks = _match(before, after)
    rows = list(islice(_rows(blocks, before, after), _MAX_ROWS))
    skipped = sum(row.skipped for row in rows)
    more = max(
        len(before) - skipped - sum(row.old.number is not None for row in rows),
        len(after) - skipped - sum(row.new.number is not None for row in rows),
    )
    if more:
        rows.append(Row("more", _EMPTY, _EMPTY, more))
    differing = [block for block in blocks if block[0] != "equal"]
    removed = sum(last - first for _, first, last, _, _ in differing)
    added = sum(end - start for _, _, _, start, end in differing)
    return Diff(tuple(rows), removed, added, old == new)


def _match(before: Sequence[str], after: Sequence[str]) -> list[_Block]:
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    middle: Sequence[_Block] = [("replace", 0, len(old), 0, len(new))]
    if len(old) + len(new) <= _MAX_LINES:
        middle = SequenceMatcher(None, old, new).get_opcodes()
    blocks: list[_Block] = [("equal", 0, head, 0, head)]
    for tag, first, last, start, end in middle:
        blocks.append((tag, head + first, head + last, head + start, head + end))
    blocks.append(("equal", len(before) - tail, len(before), len(after) - tail, len(after)))
    return blocks


def _rows(blocks: Sequence[_Block], before: Sequence[str], after: Sequence[str]) -> Iterator[Row]:
    words = _WordDiff()
    for tag, first, last, start, end in blocks:
        if tag == "equal":
            yield from _equal_rows(before[first:last], first, start, end < len(after))
        else:
            yield from _changed_rows(before[first:last], after[start:end], first, start, words)


def _equal_rows(lines: Sequence[str], first: int, start: int, has_more: bool) -> Iterator[Row]:
    """Yield lines that are the same; the middle of many is left out."""
    lead = _CONTEXT if first or start else 0
    trail = _CONTEXT if has_more else 0
    hidden = len(lines) - lead - trail
    for index, line in enumerate(lines):
        if hidden > 2 and lead <= index < lead + hidden:
            if index == lead:
                yield Row("skipped", _EMPTY, _EMPTY, hidden)
            continue
        text = Markup(escape(line))  # noqa: S704
        yield Row("same", Side(first + index + 1, text), Side(start + index + 1, text))


def _changed_rows(
    old: Sequence[str], new: Sequence[str], first: int, start: int, words: _WordDiff
) -> Iterator[Row]:
    for index, (was, now) in enumerate(zip_longest(old, new)):
        left, right = first + index + 1, start + index + 1
        if was is None:
            yield Row("added", _EMPTY, Side(right, _mark("ins", [(now, True)])))
        elif now is None:
            yield Row("removed", Side(left, _mark("del", [(was, True)])), _EMPTY)
        else:
            removed, added = words.compare(was, now)
            yield Row(
                "changed", Side(left, _mark("del", removed)), Side(right, _mark("ins", added))
            )


_Parts = list[tuple[str, bool]]  # text, and whether only this line has it


class _WordDiff:
    """Compares lines word by word, up to a number of words."""

    def __init__(self) -> None:
        self._left = _MAX_WORDS

    def compare(self, was: str, now: str) -> tuple[_Parts, _Parts]:
        """Return both lines in parts; lines that have little in common differ as a whole."""
        old, new = _WORD.findall(was), _WORD.findall(now)
        size = len(old) + len(new)
        whole: tuple[_Parts, _Parts] = [(was, True)], [(now, True)]
        if size > min(_MAX_LINE_WORDS, self._left):
            return whole
        self._left -= size
        matcher = SequenceMatcher(str.isspace, old, new, autojunk=False)
        if matcher.ratio() < _MIN_RATIO:
            return whole
        left: _Parts = []
        right: _Parts = []
        for tag, first, last, start, end in matcher.get_opcodes():
            left.append(("".join(old[first:last]), tag != "equal"))
            right.append(("".join(new[start:end]), tag != "equal"))
        return left, right


def _mark(tag: str, parts: _Parts) -> Markup:
    html = (
        f"<{tag}>{escape(text)}</{tag}>" if is_own else escape(text)
        for text, is_own in parts
        if text
    )
    return Markup("".join(html))  # noqa: S704 - each part is escaped
