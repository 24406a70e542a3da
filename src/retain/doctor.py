"""A bank and its index examined: what is in them, and what a person may want to mend."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank.bank import Bank
from retain.bank.listing import Entry as File
from retain.bank.listing import note_problem
from retain.bank.markdown import searchable
from retain.capture.inbox import Inbox
from retain.categories import Rules
from retain.errors import RetainError
from retain.index import queries, rows
from retain.index.database import BANK_NOTE, Damaged, Database
from retain.index.embeddings import UNUSED_DAYS, VectorCache
from retain.index.rows import ChunkRow, Known, MemoryRow, check_sum, known_in, make_row
from retain.locate import state_directory, state_home
from retain.memory import Data, Memory, Problem
from retain.records.codec import is_record, load_record
from retain.records.schema import find_faults
from retain.text.links import MAX_LINKS, Link, count_links
from retain.text.sizes import format_size

if TYPE_CHECKING:
    from retain.index.index import Index


class Findings(NamedTuple):
    """A bank at a glance."""

    memories: int
    bytes: int
    collections: Mapping[str, int]
    types: Mapping[str, int]
    statuses: Mapping[str, int]
    trashed: int
    proposals: int
    problems: tuple[Problem, ...]

    def to_dict(self) -> Data:
        return {**self._asdict(), "problems": [problem.to_dict() for problem in self.problems]}


class Stats(NamedTuple):
    """A bank and its index in numbers."""

    facts: queries.Facts
    tags: Mapping[str, int]
    types: Mapping[str, int]
    index_size: int
    problems: tuple[Problem, ...]

    def to_dict(self, root: str) -> Data:
        return {
            "count": self.facts.memories,
            "total_size": format_size(self.facts.size).replace(" ", ""),
            "bytes": self.facts.size,
            "tags": dict(self.tags),
            "types": dict(self.types),
            "memory_path": root,
        }


class Health(NamedTuple):
    """How an index is: what it holds, what is wrong with it, what was done about that."""

    facts: queries.Facts
    faults: tuple[str, ...]
    notes: tuple[str, ...] = ()
    is_rebuilt: bool = False


def examine(bank: Bank, rules: Rules, inbox: Inbox, index: Index | None) -> Findings:
    """Count what is in a bank and name what is wrong with it; typed memories have rules.

    Files are read where the index cannot vouch for them.
    """
    problems = [Problem(bank.root, reason) for reason in rules.warnings]
    counts: list[tuple[str, str, str, int, int]] = []
    known: Set[tuple[str, str]] = set()
    if index is not None:
        with contextlib.suppress(RetainError):  # then every file is read
            census = index.read(queries.census)
            known, counts = census.files, [*census.counts]
    for memory in read_unless(bank, known, problems):
        counts.append((memory.collection, memory.type, memory.status, 1, len(memory.data)))
        faults = [*rows.faults(memory), *_uncounted(memory), *_broken_rules(memory, rules)]
        problems += [Problem(memory.path, reason) for reason in faults]
    collections, types, statuses = Counter[str](), Counter[str](), Counter[str]()
    for collection, kind, status, count, _ in counts:
        collections[collection] += count
        types[kind] += count
        statuses[status] += count
    trashed = proposals = 0
    try:
        trashed = len(bank.trash.entries())
    except RetainError as error:
        problems.append(Problem(bank.root, error.message))
    try:
        waiting, unread = inbox.scan()
        proposals = len(waiting)
    except OSError as error:
        unread = [error.strerror or str(error)]
    problems += [Problem(inbox.path, reason) for reason in unread]
    size = sum(row[-1] for row in counts)
    return Findings(
        types.total(), size, collections, types, statuses, trashed, proposals, tuple(problems)
    )


def read_unless(
    bank: Bank, known: Set[tuple[str, str]], problems: list[Problem]
) -> Iterator[Memory]:
    """The memories whose files are not among the known; what cannot be read is a problem."""
    for file in bank.files(None, problems):
        if (file.collection, file.name) not in known:
            path = os.path.join(bank.root, file.collection, file.name)
            with note_problem(path, problems):
                if read := bank.read_file(file.collection, file.name):
                    yield read[0]


def _uncounted(memory: Memory) -> list[str]:
    """What the index leaves out of a memory that has more links than it takes."""
    if memory.data.count(b"[[") < rows.MANY_LINKS:
        return []
    count = count_links(searchable(memory))
    note = f"read only in part: of its {count:,} links the first {MAX_LINKS:,} count"
    return [note] if count > MAX_LINKS else []


def _broken_rules(memory: Memory, rules: Rules) -> list[str]:
    """In what a memory that someone wrote by hand differs from the typed one it is meant to be."""
    kind = rules.category(memory.type)
    if kind and is_record(memory):
        return list(map(str, find_faults(load_record(memory), kind.schema)))
    if memory.problem or "content" not in memory.meta:
        return []
    if kind:
        return ["content: expected the fields of its category; got text"]
    near = difflib.get_close_matches(memory.type, rules.categories, 1, 0.8)
    return [f"type {memory.type!r} is no category; did you mean {near[0]}?"] if near else []


# The index

# What must not be there, and the rows that are it. What a file says of its chunks, words and
# links is compared below.
_RULES: Final = {
    "total that is wrong": (
        "totals WHERE (chunks, length, wholes) IS NOT (SELECT count(*), coalesce(sum(length), 0), "
        "(SELECT count(*) FROM memories WHERE chunks > 1) FROM chunks)"
    ),
    "chunks without their memory": "chunks WHERE memory NOT IN (SELECT number FROM memories)",
    "links without their memory": "links WHERE memory NOT IN (SELECT number FROM memories)",
    "words without their chunk": "terms WHERE rowid NOT IN (SELECT number FROM chunks)",
    "longer memories that no word finds as a whole": (
        "(SELECT number FROM memories WHERE chunks > 1 EXCEPT SELECT rowid FROM wholes)"
    ),
    "words without their memory": (
        "(SELECT rowid FROM wholes EXCEPT SELECT number FROM memories WHERE chunks > 1)"
    ),
    "chunks that have no vector and wait for none": (
        "chunks WHERE number NOT IN (SELECT chunk FROM vectors UNION SELECT chunk FROM pending)"
    ),
    "chunks that wait for a vector and have one, or are not there": (
        "pending WHERE chunk IN (SELECT chunk FROM vectors) "
        "OR chunk NOT IN (SELECT number FROM chunks)"
    ),
    "vectors of another text than their chunk's": (
        "vectors v LEFT JOIN chunks c ON c.number = v.chunk "
        "WHERE c.number IS NULL OR c.memory <> v.memory OR c.digest <> v.digest"
    ),
    "vectors of another model": (
        "vectors WHERE model IS NOT (SELECT value FROM facts WHERE name = 'model')"
    ),
}

# When a text was written may be known from its file's time alone, which anyone can change.
_COMPARED: Final = [
    name for name in MemoryRow._fields if name not in ("written", "chunks", "links")
]
_FIELDS_QUERY: Final = f"SELECT {', '.join(_COMPARED)} FROM memories WHERE number = ?"  # noqa: S608 - our own names
_CHUNKS_QUERY: Final = (
    f"SELECT {', '.join(ChunkRow._fields[:-1])}, bag FROM chunks "  # noqa: S608 - our own names
    "JOIN terms ON terms.rowid = chunks.number WHERE memory = ? ORDER BY chunks.number"
)
_LINKS_QUERY: Final = f"SELECT {', '.join(Link._fields)} FROM links WHERE memory = ? ORDER BY rowid"  # noqa: S608 - our own names


def index_faults(bank: Bank, database: Database) -> list[str]:
    """Everything in an index that is not as it should be; nothing is changed."""
    try:
        if faults := [*_unsound(database)]:
            return faults  # whatever else it says is not to be trusted
        with database.reading() as connection:
            for what, rows in _RULES.items():
                (count,) = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()  # noqa: S608 - our own names
                faults += [f"{count} {what}"] if count else []
            stored = connection.execute("SELECT digest, vector, check_sum FROM vectors")
            spoilt = sum(check_sum(digest, vector) != mark for digest, vector, mark in stored)
            faults += [f"{spoilt} vectors that do not match their check sum"] if spoilt else []
            return [*faults, *_disagreements(bank, connection)]
    except Damaged as error:
        return [error.message]


def _unsound(database: Database) -> Iterator[str]:
    """What SQLite and FTS5 themselves find wrong."""
    with database.reading() as connection:
        for (line,) in connection.execute("PRAGMA integrity_check(5)"):
            if line != "ok":
                yield f"SQLite says: {' '.join(line.split())}"
    for table, what in (("terms", "chunks"), ("wholes", "memories")):
        try:
            # FTS5 asks for the right to write, and writes nothing.
            with database.writing() as connection:
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")  # noqa: S608 - our own names
        except Damaged:
            yield f"the words of {what} are damaged"


def _disagreements(bank: Bank, connection: sqlite3.Connection) -> Iterator[str]:
    """Where files and rows differ, seen by reading every file."""
    recorded = connection.execute("SELECT DISTINCT collection FROM memories")
    for collection in sorted({*bank.collections(), *(name for (name,) in recorded)}):
        known = known_in(connection, collection)
        for file in bank.files(collection, []):
            row = known.pop(file.name, None)
            if fault := _disagreement(bank, connection, file, row):
                yield f"{collection}/{file.name} {fault}"
        for name, row in known.items():
            if not row.is_gone:
                yield f"{collection}/{name} is in the index and not on disk"


def _disagreement(bank: Bank, connection: sqlite3.Connection, file: File, row: Known | None) -> str:
    try:
        read = bank.read_file(file.collection, file.name)
    except RetainError:
        return "is in the index and cannot be read" if row else ""
    if read is None:
        return ""  # gone in this moment
    memory, stamp = read
    if row is None:
        return "is not in the index"
    if row.hash.hex() != memory.hash:
        return "is in the index with another text"
    made = make_row(memory, stamp.modified / 1e9)
    fields = connection.execute(_FIELDS_QUERY, (row.number,)).fetchone()
    chunks = connection.execute(_CHUNKS_QUERY, (row.number,))
    links = connection.execute(_LINKS_QUERY, (row.number,))
    is_derived = (
        fields == tuple(getattr(made, name) for name in _COMPARED)
        and tuple(ChunkRow(*row) for row in chunks) == made.chunks
        and tuple(Link(*row) for row in links) == made.links
    )
    return "" if is_derived else "is in the index with other chunks or links"


# The state directory


class State(NamedTuple):
    """What Retain keeps for one bank in the person's state directory."""

    path: str
    bank: str  # its root, empty where that was not noted
    used: float
    proposals: int  # that wait in its inbox

    def to_dict(self) -> Data:
        return {"path": self.path, "bank": self.bank, "proposals": self.proposals}


