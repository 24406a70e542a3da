"""The index's SQLite file: how it is opened, shared and replaced; its tables are in schema.sql.

It lies in the person's own state directory and is derived from the memories, so a file that is
damaged, or that someone else has changed, is thrown away and made anew. Processes that open, close
or replace it take turns by a lock on that directory. The last one to close the file notes its size
and times beside it: no check is as sure, and none but reading every byte would notice a changed
letter.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

from retain.errors import Busy, NewerFormat, RetainError
from retain.locate import is_network, make_private_directory, open_directory

APPLICATION_ID: Final = 0x5274_6E31  # "Rtn1", by which the file is told from anybody else's
VERSION: Final = 6  # goes up with every change of the tables: an index of another one is made anew
BANK_NOTE: Final = "bank"  # the file that names the bank an index is of
WAIT_SECONDS: Final = 10.0
_CLOSE_WAIT: Final = 0.2
_CHECKPOINT_WAIT: Final = 500  # milliseconds
_SCHEMA: Final = os.path.join(os.path.dirname(__file__), "schema.sql")
_NETWORK_NOTE: Final = "the index is on a network file system: it uses a safe journal"
# What every connection has, asserted by reading it back.
PRAGMAS: Final = (
    ("busy_timeout", int(WAIT_SECONDS * 1000)),
    ("synchronous", 1),  # NORMAL: a commit survives a kill; after a power cut the files win
    ("secure_delete", 1),
    ("trusted_schema", 0),
    ("cell_size_check", 1),
    ("foreign_keys", 0),
    ("temp_store", 2),
    ("cache_size", -16_000),
    ("wal_autocheckpoint", 4000),  # pages: a first indexing writes most of them many times
)
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_INHERITED: Final[list[object]] = []  # connections of a parent process, kept from being closed

# What changes with every change of a chunk or a vector, and with the file itself: by it whoever
# keeps something in memory knows that it is old.
STATE: Final = "SELECT version, (SELECT value FROM facts WHERE name = 'identity') FROM totals"

# The same for memories alone: it changes with every one that comes, changes or goes.
MEMORY_STATE: Final = """
SELECT chunks, (SELECT seq FROM sqlite_sequence WHERE name = 'memories'),
  (SELECT value FROM facts WHERE name = 'held'), (SELECT value FROM facts WHERE name = 'identity')
FROM totals
"""


class Damaged(RetainError):
    """The index cannot be trusted; it is made anew."""

    code = "damaged"


class Replaced(Busy):
    """Another file stands in the index's place, about which nothing is known yet."""

    code = "replaced"


