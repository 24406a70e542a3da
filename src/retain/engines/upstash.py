"""Vectors in Upstash Vector: one namespace of an index for each collection of the bank.

The index itself is made by its owner, who chooses its dimension. It sees a write in a fetch at
once, but in a query only after a while: a put waits for that. It cannot refuse an older version by
itself, nor count what passes a filter; both are done here.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from retain.engines.arm import (
    GRAVE,
    EngineAbsent,
    EngineError,
    Held,
    Match,
    Piece,
    Sieve,
    wins,
)
from retain.engines.packages import not_installed
from retain.engines.portions import Lanes, best, grouped, parts
from retain.engines.tally import Row, firsts, tally
from retain.engines.trouble import UNREADABLE, Speaker, plain

if TYPE_CHECKING:
    import httpx
    from upstash_vector.core.index_operations import IndexOperations
    from upstash_vector.types import InfoResult

    from retain.engines.naming import Names
    from retain.index.vectors import Floats

__all__ = ["UpstashSettings", "UpstashVectors"]

_PAGE: Final = 1_000  # the most that the service takes or gives at a time
_FIRST: Final = (GRAVE, 0, 1, 2)  # places that are looked for before it is known how many there are
_NEXT: Final = 64
_FLOATS: Final = 250_000  # in one request, some three megabytes of JSON
# Nothing here can end a quotation; whatever else a value has, only its digest is compared.
_SAFE: Final = re.compile(r"[A-Za-z0-9 _./:@+-]{1,60}")
_LONG: Final = ("/fetch", "/range")  # requests whose answers may be long
_PAGES: Final = 10_000  # of a namespace; a server that makes them up has always one more
_SPACES: Final = 10_000  # namespaces of a bank
_PLACES: Final = 200_000  # of a memory, which has far fewer
_DEAD: Final = "~grave"

T = TypeVar("T")


class UpstashSettings(NamedTuple):
    """How the service is asked."""

    batch: int = 500  # pieces in one request
    lanes: int = 8  # requests at a time
    settle: float = 2.0  # seconds that a put waits until queries see it


class _Answered(Exception):
    """The service answered with an error."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status, self.said = status, said


class _Index(NamedTuple):
    """What is known of the index."""

    dimension: int
    function: str  # that tells how alike vectors are


