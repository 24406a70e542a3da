"""One bank: memories as files, created, read, changed and removed without losing a byte."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from retain import trash, versions
from retain.codec import codec
from retain.config import FILE, FORMAT, read_file
from retain.errors import (
    BadName,
    Conflict,
    LimitExceeded,
    NotFound,
    RetainError,
    Unreadable,
    UsageError,
)
from retain.fsio import (
    Directory,
    Placing,
    Workshop,
    make_folder,
    saving,
    shelf,
    write_whole,
)
from retain.model import Memory, Trashed, Written
from retain.paths import SUFFIXES, check_collection, check_id, key
from retain.place import Place
from retain.reading import Entry, Reader

if TYPE_CHECKING:
    from retain.listing import Line

__all__ = ["Bank", "make", "now", "restated"]

Edit = Callable[[Memory], bytes]

_REPEATS = 5  # how often an append may find a newer text under its feet


def now() -> str:
    """The present time as Retain writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Bank(Reader):
    """A directory of memories that can be written to."""

    def __init__(self, place: Place, *, max_bytes: int = 2_000_000, max_versions: int = 10) -> None:
        super().__init__(place, max_bytes=max_bytes)
        self.max_versions = max_versions
        self._unlisted = ""  # why the list of records could not be written, the last time

    def create(self, collection: str, name: str, data: bytes, *, suffix: str = ".md") -> Written:
        """Store a new memory; a name already taken, in any spelling, is a Conflict."""
        collection, name = self._checked(collection), check_id(name)
        self._within_limit(data)
        file = name + suffix
        with self._writing(os.path.join(collection, file)) as shop:
            with self._folder(shop, collection) as folder:
                self._refuse_reserved(self._name_of(folder), file)
                self._refuse_taken(folder, name)
                shop.create(folder, file, data)
                memory = self._read(folder, Entry(name, self._name_of(folder), file))
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
            return self._read(folder, Entry(os.path.splitext(name)[0], collection, name))

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
        return self._read(folder, Entry(memory.id, memory.collection, name))

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

    def put_aside(self, memory: Memory, text: str) -> Trashed:
        """Keep in the trash what someone meant to make of a memory, as JSON."""
        with self._writing(memory.path) as shop:
            name = f"{memory.id}.json"
            return trash.put_aside(shop, name, memory.collection, f"{text}\n".encode())

    def rewrite(self, name: str, data: bytes, expected: bytes | None) -> None:
        """Give a file of the bank's own another text; a Conflict if it is not the one expected.

        None is expected of a file that is to be new. What a person wrote is kept as a version.
        """
        self._within_limit(data)
        with self._writing(name) as shop:
            if expected is None:
                shop.create(shop.root, name, data)
                return
            present = Memory(os.path.splitext(name)[0], "", os.path.join(self.root, name), {}, "")
            self._replace(shop, shop.root, present._replace(data=expected), data)

    def delete(self, ref: str, *, collection: str | None = None, expect: str = "") -> Trashed:
        """Move a memory to the trash."""
        with self._changing(ref, collection) as (shop, folder, memory):
            _refuse_changed(memory, expect, "deleted")
            name = os.path.basename(memory.path)
            return trash.throw_away(shop, folder, name, memory.collection, memory.data)

    def discard(self, trashed: Trashed) -> None:
        """Destroy one entry of the trash for good."""
        with self._writing(trashed.path) as shop:
            trash.discard(shop, trashed)

    def merge(
        self,
        sources: Sequence[str],
        collection: str,
        name: str,
        compose: Callable[[Sequence[Memory]], bytes],
        expect: Mapping[str, str] | None = None,
    ) -> tuple[Memory, list[Memory], list[Trashed]]:
        """Put one memory in the place of several, which go to the trash: all of it or nothing.

        The new one is placed first, so a kill half way leaves too much, never too little. `expect`
        has the hashes, by address, of those whose text the new one was made from.
        """
        collection, name = self._checked(collection), check_id(name)
        with self._writing(os.path.join(collection, name)) as shop, contextlib.ExitStack() as held:
            found = [held.enter_context(self._located(shop.root, ref, None)) for ref in sources]
            memories = [memory for _, memory in found]
            for memory in memories:
                _refuse_changed(memory, (expect or {}).get(memory.address, ""), "merged")
            data = compose(memories)
            self._within_limit(data)
            folder = held.enter_context(self._folder(shop, collection))
            self._refuse_taken(folder, name)
            with contextlib.ExitStack() as undo:
                shop.create(folder, f"{name}.md", data)
                undo.callback(shop.remove, folder, f"{name}.md")
                trashed = [self._throw_away(shop, undo, *one) for one in found]
                undo.pop_all()
            entry = Entry(name, self._name_of(folder), f"{name}.md")
            return self._read(folder, entry), memories, trashed

    def _throw_away(
        self, shop: Workshop, undo: contextlib.ExitStack, folder: Directory, memory: Memory
    ) -> Trashed:
        name = os.path.basename(memory.path)
        thrown = trash.throw_away(shop, folder, name, memory.collection, memory.data)
        undo.callback(trash.take_back, shop, thrown, folder, name)
        return thrown

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
        entry = Entry(new, target, new + os.path.splitext(name)[1])
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

    def _restated(self, shop: Workshop, folder: Directory, entry: Entry, status: str) -> Written:
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
            if thrown.collection == trash.CHATS:
                raise UsageError(
                    f"{thrown.id} is a chat, not a memory",
                    hint=f"Bring it back: retain sessions import {thrown.path}",
                )
            name = check_id(to_id or thrown.id)
            self._checked(thrown.collection)
            suffix = os.path.splitext(thrown.name)[1]
            file = name + (suffix if suffix in SUFFIXES else ".md")
            with self._folder(shop, thrown.collection) as folder, contextlib.ExitStack() as undo:
                command = f"`retain restore --trash {thrown.name} --id NEW`"
                self._refuse_taken(folder, name, hint=f"Bring it back under another id: {command}.")
                trash.take_back(shop, thrown, folder, file)
                undo.callback(trash.put_back, shop, thrown, folder, file)
                entry = Entry(name, self._name_of(folder), file)
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
            if self.kind.listing:
                # It is derived: a disk that refuses it has not refused the write, and the next
                # write makes it right.
                try:
                    self._list_anew(shop)
                    self._unlisted = ""
                except RetainError as error:
                    self._unlisted = error.message

    # The list of its records that some stores keep

    def listed(self) -> str | None:
        """The text of the store's own list of its records, None when there is none."""
        with self._reading() as root:
            return self._list_text(root) if root else None

    def notes(self) -> tuple[str, ...]:
        """What is to be said after a write that was done itself: that its list is behind."""
        why = self._unlisted
        return (f"{self.kind.listing} could not be written: {why}",) if why else ()

    def own_list(self) -> list[str]:
        """The path of that list, if there is one and it is in order."""
        path = os.path.join(self.root, self.kind.listing)
        is_there = self.kind.listing and not self._unlisted and os.path.isfile(path)
        return [path] if is_there else []

    def lines(self) -> list[Line]:
        """The records in force, as lines of that list."""
        from retain.listing import Line

        return [
            Line(memory.type.upper(), memory.title, self._from_project(memory.path), memory.tags)
            for memory in self.memories()
            if _is_record(memory) and memory.status == "active"
        ]

    def relist(self, *, anew: bool = False) -> int:
        """Bring the list up to date, or write it `anew`; how many records it names."""
        with self._writing(self.kind.listing) as shop:
            return self._list_anew(shop, is_reset=anew)

    def _list_anew(self, shop: Workshop, *, is_reset: bool = False) -> int:
        from retain import listing

        lines, before = self.lines(), self._list_text(shop.root)
        after = listing.render(lines) if is_reset else listing.refreshed(before or "", lines)
        if after != before and (lines or before is not None or is_reset):
            self._write_list(shop, before, after)
        return len(lines)

    def _write_list(self, shop: Workshop, before: str | None, after: str) -> None:
        name, data = self.kind.listing, after.encode()
        if before is None:
            shop.create(shop.root, name, data)
        else:
            shop.replace(shop.root, name, data, shop.root.read(name, self.max_bytes))

    def _list_text(self, root: Directory) -> str | None:
        with contextlib.suppress(NotFound):
            return root.read(self.kind.listing, self.max_bytes).decode("utf-8", "replace")
        return None

    def _from_project(self, path: str) -> str:
        project = os.path.dirname(os.path.dirname(self.root))
        return os.path.relpath(path, project).replace(os.sep, "/")

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
        if collection:
            return
        if self.kind.keeps(name) or key(name) in map(key, self.kind.not_memories):
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
.inbox/
.index/
.trash/
.versions/
approvals.json
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


