"""The index's SQLite file: opened with the right settings, sealed, and set aside when damaged.

Opening and closing take turns by a lock file, because what stands between the two (a new file,
a migration, a damaged file put aside) must be seen whole by every process. Who opens the file
notes its log in the seal, and the last process to close it the file's stamp. A file that does not
bear its seal was touched by someone else, and is built anew from the memories: no check is as
sure, and none but reading every byte would notice a changed letter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from typing import Final

from retain.errors import Busy, NewerFormat, RetainError
from retain.fsio import Directory
from retain.index import schema
from retain.index.seal import FILE, Seal, inode, private
from retain.notice import is_network
from retain.paths import STATE

__all__ = ["Damaged", "Replaced", "Store"]

_LOCK: Final = "index.lock"
_TRIES: Final = 20  # for the lock that the last one to close wants, with pauses between
_OPENING: Final = 200  # for the same, of one who would otherwise do without a file or not at all
_PAUSE: Final = 0.01
_BESIDE: Final = ("-wal", "-shm", "-journal")
_ASIDE: Final = ".damaged-"
_MORE: Final = 100  # schemas that newer Retains may have; a higher number is no version but damage

WAIT_SECONDS: Final = 10.0
_INHERITED: Final[list[object]] = []  # connections of a parent process, kept from being closed
_CHECKPOINT_WAIT: Final = 0.5  # seconds
_ON_A_NETWORK: Final = "the bank is on a network file system: the index uses a safe journal"
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


class Damaged(RetainError):
    """The index cannot be trusted; it is set aside and built anew."""

    code = "damaged"


class Replaced(Busy):
    """Another file stands in the index's place, about which nothing is known yet."""

    code = "replaced"


