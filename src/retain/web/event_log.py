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

_BREATH_SECONDS: Final = 15.0  # a sign of life, by which a page that is gone is noticed
_MOST_WORDS: Final = 1_000  # kept for pages that come late; the session itself has everything
_MOST_CHARACTERS: Final = 8_000_000  # of all of them together
# Words that only change what stands on a page already; whoever lacks one lacks no piece.
_CHANGES: Final = frozenset(("state", "delta", "block", "result", "undone"))


class Word(NamedTuple):
    """One thing that pages are told; words of one piece are about the same place on the page."""

    number: int
    kind: str
    piece: str
    data: dict[str, Any]
    size: int = 0  # about how many characters it takes

    @property
    def told(self) -> dict[str, Any]:
        return {"number": self.number, "kind": self.kind, "piece": self.piece, **self.data}


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else len(str(value))


class EventLog:
    """The words so far, and the pages that listen; used in one loop alone."""

    def __init__(self) -> None:
        self._words: list[Word] = []
        self._number = self._pieces = 0
        self._cut: dict[int, int] = {}  # by the number of a word that was cut: pieces it stood for
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
        # How things are is there once, and needed whatever room it takes.
        size = 0 if kind == "state" else _size(data)
        self._words.append(Word(self._number, kind, piece, data, size))
        self._cut_oldest()
        self._wake()

    def withdraw(self, name: str) -> None:
        """Forget one value of every word so far: a later word has it in its place."""
        for at, one in enumerate(self._words):
            if name in one.data:
                data = {key: value for key, value in one.data.items() if key != name}
                self._words[at] = one._replace(data=data, size=_size(data))

    def _cut_oldest(self) -> None:
        """Forget the oldest words until the others have room, the last one in any case."""
        size = sum(one.size for one in self._words)
        while len(self._words) > _MOST_WORDS or size > _MOST_CHARACTERS:
            at = next((at for at, it in enumerate(self._words[:-1]) if it.kind != "state"), None)
            if at is None:
                return
            size -= self._words[at].size
            self._cut_one(at)

    def _cut_one(self, at: int) -> None:
        word = self._words.pop(at)
        if word.kind not in _CHANGES:
            self._cut[word.number] = word.data["count"] if word.kind == "earlier" else 1

    def since(self, after: int) -> list[Word]:
        """The words behind a number; where some of them are gone, that is the first thing said."""
        found = [one for one in self._words if one.number > after]
        gone = {number: count for number, count in self._cut.items() if number > after}
        if gone:
            number = max(gone)
            data = {"count": sum(gone.values())}
            found.append(Word(number, "earlier", f"earlier-{number}", data))
            found.sort(key=lambda one: one.number)
        return found

    def touch(self) -> None:
        """Note that somebody is there, if not with a page that listens."""
        self.alone_since = time.monotonic()

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
            self.touch()
