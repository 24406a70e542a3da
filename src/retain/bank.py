"""One bank: memories as files, created, read, changed and removed without losing a byte."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from retain import trash, versions
from retain.codec import codec
from retain.config import FILE, FORMAT, read_file
from retain.errors import (
    Ambiguous,
    BadName,
    Conflict,
    LimitExceeded,
    NotFound,
    RetainError,
    Unreadable,
)
from retain.fsio import (
    JOURNAL,
    STATE,
    VERSIONS,
    Directory,
    Placing,
    Workshop,
    make_folder,
    saving,
    shelf,
    write_whole,
)
from retain.model import Memory, Place, Problem, Trashed, Written
from retain.paths import KINDS, SUFFIXES, check_collection, check_id, key, split_ref

__all__ = ["Bank", "make", "now", "restated"]

Edit = Callable[[Memory], bytes]

_REPEATS = 5  # how often an append may find a newer text under its feet
_LINK = "a symbolic link; not followed"
_OTHER = "not a memory: its name does not end in .md or .json"
_OUR_OWN = (FILE, "sessions.db", "sessions.db-wal", "sessions.db-shm")
_OWN = (STATE, trash.TRASH, VERSIONS)


def now() -> str:
    """The present time as Retain writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class _Entry(NamedTuple):
    id: str
    collection: str
    name: str


