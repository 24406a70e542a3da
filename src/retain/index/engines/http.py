"""HTTP to a server that may be slow or hostile: every answer has an end, in time and in size.

Only an adapter whose client uses `httpx` imports this, when it is first asked something.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from ssl import SSLError
from typing import Any, Final

import httpx

from retain.index.engines.engine import EngineError
from retain.index.engines.server import MAX_BYTES, Server

# Servers close what is idle, many after five seconds: a connection that is kept as long as that
# is closed in the very moment in which it is used again.
_KEPT_SECONDS: Final = 2.0


class _Bounded(httpx.SyncByteStream):
    """A body that is read for so many seconds, and no further than its limit."""

    def __init__(self, inner: httpx.SyncByteStream, seconds: float) -> None:
        self._inner, self._end = inner, time.monotonic() + seconds

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._inner:
            size += len(part)
            if size > MAX_BYTES:
                raise httpx.DecodingError("too large")
            # One byte now and then would keep the usual limit, which is for each read, for ever.
            if time.monotonic() > self._end:
                raise httpx.ReadTimeout("too slow")
            yield part

    def close(self) -> None:
        self._inner.close()


def http_options(server: Server) -> dict[str, Any]:
    """What a client's connections are made with."""
    # A machine that is gone says nothing: there must be time left for the others.
    limits = httpx.Timeout(server.seconds, connect=server.seconds / len(server.urls))

    def limit_request(request: httpx.Request) -> None:
        request.extensions["timeout"] = limits.as_dict()  # some clients only know whole seconds
        request.headers["accept-encoding"] = "identity"

    def limit_response(response: httpx.Response) -> None:
        # It was not asked for: a small answer could unfold into all the memory there is.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx.DecodingError("packed")
        if isinstance(response.stream, httpx.SyncByteStream):
            response.stream = _Bounded(response.stream, server.seconds)

    return {
        "event_hooks": {"request": [limit_request], "response": [limit_response]},
        "limits": httpx.Limits(keepalive_expiry=_KEPT_SECONDS),
        "follow_redirects": False,  # the key is for this server alone
    }


def http_failure(server: Server, error: BaseException) -> EngineError:
    """What went wrong on the way, or in reading an answer."""
    if isinstance(error, httpx.TimeoutException):
        return server.down("did not answer in time")
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return server.refused("has no certificate that is to be trusted, or none at all")
    if isinstance(error, httpx.TransportError | OSError):
        return server.down("cannot be reached")
    return server.unreadable()


def is_away(error: BaseException) -> bool:
    """Whether there was no connection, or it broke: another address may answer."""
    if isinstance(error, httpx.TimeoutException):
        return isinstance(error, httpx.ConnectTimeout)
    return isinstance(error, httpx.TransportError)
