"""How long a model is waited for, and when the same is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

from retain.talk.events import Event, Retrying, TextDelta, Thinking
from retain.talk.models.errors import ModelError


class Patience(NamedTuple):
    """Seconds: before each new attempt, and at most for each step of one."""

    pauses: tuple[float, ...] = (1, 2, 4, 8)
    longest: float = 60  # a server that asks for a longer wait is not waited for
    connect: float = 10
    # A model may think for minutes, or have to be loaded first, and not every server sends signs of
    # life meanwhile.
    chunk: float = 300


async def patiently(
    attempt: Callable[[], AsyncGenerator[Event, None]], patience: Patience
) -> AsyncGenerator[Event, None]:
    """The events of the first attempt that gets anywhere; a reply once begun is never repeated."""
    pauses = iter(patience.pauses)
    while True:
        begun, said = False, ""
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    begun = begun or not isinstance(event, Thinking)
                    said += event.text if isinstance(event, TextDelta) else ""
                    yield event
        except ModelError as error:
            if begun:
                raise _broken(error, said) from None
            seconds = max(next(pauses, patience.longest + 1), error.retry_after or 0)
            if not error.again or seconds > patience.longest:
                raise
            retrying = Retrying(seconds, error.message)
        else:
            return
        yield retrying
        await asyncio.sleep(retrying.seconds)


def _broken(error: ModelError, said: str) -> ModelError:
    if error.kind == "broken_stream":
        message = error.message
    else:
        message = f"the reply broke off: {error.message}"
    return ModelError("broken_stream", message, hint=error.hint, said=said)