class Database:
    """One process's access to the index of a bank."""

    def __init__(self, directory: str, bank: str = "") -> None:
        self.directory = directory
        self._bank = bank  # its root, noted beside the index for who looks through all states
        self.path = os.path.join(directory, "index.db")
        self._stamp_path = os.path.join(directory, "index.stamp")
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self.generation = 0  # goes up with every file that is opened: what was read is of another
        self._process = os.getpid()
        self.lock = threading.RLock()
        self._rebuilds: list[str] = []
        self.limitations: list[str] = []  # what makes every answer worse
        self.is_temporary = False

    @property
    def notes(self) -> list[str]:
        """What a person should know about this index."""
        return [*self._rebuilds, *self.limitations]

    def reading(self, generation: int = 0) -> AbstractContextManager[sqlite3.Connection]:
        """The index as it is at one moment; Replaced when it is of another generation."""
        return self._transaction("BEGIN", generation)

    def writing(self, generation: int = 0) -> AbstractContextManager[sqlite3.Connection]:
        """A transaction that may change the index; Busy when others have it for too long."""
        return self._transaction("BEGIN IMMEDIATE", generation)

    @contextlib.contextmanager
    def _transaction(self, begin: str, generation: int) -> Iterator[sqlite3.Connection]:
        with self.lock, _explain_errors(self.path):
            connection = self._connect()
            if generation and generation != self.generation:
                raise Replaced(
                    f"the index {self.path} is replaced over and over by another process"
                )
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def checkpoint(self) -> None:
        """Bring everything into the main file and leave nothing in the log beside it."""
        with self.lock, _explain_errors(self.path):
            connection = self._connect()
            # Whoever reads just now keeps the log; the last to close the file removes it.
            connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout = {int(WAIT_SECONDS * 1000)}")

    def is_new(self, generation: int) -> bool:
        """Whether the file is another one than that of a generation, or not there at all."""
        return self._is_stale or self.generation != generation

    @property
    def _is_stale(self) -> bool:
        """Whether there is no connection to the file that stands there now."""
        is_there = self.is_temporary or _inode(self.path) == self._inode
        return self._connection is None or not is_there

    def _connect(self) -> sqlite3.Connection:
        """The open connection, to the file that stands there now: anyone may delete it any time."""
        if self._process != os.getpid():
            # SQLite must not be used across a fork, nor closed: that would drop the parent's locks.
            _INHERITED.append(self._connection)
            self._connection, self._process = None, os.getpid()
        if self._connection is not None and not self._is_stale:
            return self._connection
        self._drop()
        try:
            make_private_directory(self.directory)
            with _locked(self.directory, WAIT_SECONDS):
                self._connection = self._open()
                os.utime(self.directory)  # states that nobody uses are removed
        except (OSError, sqlite3.OperationalError) as error:
            if _error_code(error) in _BUSY:
                raise
            # The disk refuses to be written to.
            self.is_temporary = True
            self.generation += 1
            self.limitations = [f"the index is kept in memory only: {self.directory}: {error}"]
            self._connection = _new_connection(":memory:")
            _configure(self._connection, "memory")
            _create_tables(self._connection)
        return self._connection

    def _open(self) -> sqlite3.Connection:
        """Open the file, made anew if it is not ours or damaged; the caller has the lock."""
        if self._was_changed():
            self._remove("it was changed from outside")
        if not _inode(self.path):
            write_private(self.path, b"")  # SQLite gives the files beside it the same mode
            write_private(os.path.join(self.directory, BANK_NOTE), os.fsencode(self._bank))
        connection = _new_connection(self.path)
        try:
            fault = self._prepare(connection)
            if fault is None:
                return connection
        except BaseException as error:
            connection.close()
            if not is_damage(error):
                raise
            fault = f"it was damaged: {error}"
        connection.close()
        self._remove(fault)
        return self._open()

    def _prepare(self, connection: sqlite3.Connection) -> str | None:
        """Make a file that was just opened ready for use; why not, if it is none of ours."""
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        is_ours = application_id == APPLICATION_ID
        if is_ours and version > VERSION:
            raise NewerFormat(
                f"{self.path} was made by a newer Retain and is left untouched",
                hint="Upgrade Retain: pip install --upgrade retain-bank",
            )
        is_empty = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if not is_empty and (not is_ours or version != VERSION):
            return "" if is_ours else "it was not ours"
        is_remote = is_network(self.directory)
        _configure(connection, "delete" if is_remote else "wal")
        if is_empty:
            _create_tables(connection)
        connection.execute("SELECT version FROM totals").fetchone()  # makes the log: in use
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._stamp_path)
        self._inode = _inode(self.path)
        self.generation += 1
        self.limitations = [_NETWORK_NOTE] if is_remote else []
        return None

    def _was_changed(self) -> bool:
        """Whether someone else has written to the file since the last one of us closed it."""
        if os.path.exists(f"{self.path}-wal"):  # in use, or its user was killed: SQLite knows
            return False
        try:
            with open(self._stamp_path, "rb") as file:
                return file.read() != _stamp(self.path)
        except FileNotFoundError:
            return False

    def replace(self, why: str) -> None:
        """Throw the file away and make it anew, unless another process has done so already."""
        with self.lock:
            if self.is_temporary:
                self._drop()
                return
            with _locked(self.directory, WAIT_SECONDS):
                is_there = _inode(self.path) == self._inode != 0
                self._drop()
                if is_there:
                    self._remove(why)
                    self._connection = self._open()

    def _remove(self, why: str) -> None:
        """Remove the file; whoever has it open goes on with it until the next transaction."""
        for ending in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}{ending}")
        if why:
            self._rebuilds.append(f"the index was built anew: {why}")

    def close(self) -> None:
        """Let go of the file, and note how it was left when no other process has it open."""
        with self.lock:
            try:
                if self._connection is not None and not self.is_temporary:
                    with _locked(self.directory, _CLOSE_WAIT):
                        is_there = _inode(self.path) == self._inode
                        self._drop()
                        if (
                            is_there
                            and not self.limitations
                            and not os.path.exists(f"{self.path}-wal")
                        ):
                            write_private(self._stamp_path, _stamp(self.path))
            except (OSError, Busy):
                pass  # the directory is gone, or others are opening: the next one sees no stamp
            finally:
                self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        self.is_temporary = False


