"""Reading a bank: which files are memories, which one a reference names, and what each says."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from retain import trash, versions
from retain.codec import codec
from retain.config import FILE
from retain.errors import Ambiguous, NotFound, RetainError, Unsafe
from retain.fsio import INBOX, JOURNAL, VERSIONS, Directory, Workshop, shelf
from retain.model import Memory, Problem, Trashed
from retain.paths import KINDS, STATE, SUFFIXES, key, split_ref
from retain.place import Place

__all__ = ["Entry", "Listing", "OpenReader", "Reader", "Stamp"]

_LINK = "a symbolic link; not followed"
_OTHER = "not a memory: its name does not end in .md or .json"
_OUR_OWN = (FILE, *(f"sessions.db{ending}" for ending in ("", "-wal", "-shm", "-journal")))
_OWN = (STATE, trash.TRASH, VERSIONS, INBOX)
_AGES = 1 << 63  # nanoseconds that a stamp has room for: until the year 2262


class Entry(NamedTuple):
    """Where one memory stands: its id, its collection and its file's name."""

    id: str
    collection: str
    name: str


class Stamp(NamedTuple):
    """By what a changed file is told from an unchanged one without reading it.

    The third is the time of the last change to the file's inode, which no one can set: an edit
    that keeps size and modification time is seen by it.
    """

    size: int
    modified: int
    changed: int


class Listing(NamedTuple):
    """A collection's directory at a glance; made before every search, so made of arrays."""

    names: list[str]
    stamps: array[int]

    @property
    def signature(self) -> bytes:
        """A digest that differs as soon as any file does."""
        import hashlib

        names = "\0".join(self.names).encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(names, digest_size=16)
        digest.update(self.stamps.tobytes())
        return digest.digest()

    def stamped(self) -> dict[str, tuple[int, ...]]:
        """Each file's stamp by its name."""
        stamps = iter(self.stamps)
        return dict(zip(self.names, zip(stamps, stamps, stamps, strict=True), strict=True))