class Bank:
    """A directory of memories."""

    def __init__(self, place: Place, *, max_bytes: int = 2_000_000, max_versions: int = 10) -> None:
        self.place = place
        self.root = place.root
        self.kind = KINDS[place.kind]
        self.max_bytes = max_bytes
        self.max_versions = max_versions

    # Reading

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

    def _listed(self, root: Directory | None, collection: str) -> list[_Entry]:
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
    ) -> Iterator[_Entry]:
        seen: dict[str, str] = {}
        for item in folder.entries():
            fault = self._fault(item, collection)
            if fault == "":
                stem = item.name.rpartition(".")[0]
                twin = seen.setdefault(key(stem), item.name)
                if twin == item.name:
                    yield _Entry(stem, collection, item.name)
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
        if not collection and name in self.kind.not_memories:
            return None
        if item.is_symlink():
            return _LINK
        if name.rpartition(".")[0].lower().endswith(SUFFIXES):
            return "its name has two endings, so that no id can name it"
        return "" if item.is_file(follow_symlinks=False) else "not a plain file"

    def _read(self, folder: Directory, entry: _Entry) -> Memory:
        data = folder.read(entry.name, self.max_bytes)
        document = codec(entry.name).parse(data)
        return Memory(
            id=entry.id,
            collection=entry.collection,
            path=f"{folder.path}/{entry.name}",
            meta=document.meta,
            body=document.body,
            data=data,
            problem=document.problem,
            scope=self.place.scope,
        )

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

    def _matches(self, root: Directory, collection: str | None, wanted: str) -> list[_Entry]:
        matches: list[_Entry] = []
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

    def _match_in(self, root: Directory, collection: str, wanted: str) -> list[_Entry]:
        with root.child(collection) as folder:
            entry = self._match(folder, collection, wanted)
        return [entry] if entry else []

    def _match(self, folder: Directory, collection: str, wanted: str) -> _Entry | None:
        """The entry of that name in any spelling; the exact one costs no listing."""
        for suffix in SUFFIXES:
            name = wanted + suffix
            if folder.has(name) and (collection or name not in self.kind.not_memories):
                return _Entry(wanted, collection, name)
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

    # Writing

    def create(self, collection: str, name: str, data: bytes) -> Written:
        """Store a new memory; a name already taken, in any spelling, is a Conflict."""
        collection, name = self._checked(collection), check_id(name)
        self._within_limit(data)
        file = f"{name}.md"
        with self._writing(os.path.join(collection, file)) as shop:
            with self._folder(shop, collection) as folder:
                self._refuse_taken(folder, name)
                shop.create(folder, file, data)
                memory = self._read(folder, _Entry(name, self._name_of(folder), file))
            return Written(memory, "created", warnings=self._namesakes(shop.root, memory))

    def place_all(
        self, new: Sequence[tuple[str, str, bytes]], changed: Sequence[tuple[Memory, bytes]] = ()
    ) -> list[Memory]:
        """Store many memories (collection, file name, bytes) and new texts: all or none."""
        for collection, _, data in new:
            self._checked(collection)
            self._within_limit(data)
        with self._writing("") as shop:
            spelt = {key(name): name for name in self._collections(shop.root, [])}
            files = [Placing(spelt.get(key(c), c), name, data) for c, name, data in new]
            self._refuse_any_taken(shop.root, files)
            files += [self._revision(shop, memory, data) for memory, data in changed]
            shop.place_all(files)
            for memory, _ in changed:
                with shelf(shop.root, memory.collection, memory.id) as old:
                    versions.prune(shop, old, self.max_versions)
            return [self._placed(shop.root, one.collection, one.name) for one in files]

    def _refuse_any_taken(self, root: Directory, files: Sequence[Placing]) -> None:
        """Refuse a batch that would meet a memory; each collection is listed once."""
        taken = {
            (name, key(entry.id)): entry.name
            for name in {one.collection for one in files}
            for entry in self._listed(root, name)
        }
        for one in files:
            self._refuse_reserved(one.collection, one.name)
            there = taken.get((one.collection, key(os.path.splitext(one.name)[0])))
            if there:
                raise _taken(os.path.join(self.root, one.collection, there))

    def _revision(self, shop: Workshop, memory: Memory, data: bytes) -> Placing:
        self._within_limit(data)
        name = os.path.basename(memory.path)
        with shelf(shop.root, memory.collection, name, create=True) as old:
            label = versions.label(versions.kept(old), os.path.splitext(name)[1])
        return Placing(memory.collection, name, data, memory.data, label)

    def _placed(self, root: Directory, collection: str, name: str) -> Memory:
        with root.child(collection) as folder:
            return self._read(folder, _Entry(os.path.splitext(name)[0], collection, name))

    def change(
        self,
        ref: str,
        edit: Edit,
        *,
        collection: str | None = None,
        expect: str = "",
        status: str = "updated",
        repeatable: bool = False,
    ) -> Written:
        """Give a memory a new text; the old one is kept, and nobody else's is overwritten."""
        with self._changing(ref, collection) as (shop, folder, found):
            memory, data = found, _edited(found, edit)
            if not _is_expected(memory, expect):
                raise self._lost(shop, memory, data)
            for _ in range(_REPEATS if repeatable else 0):
                with contextlib.suppress(Conflict):
                    return self._changed(shop, folder, memory, data, status)
                memory = self._reread(folder, memory)
                data = _edited(memory, edit)
            try:
                return self._changed(shop, folder, memory, data, status)
            except Conflict:
                raise self._lost(shop, memory, data) from None

    def _changed(
        self, shop: Workshop, folder: Directory, memory: Memory, data: bytes, status: str
    ) -> Written:
        if data == memory.data:
            return Written(memory, "unchanged")
        self._within_limit(data)
        kept = self._replace(shop, folder, memory, data)
        return Written(self._reread(folder, memory), status, kept)

    def _reread(self, folder: Directory, memory: Memory) -> Memory:
        name = os.path.basename(memory.path)
        return self._read(folder, _Entry(memory.id, memory.collection, name))

    def _replace(self, shop: Workshop, folder: Directory, memory: Memory, data: bytes) -> str:
        """Swap in a new text and shelve the old one; the number it got, or nothing."""
        name = os.path.basename(memory.path)
        stem, suffix = os.path.splitext(name)
        if not self.max_versions:
            shop.replace(folder, name, data, memory.data)
            return ""
        with shelf(shop.root, memory.collection, stem, create=True) as old:
            label = versions.label(versions.kept(old), suffix)
            shop.replace(folder, name, data, memory.data, old, label)
            versions.prune(shop, old, self.max_versions)
            return label.partition("_")[0]

    def _lost(self, shop: Workshop, memory: Memory, data: bytes) -> Conflict:
        """The news for whoever came second; their text is put aside, not thrown away."""
        aside = trash.put_aside(shop, os.path.basename(memory.path), memory.collection, data)
        return Conflict(
            f"{memory.path} was changed by someone else since it was read",
            unchanged=f"It is as they left it; your text is in the trash as {aside.name}.",
            hint=f"Read it again with `retain get {memory.ref}` and repeat your change, or see "
            f"both: `retain restore --trash {aside.name} --id NEW`.",
        )

    def delete(self, ref: str, *, collection: str | None = None, expect: str = "") -> Trashed:
        """Move a memory to the trash."""
        with self._changing(ref, collection) as (shop, folder, memory):
            if not _is_expected(memory, expect):
                raise Conflict(
                    f"{memory.path} was changed by someone else since it was read",
                    unchanged="It was not deleted.",
                    hint=f"Read it again with `retain get {memory.ref}`.",
                )
            name = os.path.basename(memory.path)
            return trash.throw_away(shop, folder, name, memory.collection, memory.data)

    def move(
        self,
        ref: str,
        *,
        collection: str | None = None,
        to_collection: str | None = None,
        to_id: str = "",
    ) -> Written:
        """Give a memory another collection or id; its versions go with it."""
        with self._changing(ref, collection) as (shop, folder, memory):
            target = memory.collection if to_collection is None else self._checked(to_collection)
            new = check_id(to_id) if to_id else memory.id
            with self._folder(shop, target) as there:
                return self._move(shop, memory, folder, there, new)

    def _move(
        self, shop: Workshop, memory: Memory, folder: Directory, there: Directory, new: str
    ) -> Written:
        name = os.path.basename(memory.path)
        target = self._name_of(there)
        entry = _Entry(new, target, new + os.path.splitext(name)[1])
        if (entry.collection, entry.name) == (memory.collection, name):
            return Written(memory, "unchanged")
        taken = self._match(there, target, new)
        if taken and (taken.collection, taken.name) != (memory.collection, name):
            raise _taken(os.path.join(there.path, taken.name))
        self._refuse_reserved(target, f"{new}.md")
        old = (memory.collection, memory.id)
        with contextlib.ExitStack() as undo:
            shop.move(folder, name, there, entry.name)
            undo.callback(shop.move, there, entry.name, folder, name)
            versions.follow(shop, old, (target, new))
            undo.callback(versions.follow, shop, (target, new), old)
            written = self._restated(shop, there, entry, "moved")
            undo.pop_all()
        return written

    def _restated(self, shop: Workshop, folder: Directory, entry: _Entry, status: str) -> Written:
        """Make a file's own `id:` agree with its name after it got a new one.

        The name is the identity. A kill before this leaves a stale `id:`, which status reports;
        the memory itself is in one place at every moment.
        """
        memory = self._read(folder, entry)
        data = memory.data
        if str(memory.meta.get("id", memory.id)) != memory.id:
            data = _edited(memory, restated)
        if data == memory.data:
            return Written(memory, status)
        kept = self._replace(shop, folder, memory, data)
        return Written(self._reread(folder, memory), status, kept)

    def untrash(self, wanted: str, *, collection: str | None = None, to_id: str = "") -> Written:
        """Bring back the newest trashed memory of that id, or that very trash entry."""
        with self._writing(wanted) as shop:
            thrown = trash.pick(shop.root, wanted, collection)
            name = check_id(to_id or thrown.id)
            self._checked(thrown.collection)
            suffix = os.path.splitext(thrown.name)[1]
            file = name + (suffix if suffix in SUFFIXES else ".md")
            with self._folder(shop, thrown.collection) as folder, contextlib.ExitStack() as undo:
                command = f"`retain restore --trash {thrown.name} --id NEW`"
                self._refuse_taken(folder, name, hint=f"Bring it back under another id: {command}.")
                trash.take_back(shop, thrown, folder, file)
                undo.callback(trash.put_back, shop, thrown, folder, file)
                entry = _Entry(name, self._name_of(folder), file)
                written = self._restated(shop, folder, entry, "restored")
                undo.pop_all()
                return written

    def empty_trash(self, before: str = "") -> list[Trashed]:
        """Destroy what is in the trash, or what was deleted before a time."""
        with self._writing(trash.TRASH) as shop:
            doomed = [
                entry
                for entry in trash.entries(shop.root)
                if not before or entry.deleted_at < before
            ]
            for entry in doomed:
                trash.discard(shop, entry)
        return doomed

    @contextlib.contextmanager
    def _changing(
        self, ref: str, collection: str | None
    ) -> Iterator[tuple[Workshop, Directory, Memory]]:
        """The memory a reference names, its directory, and the right to change it."""
        # Looked for before the lock is asked for: a disk that refuses even that is reported
        # with the memory's path, and a reference to nothing leaves nothing behind.
        path = self.find(ref, collection).path
        with (
            self._writing(path) as shop,
            self._located(shop.root, ref, collection) as (folder, memory),
        ):
            yield shop, folder, memory

    @contextlib.contextmanager
    def at_rest(self, paths: Iterable[str]) -> Iterator[dict[str, bytes | None]]:
        """The bytes these files have, None for one that is gone, while no one may write."""
        with self._writing("") as shop:
            found: dict[str, bytes | None] = {}
            for path in paths:
                folder, name = os.path.split(os.path.relpath(path, self.root))
                found[path] = None
                with contextlib.suppress(NotFound), shop.root.child(folder) as place:
                    found[path] = place.read(name, self.max_bytes)
            yield found

    @contextlib.contextmanager
    def _writing(self, purpose: str) -> Iterator[Workshop]:
        path = os.path.join(self.root, purpose)
        with Directory.open(self.root) as root, Workshop.open(root, path) as shop:
            yield shop

    @contextlib.contextmanager
    def _folder(self, shop: Workshop, collection: str) -> Iterator[Directory]:
        """A collection's directory as it is spelt on disk, made if it is new."""
        spelt = [c for c in self._collections(shop.root, []) if key(c) == key(collection)]
        with shop.root.child(spelt[0] if spelt else collection, create=True) as folder:
            yield folder

    def _name_of(self, folder: Directory) -> str:
        return "" if folder.path == self.root else os.path.basename(folder.path)

    def _refuse_taken(self, folder: Directory, name: str, hint: str = "") -> None:
        self._refuse_reserved(self._name_of(folder), f"{name}.md")
        taken = self._match(folder, self._name_of(folder), name)
        if taken:
            raise _taken(os.path.join(folder.path, taken.name), hint)

    def _namesakes(self, root: Directory, memory: Memory) -> tuple[str, ...]:
        """A warning when the same id stands in another collection too."""
        others = [
            match.collection or "the bank's root"
            for match in self._matches(root, None, memory.id)
            if match.collection != memory.collection
        ]
        if not others:
            return ()
        places = ", ".join(others)
        return (f"the id {memory.id!r} is also in {places}; call this one {memory.address}",)

    def _checked(self, collection: str) -> str:
        name = check_collection(collection)
        if name in self.kind.not_collections:
            raise BadName(f"{name!r} is not a collection: the bank keeps other things there")
        return name

    def _refuse_reserved(self, collection: str, name: str) -> None:
        if not collection and any(key(name) == key(one) for one in self.kind.not_memories):
            raise BadName(
                f"{name} at the bank's root is not a memory: the bank keeps something else there",
                unchanged="Nothing was stored.",
                hint="Choose another id or a collection.",
            )

    def _within_limit(self, data: bytes) -> None:
        if len(data) > self.max_bytes:
            raise LimitExceeded(
                f"the memory would have {len(data):,} bytes, and {self.max_bytes:,} is the limit",
                unchanged="Nothing was stored.",
                hint="Split it, or raise memory.max_bytes in your own config.",
            )