def fact(connection: sqlite3.Connection, name: str) -> object:
    """Something the index remembers about itself, or None."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def set_fact(connection: sqlite3.Connection, name: str, value: object) -> None:
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def last_number(connection: sqlite3.Connection, table: str) -> int:
    """The highest number a row of a table ever had: none is used twice, or a cache would err."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
    row = connection.execute(query, (table,)).fetchone()
    return int(row[0]) if row else 0


def _create_tables(connection: sqlite3.Connection) -> None:
    """Make every table of an empty file, all or none."""
    with open(_SCHEMA, encoding="utf-8") as file:
        tables = file.read()
    connection.executescript(
        f"BEGIN IMMEDIATE; {tables}; PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {VERSION}; COMMIT;"
    )


def _new_connection(path: str) -> sqlite3.Connection:
    """A connection that begins no transaction by itself; whoever uses it holds the lock."""
    return sqlite3.connect(
        path, WAIT_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )


def _configure(connection: sqlite3.Connection, journal: str) -> None:
    """Set every setting and read it back: one that did not take is a bug to hear of."""
    for name, value in (*PRAGMAS, ("journal_mode", journal)):
        connection.execute(f"PRAGMA {name} = {value}")
        actual = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if actual != value:
            raise RetainError(f"SQLite's {name} is {actual}, not {value}, as it should be")


def _error_code(error: BaseException) -> int:
    """SQLite's code for what went wrong, without the detail."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_damage(error: BaseException) -> bool:
    # SQLite's own message may quote damaged bytes, which Python cannot decode.
    return _error_code(error) in _CORRUPT or isinstance(error, UnicodeDecodeError)


@contextlib.contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    """Say what SQLite's refusals mean."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if is_damage(error):
            raise Damaged(f"the index {path} is damaged: {error}") from error
        if _error_code(error) in _BUSY:
            raise Busy(
                f"another process has held the index {path} for {WAIT_SECONDS:g} seconds",
                hint="Try again; the memories themselves are as they were.",
            ) from error
        raise RetainError(
            f"the index {path} cannot be used: {error}",
            hint="`retain doctor --repair` builds it anew; the memories are as they were.",
        ) from error


@contextlib.contextmanager
def _locked(directory: str, seconds: float) -> Iterator[None]:
    """Lock a directory against others who open, close or replace what is in it.

    Never for ever: Python may let go of a forgotten index at any moment, also while this very
    thread opens another one of the same bank.
    """
    from retain.bank.files import Directory, locked  # 4 ms, which a hook that only looks spares

    with open_directory(directory) as fd, locked(Directory(directory, fd), seconds):
        yield


def _inode(path: str) -> int:
    """The number of a file, 0 where there is none."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def write_private(path: str, data: bytes) -> None:
    """Write a file that only its owner can read, whatever the umask."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        os.fchmod(fd, 0o600)
        file.write(data)


def _stamp(path: str) -> bytes:
    facts = os.stat(path)
    return b"%d %d %d %d" % (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
