"""The middleware before every route of a server: Host, Origin, token, size and rate.

A page in the person's own browser can send requests to this machine, and any program on it can.
So a request must name this server, come from no foreign page and show that it may enter, before
anything else about it is looked at. A refusal is one line that says nothing about the machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retain.httpd.logging import log_fault

_MAX_DIGITS: Final = 18  # of a Content-Length; Python refuses to read thousands
_LINGER: Final = 1.0  # seconds in which a refused client may finish sending

Headers = tuple[tuple[bytes, bytes], ...]


class Limits(NamedTuple):
    """What one server takes."""

    body: int = 4_000_000  # bytes; the largest memory is half of that
    address: int = 60_000  # bytes of a path and its query
    seconds: float = 30.0  # for one request to arrive
    rate: float = 200.0  # requests in a second, over time
    burst: int = 400  # and at once
    stranger_body: int = 20_000  # bytes of a body from a client without the token
    stranger_seconds: float = 2.0  # for that body to arrive


class Refusal(NamedTuple):
    """An answer that ends a request before the app sees it; a page in place of JSON for people."""

    status: int
    reason: str
    headers: Headers = ()
    page: bytes = b""


# Says why a request may not enter; None if it may.
Authorize = Callable[[Scope], Refusal | None]

# What `Authorize` says of a request that anyone may send, in order to get in.
OPEN: Final = Refusal(0, "")

_BEARER: Final = ((b"www-authenticate", b'Bearer realm="retain"'),)
_TOO_LARGE: Final = Refusal(413, "The request is too large")
_TOO_SLOW: Final = Refusal(408, "The request took too long to arrive")
_CODES: Final = {
    401: "no-token",
    403: "foreign",
    408: "too-slow",
    413: "limit",
    414: "limit",
    421: "foreign",
    429: "busy",
}
_OWN_SITES: Final = frozenset(("same-origin", "none"))  # a page of ours, or the person themselves


class _RateLimit:
    """A token bucket: `burst` requests at once, and `rate` a second after that."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._level, self._at = float(burst), time.monotonic()

    def take(self) -> Refusal | None:
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return None
        seconds = math.ceil((1 - self._level) / self._rate)
        return Refusal(429, "Too many requests", ((b"retry-after", b"%d" % seconds),))


