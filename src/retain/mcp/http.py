"""Serving over HTTP: one wall around every route, and an end that nobody has to wait for.

A page in the person's own browser can send requests to this machine, and any program on it can.
So each request must name this server (Host), come from no foreign page (Origin) and carry the
token, before anything else about it is looked at. What is refused says why in one line, and
nothing about the machine.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import ipaddress
import json
import logging
import math
import os
import re
import signal
import socket
import sys
import time
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple, NoReturn

import anyio
import h11
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from retain.errors import RetainError, UsageError
from retain.mcp import token as tokens
from retain.mcp.leaving import leave

__all__ = ["Limits", "app", "serve"]

_GRACE: Final = 2  # seconds for answers under way when the server ends
_LINGER: Final = 1.0  # seconds in which a refused client may finish sending
_SESSIONS: Final = 64  # clients of the revisions before 2026-07-28
_IDLE: Final = 1_800.0  # seconds after which a silent one is forgotten
_CONNECTIONS: Final = 256
_HERE: Final = ("127.0.0.1", "localhost", "[::1]")
_NAME: Final = re.compile(r"(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_TAKEN: Final = {
    errno.EADDRINUSE: "another program uses it",
    errno.EACCES: "you may not use it",
    errno.EADDRNOTAVAIL: "it is no address of this machine",
}


class Limits(NamedTuple):
    """What one server takes."""

    body: int = 4_000_000  # bytes; the largest memory is half of that
    seconds: float = 30.0  # for one request to arrive
    rate: float = 200.0  # requests in a second, over time
    burst: int = 400  # and at once


def serve(
    server: Server[Any],
    host: str,
    port: int,
    cleanup: Callable[[], None],
    *,
    allow: Collection[str] = (),
    limits: Limits | None = None,
) -> NoReturn:
    """Answer at http://host:port/mcp until a signal comes, then clean up and leave."""
    family, address = _resolved(host, port)
    is_ours = ipaddress.ip_address(address[0].partition("%")[0]).is_loopback
    extra = {_allowed(name) for name in allow}
    secret = tokens.token(os.environ) if is_ours else _agreed(host)
    sock = _bound(family, address, host)
    port = sock.getsockname()[1]
    names = _names({host, address[0]}, port) | extra | {_with_port(name, port) for name in extra}
    origins = {f"{scheme}://{name}" for name in names for scheme in ("http", "https")}
    wall = app(server, secret, names, origins, limits or Limits())
    shown = f"http://{_bracketed(host)}:{port}/mcp"
    _quiet()
    _Server(_config(wall, limits or Limits()), server, _welcome(shown, is_ours)).run([sock])
    leave(cleanup, _GRACE)


def app(
    server: Server[Any],
    token: str,
    hosts: Collection[str],
    origins: Collection[str],
    limits: Limits,
) -> ASGIApp:
    """The protocol at /mcp and a sign of life at /healthz, both behind the same wall."""
    inner = server.streamable_http_app(
        max_request_body_size=limits.body,
        max_sessions=_SESSIONS,
        session_idle_timeout=_IDLE,
        # The wall does it, for every route and not just for one.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        custom_starlette_routes=[Route("/healthz", _healthz, methods=["GET"])],
    )
    inner.router.redirect_slashes = False  # behind a proxy it would lead from https to http
    return _Wall(inner, token, hosts, origins, limits)


async def _healthz(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})


# The wall


class _Refusal(NamedTuple):
    status: int
    reason: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


_BEARER: Final = ((b"www-authenticate", b'Bearer realm="retain"'),)
_TOO_LARGE: Final = _Refusal(413, "The request is too large")
_TOO_SLOW: Final = _Refusal(408, "The request took too long to arrive")


