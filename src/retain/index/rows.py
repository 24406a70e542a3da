"""Rows in and out of the index: one memory at a time, inside a transaction of the caller's."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from retain.index.entries import ChunkRow, Entry
from retain.paths import key

__all__ = [
    "Adding",
    "File",
    "Known",
    "delete",
    "fact",
    "known",
    "known_of",
    "last",
    "mark_gone",
    "purge",
    "put_vector",
    "restamp",
    "set_fact",
]

_MEMORY: Final = (
    "INSERT INTO memories (number, collection, file, id, key, size, modified, changed, hash, "
    "is_settled, chunks, type, status, created, written, is_superseded, title, tags, meta, "
    "problem) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_CHUNK: Final = (
    "INSERT INTO chunks (number, memory, line, length, is_question, asks, is_heading, who, skip, "
    "lead, digest, header_path, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_LINK: Final = (
    "INSERT INTO links (memory, target, kind, edge, memory_edge, label, anchor, line, context, "
    "seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_TERMS: Final = "INSERT INTO terms (rowid, bag) VALUES (?, ?)"
_WHOLE: Final = "INSERT INTO wholes (rowid, bag) VALUES (?, ?)"
_VECTOR: Final = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?, ?)"
_PENDING: Final = "INSERT INTO pending VALUES (?)"
_ADD: Final = (_MEMORY, _CHUNK, _TERMS, _WHOLE, _VECTOR, _PENDING, _LINK)
_LEAVE: Final = (
    "UPDATE delivered SET is_left = 1 "
    "WHERE (collection, file) = (SELECT collection, file FROM memories WHERE number = ?)"
)
_CHUNKS_AT: Final = Entry._fields.index("chunks")


class Known(NamedTuple):
    """What the index knows about one file."""

    number: int
    file: str
    size: int
    modified: int
    changed: int
    hash: bytes
    is_settled: bool
    is_gone: bool

    @property
    def stamp(self) -> tuple[int, int, int]:
        return (self.size, self.modified, self.changed)


class File(NamedTuple):
    """A memory's file as it was when it was read."""

    collection: str
    name: str
    id: str
    size: int
    modified: int
    changed: int
    hash: bytes
    is_settled: bool


_KNOWN: Final = "number, file, size, modified, changed, hash, is_settled, is_gone"


def known(connection: sqlite3.Connection, collection: str) -> dict[str, Known]:
    """The files of a collection that the index knows, by name."""
    query = f"SELECT {_KNOWN} FROM memories WHERE collection = ?"  # noqa: S608 - our own names
    return {row[1]: Known(*row) for row in connection.execute(query, (collection,))}


def known_of(
    connection: sqlite3.Connection, files: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Known]:
    """Those of some files (collection and name) that the index knows."""
    query = (
        f"SELECT collection, {_KNOWN} FROM json_each(?) AS wanted JOIN memories "  # noqa: S608 - our own names
        "ON collection = wanted.value ->> 0 AND file = wanted.value ->> 1"
    )
    found = connection.execute(query, (json.dumps(files),))
    return {(row[0], row[2]): Known(*row[1:]) for row in found}


class Adding:
    """New rows of one transaction, written together: one statement per table, not per memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._memory, self._chunk = (last(connection, name) for name in ("memories", "chunks"))
        self._model = fact(connection, "model")
        self._has_salvage = connection.execute("SELECT 1 FROM salvage LIMIT 1").fetchone()
        self._rows: dict[str, list[tuple[object, ...]]] = {statement: [] for statement in _ADD}
        self._totals = [0, 0, 0]

    def add(
        self, file: File, entry: Entry, vectors: Mapping[bytes, bytes], seen: Sequence[str]
    ) -> None:
        """Index a memory; vectors made from the same texts before are used again."""
        self._memory += 1
        stamp = (file.size, file.modified, file.changed, file.hash, file.is_settled)
        rest = (len(entry.chunks), *entry[:_CHUNKS_AT])
        name = (file.collection, file.name, file.id, key(file.id))
        self._rows[_MEMORY].append((self._memory, *name, *stamp, *rest))
        for row in entry.chunks:
            self._add_chunk(row, vectors)
        if len(entry.chunks) > 1:
            whole = " ".join(row.terms for row in entry.chunks)
            self._rows[_WHOLE].append((self._memory, whole))
        for link, mark in zip(entry.links, seen, strict=True):
            self._rows[_LINK].append((self._memory, *link, mark))
        self._totals[0] += len(entry.chunks)
        self._totals[1] += sum(row.length for row in entry.chunks)
        self._totals[2] += len(entry.chunks) > 1

    def _add_chunk(self, row: ChunkRow, vectors: Mapping[bytes, bytes]) -> None:
        self._chunk += 1
        self._rows[_CHUNK].append((self._chunk, self._memory, *row[:-1]))
        self._rows[_TERMS].append((self._chunk, row.terms))
        vector = vectors.get(row.digest) or self._salvaged(row.digest)
        if vector and self._model:
            stored = _vector(self._chunk, self._memory, str(self._model), row.digest, vector)
            self._rows[_VECTOR].append(stored)
        else:
            self._rows[_PENDING].append((self._chunk,))

    def _salvaged(self, digest: bytes) -> bytes | None:
        if not self._has_salvage:
            return None
        query = "SELECT vector FROM salvage WHERE digest = ?"
        row = self._connection.execute(query, (digest,)).fetchone()
        return row[0] if row else None

    def flush(self) -> None:
        """Write what was added; must be called before the transaction ends."""
        for statement, rows in self._rows.items():
            if rows:
                self._connection.executemany(statement, rows)
                rows.clear()
        if any(self._totals):
            _total(self._connection, *self._totals)
            self._totals = [0, 0, 0]


def last(connection: sqlite3.Connection, table: str) -> int:
    """The highest number a row of a table ever had: none is used twice, or a cache would err."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
    row = connection.execute(query, (table,)).fetchone()
    return int(row[0]) if row else 0


