"""Blocking work done in threads, one at a time, and work that is done whoever stops waiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from retain.errors import RetainError

__all__ = ["Away", "alone", "aside", "to_the_end", "within"]

_Result = TypeVar("_Result")


class Away(Protocol):
    """Does blocking work in a thread, alone with the App."""

    async def __call__(self, work: Callable[[], _Result]) -> _Result: ...


async def aside(work: Callable[[], _Result]) -> _Result:
    """Do what blocks on a thread of its own.

    A daemon's thread: one that hangs on a dead disk must not keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def settle(found: _Result | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(found)  # type: ignore[arg-type]

    def body() -> None:
        found, error = None, None
        try:
            found = work()
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it is waited for
            error = raised
        with contextlib.suppress(RuntimeError):  # nobody waits any more, the loop is closed
            loop.call_soon_threadsafe(settle, found, error)

    threading.Thread(target=body, name="retain-aside", daemon=True).start()
    return await done


async def within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Do what blocks, and go on without it when it hangs."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await aside(work)
    except TimeoutError:
        if not limit.expired():
            raise  # the work's own
        raise RetainError(
            f"it did not answer within {seconds:g} seconds and was given up"
        ) from None


async def alone(turn: threading.RLock, work: Callable[[], _Result]) -> _Result:
    """Do blocking work in a thread, under the lock under which one App is used."""

    def locked() -> _Result:
        with turn:
            return work()

    return await aside(locked)


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
