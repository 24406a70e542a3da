"""Vectors in Upstash Vector: one namespace of an index for a bank and a model.

The index itself is made by its owner, who chooses its dimension. It sees a write in a fetch at
once, but in a query only after a while: a put waits for that.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import httpx
from upstash_vector.core.index_operations import IndexOperations
from upstash_vector.types import InfoResult

from retain.index.engines.engine import Document, Filter, Match
from retain.index.engines.http import http_failure, http_options
from retain.index.engines.server import MAX_PAGES, UNREADABLE, Server

if TYPE_CHECKING:
    from retain.index.vectors import Floats

_PAGE: Final = 1_000  # the most that the service takes or gives at a time
_SETTLE_SECONDS: Final = 2.0  # that a put waits until queries see it
# Nothing here can end a quotation; of a value that has anything else only a digest is compared.
_SAFE: Final = re.compile(r"[A-Za-z0-9 _./:@+-]{1,60}")


class Upstash:
    """The vectors of a bank in an index of Upstash."""

    def __init__(self, server: Server) -> None:
        if not server.key:  # it has no other way in, and a header without one cannot be sent
            raise server.locked("asks for a key")
        self._server, self._space = server, server.container
        self._index: tuple[int, str] | None = None  # its dimension and how it compares: for good
        self._is_made = False  # the namespace, as far as is known
        self._http: httpx.Client | None = None
        self._operations: IndexOperations | None = None
        self._lock = Lock()

    def version(self) -> str:
        self._info()
        return "hosted"  # it has no version that anyone is told

    def put(self, documents: Sequence[Document]) -> None:
        vectors: Any = [
            {
                "id": document.id,
                "vector": document.vector.tolist(),
                "metadata": document.fields(_token),
            }
            for document in documents
            if document.vector is not None
        ]
        if not vectors:
            return
        self._check_length(len(vectors[0]["vector"]))
        self._ask("upsert", vectors, namespace=self._space)
        self._is_made = True
        self._settle()

    def _settle(self) -> None:
        """Wait until queries see what was put; longer than is set, nobody waits."""
        end, pause = time.monotonic() + min(_SETTLE_SECONDS, self._server.seconds), 0.02
        while time.monotonic() < end:
            space = self._info().namespaces.get(self._space)
            if space is None or not space.pending_vector_count:
                return
            time.sleep(pause)
            pause = min(pause * 2, 0.5)

    def delete(self, ids: Sequence[str]) -> None:
        if ids and self._exists():
            self._ask("delete", list(ids), namespace=self._space)

    def ids(self) -> Iterator[str]:
        if not self._exists():
            return
        cursor = "0"
        for _ in range(MAX_PAGES):
            page = self._ask("range", cursor, _PAGE, namespace=self._space)
            yield from (str(vector.id) for vector in page.vectors)
            following = str(page.next_cursor or "")
            # A server that repeats itself must not be listened to for ever.
            if not following or following == cursor or not page.vectors:
                return
            cursor = following
        raise self._server.unreadable()

    def count(self) -> int:
        return self._count(self._space)

    def _count(self, name: str) -> int:
        space = self._info().namespaces.get(name)
        return int(space.vector_count) + int(space.pending_vector_count) if space else 0

    def nearest(self, vector: Floats, where: Filter, limit: int) -> list[Match]:
        # Asked before anything is: an index of another dimension is not a passing trouble.
        function = self._check_length(len(vector))
        if not self._exists():
            return []
        length = float((vector @ vector) ** 0.5) or 1.0
        found = self._ask(
            "query",
            (vector / length).tolist(),
            top_k=max(1, min(limit, _PAGE)),
            filter=_condition(where),
            namespace=self._space,
        )
        return [Match(str(hit.id), _product(hit.score, function) * length) for hit in found]

    def drop(self, *, others: bool = False) -> int:
        dropped = 0
        for name in self._spaces():
            if self._server.is_of_bank(name) and not (others and name == self._space):
                dropped += self._count(name)
                self._ask("delete_namespace", name)
        self._is_made = self._is_made and others
        return dropped

    def close(self) -> None:
        http, self._http, self._operations = self._http, None, None
        if http:
            http.close()

    # Asking the service

    def _info(self) -> InfoResult:
        found: InfoResult = self._ask("info")
        return found

    def _spaces(self) -> list[str]:
        return [str(name) for name in self._ask("list_namespaces")]

    def _check_length(self, length: int) -> str:
        """How the index tells how alike vectors are; refused if it is not for this length."""
        if self._index is None:
            info = self._info()
            self._index = int(info.dimension), str(info.similarity_function).upper()
        dimension, function = self._index
        if dimension != length:
            hint = f"Make an index of dimension {length} in the Upstash console."
            raise self._server.unfit(dimension, length, hint)
        return function

    def _exists(self) -> bool:
        """Whether the namespace is there: a question would make it."""
        self._is_made = self._is_made or self._space in self._spaces()
        return self._is_made

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        try:
            return getattr(self._client(), method)(*args, **options)
        except (httpx.HTTPError, httpx.InvalidURL, *UNREADABLE) as error:
            raise http_failure(self._server, error) from None

    def _client(self) -> IndexOperations:
        with self._lock:
            if self._operations is not None:
                return self._operations
            server = self._server
            headers = {"Authorization": f"Bearer {server.key}"}
            http = self._http = httpx.Client(headers=headers, **http_options(server))

            class Index(IndexOperations):
                """The client's operations, over a connection of ours.

                Its own waits ten minutes for an answer and does not tell a wrong key from a server
                in trouble.
                """

                def _execute_request(self, payload: Any = None, path: str = "") -> Any:
                    response = http.post(server.urls[0] + path, json=payload)
                    if response.status_code != 200:
                        raise server.answered(response.status_code, response.text)
                    body = response.json()
                    if "error" in body:
                        raise server.answered(400, str(body["error"]))
                    return body["result"]

            self._operations = Index()  # type: ignore[no-untyped-call,unused-ignore]
            return self._operations


def _product(score: float, function: str) -> float:
    """The product of two vectors of length 1, from the score between 0 and 1 that is told."""
    if function == "EUCLIDEAN":
        return 1 - (1 / max(float(score), 1e-9) - 1) / 2
    return 2 * float(score) - 1


def _token(value: str) -> str:
    """A value as it is compared: itself, or its digest where it has anything unusual."""
    if _SAFE.fullmatch(value):
        return value
    return f"~{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _condition(where: Filter) -> str:
    """A filter in the service's own language."""

    def quoted(values: Iterable[str]) -> str:
        return ", ".join(f"'{_token(value)}'" for value in values)

    either = {field: values for field, values in where.wanted.items() if field != "tags"}
    parts = [f"{field} IN ({quoted(values)})" for field, values in either.items()]
    if where.without_statuses:
        parts.append(f"status NOT IN ({quoted(where.without_statuses)})")
    if where.tags:
        tags = " OR ".join(f"tags CONTAINS '{_token(tag)}'" for tag in where.tags)
        parts.append(f"({tags})")
    if where.since is not None or where.until is not None:
        parts.append("created != 0")
    if where.since is not None:
        parts.append(f"created >= {where.since:.6f}")
    if where.until is not None:
        parts.append(f"created <= {where.until:.6f}")
    return " AND ".join(parts)
