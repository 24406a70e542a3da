"""A server that shows this bank already, found at its port and asked for another link."""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import secrets
from collections.abc import Iterator
from typing import Final, NamedTuple

from retain.web.entrance import NONCE, PROOF, name, proof

__all__ = ["Neighbour", "find"]

_SECONDS: Final = 5.0
_MOST: Final = 65_536


class Neighbour(NamedTuple):
    """A server of the same person's, and a link into it."""

    url: str
    link: str
    plain: str  # the same for a browser that does not find the name in it
    bank: str


def find(host: str, port: int, token: str) -> Neighbour | None:
    """The server at a port, if it is one of this person's; the token is shown to no other."""
    with _connected(host, port) as server:
        try:
            return _asked(server, token) if server else None
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return None  # whatever listens there, it is not ours


@contextlib.contextmanager
def _connected(host: str, port: int) -> Iterator[http.client.HTTPConnection | None]:
    server = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        server.connect()
    except OSError:
        yield None
    else:
        yield server
    finally:
        server.close()


def _asked(server: http.client.HTTPConnection, token: str) -> Neighbour | None:
    nonce = secrets.token_urlsafe(24)
    server.request("GET", "/api/v1/openapi.json", headers={NONCE: nonce})
    refused = server.getresponse()
    refused.read(_MOST)
    given = refused.getheader(PROOF, "").encode("latin-1")
    if not hmac.compare_digest(given, proof(token, server.port, nonce).encode()):
        return None
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    server.request("POST", "/api/v1/links", body=b"{}", headers=headers)
    found = json.loads(server.getresponse().read(_MOST))
    url = f"http://{server.host}:{server.port}"
    link = f"http://{name(token, server.port)}:{server.port}{found['path']}"
    return Neighbour(url, link, f"{url}{found['path']}", str(found["bank"]))