def restated(memory: Memory) -> bytes:
    """A memory's bytes with its own `id:` set to its name, if it states one."""
    if memory.problem or "id" not in memory.meta:
        return memory.data
    return codec(memory.path).edit(memory.data, {"id": memory.id})


def _is_record(memory: Memory) -> bool:
    return memory.path.endswith(".json") and not memory.problem and "type" in memory.meta


def _edited(memory: Memory, edit: Edit) -> bytes:
    try:
        return edit(memory)
    except Unreadable as error:
        message = f"{memory.path}: {error.message}"
        raise Unreadable(message, unchanged=error.unchanged, hint=error.hint) from error


def _refuse_changed(memory: Memory, expect: str, what: str) -> None:
    if not _is_expected(memory, expect):
        raise Conflict(
            f"{memory.path} was changed by someone else since it was read",
            unchanged=f"It was not {what}.",
            hint=f"Read it again with `retain get {memory.ref}`.",
        )


def _is_expected(memory: Memory, expect: str) -> bool:
    if not expect:
        return True
    wanted = expect.removeprefix("sha256:").lower()
    return len(wanted) >= 8 and memory.hash.startswith(wanted)


def _taken(path: str, hint: str = "") -> Conflict:
    return Conflict(
        f"{path} exists already",
        unchanged="It was left as it is.",
        hint=hint or "Choose another id, or change that memory with `retain update`.",
    )
