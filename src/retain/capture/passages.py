"""What was said around some places of a message: whole sentences, with the code in them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["Sentences"]

_BESIDE: Final = 1  # sentences before and after one
# A line's end, or a sentence's; the number of an item in a list ends none.
_END: Final = re.compile(r"\n+|(?<=[.!?])(?<!\d\.)[ \t]+|(?<=[\u3002\uff01\uff1f])")

_Spans = Iterable[tuple[int, int]]


class Sentences:
    """A message taken apart: sentences and lines, and each block of code as one of them.

    `fences` and `inline` tell where in a text code is.
    """

    def __init__(
        self, text: str, fences: Callable[[str], _Spans], inline: Callable[[str], _Spans]
    ) -> None:
        self._text, self._inline = text, inline
        self._spans = [
            (start, end) for start, end in self._all(fences(text)) if text[start:end].strip()
        ]
        self._starts = [start for start, _ in self._spans]

    def at(self, place: int) -> str:
        """The sentence that a place of the text is in."""
        start, end = self._spans[self._number(place)]
        return self._text[start:end].strip()

    def around(self, places: Iterable[int]) -> list[str]:
        """The sentences that places are in, and those beside them; what touches is one passage."""
        chosen: list[tuple[int, int]] = []
        for number in sorted(map(self._number, places)):
            first, last = max(0, number - _BESIDE), min(len(self._spans) - 1, number + _BESIDE)
            if chosen and first <= chosen[-1][1] + 1:
                first, _ = chosen.pop()
            chosen.append((first, last))
        return [
            self._text[self._spans[first][0] : self._spans[last][1]].strip("\n")
            for first, last in chosen
        ]

    def _number(self, place: int) -> int:
        return max(0, bisect_right(self._starts, place) - 1)

    def _all(self, fences: _Spans) -> Iterator[tuple[int, int]]:
        at = 0
        for start, end in fences:
            yield from self._sentences(at, start)
            yield start, end
            at = end
        yield from self._sentences(at, len(self._text))

    def _sentences(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        code = [(first + a, first + b) for a, b in self._inline(self._text[first:last])]
        starts = [start for start, _ in code]
        at = first
        for end in _END.finditer(self._text, first, last):
            before = bisect_right(starts, end.start()) - 1
            is_code = before >= 0 and end.start() < code[before][1]
            # Two odd marks can be lines apart; code within a sentence is on one line.
            if is_code and not end[0].startswith("\n"):
                continue
            yield at, end.start()
            at = end.end()
        yield at, last
