"""Serving over standard input and output: nothing but the protocol leaves, and nothing stays.

The process ends when its client goes: at the end of input, at a broken pipe, at a signal. A host
that closes the pipe waits about two seconds before it kills; work under way gets less than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

import anyio
import anyio.to_thread

from retain.httpd.leaving import leave

__all__ = ["serve"]

_MOST: Final = 4_000_000  # bytes of one message
_WAITING: Final = 64  # messages that are read ahead
_GRACE: Final = 1.5  # seconds for a write under way
_SMALL: Final = 4_096  # bytes of a message that a pipe takes at once, if it takes any
_ENDS: Final = 300  # bytes at either end of a message that is too long, for its id
_ID: Final = re.compile(rb'[{,]\s*"id"\s*:\s*(\d{1,15}|"[\w.:-]{1,100}")\s*[,}]')


def serve(server: Any, cleanup: Callable[[], None]) -> NoReturn:
    """Answer until the client goes, then clean up and leave."""
    wire = _claim()
    code = 0
    try:
        anyio.run(_serve, server, *wire)
    except BaseExceptionGroup as group:
        if group.split((BrokenPipeError, ConnectionError))[1] is not None:
            print(f"retain mcp: {group!r}", file=sys.stderr)  # noqa: T201
            code = 1
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    leave(cleanup, _GRACE, code)


def _claim() -> tuple[int, int]:
    """The wire for ourselves: what any library prints goes to standard error."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # a host may have closed standard error
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
    os.close(nothing)
    sys.stdout = sys.stderr
    return source, sink


async def _serve(server: Any, source: int, sink: int) -> None:
    from mcp.server.stdio import stdio_server

    async with anyio.create_task_group() as tasks:

        async def end_at_signal() -> None:
            ends = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            with anyio.open_signal_receiver(*ends) as signals:
                async for _ in signals:
                    tasks.cancel_scope.cancel()
                    return

        tasks.start_soon(end_at_signal)
        out = _Sink(sink)
        streams: Any = {"stdin": _Lines(source, out), "stdout": out}
        async with stdio_server(**streams) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


class _Sink:
    """Where messages go out, one at a time."""

    def __init__(self, fd: int) -> None:
        self._fd, self._turn = fd, anyio.Lock()

    async def write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        async with self._turn:
            if len(data) <= _SMALL and select.select([], [self._fd], [], 0)[1]:
                self._write(data)
            else:  # a client that does not read must not stop the loop
                await anyio.to_thread.run_sync(self._write, data, abandon_on_cancel=True)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    async def flush(self) -> None:
        """Nothing is held back."""


class _TooLong(NamedTuple):
    """A message that was not kept, but for the ends of it."""

    ends: bytes


class _Lines:
    """The messages that come in, read on a thread that nobody has to wait for."""

    def __init__(self, fd: int, out: _Sink) -> None:
        self._out = out
        self._loop = asyncio.get_running_loop()
        self._queue = asyncio.Queue[bytes | _TooLong]()
        self._room = threading.Semaphore(_WAITING)
        threading.Thread(target=self._pump, args=(fd,), name="retain-mcp-in", daemon=True).start()

    def _pump(self, fd: int) -> None:
        with open(fd, "rb", closefd=False) as file:
            while line := self._line(file):
                self._room.acquire()
                self._put(line)
        self._put(b"")

    def _line(self, file: Any) -> bytes | _TooLong:
        try:
            line: bytes = file.readline(_MOST + 1)
            if len(line) <= _MOST:
                return line
            start = end = line
            while line and not line.endswith(b"\n"):
                line = file.readline(_MOST)
                end = end[-_ENDS:] + line
        except OSError:
            return b""
        return _TooLong(start[:_ENDS] + end[-_ENDS:])

    def _put(self, line: bytes | _TooLong) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        while isinstance(line := await self._queue.get(), _TooLong):
            self._room.release()
            await self._out.write(_refusal(line.ends))
        if not line:
            raise StopAsyncIteration
        self._room.release()
        return line.decode("utf-8", "replace")


def _refusal(ends: bytes) -> str:
    """The answer to a message that is too long, to the request it is if that can be told."""
    found = _ID.search(ends)
    said = f"The message is longer than {_MOST:,} bytes; nothing was done."
    answer = {
        "jsonrpc": "2.0",
        "id": json.loads(found[1]) if found else None,
        "error": {"code": -32600, "message": said},
    }
    return json.dumps(answer) + "\n"
