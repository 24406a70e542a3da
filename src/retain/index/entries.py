"""What the index holds of one memory, and how that becomes rows.

An `Entry` is derived from a memory alone: its fields, its chunks with their terms, its links.
Everything that writes rows does so inside a transaction of the caller's.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank.markdown import searchable
from retain.errors import BadName
from retain.index.database import fact, last_number
from retain.memory import Memory, heading
from retain.names import check_id, key
from retain.text.chunks import Chunk, split_chunks
from retain.text.links import Link, find_links, normalize_target
from retain.text.tokens import bag, is_question, words

if TYPE_CHECKING:
    from retain.index.index import Index

# Frontmatter that people search by, beside title and tags.
_SEARCHED: Final = ("context", "category", "project")
_BRACKETED: Final = re.compile(r"\[[^\[\]]*\]")
_SENTENCE: Final = re.compile(r"[^.!?]+[.!?]*")
MANY_LINKS: Final = 10_000  # in one memory: fewer need not be counted to know that all are read
FILE_ENDING: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")  # of a file that is no memory
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


class Entry(NamedTuple):
    """One memory as the index holds it."""

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


def entry(memory: Memory, modified: float) -> Entry:
    """Derive everything from a memory; `modified` stands in for a date it does not give."""
    body = searchable(memory)
    # A body is the tail of its file, so the lines above it are those it does not have.
    above = memory.data.count(b"\n") - memory.body.count("\n") if memory.body else 0
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
    return Entry(
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
        try:
            datetime.fromisoformat(value or "2026-01-01")
        except ValueError:
            found.append(f"{name} is not a date: {value}")
    return found


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
    stated = memory.text("updated_at") or memory.text("created_at")
    try:
        moment = datetime.fromisoformat(stated)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return modified


def _target(target: str, kind: str) -> str:
    """A link's target as it is looked up: memories in any spelling, files as they are written."""
    return normalize_target(target) if kind == "ghost" else key(target)


def _related(meta: Mapping[str, object]) -> Iterator[Link]:
    """The links that stand in frontmatter."""
    for edge in _RELATIONS:
        value = meta.get(edge)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and item.strip():
                stated = item.strip().removeprefix("memory:")
                kind = "ghost" if FILE_ENDING.search(stated) else "memory"
                target = _target(stated, kind)
                # What was merged is still called by its id alone as well.
                names = {target, target.rpartition("/")[2]} if edge == "merged_from" else {target}
                for name in sorted(names):
                    yield Link(name, kind, "", "", edge, edge, f"{edge}: {stated}", 0)
    files = meta.get("related_files")  # of a typed memory, always paths of the project
    for file in files if isinstance(files, list) else ():
        if isinstance(file, str) and file.strip():
            path = _target(file.strip(), "ghost")
            yield Link(path, "ghost", "", "", "mentions", "", f"related_files: {file}", 0)


# Rows


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

    @property
    def stamp(self) -> tuple[int, int, int]:
        return (self.size, self.modified, self.changed)


class File(NamedTuple):
    """A memory's file as it was when it was read."""

    collection: str
    name: str
    id: str
    size: int
    modified: int
    changed: int
    hash: bytes
    is_settled: bool


_KNOWN: Final = f"SELECT {', '.join(Known._fields)} FROM memories WHERE collection = ?"  # noqa: S608 - our own names


def known_in(connection: sqlite3.Connection, collection: str) -> dict[str, Known]:
    """The files of a collection that the index knows, by name."""
    return {row[1]: Known(*row) for row in connection.execute(_KNOWN, (collection,))}


def find_known(connection: sqlite3.Connection, collection: str, file: str) -> Known | None:
    """What the index knows about one file, if anything."""
    row = connection.execute(f"{_KNOWN} AND file = ?", (collection, file)).fetchone()
    return Known(*row) if row else None


_FIELDS: Final = Entry._fields[: Entry._fields.index("chunks")]
_COLUMNS: Final = {
    "memories": ("number", "collection", "file", *File._fields[2:], "key", "chunks", *_FIELDS),
    "chunks": ("number", "memory", *ChunkRow._fields[:-1]),
    "terms": ("rowid", "bag"),
    "wholes": ("rowid", "bag"),
    "vectors": ("chunk", "memory", "model", "check_sum", "digest", "vector"),
    "pending": ("chunk",),
    "links": ("memory", *Link._fields, "seen"),
}


