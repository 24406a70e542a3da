"""A chat on its screen, driven key by key, with a model's server on this machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from retain.app import App
from retain.chat.screen import Terminal
from retain.talk.chat import Chat
from retain.talk.tools import Asker
from tests.talk.servers import Server, running

__all__ = ["KEY", "Stage", "environment", "played", "text_of"]

KEY = "sk-test-0123456789abcdef"
_SECONDS = 120.0


class Stage:
    """The screen, the keys, and the server behind."""

    def __init__(self, app: Terminal, pilot: Pilot[Any], server: Server) -> None:
        self.app, self.pilot, self.server = app, pilot, server

    @property
    def chat(self) -> Chat:
        assert self.app.controller
        return self.app.controller.chat

    @property
    def text(self) -> str:
        return text_of(self.app)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something to become true."""
        for _ in range(int(_SECONDS / 0.02)):
            if condition():
                await self.pilot.pause()
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"it never came; the screen shows:\n{self.text}")

    async def sees(self, *words: str) -> None:
        """Wait for words to be on the screen."""
        await self.until(lambda: all(word in self.text for word in words))

    async def types(self, text: str) -> None:
        await self.pilot.press(*(_KEYS.get(char, char) for char in text))

    async def sends(self, text: str) -> None:
        """Put a text into the box and press Enter, without waiting for what comes."""
        self.app.entry.insert(text)
        await self.pilot.pause()
        await self.pilot.press("enter")

    async def says(self, text: str) -> None:
        """Send something, and wait until all that comes of it is there."""
        await self.sends(text)
        await self.rest()

    async def rest(self) -> None:
        """Wait until nothing goes on."""
        await self.until(lambda: self.app.replying is None)

    async def asked(self) -> None:
        """Wait for a question, for as long as it takes no answers yet."""
        await self.until(lambda: self.app.query("#approving"))
        await self.pilot.pause(0.5)


_KEYS = {" ": "space", "?": "question_mark", ".": "full_stop", "/": "slash", ",": "comma"}


def environment(server: Server | None) -> dict[str, str]:
    """The process's variables, and a key for the server's model."""
    if server is None:
        return dict(os.environ)
    return {**os.environ, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}


def text_of(app: Terminal) -> str:
    """What the screen shows, without colours and without the blanks at the ends of lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)


def played(
    scene: Callable[[Stage], Awaitable[None]],
    *,
    size: tuple[int, int] = (80, 24),
    resume: str = "",
    has_key: bool = True,
    early: str = "",
) -> None:
    """Play a scene on a screen of that size; `early` is sent before the chat has loaded."""

    async def whole() -> None:
        with running() as server:
            env = environment(server if has_key else None)
            chats: list[Chat] = []
            sent = threading.Event()

            def opened(ask: Asker) -> Chat:
                if early:
                    sent.wait(_SECONDS)
                chats.append(Chat(App(cwd=os.getcwd(), env=env), ask=ask, env=env))
                return chats[0]

            app = Terminal(opened, resume=resume)
            async with app.run_test(size=size) as pilot:
                stage = Stage(app, pilot, server)
                if early:
                    await stage.sends(early)
                    await stage.sees(early, "loading")
                    sent.set()
                await stage.until(app.ready.is_set)
                await scene(stage)
            for chat in chats:
                chat.close()

    asyncio.run(whole())
