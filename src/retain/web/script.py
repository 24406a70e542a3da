"""What the pages of one conversation are shown, numbered, so that none misses anything.

A page that comes late, or again, is told everything behind the last number it has. What a later
word makes needless is forgotten: of a reply that is complete, its pieces.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Collection
from typing import Any, Final, NamedTuple

__all__ = ["Script", "Word"]

_BREATH_SECONDS: Final = 15.0  # a sign of life, by which a page that is gone is noticed
_MOST_WORDS: Final = 1_000  # kept for pages that come late; the session itself has everything


class Word(NamedTuple):
    """One thing that pages are told; words of one piece are about the same place on the page."""

    number: int
    kind: str
    piece: str
    data: dict[str, Any]

    @property
    def told(self) -> dict[str, Any]:
        return {"number": self.number, "kind": self.kind, "piece": self.piece, **self.data}


class Script:
    """The words so far, and the pages that listen; used in one loop alone."""

    def __init__(self) -> None:
        self._words: list[Word] = []
        self._number = self._pieces = 0
        self._news = asyncio.Event()
        self._is_over = False
        self.listeners = 0
        self.alone_since = time.monotonic()

    @property
    def last(self) -> int:
        """The number of the last word."""
        return self._number

    def piece(self) -> str:
        """A name for a new place on the page."""
        self._pieces += 1
        return f"p{self._pieces}"

    def say(self, kind: str, piece: str = "", *, covers: Collection[str] = (), **data: Any) -> None:
        """Tell every page; of the same piece, the kinds that this covers are forgotten."""
        if covers:
            self._words = [
                one for one in self._words if one.piece != piece or one.kind not in covers
            ]
        self._number += 1
        self._words.append(Word(self._number, kind, piece, data))
        del self._words[:-_MOST_WORDS]
        self._wake()

    def since(self, after: int) -> list[Word]:
        """The words behind a number."""
        return [one for one in self._words if one.number > after]

    def end(self) -> None:
        """Let every page go."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def listen(self, after: int) -> AsyncGenerator[str, None]:
        """The words for one page, as server-sent events, for as long as it listens."""
        self.listeners += 1
        try:
            yield "retry: 1000\n\n"
            while True:
                news = self._news
                for one in self.since(after):
                    after = one.number
                    yield f"id: {one.number}\ndata: {json.dumps(one.told)}\n\n"
                if self._is_over:
                    return
                try:
                    await asyncio.wait_for(news.wait(), _BREATH_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self.listeners -= 1
            self.alone_since = time.monotonic()
