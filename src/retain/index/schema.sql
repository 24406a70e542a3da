-- The tables of an index. With every change of them, VERSION in database.py goes up.

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
  is_odd INTEGER NOT NULL,
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

-- The documents that each engine was given: what differs from the rows is sent or removed. The
-- same document may be of a memory's new version as well: then it is pointed to that.
CREATE TABLE delivered (
  engine TEXT NOT NULL, -- which part of the index, on which server
  id TEXT NOT NULL,
  memory INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  is_sent INTEGER NOT NULL, -- else it may be on the server or not
  PRIMARY KEY (engine, id)
) WITHOUT ROWID;
CREATE INDEX delivered_memory ON delivered (engine, memory, is_sent);
