"""Files and index brought together: what differs is read again, inside the index's own lock.

A file is read while the right to write the index is held, so a row never says less than the file
did when the row was written, whoever else is at work; and a collection whose listing is the one
the rows were made from needs no look at the rows at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import RetainError
from retain.index import rows
from retain.index.entries import Entry as IndexEntry
from retain.index.entries import entry
from retain.index.rows import File, Known
from retain.index.store import Replaced, Store
from retain.model import Memory, Problem
from retain.reading import Listing, OpenReader, Reader

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Changes", "Progress", "reconcile", "update"]

Progress = Callable[[int, int], None]  # done, of how many
Seen = Callable[[str, float], str]  # a linked file's fingerprint when a memory was written

_TURN_SECONDS: Final = 0.1  # how long one transaction may keep others waiting
_SETTLED_AFTER: Final = (
    100_000_000  # ns: a file changed later than that may change unseen once more
)
_TRIES: Final = 10
_AT_ONCE: Final = 32  # files that are looked up together
_MANY: Final = 20  # from how many memories on the loss of most of them looks like an accident


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
    collection: str
    file: str
    is_memory: bool = True  # false once a namesake has taken its place, or a link


def reconcile(
    bank: Reader,
    store: Store,
    *,
    force: bool = False,
    progress: Progress | None = None,
    seen: Seen | None = None,
) -> Changes:
    """Make the index say what the files say; next to free when nothing changed."""
    for _ in range(_TRIES):
        with contextlib.suppress(Replaced):
            return _reconcile(bank, store, force, progress, seen)
    return _reconcile(bank, store, force, progress, seen)


def _reconcile(
    bank: Reader, store: Store, force: bool, progress: Progress | None, seen: Seen | None
) -> Changes:
    if not bank.place.exists:
        return Changes()
    with store.reading() as connection:
        generation = store.generation
        recorded = dict(connection.execute("SELECT collection, signature FROM folders"))
    present = {name: one for name, one in bank.listings().items() if _is_text(name)}
    stale = {
        name: listing
        for name, listing in present.items()
        if recorded.get(name) != listing.signature
    }
    vanished = [name for name in recorded if name not in present]
    held = _held(store, generation)
    if not stale and not vanished and not (held and force):
        return Changes(held=held)
    problems: list[Problem] = []
    todo, gone = _differences(bank, store, stale, vanished, problems)
    if not force and _is_accident(store, gone):
        with store.writing(generation) as connection:
            rows.mark_gone(connection, (number for number, _ in gone))
        gone = []
    elif force:
        gone += _gone_before(store)
    # What is gone comes first, and leaves its vectors to the name it was moved to.
    todo = [*(_Todo(collection, file) for _, (collection, file) in gone), *todo]
    todo = list({(one.collection, one.file): one for one in todo}.values())
    _doubt(store, generation, {one.collection for one in todo})
    added, changed, removed = _work_off(bank, store, todo, problems, progress, seen)
    with store.writing(generation) as connection:
        _record(connection, stale, vanished)
    if removed:
        _purge(store)
    return Changes(added, changed, removed, _held(store, generation), tuple(problems))


def update(
    bank: Reader,
    store: Store,
    files: Iterable[tuple[str, str]],
    seen: Seen | None = None,
    progress: Progress | None = None,
) -> None:
    """Bring single files (collection and file name) up to date, just after they were written."""
    todo = list(dict.fromkeys(_Todo(collection, file) for collection, file in files))
    _doubt(store, 0, {one.collection for one in todo})
    removed = _work_off(bank, store, todo, [], progress, seen)[2]
    if removed:
        _purge(store)


def _held(store: Store, generation: int) -> int:
    with store.reading(generation) as connection:
        row = connection.execute("SELECT value FROM facts WHERE name = 'held'").fetchone()
    return int(row[0]) if row else 0


_Gone = tuple[int, tuple[str, str]]


def _differences(
    bank: Reader,
    store: Store,
    stale: Mapping[str, Listing],
    vanished: Sequence[str],
    problems: list[Problem],
) -> tuple[list[_Todo], list[_Gone]]:
    """The files to read again, and those the index knows and the disk does not."""
    todo: list[_Todo] = []
    gone: list[_Gone] = []
    for collection, listing in stale.items():
        with store.reading() as connection:
            known = rows.known(connection, collection)
        listed = listing.stamped()
        unnamed = [name for name in listed if not _is_text(name)]
        for name in unnamed:
            # SQLite takes text only, and so does nearly everything that would show the name.
            problems.append(Problem(os.path.join(bank.root, collection, name), _NOT_TEXT))
            del listed[name]
        differ = [name for name in listed if _needs_reading(known.get(name), listed[name])]
        if any(name not in known for name in differ):
            # Whether a new name is a memory's at all depends on the others.
            valid = {one.name for one in bank.files(collection, problems)}
            displaced = [name for name in listed if name in known and name not in valid]
            todo += [_Todo(collection, name, is_memory=False) for name in displaced]
            differ = [name for name in differ if name in valid]
        # The oldest first, whatever order a disk lists them in: the same files make the same index.
        differ.sort(key=lambda name: (listed[name][1], name))
        todo += [_Todo(collection, name) for name in differ]
        gone += _missing(collection, known, listed)
    for collection in vanished:
        with store.reading() as connection:
            gone += _missing(collection, rows.known(connection, collection), {})
    return todo, gone


_NOT_TEXT: Final = "its name is not valid UTF-8, so it is not searched"


def _is_text(name: str) -> bool:
    return name.isascii() or name.isprintable() or not any("\ud800" <= c <= "\udfff" for c in name)


def _missing(
    collection: str, known: Mapping[str, Known], listed: Container[str]
) -> Iterator[_Gone]:
    for name, row in known.items():
        if name not in listed and not row.is_gone:
            yield row.number, (collection, name)


def _needs_reading(row: Known | None, stamp: tuple[int, ...]) -> bool:
    return row is None or row.is_gone or not row.is_settled or row.stamp != stamp


def _is_accident(store: Store, gone: Sequence[_Gone]) -> bool:
    """Whether so much is gone at once that a missing disk or a wrong branch is likelier."""
    if not gone:
        return False
    with store.reading() as connection:
        query = "SELECT count(*) FROM memories WHERE NOT is_gone"
        there: int = connection.execute(query).fetchone()[0]
    return there >= _MANY and len(gone) * 2 > there


def _gone_before(store: Store) -> list[_Gone]:
    with store.reading() as connection:
        query = "SELECT number, collection, file FROM memories WHERE is_gone"
        return [
            (number, (collection, file)) for number, collection, file in connection.execute(query)
        ]


def _work_off(
    bank: Reader,
    store: Store,
    todo: Sequence[_Todo],
    problems: list[Problem],
    progress: Progress | None,
    seen: Seen | None,
) -> tuple[int, int, int]:
    """Index file after file, giving way to others between short transactions."""
    counts = {"added": 0, "changed": 0, "removed": 0, "": 0}
    done = 0
    while done < len(todo):
        with store.writing() as connection, bank.opened() as opened:
            turn = _Turn(opened, connection, problems, seen)
            end = time.monotonic() + _TURN_SECONDS
            while done < len(todo) and time.monotonic() < end:
                for outcome in turn.index(todo[done : done + _AT_ONCE]):
                    counts[outcome] += 1
                    done += 1
                    if time.monotonic() >= end:  # a single file may take that long
                        break
            turn.finish()
        if progress:
            progress(done, len(todo))
    return counts["added"], counts["changed"], counts["removed"]


class _Turn:
    """One transaction's work; what it deletes leaves its vectors to what it adds."""

    def __init__(
        self,
        bank: OpenReader,
        connection: sqlite3.Connection,
        problems: list[Problem],
        seen: Seen | None,
    ) -> None:
        self._bank, self._connection, self._problems = bank, connection, problems
        self._seen = seen or (lambda _target, _written: "")
        self._vectors: dict[bytes, bytes] = {}
        self._adding = rows.Adding(connection)

    def index(self, todo: Sequence[_Todo]) -> Iterator[str]:
        """Bring a few files up to date and say of each what that meant."""
        known = rows.known_of(self._connection, [(one.collection, one.file) for one in todo])
        for one in todo:
            yield self._index(one, known.get((one.collection, one.file)))

    def _index(self, todo: _Todo, known: Known | None) -> str:
        read = self._read(todo) if todo.is_memory else None
        if read is None:
            return self._remove(known)
        memory, file = read
        if known and known.hash == file.hash:
            rows.restamp(self._connection, known.number, file)
            return ""
        if known:
            self._remove(known)
        made = entry(memory, file.modified / 1e9)
        self._adding.add(file, made, self._vectors, self._fingerprints(made))
        return "changed" if known else "added"

    def finish(self) -> None:
        """Write what was put off, at the end of the transaction."""
        self._adding.flush()

    def _read(self, todo: _Todo) -> tuple[Memory, File] | None:
        try:
            found = self._bank.read(todo.collection, todo.file)
        except RetainError as error:
            path = os.path.join(self._bank.root, todo.collection, todo.file)
            self._problems.append(Problem(path, error.message))
            return None
        if found is None:
            return None
        memory, stamp = found
        is_settled = time.time_ns() - stamp.changed > _SETTLED_AFTER
        digest = hashlib.sha256(memory.data).digest()
        return memory, File(todo.collection, todo.file, memory.id, *stamp, digest, is_settled)

    def _remove(self, known: Known | None) -> str:
        if known is None:
            return ""
        self._vectors |= rows.delete(self._connection, known.number)
        return "removed"

    def _fingerprints(self, made: IndexEntry) -> list[str]:
        return [
            self._seen(link.target, made.written) if link.kind == "ghost" else ""
            for link in made.links
        ]