class Reader:
    """A bank's memories as they are on disk; links are never followed."""

    def __init__(self, place: Place, *, max_bytes: int = 2_000_000) -> None:
        self.place = place
        self.root = place.root
        self.kind = KINDS[place.kind]
        self.max_bytes = max_bytes

    def memories(
        self, collection: str | None = None, problems: list[Problem] | None = None
    ) -> Iterator[Memory]:
        """Every memory, by collection and name; what is passed over goes into `problems`."""
        passed_over = [] if problems is None else problems
        with self._reading() as root:
            if root is None:
                return
            for name in self._collections(root, passed_over):
                if collection is None or key(name) == key(collection):
                    yield from self._in_collection(root, name, passed_over)

    def newest(self, collection: str) -> Iterator[Memory]:
        """The memories of one collection, what was written last first."""
        with self._reading() as root:
            for name in self._collections(root, []) if root else ():
                if root and key(name) == key(collection):
                    stamps = self._list(root, name).stamped()
                    entries = self._listed(root, name)
                    entries.sort(key=lambda one: stamps.get(one.name, (0, 0))[1], reverse=True)
                    yield from self._each(root, name, entries)

    def _each(self, root: Directory, collection: str, entries: list[Entry]) -> Iterator[Memory]:
        with root.child(collection) as folder:
            for entry in entries:
                with _reporting(folder.path, []):
                    yield self._read(folder, entry)

    def _in_collection(
        self, root: Directory, collection: str, problems: list[Problem]
    ) -> Iterator[Memory]:
        path = os.path.join(root.path, collection)
        with _reporting(path, problems), root.child(collection) as folder:
            for entry in self._entries(folder, collection, problems):
                with _reporting(os.path.join(path, entry.name), problems):
                    yield self._read(folder, entry)

    def collections(self) -> list[str]:
        """The collections, the root first as the empty string."""
        with self._reading() as root:
            return [] if root is None else self._collections(root, [])

    def find(self, ref: str, collection: str | None = None) -> Memory:
        """The one memory a reference names, or NotFound or Ambiguous."""
        with Directory.open(self.root) as root:
            self._finish(root)
            with self._located(root, ref, collection) as found:
                return found[1]

    def find_or_suggest(self, ref: str, collection: str | None = None) -> Memory:
        """The same, with the names that are like it in the error; that costs a look at them all."""
        try:
            return self.find(ref, collection)
        except NotFound as error:
            named, wanted = split_ref(ref, collection)
            error.hint = self._near(named, wanted) or error.hint
            raise

    def merged_into(self, ref: str, collection: str | None = None) -> str:
        """The memory that stands for one that was merged; to find it every file is read."""
        named, wanted = split_ref(ref, collection)
        name = key(wanted if named is None else f"{named}/{wanted}".removeprefix("/"))
        for memory in self.memories():
            former = {key(one) for one in memory.merged_from}
            if named is None:
                former = {one.rpartition("/")[2] for one in former}
            if name in former:
                return memory.ref
        return ""

    def holds(self, ref: str, collection: str | None = None) -> bool:
        """Whether a reference names a memory here, or several."""
        try:
            self.find(ref, collection)
        except NotFound:
            return False
        except Ambiguous:
            pass
        return True

    def counts(self) -> dict[str, int]:
        """How many memories each collection has, the root's under the empty string."""
        with self._reading() as root:
            if root is None:
                return {}
            return {name: len(self._listed(root, name)) for name in self._collections(root, [])}

    def names(self, collection: str | None = None) -> list[tuple[str, str]]:
        """Collection and id of every memory; no file is read."""
        with self._reading() as root:
            return [
                (entry.collection, entry.id)
                for name in (self._collections(root, []) if root else ())
                if collection is None or key(name) == key(collection)
                for entry in self._listed(root, name)
            ]

    def _listed(self, root: Directory | None, collection: str) -> list[Entry]:
        with contextlib.suppress(RetainError):
            if root:
                with root.child(collection) as folder:
                    return list(self._entries(folder, collection, []))
        return []

    def _near(self, collection: str | None, wanted: str) -> str:
        import difflib

        ids = list(dict.fromkeys(name for _, name in self.names(collection)))
        near = [one for one in ids if wanted in one][:3]
        near = near or difflib.get_close_matches(wanted, ids, 3, 0.5)
        return f"Did you mean {' or '.join(near)}?" if near else ""

    # What the index compares

    def listings(self) -> dict[str, Listing]:
        """The names and stamps of each collection's files, good or not, in no order."""
        with self._reading() as root:
            if root is None:
                return {}
            return {name: self._list(root, name) for name in self._collections(root, [])}

    def _list(self, root: Directory, collection: str) -> Listing:
        names: list[str] = []
        stamps = array("q")
        with (
            contextlib.suppress(RetainError, FileNotFoundError),
            root.child(collection) as folder,
            os.scandir(folder.fd) as found,
        ):
            for item in found:
                if item.name.endswith(SUFFIXES):
                    try:
                        facts = item.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone in this moment, and no reason to miss the others
                    names.append(item.name)
                    modified = _bounded(facts.st_mtime_ns)
                    stamps.extend((facts.st_size, modified, facts.st_ctime_ns))
        return Listing(names, stamps)

    def files(self, collection: str, problems: list[Problem]) -> list[Entry]:
        """Where the memories of a collection stand; no file is read."""
        found: list[Entry] = []
        with self._reading() as root:
            if root is None:
                return found
            path = os.path.join(root.path, collection)
            with _reporting(path, problems), root.child(collection) as folder:
                found += self._entries(folder, collection, problems)
        return found

    @contextlib.contextmanager
    def opened(self) -> Iterator[OpenReader]:
        """The bank with its directories kept open, for reading many files one after the other."""
        with self._reading() as root, contextlib.ExitStack() as held:
            yield OpenReader(self, root, held)

    def trashed(self) -> list[Trashed]:
        """What can be brought back, newest first."""
        with self._reading() as root:
            return [] if root is None else trash.entries(root)

    def versions(self, memory: Memory) -> list[versions.Numbered]:
        """The numbered versions of a memory, oldest first."""
        with self._shelf(memory) as folder:
            return versions.kept(folder) if folder else []

    def read_version(self, memory: Memory, number: int) -> bytes | None:
        """A numbered version's bytes, or None."""
        with self._shelf(memory) as folder:
            for version in versions.kept(folder) if folder else ():
                if folder and version.number == number:
                    return folder.read(version.name, self.max_bytes)
        return None

    @contextlib.contextmanager
    def _shelf(self, memory: Memory) -> Iterator[Directory | None]:
        """The directory of a memory's versions, or None before its first change."""
        with Directory.open(self.root) as root:
            try:
                folder = shelf(root, memory.collection, memory.id)
            except NotFound:
                yield None
                return
            with folder:
                yield folder

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Directory | None]:
        """The root, or None for a bank that nobody has written to yet."""
        if not self.place.exists:
            yield None
            return
        with Directory.open(self.root) as root:
            self._finish(root)
            yield root

    def _finish(self, root: Directory) -> None:
        """Take back what a killed import left, before anyone reads half of it."""
        if os.path.lexists(os.path.join(root.path, STATE, JOURNAL)):
            # One that is still under way holds the lock, and is left to finish.
            with contextlib.suppress(RetainError), Workshop.open(root, root.path, patience=0.0):
                pass

    def _collections(self, root: Directory, problems: list[Problem]) -> list[str]:
        names = [""]
        for entry in root.entries():
            name = entry.name
            if entry.is_symlink() and (name in _OWN or not name.startswith(".")):
                if not name.endswith(SUFFIXES):
                    problems.append(Problem(os.path.join(root.path, name), _LINK))
            elif name.startswith(".") or name in self.kind.not_collections:
                continue
            elif entry.is_dir(follow_symlinks=False):
                names.append(name)
        return names

    def _entries(
        self, folder: Directory, collection: str, problems: list[Problem]
    ) -> Iterator[Entry]:
        seen: dict[str, str] = {}
        for item in folder.entries():
            fault = self._fault(item, collection)
            if fault == "":
                stem = item.name.rpartition(".")[0]
                twin = seen.setdefault(key(stem), item.name)
                if twin == item.name:
                    yield Entry(stem, collection, item.name)
                    continue
                fault = f"the same name as {twin}, as other systems see it"
            if fault:
                path = os.path.join(folder.path, item.name)
                problems.append(Problem(path, fault, is_minor=fault == _OTHER))

    def _fault(self, item: os.DirEntry[str], collection: str) -> str | None:
        """Why an entry is no memory: empty if it is one, None if it need not be mentioned."""
        name = item.name
        if name.startswith("."):
            return None
        if not name.endswith(SUFFIXES):
            if item.is_symlink():
                return _LINK if collection else None
            if item.is_dir(follow_symlinks=False):
                return "a directory inside a collection; not read" if collection else None
            is_known = not collection and name in _OUR_OWN
            return None if is_known or _is_editors(name) else _OTHER
        if not collection and self.kind.keeps(name):
            return None
        if item.is_symlink():
            return _LINK
        if name.rpartition(".")[0].lower().endswith(SUFFIXES):
            return "its name has two endings, so that no id can name it"
        return "" if item.is_file(follow_symlinks=False) else "not a plain file"

    def _read(self, folder: Directory, entry: Entry) -> Memory:
        return self._read_stamped(folder, entry)[0]

    def _read_stamped(self, folder: Directory, entry: Entry) -> tuple[Memory, Stamp]:
        data, facts = folder.read_with_facts(entry.name, self.max_bytes)
        document = codec(entry.name).parse(data)
        memory = Memory(
            id=entry.id,
            collection=entry.collection,
            path=f"{folder.path}/{entry.name}",
            meta=document.meta,
            body=document.body,
            data=data,
            problem=document.problem,
            scope=self.place.scope,
        )
        return memory, Stamp(facts.st_size, _bounded(facts.st_mtime_ns), facts.st_ctime_ns)

    @contextlib.contextmanager
    def _located(
        self, root: Directory, ref: str, collection: str | None
    ) -> Iterator[tuple[Directory, Memory]]:
        """The memory a reference names, with its directory held open."""
        named, wanted = split_ref(ref, collection)
        matches = self._matches(root, named, wanted)
        if not matches:
            raise self._not_found(root, named, wanted)
        if len(matches) > 1:
            raise _ambiguous(wanted, matches)
        with root.child(matches[0].collection) as folder:
            yield folder, self._read(folder, matches[0])

    def _matches(self, root: Directory, collection: str | None, wanted: str) -> list[Entry]:
        matches: list[Entry] = []
        refused: RetainError | None = None
        for name in self._collections(root, []):
            if collection is None or key(name) == key(collection):
                try:
                    matches += self._match_in(root, name, wanted)
                except RetainError as error:
                    refused = error  # it must not hide the others
        if refused and not matches:
            raise refused
        return matches

    def _match_in(self, root: Directory, collection: str, wanted: str) -> list[Entry]:
        with root.child(collection) as folder:
            entry = self._match(folder, collection, wanted)
        return [entry] if entry else []

    def _match(self, folder: Directory, collection: str, wanted: str) -> Entry | None:
        """The entry of that name in any spelling; the exact one costs no listing."""
        for suffix in SUFFIXES:
            name = wanted + suffix
            if folder.has(name) and (collection or not self.kind.keeps(name)):
                return Entry(wanted, collection, name)
        for entry in self._entries(folder, collection, []):
            if key(entry.id) == key(wanted):
                return entry
        return None

    def _not_found(self, root: Directory, collection: str | None, wanted: str) -> NotFound:
        where = f" in collection {collection!r}" if collection else ""
        return NotFound(
            f"there is no memory {wanted!r}{where} in {root.path}",
            hint="`retain list` shows them all.",
        )


