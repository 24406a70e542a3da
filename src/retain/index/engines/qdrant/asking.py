"""Questions to Qdrant over its REST interface, without its client.

The client takes two seconds to load, which is nothing to a delivery in the background and too long
for a person who asks one question. All that writes or looks after the server goes through it; all
that a search may have to ask is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from retain.index.engines.addresses import is_clear
from retain.index.engines.arm import EngineError, Match
from retain.index.engines.packages import check_installed
from retain.index.engines.qdrant.points import HELD, row_of
from retain.index.engines.trouble import UNREADABLE

if TYPE_CHECKING:
    import httpx

    from retain.index.engines.tally import Row
    from retain.index.engines.trouble import Speaker


_GONE: Final = 404
_FINE: Final = 200
_TROUBLE: Final = 500
_SAID: Final = 2_000  # bytes of a refusal that are looked at


class _Away(Exception):
    """Another node may know the answer: nobody is at this one, or it cannot say."""

    def __init__(self, why: EngineError) -> None:
        super().__init__()
        self.why = why


class Questions:
    """What is asked of one server, or of the nodes of a cluster: the first that can say."""

    def __init__(
        self, urls: Sequence[str], key: str, speaker: Speaker, *, patience: float, connections: int
    ) -> None:
        self._urls, self._key, self._speaker = [url.rstrip("/") for url in urls], key, speaker
        self._at = 0  # which of them is asked
        self._patience, self._connections = patience, connections
        self._made: httpx.Client | None = None
        self._making = Lock()  # lest each lane makes one

    def load(self) -> None:
        """Load what it takes to ask."""
        self._client()

    def version(self) -> str:
        """The server's version; refused where something else answers."""
        found: str | None = self._ask("GET", "/", None, lambda said: str(said["version"]))
        if found is None:
            raise self._speaker.unreadable()
        return found

    def collections(self) -> list[str]:
        """The names of all collections on the server."""

        def names(said: Any) -> list[str]:
            return [str(one["name"]) for one in said["result"]["collections"]]

        return self._ask("GET", "/collections", None, names) or []

    def count(self, name: str, condition: Mapping[str, Any]) -> int:
        """How many points of a collection a filter lets pass; none where there is no such."""
        path = f"/collections/{quote(name, safe='')}/points/count"
        body = {"filter": condition, "exact": True}
        return self._ask("POST", path, body, lambda said: int(said["result"]["count"])) or 0

    def query(
        self, name: str, searches: Sequence[Mapping[str, Any]], consistency: str = ""
    ) -> list[list[Match]]:
        """What each search finds in a collection; nothing where there is no such collection."""

        def matches(said: Any) -> list[list[Match]]:
            return [[_match(point) for point in one["points"]] for one in said["result"]]

        path = f"/collections/{quote(name, safe='')}/points/query/batch{_by(consistency)}"
        return self._ask("POST", path, {"searches": list(searches)}, matches) or []

    def scroll(
        self, name: str, condition: Mapping[str, Any], start: Any, most: int, consistency: str = ""
    ) -> tuple[list[Row], Any]:
        """A page of the points that a filter lets pass, and where the next one starts, if any."""

        def page(said: Any) -> tuple[list[Row], Any]:
            found = said["result"]
            return [row_of(point) for point in found["points"]], found["next_page_offset"]

        path = f"/collections/{quote(name, safe='')}/points/scroll{_by(consistency)}"
        body = {"filter": condition, "limit": most, "offset": start, "with_payload": HELD}
        return self._ask("POST", path, body, page) or ([], None)

    def _ask(self, method: str, path: str, body: Any, read: Callable[[Any], Any]) -> Any:
        """What the first node says that can, read; None where it knows no such thing."""
        others = len(self._urls) - 1
        while True:
            at = self._at
            try:
                return self._answer(method, self._urls[at] + path, body, read)
            except _Away as away:
                self._at = (at + 1) % len(self._urls)  # also for whoever asks next
                if not others:
                    raise away.why from None
            others -= 1

    def _answer(self, method: str, url: str, body: Any, read: Callable[[Any], Any]) -> Any:
        client = self._client()
        import httpx

        from retain.index.engines import http

        try:
            answer = self._twice(client, method, url, body)
            if answer.status_code == _FINE:
                return read(answer.json())
        except (httpx.HTTPError, httpx.InvalidURL, *UNREADABLE) as error:
            found = http.failure(self._speaker, error)
            raise (_Away(found) if http.is_away(error) else found) from None
        if answer.status_code == _GONE:
            return None
        said = answer.content[:_SAID].decode("utf-8", "replace")
        found = self._speaker.answered(answer.status_code, said)
        raise _Away(found) if answer.status_code >= _TROUBLE else found

    @staticmethod
    def _twice(client: httpx.Client, method: str, url: str, body: Any) -> httpx.Response:
        """Ask once more where the connection was cut, as one is that was idle for too long."""
        import httpx

        from retain.index.engines import http

        try:
            return client.request(method, url, json=body)
        except httpx.TransportError as error:
            if not http.is_cut(error):
                raise
        return client.request(method, url, json=body)

    def _client(self) -> httpx.Client:
        with self._making:
            if self._made is None:
                self._made = self._connected()
            return self._made

    def _connected(self) -> httpx.Client:
        check_installed("qdrant")  # with which comes httpx, and by which all is told
        if not all(map(is_clear, self._urls)):
            raise self._speaker.unusable()
        self._speaker.check_key(self._key)
        import httpx

        from retain.index.engines import http

        options = http.options(self._patience, self._connections, len(self._urls), http.FOUND)
        headers = {"api-key": self._key} if self._key else None
        return httpx.Client(headers=headers, **options)

    def close(self) -> None:
        """Let go of the connections."""
        made, self._made = self._made, None
        if made:
            made.close()


def _by(consistency: str) -> str:
    return f"?consistency={quote(consistency, safe='')}" if consistency else ""


def _match(point: Any) -> Match:
    said = point["payload"]
    score = float(point["score"])
    return Match(str(said["memory"]), int(said["place"]), str(said["digest"]), score)