_CONFIG: Final = f"""\
# Settings of this memory bank; `retain config list` shows every key and its value.
# Keys that only you may set (limits, who is named as author) go into ~/.retain/config.toml.
format = {FORMAT}

# [memory]
# default_collection = "memories"

# [versioning]
# auto_commit = false
# max_versions = 10
"""
_GITIGNORE: Final = """\
# Derived, deleted and private: the memories themselves belong in git.
.index/
.trash/
.versions/
sessions.db*
"""


def make(root: str) -> bool:
    """Make a bank's directory, its config and its .gitignore; what is there already stays."""
    fresh = not os.path.isdir(root)
    read_file(os.path.join(root, FILE), follow=False)  # a newer format is left untouched
    with saving(root):
        make_folder(os.path.abspath(root))
    for name, text in ((FILE, _CONFIG), (".gitignore", _GITIGNORE)):
        path = os.path.join(root, name)
        if not os.path.lexists(path):
            write_whole(path, text.encode())
    return fresh


@contextlib.contextmanager
def _reporting(path: str, problems: list[Problem]) -> Iterator[None]:
    """Go on after a file that cannot be read; one that is gone by now is no problem."""
    try:
        yield
    except NotFound:
        pass
    except RetainError as error:
        problems.append(Problem(path, error.message))


