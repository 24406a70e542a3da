"""A server's process: it answers until a signal comes, and then nobody has to wait for its end."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import socket
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Iterator
from typing import ClassVar, Final, NoReturn

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from retain.httpd.leaving import leave
from retain.httpd.wall import KNOWN, Limits

_GRACE: Final = 2  # seconds for answers under way when the server ends
_CONNECTIONS: Final = 256
_MOST_SILENT: Final = 64  # of them that may have said nothing yet, or not all that they began
_HEAD: Final = 262_144  # bytes; more than the wall takes, so that what is too long is told why


def run(
    wall: ASGIApp,
    socks: list[socket.socket],
    limits: Limits,
    *,
    ready: Callable[[], None],
    ending: Callable[[], None],
    cleanup: Callable[[], None],
) -> NoReturn:
    """Answer until a signal comes, then clean up and leave."""
    _quiet()
    _Server(_config(wall, limits), ready, ending).run(socks)
    leave(cleanup, _GRACE)


def _quiet() -> None:
    """No library logs what clients ask for; that a session broke down is worth a word."""
    for name in ("uvicorn", "sse_starlette"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("mcp").setLevel(logging.ERROR)


def _config(wall: ASGIApp, limits: Limits) -> uvicorn.Config:
    class Punctual(_Punctual):
        patience = limits.seconds

    return uvicorn.Config(
        wall,
        loop="asyncio",
        http=Punctual,
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


class _Punctual(H11Protocol):
    """A connection whose requests must begin in time: silence does not keep it.

    Nor does it take the place of others: of too many that are silent, the oldest is let go. Who is
    not known is as good as silent until their request is there to its end.
    """

    patience = 30.0
    silent: ClassVar[dict[_Punctual, None]] = {}
    _late: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.SEND_BODY:  # for which the wall has a clock of its own
            self._hurry_no_more()
            self.silent.setdefault(self)
            self._make_room()
        elif self.conn.their_state is not h11.IDLE:
            self._forgive()
        elif self._late is None and self.timeout_keep_alive_task is None:
            self._wait()

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.patience, self.transport.abort)
        self.silent[self] = None
        self._make_room()

    def _make_room(self) -> None:
        while len(self.silent) > _MOST_SILENT:
            oldest = next(iter(self.silent))
            oldest._forgive()
            if not oldest._is_known():
                oldest.transport.abort()

    def _is_known(self) -> bool:
        is_sending = self.conn.their_state is h11.SEND_BODY
        return is_sending and bool(self.scope) and KNOWN in self.scope

    def connection_lost(self, exc: Exception | None) -> None:
        self._forgive()
        super().connection_lost(exc)

    def _forgive(self) -> None:
        self.silent.pop(self, None)
        self._hurry_no_more()

    def _hurry_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """A server that says when it is ready and takes a signal for a wish, not for a failure."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._ready, self._ending = ready, ending

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()  # else open streams use up the whole grace
        await super().shutdown(sockets)
