"""The rows of one memory: derived from the memory alone, then written, stamped and deleted.

Everything that writes rows does so inside a transaction of the caller's.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from retain.bank.listing import Stamp
from retain.bank.markdown import searchable
from retain.errors import BadName
from retain.index.database import last_number
from retain.memory import Memory, check_id, heading, key, parse_time
from retain.text.chunks import Chunk, split_chunks
from retain.text.links import Link, classify_target, find_links, normalize_target
from retain.text.tokens import bag, is_question, words

# Frontmatter that people search by, beside title and tags.
_SEARCHED: Final = ("context", "category", "project")
_BRACKETED: Final = re.compile(r"\[[^\[\]]*\]")
_SENTENCE: Final = re.compile(r"[^.!?]+[.!?]*")
MANY_LINKS: Final = 10_000  # in one memory: fewer need not be counted to know that all are read
# Frontmatter that names other memories; each is also the edge it makes.
_RELATIONS: Final = ("related_to", "supersedes", "superseded_by", "merged_from")


class ChunkRow(NamedTuple):
    """One chunk: where it stands, what it says, and the terms it is found by."""

    line: int
    length: int
    is_question: bool
    asks: float
    is_heading: bool
    who: str
    skip: int
    lead: str
    digest: bytes
    header_path: str
    text: str
    terms: str


class MemoryRow(NamedTuple):
    """One memory as the index holds it: its fields, its chunks with their terms, its links."""

    type: str
    status: str
    created: str
    written: float
    is_superseded: bool
    title: str
    tags: str
    meta: str
    problem: str
    is_odd: bool  # whether `retain status` has to read the file to say that all is well
    chunks: tuple[ChunkRow, ...]
    links: tuple[Link, ...]


def make_row(memory: Memory, modified: float) -> MemoryRow:
    """Derive everything from a memory; `modified` stands in for a date it does not give."""
    body = searchable(memory)
    above = _lines_above(memory)
    tags = memory.tags
    first, *others = split_chunks(body) or [Chunk("", "", 1)]
    # The first chunk is also found by the memory's title, tags, id and context.
    title = memory.text("title").strip()
    if title and title == heading(memory.body):
        title = ""
    around = (title, memory.id, *tags, *map(memory.text, _SEARCHED))
    linked = [
        link._replace(target=_target(link.target, link.kind), line=link.line + above)
        for link in (find_links(body) if "[[" in body else ())
    ]
    return MemoryRow(
        type=memory.type,
        status=memory.status,
        created=memory.text("created_at") or memory.text("date"),
        written=_written_at(memory, modified),
        # A memory may say of itself that what it links to has taken its place.
        is_superseded=bool(memory.text("superseded_by"))
        or any(link.memory_edge == "superseded_by" and link.kind != "ghost" for link in linked),
        title=memory.title,
        tags=_json(tags) if tags else "[]",
        meta=_json(memory.meta),
        problem=memory.problem,
        is_odd=bool(faults(memory))
        or memory.path.endswith(".json")
        or "content" in memory.meta
        or memory.data.count(b"[[") >= MANY_LINKS,
        chunks=(
            _chunk_row(first, above, title, around),
            *(_chunk_row(chunk, above) for chunk in others),
        ),
        links=(*_related(memory.meta), *linked),
    )


def _lines_above(memory: Memory) -> int:
    """How many lines of a memory's file stand above what is searched of it."""
    if memory.body and not memory.path.endswith(".json"):
        # A body is the tail of its file, so the lines above it are those it does not have.
        return memory.data.count(b"\n") - memory.body.count("\n")
    fields = _CONTENT.search(memory.data)
    return memory.data.count(b"\n", 0, fields.end()) if fields else 0


def faults(memory: Memory) -> list[str]:
    """What a person may want to mend in a memory that can be read."""
    found = [memory.problem] if memory.problem else []
    try:
        check_id(memory.id)
    except BadName as error:
        found.append(f"its name cannot be used: {error.message}")
    stated = memory.meta.get("id")
    if stated is not None and key(str(stated)) != key(memory.id):
        found.append(f"its frontmatter says id: {stated}, but the file's name is the id")
    for name in ("created_at", "updated_at"):
        value = memory.text(name)
        if value and parse_time(value) is None:
            found.append(f"{name} is not a date: {value}")
    return found


