"""Who may enter: whoever has the token, in a header, or in the cookie that a one-time link gave.

A link holds a code and not the token, and holds it behind the `#`, which browsers send to nobody;
the page that it opens trades the code for the cookie. So neither ever stands in a log.

Browsers send a cookie to every port of the name that it came from, and on 127.0.0.1 any program may
listen. So a link leads to a name of this server's own below `localhost`, which browsers take for
this machine and which nobody can guess; and a cookie is good only where it was given, until the day
that it says itself.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterator
from importlib.resources import files
from itertools import islice
from typing import Final

from starlette.types import Scope

from retain.httpd.security import OPEN, Refusal, bearer, header

ENTER: Final = "/api/v1/enter"
NONCE: Final = "X-Retain-Nonce"
PROOF: Final = "X-Retain-Proof"

DAYS: Final = 30  # for which a browser is let in
_MINUTES: Final = 10
_MOST_CODES: Final = 16  # links that wait to be opened
_MOST_NONCE: Final = 100
_MOST_COOKIES: Final = 64  # of our name in one request; a browser has one for each part of a path
_NAME: Final = 8  # bytes of a name that nobody guesses
_SCRIPT: Final = ("<script>", "</script>")
_STYLE: Final = ("<style>", "</style>")


class Entrance:
    """The door of one server; called with a request, it says why that may not come in."""

    def __init__(self, token: str, port: int) -> None:
        self._bearer, self._token, self._port = bearer(token), token, port
        # Cookies do not know of ports: two servers on one machine must not overwrite each other's.
        self.cookie_name = f"retain_{port}"
        # Read by hand: every server of this machine shares its cookies, and the library's parser
        # gives up at the first one that is odd, with ours behind it.
        given = rf"(?:^|;)[ \t]*{self.cookie_name}=([0-9]{{1,12}})\.([\w-]{{22}})\.([\w-]{{43}})"
        self._cookies = re.compile(rf"{given}[ \t]*(?=;|$)", re.ASCII)
        self._codes: dict[bytes, float] = {}
        self._page = files("retain.web").joinpath("templates/enter.html").read_bytes()
        policy = (
            "default-src 'none'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
            f"script-src '{_fingerprint(self._page, _SCRIPT)}'; "
            f"style-src '{_fingerprint(self._page, _STYLE)}'"
        )
        self._headers = ((b"content-security-policy", policy.encode()),)

    def __call__(self, scope: Scope) -> Refusal | None:
        """None for who may come in; everyone else is told how to."""
        if self._has_cookie(scope):
            return None
        refusal = self._bearer(scope)
        if refusal is None:
            return None
        if scope["path"] == ENTER and scope["method"] == "POST":
            return OPEN
        more = self._proofs(scope)
        if _wants_page(scope):
            return refusal._replace(headers=(*self._headers, *more), page=self._page)
        return refusal._replace(headers=(*refusal.headers, *more))

    def cookie(self, host: str) -> str:
        """What lets a browser in that calls this server `host`, and only as long as it does."""
        end, name = str(int(time.time()) + DAYS * 86_400), secrets.token_urlsafe(16)
        return f"{end}.{name}.{self._seal(host, end, name)}"

    def _seal(self, host: str, end: str, name: str) -> str:
        made = _keyed(self._token, f"retain web cookie {host.lower()} {end} {name}")
        return base64.urlsafe_b64encode(made).decode().rstrip("=")

    def _proofs(self, scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
        given = header(scope, NONCE.lower().encode())
        if len(given) != 1 or len(given[0]) > _MOST_NONCE:
            return ()
        at = (scope.get("server") or ("",))[0]
        made = proof(self._token, at, self._port, given[0])
        return ((PROOF.lower().encode(), made.encode()),)

    def code(self) -> str:
        """A code that lets one browser in, once, and soon."""
        self._forget_old()
        while len(self._codes) >= _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        made = secrets.token_urlsafe(24)
        self._codes[_digest(made)] = time.monotonic() + 60 * _MINUTES
        return made

    def takes(self, code: str) -> bool:
        """Whether a code is good; it is not good a second time."""
        self._forget_old()
        return self._codes.pop(_digest(code), None) is not None

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._codes = {code: end for code, end in self._codes.items() if end > now}

    def _has_cookie(self, scope: Scope) -> bool:
        jar = ";".join(header(scope, b"cookie"))
        host = "".join(header(scope, b"host"))
        now = time.time()
        # One that fits is enough: else any of those servers could lock us out with a wrong one.
        return any(
            hmac.compare_digest(seal, self._seal(host, end, name)) and int(end) > now
            for end, name, seal in (one.groups() for one in self._found(jar))
        )

    def _found(self, jar: str) -> Iterator[re.Match[str]]:
        return islice(self._cookies.finditer(jar), _MOST_COOKIES)


def name(token: str, port: int) -> str:
    """What a server is called in the links it gives: the same each time, and known to no other."""
    return f"retain-{_keyed(token, f'retain web name {port}')[:_NAME].hex()}.localhost"


def proof(token: str, address: str, port: int, nonce: str) -> str:
    """What only a server that has the token can answer to a nonce, and only where it listens.

    Who looks for a server that runs already asks for it before it shows the token: any program
    may listen at a port, and at one address of it pass on what we say at another.
    """
    return _keyed(token, f"retain web {address} {port} {nonce}").hex()


def _keyed(token: str, said: str) -> bytes:
    return hmac.digest(token.encode(), said.encode(), hashlib.sha256)


def _wants_page(scope: Scope) -> bool:
    return scope["method"] == "GET" and any("text/html" in one for one in header(scope, b"accept"))


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()


def _fingerprint(page: bytes, marks: tuple[str, str]) -> str:
    """What lets a browser run the one script of a page, or use its one style, and no other."""
    first, last = (mark.encode() for mark in marks)
    inner = page.partition(first)[2].partition(last)[0]
    return f"sha256-{base64.b64encode(hashlib.sha256(inner).digest()).decode()}"
