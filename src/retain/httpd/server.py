"""The process of a server: it answers until a signal comes, then ends without delay."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import socket
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from retain.httpd.security import Limits
from retain.httpd.shutdown import leave

_GRACE: Final = 2  # seconds for answers under way when the server ends
_CONNECTIONS: Final = 512  # a request on one more is answered by 503
_HURRY_SECONDS: Final = 2.0  # for a request to begin while more than half of them are in use
_HEAD: Final = 262_144  # bytes; more than the middleware takes, so that it can say what is too long


def run(
    app: ASGIApp,
    socks: list[socket.socket],
    limits: Limits,
    *,
    ready: Callable[[], None],
    ending: Callable[[], None],
    cleanup: Callable[[], None],
) -> NoReturn:
    """Answer until a signal comes, then clean up and leave."""
    for name in ("uvicorn", "sse_starlette"):  # no library logs what clients ask for
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("mcp").setLevel(logging.ERROR)

    class Protocol(_Protocol):
        seconds = limits.seconds

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=Protocol,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_HEAD,
        timeout_keep_alive=math.ceil(limits.seconds),
        timeout_graceful_shutdown=_GRACE,
    )
    _Server(config, ready, ending).run(socks)
    leave(cleanup, _GRACE)


class _Protocol(H11Protocol):
    """A connection that is closed when the head of a request does not arrive in time.

    uvicorn waits without end. Nothing is closed to make room: a request that has been sent would
    be lost with its connection, so past the limit a request is answered by 503.
    """

    seconds = 30.0
    _timer: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_or_stop_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._start_or_stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_or_stop_timer(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None and self.timeout_keep_alive_task is None:
            is_crowded = len(self.connections) > _CONNECTIONS // 2
            seconds = min(self.seconds, _HURRY_SECONDS) if is_crowded else self.seconds
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """A server that says when it is ready, and ends quietly at a signal."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._ready, self._ending = ready, ending

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()  # else open streams use up the whole grace
        await super().shutdown(sockets)
