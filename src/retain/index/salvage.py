"""Vectors saved from a damaged index: the one thing in it that takes long to make again."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from typing import NamedTuple
from urllib.parse import quote

__all__ = ["Saved", "vectors"]


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
        connection.execute("PRAGMA writable_schema = 1")  # a file cut short is read as far as it is
        row = connection.execute("SELECT value FROM facts WHERE name = 'model'").fetchone()
        if not row or not isinstance(row[0], str):
            return None
        for order in ("ASC", "DESC"):  # from one end and then the other, each up to the damage
            query = (
                "SELECT digest, vector, check_sum FROM vectors NOT INDEXED "  # noqa: S608 - our own words
                f"WHERE model = ? ORDER BY chunk {order}"
            )
            with contextlib.suppress(sqlite3.Error, TypeError):
                for digest, vector, check_sum in connection.execute(query, row):
                    if zlib.crc32(vector, zlib.crc32(digest)) == check_sum:
                        kept[digest] = vector  # noqa: PERF403
                break
        return Saved(row[0], kept) if kept else None
    return None
