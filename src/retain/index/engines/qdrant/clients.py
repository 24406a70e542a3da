"""Qdrant's own client asked, on one server or on the first node of a cluster that can say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from retain.index.engines.addresses import is_clear
from retain.index.engines.arm import EngineAbsent, EngineError
from retain.index.engines.packages import not_installed
from retain.index.engines.trouble import UNREADABLE

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from retain.index.engines.trouble import Speaker


T = TypeVar("T")


class Clients:
    """What goes through the client: all that writes or looks after the server."""

    def __init__(
        self, urls: Sequence[str], key: str, speaker: Speaker, *, patience: float, connections: int
    ) -> None:
        self._urls, self._key, self._speaker = urls, key, speaker
        self._at = 0  # which of them is asked
        self._patience, self._connections = patience, connections
        self._clients: dict[int, QdrantClient] = {}  # for each of the addresses that was asked
        self._making = Lock()  # lest each lane makes one

    def load(self) -> None:
        """Load what it takes to ask."""
        self._client()

    def there(self, act: Callable[[QdrantClient], T], otherwise: T) -> T:
        """What is asked of a collection that may not be there."""
        try:
            return self.ask(act)
        except EngineAbsent:
            return otherwise

    def ask(self, act: Callable[[QdrantClient], T], absent: Callable[[], None] | None = None) -> T:
        """The answer; where a collection is not there, the one after `absent` was called."""
        try:
            return self._answer(act)
        except EngineAbsent:
            if absent is None:
                raise
        absent()
        return self._answer(act)

    def _answer(self, act: Callable[[QdrantClient], T]) -> T:
        """What the first node says that can."""
        client = self._client()  # which says so where it is not installed
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ApiException

        others = len(self._urls) - 1
        while True:
            try:
                return self._twice(act, client)
            except (ApiException, QdrantException, *UNREADABLE) as error:
                found, is_away = self._failure(error), self._is_away(error)
            if is_away:
                self._passed(client)  # also when it was the last: next time begin elsewhere
            if not is_away or not others:
                raise found from None
            others -= 1
            client = self._client()

    @staticmethod
    def _is_away(error: Exception) -> bool:
        """Whether another node may know the answer: nobody is at this one, or it cannot say.

        One that has no copy of its own may ask a node that has just died.
        """
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        from retain.index.engines import http

        if isinstance(error, UnexpectedResponse):
            return (error.status_code or 0) >= 500
        return http.is_away(error.source if isinstance(error, ResponseHandlingException) else error)

    @staticmethod
    def _twice(act: Callable[[QdrantClient], T], client: QdrantClient) -> T:
        """Ask once more where the connection was cut: all of it may be done again without harm."""
        from qdrant_client.http.exceptions import ResponseHandlingException

        from retain.index.engines import http

        try:
            return act(client)
        except ResponseHandlingException as error:
            if not http.is_cut(error.source):
                raise
        return act(client)

    def _failure(self, error: Exception) -> EngineError:
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        from retain.index.engines import http

        if isinstance(error, UnexpectedResponse):
            status, said = error.status_code or 0, error.content[:2_000].decode("utf-8", "replace")
            answered = self._speaker.absent if status == 404 else self._speaker.answered
            return answered(status, said)
        if isinstance(error, QdrantException):  # it was asked too often
            return self._speaker.answered(429, "")
        if isinstance(error, ResponseHandlingException):
            return http.failure(self._speaker, error.source)
        return http.failure(self._speaker, error)

    def _client(self) -> QdrantClient:
        with self._making:
            if self._at not in self._clients:
                self._clients[self._at] = self._connected(self._urls[self._at])
            return self._clients[self._at]

    def _passed(self, client: QdrantClient) -> None:
        """Ask the next address from now on, unless someone has moved on already."""
        with self._making:
            if self._clients.get(self._at) is client:
                self._at = (self._at + 1) % len(self._urls)

    def _connected(self, url: str) -> QdrantClient:
        try:
            from qdrant_client import QdrantClient
        except ImportError:
            raise not_installed("qdrant") from None
        if not is_clear(url):
            raise self._speaker.unusable()
        self._speaker.check_key(self._key)
        from retain.index.engines import http

        return QdrantClient(
            url=url,
            # Not as `api_key`: on this machine a key without encryption is no mistake.
            headers={"api-key": self._key} if self._key else None,
            timeout=max(1, round(self._patience)),
            check_compatibility=False,
            **http.options(self._patience, self._connections, len(self._urls)),
        )

    def close(self) -> None:
        """Let go of the connections."""
        with self._making:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()
