"""Vectors in Qdrant: one collection there for each collection of the bank."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from retain.engines.arm import GRAVE, EngineError, EngineRefused, Held, Match, Piece, Sieve
from retain.engines.portions import Lanes, best, grouped, parts
from retain.engines.qdrant_asking import Questions, not_installed
from retain.engines.tally import Row, firsts, tally
from retain.engines.trouble import Speaker, plain
from retain.guard.characters import flat

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.http import models as q

    from retain.engines.naming import Names
    from retain.index.vectors import Floats

__all__ = ["QdrantSettings", "QdrantVectors"]

_OLDEST: Final = (1, 16)  # the first that can refuse to replace a newer piece by itself
_PAGE: Final = 1_000
_LIST: Final = re.compile(r"\s*,\s*(?=[a-z]+://)")  # between the addresses of one cluster
_FLOATS: Final = 250_000  # in one request, some three megabytes of JSON
# The server reads a number of more than fifteen digits not quite as it was written, so a version
# is two of them: the second, and then the parts of a second and the beginning of the hash.
_TICKS: Final = 22  # bits: a float tells moments apart as finely between 2004 and 2038
_BITS: Final = 27
_HELD: Final = ["memory", "hash", "written", "pieces", "model"]
_FOUND: Final = ["memory", "place", "digest"]
# All that is ever asked for has an index: a server may refuse to search without.
_WORDS: Final = ("memory", "collection", "type", "status", "tags", "model")
_WHOLE: Final = ("place", "second", "order")

T = TypeVar("T")


class QdrantSettings(NamedTuple):
    """What a collection is made with, and how it is asked."""

    shards: int = 1  # parts that a collection is split into
    replicas: int = 1  # copies of each part
    write_consistency: int = 1  # copies that must have a write before it counts
    log: int = 8  # megabytes of a collection's log that are set aside from the start
    write_ordering: Literal["weak", "medium", "strong"] = "medium"
    read_consistency: Literal["one", "majority", "quorum", "all"] = "one"  # of the copies are asked
    m: int = 16  # edges of each point in the graph
    ef_construct: int = 128  # neighbours looked at when a point is added
    ef: int = 128  # and when one is looked for
    # Of one bit a number too little is left: of the ten nearest more than one would be others.
    quantization: Literal["none", "int8"] = "none"
    oversampling: float = 2.0  # with quantization: how many more are compared again exactly
    on_disk: bool = False  # vectors are read from disk, not kept in memory
    payload_on_disk: bool = True
    lanes: int = 8  # requests at a time
    batch: int = 256  # pieces in one request


class _Made(NamedTuple):
    """What a collection is made with, by the names of the settings."""

    shards: int
    replicas: int
    write_consistency: int
    m: int
    ef_construct: int
    quantization: str
    on_disk: bool
    payload_on_disk: bool


class _Version(NamedTuple):
    """Which version of a memory a piece is of, in numbers that the server can compare."""

    second: int
    order: int  # within that second


def _version(piece: Piece | Row) -> _Version:
    ticks = math.floor(piece.written * (1 << _TICKS))
    rank = int(piece.hash[:7] or "0", 16) >> (28 - _BITS)
    return _Version(ticks >> _TICKS, (ticks & ((1 << _TICKS) - 1)) << _BITS | rank)


class QdrantVectors:
    """The vectors of a bank on a Qdrant server."""

    name = "Qdrant"

    def __init__(
        self,
        address: str,
        key: str,
        names: Names,
        *,
        patience: float,
        dimension: int = 0,
        settings: QdrantSettings | None = None,
    ) -> None:
        self._urls = _LIST.split(address.strip())
        self._at = 0  # which of them is asked
        self._key, self._names = key, names
        self._patience, self._dimension = patience, dimension
        self._settings = settings or QdrantSettings()
        self._speaker = Speaker(self.name, address, key)
        self._speaker.address = ",".join(map(plain, self._urls))
        self.address = self._speaker.address
        self._ready: set[str] = set()
        self._clients: dict[int, QdrantClient] = {}  # for each of the addresses that was asked
        self._making = Lock()  # lest each lane makes one
        self._lanes = Lanes(self._settings.lanes)
        self._questions = Questions(
            self._urls, key, self._speaker, patience=patience, connections=self._settings.lanes
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    # What every arm can do

    def load(self) -> None:
        self._questions.load()

    def version(self) -> str:
        return flat(self._questions.version(), 20)

    def ready(self, collections: Iterable[str]) -> None:
        self._check_version()
        names = [self._names.of(collection) for collection in collections]
        self._lanes.each(lambda name: self._make(name, self._dimension), names)
        if not names:
            self._ask(lambda client: client.get_collections())

    def put(self, pieces: Sequence[Piece]) -> None:
        groups = grouped(pieces, lambda piece: self._names.of(piece.collection))
        self._lanes.each(lambda name: self._put(name, groups[name]), groups)

    def remove(self, memories: Sequence[str]) -> None:
        groups = grouped(memories, self._name_of)

        def remove(name: str) -> None:
            for some in parts(groups[name], _PAGE):
                self._delete(name, _any("memory", some))

        self._lanes.each(remove, groups)

    def held(self, memories: Sequence[str]) -> Mapping[str, Held]:
        groups = grouped(dict.fromkeys(memories), self._name_of)
        found = self._lanes.each(lambda name: tally(self._rows_of(name, groups[name])), groups)
        return {memory: held for one in found for memory, held in one.items()}

    def manifest(self) -> Iterator[Held]:
        for name in self._all():
            for page, is_whole in self._pages(name):
                rows = page if is_whole else self._rows_of(name, {row.memory for row in page})
                yield from firsts(page, grouped(rows, lambda row: row.memory))

    def prune(self, before: float) -> int:
        condition = _buried(math.floor(before))

        def prune(name: str) -> int:
            found = self._count(name, condition)
            if found:
                self._delete(name, condition)
            return found

        return sum(self._lanes.each(prune, self._all()))

    def count(self, sieve: Sieve) -> int:
        self._client()
        from qdrant_client.http import models as q

        condition = q.Filter.model_validate(_sieved(sieve, {"must_not": [_is("place", GRAVE)]}))
        return sum(self._lanes.each(lambda name: self._count(name, condition), self._wanted(sieve)))

    def otherwise(self) -> list[str]:
        found = self._lanes.each(self._differs, self._all())
        return [line for lines in found for line in lines]

    def adapt(self) -> None:
        self._lanes.each(self._change, self._all())

    def drop(self) -> None:
        def drop(name: str) -> None:
            self._there(lambda client: client.delete_collection(name), None)
            self._ready.discard(name)

        self._lanes.each(drop, self._all())

    def close(self) -> None:
        self._lanes.close()
        self._questions.close()
        with self._making:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    # What finds

    def nearest(
        self, vectors: Sequence[Floats], model: str, sieve: Sieve, limits: Sequence[int]
    ) -> list[list[Match]]:
        if not vectors:
            return []
        condition = _sieved(sieve, {"must": [_is("model", model)]})
        searches = [
            {
                "query": vector.tolist(),
                "filter": condition,
                "limit": max(1, limit),
                "params": self._search(),
                "with_payload": _FOUND,
            }
            for vector, limit in zip(vectors, limits, strict=True)
        ]
        wanted = self._settings.read_consistency
        consistency = "" if wanted == "one" else wanted

        def query(name: str) -> list[list[Match]]:
            return self._questions.query(name, searches, consistency)

        found = self._lanes.each(query, self._wanted(sieve))
        return [
            best((matches for lists in found for matches in lists[at : at + 1]), limit)
            for at, limit in enumerate(limits)
        ]

    def _search(self) -> dict[str, Any]:
        settings = self._settings
        if settings.quantization == "none":
            return {"hnsw_ef": settings.ef}
        exactly = {"rescore": True, "oversampling": settings.oversampling}
        return {"hnsw_ef": settings.ef, "quantization": exactly}

    def _consistency(self) -> Any:
        from qdrant_client.http import models as q

        wanted = self._settings.read_consistency
        return None if wanted == "one" else q.ReadConsistencyType(wanted)

    # What writes

    def _put(self, name: str, pieces: Sequence[Piece]) -> None:
        dimension = next((len(p.vector) for p in pieces if p.vector is not None), self._dimension)
        self._make(name, dimension)
        memories = grouped(pieces, lambda piece: piece.memory)
        most = max(1, min(self._settings.batch, _FLOATS // max(1, dimension)))
        for some in _batches(memories, most):
            self._put_some(name, {memory: memories[memory] for memory in some}, most)

    def _put_some(self, name: str, memories: Mapping[str, Sequence[Piece]], most: int) -> None:
        versions = {memory: _version(pieces[0]) for memory, pieces in memories.items()}
        condition = _should(_not_newer(memory, version) for memory, version in versions.items())
        pieces = [piece for its in memories.values() for piece in its]
        for some in parts(pieces, most):
            self._upsert(name, some, condition)
        self._tidy(name, versions)

    def _tidy(self, name: str, versions: Mapping[str, _Version]) -> None:
        """Remove what is left of older versions; and what was put here, where a newer one is.

        A newer version keeps its own places, but what was put beyond its end is to go. If it comes
        at this very moment it does the same: whoever is second sees the other.
        """
        wrong: list[q.Filter] = []
        for memory, rows in grouped(self._rows_of(name, versions), lambda row: row.memory).items():
            newest = max(_version(row) for row in rows)
            if any(_version(row) != newest for row in rows):
                wrong.append(_older(memory, newest))
        if wrong:
            self._delete(name, _should(wrong))

    def _upsert(self, name: str, pieces: Sequence[Piece], condition: q.Filter) -> None:
        from qdrant_client.http import models as q

        points = [
            q.PointStruct(id=piece.id, vector=_vector(piece), payload=_payload(piece))
            for piece in pieces
        ]

        def upsert(client: QdrantClient) -> None:
            client.upsert(
                name, points, wait=True, ordering=self._ordering(), update_filter=condition
            )

        self._ask(upsert, absent=lambda: self._make_again(name, pieces))

    def _make_again(self, name: str, pieces: Sequence[Piece]) -> None:
        """Another machine has dropped it since."""
        self._ready.discard(name)
        dimension = next((len(p.vector) for p in pieces if p.vector is not None), self._dimension)
        self._make(name, dimension)

    def _delete(self, name: str, condition: q.Filter) -> None:
        from qdrant_client.http import models as q

        selector = q.FilterSelector(filter=condition)
        self._there(
            lambda client: client.delete(name, selector, wait=True, ordering=self._ordering()),
            None,
        )

    def _ordering(self) -> q.WriteOrdering:
        from qdrant_client.http import models as q

        return q.WriteOrdering(self._settings.write_ordering)

    # What reads

    def _name_of(self, memory: str) -> str:
        return self._names.of(memory.rpartition("/")[0])

    def _all(self) -> list[str]:
        listed = self._questions.collections()
        return [name for name in listed if name.startswith(self._names.prefix)]

    def _wanted(self, sieve: Sieve) -> list[str]:
        if not sieve.collections:
            return self._all()
        return list(dict.fromkeys(self._names.of(one) for one in sieve.collections))

    def _count(self, name: str, condition: q.Filter) -> int:
        return self._there(
            lambda client: client.count(name, count_filter=condition, exact=True).count, 0
        )

    def _rows_of(self, name: str, memories: Iterable[str]) -> list[Row]:
        return [
            row for some in parts(memories, _PAGE) for row in self._rows(name, _any("memory", some))
        ]

    def _rows(self, name: str, condition: q.Filter) -> list[Row]:
        return [row for page, _ in self._pages(name, condition) for row in page]

    def _pages(
        self, name: str, condition: q.Filter | None = None
    ) -> Iterator[tuple[list[Row], bool]]:
        """The pieces of a collection page by page, and whether a page is all there is."""
        offset: Any = None
        while True:
            start = offset

            def scroll(client: QdrantClient, start: Any = start) -> tuple[list[Row], Any]:
                points, after = client.scroll(
                    name,
                    scroll_filter=condition,
                    limit=_PAGE,
                    offset=start,
                    with_payload=_HELD,
                    consistency=self._consistency(),
                )
                return [_row(point) for point in points], after

            nothing: tuple[list[Row], Any] = ([], None)
            rows, offset = self._there(scroll, nothing)
            yield rows, start is None and offset is None
            # A server that repeats itself must not be listened to for ever.
            if offset is None or offset == start or not rows:
                return

    # What makes collections

    def _check_version(self) -> None:
        found = self.version()
        numbers = re.match(r"(\d+)\.(\d+)", found)
        if not numbers or (int(numbers[1]), int(numbers[2])) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise self._speaker.refused(
                f"is version {found or 'unknown'}, and {oldest} is needed",
                f"Qdrant {oldest} or later does.",
            )

    def _make(self, name: str, dimension: int) -> None:
        if name in self._ready or not dimension:
            return
        info = self._there(lambda client: client.get_collection(name), None)
        if info is None:
            self._create(name, dimension)
            info = self._ask(lambda client: client.get_collection(name))
        self._check(name, info, dimension)
        self._index(name, info)
        self._ready.add(name)

    def _check(self, name: str, info: q.CollectionInfo, dimension: int) -> None:
        from qdrant_client.http import models as q

        vectors = info.config.params.vectors
        if not isinstance(vectors, q.VectorParams) or vectors.distance != q.Distance.DOT:
            raise self._speaker.refused(f"has a collection {name} that Retain did not make")
        if vectors.size != dimension:
            raise self._speaker.refused(
                f"has vectors of dimension {vectors.size} in {name}, and these have {dimension}",
                "Another model made them: fill the engine anew.",
            )

    def _create(self, name: str, dimension: int) -> None:
        from qdrant_client.http import models as q

        wanted = self._settings

        def create(client: QdrantClient) -> None:
            client.create_collection(
                name,
                vectors_config=q.VectorParams(
                    size=dimension, distance=q.Distance.DOT, on_disk=wanted.on_disk
                ),
                hnsw_config=q.HnswConfigDiff(m=wanted.m, ef_construct=wanted.ef_construct),
                quantization_config=_quantization(wanted.quantization),
                wal_config=q.WalConfigDiff(wal_capacity_mb=wanted.log),
                shard_number=wanted.shards,
                replication_factor=wanted.replicas,
                write_consistency_factor=wanted.write_consistency,
                on_disk_payload=wanted.payload_on_disk,
            )

        try:
            self._ask(create)
        except EngineRefused:
            # Another machine may have made it in the meantime: that one is looked at next.
            if not self._there(lambda client: client.collection_exists(name), False):
                raise

    def _index(self, name: str, info: q.CollectionInfo) -> None:
        from qdrant_client.http import models as q

        kinds: dict[str, Any] = {
            **dict.fromkeys(_WORDS, q.PayloadSchemaType.KEYWORD),
            **dict.fromkeys(_WHOLE, q.PayloadSchemaType.INTEGER),
            "created": q.PayloadSchemaType.FLOAT,
        }

        def index(client: QdrantClient) -> None:
            for field, kind in kinds.items():
                if field not in info.payload_schema:
                    client.create_payload_index(name, field, kind, wait=True)

        self._ask(index)

    # What is made otherwise than it should be

    def _differs(self, name: str) -> list[str]:
        info = self._there(lambda client: client.get_collection(name), None)
        if info is None:
            return []
        wanted, made = self._settings, _made(info)
        found = [
            f"{name}: {field} is {value}, and {getattr(wanted, field)} is set"
            for field, value in made._asdict().items()
            if value != getattr(wanted, field)
        ]
        copies = self._copies(name)
        if copies < wanted.replicas:
            found.append(f"{name}: parts of it have {copies} copies, and {wanted.replicas} are set")
        return found

    def _copies(self, name: str) -> int:
        """How many copies the part has that has the fewest."""
        if self._settings.replicas < 2:
            return 1
        info = self._ask(
            lambda client: client.http.distributed_api.collection_cluster_info(name).result
        )
        shards = [one.shard_id for one in info.local_shards] if info else []
        shards += [one.shard_id for one in info.remote_shards] if info else []
        return min(Counter(shards).values(), default=0)

    def _change(self, name: str) -> None:
        from qdrant_client.http import models as q

        info = self._there(lambda client: client.get_collection(name), None)
        wanted = self._settings
        # What is as it should be is not set again: the server may begin to build everything anew.
        if info is None or _made(info)._replace(shards=wanted.shards) == _as_set(wanted):
            return

        def change(client: QdrantClient) -> None:
            client.update_collection(
                name,
                vectors_config={"": q.VectorParamsDiff(on_disk=wanted.on_disk)},
                hnsw_config=q.HnswConfigDiff(m=wanted.m, ef_construct=wanted.ef_construct),
                quantization_config=_quantization(wanted.quantization) or q.Disabled.DISABLED,
                collection_params=q.CollectionParamsDiff(
                    replication_factor=wanted.replicas,
                    write_consistency_factor=wanted.write_consistency,
                    on_disk_payload=wanted.payload_on_disk,
                ),
            )

        self._there(change, None)

    # How it is asked

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
            raise not_installed() from None
        from retain.engines import wire

        return QdrantClient(
            url=url,
            # Not as `api_key`: on this machine a key without encryption is no mistake.
            headers={"api-key": self._key} if self._key else None,
            timeout=max(1, round(self._patience)),
            check_compatibility=False,
            **wire.options(self._patience, self._settings.lanes, len(self._urls)),
        )

    def _there(self, act: Callable[[QdrantClient], T], otherwise: T) -> T:
        """The same for a collection that may not be there."""
        try:
            return self._ask(act)
        except _Absent:
            return otherwise

    def _ask(self, act: Callable[[QdrantClient], T], absent: Callable[[], None] | None = None) -> T:
        try:
            return self._answer(act)
        except _Absent:
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
            except (ApiException, QdrantException, *_WRONG) as error:
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

        from retain.engines import wire

        if isinstance(error, UnexpectedResponse):
            return (error.status_code or 0) >= 500
        return wire.is_away(error.source if isinstance(error, ResponseHandlingException) else error)

    @staticmethod
    def _twice(act: Callable[[QdrantClient], T], client: QdrantClient) -> T:
        """Ask once more where the connection was cut: all of it may be done again without harm."""
        from qdrant_client.http.exceptions import ResponseHandlingException

        from retain.engines import wire

        try:
            return act(client)
        except ResponseHandlingException as error:
            if not wire.is_cut(error.source):
                raise
        return act(client)

    def _failure(self, error: Exception) -> EngineError:
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        from retain.engines import wire

        if isinstance(error, UnexpectedResponse):
            status, said = error.status_code or 0, error.content[:2_000].decode("utf-8", "replace")
            found = self._speaker.answered(status, said)
            return _Absent(found.message) if status == 404 else found
        if isinstance(error, QdrantException):  # it was asked too often
            return self._speaker.answered(429, "")
        if isinstance(error, ResponseHandlingException):
            return wire.failure(self._speaker, error.source)
        return wire.failure(self._speaker, error)


class _Absent(EngineRefused):
    """There is no such collection."""


# What a client makes of an answer that is none, and what we make of one that lacks something.
_WRONG: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    RecursionError,
    OSError,
)


def _vector(piece: Piece) -> Any:
    # A grave has none, and is not found by any question.
    return {} if piece.vector is None or piece.place == GRAVE else piece.vector.tolist()


def _payload(piece: Piece) -> dict[str, Any]:
    """All that is searched by or told again; what the memory says stays at home."""
    version = _version(piece)
    return {
        "memory": piece.memory,
        "place": piece.place,
        "pieces": piece.pieces,
        "collection": piece.collection,
        "type": piece.type,
        "status": piece.status,
        "tags": list(piece.tags),
        "created": float(piece.created),
        "hash": piece.hash,
        "written": repr(float(piece.written)),  # a number might come back rounded
        "digest": piece.digest,
        "model": piece.model,
        "second": version.second,
        "order": version.order,
    }


def _row(point: Any) -> Row:
    said = point.payload
    return Row(
        str(point.id),
        str(said["memory"]),
        str(said["hash"]),
        float(said["written"]),
        int(said["pieces"]),
        str(said["model"]),
    )


def _quantization(kind: str) -> Any:
    from qdrant_client.http import models as q

    if kind == "int8":
        scalar = q.ScalarQuantizationConfig(type=q.ScalarType.INT8, quantile=0.99, always_ram=True)
        return q.ScalarQuantization(scalar=scalar)
    return None


def _as_set(settings: QdrantSettings) -> _Made:
    return _Made(*(getattr(settings, field) for field in _Made._fields))


def _made(info: q.CollectionInfo) -> _Made:
    from qdrant_client.http import models as q

    params, hnsw, small = (
        info.config.params,
        info.config.hnsw_config,
        info.config.quantization_config,
    )
    kinds = {q.ScalarQuantization: "int8", type(None): "none"}
    return _Made(
        params.shard_number or 1,
        params.replication_factor or 1,
        params.write_consistency_factor or 1,
        hnsw.m,
        hnsw.ef_construct,
        kinds.get(type(small), "another"),
        isinstance(params.vectors, q.VectorParams) and bool(params.vectors.on_disk),
        bool(params.on_disk_payload),
    )


def _batches(memories: Mapping[str, Sequence[Piece]], most: int) -> Iterator[list[str]]:
    """Memories that go into one request together; one that is too large goes alone."""
    some: list[str] = []
    room = most
    for memory, pieces in memories.items():
        if some and len(pieces) > room:
            yield some
            some, room = [], most
        some.append(memory)
        room -= len(pieces)
    if some:
        yield some


# Conditions


def _is(field: str, value: str | int) -> Any:
    return {"key": field, "match": {"value": value}}


def _in(field: str, values: Iterable[str]) -> Any:
    return {"key": field, "match": {"any": list(values)}}


def _any(field: str, values: Iterable[str]) -> q.Filter:
    from qdrant_client.http import models as q

    return q.Filter(must=[_in(field, values)])


def _should(conditions: Iterable[Any]) -> q.Filter:
    from qdrant_client.http import models as q

    return q.Filter(should=list(conditions))


def _buried(before: int) -> q.Filter:
    """The graves that are older than this second."""
    from qdrant_client.http import models as q

    older = q.FieldCondition(key="second", range=q.Range(lt=before))
    return q.Filter(must=[_is("place", GRAVE), older])


def _sieved(sieve: Sieve, more: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """A filter as it is written in a request; an empty list in it sets no condition."""
    wanted, unwanted = [*more.get("must", ())], [*more.get("must_not", ())]
    for field, values in (
        ("collection", sieve.collections),
        ("type", sieve.types),
        ("tags", sieve.tags),
        ("status", sieve.statuses),
    ):
        if values:
            wanted.append(_in(field, values))
    if sieve.without_statuses:
        unwanted.append(_in("status", sieve.without_statuses))
    if sieve.since is not None or sieve.until is not None:
        limits = {"gte": sieve.since, "lte": sieve.until}
        within = {name: at for name, at in limits.items() if at is not None}
        wanted.append({"key": "created", "range": within})
        unwanted.append({"key": "created", "range": {"gte": 0.0, "lte": 0.0}})
    return {"must": wanted, "must_not": unwanted}


def _beside(memory: str, version: _Version, *, newer: bool) -> q.Filter:
    """The pieces of a memory that are of a newer version than this, or of an older one."""
    from qdrant_client.http import models as q

    def beyond(field: str, value: int) -> q.FieldCondition:
        limits = q.Range(gt=value) if newer else q.Range(lt=value)
        return q.FieldCondition(key=field, range=limits)

    tie = q.Filter(must=[_is("second", version.second), beyond("order", version.order)])
    return q.Filter(must=[_is("memory", memory)], should=[beyond("second", version.second), tie])


def _newer(memory: str, version: _Version) -> q.Filter:
    return _beside(memory, version, newer=True)


def _older(memory: str, version: _Version) -> q.Filter:
    return _beside(memory, version, newer=False)


def _not_newer(memory: str, version: _Version) -> q.Filter:
    from qdrant_client.http import models as q

    return q.Filter(must=[_is("memory", memory)], must_not=[_newer(memory, version)])
