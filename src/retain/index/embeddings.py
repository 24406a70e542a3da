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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from retain.index.database import fact, set_fact
from retain.index.entries import vector_row, vector_text
from retain.locate import make_private_directory, state_home

if TYPE_CHECKING:
    from retain.index.database import Database
    from retain.index.embed import Embedder

_BATCH: Final = 32  # chunks between two commits: what a kill can cost
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

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    def of(cls, env: Mapping[str, str]) -> VectorCache:
        return cls(os.path.join(state_home(env), "vectors.db"))

    def find(self, model: str, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """Those vectors of a model that are known, by the digest of their text."""
        vectors: dict[bytes, bytes] = {}
        if not digests or not os.path.exists(self._path):
            return vectors
        today = _today()
        with self._optional(), self._transaction() as connection:
            query = "SELECT vector, used FROM vectors WHERE model = ? AND digest = ?"
            old = []
            for digest in digests:
                row = connection.execute(query, (model, digest)).fetchone()
                if row:
                    vectors[digest] = row[0]
                    if row[1] < today - _REFRESH_DAYS:
                        old.append((today, model, digest))
            if old:
                query = "UPDATE vectors SET used = ? WHERE model = ? AND digest = ?"
                connection.executemany(query, old)
        return vectors

    def add(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors that were just made."""
        rows = [(model, digest, vector, _today()) for digest, vector in vectors.items()]
        with self._optional(), self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)

    def forget(self, digests: Iterable[bytes]) -> None:
        """Remove the vectors of some texts, whichever model made them."""
        if os.path.exists(self._path):
            with self._optional(), self._transaction() as connection:
                rows = [(digest,) for digest in digests]
                connection.executemany("DELETE FROM vectors WHERE digest = ?", rows)

    def sweep(self) -> None:
        """Remove what nobody has used for a long time."""
        if os.path.exists(self._path):
            with self._optional(), self._transaction() as connection:
                connection.execute("DELETE FROM vectors WHERE used < ?", (_today() - UNUSED_DAYS,))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        make_private_directory(os.path.dirname(self._path))
        with contextlib.suppress(FileExistsError):
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.fchmod(fd, 0o600)  # whatever the umask
            os.close(fd)
        connection = sqlite3.connect(self._path, timeout=_WAIT_SECONDS)
        with contextlib.closing(connection), connection:
            connection.execute("PRAGMA secure_delete = 1")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
            yield connection

    @contextlib.contextmanager
    def _optional(self) -> Iterator[None]:
        """Do without the file where it cannot be used."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            import logging  # 3 ms

            log = logging.getLogger(__name__)
            log.debug("the vectors in %s cannot be used: %s", self._path, error)
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                with contextlib.suppress(OSError):
                    os.unlink(self._path)


def _today() -> int:
    return int(time.time()) // _DAY


# The chunks of one index


def pending(connection: sqlite3.Connection) -> int:
    """How many chunks have no vector yet."""
    count: int = connection.execute("SELECT count(*) FROM pending").fetchone()[0]
    return count


def model(connection: sqlite3.Connection) -> str:
    """The model whose vectors the index holds, empty when there is none yet."""
    return str(fact(connection, "model") or "")


def adopt(database: Database, name: str) -> None:
    """Make a model the one whose vectors the index holds; another's are thrown away.

    All in one transaction, so that vectors of two models never stand side by side.
    """
    with database.reading() as connection:
        if model(connection) == name:
            return
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
    progress: Callable[[int, int], None] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Make the missing vectors, batch by batch, outside any transaction; how many were missing."""
    adopt(database, embedder.name)
    query = (
        "SELECT number, memory, digest, lead, text, skip FROM pending "
        "JOIN chunks ON number = chunk ORDER BY chunk LIMIT ?"
    )
    done = 0
    while not is_stopped():
        with database.reading() as connection:
            rows = connection.execute(query, (_BATCH,)).fetchall()
            left = pending(connection)
        if not rows:
            break
        texts = {digest: vector_text(lead, text[skip:]) for _, _, digest, lead, text, skip in rows}
        vectors = cache.find(embedder.name, texts.keys())
        missing = {digest: text for digest, text in texts.items() if digest not in vectors}
        if missing:
            from retain.index.vectors import packed  # numpy, which takes 80 ms to load

            made = map(packed, embedder.embed(list(missing.values())))
            new = dict(zip(missing, made, strict=True))
            cache.add(embedder.name, new)
            vectors |= new
        if not _keep(database, embedder.name, [row[:3] for row in rows], vectors):
            break
        done += len(rows)
        if progress:
            progress(done, done + left - len(rows))
    return done


def _keep(
    database: Database,
    name: str,
    chunks: Sequence[tuple[int, int, bytes]],
    vectors: Mapping[bytes, bytes],
) -> bool:
    """Store vectors; false when someone else has chosen another model meanwhile."""
    still_pending = (
        "SELECT 1 FROM pending JOIN chunks ON number = chunk "
        "WHERE number = ? AND memory = ? AND digest = ?"
    )
    with database.writing() as connection:
        if model(connection) != name:
            return False
        for number, memory, digest in chunks:
            # It may be gone by now, or this may be another index with other numbers.
            if connection.execute(still_pending, (number, memory, digest)).fetchone():
                row = vector_row(number, memory, name, digest, vectors[digest])
                connection.execute("INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?)", row)
                connection.execute("DELETE FROM pending WHERE chunk = ?", (number,))
        connection.execute("UPDATE totals SET version = version + 1")
    return True
