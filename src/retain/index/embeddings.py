"""The making and keeping of vectors, without numpy: which chunks lack one, and where it is kept.

Vectors of every bank are kept in one file by model and digest of the text, so a move, another
branch, another worktree or a new index embeds nothing twice. The file may be deleted at any time;
whatever is wrong with it only costs the making of vectors.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from retain.index.database import fact, is_damage, set_fact, write_private
from retain.index.rows import insert_vector, vector_text
from retain.locate import make_private_directory, state_home

if TYPE_CHECKING:
    from retain.index.database import Database
    from retain.index.embed import Embedder

_BATCH: Final = 32  # chunks between two commits: what a kill can cost
_MANY: Final = 1000  # the same where vectors are only looked up
_WAIT_SECONDS: Final = 5.0
_DAY: Final = 86_400
UNUSED_DAYS: Final = 90  # after which a vector is removed, and the state of a bank
_REFRESH_DAYS: Final = 30  # how old the note of a use may be
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS vectors (
  model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, used INTEGER NOT NULL,
  PRIMARY KEY (model, digest)
) WITHOUT ROWID
"""


class VectorCache:
    """The person's vectors; every call opens the file for itself, so any thread may use it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.path = os.path.join(state_home(env), "vectors.db")

    def find(self, model: str, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """Those vectors of a model that are known, by the digest of their text."""
        vectors: dict[bytes, bytes] = {}
        with self._optional(), self._transaction() as connection:
            query = "SELECT vector FROM vectors WHERE model = ? AND digest = ?"
            for digest in digests:
                if row := connection.execute(query, (model, digest)).fetchone():
                    vectors[digest] = row[0]
            query = "UPDATE vectors SET used = ? WHERE model = ? AND digest = ? AND used < ?"
            today = _today()
            used = [(today, model, digest, today - _REFRESH_DAYS) for digest in vectors]
            connection.executemany(query, used)
        return vectors

    def add(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors that were just made."""
        rows = [(model, digest, vector, _today()) for digest, vector in vectors.items()]
        with self._optional(), self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    def forget(self, digests: Iterable[bytes]) -> None:
        """Remove the vectors of some texts, whichever model made them."""
        with self._optional(), self._transaction() as connection:
            rows = [(digest,) for digest in digests]
            connection.executemany("DELETE FROM vectors WHERE digest = ?", rows)

    def sweep(self) -> None:
        """Remove what nobody has used for a long time."""
        with self._optional(), self._transaction() as connection:
            connection.execute("DELETE FROM vectors WHERE used < ?", (_today() - UNUSED_DAYS,))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        make_private_directory(os.path.dirname(self.path))
        if not os.path.exists(self.path):
            write_private(self.path, b"")
        connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
        with contextlib.closing(connection), connection:
            connection.execute("PRAGMA secure_delete = 1")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
            yield connection

    @contextlib.contextmanager
    def _optional(self) -> Iterator[None]:
        """Do without the file where it cannot be used; a damaged one is removed."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            import logging  # 3 ms

            logging.getLogger(__name__).debug("%s cannot be used: %s", self.path, error)
            if is_damage(error):
                with contextlib.suppress(OSError):
                    os.unlink(self.path)


def _today() -> int:
    return int(time.time()) // _DAY


# The chunks of one index


def model(connection: sqlite3.Connection) -> str:
    """The model whose vectors the index holds, empty when there is none yet."""
    return str(fact(connection, "model") or "")


def adopt(database: Database, name: str) -> None:
    """Make a model the one whose vectors the index holds; another's are thrown away.

    All in one transaction, so that vectors of two models never stand side by side.
    """
    with database.writing() as connection:
        if model(connection) != name:
            set_fact(connection, "model", name)
            connection.execute("DELETE FROM vectors")
            connection.execute("INSERT OR IGNORE INTO pending SELECT number FROM chunks")
            connection.execute("UPDATE totals SET version = version + 1")


def make_vectors(
    database: Database,
    cache: VectorCache,
    embedder: Embedder,
    *,
    only_known: bool = False,
    progress: Callable[[int, int], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Find the missing vectors in the cache, or make them; how many were missing.

    Batch by batch, and outside any transaction. With `only_known` none is made, and vectors of
    another model stay.
    """
    name, size = embedder.name, _MANY if only_known else _BATCH
    with database.reading() as connection:
        current = model(connection)
    if current and current != name and only_known:
        return 0
    if current != name:
        adopt(database, name)
    with database.reading() as connection:
        (total,) = connection.execute("SELECT count(*) FROM pending").fetchone()
    query = (
        "SELECT number, memory, digest, lead, text, skip FROM pending "
        "JOIN chunks ON number = chunk WHERE chunk > ? ORDER BY chunk LIMIT ?"
    )
    done = last = generation = 0
    while not is_stopped():
        with database.reading(generation) as connection:
            generation = database.generation
            chunks = connection.execute(query, (last, size)).fetchall()
        if not chunks:
            break
        texts = {digest: vector_text(lead, text[skip:]) for *_, digest, lead, text, skip in chunks}
        vectors = cache.find(name, texts.keys())
        missing = [digest for digest in texts if digest not in vectors]
        if missing and not only_known:
            from retain.index.vectors import pack  # numpy, which takes 80 ms to load

            made = embedder.embed([texts[digest] for digest in missing])
            vectors |= zip(missing, map(pack, made), strict=True)
            cache.add(name, {digest: vectors[digest] for digest in missing})
        with database.writing(generation) as connection:
            if model(connection) != name:
                break  # someone else has chosen another one meanwhile
            for number, memory, digest, *_ in chunks:
                if digest in vectors:
                    insert_vector(connection, number, memory, digest, name, vectors[digest])
            connection.execute("UPDATE totals SET version = version + 1")
        last = chunks[-1][0]
        done += len(chunks)
        if progress:
            progress(done, max(done, total))
    return done
