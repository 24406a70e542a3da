"""A reply while it grows: its words at once, its blocks laid out as soon as they are whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from retain.web.event_log import EventLog
from retain.web.message_view import inert

_PAUSE: Final = 0.05  # seconds between two words to the pages; smooth, and not a word a token
_FENCES: Final = ("```", "~~~")


class _Blocks:
    """Where the blocks of a text end that comes little by little; each line is looked at once."""

    def __init__(self) -> None:
        self._fence, self._was_blank = "", False
        self._end = self._at = 0  # of the blocks that are whole, and of the lines
        self._line: list[str] = []  # what has come of the next one

    def add(self, text: str) -> int:
        """Take more of the text; how much of all of it is whole blocks by now."""
        *lines, rest = text.split("\n")
        for one in lines:
            self._take("".join((*self._line, one, "\n")))
            self._line.clear()
        if rest:
            self._line.append(rest)
        if self._line and self._begins(self._line[0]):
            self._end = self._at
        return self._end

    def _begins(self, line: str) -> bool:
        return not self._fence and self._was_blank and not line[0].isspace()

    def _take(self, line: str) -> None:
        start, fence = line.lstrip(" "), self._fence
        if self._begins(line):
            self._end = self._at
        if fence:
            ends = start.startswith(fence) and not start.strip(f"{fence[0]} \r\n")
            self._fence = "" if ends else fence
        elif start.startswith(_FENCES):
            self._fence = start[:3]
        self._was_blank = not line.strip()
        self._at += len(line)


class Stream:
    """One piece of a reply, until it is complete; `lay_out` makes HTML of its Markdown."""

    def __init__(self, script: EventLog, lay_out: Callable[[str], Awaitable[str]]) -> None:
        self._script = script
        self._html_of = lay_out
        self._piece = ""
        self._text = ""
        self._blocks = _Blocks()
        self._done = 0  # how much of the text stands laid out on the pages
        self._told = 0  # and how much of it they have been told
        self._timer: asyncio.TimerHandle | None = None

    async def add(self, text: str) -> None:
        """Take more of the reply."""
        self._piece = self._piece or self._script.piece()
        self._text += text
        ready = self._blocks.add(text)
        if ready > self._done:
            await self._lay_out(ready)
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._tell)

    async def _lay_out(self, ready: int) -> None:
        self._hush()
        block = self._text[self._done : ready]
        self._done = ready
        self._told = len(self._text)
        html = await self._html_of(block)
        rest = inert(self._text[self._done :])
        # Earlier blocks stay: only the loose words are in this one now.
        self._script.say("block", self._piece, covers=("delta",), html=html, rest=rest)

    def _tell(self) -> None:
        self._timer = None
        if text := self._text[self._told :]:
            self._told = len(self._text)
            self._script.say("delta", self._piece, text=inert(text))

    def _hush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def end(self) -> None:
        """The piece is complete: it is laid out whole, and the next words begin another."""
        self._hush()
        piece, text = self._piece, self._text
        self._piece, self._text, self._done, self._told = "", "", 0, 0
        self._blocks = _Blocks()
        if text.strip():
            html = await self._html_of(text)
            self._script.say("reply", piece, covers=("delta", "block"), html=html)
