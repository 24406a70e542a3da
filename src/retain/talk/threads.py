"""Blocking work done in threads, one at a time, and work that is done whoever stops waiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from retain.errors import Busy, RetainError

_TURN_SECONDS: Final = 30.0  # a tool that hangs keeps its turn, and the chat must say so

_Result = TypeVar("_Result")


class Away(Protocol):
    """Does blocking work in a thread, alone with the App."""

    async def __call__(self, work: Callable[[], _Result]) -> _Result: ...


async def run_in_thread(work: Callable[[], _Result]) -> _Result:
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


async def run_within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Do what blocks, and go on without it when it hangs."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await run_in_thread(work)
    except TimeoutError:
        if not limit.expired():
            raise  # the work's own
        raise RetainError(
            f"it did not answer within {seconds:g} seconds and was given up"
        ) from None


async def run_alone(turn: threading.RLock, work: Callable[[], _Result]) -> _Result:
    """Do blocking work in a thread, under the lock under which one App is used."""
    return await run_in_thread(lambda: run_locked(turn, _TURN_SECONDS, work))


def run_locked(turn: threading.RLock, seconds: float, work: Callable[[], _Result]) -> _Result:
    """Do blocking work under a lock, or say that it is not given back."""
    if not turn.acquire(timeout=seconds):
        raise Busy(
            "something that was begun before still uses the memory",
            unchanged="Nothing was changed.",
            hint="Try again; if it does not end, leave and come back with `retain chat -c`.",
        )
    try:
        return work()
    finally:
        turn.release()


async def run_to_end(work: Coroutine[Any, Any, _Result]) -> _Result:
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
