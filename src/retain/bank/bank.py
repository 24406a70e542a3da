"""One bank: memories as files, created, read, changed and removed without losing a byte."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from retain.bank import history, listing, trash
from retain.bank.files import (
    JOURNAL,
    TRASH,
    Directory,
    FileWrite,
    WriteTransaction,
    changed_error,
    locked,
    taken_error,
    versions_dir,
)
from retain.bank.listing import Entry, Listing, Stamp
from retain.bank.markdown import parse_file, set_own_id
from retain.errors import BadName, Conflict, LimitExceeded, NotFound, RetainError
from retain.locate import BankLocation
from retain.memory import (
    KINDS,
    SUFFIXES,
    Memory,
    Problem,
    Trashed,
    Written,
    check_collection,
    check_id,
    key,
    split_ref,
)


class Bank:
    """A directory of memories; links are never followed."""

    def __init__(
        self, location: BankLocation, *, max_bytes: int = 2_000_000, max_versions: int = 10
    ) -> None:
        self.location = location
        self.root = location.root
        self.kind = KINDS[location.kind]
        self.max_bytes = max_bytes
        self.max_versions = max_versions

    @property
    def trash(self) -> trash.Trash:
        """What was deleted here."""
        return trash.Trash(self)

    # Reading

    def memories(
        self,
        collection: str | None = None,
        problems: list[Problem] | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[Memory]:
        """Every memory, by collection and id; what is passed over goes into `problems`."""
        problems = [] if problems is None else problems
        for name, folder in self._folders(collection, problems, reverse=reverse):
            entries = list(listing.list_entries(folder, name, self.kind, problems))
            entries.sort(key=lambda entry: entry.id, reverse=reverse)
            for entry in entries:
                with listing.note_problem(os.path.join(folder.path, entry.name), problems):
                    yield self.read(folder, entry)[0]

    def newest(self, collection: str) -> Iterator[Memory]:
        """The memories of one collection, what was written last first."""
        for name, folder in self._folders(collection, []):
            stamps = listing.list_stamps(folder).stamped()
            entries = list(listing.list_entries(folder, name, self.kind, []))
            entries.sort(key=lambda entry: stamps.get(entry.name, (0, 0))[1], reverse=True)
            for entry in entries:
                with listing.note_problem(folder.path, []):
                    yield self.read(folder, entry)[0]

    def collections(self) -> list[str]:
        """The collections, the root first as the empty string."""
        return [name for name, _ in self._folders(None, [])]

    def files(self, collection: str | None, problems: list[Problem]) -> list[Entry]:
        """Where the memories stand; no file is read."""
        return [
            entry
            for name, folder in self._folders(collection, problems)
            for entry in listing.list_entries(folder, name, self.kind, problems)
        ]

    def names(self, collection: str | None = None) -> list[tuple[str, str]]:
        """Collection and id of every memory; no file is read."""
        return [(entry.collection, entry.id) for entry in self.files(collection, [])]

    def counts(self) -> dict[str, int]:
        """How many memories each collection has, the root's under the empty string."""
        return {
            name: len(list(listing.list_entries(folder, name, self.kind, [])))
            for name, folder in self._folders(None, [])
        }

    def listings(self) -> dict[str, Listing]:
        """The names and stamps of each collection's files, memories or not."""
        return {name: listing.list_stamps(folder) for name, folder in self._folders(None, [])}

    def _folders(
        self, collection: str | None, problems: list[Problem], *, reverse: bool = False
    ) -> Iterator[tuple[str, Directory]]:
        """Each collection and its open directory; one that cannot be read is a problem."""
        if not self.location.exists:  # a bank that nobody has written to yet
            return
        with self.open() as root:
            names = listing.list_collections(root, self.kind, problems)
            for name in reversed(names) if reverse else names:
                if collection is None or key(name) == key(collection):
                    path = os.path.join(root.path, name)
                    with listing.note_problem(path, problems), root.child(name) as folder:
                        yield name, folder

    @contextlib.contextmanager
    def open(self) -> Iterator[Directory]:
        with Directory.open(self.root) as root:
            if os.path.lexists(os.path.join(root.path, TRASH, JOURNAL)):
                # A killed import is undone before anyone reads half of it. One that is still under
                # way holds the lock, and is left to finish.
                with (
                    contextlib.suppress(RetainError),
                    WriteTransaction.open(root, root.path, patience=0.0),
                ):
                    pass
            yield root

    def find(self, ref: str, collection: str | None = None) -> Memory:
        """The one memory a reference names, or NotFound or Ambiguous."""
        with self.open() as root, self._find(root, ref, collection) as (_, memory):
            return memory

    @contextlib.contextmanager
    def _find(
        self, root: Directory, ref: str, collection: str | None
    ) -> Iterator[tuple[Directory, Memory]]:
        """The memory a reference names, with its directory held open."""
        entry = listing.match_one(root, self.kind, *split_ref(ref, collection))
        with root.child(entry.collection) as folder:
            yield folder, self.read(folder, entry)[0]

    def similar_ids(self, ref: str, collection: str | None = None) -> list[str]:
        """Ids that are like the one a reference names."""
        import difflib

        named, wanted = split_ref(ref, collection)
        ids = list(dict.fromkeys(name for _, name in self.names(named)))
        longer = [name for name in ids if wanted in name]
        return longer[:3] or difflib.get_close_matches(wanted, ids, 3, 0.5)

    def merged_into(self, ref: str, collection: str | None = None) -> str:
        """The memory that stands for one that was merged; to find it every file is read."""
        named, wanted = split_ref(ref, collection)
        name = key(wanted if named is None else f"{named}/{wanted}".removeprefix("/"))
        for memory in self.memories():
            former = {key(old) for old in memory.merged_from}
            if named is None:
                former = {old.rpartition("/")[2] for old in former}
            if name in former:
                return memory.ref
        return ""

    def holds(self, ref: str, collection: str | None = None) -> bool:
        """Whether a reference names a memory here, or several."""
        with contextlib.suppress(NotFound), self.open() as root:
            return bool(listing.match_entries(root, self.kind, *split_ref(ref, collection)))
        return False

    def read_file(
        self, collection: str, name: str, written: bytes | None = None
    ) -> tuple[Memory, Stamp] | None:
        """A memory by its file's name, with the stamp it had before it was read; None if gone.

        What was just written there, if it is given, is not read again.
        """
        entry, gone = Entry(collection, name), (NotFound, FileNotFoundError)
        if "/" in name or not name.endswith(SUFFIXES):
            return None
        with contextlib.suppress(*gone), self.open() as root, root.child(collection) as folder:
            if written is None:
                return self.read(folder, entry)
            facts = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
            return self.parse(folder.path, entry, written), Stamp.of(facts)
        return None

    def versions(self, memory: Memory) -> list[history.Numbered]:
        """The numbered versions of a memory, oldest first."""
        with (
            contextlib.suppress(NotFound),
            self.open() as root,
            versions_dir(root, memory.collection, memory.id) as folder,
        ):
            return history.list_versions(folder)
        return []

    def read_version(self, memory: Memory, number: int) -> bytes | None:
        """A numbered version's bytes, or None."""
        for version in self.versions(memory):
            if version.number == number:
                name = (memory.collection, memory.id)
                with self.open() as root, versions_dir(root, *name) as folder:
                    return folder.read(version.name, self.max_bytes)
        return None

    def read_versions(self, memory: Memory) -> Iterator[Memory]:
        """The earlier texts of a memory that are kept here, oldest first."""
        for version in self.versions(memory):
            data = self.read_version(memory, version.number)
            if data is not None:
                entry = Entry(memory.collection, version.name)
                parsed = self.parse(os.path.dirname(memory.path), entry, data)
                yield parsed._replace(id=memory.id)

    def read(self, folder: Directory, entry: Entry) -> tuple[Memory, Stamp]:
        """A memory, and the stamp its file had just before it was read."""
        data, facts = folder.read_with_facts(entry.name, self.max_bytes)
        return self.parse(folder.path, entry, data), Stamp.of(facts)

    def parse(self, folder: str, entry: Entry, data: bytes) -> Memory:
        """A memory from its file's bytes."""
        meta, body, problem = parse_file(entry.name, data)
        path, scope = f"{folder}/{entry.name}", self.location.scope
        return Memory(entry.id, entry.collection, path, meta, body, data, problem, scope)

    # Writing one memory

    @contextlib.contextmanager
    def lock_memory(self, ref: str, collection: str | None = None) -> Iterator[LockedMemory]:
        """The memory a reference names, as it is now that nobody else may write."""
        with (
            self.open() as root,
            locked(root),
            self._find(root, ref, collection) as (folder, memory),
            WriteTransaction.open(root, memory.path) as transaction,
        ):
            yield LockedMemory(self, transaction, folder, memory)

    @contextlib.contextmanager
    def lock_name(self, collection: str, name: str, suffix: str = ".md") -> Iterator[LockedMemory]:
        """The memory that has a name in any spelling, or a new one, while nobody else may write."""
        collection, name = self.check_collection(collection), check_id(name)
        with (
            self.transaction(os.path.join(collection, name + suffix)) as transaction,
            self.folder(transaction.root, collection) as (spelt, folder),
        ):
            listing.refuse_reserved(self.kind, spelt, name + suffix)
            for taken in listing.match_entries(transaction.root, self.kind, spelt, name):
                yield LockedMemory(self, transaction, folder, self.read(folder, taken)[0])
                return
            memory = self.parse(folder.path, Entry(spelt, name + suffix), b"")
            yield LockedMemory(self, transaction, folder, memory, is_new=True)

    def create(self, collection: str, name: str, data: bytes, *, suffix: str = ".md") -> Written:
        """Store a new memory; a name already taken, in any spelling, is a Conflict."""
        with self.lock_name(collection, name, suffix) as locked_name:
            return locked_name.create(data)

    def change(
        self,
        ref: str,
        edit: Callable[[Memory], bytes],
        *,
        expect: str = "",
        status: str = "updated",
    ) -> Written:
        """Give a memory a new text; the old one is kept, and nobody else's is overwritten."""
        with self.lock_memory(ref) as change:
            return change.write(edit(change.memory), expect=expect, status=status)

    def delete(self, ref: str, *, expect: str = "") -> Trashed:
        """Move a memory to the trash."""
        with self.lock_memory(ref) as change:
            return change.delete(expect)

    def move(self, ref: str, *, to_collection: str | None = None, to_id: str = "") -> Written:
        """Give a memory another collection or id; its versions go with it."""
        with self.lock_memory(ref) as change:
            return change.move(to_collection, to_id)

    def rewrite(self, name: str, data: bytes, expected: bytes | None) -> None:
        """Give a file of the bank's own another text; a Conflict if it is not the one expected.

        None is expected of a file that is to be new. What a person wrote is kept as a version.
        """
        self.check_size(data)
        with self.transaction(name) as transaction:
            if expected is None:
                transaction.create(transaction.root, name, data)
            else:
                self.replace(transaction, transaction.root, Entry("", name), data, expected)

    def replace(
        self,
        transaction: WriteTransaction,
        folder: Directory,
        entry: Entry,
        data: bytes,
        expected: bytes,
    ) -> str:
        """Swap in a new text and keep the old one; the version it became, or nothing."""
        self.check_size(data)
        if not self.max_versions:
            transaction.replace(folder, entry.name, data, expected)
            return ""
        with versions_dir(transaction.root, entry.collection, entry.id, create=True) as kept:
            label = history.next_label(kept, entry.name)
            transaction.replace(folder, entry.name, data, expected, kept, label)
            history.prune_versions(transaction, kept, self.max_versions)
            return label.partition("_")[0]

    # Writing several

    def write_all(
        self, new: Sequence[tuple[str, str, bytes]], changed: Sequence[tuple[Memory, bytes]] = ()
    ) -> list[Memory]:
        """Store many memories (collection, file name, bytes) and new texts: all or none."""
        for collection, _, data in new:
            self.check_collection(collection)
            self.check_size(data)
        with self.transaction("") as transaction:
            root = transaction.root
            spelt = {key(name): name for name in listing.list_collections(root, self.kind, [])}
            files = [FileWrite(spelt.get(key(c), c), name, data) for c, name, data in new]
            taken = {
                (entry.collection, key(entry.id)): entry.name
                for name in {file.collection for file in files}
                for entry in self.files(name, [])
            }
            for file in files:
                listing.refuse_reserved(self.kind, file.collection, file.name)
                place = (file.collection, key(os.path.splitext(file.name)[0]))
                if place in taken:
                    raise taken_error(os.path.join(self.root, file.collection, taken[place]))
            for memory, data in changed:
                self.check_size(data)
                name = os.path.basename(memory.path)
                with versions_dir(root, memory.collection, memory.id, create=True) as versions:
                    label = history.next_label(versions, name)
                files.append(FileWrite(memory.collection, name, data, memory.data, label))
            transaction.write_all(files)
            for memory, _ in changed:
                with versions_dir(root, memory.collection, memory.id) as versions:
                    history.prune_versions(transaction, versions, self.max_versions)
        root_path = os.path.join(self.root, "")
        return [
            self.parse(f"{root_path}{c}".rstrip("/"), Entry(c, name), data)
            for c, name, data, *_ in files
        ]

    def merge(
        self, sources: Sequence[Memory], collection: str, name: str, data: bytes
    ) -> tuple[Memory, list[Trashed]]:
        """Put one memory in the place of several, which go to the trash: all of it or nothing.

        The new one is placed first, so a kill half way leaves too much, never too little. A source
        that was changed since it was read is a Conflict.
        """
        with (
            self.lock_name(collection, name) as target,
            contextlib.ExitStack() as opened,
            contextlib.ExitStack() as undo,
        ):
            transaction = target.transaction
            after = target.create(data).memory
            undo.callback(transaction.remove, target.folder, os.path.basename(after.path))
            trashed = []
            for memory in sources:
                folder = opened.enter_context(transaction.root.child(memory.collection))
                try:
                    entry = trash.move_to_trash(transaction, folder, memory)
                except (Conflict, FileNotFoundError):
                    raise changed_error(memory.path, "merged") from None
                name = os.path.basename(memory.path)
                undo.callback(trash.restore, transaction, entry, folder, name)
                trashed.append(entry)
            undo.pop_all()
            return after, trashed

    # What every write shares

    @contextlib.contextmanager
    def lock_contents(self, paths: Iterable[str]) -> Iterator[dict[str, bytes | None]]:
        """The bytes these files have, None for one that is gone, while no one may write."""
        with self.transaction("") as transaction:
            contents: dict[str, bytes | None] = {}
            for path in paths:
                collection, name = os.path.split(os.path.relpath(path, self.root))
                contents[path] = None
                with contextlib.suppress(NotFound), transaction.root.child(collection) as folder:
                    contents[path] = folder.read(name, self.max_bytes)
            yield contents

    @contextlib.contextmanager
    def transaction(self, purpose: str) -> Iterator[WriteTransaction]:
        """The bank's lock; a disk that refuses is reported with the path of `purpose`."""
        path = os.path.join(self.root, purpose)
        with Directory.open(self.root) as root, WriteTransaction.open(root, path) as transaction:
            yield transaction

    @contextlib.contextmanager
    def folder(self, root: Directory, collection: str) -> Iterator[tuple[str, Directory]]:
        """A collection as it is spelt on disk, and its directory, made if it is new."""
        names = listing.list_collections(root, self.kind, [])
        spelt = next((name for name in names if key(name) == key(collection)), collection)
        with root.child(spelt, create=True) as folder:
            yield spelt, folder

    def check_collection(self, collection: str) -> str:
        name = check_collection(collection)
        if name in self.kind.not_collections:
            raise BadName(f"{name!r} is not a collection: the bank keeps other things there")
        return name

    def check_size(self, data: bytes) -> None:
        if len(data) > self.max_bytes:
            raise LimitExceeded(
                f"the memory would have {len(data):,} bytes, and {self.max_bytes:,} is the limit",
                unchanged="Nothing was stored.",
                hint="Split it, or raise memory.max_bytes in your own config.",
            )


