"""Who may enter: whoever has the token, in a header, or in the cookie that a one-time link gave.

A link holds a code and not the token, and holds it behind the `#`, which browsers send to nobody;
the page that it opens trades the code for the cookie. So neither ever stands in a log.

Browsers send a cookie to every port of the name that it came from, and on 127.0.0.1 any program may
listen. So a link leads to a name of this server's own below `localhost`, which browsers take for
this machine and which nobody can guess; and a cookie is good only where it was given.

Codes and cookies are signed with the token and say when they end, so any process of the person's
can make a link, and a cookie outlives its server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from importlib.resources import files
from itertools import islice
from typing import Final

from starlette.types import Scope

from retain.httpd.security import OPEN, Refusal, bearer, header

ENTER: Final = "/api/v1/enter"
COOKIE_SECONDS: Final = 30 * 86_400
_CODE_SECONDS: Final = 600
_MAX_COOKIES: Final = 64  # of our name in one request; a browser has one for each part of a path
_SIGNED: Final = r"([0-9]{1,12})\.([\w-]{22})\.([\w-]{43})"  # end, nonce and signature
_CODE: Final = re.compile(_SIGNED, re.ASCII)


class Auth:
    """Decides about one server's requests; called with one, it says why that may not come in."""

    def __init__(self, token: str, port: int) -> None:
        self._bearer, self._token, self._port = bearer(token), token, port
        self._started = int(time.time())
        self._used_codes: dict[str, int] = {}
        # Cookies do not know of ports: two servers on one machine must not overwrite each other's.
        self.cookie_name = f"retain_{port}"
        # Read by hand: every server of this machine shares its cookies, and the library's parser
        # gives up at the first one that is odd, with ours behind it.
        self._cookies = re.compile(
            rf"(?:^|;)[ \t]*{self.cookie_name}={_SIGNED}[ \t]*(?=;|$)", re.ASCII
        )
        self._page = files("retain.web").joinpath("templates/enter.html").read_bytes()
        policy = (
            "default-src 'none'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
            f"script-src '{_fingerprint(self._page, b'script')}'; "
            f"style-src '{_fingerprint(self._page, b'style')}'"
        )
        self._headers = ((b"content-security-policy", policy.encode()),)

    def __call__(self, scope: Scope) -> Refusal | None:
        """Return None for a request that may come in; every other is told how to."""
        if self._has_cookie(scope):
            return None
        refusal = self._bearer(scope)
        if refusal is None:
            return None
        if scope["path"] == ENTER and scope["method"] == "POST":
            return OPEN
        accepts = header(scope, b"accept")
        if scope["method"] == "GET" and any("text/html" in one for one in accepts):
            return refusal._replace(headers=self._headers, page=self._page)
        return refusal

    def make_cookie(self, host: str) -> str:
        """Return the cookie of a browser that calls this server `host`."""
        return _make(self._token, _cookie_purpose(host), COOKIE_SECONDS)

    def take_code(self, code: str) -> bool:
        """Whether a code is good; it is not good a second time, nor for a later server."""
        match = _CODE.fullmatch(code)
        if not match:
            return False
        signature = _sign(self._token, _code_purpose(self._port), match[1], match[2])
        end, now = int(match[1]), time.time()
        is_valid = (
            hmac.compare_digest(match[3], signature)
            and end > now
            and end >= self._started + _CODE_SECONDS
            and match[2] not in self._used_codes
        )
        if is_valid:
            self._used_codes = {nonce: at for nonce, at in self._used_codes.items() if at > now}
            self._used_codes[match[2]] = end
        return is_valid

    def _has_cookie(self, scope: Scope) -> bool:
        cookies = ";".join(header(scope, b"cookie"))
        purpose = _cookie_purpose("".join(header(scope, b"host")))
        now = time.time()
        # One that fits is enough: else any of those servers could lock us out with a wrong one.
        return any(
            hmac.compare_digest(match[3], _sign(self._token, purpose, match[1], match[2]))
            and int(match[1]) > now
            for match in islice(self._cookies.finditer(cookies), _MAX_COOKIES)
        )


def make_code(token: str, port: int) -> str:
    """Return a code that lets one browser in, once, and soon."""
    return _make(token, _code_purpose(port), _CODE_SECONDS)


def own_name(token: str, port: int) -> str:
    """Return the host name in a server's links: the same each time, and known to no other."""
    return f"retain-{_digest(token, f'retain web name {port}')[:8].hex()}.localhost"


def _code_purpose(port: int) -> str:
    return f"link {port}"


def _cookie_purpose(host: str) -> str:
    return f"cookie {host.lower()}"


def _make(token: str, purpose: str, seconds: int) -> str:
    end, nonce = str(int(time.time()) + seconds), secrets.token_urlsafe(16)
    return f"{end}.{nonce}.{_sign(token, purpose, end, nonce)}"


def _sign(token: str, purpose: str, end: str, nonce: str) -> str:
    digest = _digest(token, f"retain web {purpose} {end} {nonce}")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _digest(token: str, text: str) -> bytes:
    return hmac.digest(token.encode(), text.encode(), hashlib.sha256)


def _fingerprint(page: bytes, tag: bytes) -> str:
    """Return what lets a browser run the one script of a page, or use its one style."""
    inner = page.partition(b"<%s>" % tag)[2].partition(b"</%s>" % tag)[0]
    return f"sha256-{base64.b64encode(hashlib.sha256(inner).digest()).decode()}"
