"""What an engine holds, brought in step with the index.

The index says which documents there are, the table `delivered` which of them an engine was given;
the difference is sent. Nothing else is agreed with other machines: an id says all that a document
says, so whoever puts it puts the same. Every six hours, and when an engine holds fewer documents
than it was given, the ids on the server are read and compared.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index import database
from retain.index.engines.client import LONG_SECONDS, Client, describe
from retain.index.engines.engine import Document, EngineError
from retain.locate import make_private_directory
from retain.memory import parse_time

if TYPE_CHECKING:
    from retain.index.database import Database
    from retain.index.vectors import Mean

Progress = Callable[[int, int], None]  # done, of how many

# How texts are cut, their words stemmed and their vectors joined: raised when any of that is done
# in another way, so that every document is a new one.
_FORMAT: Final = 1
_BATCH: Final = 256  # memories that are read, and documents that are sent, at once
_COMPARE_SECONDS: Final = 6 * 3_600.0  # between two comparisons with what is on the server
_POLL_SECONDS: Final = 0.2  # between looks whether another process has done
_LOCK: Final = "engine.lock"
_STALE: Final = 0.02  # of the chunks: from which change on their mean is taken anew

# A memory that changes gets a number higher than any before, so up to `:floor` nothing has to be
# looked at again. One that is gone from disk together with most others is not deleted: see `sync`.
_UNSENT: Final = (
    "SELECT {} FROM memories m WHERE m.number > :floor AND m.chunks > (SELECT count(*) "
    "FROM delivered d WHERE d.engine = :engine AND d.memory = m.number AND d.is_sent)"
)
_WAITING: Final = f"{_UNSENT.format('m.number')} AND NOT m.is_gone"
_LACKS_VECTORS: Final = (
    "EXISTS (SELECT 1 FROM chunks c JOIN pending p ON p.chunk = c.number WHERE c.memory = m.number)"
)
_DELETED: Final = (
    "SELECT d.id FROM delivered d WHERE d.engine = ? "
    "AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.number = d.memory)"
)
_MEMORIES: Final = (
    "SELECT number, collection, file, type, status, created, tags FROM memories "
    "WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number"
)
_CHUNKS: Final = (
    "SELECT c.number, hex(c.digest), t.c0 FROM chunks c "
    "LEFT JOIN terms_content t ON t.id = c.number WHERE c.memory = ? ORDER BY c.number"
)


class Entry(NamedTuple):
    """A document, and the chunk of the index that it is a copy of."""

    memory: int
    name: str  # of the memory: collection/file
    chunk: int
    document: Document


def entries(
    connection: sqlite3.Connection,
    numbers: Sequence[int],
    bank: str,
    model: str,
    *,
    has_vectors: bool = True,
) -> Iterator[Entry]:
    """The documents of some memories: with a model for its vectors, without one for the words."""
    for number, collection, file, kind, status, created, tags in connection.execute(
        _MEMORIES, (json.dumps(numbers),)
    ).fetchall():
        name = f"{collection}/{file}"
        lowered = tuple(dict.fromkeys(tag.casefold() for tag in json.loads(tags)))
        metadata = (collection, kind, status, lowered, _seconds(created))
        chunks = connection.execute(_CHUNKS, (number,)).fetchall()
        digests = ["", *(digest for _, digest, _ in chunks), ""]
        vectors = {}
        if model and has_vectors:
            from retain.index.vectors import of_memory  # numpy takes 60 ms

            vectors = of_memory(connection, number, model)
        for place, (chunk, _, bag) in enumerate(chunks):
            terms = "" if model else bag or ""
            # The neighbours of a chunk are part of its vector.
            content = digests[place : place + 3] if model else terms
            facts = json.dumps([_FORMAT, bank, model, name, place, metadata, content])
            id_ = uuid.UUID(bytes=blake2b(facts.encode(), digest_size=16).digest())
            document = Document(str(id_), *metadata, vector=vectors.get(chunk), terms=terms)
            yield Entry(number, name, chunk, document)


def _seconds(created: str) -> float:
    moment = parse_time(created)
    return moment.timestamp() if moment else 0.0


# What is noted in the index


def waiting(
    connection: sqlite3.Connection,
    key: str,
    most: int = -1,
    *,
    after: int = 0,
    needs_vectors: bool = False,
) -> list[int]:
    """The memories after a number that an engine was not given as they are, in their order."""
    floor = max(after, _floor(connection, key))
    query = f"{_WAITING}{f' AND NOT {_LACKS_VECTORS}' if needs_vectors else ''}"
    values = {"engine": key, "floor": floor, "most": most}
    found = connection.execute(f"{query} ORDER BY m.number LIMIT :most", values)
    return [number for (number,) in found]


def is_filled(connection: sqlite3.Connection, key: str) -> bool:
    """Whether an engine was ever compared with the index."""
    return database.fact(connection, f"engine:{key}:compared") is not None


def failure(connection: sqlite3.Connection, key: str) -> str:
    """What kept the last delivery from its end, empty where nothing did."""
    return str(database.fact(connection, f"engine:{key}:failure") or "")


def locate(connection: sqlite3.Connection, key: str, ids: Sequence[str]) -> list[int]:
    """The chunks that these documents are copies of, in their order; others are left out."""
    query = (
        "SELECT c.number FROM json_each(?) o JOIN delivered d ON d.engine = ? AND d.id = o.value "
        "JOIN chunks c ON c.number = d.chunk ORDER BY o.key"
    )
    return [number for (number,) in connection.execute(query, (json.dumps(list(ids)), key))]


def forget(connection: sqlite3.Connection, key: str) -> None:
    """Know nothing any more about what an engine holds."""
    connection.execute("DELETE FROM delivered WHERE engine = ?", (key,))
    connection.execute(
        "DELETE FROM facts WHERE name = ?1 OR name GLOB ?1 || ':*'", (f"engine:{key}",)
    )


def targets(connection: sqlite3.Connection) -> dict[str, str]:
    """The servers that something was delivered to, by their keys."""
    query = "SELECT name, value FROM facts WHERE name GLOB 'engine:*' AND name NOT GLOB '*:*:*'"
    found = connection.execute(query).fetchall()
    return {str(name).removeprefix("engine:"): str(target) for name, target in found}


def mean(connection: sqlite3.Connection, model: str) -> Mean | None:
    """What all vectors have in common, as it was counted last; None if it never was."""
    import numpy as np

    from retain.index.vectors import Mean

    noted = database.fact(connection, "mean")
    name, _, data = noted.partition(b"\0") if isinstance(noted, bytes) else (b"", b"", b"")
    if name != model.encode() or not data:
        return None
    return Mean(int.from_bytes(data[:8], "big"), np.frombuffer(data[8:], np.float32))


def _floor(connection: sqlite3.Connection, key: str) -> int:
    """Up to which number an engine was given every memory."""
    return int(str(database.fact(connection, f"engine:{key}:floor") or 0))


class Pushed(NamedTuple):
    """What a delivery did, and what it left."""

    sent: int = 0  # memories
    known: int = 0  # memories that the engine had already
    removed: int = 0  # documents
    left: int = 0  # memories that wait
    lacking: int = 0  # memories that wait for their vectors
    is_busy: bool = False  # another process delivers just now


class Drift(NamedTuple):
    """Where a bank and an engine differ."""

    memories: int = 0  # that the bank has
    missing: tuple[str, ...] = ()  # of which a document is not there: collection/file
    extra: int = 0  # documents that are there, and of no memory here
    lacking: int = 0  # memories that wait for their vectors
    is_shared: bool = False  # another machine may have put what is extra

    @property
    def total(self) -> int:
        """How much the engine is wrong about."""
        return len(self.missing) + (0 if self.is_shared else self.extra)


@contextlib.contextmanager
def locked(store: Database, seconds: float) -> Iterator[bool]:
    """One process of a machine delivers at a time; others are waited for. Whether it is ours."""
    if store.is_temporary:  # in memory: nobody else has it
        yield True
        return
    make_private_directory(store.directory)
    with open(os.path.join(store.directory, _LOCK), "a", encoding="ascii") as file:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    yield False
                    return
                time.sleep(_POLL_SECONDS)
        yield True


class Delivery:
    """Brings one engine in step with the index of one bank."""

    def __init__(
        self, store: Database, client: Client, bank: str, model: str, *, is_shared: bool
    ) -> None:
        self._store, self.client = store, client
        self._bank, self._model = bank, model  # whose vectors are sent; empty for words
        self._is_shared = is_shared

    def push(
        self,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
        progress: Progress | None = None,
        seconds: float = 0.0,
        compare: bool = False,
        is_mine: bool = False,
    ) -> Pushed:
        """Deliver what waits; another process that delivers is waited for so many seconds.

        With `compare` the ids on the server are read first; with `is_mine` what only other machines
        have put there is removed.
        """
        with locked(self._store, seconds) as is_ours:
            if not is_ours:
                return Pushed(left=self._count(_WAITING), is_busy=True)
            try:
                return self._push(is_stopped, progress, compare, is_mine)
            except EngineError as error:
                if not self.client.is_closed:  # else nobody has waited for it
                    with self._store.writing() as connection:
                        name = f"engine:{self.client.key}:failure"
                        database.set_fact(connection, name, describe(error))
                raise

    def _push(
        self,
        is_stopped: Callable[[], bool],
        progress: Progress | None,
        compare: bool,
        is_mine: bool,
    ) -> Pushed:
        there = self._compare() if compare or self._must_compare() else None
        total, sent, known, last = self._count(_WAITING), 0, 0, 0
        while not is_stopped() and (numbers := self._next(last)):
            new, old = self._send(numbers, there or frozenset())
            sent, known, last = sent + new, known + old, numbers[-1]
            if progress:
                progress(sent + known, max(total, sent + known))
        removed = 0 if is_stopped() else self._remove(self._ids(_DELETED))
        lacking = self._count(f"{_WAITING} AND {_LACKS_VECTORS}") if self._model else 0
        left = self._count(_WAITING) - lacking
        if there is not None and not left and not lacking and (is_mine or not self._is_shared):
            self.client.call(lambda engine: engine.drop(others=True), LONG_SECONDS)
            ours = set(self._ids("SELECT id FROM delivered WHERE engine = ?"))
            removed += self._remove([id_ for id_ in there if id_ not in ours])
        self._settle()
        return Pushed(sent, known, removed, left, lacking)

    def _must_compare(self) -> bool:
        """Whether the last comparison is too long ago, or the engine has lost something since."""
        with self._store.reading() as connection:
            last = database.fact(connection, f"engine:{self.client.key}:compared")
        # Whatever the clock was then.
        if last is None or not 0 <= time.time() - float(str(last)) < _COMPARE_SECONDS:
            return True
        given = "SELECT 1 FROM delivered WHERE engine = :engine AND is_sent"
        return self.client.call(lambda engine: int(engine.count())) < self._count(given)

    def _compare(self) -> frozenset[str]:
        """The ids on the server; what was lost there waits again."""
        there = frozenset(self.client.call(lambda engine: list(engine.ids()), LONG_SECONDS))
        key = self.client.key
        lost = [
            (key, id_)
            for id_ in self._ids("SELECT id FROM delivered WHERE engine = ? AND is_sent")
            if id_ not in there
        ]
        with self._store.writing() as connection:
            query = "UPDATE delivered SET is_sent = 0 WHERE engine = ? AND id = ?"
            connection.executemany(query, lost)
            if lost:
                connection.execute("DELETE FROM facts WHERE name = ?", (f"engine:{key}:floor",))
            database.set_fact(connection, f"engine:{key}", self.client.target)
            database.set_fact(connection, f"engine:{key}:compared", int(time.time()))
        return there

    def _next(self, last: int) -> list[int]:
        """The next memories that can be sent."""
        needs = bool(self._model)
        with self._store.reading() as connection:
            return waiting(connection, self.client.key, _BATCH, after=last, needs_vectors=needs)

    def _send(self, numbers: Sequence[int], there: frozenset[str]) -> tuple[int, int]:
        """Give the engine what it lacks of some memories; how many were sent, how many known."""
        key = self.client.key
        with self._store.reading() as connection:
            every = entries(connection, numbers, self._bank, self._model)
            # Vectors may still be another model's: what has none of this one waits.
            found = [
                entry for entry in every if not self._model or entry.document.vector is not None
            ]
        rows = [(key, entry.document.id, entry.memory, entry.chunk) for entry in found]
        # Noted before it is sent: whoever is killed between knows what may be on the server.
        with self._store.writing() as connection:
            connection.executemany(
                "INSERT INTO delivered VALUES (?, ?, ?, ?, 0) ON CONFLICT (engine, id) "
                "DO UPDATE SET memory = excluded.memory, chunk = excluded.chunk",
                rows,
            )
            query = (
                "SELECT id FROM delivered WHERE engine = ? AND is_sent AND memory BETWEEN ? AND ?"
            )
            known = connection.execute(query, (key, numbers[0], numbers[-1])).fetchall()
        known_ids = there | {id_ for (id_,) in known}
        new = [entry for entry in found if entry.document.id not in known_ids]
        for start in range(0, len(new), _BATCH):
            some = [entry.document for entry in new[start : start + _BATCH]]
            self.client.call(lambda engine, some=some: engine.put(some), LONG_SECONDS)  # type: ignore[misc]
        with self._store.writing() as connection:
            query = "UPDATE delivered SET is_sent = 1 WHERE engine = ? AND id = ?"
            connection.executemany(query, (row[:2] for row in rows))
        sent = {entry.memory for entry in new}
        return len(sent), len({entry.memory for entry in found} - sent)

    def _remove(self, ids: Sequence[str]) -> int:
        """Remove documents that are of no memory here; how many there were."""
        for start in range(0, len(ids), _BATCH):
            some = ids[start : start + _BATCH]
            self.client.call(lambda engine, some=some: engine.delete(some))  # type: ignore[misc]
            with self._store.writing() as connection:
                query = "DELETE FROM delivered WHERE engine = ? AND id = ?"
                connection.executemany(query, ((self.client.key, id_) for id_ in some))
        return len(ids)

    def _settle(self) -> None:
        """Note what searches want to know: how far the engine is, and what all vectors share."""
        new = self._new_mean() if self._model else None
        key = self.client.key
        with self._store.writing() as connection:
            values = {"engine": key, "floor": _floor(connection, key)}
            (first,) = connection.execute(_UNSENT.format("min(m.number)"), values).fetchone()
            # A number that was given before is never given again.
            last = database.last_number(connection, "memories")
            floor = last if first is None else first - 1
            database.set_fact(connection, f"engine:{key}:floor", floor)
            database.set_fact(connection, f"engine:{key}:failure", "")
            if new is not None:
                data = new.chunks.to_bytes(8, "big") + new.vector.tobytes()
                database.set_fact(connection, "mean", self._model.encode() + b"\0" + data)

    def _new_mean(self) -> Mean | None:
        """What all vectors have in common, where enough has changed since it was noted."""
        from retain.index.vectors import total

        with self._store.reading() as connection:
            query = "SELECT count(*) FROM vectors WHERE model = ?"
            (chunks,) = connection.execute(query, (self._model,)).fetchone()
            old = mean(connection, self._model)
            if old is not None and abs(old.chunks - chunks) <= _STALE * old.chunks:
                return None
            return total(connection, self._model)

    def verify(self) -> Drift:
        """Compare the ids on the server with those of the index."""
        there = set(self.client.call(lambda engine: list(engine.ids()), LONG_SECONDS))
        missing: dict[str, None] = {}
        with self._store.reading() as connection:
            query = f"SELECT number, is_gone, {_LACKS_VECTORS} FROM memories m"  # noqa: S608 - ours
            rows = connection.execute(query).fetchall()
            here = [
                (number, lacks and bool(self._model)) for number, gone, lacks in rows if not gone
            ]
            numbers = [number for number, lacks in here if not lacks]
            for entry in entries(connection, numbers, self._bank, self._model, has_vectors=False):
                if entry.document.id not in there:
                    missing[entry.name] = None
                there.discard(entry.document.id)
            # What is gone from disk with most others is not deleted.
            query = (
                "SELECT d.id FROM delivered d JOIN memories m ON m.number = d.memory "
                "WHERE d.engine = ? AND m.is_gone"
            )
            there -= {id_ for (id_,) in connection.execute(query, (self.client.key,))}
        lacking = len(here) - len(numbers)
        return Drift(len(here), tuple(missing), len(there), lacking, self._is_shared)

    def drop(self) -> int:
        """Remove everything of the bank from the server; how many documents there were."""
        found: int = self.client.call(lambda engine: engine.drop(), LONG_SECONDS)
        here = self.client.target.rpartition("-retain")[0]
        with self._store.writing() as connection:
            for key, target in targets(connection).items():
                if target.rpartition("-retain")[0] == here:
                    forget(connection, key)
        return found

    def _ids(self, query: str) -> list[str]:
        with self._store.reading() as connection:
            return [id_ for (id_,) in connection.execute(query, (self.client.key,))]

    def _count(self, query: str) -> int:
        with self._store.reading() as connection:
            values = {"engine": self.client.key, "floor": _floor(connection, self.client.key)}
            counting = f"SELECT count(*) FROM ({query})"  # noqa: S608 - our own words
            return int(connection.execute(counting, values).fetchone()[0])
