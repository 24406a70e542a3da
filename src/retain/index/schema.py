"""The index's tables, as an append-only list of named migrations."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Final

__all__ = ["APPLICATION", "LATEST", "MIGRATIONS", "STATE", "is_ours", "migrate", "version"]

APPLICATION: Final = 0x5274_6E31  # "Rtn1", by which the file is told from anybody else's

_TEXTS: Final = """
-- The chunks of a memory have consecutive numbers: the one before and the one after are neighbours.
-- A vector is made from the lead (a title the text lacks) and the text without its first `skip`
-- characters (the name of the speaker). `asks` is the share of a turn that stands in questions.
-- A heading alone is no answer: the chunk after it is shown instead.
CREATE TABLE chunks (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  memory INTEGER NOT NULL,
  line INTEGER NOT NULL,
  length INTEGER NOT NULL,
  is_question INTEGER NOT NULL,
  asks REAL NOT NULL,
  is_heading INTEGER NOT NULL,
  who TEXT NOT NULL,
  skip INTEGER NOT NULL,
  lead TEXT NOT NULL,
  digest BLOB NOT NULL,
  header_path TEXT NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX chunks_memory ON chunks (memory);
CREATE INDEX chunks_who ON chunks (who) WHERE who <> '';

-- Terms come cut and stemmed from `words`, so the tokenizer has only to part them at spaces.
CREATE VIRTUAL TABLE terms USING fts5 (bag, tokenize = 'ascii');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (terms, row);
-- Whole memories of several chunks, for the score of a chunk's surroundings.
CREATE VIRTUAL TABLE wholes USING fts5 (bag, tokenize = 'ascii');
CREATE VIRTUAL TABLE whole_vocabulary USING fts5vocab (wholes, row);
"""

_FIRST: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- Numbers are unique within one file; by this a cache knows that it is looking at another one.
INSERT INTO facts VALUES ('identity', hex(randomblob(16)));
-- Kept beside the rows because counting a hundred thousand of them takes longer than a search.
-- The version goes up with every change of a chunk or a vector: by it a cache knows that it is old.
CREATE TABLE totals (
  chunks INTEGER NOT NULL,
  length INTEGER NOT NULL,
  wholes INTEGER NOT NULL,
  version INTEGER NOT NULL
);
INSERT INTO totals VALUES (0, 0, 0, 0);

-- The listing of each collection as it was when every row agreed with it.
CREATE TABLE folders (collection TEXT PRIMARY KEY, signature BLOB NOT NULL) WITHOUT ROWID;

-- One row per file. A file that went missing together with most others keeps its rows, marked
-- is_gone, until someone says that it was meant.
CREATE TABLE memories (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  collection TEXT NOT NULL,
  file TEXT NOT NULL,
  id TEXT NOT NULL,
  key TEXT NOT NULL,
  size INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  hash BLOB NOT NULL,
  is_settled INTEGER NOT NULL,
  is_gone INTEGER NOT NULL DEFAULT 0,
  chunks INTEGER NOT NULL,
  type TEXT NOT NULL,
  status TEXT NOT NULL,
  created TEXT NOT NULL,
  written REAL NOT NULL,
  is_superseded INTEGER NOT NULL,
  title TEXT NOT NULL,
  tags TEXT NOT NULL,
  meta TEXT NOT NULL,
  problem TEXT NOT NULL,
  UNIQUE (collection, file)
);
CREATE INDEX memories_key ON memories (key);
CREATE INDEX memories_hidden ON memories (number) WHERE is_gone OR status = 'retired';

CREATE TABLE vectors (
  chunk INTEGER PRIMARY KEY,
  memory INTEGER NOT NULL,
  model TEXT NOT NULL,
  check_sum INTEGER NOT NULL,
  digest BLOB NOT NULL,
  vector BLOB NOT NULL
);
CREATE INDEX vectors_model ON vectors (model, chunk, memory);
CREATE TABLE pending (chunk INTEGER PRIMARY KEY);
-- Vectors saved from a damaged index, by the text they stand for, until a chunk claims them.
CREATE TABLE salvage (digest BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE links (
  memory INTEGER NOT NULL,
  target TEXT NOT NULL,
  kind TEXT NOT NULL,
  edge TEXT NOT NULL,
  memory_edge TEXT NOT NULL,
  label TEXT NOT NULL,
  anchor TEXT NOT NULL,
  line INTEGER NOT NULL,
  seen TEXT NOT NULL,
  context TEXT NOT NULL
);
CREATE INDEX links_memory ON links (memory);
CREATE INDEX links_target ON links (target);
CREATE INDEX links_supersedes ON links (target) WHERE memory_edge = 'supersedes';
"""

# A heading without a text joins the chunk below it, or is known for what it is where that one is a
# spoken turn. Every text is cut anew; the vectors of those that come out as before wait for them.
_HEADINGS: Final = """
INSERT OR IGNORE INTO salvage SELECT digest, vector FROM vectors;
DELETE FROM vectors;
DELETE FROM pending;
DELETE FROM links;
DELETE FROM memories;
DELETE FROM folders;
DELETE FROM facts WHERE name = 'held';
UPDATE facts SET value = hex(randomblob(16)) WHERE name = 'identity';
UPDATE totals SET chunks = 0, length = 0, wholes = 0, version = version + 1;
DROP TABLE chunks;
DROP TABLE vocabulary;
DROP TABLE whole_vocabulary;
DROP TABLE terms;
DROP TABLE wholes;
"""

# What each arm that lives elsewhere was given of every memory: what differs from the rows is the
# outbox, so that a kill at any moment can neither lose nor invent a delivery.
_ENGINES: Final = """
CREATE TABLE delivered (
  arm TEXT NOT NULL, -- which part of the index, and on which server
  collection TEXT NOT NULL,
  file TEXT NOT NULL,
  hash TEXT NOT NULL,
  is_left INTEGER NOT NULL, -- its memory was taken out of the index, perhaps for good
  PRIMARY KEY (collection, file, arm)
) WITHOUT ROWID;
CREATE INDEX delivered_left ON delivered (arm) WHERE is_left;
CREATE INDEX delivered_ahead ON delivered (arm) WHERE hash GLOB 'ahead:*';
"""

# Never change one that was released: add another. Since everything here is derived, a migration
# may simply empty the tables; the next look at the files fills them again.
MIGRATIONS: Final = (
    ("the first schema", _FIRST + _TEXTS),
    ("headings without a text of their own", _HEADINGS + _TEXTS),
    ("arms that live elsewhere", _ENGINES),
)
LATEST: Final = len(MIGRATIONS)


# What changes with every change of a chunk or a vector, and with the file itself: by it whoever
# keeps something in memory knows that it is old.
STATE: Final = "SELECT version, (SELECT value FROM facts WHERE name = 'identity') FROM totals"


def version(connection: sqlite3.Connection) -> int:
    """How many migrations a file has seen."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether a file holds tables alone: a view or a trigger can do what no table can."""
    query = "SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index') LIMIT 1"
    return connection.execute(query).fetchone() is None


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a file to the latest schema, each migration in one transaction."""
    for number, (_, script) in enumerate(
        MIGRATIONS[version(connection) :], version(connection) + 1
    ):
        connection.executescript(
            f"BEGIN IMMEDIATE; {script}; PRAGMA application_id = {APPLICATION}; "
            f"PRAGMA user_version = {number}; COMMIT;"
        )