_CONTENT: Final = re.compile(rb'^(?:content|\s*"content"):.*\n?', re.MULTILINE)
_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode


def _chunk_row(chunk: Chunk, above: int, lead: str = "", around: Iterable[str] = ()) -> ChunkRow:
    """A chunk with the terms of its text, and before them those around it that it lacks."""
    text, who = chunk.text, chunk.who
    spoken = chunk.spoken if who else text
    skip = len(text) - len(spoken) if who and text.endswith(spoken) else 0
    terms = bag(spoken)
    length = terms.count(" ") + 1 if terms else 0
    if around:
        there = f" {terms} "
        more = [term for term in dict.fromkeys(words(" ".join(around))) if f" {term} " not in there]
        terms = " ".join([*more, terms])
        length += len(more)
    made_from = vector_text(lead, text[skip:]).encode("utf-8", "surrogatepass")
    return ChunkRow(
        line=chunk.line + above,
        length=length,
        # Only in a talk is a question answered by what comes next.
        is_question=bool(who) and is_question(spoken),
        asks=_share_of_questions(spoken) if who else 0.0,
        is_heading=chunk.is_heading,
        who=who,
        skip=skip,
        lead=lead,
        digest=blake2b(made_from, digest_size=16).digest(),
        header_path=chunk.header_path,
        text=text,
        terms=terms,
    )


def _share_of_questions(text: str) -> float:
    """The share of what was said that stands in questions."""
    if "?" not in text:
        return 0.0
    sentences = _SENTENCE.findall(_BRACKETED.sub("", text))
    lengths = [len(sentence.split()) for sentence in sentences]
    asked = sum(n for n, sentence in zip(lengths, sentences, strict=True) if "?" in sentence[-2:])
    return asked / max(sum(lengths), 1)


def vector_text(title: str, text: str) -> str:
    """What a chunk's vector is made from."""
    return f"{title}. {text}" if title else text


def _written_at(memory: Memory, modified: float) -> float:
    """When the text was last changed, as the memory says or as its file does."""
    moment = parse_time(memory.text("updated_at") or memory.text("created_at"))
    return moment.timestamp() if moment else modified


def _target(target: str, kind: str) -> str:
    """A link's target as it is looked up: memories in any spelling, files as they are written."""
    return normalize_target(target) if kind == "ghost" else key(target)


def _related(meta: Mapping[str, object]) -> Iterator[Link]:
    """The links that stand in frontmatter."""
    for edge in _RELATIONS:
        value = meta.get(edge)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and item.strip():
                stated, kind = classify_target(item, in_frontmatter=True)
                target, kind = _target(stated, kind), kind or "memory"
                # What was merged is still called by its id alone as well.
                names = {target, target.rpartition("/")[2]} if edge == "merged_from" else {target}
                for name in sorted(names):
                    yield Link(name, kind, "", "", edge, edge, f"{edge}: {stated}", 0)
    files = meta.get("related_files")  # of a typed memory, always paths of the project
    for file in files if isinstance(files, list) else ():
        if isinstance(file, str) and file.strip():
            path = _target(file.strip(), "ghost")
            yield Link(path, "ghost", "", "", "mentions", "", f"related_files: {file}", 0)


# Files and rows


class Known(NamedTuple):
    """What the index knows about one file."""

    number: int
    file: str
    size: int
    modified: int
    changed: int
    hash: bytes
    is_settled: bool
    is_gone: bool


def is_current(row: Known | None, stamp: tuple[int, ...]) -> bool:
    """Whether a row was made from a file that bore this stamp, and cannot have changed since."""
    return bool(row and row.is_settled and not row.is_gone and row[2:5] == stamp)


_KNOWN: Final = f"SELECT {', '.join(Known._fields)} FROM memories WHERE collection = ?"  # noqa: S608 - our own names


def known_in(connection: sqlite3.Connection, collection: str) -> dict[str, Known]:
    """The files of a collection that the index knows, by name."""
    return {row[1]: Known(*row) for row in connection.execute(_KNOWN, (collection,))}


def find_known(connection: sqlite3.Connection, collection: str, file: str) -> Known | None:
    """What the index knows about one file, if anything."""
    row = connection.execute(f"{_KNOWN} AND file = ?", (collection, file)).fetchone()
    return Known(*row) if row else None


