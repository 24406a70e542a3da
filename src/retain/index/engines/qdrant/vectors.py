"""The vectors of a bank in Qdrant: written, found, told again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.index.engines.addresses import each
from retain.index.engines.arm import GRAVE, Held, Match, Piece, Sieve
from retain.index.engines.portions import Lanes, best, grouped, parts
from retain.index.engines.qdrant.asking import Questions
from retain.index.engines.qdrant.clients import Clients
from retain.index.engines.qdrant.conditions import (
    any_of,
    buried,
    either,
    equal,
    not_newer,
    older_than,
    sieved,
)
from retain.index.engines.qdrant.making import Collections
from retain.index.engines.qdrant.points import Version, batches, payload_of, vector_of, version_of
from retain.index.engines.qdrant.settings import QdrantSettings
from retain.index.engines.tally import Row, firsts, tally
from retain.index.engines.trouble import Speaker, plain
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.http import models as q

    from retain.index.engines.naming import Names
    from retain.index.vectors import Floats


_OLDEST: Final = (1, 16)  # the first that can refuse to replace a newer piece by itself
_PAGE: Final = 1_000
_PAGES: Final = 10_000  # of a collection; a server that makes them up has always one more
_MANY: Final = 10_000  # collections of a bank
_FLOATS: Final = 250_000  # in one request, some three megabytes of JSON
_FOUND: Final = ["memory", "place", "digest"]


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
        urls = each(address)
        self._names, self._dimension = names, dimension
        self._settings = settings or QdrantSettings()
        self._speaker = Speaker(self.name, address, key)
        self._speaker.address = ",".join(map(plain, urls))
        self.address = self._speaker.address
        self._lanes = Lanes(self._settings.lanes)
        self._questions = Questions(
            urls, key, self._speaker, patience=patience, connections=self._settings.lanes
        )
        self._clients = Clients(
            urls, key, self._speaker, patience=patience, connections=self._settings.lanes
        )
        self._collections = Collections(self._clients, self._settings, self._speaker)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    # What every arm can do

    def load(self) -> None:
        self._questions.load()

    def version(self) -> str:
        return flat(self._questions.version(), 20)

    def ready(self, collections: Iterable[str]) -> None:
        self._speaker.check_version(self.version(), _OLDEST)
        names = [self._names.of(collection) for collection in collections]
        self._lanes.each(lambda name: self._collections.make(name, self._dimension), names)
        if not names:
            self._clients.ask(lambda client: client.get_collections())

    def put(self, pieces: Sequence[Piece]) -> None:
        groups = grouped(pieces, lambda piece: self._names.of(piece.collection))
        self._lanes.each(lambda name: self._put(name, groups[name]), groups)

    def remove(self, memories: Sequence[str]) -> None:
        self._clients.load()  # which says so where it is not installed
        groups = grouped(memories, self._name_of)

        def remove(name: str) -> None:
            for some in parts(groups[name], _PAGE):
                self._delete(name, any_of("memory", some))

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
        self._clients.load()
        condition = buried(math.floor(before))

        def prune(name: str) -> int:
            found = self._count(name, condition)
            if found:
                self._delete(name, condition)
            return found

        return sum(self._lanes.each(prune, self._all()))

    def count(self, sieve: Sieve) -> int:
        condition = sieved(sieve, {"must_not": [equal("place", GRAVE)]})
        return sum(
            self._lanes.each(
                lambda name: self._questions.count(name, condition), self._wanted(sieve)
            )
        )

    def otherwise(self) -> list[str]:
        found = self._lanes.each(self._collections.differs, self._all())
        return [line for lines in found for line in lines]

    def adapt(self) -> None:
        self._lanes.each(self._collections.change, self._all())

    def drop(self) -> None:
        def drop(name: str) -> None:
            self._clients.there(lambda client: client.delete_collection(name), None)
            self._collections.forget(name)

        self._lanes.each(drop, self._all())

    def close(self) -> None:
        self._questions.close()
        self._clients.close()

    # What finds

    def nearest(
        self, vectors: Sequence[Floats], model: str, sieve: Sieve, limits: Sequence[int]
    ) -> list[list[Match]]:
        if not vectors:
            return []
        condition = sieved(sieve, {"must": [equal("model", model)]})
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

        def query(name: str) -> list[list[Match]]:
            return self._questions.query(name, searches, self._consistency)

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

    @property
    def _consistency(self) -> str:
        wanted = self._settings.read_consistency
        return "" if wanted == "one" else wanted

    # What writes

    def _put(self, name: str, pieces: Sequence[Piece]) -> None:
        dimension = next((len(p.vector) for p in pieces if p.vector is not None), self._dimension)
        self._collections.make(name, dimension)
        memories = grouped(pieces, lambda piece: piece.memory)
        most = max(1, min(self._settings.batch, _FLOATS // max(1, dimension)))
        for some in batches(memories, most):
            self._put_some(name, {memory: memories[memory] for memory in some}, most)

    def _put_some(self, name: str, memories: Mapping[str, Sequence[Piece]], most: int) -> None:
        versions = {memory: version_of(pieces[0]) for memory, pieces in memories.items()}
        condition = either(not_newer(memory, version) for memory, version in versions.items())
        pieces = [piece for its in memories.values() for piece in its]
        for some in parts(pieces, most):
            self._upsert(name, some, condition)
        self._tidy(name, versions)

    def _tidy(self, name: str, versions: Mapping[str, Version]) -> None:
        """Remove what is left of older versions; and what was put here, where a newer one is.

        A newer version keeps its own places, but what was put beyond its end is to go. If it comes
        at this very moment it does the same: whoever is second sees the other.
        """
        wrong: list[q.Filter] = []
        for memory, rows in grouped(self._rows_of(name, versions), lambda row: row.memory).items():
            newest = max(version_of(row) for row in rows)
            if any(version_of(row) != newest for row in rows):
                wrong.append(older_than(memory, newest))
        if wrong:
            self._delete(name, either(wrong))

    def _upsert(self, name: str, pieces: Sequence[Piece], condition: q.Filter) -> None:
        from qdrant_client.http import models as q

        points = [
            q.PointStruct(id=piece.id, vector=vector_of(piece), payload=payload_of(piece))
            for piece in pieces
        ]

        def upsert(client: QdrantClient) -> None:
            client.upsert(
                name, points, wait=True, ordering=self._ordering(), update_filter=condition
            )

        self._clients.ask(upsert, absent=lambda: self._make_again(name, pieces))

    def _make_again(self, name: str, pieces: Sequence[Piece]) -> None:
        """Another machine has dropped it since."""
        self._collections.forget(name)
        dimension = next((len(p.vector) for p in pieces if p.vector is not None), self._dimension)
        self._collections.make(name, dimension)

    def _delete(self, name: str, condition: Any) -> None:
        from qdrant_client.http import models as q

        selector = q.FilterSelector(filter=condition)
        self._clients.there(
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
        found = [name for name in listed if name.startswith(self._names.prefix)]
        if len(found) > _MANY:
            raise self._speaker.endless()
        return found

    def _wanted(self, sieve: Sieve) -> list[str]:
        if not sieve.collections:
            return self._all()
        return list(dict.fromkeys(self._names.of(one) for one in sieve.collections))

    def _count(self, name: str, condition: q.Filter) -> int:
        return self._clients.there(
            lambda client: client.count(name, count_filter=condition, exact=True).count, 0
        )

    def _rows_of(self, name: str, memories: Iterable[str]) -> list[Row]:
        return [
            row
            for some in parts(memories, _PAGE)
            for row in self._rows(name, any_of("memory", some))
        ]

    def _rows(self, name: str, condition: Mapping[str, Any]) -> list[Row]:
        return [row for page, _ in self._pages(name, condition) for row in page]

    def _pages(
        self, name: str, condition: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[list[Row], bool]]:
        """The pieces of a collection page by page, and whether a page is all there is."""
        offset: Any = None
        for _ in range(_PAGES):
            start = offset
            rows, offset = self._questions.scroll(
                name, condition or {}, start, _PAGE, self._consistency
            )
            yield rows, start is None and offset is None
            # A server that repeats itself must not be listened to for ever.
            if offset is None or offset == start or not rows:
                return
        raise self._speaker.endless()
