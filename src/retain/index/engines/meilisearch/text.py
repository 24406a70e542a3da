"""The terms of a bank in Meilisearch: written, found, told again."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.index.engines.arm import GRAVE, EngineRefused, Held, Match, Piece, Sieve
from retain.index.engines.meilisearch.conditions import among, condition_of, elsewhere, moment
from retain.index.engines.meilisearch.connection import Connection
from retain.index.engines.meilisearch.indexes import Indexes
from retain.index.engines.meilisearch.questions import PARTING, queries_of, weighed
from retain.index.engines.spelling import kept, meant, word
from retain.index.engines.tally import Row, tally

if TYPE_CHECKING:
    from retain.index.engines.naming import Names


_PAGE: Final = 5_000  # documents asked for at once
_MOST: Final = 10_000_000  # of them in an index; a server that makes them up has always more
_MANY: Final = 500  # memories that are named in one filter
_SLOTS: Final = 4_096  # that memories are spread over, so that a manifest is read in parts
_FEWEST: Final = 300  # pieces that are weighed here, if there are so many
_CANDIDATES: Final = 3  # weighed for each that is asked for; more find a little more


class MeilisearchText:
    """A bank's terms on a Meilisearch server."""

    name = "Meilisearch"

    def __init__(self, address: str, key: str, names: Names, *, patience: float) -> None:
        self._names = names
        self._wire = Connection(address, key, patience)
        self.address = self._wire.address
        self._indexes = Indexes(self._wire, names)

    def load(self) -> None:
        self._wire.load()

    def version(self) -> str:
        return self._indexes.version()

    def ready(self, collections: Iterable[str]) -> None:
        self._indexes.ready({self._names.of(collection) for collection in collections})

    def put(self, pieces: Sequence[Piece]) -> None:
        self._indexes.ready({self._names.of(piece.collection) for piece in pieces})
        by_index: dict[str, list[Piece]] = defaultdict(list)
        for piece in self._winners(pieces):
            by_index[self._names.of(piece.collection)].append(piece)
        tasks = []
        for index, some in by_index.items():
            documents = [self._document(piece) for piece in some]
            tasks.append(self._indexes.task("post", f"indexes/{index}/documents", documents))
            tasks.append(self._delete(index, self._stale(some)))
        self._indexes.done(tasks)

    def _winners(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Those that are not older than what is held, as far as can be seen beforehand."""
        # Meilisearch has no condition on a write. Who writes in this very moment is not seen;
        # the next comparison of what is held then sets it right.
        held = self.held([piece.memory for piece in pieces])
        return [
            piece
            for piece in pieces
            if (there := held.get(piece.memory)) is None
            or (piece.written, piece.hash) >= (there.written, there.hash)
        ]

    def _document(self, piece: Piece) -> dict[str, Any]:
        owner = self._owner(piece.memory)
        return {
            "id": piece.id,
            "owner": owner,
            "slot": _slot(owner),
            "memory": kept(piece.memory),
            "place": piece.place,
            "pieces": piece.pieces,
            "type": word(piece.type),
            "status": word(piece.status),
            "tags": [word(tag) for tag in piece.tags],
            "created": moment(piece.created),
            "hash": piece.hash,
            "written": repr(piece.written),  # a number would lose its last digit on the way
            "digest": piece.digest,
            "model": kept(piece.model),
            "terms": PARTING.join(word(term) for term in piece.terms.split()),
        }

    def _owner(self, memory: str) -> str:
        """One short name for all pieces of a memory, however long its own is."""
        return self._names.piece(memory, GRAVE)

    def _stale(self, pieces: Sequence[Piece]) -> str:
        """A filter for what these memories had before and have no more."""
        # By place, not by version: where two write one memory at once, what is left is whole.
        places: dict[str, set[int]] = defaultdict(set)
        for piece in pieces:
            places[self._owner(piece.memory)].add(piece.place)
        owners: dict[frozenset[int], list[str]] = defaultdict(list)
        for owner, there in places.items():
            owners[frozenset(there)].append(owner)
        return " OR ".join(
            f"({among('owner', some)} AND ({elsewhere(there)}))" for there, some in owners.items()
        )

    def remove(self, memories: Sequence[str]) -> None:
        there = self._indexes.all()
        by_index = self._by_index(memories)
        self._indexes.done(
            [
                self._delete(index, among("owner", owners))
                for index, owners in by_index.items()
                if index in there
            ]
        )

    def _by_index(self, memories: Iterable[str]) -> dict[str, list[str]]:
        """The owners of these memories' pieces, by the index they are in."""
        found: dict[str, list[str]] = defaultdict(list)
        for memory in dict.fromkeys(memories):
            collection = memory.rpartition("/")[0]
            found[self._names.of(collection)].append(self._owner(memory))
        return found

    def held(self, memories: Sequence[str]) -> Mapping[str, Held]:
        there = self._indexes.all()
        return {
            held.memory: held
            for index, owners in self._by_index(memories).items()
            if index in there
            for at in range(0, len(owners), _MANY)
            for held in self._held(index, among("owner", owners[at : at + _MANY]))
        }

    def manifest(self) -> Iterator[Held]:
        for index in self._indexes.all():
            parts = min(_SLOTS, 1 + self._total(index, "") // _PAGE)
            for part in range(parts):
                first, end = part * _SLOTS // parts, (part + 1) * _SLOTS // parts
                yield from self._held(index, f"slot >= {first} AND slot < {end}")

    def prune(self, before: float) -> int:
        found = 0
        for index in self._indexes.all():
            graves = self._held(index, f"place = {GRAVE}")
            old = [self._owner(grave.memory) for grave in graves if grave.written < before]
            found += len(old)
            conditions = [
                f"place = {GRAVE} AND {among('owner', old[at : at + _MANY])}"
                for at in range(0, len(old), _MANY)
            ]
            self._indexes.done([self._delete(index, condition) for condition in conditions])
        return found

    def _held(self, index: str, condition: str) -> Iterator[Held]:
        """The memories whose pieces all pass a filter or none of them."""
        with self._wire.reading():
            found = tally(
                Row(
                    id=str(document["id"]),
                    memory=meant(document["memory"]),
                    hash=str(document["hash"]),
                    written=float(document["written"]),
                    pieces=int(document["pieces"]),
                    model=meant(document["model"]),
                )
                for document in self._documents(index, condition)
            )
        yield from found.values()

    def _documents(self, index: str, condition: str) -> Iterator[Mapping[str, Any]]:
        fields = ["id", "memory", "hash", "written", "pieces", "model"]
        for offset in range(0, _MOST, _PAGE):
            body = {"filter": condition, "fields": fields, "limit": _PAGE, "offset": offset}
            documents = self._fetched(index, body).get("results", [])
            yield from documents
            if len(documents) < _PAGE:
                return
        raise self._wire.speaker.endless()

    def _fetched(self, index: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A page of documents; an empty one of a collection that nothing is in."""
        try:
            # A collection may be gone by now, on another machine's word.
            page = self._wire.ask("post", f"indexes/{index}/documents/fetch", body, missing={})
        except EngineRefused:
            if not self._indexes.is_empty(index):
                raise
            return {}
        found: Mapping[str, Any] = page
        return found

    def count(self, sieve: Sieve) -> int:
        return sum(self._total(index, condition_of(sieve)) for index in self._within(sieve))

    def _total(self, index: str, condition: str) -> int:
        body = {"limit": 0, **({"filter": condition} if condition else {})}
        with self._wire.reading():
            return int(self._fetched(index, body).get("total", 0))

    def matching(self, terms: Mapping[str, float], sieve: Sieve, limit: int) -> list[Match]:
        weights: dict[str, float] = {}
        for term, weight in sorted(terms.items(), key=lambda item: -item[1]):
            if weight > 0:
                weights.setdefault(word(term), weight)
        indexes = self._within(sieve)
        if not weights or not indexes or limit <= 0:
            return []
        try:
            return self._matching(indexes, weights, sieve, limit)
        except EngineRefused:
            filled = self._indexes.filled(indexes)
            if len(filled) == len(indexes):
                raise
        return self._matching(filled, weights, sieve, limit) if filled else []

    def _matching(
        self, indexes: Iterable[str], weights: Mapping[str, float], sieve: Sieve, limit: int
    ) -> list[Match]:
        queries = [
            query for index in indexes for query in queries_of(index, weights, condition_of(sieve))
        ]
        most = max(_FEWEST, limit * _CANDIDATES)
        body = {"federation": {"limit": most}, "queries": queries}
        with self._wire.reading():
            return weighed(self._wire.ask("post", "multi-search", body)["hits"], weights, limit)

    def otherwise(self) -> list[str]:
        return [f"{index} has other settings than Retain gives it" for index in self._indexes.odd()]

    def adapt(self) -> None:
        self._indexes.adapt()

    def drop(self) -> None:
        self._indexes.drop()

    def close(self) -> None:
        self._wire.close()

    def _within(self, sieve: Sieve) -> list[str]:
        there = self._indexes.all()
        if not sieve.collections:
            return there
        asked = {self._names.of(collection) for collection in sieve.collections}
        return [index for index in there if index in asked]

    def _delete(self, index: str, condition: str) -> int:
        return self._indexes.task(
            "post", f"indexes/{index}/documents/delete", {"filter": condition}
        )


def _slot(owner: str) -> int:
    return zlib.crc32(owner.encode()) % _SLOTS