def _record(
    connection: sqlite3.Connection, listed: Mapping[str, Listing], vanished: Sequence[str]
) -> None:
    """Remember the listings that the rows agree with now; a doubtful one is looked at again."""
    for collection, listing in listed.items():
        is_sure = not _is_doubtful(connection, collection)
        _sign(connection, collection, listing.signature if is_sure else b"")
    connection.executemany(
        "DELETE FROM folders WHERE collection = ?", ((name,) for name in vanished)
    )
    connection.execute("DELETE FROM salvage")
    query = "SELECT count(*) FROM memories WHERE is_gone"
    rows.set_fact(connection, "held", connection.execute(query).fetchone()[0])


def _doubt(store: Store, generation: int, collections: Iterable[str]) -> None:
    """Take back the signatures of collections whose rows are about to change.

    Before the first row: whoever dies half way leaves a listing that will be looked at again.
    """
    with store.writing(generation) as connection:
        for collection in collections:
            _sign(connection, collection, b"")


def _sign(connection: sqlite3.Connection, collection: str, signature: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO folders VALUES (?, ?)", (collection, signature))


def _is_doubtful(connection: sqlite3.Connection, collection: str) -> bool:
    query = "SELECT 1 FROM memories WHERE collection = ? AND NOT is_settled LIMIT 1"
    return connection.execute(query, (collection,)).fetchone() is not None


def _purge(store: Store) -> None:
    with store.writing() as connection:
        rows.purge(connection)
    store.checkpoint()