class UpstashVectors:
    """The vectors of a bank in an index of Upstash."""

    name = "Upstash"

    def __init__(
        self,
        address: str,
        key: str,
        names: Names,
        *,
        patience: float,
        dimension: int = 0,
        settings: UpstashSettings | None = None,
    ) -> None:
        self._url, self._key, self._names = plain(address), key, names
        self._patience, self._dimension = patience, dimension
        self._settings = settings or UpstashSettings()
        self._speaker = Speaker(self.name, address, key)
        self.address = self._speaker.address
        self._lanes = Lanes(self._settings.lanes)
        self._making = Lock()
        self._http: httpx.Client | None = None
        self._operations: IndexOperations | None = None
        self._known: _Index | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    # What every arm can do

    def load(self) -> None:
        self._client()

    def version(self) -> str:
        self._info()
        return "hosted"  # it has no version that anyone is told

    def ready(self, collections: Iterable[str]) -> None:  # noqa: ARG002 - see below
        # Namespaces come into being when they are used.
        self._known = None
        self._index(self._dimension)

    def put(self, pieces: Sequence[Piece]) -> None:
        if not pieces:
            return
        index = self._index(self._dimension)
        for dimension in {len(piece.vector) for piece in pieces if piece.vector is not None}:
            self._index(dimension)
        groups = grouped(pieces, lambda piece: self._names.of(piece.collection))
        self._lanes.each(lambda name: self._put(name, groups[name], index), groups)
        self._settle(groups)

    def remove(self, memories: Sequence[str]) -> None:
        groups = grouped(memories, self._name_of)

        def remove(name: str) -> None:
            rows = self._rows(name, groups[name])
            self._delete(name, [id_ for its in rows.values() for id_ in its])

        self._lanes.each(remove, groups)

    def held(self, memories: Sequence[str]) -> Mapping[str, Held]:
        groups = grouped(dict.fromkeys(memories), self._name_of)
        found = self._lanes.each(lambda name: tally(self._listed(name, groups[name])), groups)
        return {memory: held for one in found for memory, held in one.items()}

    def manifest(self) -> Iterator[Held]:
        for name in self._all():
            for page in self._pages(name):
                rows = {row.id: row for row, _ in page}
                its = self._listed(name, dict.fromkeys(row.memory for row, _ in page))
                known = {row.id: row for row in its} | rows
                yield from firsts(rows.values(), grouped(known.values(), lambda row: row.memory))

    def prune(self, before: float) -> int:
        def prune(name: str) -> int:
            old = [
                row.id
                for page in self._pages(name)
                for row, said in page
                if said["space"] == _DEAD and row.written < before
            ]
            self._delete(name, old)
            return len(old)

        return sum(self._lanes.each(prune, self._all()))

    def count(self, sieve: Sieve) -> int:
        if sieve == Sieve():  # the service knows, and a large index is not read for it
            spaces, names = self._info().namespaces, self._all()
            there = {name: int(spaces[name].vector_count) for name in names if name in spaces}
            return sum(self._lanes.each(lambda name: there[name] - self._marks(name), there))
        return sum(self._lanes.each(lambda name: self._count(name, sieve), self._wanted(sieve)))

    def otherwise(self) -> list[str]:
        return []  # its owner makes the index, and nothing of it is ours to set

    def adapt(self) -> None:
        """Nothing is."""

    def drop(self) -> None:
        def drop(name: str) -> None:
            try:
                self._ask(lambda index: index.delete_namespace(name))
            except EngineAbsent:
                return  # someone else was faster

        self._lanes.each(drop, self._all())

    def close(self) -> None:
        http, self._http, self._operations = self._http, None, None
        if http:
            http.close()

    # What finds

    def nearest(
        self, vectors: Sequence[Floats], model: str, sieve: Sieve, limits: Sequence[int]
    ) -> list[list[Match]]:
        if not vectors:
            return []
        # Asked before anything is: an index of another dimension is not a passing trouble.
        index = self._index(len(vectors[0]))
        condition = _condition(sieve, model)
        found = self._lanes.each(
            lambda name: self._query(name, vectors, condition, limits, index.function),
            self._wanted(sieve),
        )
        return [best((lists[at] for lists in found), limit) for at, limit in enumerate(limits)]

    def _query(
        self,
        name: str,
        vectors: Sequence[Floats],
        condition: str,
        limits: Sequence[int],
        function: str,
    ) -> list[list[Match]]:
        lengths = [float((vector @ vector) ** 0.5) or 1.0 for vector in vectors]
        queries: Any = [
            {
                "vector": (vector / length).tolist(),
                "top_k": max(1, min(limit, _PAGE)),
                "include_metadata": True,
                "filter": condition,
            }
            for vector, length, limit in zip(vectors, lengths, limits, strict=True)
        ]

        def query(index: IndexOperations) -> list[list[Match]]:
            answers = index.query_many(queries=queries, namespace=name)
            if len(answers) != len(queries):
                raise ValueError(len(answers))
            return [
                [_match(one.metadata, _product(one.score, function) * length) for one in answer]
                for answer, length in zip(answers, lengths, strict=True)
            ]

        return self._ask(query)

    # What writes

    def _put(self, name: str, pieces: Sequence[Piece], index: _Index) -> None:
        memories = grouped(pieces, lambda piece: piece.memory)
        most = max(1, min(self._settings.batch, _FLOATS // max(1, index.dimension)))
        for some in parts(memories, most):
            self._put_some(name, {memory: memories[memory] for memory in some}, most, index)

    def _put_some(
        self, name: str, memories: Mapping[str, Sequence[Piece]], most: int, index: _Index
    ) -> None:
        there = self._rows(name, memories)
        held = tally(row for its in there.values() for row in its.values())
        new: list[Piece] = []
        stale: list[str] = []
        for memory, pieces in memories.items():
            if not _may(pieces[0], held.get(memory)):
                continue
            kept = {piece.id for piece in pieces}
            stale += [id_ for id_ in there.get(memory, ()) if id_ not in kept]
            new += pieces
        # First what is no longer so: if it ends here, what is left is seen not to be whole.
        self._delete(name, stale)
        # And last the first pieces, which say how many there are.
        for some in parts(sorted(new, key=lambda piece: piece.place == 0), most):
            self._upsert(name, some, index)

    def _upsert(self, name: str, pieces: Sequence[Piece], index: _Index) -> None:
        vectors: Any = [
            {"id": piece.id, "vector": _vector(piece, index), "metadata": _metadata(piece)}
            for piece in pieces
        ]
        self._ask(lambda index: index.upsert(vectors, namespace=name))

    def _delete(self, name: str, ids: Iterable[str]) -> None:
        for some in parts(ids, _PAGE):
            self._ask(lambda index, some=some: index.delete(some, namespace=name))  # type: ignore[misc]

    def _settle(self, names: Iterable[str]) -> None:
        """Wait until queries see what was put; longer than is set, nobody waits."""
        end = time.monotonic() + min(self._settings.settle, self._patience)
        pause = 0.02
        while True:
            spaces = self._info().namespaces
            if not any(spaces[name].pending_vector_count for name in names if name in spaces):
                return
            if time.monotonic() + pause > end:
                return
            time.sleep(pause)
            pause = min(pause * 2, 0.5)

    # What reads

    def _name_of(self, memory: str) -> str:
        return self._names.of(memory.rpartition("/")[0])

    def _all(self) -> list[str]:
        listed = self._ask(lambda index: [str(name) for name in index.list_namespaces()])
        found = [name for name in listed if name.startswith(self._names.prefix)]
        if len(found) > _SPACES:
            raise self._speaker.endless()
        return found

    def _wanted(self, sieve: Sieve) -> list[str]:
        every = self._all()  # also because asking for a namespace would make it
        if not sieve.collections:
            return every
        wanted = dict.fromkeys(self._names.of(one) for one in sieve.collections)
        return [name for name in wanted if name in every]

    def _listed(self, name: str, memories: Iterable[str]) -> list[Row]:
        return [row for its in self._rows(name, memories).values() for row in its.values()]

    def _rows(self, name: str, memories: Iterable[str]) -> dict[str, dict[str, Row]]:
        """The pieces of each memory by their ids, which follow from their places.

        How many there are is known only from one of them; and one more is always looked for, as
        the end of a longer version may have been left behind.
        """
        found: dict[str, dict[str, Row]] = {}
        asked: dict[str, Iterable[int]] = dict.fromkeys(memories, _FIRST)
        while asked:
            ids = {
                self._names.piece(memory, place): (memory, place)
                for memory, places in asked.items()
                for place in places
            }
            there = self._fetched(name, ids)
            last: dict[str, int] = {}
            for id_, row in there.items():
                memory, place = ids[id_]
                found.setdefault(memory, {})[id_] = row
                last[memory] = max(place, last.get(memory, GRAVE))
            asked = {
                memory: more
                for memory, places in asked.items()
                if (more := _more(max(places), last.get(memory), found.get(memory, {}).values()))
            }
        return found

    def _fetched(self, name: str, ids: Iterable[str]) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for some in parts(ids, _PAGE):

            def fetch(index: IndexOperations, some: list[str] = some) -> list[Row]:
                answers = index.fetch(some, include_metadata=True, namespace=name)
                return [_row(one.id, one.metadata) for one in answers if one and one.id in some]

            found |= {row.id: row for row in self._ask(fetch)}
        return found

    def _pages(self, name: str) -> Iterator[list[tuple[Row, dict[str, Any]]]]:
        """The pieces of a namespace page by page, each with all that is known of it."""
        cursor = "0"
        for _ in range(_PAGES):
            start = cursor

            def page(
                index: IndexOperations, start: str = start
            ) -> tuple[list[tuple[Row, dict[str, Any]]], str]:
                found = index.range(start, _PAGE, include_metadata=True, namespace=name)
                rows = [(_row(one.id, one.metadata), one.metadata or {}) for one in found.vectors]
                return rows, str(found.next_cursor or "")

            rows, cursor = self._ask(page)
            yield rows
            # A server that repeats itself must not be listened to for ever.
            if not cursor or cursor == start or not rows:
                return
        raise self._speaker.endless()

    def _marks(self, name: str) -> int:
        """How many of a namespace are marks of deleted memories; there are few of them."""
        alike = _nowhere(self._index(0).dimension)
        condition = f"space = '{_DEAD}'"
        found = self._ask(
            lambda index: index.query(alike, top_k=_PAGE, filter=condition, namespace=name)
        )
        if len(found) < _PAGE:
            return len(found)
        return sum(said["space"] == _DEAD for page in self._pages(name) for _, said in page)

    def _count(self, name: str, sieve: Sieve) -> int:
        return sum(_passes(said, sieve) for page in self._pages(name) for _, said in page)

    # How it is asked

    def _info(self) -> InfoResult:
        return self._ask(lambda index: index.info())

    def _index(self, dimension: int) -> _Index:
        """What the index is like, which never changes; refused if it is not for this dimension."""
        if self._known is None:
            info = self._info()
            self._known = _Index(int(info.dimension), str(info.similarity_function).upper())
        if dimension and self._known.dimension != dimension:
            raise self._speaker.refused(
                f"has an index of dimension {self._known.dimension}, and these vectors have"
                f" {dimension}",
                f"Make an index of dimension {dimension} in the Upstash console.",
            )
        return self._known

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
        from retain.engines import http

        if not self._url:
            raise self._speaker.unusable()
        self._speaker.check_no_user()
        if not self._key:  # it has no other way in, and a header without one cannot be sent
            raise self._speaker.keyless()
        self._speaker.check_key(self._key)
        connection = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"},
            **http.options(self._patience, self._settings.lanes),
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

    def _ask(self, act: Callable[[IndexOperations], T]) -> T:
        client = self._client()  # which says so where it is not installed
        import httpx

        try:
            return act(client)
        except (_Answered, httpx.HTTPError, httpx.InvalidURL, *UNREADABLE) as error:
            found = self._failure(error)
        raise found from None

    def _failure(self, error: Exception) -> EngineError:
        from retain.engines import http

        if isinstance(error, _Answered):
            answered = self._speaker.absent if error.status == 404 else self._speaker.answered
            return answered(error.status, error.said)
        return http.failure(self._speaker, error)


def _may(piece: Piece, held: Held | None) -> bool:
    """Whether this version may be put: not if a newer one is there, but again if it is the same."""
    is_same = held is not None and (held.hash, held.written) == (piece.hash, piece.written)
    return is_same or wins(piece.hash, piece.written, held)


def _more(asked: int, last: int | None, rows: Iterable[Row]) -> range:
    """The places to look at next, after the last one that was."""
    pieces = max((row.pieces for row in rows), default=0)
    # A memory has far fewer pieces than a hostile number would have us look for.
    if asked < _PLACES and (asked < pieces or asked == last):
        return range(asked + 1, max(min(pieces, asked + _PAGE), asked + _NEXT) + 1)
    return range(0)


def _vector(piece: Piece, index: _Index) -> list[float]:
    if piece.place == GRAVE or piece.vector is None:
        # The service wants a vector for everything; no question finds a grave by it.
        return _nowhere(index.dimension)
    found: list[float] = piece.vector.tolist()
    return found


def _nowhere(dimension: int) -> list[float]:
    return [1.0] + [0.0] * (dimension - 1)


def _token(value: str) -> str:
    """A value as it is compared: itself, or its digest where it has anything unusual."""
    if _SAFE.fullmatch(value):
        return value
    return f"~{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _metadata(piece: Piece) -> dict[str, Any]:
    """All that is searched by or told again; what the memory says stays at home."""
    return {
        "memory": piece.memory,
        "place": piece.place,
        "pieces": piece.pieces,
        "collection": _token(piece.collection),
        "type": _token(piece.type),
        "status": _token(piece.status),
        "tags": [_token(tag) for tag in piece.tags],
        "created": float(piece.created),
        "hash": piece.hash,
        "written": repr(float(piece.written)),  # a number might come back rounded
        "digest": piece.digest,
        "model": piece.model,
        "space": _DEAD if piece.place == GRAVE else _token(piece.model),
    }


def _row(id_: str, said: Any) -> Row:
    return Row(
        str(id_),
        str(said["memory"]),
        str(said["hash"]),
        float(said["written"]),
        int(said["pieces"]),
        str(said["model"]),
    )


def _match(said: Any, score: float) -> Match:
    return Match(str(said["memory"]), int(said["place"]), str(said["digest"]), score)


def _product(score: float, function: str) -> float:
    """The product of two vectors of length 1, from the score between 0 and 1 that is told."""
    if function == "EUCLIDEAN":
        return 1 - (1 / max(float(score), 1e-9) - 1) / 2
    return 2 * float(score) - 1


# Conditions


def _condition(sieve: Sieve, model: str) -> str:
    """A sieve in the service's own language."""
    found = [f"space = '{_token(model)}'"]
    for field, values in (
        ("collection", sieve.collections),
        ("type", sieve.types),
        ("status", sieve.statuses),
    ):
        if values:
            found.append(f"{field} IN ({_list(values)})")
    if sieve.without_statuses:
        found.append(f"status NOT IN ({_list(sieve.without_statuses)})")
    if sieve.tags:
        either = (f"tags CONTAINS '{_token(tag)}'" for tag in sieve.tags)
        found.append(f"({' OR '.join(either)})")
    if sieve.since is not None:
        found.append(f"created >= {sieve.since:.6f}")
    if sieve.until is not None:
        found.append(f"created <= {sieve.until:.6f}")
    if sieve.since is not None or sieve.until is not None:
        found.append("created != 0")
    return " AND ".join(found)


def _list(values: Iterable[str]) -> str:
    return ", ".join(f"'{_token(value)}'" for value in values)


def _passes(said: Mapping[str, Any], sieve: Sieve) -> bool:
    """The same for a piece whose values are here."""
    if said["space"] == _DEAD:
        return False
    for field, values in (
        ("collection", sieve.collections),
        ("type", sieve.types),
        ("status", sieve.statuses),
    ):
        if values and said[field] not in map(_token, values):
            return False
    if said["status"] in map(_token, sieve.without_statuses):
        return False
    if sieve.tags and not set(said["tags"]) & set(map(_token, sieve.tags)):
        return False
    return _is_within(float(said["created"]), sieve)


def _is_within(created: float, sieve: Sieve) -> bool:
    if sieve.since is None and sieve.until is None:
        return True
    after = sieve.since is None or created >= sieve.since
    return created != 0 and after and (sieve.until is None or created <= sieve.until)