class SecurityMiddleware:
    """The checks that every request passes, whatever its path, before the app sees it."""

    def __init__(
        self,
        app: ASGIApp,
        authorize: Authorize,
        hosts: Collection[str],
        origins: Collection[str],
        limits: Limits,
        headers: Headers = (),
        *,
        is_page: Callable[[Scope], bool] = lambda _scope: False,
    ) -> None:
        """`is_page` says which addresses a person may reach by a link on a foreign page."""
        self._app, self._authorize, self._limits = app, authorize, limits
        self._is_page, self._headers = is_page, headers
        self._hosts, self._origins = frozenset(hosts), frozenset(origins)
        # A flood without the token takes nothing from those who have it.
        self._clients = _RateLimit(limits.rate, limits.burst)
        self._strangers = _RateLimit(limits.rate, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        send = _add_headers(send, self._headers)
        access = self._authorize(scope)
        refusal = self._check(scope, access)
        body: bytes | None = b""
        if refusal is None:
            limits, is_open = self._limits, access is OPEN
            body, refusal = await _read_body(
                receive,
                limits.stranger_body if is_open else limits.body,
                limits.stranger_seconds if is_open else limits.seconds,
            )
        if refusal:
            await _refuse(refusal, receive, send)
        elif body is not None:
            try:
                await self._app(scope, _replay(body, receive), send)
            except Exception as error:  # noqa: BLE001 - the client has its 500; this is the log
                log_fault(error, "answering")

    def _check(self, scope: Scope, access: Refusal | None) -> Refusal | None:
        # Requests of foreign pages are counted nowhere: a page can send as many as it likes.
        if foreign := self._check_source(scope):
            return foreign
        if access is None:
            return self._clients.take() or self._check_format(scope)
        if access is OPEN:  # not counted: else wrong codes would keep a right one out
            return self._check_format(scope)
        # The page that tells people the way in costs no more than a word about the rate.
        return access if access.page else self._strangers.take() or access

    def _check_source(self, scope: Scope) -> Refusal | None:
        """Refuse what does not name this server, or comes from a page that is not its own."""
        host, origin = header(scope, b"host"), header(scope, b"origin")
        if len(host) != 1 or host[0].lower() not in self._hosts:
            return Refusal(421, "The Host header does not name this server")
        if len(origin) > 1 or not self._origins.issuperset(origin):
            return Refusal(403, "The Origin header names a foreign page")
        # Another server on this machine counts as the same site, whose cookies browsers send, and
        # what a page only loads has no Origin. A person may follow a link to a page from anywhere.
        if origin or _OWN_SITES.issuperset(header(scope, b"sec-fetch-site")):
            return None
        is_followed = header(scope, b"sec-fetch-mode") == ["navigate"]
        is_shown = header(scope, b"sec-fetch-dest") == ["document"]
        if is_followed and is_shown and scope["method"] == "GET" and self._is_page(scope):
            return None
        return Refusal(403, "The request comes from a foreign page")

    def _check_format(self, scope: Scope) -> Refusal | None:
        if len(scope["raw_path"]) + len(scope["query_string"]) > self._limits.address:
            return Refusal(414, "The address is too long")
        kind = ",".join(header(scope, b"content-type")).partition(";")[0].strip().lower()
        length = "".join(header(scope, b"content-length"))
        has_body = length not in ("", "0") or bool(header(scope, b"transfer-encoding"))
        if (scope["method"] == "POST" or has_body) and kind != "application/json":
            return Refusal(415, "The Content-Type must be application/json")
        if length.isdecimal() and (len(length) > _MAX_DIGITS or int(length) > self._limits.body):
            return _TOO_LARGE
        return None


def bearer(token: str) -> Authorize:
    """Admit requests that carry the token."""
    expected = hashlib.sha256(token.encode()).digest()

    def authorize(scope: Scope) -> Refusal | None:
        values = header(scope, b"authorization")
        scheme, _, value = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        digest = hashlib.sha256(value.strip().encode("latin-1")).digest()
        if hmac.compare_digest(digest, expected) and scheme.lower() == "bearer":
            return None
        return Refusal(401, "The token is missing or wrong", _BEARER)

    return authorize


def error_body(code: str, message: str, unchanged: str = "", hint: str = "") -> dict[str, object]:
    """An error as every door over HTTP writes it."""
    return {"error": {"code": code, "message": message, "unchanged": unchanged, "hint": hint}}


def header(scope: Scope, name: bytes) -> list[str]:
    """Every value that a request has for a header; two may contradict each other."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def _read_body(
    receive: Receive, limit: int, seconds: float
) -> tuple[bytes | None, Refusal | None]:
    """Read a request's body, or say why it is not taken; neither if the client has gone."""
    body = bytearray()
    with anyio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None, None
            body += message.get("body", b"")
            if len(body) > limit:
                return None, _TOO_LARGE
            if not message.get("more_body", False):
                return bytes(body), None
    return None, _TOO_SLOW


async def _refuse(refusal: Refusal, receive: Receive, send: Send) -> None:
    """Answer at once, then let the client finish: cut off while it sends, it would see nothing."""
    code = _CODES.get(refusal.status, "usage")
    text = json.dumps(error_body(code, refusal.reason, "Nothing was changed."))
    body = refusal.page or text.encode()
    kind = b"text/html; charset=utf-8" if refusal.page else b"application/json"
    headers = [
        (b"content-type", kind),
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


def _add_headers(send: Send, headers: Headers) -> Send:
    """Put headers into every answer, refusals and faults among them."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            missing = [pair for pair in headers if pair[0] not in present]
            message = {**message, "headers": [*message["headers"], *missing]}
        await send(message)

    return send_with_headers


def _replay(body: bytes, receive: Receive) -> Receive:
    """Hand an app the body that has been read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
