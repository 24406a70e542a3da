"""The SQLite file that holds a person's chats: its tables, its connection and its rows.

Unlike the index it is not derived. What is written is on disk when the call returns, a file that
is not ours is left alone, and a damaged one is reported and kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

from retain.bank.files import Directory, saving
from retain.errors import (
    Busy,
    LimitExceeded,
    NewerFormat,
    NotFound,
    NotSaved,
    RetainError,
    Unreadable,
    Unsafe,
    UsageError,
)
from retain.locate import is_network
from retain.sessions import FILE
from retain.sessions.model import (
    NEW,
    ROLES,
    Block,
    Chat,
    ChatMessage,
    Compaction,
    Message,
    Session,
    clean_unicode,
)
from retain.text.tokens import bag

MAX_MESSAGE: Final = 8_000_000  # characters, blocks included
MAX_LOADED: Final = 10_000  # messages of a chat that is resumed, the newest
PREFIX: Final = "session_"
APPLICATION: Final = 0x5274_6E63  # "Rtnc", by which the file is told from anybody else's
VERSION: Final = 1
WAIT_SECONDS: Final = 30.0
_PAUSE: Final = 0.01

# `terms` are cut by `text.tokens`, as in the index: FTS5's own tokenizers take a line of Chinese
# for one word. `project` is the bank that a chat was held in; empty for the person's own.
_TABLES: Final = """
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  title TEXT,
  summary TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  tags TEXT DEFAULT '[]',
  model TEXT NOT NULL DEFAULT '',
  origin TEXT NOT NULL DEFAULT '',
  project TEXT NOT NULL DEFAULT '',
  is_question INTEGER NOT NULL DEFAULT 0,
  summarised INTEGER NOT NULL DEFAULT 0  -- the last message that the summary speaks of
);
CREATE INDEX sessions_updated ON sessions (project, updated_at);
CREATE UNIQUE INDEX sessions_origin ON sessions (project, origin) WHERE origin <> '';
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system')),
  content TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  token_count INTEGER,
  blocks TEXT NOT NULL DEFAULT '[]',
  terms TEXT NOT NULL DEFAULT ''
);
CREATE INDEX messages_session ON messages (session_id);
CREATE TABLE memories (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fact TEXT NOT NULL,
  category TEXT DEFAULT 'general',
  source_session TEXT REFERENCES sessions (id) ON DELETE SET NULL,
  created_at TEXT NOT NULL,
  superseded_by INTEGER REFERENCES memories (id) ON DELETE SET NULL,
  ref TEXT NOT NULL DEFAULT '',
  terms TEXT NOT NULL DEFAULT '',
  project TEXT NOT NULL DEFAULT ''
);
CREATE INDEX memories_session ON memories (source_session);
CREATE INDEX memories_ref ON memories (project, ref);
CREATE INDEX memories_superseded ON memories (superseded_by);