class Inserts:
    """New rows of one transaction, written together: one statement per table, not per memory."""

    def __init__(self, connection: sqlite3.Connection, index: Index) -> None:
        self._connection, self._index = connection, index
        self._memory = last_number(connection, "memories")
        self._chunk = last_number(connection, "chunks")
        self._rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in _COLUMNS}
        self._chunks: list[tuple[int, int, bytes]] = []  # number, memory, digest
        self._totals = [0, 0, 0]

    def add(self, file: File, entry: Entry, seen: Sequence[str]) -> None:
        """Index a memory; `seen` are the fingerprints of the files it links to."""
        self._memory += 1
        rows, several = self._rows, len(entry.chunks) > 1
        fields = (*file, key(file.id), len(entry.chunks), *entry[: len(_FIELDS)])
        rows["memories"].append((self._memory, *fields))
        for row in entry.chunks:
            self._chunk += 1
            rows["chunks"].append((self._chunk, self._memory, *row[:-1]))
            rows["terms"].append((self._chunk, row.terms))
            self._chunks.append((self._chunk, self._memory, row.digest))
        if several:
            rows["wholes"].append((self._memory, " ".join(row.terms for row in entry.chunks)))
        for link, mark in zip(entry.links, seen, strict=True):
            rows["links"].append((self._memory, *link, mark))
        self._totals[0] += len(entry.chunks)
        self._totals[1] += sum(row.length for row in entry.chunks)
        self._totals[2] += several

    def flush(self) -> None:
        """Write what was added; must be called before the transaction ends."""
        model = str(fact(self._connection, "model") or "")
        digests = {digest for _, _, digest in self._chunks}
        vectors = self._index.cache.find(model, digests) if model else {}
        for number, memory, digest in self._chunks:
            if vector := vectors.get(digest):
                self._rows["vectors"].append(vector_row(number, memory, model, digest, vector))
            else:
                self._rows["pending"].append((number,))
        for table, rows in self._rows.items():
            if rows:
                columns = _COLUMNS[table]
                marks = ", ".join("?" * len(columns))
                statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - our own names
                self._connection.executemany(statement, rows)
        _add_totals(self._connection, *self._totals)


def _add_totals(connection: sqlite3.Connection, chunks: int, length: int, wholes: int) -> None:
    if chunks:
        query = (
            "UPDATE totals SET chunks = chunks + ?, length = length + ?, wholes = wholes + ?, "
            "version = version + 1"
        )
        connection.execute(query, (chunks, length, wholes))


def check_sum(digest: bytes, vector: bytes) -> int:
    return zlib.crc32(vector, zlib.crc32(digest))


def vector_row(
    chunk: int, memory: int, model: str, digest: bytes, vector: bytes
) -> tuple[object, ...]:
    """A chunk's vector as a row of its table, with its model's identity and a check sum."""
    return (chunk, memory, model, check_sum(digest, vector), digest, vector)


def delete_memory(connection: sqlite3.Connection, number: int) -> None:
    """Take a memory out of every table."""
    connection.execute(
        "UPDATE delivered SET is_left = 1 "
        "WHERE (collection, file) = (SELECT collection, file FROM memories WHERE number = ?)",
        (number,),
    )
    chunks = connection.execute(
        "SELECT number, length FROM chunks WHERE memory = ? ORDER BY number", (number,)
    ).fetchall()
    if chunks:
        span = (chunks[0][0], chunks[-1][0])
        for column in ("terms.rowid", "vectors.chunk", "pending.chunk", "chunks.number"):
            table = column.partition(".")[0]
            connection.execute(f"DELETE FROM {table} WHERE {column} BETWEEN ? AND ?", span)  # noqa: S608 - our own names
        if len(chunks) > 1:
            connection.execute("DELETE FROM wholes WHERE rowid = ?", (number,))
        connection.execute("DELETE FROM links WHERE memory = ?", (number,))
        length = sum(length for _, length in chunks)
        _add_totals(connection, -len(chunks), -length, -(len(chunks) > 1))
    connection.execute("DELETE FROM memories WHERE number = ?", (number,))


def restamp(connection: sqlite3.Connection, number: int, file: File) -> None:
    """Note that a file was touched and says what it said before."""
    connection.execute(
        "UPDATE memories SET size = ?, modified = ?, changed = ?, is_settled = ?, is_gone = 0 "
        "WHERE number = ?",
        (file.size, file.modified, file.changed, file.is_settled, number),
    )