def _is_editors(name: str) -> bool:
    """Whether an editor left a file behind that it will take away again."""
    return name.endswith(("~", ".tmp", ".bak")) or name[0] == "#" or name.isdecimal()


def restated(memory: Memory) -> bytes:
    """A memory's bytes with its own `id:` set to its name, if it states one."""
    if memory.problem or "id" not in memory.meta:
        return memory.data
    return codec(memory.path).edit(memory.data, {"id": memory.id})


def _edited(memory: Memory, edit: Edit) -> bytes:
    try:
        return edit(memory)
    except Unreadable as error:
        message = f"{memory.path}: {error.message}"
        raise Unreadable(message, unchanged=error.unchanged, hint=error.hint) from error


def _is_expected(memory: Memory, expect: str) -> bool:
    if not expect:
        return True
    wanted = expect.removeprefix("sha256:").lower()
    return len(wanted) >= 8 and memory.hash.startswith(wanted)


def _ambiguous(wanted: str, matches: list[_Entry]) -> Ambiguous:
    names = [f"{match.collection}/{match.id}" for match in matches]
    return Ambiguous(
        f"{wanted!r} is the id of several memories: {', '.join(names)}",
        unchanged="Nothing was changed.",
        hint=f"Say which: {' or '.join(repr(name) for name in names)}.",
    )


def _taken(path: str, hint: str = "") -> Conflict:
    return Conflict(
        f"{path} exists already",
        unchanged="It was left as it is.",
        hint=hint or "Choose another id, or change that memory with `retain update`.",
    )