class Store:
    """One process's access to a bank's index."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder = os.path.join(root, STATE)
        self._seal = Seal(root)
        self.path = self._seal.path
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self.generation = 0  # goes up with every file that is opened: what was read is of another
        self._process = os.getpid()
        self.lock = threading.RLock()
        self.notes: list[str] = []  # what a person should know about this index
        self.lasting: list[str] = []  # the part of it that makes every answer worse
        self.is_temporary = False

    # Using

    @contextlib.contextmanager
    def reading(self, generation: int = 0) -> Iterator[sqlite3.Connection]:
        """The index as it is at one moment; Replaced when it is of another generation."""
        with self._transaction("BEGIN", generation, WAIT_SECONDS) as connection:
            yield connection

    @contextlib.contextmanager
    def writing(
        self, generation: int = 0, *, wait: float | None = None
    ) -> Iterator[sqlite3.Connection]:
        """The right to change the index; the change is whole or not at all.

        Busy where another process has had it for as long as one waits, or for `wait` seconds.
        """
        seconds = WAIT_SECONDS if wait is None else wait
        with self._transaction("BEGIN IMMEDIATE", generation, seconds) as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(
        self, begin: str, generation: int, seconds: float
    ) -> Iterator[sqlite3.Connection]:
        with self.lock, _in_words(self.path, seconds):
            connection = self._current()
            if generation and generation != self.generation:
                raise Replaced(
                    f"the index {self.path} is replaced over and over by another process"
                )
            with _patient(connection, seconds):
                connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def is_new(self, generation: int) -> bool:
        """Whether the file is another one than that of a generation, or not there at all."""
        return (
            self._connection is None
            or self.generation != generation
            or (not self.is_temporary and inode(self.path) != self._inode)
        )

    def checkpoint(self) -> None:
        """Bring everything into the main file and leave nothing in the log beside it."""
        with self.lock, _in_words(self.path, _CHECKPOINT_WAIT):
            connection = self._current()
            # Whoever reads just now keeps the log; the last to close the file removes it.
            with _patient(connection, _CHECKPOINT_WAIT):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # Opening and closing

    def _current(self) -> sqlite3.Connection:
        """The open connection, to the file that stands there now: anyone may delete it any time."""
        if self._process != os.getpid():
            # SQLite must not be used across a fork, nor closed: that would drop the parent's locks.
            _INHERITED.append(self._connection)
            self._connection, self._process = None, os.getpid()
        if self._connection is not None and (self.is_temporary or inode(self.path) == self._inode):
            return self._connection
        self._drop()
        self._connection = self._opened()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        try:
            with Directory.open(self._root) as root, root.child(STATE, create=True):
                pass
            with _turn(self._folder):
                if self._is_whole():
                    connection = self._connect()
                    if schema.version(connection) == schema.LATEST and schema.is_ours(connection):
                        return connection
                    connection.close()
            with _turn(self._folder, alone=True, tries=_OPENING):
                return self._prepared()
        except (OSError, sqlite3.OperationalError) as error:
            if _family(error) in _BUSY:
                raise
            return self._temporary(error)

    def _temporary(self, error: Exception) -> sqlite3.Connection:
        """An index in memory, for a bank on a disk that refuses to be written to."""
        self.is_temporary = True
        self.generation += 1
        self._note_lasting(f"the index is kept in memory only: {self._folder}: {error}")
        connection = _configured(_connected(":memory:"), "memory")
        schema.migrate(connection)
        return connection

    def _note_lasting(self, *reasons: str) -> None:
        """Note what makes every answer worse from now on, in place of what did before."""
        self.notes = [*(note for note in self.notes if note not in self.lasting), *reasons]
        self.lasting = [*reasons]

    def _is_whole(self) -> bool:
        """Whether the file is ours and as we left it, told without opening it."""
        version = self._seal.version()
        if version is None:
            return False
        if version < schema.LATEST + _MORE:  # whoever made it may seal in another way
            self._refuse_newer(version)
        # On a network nobody keeps a log, and the stamps are another machine's.
        return is_network(self._folder) or self._seal.holds()

    def _prepared(self) -> sqlite3.Connection:
        """The file made ready, while no other process opens or closes it."""
        if not self._is_whole():
            if not inode(self.path):
                self._set_aside()
                return self._created()
            return self._rebuilt("it was changed from outside")
        connection = self._connect()
        try:
            self._refuse_newer(schema.version(connection))
            is_ours = schema.is_ours(connection)
            if is_ours:
                schema.migrate(connection)
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return self._rebuilt("it was changed from outside")

    def _refuse_newer(self, version: int) -> None:
        if version > schema.LATEST:
            raise NewerFormat(
                f"{self.path} was made by a newer Retain and is left untouched",
                hint="Upgrade Retain: pip install --upgrade retain-bank",
            )

    def _rebuilt(self, why: str) -> sqlite3.Connection:
        """A new file in place of a damaged one, with the vectors that can be saved from it."""
        from retain.index.salvage import vectors

        damaged = self._set_aside()
        try:
            saved = vectors(damaged) if damaged else None
            connection = self._created()
            if saved:
                saved.into(connection)
        finally:
            self._sweep()  # also where a full disk refuses the new one
        self.notes.append(f"the index was built anew: {why}")
        return connection

    def set_aside(self, why: str) -> None:
        """Put a file away that turned out to be damaged; others wait until a new one is there."""
        with self.lock:
            if self.is_temporary:
                self._drop()
                return
            with _turn(self._folder, alone=True, tries=_OPENING):
                is_there = inode(self.path) == self._inode != 0  # nobody else has done it yet
                # Only in turn: SQLite removes the log by its name, which may be a new file's soon.
                self._drop()
                if is_there:
                    self._connection = self._rebuilt(why)

    def _set_aside(self) -> str:
        """Rename the file, so that whoever has it open goes on with the old one; its new name."""
        aside = ""
        if os.path.lexists(self.path):
            aside = f"{self.path}{_ASIDE}{os.getpid()}"
            os.replace(self.path, aside)
        for ending in _BESIDE:
            # A log that stayed behind would be taken for the new file's own.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}{ending}")
        return aside

    def _sweep(self) -> None:
        """Remove what was set aside, by us or by someone who was killed before they could."""
        for name in os.listdir(self._folder):
            if name.startswith((f"{FILE}{_ASIDE}", f"{Seal.NAME}.")):
                with contextlib.suppress(OSError):  # a directory, say, which is not ours to empty
                    os.unlink(os.path.join(self._folder, name))

    def _created(self) -> sqlite3.Connection:
        os.close(private(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        # Before there is a log, so that the file's own first bytes say what it is.
        with contextlib.closing(_connected(self.path)) as connection:
            schema.migrate(connection)
        self._seal.write()  # from now on it is known to be ours
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        self._inode = inode(self.path)
        self.generation += 1
        journal = "delete" if is_network(self._folder) else "wal"
        self._note_lasting(*[_ON_A_NETWORK] * (journal != "wal"))
        connection = _connected(self.path)
        try:
            configured = _configured(connection, journal)
            schema.version(configured)  # the first look makes the log: the sign that it is in use
            self._seal.note_log()
            return configured
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Let go of the file, and seal it when no other process has it open."""
        with self.lock:
            if self._connection is None or self.is_temporary:
                self._drop()
                return
            try:
                with contextlib.suppress(OSError), _turn(self._folder, alone=True):
                    is_ours = inode(self.path) == self._inode
                    self._drop()
                    if is_ours and not os.path.lexists(f"{self.path}-wal"):
                        self._seal.write()
                    self._sweep()
            finally:
                self._drop()  # also where the folder is gone, and the lock with it

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None
        self.is_temporary = False


