"""Blocking work done in threads, one at a time, and work that is done whoever stops waiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

__all__ = ["Away", "alone", "to_the_end"]

_Result = TypeVar("_Result")


class Away(Protocol):
    """Does blocking work in a thread, alone with the App."""

    async def __call__(self, work: Callable[[], _Result]) -> _Result: ...


async def alone(turn: threading.RLock, work: Callable[[], _Result]) -> _Result:
    """Do blocking work in a thread, under the lock under which one App is used."""

    def locked() -> _Result:
        with turn:
            return work()

    return await asyncio.to_thread(locked)


async def to_the_end(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Do something that must be done, also where the one who waits for it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, so that nobody complains that it was not
        raise
