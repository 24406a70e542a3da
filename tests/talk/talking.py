"""A chat in a project, with the real packages, a server on this machine and one event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from retain.app import App
from retain.sessions.store import Sessions
from retain.talk.approval import Answer, Question
from retain.talk.chat import Chat
from retain.talk.commands import Commands, Shown
from retain.talk.events import ChatEvent, MemorySaved, Notice, TextDelta
from tests.talk.models.sides import SIDES
from tests.talk.servers import Asked, Server, running

__all__ = ["Talk", "notices", "saved", "talking", "text_of"]

_Result = TypeVar("_Result")


def chats_of(bank: Path) -> Sessions:
    """The chats that were held in a bank, opened once more."""
    return App(bank=str(bank)).sessions


class Talk:
    """Someone at a chat."""

    def __init__(self, work: Path, server: Server, provider: str, **env: str) -> None:
        self.work, self.server, self.side = work, server, SIDES[provider]
        self.runner = asyncio.Runner()
        self.questions: list[Question] = []
        self.answer: Callable[[Question], Awaitable[Answer]] = _agree
        world = {**os.environ, **env}
        self.chat = Chat(
            App(cwd=str(work), env=world),
            ask=self._ask,
            env={**world, **self.side.env(server.url)},
            model=self.side.name,
        )
        self.commands = Commands(self.chat)

    async def _ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return await self.answer(question)

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self.runner.run(work)

    def say(self, text: str) -> list[ChatEvent]:
        """Everything that happens until the reply is done with."""
        return self.run(self._said(text))

    async def _said(self, text: str) -> list[ChatEvent]:
        return [one async for one in self.chat.conversation.send(text)]

    def type(self, line: str) -> Shown:
        return self.run(self.commands.run(line))

    def leave(self) -> None:
        self.run(self.chat.leave())

    @property
    def asked(self) -> Asked:
        """The last request."""
        return self.server.asked[-1]

    @property
    def system(self) -> str:
        """The system prompt of the last request."""
        if self.side.provider == "anthropic":
            return "\n\n".join(one["text"] for one in self.asked.body["system"])
        return str(self.asked.body["messages"][0]["content"])

    @property
    def session(self) -> str:
        assert self.chat.session
        return self.chat.session.id

    @property
    def kept(self) -> list[tuple[str, str]]:
        """What is on disk of the conversation."""
        return [(one.role, one.content) for one in self.chat.sessions.messages(self.session)]

    def close(self) -> None:
        self.chat.close()
        self.runner.close()


async def _agree(_: Question) -> Answer:
    return Answer("once")


@contextmanager
def talking(work: Path, provider: str = "anthropic", **env: str) -> Iterator[Talk]:
    """Someone at a chat, and a server that answers."""
    with running() as server:
        talk = Talk(work, server, provider, **env)
        try:
            yield talk
        finally:
            talk.close()


def text_of(happenings: list[ChatEvent]) -> str:
    return "".join(one.text for one in happenings if isinstance(one, TextDelta))


def notices(happenings: list[ChatEvent]) -> list[str]:
    return [one.text for one in happenings if isinstance(one, Notice)]


def saved(happenings: list[ChatEvent]) -> list[tuple[str, str]]:
    """The facts of a reply and what became of them."""
    return [
        (one.saved.status, one.saved.fact) for one in happenings if isinstance(one, MemorySaved)
    ]