_FIELDS: Final = MemoryRow._fields[: MemoryRow._fields.index("chunks")]
_FILE: Final = ("collection", "file", "id", "key", "size", "modified", "changed", "hash")


def _insert(table: str, *columns: str) -> str:
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - our own names


_INSERT_MEMORY: Final = _insert("memories", *_FILE, "is_settled", "chunks", *_FIELDS)
_INSERT_CHUNK: Final = _insert("chunks", "number", "memory", *ChunkRow._fields[:-1])
_INSERT_LINK: Final = _insert("links", "memory", *Link._fields, "seen")


def insert_memory(
    connection: sqlite3.Connection, file: Sequence[object], row: MemoryRow, seen: Sequence[str]
) -> None:
    """Index a memory: `file` and whether it is settled, and fingerprints of what it links to."""
    fields = (*file, len(row.chunks), *row[: len(_FIELDS)])
    memory = connection.execute(_INSERT_MEMORY, fields).lastrowid
    chunks = list(enumerate(row.chunks, last_number(connection, "chunks") + 1))
    connection.executemany(_INSERT_CHUNK, [(n, memory, *chunk[:-1]) for n, chunk in chunks])
    terms = [(n, chunk.terms) for n, chunk in chunks]
    connection.executemany("INSERT INTO terms (rowid, bag) VALUES (?, ?)", terms)
    connection.executemany("INSERT INTO pending VALUES (?)", [(n,) for n, _ in chunks])
    if len(chunks) > 1:
        whole = " ".join(chunk.terms for chunk in row.chunks)
        connection.execute("INSERT INTO wholes (rowid, bag) VALUES (?, ?)", (memory, whole))
    links = [(memory, *link, mark) for link, mark in zip(row.links, seen, strict=True)]
    connection.executemany(_INSERT_LINK, links)
    _add_totals(connection, len(chunks), sum(chunk.length for chunk in row.chunks))


def _add_totals(connection: sqlite3.Connection, chunks: int, length: int) -> None:
    """Count the chunks of one memory, or with negative numbers take them off."""
    several = (chunks > 1) - (chunks < -1)
    connection.execute(
        "UPDATE totals SET chunks = chunks + ?, length = length + ?, wholes = wholes + ?, "
        "version = version + 1",
        (chunks, length, several),
    )


def check_sum(digest: bytes, vector: bytes) -> int:
    return zlib.crc32(vector, zlib.crc32(digest))


def insert_vector(
    connection: sqlite3.Connection,
    chunk: int,
    memory: int,
    digest: bytes,
    model: str,
    vector: bytes,
) -> None:
    """Store the vector of a chunk that still waits for one, with a check sum."""
    if connection.execute("DELETE FROM pending WHERE chunk = ?", (chunk,)).rowcount:
        row = (chunk, memory, model, check_sum(digest, vector), digest, vector)
        connection.execute("INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?)", row)


def delete_memory(connection: sqlite3.Connection, number: int) -> None:
    """Take a memory out of every table."""
    query = "SELECT min(number), max(number), count(*), sum(length) FROM chunks WHERE memory = ?"
    first, last, count, length = connection.execute(query, (number,)).fetchone()
    for column in ("terms.rowid", "vectors.chunk", "pending.chunk", "chunks.number"):
        table = column.partition(".")[0]
        connection.execute(f"DELETE FROM {table} WHERE {column} BETWEEN ? AND ?", (first, last))  # noqa: S608 - our own names
    if count > 1:
        connection.execute("DELETE FROM wholes WHERE rowid = ?", (number,))
    connection.execute("DELETE FROM links WHERE memory = ?", (number,))
    connection.execute("DELETE FROM memories WHERE number = ?", (number,))
    _add_totals(connection, -count, -length)


def restamp(connection: sqlite3.Connection, number: int, stamp: Stamp, *, is_settled: bool) -> None:
    """Note that a file was touched and says what it said before."""
    connection.execute(
        "UPDATE memories SET size = ?, modified = ?, changed = ?, is_settled = ?, is_gone = 0 "
        "WHERE number = ?",
        (*stamp, is_settled, number),
    )