-- What stands for the messages up to one of them when a model is asked; they themselves stay.
CREATE TABLE compactions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  last_message INTEGER NOT NULL,
  summary TEXT NOT NULL,
  created_at TEXT NOT NULL
);
CREATE INDEX compactions_session ON compactions (session_id);
CREATE TABLE summary_vectors (
  session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  model TEXT NOT NULL,
  vector BLOB NOT NULL
);
-- The highest number each day has given out: an id is never given out again.
CREATE TABLE days (day TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;

CREATE VIRTUAL TABLE messages_fts USING fts5 (
  terms, content = 'messages', content_rowid = 'id', tokenize = 'ascii'
);
CREATE VIRTUAL TABLE memories_fts USING fts5 (
  terms, content = 'memories', content_rowid = 'id', tokenize = 'ascii'
);
CREATE VIRTUAL TABLE messages_terms USING fts5vocab (messages_fts, row);
CREATE VIRTUAL TABLE memories_terms USING fts5vocab (memories_fts, row);
"""
_TRIGGERS: Final = """
CREATE TRIGGER {0}_insert AFTER INSERT ON {0} BEGIN
  INSERT INTO {0}_fts (rowid, terms) VALUES (new.id, new.terms);
END;
CREATE TRIGGER {0}_delete AFTER DELETE ON {0} BEGIN
  INSERT INTO {0}_fts ({0}_fts, rowid, terms) VALUES ('delete', old.id, old.terms);
END;
CREATE TRIGGER {0}_update AFTER UPDATE OF id, terms ON {0} BEGIN
  INSERT INTO {0}_fts ({0}_fts, rowid, terms) VALUES ('delete', old.id, old.terms);
  INSERT INTO {0}_fts (rowid, terms) VALUES (new.id, new.terms);
END;
"""
# What every connection has, asserted by reading it back.
_PRAGMAS: Final = (
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
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)  # device and inode of the file that is open; zeros for none

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The chats as they are at one moment; none where there is no file, and none is made."""
        with self._transaction("BEGIN", create=False) as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self, *, dry_run: bool = False) -> Iterator[sqlite3.Connection]:
        """The right to change them; the change is on disk as a whole, or not at all.

        A dry run takes the change back, and makes no file for it.
        """
        end = "ROLLBACK" if dry_run else "COMMIT"
        with self._transaction("BEGIN IMMEDIATE", create=not dry_run, end=end) as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(
        self, begin: str, *, create: bool, end: str = "COMMIT"
    ) -> Iterator[sqlite3.Connection]:
        with self._lock, _explain_errors(self.path):
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
        with self._lock, _explain_errors(self.path):
            connection = self._current(create=False)
            connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('optimize')")
            connection.execute("INSERT INTO memories_fts (memories_fts) VALUES ('optimize')")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _current(self, create: bool) -> sqlite3.Connection:
        """The open connection, to the file that is there now; an empty one where there is none."""
        file = _identify(self.path)
        if self._connection is not None and file == self._file and (any(file) or not create):
            return self._connection
        self.close()
        if not any(file) and create:
            self._create()
        self._file = _identify(self.path)
        self._connection = self._open() if any(self._file) else _empty_database()
        return self._connection

    def _create(self) -> None:
        """Put an empty file in place, with its tables; whoever is faster, theirs is used."""
        if self._make:
            self._make()
        with contextlib.closing(_empty_database()) as connection:
            data = connection.serialize()
        with saving(self.path), Directory.open(self._root) as root:
            if not root.has(".gitignore"):
                # What is said in a chat is private, also in a store that Retain did not make.
                root.place(".gitignore", f"{FILE}*\n".encode())
            root.place(FILE, data)

    def _open(self) -> sqlite3.Connection:
        """Open the file; SQLite does not wait by itself to change the journal's mode."""
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            self._refuse_links()
            try:
                return self._connect("delete" if is_network(self._root) else "wal")
            except sqlite3.OperationalError as error:
                code = _error_code(error)
                if code in _REFUSED and not os.access(self._root, os.W_OK):
                    return self._connect("")  # a disk that can only be read
                if code not in _BUSY or time.monotonic() > give_up:
                    raise
            time.sleep(_PAUSE)

    def _refuse_links(self) -> None:
        for ending in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(self.path + ending).st_mode):
                    raise Unsafe(
                        f"{self.path}{ending} is a link or not a plain file; it is not followed",
                        unchanged="Nothing was read or changed.",
                        hint="Move it away; the chats themselves may be where it leads.",
                    )

    def _connect(self, journal: str) -> sqlite3.Connection:
        """Connect and configure; without a journal, only for reading."""
        address = f"file:{quote(self.path)}"
        if not journal:
            # In a log lies what was written last; without one, nothing beside the file is needed.
            has_log = os.path.exists(f"{self.path}-wal") and os.path.getsize(f"{self.path}-wal")
            address += "?mode=ro" if has_log else "?mode=ro&immutable=1"
        connection = sqlite3.connect(
            address, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, uri=True
        )
        try:
            self._verify(connection)
            _configure(connection, *_PRAGMAS)
            if journal:
                synchronous = ("synchronous", _SYNCHRONOUS[journal])
                _configure(connection, synchronous, ("journal_mode", journal))
        except BaseException:
            connection.close()
            raise
        return connection

    def _verify(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours, or that a newer Retain made."""
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as error:
            if _error_code(error) != sqlite3.SQLITE_NOTADB:
                raise
            application = version = 0
        if application != APPLICATION:
            raise Unreadable(
                f"{self.path} cannot be used: it is not a chat file of Retain's",
                hint="Move it away if it is not yours; the next chat makes a new one.",
            )
        if version > VERSION:
            raise NewerFormat(
                f"{self.path} was made by a newer Retain and is left untouched",
                hint="Upgrade Retain: pip install --upgrade retain-bank",
            )


def _empty_database() -> sqlite3.Connection:
    """An empty set of chats, in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    triggers = _TRIGGERS.format("messages") + _TRIGGERS.format("memories")
    connection.executescript(f"BEGIN; {_TABLES} {triggers} COMMIT")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("PRAGMA foreign_keys = 1")
    return connection


def _configure(connection: sqlite3.Connection, *pragmas: tuple[str, object]) -> None:
    """Set everything and read it back: what did not take is a bug to hear of."""
    for name, value in pragmas:
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        (actual,) = connection.execute(f"PRAGMA {name}").fetchone()
        if actual != value:
            raise RetainError(f"SQLite's {name} is {actual}, not {value}, as it should be")


def _identify(path: str) -> tuple[int, int]:
    """The device and inode of a file, zeros where there is none."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return 0, 0
    return facts.st_dev, facts.st_ino


def _error_code(error: sqlite3.Error) -> int:
    """SQLite's code for what went wrong, without the detail."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextlib.contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    """Say what SQLite's refusals mean."""
    try:
        yield
    except sqlite3.Error as error:
        code = _error_code(error)
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


# Rows


def select_sessions(
    connection: sqlite3.Connection, condition: str = "", values: Sequence[object] = ()
) -> list[Session]:
    """The chats that meet a condition of ours, with the counts of their messages."""
    query = f"""
        SELECT s.id, s.title, s.summary, s.created_at, s.updated_at, s.tags,
          (SELECT count(*) FROM messages m WHERE m.session_id = s.id),
          (SELECT total(m.token_count) FROM messages m WHERE m.session_id = s.id),
          s.model, s.project, s.is_question
        FROM sessions s {condition}
        """  # noqa: S608 - our own
    return [
        Session(
            id_,
            title or NEW,
            summary or "",
            created_at,
            updated_at,
            tuple(json.loads(tags)),
            messages,
            int(tokens),
            model,
            project,
            bool(is_question),
        )
        for (
            id_, title, summary, created_at, updated_at, tags,
            messages, tokens, model, project, is_question,
        ) in connection.execute(query, values)
    ]  # fmt: skip


def get_session(connection: sqlite3.Connection, session_id: str) -> Session:
    """One chat, or NotFound."""
    found = select_sessions(connection, "WHERE s.id = ?", (clean_unicode(session_id),))
    if not found:
        raise missing(session_id)
    return found[0]


def missing(session_id: str) -> NotFound:
    """The error for a chat that is not there."""
    hint = "`retain sessions list` shows them."
    return NotFound(f"there is no session {session_id!r}", hint=hint)


def require(connection: sqlite3.Connection, session_id: str) -> None:
    """Refuse to go on without that chat: another process may have deleted it."""
    query = "SELECT 1 FROM sessions WHERE id = ?"
    if not connection.execute(query, (clean_unicode(session_id),)).fetchone():
        raise missing(session_id)


def select_messages(
    connection: sqlite3.Connection, condition: str, values: Sequence[object]
) -> list[Message]:
    """The messages that meet a condition of ours, oldest first."""
    columns = "id, session_id, role, content, timestamp, token_count, blocks"
    query = f"SELECT {columns} FROM messages WHERE {condition}"  # noqa: S608 - our own
    rows = connection.execute(query, values).fetchall()
    return [Message(*row)._replace(blocks=tuple(json.loads(row[6]))) for row in sorted(rows)]


def load_messages(connection: sqlite3.Connection, session_id: str, after: int = 0) -> list[Message]:
    """A chat's newest messages after one of them, oldest first: `MAX_LOADED` at most."""
    newest = "session_id = ? AND id > ? ORDER BY id DESC LIMIT ?"
    return select_messages(connection, newest, (session_id, after, MAX_LOADED))


def pack_message(content: str, blocks: Sequence[Block]) -> tuple[str, str, str]:
    """A message's text, blocks and terms, as they are kept."""
    text = clean_unicode(content)
    try:
        packed = clean_unicode(json.dumps([dict(block) for block in blocks], ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the blocks of a message are no JSON: {error}") from error
    length = len(text) + len(packed)
    if length > MAX_MESSAGE:
        raise LimitExceeded(
            f"the message has {length:,} characters, and {MAX_MESSAGE:,} is the limit",
            hint="Say it in parts, or put it into a file.",
        )
    return text, packed, bag(text)


def insert_message(connection: sqlite3.Connection, session_id: str, message: ChatMessage) -> int:
    """Add a message to a chat; its number."""
    if message.role not in ROLES:
        raise UsageError(f"{message.role!r} is not a role", hint=f"There are {', '.join(ROLES)}.")
    content, blocks, terms = pack_message(message.content, message.blocks)
    added = connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp, token_count, blocks, terms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session_id, message.role, content, message.timestamp, message.token_count, blocks, terms),
    )
    return int(added.lastrowid or 0)


def touch(connection: sqlite3.Connection, session_id: str, when: str) -> None:
    """Move a chat to the top of the list; the clock may have been set back."""
    query = "UPDATE sessions SET updated_at = max(updated_at, ?) WHERE id = ?"
    connection.execute(query, (when, session_id))


def note_summarised(
    connection: sqlite3.Connection, session_id: str, through: int | None = None
) -> None:
    """Note that a chat's summary speaks of its messages up to one, or up to the last."""
    connection.execute(
        "UPDATE sessions SET summarised = CASE WHEN coalesce(summary, '') = '' THEN 0 ELSE "
        "coalesce(?, (SELECT max(id) FROM messages WHERE session_id = ?), 0) END WHERE id = ?",
        (through, session_id, session_id),
    )


def next_id(connection: sqlite3.Connection, day: str) -> str:
    """An id for a chat of that day, which no chat has or had; the caller may write."""
    while True:
        (number,) = connection.execute(
            "INSERT INTO days VALUES (?, 1) "
            "ON CONFLICT (day) DO UPDATE SET last = last + 1 RETURNING last",
            (day,),
        ).fetchone()
        name = f"{PREFIX}{day}_{number:03}"
        if not connection.execute("SELECT 1 FROM sessions WHERE id = ?", (name,)).fetchone():
            return name


def get_chat(connection: sqlite3.Connection, session_id: str) -> Chat:
    """A whole chat, ready to be written to a file."""
    session = get_session(connection, session_id)
    messages = select_messages(connection, "session_id = ?", (session_id,))
    places = {message.id: at for at, message in enumerate(messages, 1)}
    query = "SELECT origin FROM sessions WHERE id = ?"
    (origin,) = connection.execute(query, (session_id,)).fetchone()
    compactions = connection.execute(
        "SELECT last_message, summary, created_at FROM compactions WHERE session_id = ? "
        "ORDER BY id",
        (session_id,),
    )
    return Chat(
        session.id,
        session.title,
        session.created_at,
        session.updated_at,
        session.tags,
        tuple(ChatMessage(*message[2:]) for message in messages),
        origin=origin,
        summary=session.summary,
        model=session.model,
        compactions=tuple(
            Compaction(places.get(last, 0), summary, when) for last, summary, when in compactions
        ),
    )
