"""Files and index brought together: what differs is read again, inside the index's own lock.

A file is read while the right to write the index is held, so a row never says less than the file
did when the row was written, whoever else is at work; and a collection whose listing is the one
the rows were made from needs no look at the rows at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import RetainError
from retain.index import entries
from retain.index.database import Replaced, fact, set_fact
from retain.index.entries import Entry, File, Inserts, Known
from retain.memory import Problem

if TYPE_CHECKING:
    from retain.bank.bank import FileReader
    from retain.bank.listing import Listing
    from retain.index.freshness import Project
    from retain.index.index import Index

Progress = Callable[[int, int], None]  # done, of how many

_TURN_SECONDS: Final = 0.1  # how long one transaction may keep others waiting
# A file changed later than that, in nanoseconds, may change once more without a new time.
_SETTLED_AFTER: Final = 100_000_000
_TRIES: Final = 10
_MANY: Final = 20  # from how many memories on the loss of most of them looks like an accident
_NOT_TEXT: Final = "its name is not valid UTF-8, so it is not searched"


class Changes(NamedTuple):
    """What a reconciliation did."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    held: int = 0  # gone from disk, kept in the index until someone says that it was meant
    problems: tuple[Problem, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class _Todo(NamedTuple):
    """A file to read again, or to take out of the index."""

    collection: str
    file: str
    is_memory: bool = True  # false once a namesake has taken its place, or a link


class Sync:
    """One pass that makes the index say what the files say."""

    def __init__(self, index: Index, progress: Progress | None = None) -> None:
        self._index, self._progress = index, progress
        self._bank, self._database = index.bank, index.database
        self._is_just_written = False  # linked files are as they are now, not as they were
        self._problems: list[Problem] = []

    @cached_property
    def _project(self) -> Project | None:
        """The project whose files are linked to, as it is during this pass."""
        return self._index.project

    def update(self, files: Iterable[tuple[str, str]]) -> None:
        """Take in single files (collection and file name) that were just written."""
        self._is_just_written = True
        self._index_files(0, [_Todo(*file) for file in dict.fromkeys(files)])

    def reconcile(self, *, force: bool = False) -> Changes:
        """Compare all listings; next to free when nothing changed."""
        for _ in range(_TRIES):
            with contextlib.suppress(Replaced):
                return self._reconcile(force)
        return self._reconcile(force)

    def _reconcile(self, force: bool) -> Changes:
        self._problems = []
        if not self._bank.location.exists:
            return Changes()
        with self._database.reading() as connection:
            generation = self._database.generation
            recorded = dict(connection.execute("SELECT collection, signature FROM folders"))
            held = int(str(fact(connection, "held") or 0))
        listings = {name: one for name, one in self._bank.listings().items() if _is_text(name)}
        stale = {
            name: listing
            for name, listing in listings.items()
            if recorded.get(name) != listing.signature
        }
        vanished = [name for name in recorded if name not in listings]
        if not stale and not vanished and not (held and force):
            return Changes(held=held)
        todo, gone = self._differences(stale, vanished)
        if force:
            with self._database.reading() as connection:
                query = "SELECT number, collection, file FROM memories WHERE is_gone"
                gone |= {number: _Todo(*file) for number, *file in connection.execute(query)}
        elif self._is_accident(gone):
            with self._database.writing(generation) as connection:
                query = "UPDATE memories SET is_gone = 1 WHERE number = ?"
                connection.executemany(query, ((number,) for number in gone))
            gone = {}
        unique = {(one.collection, one.file): one for one in (*gone.values(), *todo)}
        counts = self._index_files(generation, list(unique.values()))
        with self._database.writing(generation) as connection:
            held = _record(connection, stale, vanished)
        added, changed, removed = counts["added"], counts["changed"], counts["removed"]
        return Changes(added, changed, removed, held, tuple(self._problems))

    def _differences(
        self, stale: Mapping[str, Listing], vanished: Sequence[str]
    ) -> tuple[list[_Todo], dict[int, _Todo]]:
        """The files to read again, and by number those the index knows and the disk does not."""
        todo: list[_Todo] = []
        gone: dict[int, _Todo] = {}
        for collection in (*stale, *vanished):
            with self._database.reading() as connection:
                known = entries.known_in(connection, collection)
            listed = stale[collection].stamped() if collection in stale else {}
            for name in [name for name in listed if not _is_text(name)]:
                # SQLite takes text only, and so does nearly everything that would show the name.
                path = os.path.join(self._bank.root, collection, name)
                self._problems.append(Problem(path, _NOT_TEXT))
                del listed[name]
            differ = [name for name in listed if _needs_reading(known.get(name), listed[name])]
            if any(name not in known for name in differ):
                # Whether a new name is a memory's at all depends on the others.
                valid = {one.name for one in self._bank.files(collection, self._problems)}
                displaced = [name for name in listed if name in known and name not in valid]
                todo += [_Todo(collection, name, is_memory=False) for name in displaced]
                differ = [name for name in differ if name in valid]
            # The oldest first, whatever order a disk lists them in: the same files make the same
            # index.
            differ.sort(key=lambda name: (listed[name][1], name))
            todo += [_Todo(collection, name) for name in differ]
            gone |= {
                row.number: _Todo(collection, name)
                for name, row in known.items()
                if name not in listed and not row.is_gone
            }
        return todo, gone

    def _is_accident(self, gone: Mapping[int, _Todo]) -> bool:
        """Whether so much is gone at once that a missing disk or a wrong branch is likelier."""
        if not gone:
            return False
        with self._database.reading() as connection:
            query = "SELECT count(*) FROM memories WHERE NOT is_gone"
            there: int = connection.execute(query).fetchone()[0]
        return there >= _MANY and len(gone) * 2 > there

    def _index_files(self, generation: int, todo: Sequence[_Todo]) -> Counter[str]:
        """Index file after file, giving way to others between short transactions."""
        with self._database.writing(generation) as connection:
            # Before the first row changes: whoever dies half way leaves a listing that will be
            # looked at again.
            for collection in {one.collection for one in todo}:
                _sign(connection, collection, b"")
        counts: Counter[str] = Counter()
        done = 0
        while done < len(todo):
            with self._database.writing() as connection, self._bank.reader() as reader:
                inserts = Inserts(connection, self._index)
                end = time.monotonic() + _TURN_SECONDS
                while done < len(todo) and time.monotonic() < end:
                    counts[self._index_file(connection, reader, inserts, todo[done])] += 1
                    done += 1
                inserts.flush()
            if self._progress:
                self._progress(done, len(todo))
        if counts["removed"]:
            # The full-text tables otherwise keep the terms of what was deleted.
            with self._database.writing() as connection:
                connection.execute("INSERT INTO terms (terms) VALUES ('optimize')")
                connection.execute("INSERT INTO wholes (wholes) VALUES ('optimize')")
            self._database.checkpoint()
        return counts

    def _index_file(
        self,
        connection: sqlite3.Connection,
        reader: FileReader,
        inserts: Inserts,
        todo: _Todo,
    ) -> str:
        """Bring one file up to date; whether it was added, changed or removed."""
        known = entries.find_known(connection, todo.collection, todo.file)
        read = None
        try:
            read = reader.read(todo.collection, todo.file) if todo.is_memory else None
        except RetainError as error:
            path = os.path.join(self._bank.root, todo.collection, todo.file)
            self._problems.append(Problem(path, error.message))
        if read is None:
            if known is None:
                return ""
            entries.delete_memory(connection, known.number)
            return "removed"
        memory, stamp = read
        is_settled = time.time_ns() - stamp.changed > _SETTLED_AFTER
        digest = hashlib.sha256(memory.data).digest()
        file = File(todo.collection, todo.file, memory.id, *stamp, digest, is_settled)
        if known and known.hash == digest:
            entries.restamp(connection, known.number, file)
            return ""
        if known:
            entries.delete_memory(connection, known.number)
        entry = entries.entry(memory, file.modified / 1e9)
        inserts.add(file, entry, self._fingerprints(entry))
        return "changed" if known else "added"

    def _fingerprints(self, entry: Entry) -> list[str]:
        """What each linked file said when the memory was written."""
        is_linked = any(link.kind == "ghost" for link in entry.links)
        project = self._project if is_linked else None
        if project is None:
            return [""] * len(entry.links)
        return [
            ""
            if link.kind != "ghost"
            else project.fingerprint(link.target)
            if self._is_just_written
            else project.fingerprint_at(link.target, entry.written)
            for link in entry.links
        ]


def _is_text(name: str) -> bool:
    return name.isascii() or name.isprintable() or not any("\ud800" <= c <= "\udfff" for c in name)


def _needs_reading(row: Known | None, stamp: tuple[int, ...]) -> bool:
    return row is None or row.is_gone or not row.is_settled or row.stamp != stamp


def _record(
    connection: sqlite3.Connection, listed: Mapping[str, Listing], vanished: Sequence[str]
) -> int:
    """Remember the listings that the rows agree with now; how many memories are held back."""
    for collection, listing in listed.items():
        query = "SELECT 1 FROM memories WHERE collection = ? AND NOT is_settled LIMIT 1"
        is_doubtful = connection.execute(query, (collection,)).fetchone()
        _sign(connection, collection, b"" if is_doubtful else listing.signature)
    connection.executemany(
        "DELETE FROM folders WHERE collection = ?", ((name,) for name in vanished)
    )
    query = "SELECT count(*) FROM memories WHERE is_gone"
    held: int = connection.execute(query).fetchone()[0]
    set_fact(connection, "held", held)
    return held


def _sign(connection: sqlite3.Connection, collection: str, signature: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO folders VALUES (?, ?)", (collection, signature))
