"""Vectors in Qdrant: one collection for a bank and a model, on one server or a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http import models as q
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from retain.index.engines.engine import Document, EngineError, EngineRefused, Filter, Match
from retain.index.engines.http import http_failure, http_options, is_away
from retain.index.engines.server import MAX_PAGES, UNREADABLE, Server
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.index.vectors import Floats

_OLDEST: Final = (1, 16)
_PAGE: Final = 5_000
_LOG_MEGABYTES: Final = 8  # instead of 32: every part of every collection has a log
_RAISE: Final = object()


class Qdrant:
    """The vectors of a bank on a Qdrant server."""

    def __init__(self, server: Server) -> None:
        self._server, self._name, self._settings = server, server.container, server.settings
        self._at = 0  # which address is asked
        self._clients: dict[int, QdrantClient] = {}
        self._lock = Lock()
        self._is_made = False

    def version(self) -> str:
        return flat(str(self._ask("info").version), 20)

    def put(self, documents: Sequence[Document]) -> None:
        points = [
            q.PointStruct(
                id=document.id, vector=document.vector.tolist(), payload=document.fields()
            )
            for document in documents
            if document.vector is not None
        ]
        if not points:
            return
        dimension = next(len(found.vector) for found in documents if found.vector is not None)
        self._make(dimension)
        try:
            self._upsert(points)
        except _Absent:  # another machine has dropped it since
            self._is_made = False
            self._make(dimension)
            self._upsert(points)

    def _upsert(self, points: Sequence[q.PointStruct]) -> None:
        self._ask("upsert", self._name, points, wait=True, ordering=self._ordering())

    def delete(self, ids: Sequence[str]) -> None:
        selector = q.PointIdsList(points=list(ids))
        self._ask("delete", self._name, selector, ordering=self._ordering(), absent=None)

    def ids(self) -> Iterator[str]:
        start: Any = None
        for _ in range(MAX_PAGES):
            records, following = self._ask(
                "scroll",
                self._name,
                limit=_PAGE,
                offset=start,
                with_payload=False,
                with_vectors=False,
                consistency=self._consistency(),
                absent=((), None),
            )
            yield from (str(record.id) for record in records)
            # A server that repeats itself must not be listened to for ever.
            if following is None or following == start or not records:
                return
            start = following
        raise self._server.unreadable()

    def count(self) -> int:
        return self._count(self._name)

    def _count(self, name: str) -> int:
        found = self._ask("count", name, exact=True, absent=None)
        return int(found.count) if found else 0

    def nearest(self, vector: Floats, where: Filter, limit: int) -> list[Match]:
        params = q.SearchParams(hnsw_ef=int(self._settings["ef"]))
        if self._settings["quantization"] != "none":
            params.quantization = q.QuantizationSearchParams(
                rescore=True, oversampling=float(self._settings["oversampling"])
            )
        found = self._ask(
            "query_points",
            self._name,
            query=vector.tolist(),
            query_filter=_conditions(where),
            search_params=params,
            limit=max(1, limit),
            with_payload=False,
            consistency=self._consistency(),
            absent=None,
        )
        return [Match(str(point.id), float(point.score)) for point in found.points] if found else []

    def drop(self, *, others: bool = False) -> int:
        dropped = 0
        for name in [found.name for found in self._ask("get_collections").collections]:
            if self._server.is_of_bank(name) and not (others and name == self._name):
                dropped += self._count(name)
                self._ask("delete_collection", name, absent=None)
        self._is_made = self._is_made and others
        return dropped

    def close(self) -> None:
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    # Making the collection

    def _make(self, dimension: int) -> None:
        """Have the collection there, with its indexes; one that is of something else is refused."""
        if self._is_made:
            return
        info = self._ask("get_collection", self._name, absent=None)
        if info is None:
            self._server.check_version(self.version(), _OLDEST)
            self._create(dimension)
            info = self._ask("get_collection", self._name)
        vectors = info.config.params.vectors
        if not isinstance(vectors, q.VectorParams) or vectors.distance != q.Distance.DOT:
            raise self._server.refused(f"has a collection {self._name} that Retain did not make")
        if vectors.size != dimension:
            raise self._server.unfit(vectors.size, dimension)
        # All that is ever asked for has an index: a server may refuse to search without.
        kinds: dict[str, Any] = dict.fromkeys(
            ("collection", "type", "status", "tags"), q.PayloadSchemaType.KEYWORD
        )
        kinds["created"] = q.PayloadSchemaType.FLOAT
        for field, kind in kinds.items():
            if field not in info.payload_schema:
                self._ask("create_payload_index", self._name, field, kind)
        self._is_made = True

    def _create(self, dimension: int) -> None:
        wanted = self._settings
        scalar = q.ScalarQuantizationConfig(type=q.ScalarType.INT8, quantile=0.99, always_ram=True)
        small = q.ScalarQuantization(scalar=scalar)
        try:
            self._ask(
                "create_collection",
                self._name,
                vectors_config=q.VectorParams(
                    size=dimension, distance=q.Distance.DOT, on_disk=wanted["on_disk"]
                ),
                hnsw_config=q.HnswConfigDiff(m=wanted["m"], ef_construct=wanted["ef_construct"]),
                quantization_config=small if wanted["quantization"] == "int8" else None,
                wal_config=q.WalConfigDiff(wal_capacity_mb=_LOG_MEGABYTES),
                shard_number=wanted["shards"],
                replication_factor=wanted["replicas"],
                write_consistency_factor=wanted["write_consistency"],
                on_disk_payload=wanted["payload_on_disk"],
            )
        except EngineRefused:
            # Another machine may have made it in the meantime: that one is looked at next.
            if not self._ask("collection_exists", self._name):
                raise

    def _ordering(self) -> q.WriteOrdering:
        return q.WriteOrdering(self._settings["write_ordering"])

    def _consistency(self) -> Any:
        wanted = self._settings["read_consistency"]
        return None if wanted == "one" else wanted

    # Asking the server

    def _ask(self, method: str, *args: Any, absent: Any = _RAISE, **options: Any) -> Any:
        """The first answer of a node that can say; `absent` where there is no such collection.

        Each address is tried once, and the first one again: a connection that was kept for too
        long is cut in the moment in which it is used.
        """
        left = len(self._server.urls)
        while True:
            at, client = self._client()
            try:
                return getattr(client, method)(*args, **options)
            except (ApiException, QdrantException, *UNREADABLE) as error:
                failure, is_away = self._failure(error)
            if isinstance(failure, _Absent) and absent is not _RAISE:
                return absent
            if is_away:
                self._at = (at + 1) % len(self._server.urls)  # also for whoever asks next
            if not is_away or not left:
                raise failure
            left -= 1

    def _client(self) -> tuple[int, QdrantClient]:
        with self._lock:
            at = self._at
            if at not in self._clients:
                self._clients[at] = QdrantClient(
                    url=self._server.urls[at],
                    # Not as `api_key`: on this machine a key without encryption is no mistake.
                    headers={"api-key": self._server.key} if self._server.key else None,
                    timeout=max(1, round(self._server.seconds)),
                    check_compatibility=False,
                    **http_options(self._server),
                )
            return at, self._clients[at]

    def _failure(self, error: Exception) -> tuple[EngineError, bool]:
        """What went wrong, and whether another node may know the answer."""
        if isinstance(error, UnexpectedResponse):
            status = error.status_code or 0
            failure = self._server.answered(status, error.content.decode("utf-8", "replace"))
            if status == 404:
                failure = _Absent(failure.message, words=failure.words)
            return failure, status >= 500
        if isinstance(error, QdrantException):
            return self._server.answered(429, ""), False
        source = error.source if isinstance(error, ResponseHandlingException) else error
        return http_failure(self._server, source), is_away(source)


class _Absent(EngineRefused):
    """There is no such collection."""


def _conditions(where: Filter) -> q.Filter:
    def one_of(field: str, values: Sequence[str]) -> q.FieldCondition:
        return q.FieldCondition(key=field, match=q.MatchAny(any=list(values)))

    must: list[Any] = [one_of(field, values) for field, values in where.wanted.items()]
    must_not: list[Any] = []
    if where.without_statuses:
        must_not.append(one_of("status", where.without_statuses))
    if where.since is not None or where.until is not None:
        limits = q.Range(gte=where.since, lte=where.until)
        must.append(q.FieldCondition(key="created", range=limits))
        must_not.append(q.FieldCondition(key="created", range=q.Range(gte=0.0, lte=0.0)))
    return q.Filter(must=must, must_not=must_not)
