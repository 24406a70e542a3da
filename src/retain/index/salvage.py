"""Vectors saved from a damaged index: the one thing in it that takes long to make again."""

from __future__ import annotations

import contextlib
import sqlite3
import time
import zlib
from typing import Final, NamedTuple
from urllib.parse import quote

__all__ = ["Saved", "vectors"]

_SECONDS: Final = 20.0  # for a file that may have been made to keep us busy
_LONGEST: Final = 20_000  # bytes of a vector


class Saved(NamedTuple):
    """Vectors of one model by the digest of the text they stand for."""

    model: str
    vectors: dict[bytes, bytes]

    def into(self, connection: sqlite3.Connection) -> None:
        """Keep them in a new index until its chunks claim them."""
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO facts VALUES ('model', ?)", (self.model,))
        connection.executemany("INSERT INTO salvage VALUES (?, ?)", self.vectors.items())
        connection.execute("COMMIT")


def _has_plain_tables(connection: sqlite3.Connection) -> bool:
    """Whether what is read are tables: a view could go on for ever."""
    query = "SELECT type FROM sqlite_master WHERE name IN ('facts', 'vectors')"
    return [kind for (kind,) in connection.execute(query)] == ["table", "table"]


def vectors(path: str) -> Saved | None:
    """What can be read from a file that cannot be trusted: only vectors with their check sum."""
    kept: dict[bytes, bytes] = {}
    # `immutable` keeps SQLite from looking for a log beside it.
    with (
        contextlib.suppress(sqlite3.Error, TypeError, ValueError),
        contextlib.closing(
            sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
        ) as connection,
    ):
        connection.execute("PRAGMA trusted_schema = 0")
        end = time.monotonic() + _SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
        connection.execute("PRAGMA writable_schema = 1")  # a file cut short is read as far as it is
        if not _has_plain_tables(connection):
            return None
        row = connection.execute("SELECT value FROM facts WHERE name = 'model'").fetchone()
        if not row or not isinstance(row[0], str):
            return None
        for order in ("ASC", "DESC"):  # from one end and then the other, each up to the damage
            query = (
                "SELECT digest, vector, check_sum FROM vectors NOT INDEXED "  # noqa: S608 - our own words
                f"WHERE model = ? AND length(vector) < {_LONGEST} ORDER BY chunk {order}"
            )
            with contextlib.suppress(sqlite3.Error, TypeError):
                for digest, vector, check_sum in connection.execute(query, row):
                    if zlib.crc32(vector, zlib.crc32(digest)) == check_sum:
                        kept[digest] = vector  # noqa: PERF403
                break
        return Saved(row[0], kept) if kept else None
    return None
