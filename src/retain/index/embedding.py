"""Vectors for the chunks that lack them: made outside any transaction, resumed where it stopped."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from retain.index import rows
from retain.index.entries import vector_text

if TYPE_CHECKING:
    from retain.embed import Embedder
    from retain.index.store import Store

__all__ = ["adopt", "fill", "model", "pending"]

_BATCH: Final = 32  # chunks between two commits: what a kill can cost


def pending(connection: sqlite3.Connection) -> int:
    """How many chunks have no vector yet."""
    found: int = connection.execute("SELECT count(*) FROM pending").fetchone()[0]
    return found


def model(connection: sqlite3.Connection) -> str:
    """The model whose vectors the index holds, empty when there is none yet."""
    return str(rows.fact(connection, "model") or "")


def adopt(store: Store, model: str) -> None:
    """Make a model the one whose vectors the index holds; another's are thrown away.

    All in one transaction, so that vectors of two models never stand side by side.
    """
    with store.reading() as connection:
        if rows.fact(connection, "model") == model:
            return
    with store.writing() as connection:
        if rows.fact(connection, "model") == model:
            return
        rows.set_fact(connection, "model", model)
        connection.execute("DELETE FROM vectors")
        connection.execute("DELETE FROM salvage")
        connection.execute("INSERT OR IGNORE INTO pending SELECT number FROM chunks")
        connection.execute("UPDATE totals SET version = version + 1")


def fill(
    store: Store,
    embedder: Embedder,
    *,
    progress: Callable[[int, int], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Make the missing vectors, batch by batch; returns how many were made."""
    adopt(store, embedder.name)
    done = 0
    while not is_stopped():
        with store.reading() as connection:
            wanted = _next(connection)
            left = pending(connection)
        if not wanted:
            break
        if not _store(store, embedder, wanted):
            break
        done += len(wanted)
        if progress:
            progress(done, done + left - len(wanted))
    return done


_Wanted = tuple[int, int, bytes, str]  # chunk, memory, digest, text


def _next(connection: sqlite3.Connection) -> list[_Wanted]:
    query = (
        "SELECT number, memory, digest, lead, text, skip FROM pending "
        "JOIN chunks ON number = chunk ORDER BY chunk LIMIT ?"
    )
    return [
        (number, memory, digest, vector_text(lead, text[skip:]))
        for number, memory, digest, lead, text, skip in connection.execute(query, (_BATCH,))
    ]


_STILL_PENDING: Final = (
    "SELECT 1 FROM pending JOIN chunks ON number = chunk "
    "WHERE number = ? AND memory = ? AND digest = ?"
)


def _store(store: Store, embedder: Embedder, wanted: list[_Wanted]) -> bool:
    """Make and keep vectors; false when someone else has chosen another model meanwhile."""
    from retain.index.vectors import packed

    vectors = embedder.embed([text for *_, text in wanted])
    with store.writing() as connection:
        if rows.fact(connection, "model") != embedder.name:
            return False
        for (number, memory, digest, _), vector in zip(wanted, vectors, strict=True):
            # It may be gone by now, or this may be another index with other numbers.
            if connection.execute(_STILL_PENDING, (number, memory, digest)).fetchone():
                rows.put_vector(connection, number, memory, embedder.name, digest, packed(vector))
        connection.execute("UPDATE totals SET version = version + 1")
    return True