class OpenReader:
    """A bank whose directories are opened once."""

    def __init__(self, bank: Reader, root: Directory | None, held: contextlib.ExitStack) -> None:
        self.root = bank.root
        self._bank, self._root, self._held = bank, root, held
        self._folders: dict[str, Directory | None] = {}

    def read(self, collection: str, name: str) -> tuple[Memory, Stamp] | None:
        """A memory by its file's name, with the stamp it had before it was read; None if gone."""
        folder = self._folder(collection)
        if folder is None or "/" in name or not name.endswith(SUFFIXES):
            return None
        try:
            entry = Entry(name.rpartition(".")[0], collection, name)
            return self._bank._read_stamped(folder, entry)
        except NotFound:
            return None

    def _folder(self, collection: str) -> Directory | None:
        if collection not in self._folders:
            self._folders[collection] = None
            with contextlib.suppress(NotFound, Unsafe):
                if self._root:
                    folder = self._held.enter_context(self._root.child(collection))
                    self._folders[collection] = folder
        return self._folders[collection]


@contextlib.contextmanager
def _reporting(path: str, problems: list[Problem]) -> Iterator[None]:
    """Go on after a file that cannot be read; one that is gone by now is no problem."""
    try:
        yield
    except NotFound:
        pass
    except RetainError as error:
        problems.append(Problem(path, error.message))


def _bounded(modified: int) -> int:
    """A time that fits into a stamp; anyone may set it to the year 9999."""
    return modified if -_AGES < modified < _AGES else modified % _AGES


def _is_editors(name: str) -> bool:
    """Whether an editor left a file behind that it will take away again."""
    return name.endswith(("~", ".tmp", ".bak")) or name[0] == "#" or name.isdecimal()


def _ambiguous(wanted: str, matches: list[Entry]) -> Ambiguous:
    names = [f"{match.collection}/{match.id}" for match in matches]
    return Ambiguous(
        f"{wanted!r} is the id of several memories: {', '.join(names)}",
        unchanged="Nothing was changed.",
        hint=f"Say which: {' or '.join(repr(name) for name in names)}.",
    )
