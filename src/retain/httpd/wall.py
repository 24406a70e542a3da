"""One wall around every route of a server, whatever the route.

A page in the person's own browser can send requests to this machine, and any program on it can.
So each request must name this server (Host), come from no foreign page (Origin) and show that it
may enter, before anything else about it is looked at. What is refused says why in one line, and
nothing about the machine.
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

from retain.httpd.faults import log_fault

_DIGITS: Final = 18  # of a length; more are too large, whatever number they make
_LINGER: Final = 1.0  # seconds in which a refused client may finish sending

Headers = tuple[tuple[bytes, bytes], ...]


class Limits(NamedTuple):
    """What one server takes."""

    body: int = 4_000_000  # bytes; the largest memory is half of that
    address: int = 60_000  # bytes of a path and its query
    seconds: float = 30.0  # for one request to arrive
    rate: float = 200.0  # requests in a second, over time
    burst: int = 400  # and at once
    knock: int = 20_000  # bytes of a body from someone who is not known yet
    knock_seconds: float = 2.0  # for that to arrive
    knocks: int = 8  # of them under way


class Refusal(NamedTuple):
    """An answer that ends a request before an app sees it; a page in place of JSON for people."""

    status: int
    reason: str
    headers: Headers = ()
    page: bytes = b""


Entrance = Callable[[Scope], Refusal | None]

# What an entrance says of a request that anyone may send, in order to become known.
OPEN: Final = Refusal(0, "")

# Where a request says that it is from someone who may enter, to whoever minds its connection.
KNOWN: Final = "retain.known"

_BEARER: Final = ((b"www-authenticate", b'Bearer realm="retain"'),)
_TOO_LARGE: Final = Refusal(413, "The request is too large")
_TOO_SLOW: Final = Refusal(408, "The request took too long to arrive")
_FOREIGN: Final = Refusal(403, "The request comes from a foreign page")
_CODES: Final = {
    401: "no-token",
    403: "foreign",
    408: "too-slow",
    413: "limit",
    414: "limit",
    421: "foreign",
    429: "busy",
}
_OWN: Final = frozenset(("same-origin", "none"))  # a page of ours, or the person themselves


class _Bucket:
    """So many requests at once, and so many a second after that."""

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


class Wall:
    """The checks that every request passes, whatever its path, before an app sees it."""

    def __init__(
        self,
        inner: ASGIApp,
        entrance: Entrance,
        hosts: Collection[str],
        origins: Collection[str],
        limits: Limits,
        headers: Headers = (),
        *,
        is_page: Callable[[Scope], bool] = lambda _scope: False,
    ) -> None:
        """`is_page` says what a person may come to by a link that stands anywhere."""
        self._inner, self._entrance, self._limits = inner, entrance, limits
        self._is_page = is_page
        self._headers = headers
        self._hosts, self._origins = frozenset(hosts), frozenset(origins)
        # A flood without the token takes nothing from those who have it, nor from those who are
        # on their way in: these are not counted, else bad codes would keep a good one out.
        self._known = _Bucket(limits.rate, limits.burst)
        self._strangers = _Bucket(limits.rate, limits.burst)
        self._knocking: dict[anyio.CancelScope, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            send = _with_headers(send, self._headers)
            refusal = self._verdict(scope)
            if refusal:
                await _refuse(refusal, receive, send)
            else:
                await self._answer(scope, receive, send)

    def _verdict(self, scope: Scope) -> Refusal | None:
        # What a page elsewhere sends is counted nowhere: it can send as much as it likes.
        if foreign := self._elsewhere(scope):
            return foreign
        refusal = self._entrance(scope)
        if refusal is None:
            return self._known.take() or _unfit(scope, self._limits)
        if refusal is OPEN:
            return _unfit(scope, self._limits)
        # The page that tells people the way costs no more than a word that there were too many.
        return refusal if refusal.page else self._strangers.take() or refusal

    def _elsewhere(self, scope: Scope) -> Refusal | None:
        """Why a request is not meant for this server, or from no page of its own."""
        host, origin = header(scope, b"host"), header(scope, b"origin")
        if len(host) != 1 or host[0].lower() not in self._hosts:
            return Refusal(421, "The Host header does not name this server")
        if len(origin) > 1 or not self._origins.issuperset(origin):
            return Refusal(403, "The Origin header names a foreign page")
        return _foreign(scope, self._is_page)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._entrance(scope) is OPEN:
            send = _leaving(send)
            body = await self._knock(receive)
        else:
            scope[KNOWN] = True
            body = await self._body(receive, self._limits.body, self._limits.seconds)
        if isinstance(body, Refusal):
            await _refuse(body, receive, send)
        elif body is not None:
            try:
                await self._inner(scope, _replayed(body, receive), send)
            except Exception as error:  # noqa: BLE001 - the client has its 500; this is the log
                log_fault(error, "answering")

    async def _knock(self, receive: Receive) -> bytes | Refusal | None:
        """The body of someone who is not known; of too many that take their time, the oldest goes.

        Refusing the newest instead, a few that never finish would keep everyone out.
        """
        if len(self._knocking) >= self._limits.knocks:
            next(iter(self._knocking)).cancel()
        with anyio.CancelScope() as turn:
            self._knocking[turn] = None
            try:
                return await self._body(receive, self._limits.knock, self._limits.knock_seconds)
            finally:
                del self._knocking[turn]
        return _TOO_SLOW

    async def _body(self, receive: Receive, most: int, seconds: float) -> bytes | Refusal | None:
        """A request's whole body, or why it is not taken; None if the client has gone."""
        body = bytearray()
        with anyio.move_on_after(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > most:
                    return _TOO_LARGE
                if not message.get("more_body", False):
                    return bytes(body)
        return _TOO_SLOW


def bearer(token: str) -> Entrance:
    """An entrance for those who send the token."""
    expected = hashlib.sha256(token.encode()).digest()

    def knows(scope: Scope) -> Refusal | None:
        given = header(scope, b"authorization")
        scheme, _, value = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        digest = hashlib.sha256(value.strip().encode("latin-1")).digest()
        if hmac.compare_digest(digest, expected) and scheme.lower() == "bearer":
            return None
        return Refusal(401, "The token is missing or wrong", _BEARER)

    return knows


def shaped(code: str, message: str, unchanged: str = "", hint: str = "") -> dict[str, object]:
    """A refusal as every door over HTTP says it."""
    said = {"code": code, "message": message, "unchanged": unchanged, "hint": hint}
    return {"error": said}


def header(scope: Scope, name: bytes) -> list[str]:
    """Every value that a request has for a header; two may contradict each other."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _foreign(scope: Scope, is_page: Callable[[Scope], bool]) -> Refusal | None:
    """Why a browser should not have sent this, by its own account of who asked for it.

    A page of another server on this machine counts as the same site, whose cookies it sends, and
    what a page only loads has no Origin. A person may follow a link to a page from anywhere.
    """
    if header(scope, b"origin") or _OWN.issuperset(header(scope, b"sec-fetch-site")):
        return None
    is_followed = header(scope, b"sec-fetch-mode") == ["navigate"]
    is_shown = header(scope, b"sec-fetch-dest") == ["document"]
    is_read = scope["method"] == "GET" and is_page(scope)
    return None if is_followed and is_shown and is_read else _FOREIGN


def _unfit(scope: Scope, limits: Limits) -> Refusal | None:
    """What is wrong with a request of a client of ours, as far as its headers tell."""
    if len(scope["raw_path"]) + len(scope["query_string"]) > limits.address:
        return Refusal(414, "The address is too long")
    kind = ",".join(header(scope, b"content-type")).partition(";")[0].strip().lower()
    length = "".join(header(scope, b"content-length"))
    has_body = length not in ("", "0") or bool(header(scope, b"transfer-encoding"))
    if (scope["method"] == "POST" or has_body) and kind != "application/json":
        return Refusal(415, "The Content-Type must be application/json")
    if length.isdecimal() and (len(length) > _DIGITS or int(length) > limits.body):
        return _TOO_LARGE
    return None


async def _refuse(refusal: Refusal, receive: Receive, send: Send) -> None:
    """Answer at once, then let the client finish: cut off while it sends, it would see nothing."""
    said = shaped(_CODES.get(refusal.status, "usage"), refusal.reason, "Nothing was changed.")
    body = refusal.page or json.dumps(said).encode()
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


def _with_headers(send: Send, headers: Headers) -> Send:
    """Every answer has these too, refusals and faults among them."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = {name for name, _ in message["headers"]}
            more = [one for one in headers if one[0] not in said]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


def _leaving(send: Send) -> Send:
    """No stranger keeps a connection: only the answer that lets one in leaves it open."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] != 200:
            kept = [one for one in message["headers"] if one[0] != b"connection"]
            message = {**message, "headers": [*kept, (b"connection", b"close")]}
        await send(message)

    return sending


def _replayed(body: bytes, receive: Receive) -> Receive:
    """What an app receives when the body has been read already."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
