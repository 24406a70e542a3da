"""The tables that chats are kept in, as an append-only list of named migrations."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Final

__all__ = ["APPLICATION", "LATEST", "MIGRATIONS", "expected", "migrate", "objects", "version"]

APPLICATION: Final = 0x5274_6E63  # "Rtnc", by which the file is told from anybody else's

# `terms` are cut by `words`, as in the index: FTS5's own tokenizers take a line of Chinese for one
# word, and a function of ours may not be called from a trigger in a file that could come from
# anywhere.
_FIRST: Final = """
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  title TEXT,
  summary TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  tags TEXT DEFAULT '[]',
  model TEXT NOT NULL DEFAULT '',
  origin TEXT NOT NULL DEFAULT ''
);
CREATE INDEX sessions_updated ON sessions (updated_at);
CREATE UNIQUE INDEX sessions_origin ON sessions (origin) WHERE origin <> '';
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL REFERENCES sessions (id),
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
  terms TEXT NOT NULL DEFAULT ''
);
CREATE INDEX memories_session ON memories (source_session);
CREATE INDEX memories_ref ON memories (ref);
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
CREATE TRIGGER messages_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts (rowid, terms) VALUES (new.id, new.terms);
END;
CREATE TRIGGER messages_delete AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, terms) VALUES ('delete', old.id, old.terms);
END;
CREATE TRIGGER messages_update AFTER UPDATE OF id, terms ON messages BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, terms) VALUES ('delete', old.id, old.terms);
  INSERT INTO messages_fts (rowid, terms) VALUES (new.id, new.terms);
END;
CREATE TRIGGER memories_insert AFTER INSERT ON memories BEGIN
  INSERT INTO memories_fts (rowid, terms) VALUES (new.id, new.terms);
END;
CREATE TRIGGER memories_delete AFTER DELETE ON memories BEGIN
  INSERT INTO memories_fts (memories_fts, rowid, terms) VALUES ('delete', old.id, old.terms);
END;
CREATE TRIGGER memories_update AFTER UPDATE OF id, terms ON memories BEGIN
  INSERT INTO memories_fts (memories_fts, rowid, terms) VALUES ('delete', old.id, old.terms);
  INSERT INTO memories_fts (rowid, terms) VALUES (new.id, new.terms);
END;
"""

# A table of its own: a column that is added later is spelled by SQLite, and not by every one alike.
_SUMMARISED: Final = """
CREATE TABLE summarised (
  session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  last_message INTEGER NOT NULL
);
INSERT INTO summarised
SELECT s.id, coalesce((SELECT max(m.id) FROM messages m WHERE m.session_id = s.id), 0)
FROM sessions s WHERE coalesce(s.summary, '') <> '';
"""

# Never change one that was released: add another. Nothing here is derived, so a migration keeps
# every row.
MIGRATIONS: Final = (
    ("the first schema", _FIRST),
    ("how far each summary goes", _SUMMARISED),
)
LATEST: Final = len(MIGRATIONS)
# FTS5 makes tables of its own, which differ from one SQLite to the next.
_OBJECTS: Final = r"""
SELECT type, name, sql FROM sqlite_schema
WHERE NOT (type IN ('table', 'index') AND name LIKE 'sqlite\_%' ESCAPE '\')
AND NOT (type = 'table' AND name IN (
  'messages_fts_data', 'messages_fts_idx', 'messages_fts_content', 'messages_fts_docsize',
  'messages_fts_config', 'memories_fts_data', 'memories_fts_idx', 'memories_fts_content',
  'memories_fts_docsize', 'memories_fts_config'
))
ORDER BY name
"""


def version(connection: sqlite3.Connection) -> int:
    """How many migrations a file has seen."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def migrate(connection: sqlite3.Connection, to: int = LATEST) -> None:
    """Bring a file to a schema, each migration in one transaction; whoever else tries, waits."""
    while version(connection) < to:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _step(connection, to)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _step(connection: sqlite3.Connection, to: int) -> None:
    seen = version(connection)
    if seen >= to:  # someone else did it while this one waited
        return
    for statement in _statements(MIGRATIONS[seen][1]):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {seen + 1}")


def _statements(script: str) -> list[str]:
    """A script's statements one by one: SQLite's way of running it whole would commit first."""
    found: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found


def objects(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """The tables, indexes and triggers that are in a file, as they were written."""
    return connection.execute(_OBJECTS).fetchall()


def expected() -> list[tuple[str, str, str]]:
    """Those that a file of the latest schema has."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        return objects(connection)