def _total(connection: sqlite3.Connection, chunks: int, length: int, wholes: int) -> None:
    connection.execute(
        "UPDATE totals SET chunks = chunks + ?, length = length + ?, wholes = wholes + ?, "
        "version = version + 1",
        (chunks, length, wholes),
    )


def _vector(
    chunk: int, memory: int, model: str, digest: bytes, vector: bytes
) -> tuple[object, ...]:
    return chunk, memory, model, zlib.crc32(vector, zlib.crc32(digest)), digest, vector


def put_vector(
    connection: sqlite3.Connection,
    chunk: int,
    memory: int,
    model: str,
    digest: bytes,
    vector: bytes,
) -> None:
    """Store a chunk's vector with its model's identity and a check sum."""
    connection.execute(_VECTOR, _vector(chunk, memory, model, digest, vector))
    connection.execute("DELETE FROM pending WHERE chunk = ?", (chunk,))


def delete(connection: sqlite3.Connection, number: int) -> dict[bytes, bytes]:
    """Take a memory out of every table; returns its vectors, by the text they stand for."""
    connection.execute(_LEAVE, (number,))
    chunks = connection.execute(
        "SELECT number, length FROM chunks WHERE memory = ? ORDER BY number", (number,)
    ).fetchall()
    if not chunks:
        connection.execute("DELETE FROM memories WHERE number = ?", (number,))
        return {}
    span = (chunks[0][0], chunks[-1][0])
    vectors: dict[bytes, bytes] = dict(
        connection.execute("SELECT digest, vector FROM vectors WHERE chunk BETWEEN ? AND ?", span)
    )
    for table, column in _BY_CHUNK:
        connection.execute(f"DELETE FROM {table} WHERE {column} BETWEEN ? AND ?", span)  # noqa: S608 - our own names
    if len(chunks) > 1:
        connection.execute("DELETE FROM wholes WHERE rowid = ?", (number,))
    connection.execute("DELETE FROM links WHERE memory = ?", (number,))
    connection.execute("DELETE FROM memories WHERE number = ?", (number,))
    _total(connection, -len(chunks), -sum(length for _, length in chunks), -(len(chunks) > 1))
    return vectors


_BY_CHUNK: Final = (
    ("terms", "rowid"),
    ("vectors", "chunk"),
    ("pending", "chunk"),
    ("chunks", "number"),
)


def restamp(connection: sqlite3.Connection, number: int, file: File) -> None:
    """Note that a file was touched and says what it said before."""
    connection.execute(
        "UPDATE memories SET size = ?, modified = ?, changed = ?, is_settled = ?, is_gone = 0 "
        "WHERE number = ?",
        (file.size, file.modified, file.changed, file.is_settled, number),
    )


def mark_gone(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Mark memories whose files went missing together; they are found no more, and not lost."""
    connection.executemany(
        "UPDATE memories SET is_gone = 1 WHERE number = ?", ((number,) for number in numbers)
    )


def purge(connection: sqlite3.Connection) -> None:
    """Rewrite the full-text tables, which otherwise keep the terms of what was deleted."""
    for table in ("terms", "wholes"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 - our own names


def fact(connection: sqlite3.Connection, name: str) -> object:
    """Something the index remembers about itself, or None."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def set_fact(connection: sqlite3.Connection, name: str, value: object) -> None:
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
