"""Markdown that only shows: nothing in it acts on the terminal, and no link opens by itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Final

from textual.widgets import Markdown

from retain.chat.texts import inert

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


_PAUSE: Final = 0.08  # seconds between two times that text is added
_PAINT: Final = 0.02  # seconds in which what was added is laid out
_SHARE: Final = 4  # times what adding took, before more is added


class Prose(Markdown):
    """A reply, or what a command has to say."""

    def __init__(self, text: str | None = None, *, classes: str = "") -> None:
        super().__init__(
            None if text is None else inert(text),
            classes=classes,
            parser_factory=_parser,
            open_links=False,
        )


class Stream:
    """Text on its way to the screen, gathered for a while before it is added.

    Each time the last block is read and coloured anew, all of it: a long block of code, added to
    with every word, would take up the machine.
    """

    def __init__(self, prose: Prose) -> None:
        self._prose = prose
        self._parts: list[str] = []
        self._has_ended = asyncio.Event()
        self._pouring: asyncio.Task[None] | None = None

    def write(self, text: str) -> None:
        """Show this soon."""
        self._parts.append(text)
        if self._pouring is None:
            self._pouring = asyncio.create_task(self._pour())

    async def stop(self) -> None:
        """Show all of it now."""
        self._has_ended.set()
        if self._pouring:
            await asyncio.shield(self._pouring)

    async def _pour(self) -> None:
        while self._parts:
            text = "".join(self._parts)
            self._parts.clear()
            before = time.thread_time()
            await self._prose.append(text)
            await self._rest(_PAINT)
            await self._rest(max(_PAUSE, _SHARE * (time.thread_time() - before)))
        self._pouring = None

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_ended.wait(), seconds)


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Without `linkify` names of files stay names: README.md is no address in Moldova.
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    parser.core.ruler.push("inert", _make_inert)
    return parser


def _make_inert(state: StateCore) -> None:
    """Take the force from what entities such as `&#x202e;` have become."""
    _calm(state.tokens)


def _calm(tokens: Iterable[Token]) -> None:
    for token in tokens:
        token.content = inert(token.content)
        if token.children:
            _calm(token.children)