class LockedMemory(NamedTuple):
    """A memory as it is on disk, or a name that is free, with the right to write there."""

    bank: Bank
    transaction: WriteTransaction
    folder: Directory
    memory: Memory  # of a new one only its name
    is_new: bool = False

    @property
    def _entry(self) -> Entry:
        return Entry(self.memory.collection, os.path.basename(self.memory.path))

    def create(self, data: bytes) -> Written:
        """Store a new memory under the name, or refuse with a Conflict."""
        bank, entry = self.bank, self._entry
        if not self.is_new:
            raise taken_error(self.memory.path)
        bank.check_size(data)
        self.transaction.create(self.folder, entry.name, data)
        memory = bank.parse(self.folder.path, entry, data)
        others = [
            other.collection or "the bank's root"
            for other in listing.match_entries(self.transaction.root, bank.kind, None, entry.id)
            if other.collection != entry.collection
        ]
        note = (
            f"the id {memory.id!r} is also in {', '.join(others)}; call this one {memory.address}"
        )
        return Written(memory, "created", warnings=(note,) if others else ())

    def write(self, data: bytes, *, expect: str = "", status: str = "updated") -> Written:
        """Give the memory a new text; a Conflict if it is not the one that was read.

        The old text becomes a version. A text that comes second is kept in the trash.
        """
        before, entry = self.memory, self._entry
        if matches_hash(before, expect):
            if data == before.data:
                return Written(before, "unchanged")
            with contextlib.suppress(Conflict):
                kept = self.bank.replace(self.transaction, self.folder, entry, data, before.data)
                return Written(self.bank.parse(self.folder.path, entry, data), status, kept)
        aside = trash.add_conflict(self.transaction, entry.name, entry.collection, data)
        raise Conflict(
            f"{before.path} was changed by someone else since it was read",
            unchanged=f"It is as they left it; your text is in the trash as {aside.name}.",
            hint=f"Read it again with `retain get {before.ref}` and repeat your change, or see "
            f"both: `retain restore --trash {aside.name} --id NEW`.",
        )

    def delete(self, expect: str = "") -> Trashed:
        """Move the memory to the trash."""
        if not matches_hash(self.memory, expect):
            raise changed_error(self.memory.path, "deleted")
        return trash.move_to_trash(self.transaction, self.folder, self.memory)

    def move(self, to_collection: str | None = None, to_id: str = "") -> Written:
        """Give the memory another collection or id; its versions go with it."""
        bank, transaction, old = self.bank, self.transaction, self._entry
        new = check_id(to_id) if to_id else old.id
        target = old.collection
        if to_collection is not None:
            target = bank.check_collection(to_collection)
        with bank.folder(transaction.root, target) as (spelt, there):
            entry = Entry(spelt, new + os.path.splitext(old.name)[1])
            if entry == old:
                return Written(self.memory, "unchanged")
            for taken in listing.match_entries(transaction.root, bank.kind, spelt, new):
                if taken != old:
                    raise taken_error(os.path.join(there.path, taken.name))
            listing.refuse_reserved(bank.kind, spelt, f"{new}.md")
            places = ((old.collection, old.id), (spelt, new))
            with contextlib.ExitStack() as undo:
                transaction.move(self.folder, old.name, there, entry.name)
                undo.callback(transaction.move, there, entry.name, self.folder, old.name)
                history.move_versions(transaction, *places)
                undo.callback(history.move_versions, transaction, *places[::-1])
                moved = bank.parse(there.path, entry, self.memory.data)
                # A kill before this leaves a stale `id:`, which status reports: the name is the id.
                written = LockedMemory(bank, transaction, there, moved).write(set_own_id(moved))
                undo.pop_all()
            return written._replace(status="moved")


def matches_hash(memory: Memory, expect: str) -> bool:
    """Whether a memory has the hash, or the beginning of it, that somebody has read."""
    wanted = expect.removeprefix("sha256:").lower()
    return not expect or (len(wanted) >= 8 and memory.hash.startswith(wanted))