class _Bucket:
    """So many requests at once, and so many a second after that."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._level, self._at = float(burst), time.monotonic()

    def take(self) -> _Refusal | None:
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return None
        seconds = math.ceil((1 - self._level) / self._rate)
        return _Refusal(429, "Too many requests", ((b"retry-after", b"%d" % seconds),))


class _Wall:
    """The checks that every request passes, whatever its path, before an app sees it."""

    def __init__(
        self,
        inner: ASGIApp,
        token: str,
        hosts: Collection[str],
        origins: Collection[str],
        limits: Limits,
    ) -> None:
        self._inner, self._limits = inner, limits
        self._token = hashlib.sha256(token.encode()).digest()
        self._hosts, self._origins = frozenset(hosts), frozenset(origins)
        # Two, so that a flood without the token takes nothing from those who have it.
        self._known = _Bucket(limits.rate, limits.burst)
        self._strangers = _Bucket(limits.rate, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            refusal = self._verdict(scope)
            if refusal:
                await _refuse(refusal, receive, send)
            else:
                await self._answer(scope, receive, send)

    def _verdict(self, scope: Scope) -> _Refusal | None:
        refusal = self._stranger(scope)
        if refusal:
            return self._strangers.take() or refusal
        return self._known.take() or _unfit(scope, self._limits.body)

    def _stranger(self, scope: Scope) -> _Refusal | None:
        """Why a request is not from a client of ours, if it is not."""
        host, origin = _header(scope, b"host"), _header(scope, b"origin")
        if len(host) != 1 or host[0].lower() not in self._hosts:
            return _Refusal(421, "The Host header does not name this server")
        if len(origin) > 1 or not self._origins.issuperset(origin):
            return _Refusal(403, "The Origin header names a foreign page")
        if not self._knows(_header(scope, b"authorization")):
            return _Refusal(401, "The token is missing or wrong", _BEARER)
        return None

    def _knows(self, given: list[str]) -> bool:
        scheme, _, value = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        digest = hashlib.sha256(value.strip().encode("latin-1")).digest()
        return hmac.compare_digest(digest, self._token) and scheme.lower() == "bearer"

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._body(receive)
        if isinstance(body, _Refusal):
            await _refuse(body, receive, send)
        elif body is not None:
            try:
                await self._inner(scope, _replayed(body, receive), send)
            except Exception as error:  # noqa: BLE001 - the client has its 500; this is the log
                print(f"retain mcp: {error!r}", file=sys.stderr)  # noqa: T201

    async def _body(self, receive: Receive) -> bytes | _Refusal | None:
        """A request's whole body, or why it is not taken; None if the client has gone."""
        body = bytearray()
        with anyio.move_on_after(self._limits.seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > self._limits.body:
                    return _TOO_LARGE
                if not message.get("more_body", False):
                    return bytes(body)
        return _TOO_SLOW


def _header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _unfit(scope: Scope, most: int) -> _Refusal | None:
    """What is wrong with a request of a client of ours, as far as its headers tell."""
    kind = ",".join(_header(scope, b"content-type")).partition(";")[0].strip().lower()
    if scope["method"] == "POST" and kind != "application/json":
        return _Refusal(415, "The Content-Type must be application/json")
    length = "".join(_header(scope, b"content-length"))
    if length.isdecimal() and int(length) > most:
        return _TOO_LARGE
    return None


async def _refuse(refusal: _Refusal, receive: Receive, send: Send) -> None:
    """Answer at once, then let the client finish: cut off while it sends, it would see nothing."""
    body = json.dumps({"error": refusal.reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        *refusal.headers,
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    with anyio.move_on_after(_LINGER):
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.body", "body": b""})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What an app receives when the body has been read already."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


# Names and addresses


def _resolved(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    """The address to serve at; what counts is where it leads and not what it is called."""
    try:
        if not host:
            raise UsageError("--host needs a name or an address")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is no address of this machine: {error}") from None
    family, _, _, _, address = found[0]
    return family, address


def _agreed(host: str) -> str:
    """The token for a server that others can reach: one that its owner knows of."""
    found = tokens.kept(os.environ)
    if not found:
        raise RetainError(
            f"{host} can be reached from other machines, and there is no token yet",
            unchanged="Nothing was started.",
            hint="Make one with `retain mcp token`, or leave out --host.",
        )
    return found


def _bound(family: int, address: tuple[Any, ...], host: str) -> socket.socket:
    """A socket that listens already, so that a port is taken or not before anything is said."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except OSError as error:
        sock.close()
        reason = _TAKEN.get(error.errno or 0, error.strerror)
        raise RetainError(
            f"cannot serve at {_bracketed(host)}:{address[1]}: {reason}",
            unchanged="Nothing was started.",
            hint="Choose another with --port N; --port 0 takes any that is free.",
        ) from None
    return sock


def _names(hosts: set[str], port: int) -> set[str]:
    """The Host headers that mean this server; never 0.0.0.0, which a web page can ask for."""
    here = {*_HERE, *map(_bracketed, hosts)} - {"0.0.0.0", "[::]"}  # noqa: S104 - not bound
    names = {f"{name.lower()}:{port}" for name in here}
    return names | {name.lower() for name in here} if port == 80 else names


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _allowed(name: str) -> str:
    name = name.lower()
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--allow-host {name!r} is no name of a host",
            hint="It is NAME or NAME:PORT, as clients write it in their URL.",
        )
    return name


def _with_port(name: str, port: int) -> str:
    return name if re.search(r":[0-9]+$", name) else f"{name}:{port}"


# The server's life


def _welcome(url: str, is_ours: bool) -> str:
    text = (
        f"Retain answers at {url}\n"
        "Every request needs the header `Authorization: Bearer TOKEN`; `retain mcp token` shows "
        "the token.\n"
    )
    if is_ours:
        return text
    return text + (
        "Other machines can reach this, and nothing is encrypted: put a proxy with TLS before it. "
        "Names beside the address itself need --allow-host.\n"
    )


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
        timeout_keep_alive=math.ceil(limits.seconds),
        timeout_graceful_shutdown=_GRACE,
    )


class _Punctual(H11Protocol):
    """A connection whose requests must begin in time: silence does not keep it."""

    patience = 30.0
    _late: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(self.patience, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._forgive()
        elif self._late is None and self.timeout_keep_alive_task is None:
            self._late = self.loop.call_later(self.patience, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forgive()
        super().connection_lost(exc)

    def _forgive(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """A server that says when it is ready and takes a signal for a wish, not for a failure."""

    def __init__(self, config: uvicorn.Config, server: Server[Any], welcome: str) -> None:
        super().__init__(config)
        entry = server.get_request_handler("subscriptions/listen")
        self._listening = entry.handler if entry else None
        self._welcome = welcome

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._welcome, end="", file=sys.stderr, flush=True)  # noqa: T201

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if isinstance(self._listening, ListenHandler):
            self._listening.close()  # else those streams use up the whole grace
        await super().shutdown(sockets)
