"""Serving over standard input and output: nothing but the protocol leaves, and nothing stays.

The process ends when its client goes: at the end of input, at a broken pipe, at a signal. A host
that closes the pipe waits about two seconds before it kills; work under way gets less than that.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn

import anyio
from mcp.server.stdio import stdio_server

from retain.httpd.shutdown import leave

_GRACE: Final = 1.5  # seconds for a write under way


def serve(server: Any, cleanup: Callable[[], None]) -> NoReturn:
    """Answer until the client goes, then clean up and leave."""
    threading.Thread(target=_leave_with_reader, args=(os.dup(1), cleanup), daemon=True).start()
    code = 0
    try:
        anyio.run(_serve, server, cleanup)
    except BaseExceptionGroup as group:
        if group.split((BrokenPipeError, ConnectionError))[1] is not None:
            print(f"retain mcp: {group!r}", file=sys.stderr)  # noqa: T201
            code = 1
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    leave(cleanup, _GRACE, code)


def _leave_with_reader(fd: int, cleanup: Callable[[], None]) -> None:
    """Leave when nobody reads the answers any more; the transport would wait for its next line."""
    poller = select.poll()
    poller.register(fd, 0)  # errors and hang-ups are always told
    poller.poll()
    leave(cleanup, _GRACE)


async def _serve(server: Any, cleanup: Callable[[], None]) -> None:
    async def end_at_signal() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                # The reader's thread waits for a line that may never come: nobody waits for it.
                leave(cleanup, _GRACE)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_at_signal)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
            # The last answers go out, unless nobody reads them.
            late = threading.Timer(_GRACE, leave, (cleanup, _GRACE))
            late.daemon = True
            late.start()
        tasks.cancel_scope.cancel()
