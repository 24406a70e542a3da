"""Requests to the service by its own client, within bounds, and what their failures mean."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from retain.index.engines.arm import EngineError
from retain.index.engines.packages import not_installed
from retain.index.engines.trouble import UNREADABLE

if TYPE_CHECKING:
    import httpx
    from upstash_vector.core.index_operations import IndexOperations

    from retain.index.engines.trouble import Speaker


_LONG: Final = ("/fetch", "/range")  # requests whose answers may be long

T = TypeVar("T")


class _Answered(Exception):
    """The service answered with an error."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status, self.said = status, said


class Connection:
    """The client's operations, each with one end: an answer or an EngineError."""

    def __init__(
        self, url: str, key: str, speaker: Speaker, *, patience: float, connections: int
    ) -> None:
        self._url, self._key, self._speaker = url, key, speaker
        self._patience, self._connections = patience, connections
        self._making = Lock()
        self._http: httpx.Client | None = None
        self._operations: IndexOperations | None = None

    def load(self) -> None:
        """Load what it takes to ask."""
        self._client()

    def ask(self, act: Callable[[IndexOperations], T]) -> T:
        """What the service answers to what the client is told to do."""
        client = self._client()  # which says so where it is not installed
        import httpx

        try:
            return act(client)
        except (_Answered, httpx.HTTPError, httpx.InvalidURL, *UNREADABLE) as error:
            found = self._failure(error)
        raise found from None

    def close(self) -> None:
        http, self._http, self._operations = self._http, None, None
        if http:
            http.close()

    def _client(self) -> IndexOperations:
        with self._making:
            if self._operations is None:
                self._operations = self._connected()
            return self._operations

    def _connected(self) -> IndexOperations:
        try:
            import httpx
            from upstash_vector.core.index_operations import IndexOperations
        except ImportError:
            raise not_installed("upstash") from None
        from retain.index.engines import http

        if not self._url:
            raise self._speaker.unusable()
        self._speaker.check_no_user()
        if not self._key:  # it has no other way in, and a header without one cannot be sent
            raise self._speaker.keyless()
        self._speaker.check_key(self._key)
        connection = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"},
            **http.options(self._patience, self._connections),
        )
        self._http = connection
        url = self._url

        class Index(IndexOperations):
            """The client's operations, over a connection of ours.

            Its own waits ten minutes for an answer and does not tell a wrong key from a server in
            trouble.
            """

            def _execute_request(self, payload: Any = None, path: str = "") -> Any:
                most = http.MOST if path.startswith(_LONG) else http.FOUND
                response = connection.post(url + path, json=payload, extensions={"most": most})
                if response.status_code != 200:
                    raise _Answered(response.status_code, response.text[:2_000])
                body = response.json()
                if "error" in body:
                    raise _Answered(400, str(body["error"]))
                return body["result"]

        return Index()  # type: ignore[no-untyped-call,unused-ignore]

    def _failure(self, error: Exception) -> EngineError:
        from retain.index.engines import http

        if isinstance(error, _Answered):
            answered = self._speaker.absent if error.status == 404 else self._speaker.answered
            return answered(error.status, error.said)
        return http.failure(self._speaker, error)
