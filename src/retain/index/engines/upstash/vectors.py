"""The vectors of a bank: put, found, counted, and told again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.index.engines.arm import GRAVE, EngineAbsent, Held, Match, Piece, Sieve, wins
from retain.index.engines.portions import Lanes, best, grouped, parts
from retain.index.engines.tally import Row, firsts, tally
from retain.index.engines.trouble import Speaker, plain
from retain.index.engines.upstash.conditions import DEAD, condition_of, passes
from retain.index.engines.upstash.connection import Connection
from retain.index.engines.upstash.pieces import (
    match_of,
    metadata_of,
    nowhere,
    product,
    row_of,
    vector_of,
)
from retain.index.engines.upstash.settings import UpstashSettings

if TYPE_CHECKING:
    from upstash_vector.core.index_operations import IndexOperations
    from upstash_vector.types import InfoResult

    from retain.index.engines.naming import Names
    from retain.index.vectors import Floats


_PAGE: Final = 1_000  # the most that the service takes or gives at a time
_FIRST: Final = (GRAVE, 0, 1, 2)  # places that are looked for before it is known how many there are
_NEXT: Final = 64
_FLOATS: Final = 250_000  # in one request, some three megabytes of JSON
_PAGES: Final = 10_000  # of a namespace; a server that makes them up has always one more
_SPACES: Final = 10_000  # namespaces of a bank
_PLACES: Final = 200_000  # of a memory, which has far fewer


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
        self._names = names
        self._patience, self._dimension = patience, dimension
        self._settings = settings or UpstashSettings()
        self._speaker = Speaker(self.name, address, key)
        self.address = self._speaker.address
        self._lanes = Lanes(self._settings.lanes)
        self._connection = Connection(
            plain(address), key, self._speaker, patience=patience, connections=self._settings.lanes
        )
        self._known: _Index | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    # What every arm can do

    def load(self) -> None:
        self._connection.load()

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
                if said["space"] == DEAD and row.written < before
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
                self._connection.ask(lambda index: index.delete_namespace(name))
            except EngineAbsent:
                return  # someone else was faster

        self._lanes.each(drop, self._all())

    def close(self) -> None:
        self._connection.close()

    # What finds

    def nearest(
        self, vectors: Sequence[Floats], model: str, sieve: Sieve, limits: Sequence[int]
    ) -> list[list[Match]]:
        if not vectors:
            return []
        # Asked before anything is: an index of another dimension is not a passing trouble.
        index = self._index(len(vectors[0]))
        condition = condition_of(sieve, model)
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
                [match_of(one.metadata, product(one.score, function) * length) for one in answer]
                for answer, length in zip(answers, lengths, strict=True)
            ]

        return self._connection.ask(query)

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
            {
                "id": piece.id,
                "vector": vector_of(piece, index.dimension),
                "metadata": metadata_of(piece),
            }
            for piece in pieces
        ]
        self._connection.ask(lambda index: index.upsert(vectors, namespace=name))

    def _delete(self, name: str, ids: Iterable[str]) -> None:
        for some in parts(ids, _PAGE):
            self._connection.ask(lambda index, some=some: index.delete(some, namespace=name))  # type: ignore[misc]

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
        listed = self._connection.ask(lambda index: [str(name) for name in index.list_namespaces()])
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
                return [row_of(one.id, one.metadata) for one in answers if one and one.id in some]

            found |= {row.id: row for row in self._connection.ask(fetch)}
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
                rows = [(row_of(one.id, one.metadata), one.metadata or {}) for one in found.vectors]
                return rows, str(found.next_cursor or "")

            rows, cursor = self._connection.ask(page)
            yield rows
            # A server that repeats itself must not be listened to for ever.
            if not cursor or cursor == start or not rows:
                return
        raise self._speaker.endless()

    def _marks(self, name: str) -> int:
        """How many of a namespace are marks of deleted memories; there are few of them."""
        alike = nowhere(self._index(0).dimension)
        condition = f"space = '{DEAD}'"
        found = self._connection.ask(
            lambda index: index.query(alike, top_k=_PAGE, filter=condition, namespace=name)
        )
        if len(found) < _PAGE:
            return len(found)
        return sum(said["space"] == DEAD for page in self._pages(name) for _, said in page)

    def _count(self, name: str, sieve: Sieve) -> int:
        return sum(passes(said, sieve) for page in self._pages(name) for _, said in page)

    # How it is asked

    def _info(self) -> InfoResult:
        return self._connection.ask(lambda index: index.info())

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
