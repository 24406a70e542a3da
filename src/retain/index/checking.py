"""What an index holds, and whether it says what the files say."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from retain.errors import RetainError
from retain.index import rows
from retain.index.entries import ChunkRow, Entry, LinkRow, entry
from retain.index.rows import Known
from retain.index.store import Damaged, Store
from retain.reading import Entry as File
from retain.reading import OpenReader, Reader

__all__ = ["Facts", "facts", "faults", "tags", "types"]

# What must not be there, and the query that counts it.
_RULES: Final = {
    "total of chunks that is wrong": (
        "SELECT (SELECT chunks FROM totals) <> (SELECT count(*) FROM chunks)"
    ),
    "total of words that is wrong": (
        "SELECT (SELECT length FROM totals) <> (SELECT coalesce(sum(length), 0) FROM chunks)"
    ),
    "total of longer memories that is wrong": (
        "SELECT (SELECT wholes FROM totals) <> (SELECT count(*) FROM memories WHERE chunks > 1)"
    ),
    "memories without all of their chunks": (
        "SELECT count(*) FROM memories m WHERE chunks <> (SELECT count(*) FROM chunks c "
        "WHERE c.memory = m.number)"
    ),
    "chunks without their memory": (
        "SELECT count(*) FROM chunks WHERE memory NOT IN (SELECT number FROM memories)"
    ),
    "chunks that no word finds": (
        "SELECT count(*) FROM chunks WHERE number NOT IN (SELECT rowid FROM terms)"
    ),
    "words without their chunk": (
        "SELECT count(*) FROM terms WHERE rowid NOT IN (SELECT number FROM chunks)"
    ),
    "longer memories that no word finds as a whole": (
        "SELECT count(*) FROM memories WHERE chunks > 1 AND number NOT IN (SELECT rowid FROM "
        "wholes)"
    ),
    "words without their memory": (
        "SELECT count(*) FROM wholes WHERE rowid NOT IN (SELECT number FROM memories WHERE "
        "chunks > 1)"
    ),
    "links without their memory": (
        "SELECT count(*) FROM links WHERE memory NOT IN (SELECT number FROM memories)"
    ),
    "chunks that have no vector and wait for none": (
        "SELECT count(*) FROM chunks WHERE number NOT IN (SELECT chunk FROM vectors) AND "
        "number NOT IN (SELECT chunk FROM pending)"
    ),
    "chunks that wait for a vector and have one, or are not there": (
        "SELECT count(*) FROM pending WHERE chunk IN (SELECT chunk FROM vectors) OR chunk "
        "NOT IN (SELECT number FROM chunks)"
    ),
    "vectors of another text than their chunk's": (
        "SELECT count(*) FROM vectors v LEFT JOIN chunks c ON c.number = v.chunk WHERE "
        "c.number IS NULL OR c.memory <> v.memory OR c.digest <> v.digest"
    ),
    "vectors of another model": (
        "SELECT count(*) FROM vectors WHERE model IS NOT (SELECT value FROM facts WHERE name "
        "= 'model')"
    ),
}

# When a text was written may be known from its file's time alone, which anyone can change.
_FIELDS: Final = [name for name in Entry._fields if name not in ("written", "chunks", "links")]
_FIELDS_QUERY: Final = f"SELECT {', '.join(_FIELDS)} FROM memories WHERE number = ?"  # noqa: S608 - our own names
_CHUNKS_QUERY: Final = (
    f"SELECT {', '.join(ChunkRow._fields[:-1])}, bag FROM chunks "  # noqa: S608 - our own names
    "JOIN terms ON terms.rowid = chunks.number WHERE memory = ? ORDER BY chunks.number"
)
_LINKS_QUERY: Final = (
    f"SELECT {', '.join(LinkRow._fields)} FROM links WHERE memory = ? ORDER BY rowid"  # noqa: S608 - our own names
)


class Facts(NamedTuple):
    """An index at a glance."""

    memories: int = 0
    size: int = 0  # of the memories' files
    chunks: int = 0
    vectors: int = 0
    pending: int = 0
    held: int = 0
    model: str = ""


def facts(connection: sqlite3.Connection) -> Facts:
    """Count what the index holds."""
    there, size, held = connection.execute(
        "SELECT count(*) FILTER (WHERE NOT is_gone), "
        "coalesce(sum(size) FILTER (WHERE NOT is_gone), 0), count(*) FILTER (WHERE is_gone) "
        "FROM memories"
    ).fetchone()
    (chunks,) = connection.execute("SELECT chunks FROM totals").fetchone()
    (vectors,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
    (pending,) = connection.execute("SELECT count(*) FROM pending").fetchone()
    model = rows.fact(connection, "model")
    return Facts(there, size, chunks, vectors, pending, held, str(model or ""))


def tags(connection: sqlite3.Connection) -> Mapping[str, int]:
    """How many memories bear each tag, the most common first."""
    return dict(
        connection.execute(
            "SELECT t.value, count(*) FROM memories m, json_each(m.tags) t WHERE NOT m.is_gone "
            "GROUP BY t.value ORDER BY count(*) DESC, t.value"
        )
    )


def types(connection: sqlite3.Connection) -> Mapping[str, int]:
    """How many memories are of each type, the most common first."""
    return dict(
        connection.execute(
            "SELECT type, count(*) FROM memories WHERE NOT is_gone "
            "GROUP BY type ORDER BY count(*) DESC, type"
        )
    )


def faults(bank: Reader, store: Store) -> list[str]:
    """Everything in an index that is not as it should be; nothing is changed."""
    try:
        found = [*_unsound(store), *_unsound_words(store)]
        if found:
            return found  # whatever else it says is not to be trusted
        with store.reading() as connection:
            return [
                *_broken_rules(connection),
                *_spoilt_vectors(connection),
                *_disagreements(bank, connection),
            ]
    except Damaged as error:
        return [error.message]


def _unsound(store: Store) -> Iterator[str]:
    with store.reading() as connection:
        for (line,) in connection.execute("PRAGMA integrity_check(5)"):
            if line != "ok":
                yield f"SQLite says: {' '.join(line.split())}"


def _unsound_words(store: Store) -> Iterator[str]:
    """What FTS5 itself finds; it asks for the right to write, and writes nothing."""
    for table in ("terms", "wholes"):
        try:
            with store.writing() as connection:
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")  # noqa: S608 - our own names
        except Damaged:
            yield f"the words of {'chunks' if table == 'terms' else 'memories'} are damaged"


def _broken_rules(connection: sqlite3.Connection) -> Iterator[str]:
    for what, query in _RULES.items():
        (count,) = connection.execute(query).fetchone()
        if count:
            yield f"{count} {what}"


def _spoilt_vectors(connection: sqlite3.Connection) -> Iterator[str]:
    stored = connection.execute("SELECT digest, vector, check_sum FROM vectors")
    spoilt = sum(zlib.crc32(vector, zlib.crc32(digest)) != mark for digest, vector, mark in stored)
    if spoilt:
        yield f"{spoilt} vectors that do not match their check sum"


def _disagreements(bank: Reader, connection: sqlite3.Connection) -> Iterator[str]:
    """Where files and rows differ, seen by reading every file."""
    recorded = connection.execute("SELECT DISTINCT collection FROM memories")
    for collection in sorted({*bank.collections(), *(name for (name,) in recorded)}):
        known = rows.known(connection, collection)
        with bank.opened() as opened:
            for file in bank.files(collection, []):
                row = known.pop(file.name, None)
                fault = _disagreement(opened, connection, file, row)
                if fault:
                    yield f"{collection}/{file.name} {fault}"
        for name, row in known.items():
            if not row.is_gone:
                yield f"{collection}/{name} is in the index and not on disk"


def _disagreement(
    bank: OpenReader, connection: sqlite3.Connection, file: File, row: Known | None
) -> str:
    try:
        read = bank.read(file.collection, file.name)
    except RetainError:
        return "is in the index and cannot be read" if row else ""
    if read is None:
        return ""  # gone in this moment
    memory, stamp = read
    if row is None:
        return "is not in the index"
    if row.hash.hex() != memory.hash:
        return "is in the index with another text"
    if not _is_derived(connection, row.number, entry(memory, stamp.modified / 1e9)):
        return "is in the index with other chunks or links"
    return ""


def _is_derived(connection: sqlite3.Connection, number: int, made: Entry) -> bool:
    """Whether the rows of a memory are the ones that its text gives."""
    fields = connection.execute(_FIELDS_QUERY, (number,)).fetchone()
    chunks = connection.execute(_CHUNKS_QUERY, (number,))
    links = connection.execute(_LINKS_QUERY, (number,))
    return (
        fields == tuple(getattr(made, name) for name in _FIELDS)
        and tuple(ChunkRow(*row) for row in chunks) == made.chunks
        and tuple(LinkRow(*row) for row in links) == made.links
    )
