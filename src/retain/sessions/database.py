"""The SQLite file that holds a person's chats, in their own bank.

Unlike the index it is not derived. What is written is on disk when the call returns, a file that
is not ours is left alone, and a damaged one is reported and kept.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

from retain.bank.files import Directory, saving
from retain.errors import Busy, NewerFormat, NotSaved, RetainError, Unreadable, Unsafe
from retain.locate import is_network
from retain.sessions import BESIDE, FILE, schema

WAIT_SECONDS: Final = 30.0
_PAUSE: Final = 0.01
_INHERITED: Final[list[object]] = []  # connections of a parent process, kept from being closed
# What every connection has, asserted by reading it back.
PRAGMAS: Final = (
    ("busy_timeout", int(WAIT_SECONDS * 1000)),
    ("foreign_keys", 1),
    ("trusted_schema", 1),  # our own triggers keep the full-text index, in a file of the person's
    ("cell_size_check", 1),
    ("secure_delete", 1),  # a chat that is deleted is gone from the file as well
    ("temp_store", 2),
    ("cache_size", -8_000),
)
# With a log FULL syncs it at every commit; without one only EXTRA syncs the folder as well.
_SYNCHRONOUS: Final = {"wal": 2, "delete": 3}
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REFUSED: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
)


class Database:
    """One process's access to the file; any of its threads may use it."""

    def __init__(self, root: str, make: Callable[[], object] | None = None) -> None:
        self._root, self._make = root, make
        self.path = os.path.join(root, FILE)
        self.lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._place = (0, 0)
        self._process = os.getpid()

    # Using

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The chats as they are at one moment; none where there is no file, and none is made."""
        with self._transaction("BEGIN", create=False) as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The right to change them; the change is whole and on disk, or not there at all."""
        with self._transaction("BEGIN IMMEDIATE", create=True) as connection:
            yield connection

    @contextlib.contextmanager
    def trying(self) -> Iterator[sqlite3.Connection]:
        """A change that is looked at and then taken back; no file is made for it."""
        with self._transaction("BEGIN IMMEDIATE", create=False, end="ROLLBACK") as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(
        self, begin: str, *, create: bool, end: str = "COMMIT"
    ) -> Iterator[sqlite3.Connection]:
        with self.lock, _in_words(self.path):
            connection = self._current(create)
            connection.execute(begin)
            try:
                yield connection
                connection.execute(end)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def purge(self) -> None:
        """Take what was deleted out of the full-text index and out of the log beside the file."""
        with self.lock, _in_words(self.path):
            connection = self._current(create=False)
            connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('optimize')")
            connection.execute("INSERT INTO memories_fts (memories_fts) VALUES ('optimize')")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Let go of the file; everything in it is safe already."""
        with self.lock:
            if self._process == os.getpid() and self._connection is not None:
                self._connection.close()
            self._connection = None
            self._place = (0, 0)

    # Opening

    def _current(self, create: bool) -> sqlite3.Connection:
        """The open connection, to the file that stands there now."""
        if self._process != os.getpid():
            # SQLite must not be used across a fork, nor closed: that would drop the parent's locks.
            _INHERITED.append(self._connection)
            self._connection, self._process = None, os.getpid()
        place = _place(self.path)
        is_enough = place != (0, 0) or not create
        if self._connection is not None and place == self._place and is_enough:
            return self._connection
        self.close()
        if place == (0, 0) and create:
            self._create()
        self._place = _place(self.path)
        self._connection = _nothing() if self._place == (0, 0) else self._opened()
        return self._connection

    def _create(self) -> None:
        """Put an empty file in place, with its tables; whoever is faster, theirs is used."""
        if self._make:
            self._make()
        with contextlib.closing(_nothing()) as connection:
            data = connection.serialize()
        with saving(self.path), Directory.open(self._root) as root:
            if not root.has(".gitignore"):
                # What is said in a chat is private, also in a store that Retain did not make.
                root.place(".gitignore", f"{FILE}*\n".encode())
            root.place(FILE, data)

    def _opened(self) -> sqlite3.Connection:
        """A connection to a file that is ours; changing its journal may mean waiting in line."""
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            self._check()
            try:
                return self._connect()
            except sqlite3.OperationalError as error:
                if _family(error) in _REFUSED and not os.access(self._root, os.W_OK):
                    return self._read_only()
                if _family(error) not in _BUSY or time.monotonic() > give_up:
                    raise
            time.sleep(_PAUSE)

    def _check(self) -> None:
        """Refuse links: SQLite would follow them."""
        for ending in BESIDE:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(self.path + ending).st_mode):
                    raise Unsafe(
                        f"{self.path}{ending} is a link or not a plain file; it is not followed",
                        unchanged="Nothing was read or changed.",
                        hint="Move it away; the chats themselves may be where it leads.",
                    )

    def _foreign(self, why: str) -> Unreadable:
        return Unreadable(
            f"{self.path} cannot be used: {why}",
            hint="Move it away if it is not yours; the next chat makes a new one.",
        )

    def _verify(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours, or that a newer Retain made."""
        try:
            (mark,) = connection.execute("PRAGMA application_id").fetchone()
        except sqlite3.DatabaseError as error:
            if _family(error) == sqlite3.SQLITE_NOTADB:
                raise self._foreign("it is not a chat file of Retain's") from error
            raise
        if mark != schema.APPLICATION:
            raise self._foreign("it is not a chat file of Retain's")
        if schema.version(connection) > schema.VERSION:
            raise NewerFormat(
                f"{self.path} was made by a newer Retain and is left untouched",
                hint="Upgrade Retain: pip install --upgrade retain-bank",
            )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection, "delete" if is_network(self._root) else "wal")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection, journal: str) -> None:
        self._verify(connection)
        _configure(connection, (*PRAGMAS, ("synchronous", _SYNCHRONOUS[journal])))
        mode = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()[0]
        if mode != journal:
            raise RetainError(f"SQLite's journal_mode is {mode}, not {journal}")

    def _read_only(self) -> sqlite3.Connection:
        """The chats on a disk that refuses to be written to."""
        if os.path.exists(f"{self.path}-wal") and os.path.getsize(f"{self.path}-wal"):
            flags = "mode=ro"  # someone was stopped, and what they wrote last is in the log
        else:
            flags = "mode=ro&immutable=1"
        connection = sqlite3.connect(
            f"file:{quote(self.path)}?{flags}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._verify(connection)
            _configure(connection, PRAGMAS)
        except BaseException:
            connection.close()
            raise
        return connection


def _nothing() -> sqlite3.Connection:
    """An empty set of chats, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    schema.create(connection)
    connection.execute("PRAGMA foreign_keys = 1")
    return connection


def _configure(connection: sqlite3.Connection, pragmas: tuple[tuple[str, int], ...]) -> None:
    """Set everything and read it back: what did not take is a bug to hear of."""
    for name, value in pragmas:
        connection.execute(f"PRAGMA {name} = {value}")
        found = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if found != value:
            raise RetainError(f"SQLite's {name} is {found}, not {value}, as it should be")


def _place(path: str) -> tuple[int, int]:
    """Which file stands there, zeros where there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0, 0
    return found.st_dev, found.st_ino


def _family(error: sqlite3.Error) -> int:
    """SQLite's code for what went wrong, without the detail."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextlib.contextmanager
def _in_words(path: str) -> Iterator[None]:
    """Say what SQLite's refusals mean."""
    try:
        yield
    except sqlite3.Error as error:
        code = _family(error)
        if code in _BUSY:
            raise Busy(
                f"another process has held the chats in {path} for {WAIT_SECONDS:g} seconds",
                hint="Try again; what was said before is safe.",
            ) from error
        if code in _CORRUPT:
            raise Unreadable(
                f"the chats in {path} are damaged: {error}",
                hint="Copy the file and its -wal before anything else; "
                "`sqlite3 sessions.db .recover` saves what can be read.",
            ) from error
        if code in _REFUSED:
            raise NotSaved(
                f"not saved: {path}: {error}",
                unchanged="What was said before is intact.",
                hint="Free space or mend the permissions, then try again.",
            ) from error
        raise RetainError(f"the chats in {path} cannot be used: {error}") from error
