"""Both providers for one suite of tests, and the real packages asked against a local server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import NamedTuple

from retain import config
from retain.talk.events import Ask, Event, Text, TextDelta, Turn
from retain.talk.models import Model, RetryPolicy, model
from tests.talk.servers import Answer, Server, chat, chat_error, claude, claude_error

__all__ = ["KEY", "QUICK", "SIDES", "Side", "ask", "heard", "text_of"]

KEY = "sk-test-0123456789abcdef"
QUICK = RetryPolicy(pauses=(0, 0, 0))


class Side(NamedTuple):
    """A provider: how it is reached, and how its server speaks."""

    provider: str
    name: str
    path: str
    says: Callable[..., Answer]
    error: Callable[..., Answer]
    too_long: Answer

    def env(self, url: str, **more: str) -> dict[str, str]:
        if self.provider == "anthropic":
            return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **more}
        return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, **more}

    def at(self, server: Server | str, policy: RetryPolicy = QUICK, **more: str) -> Model:
        env = self.env(server if isinstance(server, str) else server.url, **more)
        return model(self.name, config.load("", "", env), env, policy=policy)


SIDES = {
    "anthropic": Side(
        "anthropic",
        "claude-sonnet-5-5",
        "/v1/messages",
        claude,
        claude_error,
        claude_error(
            400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"
        ),
    ),
    "openai": Side(
        "openai",
        "gpt-5",
        "/v1/chat/completions",
        chat,
        chat_error,
        chat_error(400, "context_length_exceeded", "This is more than the model reads."),
    ),
}


def ask(text: str = "hi", **more: object) -> Ask:
    messages = (Turn("user", (Text(text),)),)
    return Ask(("be brief",), messages)._replace(**more)  # type: ignore[arg-type]


def heard(of: Model, asked: Ask | None = None) -> list[Event]:
    """All that happens during one reply."""

    async def listen() -> list[Event]:
        async with aclosing(of.stream(asked or ask())) as events:
            return [event async for event in events]

    return asyncio.run(listen())


def text_of(events: list[Event]) -> str:
    return "".join(one.text for one in events if isinstance(one, TextDelta))