def orphaned_states(env: Mapping[str, str]) -> list[State]:
    """The states whose bank is gone: deleted, or moved without its inbox."""
    return [
        state
        for state in _list_states(env)
        if state.bank
        and not os.path.isdir(state.bank)
        and os.path.realpath(state.path) == os.path.realpath(state_directory(state.bank, env))
    ]


def sweep_states(env: Mapping[str, str]) -> None:
    """Remove the states and the vectors that nobody has used for 90 days."""
    oldest = time.time() - UNUSED_DAYS * 86_400
    for state in _list_states(env):
        if state.used < oldest:
            remove_state(state)
    VectorCache(env).sweep()


def _list_states(env: Mapping[str, str]) -> Iterator[State]:
    folder = os.path.join(state_home(env), "banks")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        bank, proposals = "", 0
        with contextlib.suppress(OSError), open(os.path.join(path, BANK_NOTE), "rb") as file:
            bank = os.fsdecode(file.read())
        with contextlib.suppress(OSError):
            inbox = os.listdir(os.path.join(path, "inbox"))
            proposals = sum(file.endswith(".json") for file in inbox)
        with contextlib.suppress(OSError):
            used = max(os.stat(file).st_mtime for file in (path, *_files_in(path)))
            yield State(path, bank, used, proposals)


def _files_in(path: str) -> list[str]:
    """What can be made again: all but proposals, which only a person may drop."""
    return [os.path.join(path, name) for name in os.listdir(path) if name != "inbox"]


def remove_state(state: State) -> None:
    """Remove what can be made again; proposals that wait stay, with a note of whose they are."""
    note = os.path.join(state.path, BANK_NOTE)
    with contextlib.suppress(OSError):  # among others: an inbox that is not empty
        for path in _files_in(state.path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            elif path != note:
                os.unlink(path)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(os.path.join(state.path, "inbox"))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(note)
        os.rmdir(state.path)
