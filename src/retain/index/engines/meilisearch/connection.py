"""Requests to Meilisearch: within time and bounds, and what their failures mean."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from retain.index.engines.arm import EngineError
from retain.index.engines.packages import not_installed
from retain.index.engines.trouble import UNREADABLE, Speaker, plain
from retain.index.engines.wanted import check_wanted

if TYPE_CHECKING:
    from meilisearch import Client
    from requests import PreparedRequest, Response, Session


_MOST_BYTES: Final = 256 * 1024 * 1024  # of a page of documents
_MOST_VALUES: Final = 2_000_000  # in it: each takes a hundred bytes of memory, however short it is
# And of any other answer. That to a search has the terms of hundreds of pieces, which in a script
# without spaces are long; but few values, so that it is soon read.
_FOUND_BYTES: Final = 64 * 1024 * 1024
_FOUND_VALUES: Final = 200_000
_PAGES: Final = "/documents/fetch"
_PART: Final = 1024 * 1024  # of it that is read at once
_FULL: Final = frozenset({"no_space_left_on_device", "database_size_limit_reached"})


class _Answered(Exception):
    """The server answered with a status that says no."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class _Unfit(Exception):
    """An answer that is larger than any can be, or packed, and not looked at for that."""


class Connection:
    """Requests by Meilisearch's own client, with one end to them: an answer or an EngineError."""

    def __init__(self, address: str, key: str, patience: float) -> None:
        self._address = _usable(address)
        self.speaker = Speaker("Meilisearch", address, key)
        self.speaker.address = self._address or "an address that cannot be read"
        self.address = self.speaker.address
        self._key = key
        self._patience = patience
        self._session: Session | None = None

    def ask(self, method: str, path: str, body: Any = None, missing: Any = None) -> Any:
        """The answer to one request; `missing` where there is no such index."""
        try:
            return self._asked(method, path, body)
        except _Answered as answer:
            error = _error(answer.body)
            if missing is not None and error.get("code") == "index_not_found":
                return missing
            raise self._refusal(answer.status, error) from None
        # All that `requests` raises is one of the first two; a body may be nested without end.
        except (OSError, ValueError, RecursionError) as error:
            raise self._trouble(error) from None
        except _Unfit:
            raise self.speaker.unreadable() from None

    def load(self) -> type[Client]:
        """Load the client."""
        try:
            from meilisearch import Client
        except ImportError:
            raise not_installed("meilisearch") from None
        return Client

    def _asked(self, method: str, path: str, body: Any) -> Any:
        check_wanted()
        make = self.load()
        from meilisearch.errors import MeilisearchCommunicationError, MeilisearchTimeoutError

        if not self._address:
            raise self.speaker.refused(
                "cannot be asked", hint="An address looks like http://127.0.0.1:7700."
            )
        self.speaker.check_no_user()
        self.speaker.check_key(self._key)
        if self._session is None:
            self._session = _session(self._key, self._patience)
        # Its headers change with every request, so each has a client of its own; no key in them.
        client = make(self._address)
        kind = "application/json" if body is not None else None
        # For None it would send `null`, which Meilisearch leaves unread when it deletes an index,
        # and takes for the beginning of the next request.
        sent = b"" if body is None else body
        try:
            return client.http.send_request(getattr(self._session, method), path, sent, kind)
        except MeilisearchTimeoutError:
            raise TimeoutError from None
        except MeilisearchCommunicationError as error:
            raise (error.__cause__ if isinstance(error.__cause__, OSError) else OSError()) from None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is no answer of Meilisearch's is a failure of the server, not of Retain."""
        try:
            yield
        except EngineError:
            raise
        except UNREADABLE:
            raise self.speaker.unreadable() from None

    def _refusal(self, status: int, error: Mapping[str, Any]) -> EngineError:
        said = str(error.get("message", ""))
        if error.get("code") in _FULL:
            return self.speaker.answered(507, said)
        return self.speaker.answered(status, said)

    def failed(self, error: Mapping[str, Any]) -> EngineError:
        """What a task says that came to nothing."""
        if error.get("type") == "invalid_request":
            return self._refusal(400, error)
        return self._refusal(500, error)

    def _trouble(self, error: Exception) -> EngineError:
        # Only what kind it is: the text of some of these holds the headers, and so the key.
        from requests import exceptions

        speaker = self.speaker
        if isinstance(error, exceptions.JSONDecodeError | RecursionError):
            return speaker.unreadable()
        if isinstance(error, TimeoutError | exceptions.Timeout):
            return speaker.down(f"did not answer within {self._patience:g} seconds")
        if isinstance(error, exceptions.SSLError) and (untrusted := speaker.untrusted(error)):
            return untrusted
        if isinstance(error, ValueError):
            return speaker.refused("has an address that cannot be used")
        return speaker.down("cannot be reached")

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _session(key: str, patience: float) -> Session:
    """A session that ends in time whatever the server does, and sends the key nowhere else."""
    from requests import Session

    class Bounded(Session):
        def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
            deadline = time.monotonic() + patience
            kwargs |= {"timeout": patience, "stream": True, "allow_redirects": False}
            answer = super().send(request, **kwargs)
            with answer:
                body = _body(answer, deadline, str(request.url).endswith(_PAGES))
            if not 200 <= answer.status_code < 300:
                raise _Answered(answer.status_code, body)
            answer._content = body  # what `content` and `json()` read, and nothing else can set
            return answer

    def authorised(request: PreparedRequest) -> PreparedRequest:
        # Said here, it comes before what a .netrc file might say; without a key nothing is sent.
        request.headers.pop("Authorization", None)
        request.headers["Accept-Encoding"] = "identity"
        if key:
            request.headers["Authorization"] = f"Bearer {key}"
        return request

    session = Bounded()
    session.auth = authorised
    return session


def _body(answer: Response, deadline: float, is_page: bool) -> bytes:
    # It was not asked for: a small answer could unfold into all the memory there is.
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise _Unfit
    body = _read(answer, deadline, _MOST_BYTES if is_page else _FOUND_BYTES)
    values = sum(map(body.count, (b",", b"[", b"{")))
    if values > (_MOST_VALUES if is_page else _FOUND_VALUES):
        raise _Unfit
    return body


def _read(answer: Response, deadline: float, most: int) -> bytes:
    from urllib3.exceptions import HTTPError
    from urllib3.exceptions import TimeoutError as TooLate

    parts, size = [], 0
    try:
        # What there is, and not as much as was asked for: a byte now and then would take for ever.
        while part := answer.raw.read1(_PART, decode_content=False):
            parts.append(part)
            size += len(part)
            if size > most:
                raise _Unfit
            if time.monotonic() > deadline:  # each part came in time, all of them together do not
                raise TimeoutError
    except TooLate:
        raise TimeoutError from None
    except HTTPError:  # it broke off
        raise OSError from None
    return b"".join(parts)


def _error(body: bytes) -> Mapping[str, Any]:
    import json

    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def _usable(address: str) -> str:
    """The address without what only the server is to know; empty if there is no asking it."""
    url = plain(address if "://" in address else f"http://{address}")
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.hostname else ""
