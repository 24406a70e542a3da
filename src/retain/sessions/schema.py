"""The tables that chats are kept in."""

from __future__ import annotations

import sqlite3
from typing import Final

APPLICATION: Final = 0x5274_6E63  # "Rtnc", by which the file is told from anybody else's

VERSION: Final = 1

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
  summarised INTEGER NOT NULL DEFAULT 0  -- the last message that the summary speaks of
);
CREATE INDEX sessions_updated ON sessions (project, updated_at);
CREATE UNIQUE INDEX sessions_origin ON sessions (project, origin) WHERE origin <> '';
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


def version(connection: sqlite3.Connection) -> int:
    """Return the version of the schema in a file; 0 before there is one."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file."""
    connection.executescript(f"BEGIN IMMEDIATE; {_TABLES}")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