def _connected(path: str) -> sqlite3.Connection:
    """A connection that begins no transaction by itself; whoever uses it holds the lock."""
    return sqlite3.connect(
        path,
        timeout=WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _configured(connection: sqlite3.Connection, journal: str) -> sqlite3.Connection:
    """A connection with every setting read back: one that did not take is a bug to hear of."""
    for name, value in PRAGMAS:
        connection.execute(f"PRAGMA {name} = {value}")
    for name, value in PRAGMAS:
        found = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if found != value:
            raise RetainError(f"SQLite's {name} is {found}, not {value}, as it should be")
    mode = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()[0]
    if mode != journal:
        raise RetainError(f"SQLite's journal_mode is {mode}, not {journal}, as it should be")
    return connection


def _family(error: Exception) -> int:
    """SQLite's code for what went wrong, without the detail."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextlib.contextmanager
def _patient(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Have a connection wait for others for so many seconds, and then as ever."""
    if seconds == WAIT_SECONDS:
        yield
        return
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(WAIT_SECONDS * 1000)}")


@contextlib.contextmanager
def _in_words(path: str, seconds: float) -> Iterator[None]:
    """Say what SQLite's refusals mean."""
    try:
        yield
    except sqlite3.Error as error:
        code = _family(error)
        if code in _BUSY:
            raise Busy(
                f"another process has held the index {path} for {seconds:g} seconds",
                hint="Try again; the memories themselves are as they were.",
            ) from error
        if code in _CORRUPT:
            raise Damaged(f"the index {path} is damaged: {error}") from error
        raise RetainError(
            f"the index {path} cannot be used: {error}",
            hint="`retain doctor --repair` builds it anew; the memories are as they were.",
        ) from error


@contextlib.contextmanager
def _turn(folder: str, *, alone: bool = False, tries: int = _TRIES) -> Iterator[None]:
    """Open and close one after the other: with others who open, or alone."""
    import fcntl

    fd = private(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT)
    try:
        if alone:
            _lock_alone(fd, tries)
        else:
            with contextlib.suppress(OSError):  # a file system without such locks
                fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _lock_alone(fd: int, tries: int) -> None:
    """Wait for those who open just now, but not for ever: BlockingIOError.

    Python may let go of a forgotten store at any moment, also while this very thread opens
    another one and holds the lock itself.
    """
    import fcntl

    for _ in range(tries):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:  # a file system without such locks
            return
        else:
            return
    raise BlockingIOError(errno.EAGAIN, "others are opening the index")
