"""A server that shows this bank already, found at its port and asked for another link."""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import secrets
from typing import Final, NamedTuple

from retain.httpd.address import loopbacks
from retain.web.entrance import NONCE, PROOF, name, proof

_HOST: Final = "127.0.0.1"
_SECONDS: Final = 5.0
_MOST: Final = 65_536


class Neighbour(NamedTuple):
    """A server of the same person's, and a link into it."""

    url: str
    link: str
    plain: str  # the same for a browser that does not find the name in it
    bank: str


def find(port: int, token: str) -> Neighbour | None:
    """The server at a port, if it is one of this person's; the token is shown to no other.

    It is only if it has the port at every address where a browser may look for the link's name.
    """
    try:
        if all(_is_ours(address, port, token) for address in loopbacks()):
            return _asked(port, token)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        pass  # whatever listens there, it is not ours
    return None


def _is_ours(address: str, port: int, token: str) -> bool:
    nonce = secrets.token_urlsafe(24)
    with _connected(address, port) as server:
        server.request("GET", "/api/v1/openapi.json", headers={NONCE: nonce})
        refused = server.getresponse()
        refused.read(_MOST)
    given = refused.getheader(PROOF, "").encode("latin-1")
    return hmac.compare_digest(given, proof(token, address, port, nonce).encode())


def _asked(port: int, token: str) -> Neighbour:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with _connected(_HOST, port) as server:
        server.request("POST", "/api/v1/links", body=b"{}", headers=headers)
        found = json.loads(server.getresponse().read(_MOST))
    url = f"http://{_HOST}:{port}"
    link = f"http://{name(token, port)}:{port}{found['path']}"
    return Neighbour(url, link, f"{url}{found['path']}", str(found["bank"]))


def _connected(host: str, port: int) -> contextlib.closing[http.client.HTTPConnection]:
    return contextlib.closing(http.client.HTTPConnection(host, port, timeout=_SECONDS))
