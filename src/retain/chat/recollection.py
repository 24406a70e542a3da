"""What was typed before: gone through with the arrow keys, the unfinished text kept at its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MOST: Final = 500


class Recollection:
    """Earlier inputs, the oldest first, and where among them the person is."""

    def __init__(self) -> None:
        self._earlier: list[str] = []
        self._at: int | None = None
        self._draft = ""

    def load(self, texts: Iterable[str]) -> None:
        """Put what earlier sessions have before what was typed in this one."""
        mine = self._earlier
        self._earlier = []
        for text in [*texts, *mine]:
            self._keep(text)
        self._at = None

    def add(self, text: str) -> None:
        """Keep what was just sent, and be at the end again."""
        self._keep(text)
        self._at, self._draft = None, ""

    def _keep(self, text: str) -> None:
        if text.strip() and (not self._earlier or self._earlier[-1] != text):
            self._earlier.append(text)
            del self._earlier[:-_MOST]

    def back(self, current: str) -> str | None:
        """The input before; None where there is none. What is being written is kept."""
        if self._at is None:
            self._draft = current
        at = len(self._earlier) if self._at is None else self._at
        if at == 0:
            return None
        self._at = at - 1
        return self._earlier[self._at]

    def forward(self) -> str | None:
        """The input after, in the end what was being written; None where that is shown."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self._earlier):
            return self._earlier[self._at]
        self._at = None
        return self._draft
