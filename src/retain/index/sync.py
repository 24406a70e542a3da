"""Files and index brought together: what differs is read again, inside the index's own lock.

A file is read while the right to write the index is held, so a row never says less than the file
did when the row was written, whoever else is at work; and a collection whose listing is the one
the rows were made from needs no look at the rows at all.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank.listing import Listing
from retain.errors import RetainError
from retain.index import rows
from retain.index.database import fact, set_fact
from retain.memory import Problem, key

if TYPE_CHECKING:
    from retain.index.freshness import Project
    from retain.index.index import Index
    from retain.text.links import Link

Progress = Callable[[int, int], None]  # done, of how many
File = tuple[str, str]  # its collection and its name

_TURN_SECONDS: Final = 0.1  # how long one transaction may keep others waiting
# A file changed later than that, in nanoseconds, may change once more without a new time.
_SETTLED_AFTER: Final = 100_000_000
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


class Sync:
    """One pass that makes the index say what the files say."""

    def __init__(self, index: Index, progress: Progress | None = None) -> None:
        self._index, self._progress = index, progress
        self._bank, self._database = index.bank, index.database
        self._written: Mapping[File, bytes | None] = {}  # just now
        self._problems: list[Problem] = []

    @cached_property
    def _project(self) -> Project | None:
        """The project whose files are linked to, as it is during this pass."""
        return self._index.project

    def update(self, files: Mapping[File, bytes | None]) -> None:
        """Take in files with what was just written to them; None for one to look at.

        They are not read again: who may have written since is seen at the next look.
        """
        self._written = files
        self._apply(list(files))

    def reconcile(self, *, force: bool = False) -> Changes:
        """Compare all listings; next to free when nothing changed."""
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
        stale |= {name: Listing([], array("q")) for name in recorded if name not in listings}
        if not stale and not (held and force):
            return Changes(held=held)
        changed: list[File] = []
        gone: dict[int, File] = {}
        with self._database.reading(generation) as connection:
            for collection, listing in stale.items():
                changed += self._compare(connection, collection, listing, gone)
            if force:
                query = "SELECT number, collection, file FROM memories WHERE is_gone"
                gone |= {number: file for number, *file in connection.execute(query)}
            query = "SELECT count(*) FROM memories WHERE NOT is_gone"
            (there,) = connection.execute(query).fetchone()
        # So much at once is likelier a missing disk or a wrong branch.
        if there >= _MANY and len(gone) * 2 > there and not force:
            with self._database.writing(generation) as connection:
                query = "UPDATE memories SET is_gone = 1 WHERE number = ?"
                connection.executemany(query, ((number,) for number in gone))
            gone = {}
        counts = self._apply(changed, list(gone.values()), generation)
        with self._database.writing(generation) as connection:
            for collection, listing in stale.items():
                query = "SELECT 1 FROM memories WHERE collection = ? AND NOT is_settled LIMIT 1"
                is_doubtful = connection.execute(query, (collection,)).fetchone()
                _sign(connection, collection, b"" if is_doubtful else listing.signature)
            missing = [(name,) for name in stale if name not in listings]
            connection.executemany("DELETE FROM folders WHERE collection = ?", missing)
            query = "SELECT count(*) FROM memories WHERE is_gone"
            (held,) = connection.execute(query).fetchone()
            set_fact(connection, "held", held)
        added, updated, removed = counts["added"], counts["changed"], counts["removed"]
        return Changes(added, updated, removed, held, tuple(self._problems))

    def _compare(
        self,
        connection: sqlite3.Connection,
        collection: str,
        listing: Listing,
        gone: dict[int, File],
    ) -> list[File]:
        """The files of a collection to read again; what the disk does not have goes into `gone`."""
        known = rows.known_in(connection, collection)
        listed = listing.stamped()
        for name in [name for name in listed if not _is_text(name)]:
            # SQLite takes text only, and so does nearly everything that would show the name.
            path = os.path.join(self._bank.root, collection, name)
            self._problems.append(Problem(path, _NOT_TEXT))
            del listed[name]
        if not listed.keys() <= known.keys():
            # Whether a new name is a memory's at all depends on the others.
            valid = {file.name for file in self._bank.files(collection, self._problems)}
            listed = {name: stamp for name, stamp in listed.items() if name in valid}
        gone |= {
            row.number: (collection, name)
            for name, row in known.items()
            if name not in listed and not row.is_gone
        }
        differ = [
            name for name, stamp in listed.items() if not rows.is_current(known.get(name), stamp)
        ]
        # The oldest first, whatever order a disk lists them in: the same files make the same index.
        differ.sort(key=lambda name: (listed[name][1], name))
        return [(collection, name) for name in differ]

    def _apply(
        self, changed: Sequence[File], gone: Sequence[File] = (), generation: int = 0
    ) -> Counter[str]:
        """Take out and index file after file, giving way to others between short transactions."""
        todo = [*gone, *changed]
        with self._database.writing(generation) as connection:
            # Before the first row changes: whoever dies half way leaves a listing that will be
            # looked at again.
            for collection in {collection for collection, _ in todo}:
                _sign(connection, collection, b"")
        counts: Counter[str] = Counter()
        done = 0
        while done < len(todo):
            with self._database.writing() as connection:
                end = time.monotonic() + _TURN_SECONDS
                while done < len(todo) and time.monotonic() < end:
                    is_there = done >= len(gone)
                    change = self._index_file(connection, *todo[done], is_there=is_there)
                    counts[change] += 1
                    done += 1
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
        self, connection: sqlite3.Connection, collection: str, name: str, *, is_there: bool
    ) -> str:
        """Bring one file up to date; whether it was added, changed or removed."""
        known = rows.find_known(connection, collection, name)
        read, written = None, self._written.get((collection, name))
        try:
            read = self._bank.read_file(collection, name, written) if is_there else None
        except RetainError as error:
            path = os.path.join(self._bank.root, collection, name)
            self._problems.append(Problem(path, error.message))
        if read is None:
            if known:
                rows.delete_memory(connection, known.number)
            return "removed" if known else ""
        memory, stamp = read
        is_settled = written is None and time.time_ns() - stamp.changed > _SETTLED_AFTER
        digest = hashlib.sha256(memory.data).digest()
        if known and known.hash == digest:
            rows.restamp(connection, known.number, stamp, is_settled=is_settled)
            return ""
        if known:
            rows.delete_memory(connection, known.number)
        row = rows.make_row(memory, stamp.modified / 1e9)
        seen = [self._fingerprint(link, row.written) for link in row.links]
        file = (collection, name, memory.id, key(memory.id), *stamp, digest, is_settled)
        rows.insert_memory(connection, file, row, seen)
        return "changed" if known else "added"

    def _fingerprint(self, link: Link, written: float) -> str:
        """What a linked file said when the memory was written."""
        if link.kind != "ghost" or self._project is None:
            return ""
        return self._project.fingerprint(link.target, None if self._written else written)


def _is_text(name: str) -> bool:
    return name.isascii() or name.isprintable() or not any("\ud800" <= c <= "\udfff" for c in name)


def _sign(connection: sqlite3.Connection, collection: str, signature: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO folders VALUES (?, ?)", (collection, signature))
