"""HTTP to a server that may be slow or hostile: every answer has an end, in time and in size.

Only an adapter whose client uses `httpx` imports this, when it is first asked something.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import httpx

from retain.index.engines.arm import EngineError
from retain.index.engines.trouble import Speaker
from retain.index.engines.wanted import check_wanted

# Servers close what is idle, many after five seconds: a connection that is kept as long as that
# is closed in the very moment in which it is used again.
_KEPT: Final = 2.0
MOST: Final = 64 * 1024 * 1024  # bytes of an answer; a page of a manifest has less than one
FOUND: Final = 4 * 1024 * 1024  # of one to a search, which a person waits for


class _Bounded(httpx.SyncByteStream):
    """A body that is read no longer than patience lasts, and no further than its limit."""

    def __init__(self, inner: httpx.SyncByteStream, patience: float, most: int) -> None:
        self._inner, self._end, self._most = inner, time.monotonic() + patience, most

    def __iter__(self) -> Iterator[bytes]:
        left = self._most
        for part in self._inner:
            left -= len(part)
            if left < 0:
                raise httpx.DecodingError("too large")
            # One byte now and then would keep the usual limit, which is for each read, for ever.
            if time.monotonic() > self._end:
                raise httpx.ReadTimeout("too slow")
            yield part

    def close(self) -> None:
        self._inner.close()


def options(
    patience: float, connections: int, addresses: int = 1, most: int = MOST
) -> dict[str, Any]:
    """What a client's connections are made with, to one of so many addresses.

    No answer has more than so many bytes; a request may say `most` in its extensions.
    """
    # A machine that is gone says nothing: there must be time left for the others.
    limits = httpx.Timeout(patience, connect=patience / addresses)

    def ask(request: httpx.Request) -> None:
        check_wanted()
        # Whole seconds are all that some clients can be told.
        request.extensions["timeout"] = limits.as_dict()
        request.headers["accept-encoding"] = "identity"

    def bound(response: httpx.Response) -> None:
        # It was not asked for: a small answer could unfold into all the memory there is.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx.DecodingError("packed")
        stream = response.stream
        if isinstance(stream, httpx.SyncByteStream):
            limit = response.request.extensions.get("most", most)
            response.stream = _Bounded(stream, patience, limit)

    return {
        "event_hooks": {"request": [ask], "response": [bound]},
        "limits": httpx.Limits(
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=_KEPT,
        ),
        "follow_redirects": False,  # the key is for this server alone
    }


def is_away(error: BaseException) -> bool:
    """Whether there was no connection, or it broke: nothing is known of what was asked."""
    if isinstance(error, httpx.TimeoutException):
        return isinstance(error, httpx.ConnectTimeout)
    return isinstance(error, httpx.TransportError) and not isinstance(
        error, httpx.UnsupportedProtocol
    )


def is_cut(error: BaseException) -> bool:
    """Whether a connection ended under a request, as one does that was kept for too long."""
    return isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)


def failure(speaker: Speaker, error: BaseException) -> EngineError:
    """What went wrong on the way, as an error of ours."""
    if isinstance(error, httpx.TimeoutException):
        return speaker.down("did not answer in time")
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return speaker.unusable()
    if isinstance(error, httpx.ConnectError) and (untrusted := speaker.untrusted(error)):
        return untrusted
    if isinstance(error, httpx.TransportError | OSError):
        return speaker.down("cannot be reached")
    return speaker.unreadable()
