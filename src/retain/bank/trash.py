"""Soft-deleted files: `.trash/[collection/]stem_YYYYMMDD_HHMMSS.md`, each restorable."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING, Final

from retain.bank.files import (
    TRASH,
    Directory,
    WriteTransaction,
    changed_error,
    taken_error,
    versions_dir,
)
from retain.bank.history import list_versions
from retain.bank.listing import Entry
from retain.bank.markdown import set_own_id
from retain.errors import NotFound, Unsafe, UsageError
from retain.memory import SUFFIXES, Memory, Trashed, Written, key

if TYPE_CHECKING:
    from retain.bank.bank import Bank

CHATS: Final = ".sessions"  # where deleted chats lie in it; no collection can be called so
CONFLICT: Final = ".conflict"  # how the id of a text ends that lost a race
_NAME = re.compile(r"(.+)_([0-9]{8}_[0-9]{6})(?:-([0-9]{1,9}))?(?:\.md|\.json)")


def move_to_trash(transaction: WriteTransaction, folder: Directory, memory: Memory) -> Trashed:
    """Move a memory's file into the trash, unless it is no longer as it was read."""
    name = os.path.basename(memory.path)
    with transaction.root.descend(TRASH, memory.collection, create=True) as trash:
        new = _free_name(trash, name)
        transaction.move(folder, name, trash, new)
        if not trash.holds(new, memory.data):
            transaction.move(trash, new, folder, name)
            raise changed_error(memory.path, "deleted")
        return _describe(trash, new, memory.collection)


def add_conflict(transaction: WriteTransaction, name: str, collection: str, data: bytes) -> Trashed:
    """Keep a text that lost a race where its writer can find it."""
    stem, suffix = os.path.splitext(name)
    return add(transaction, f"{stem}{CONFLICT}{suffix}", collection, data)


def add(transaction: WriteTransaction, name: str, collection: str, data: bytes) -> Trashed:
    """Put a text into the trash that has no file of its own."""
    with transaction.root.descend(TRASH, collection, create=True) as trash:
        new = _free_name(trash, name)
        transaction.create(trash, new, data)
        return _describe(trash, new, collection)


def restore(transaction: WriteTransaction, entry: Trashed, folder: Directory, name: str) -> None:
    """Move a trashed file back among the memories."""
    with transaction.root.descend(TRASH, entry.collection) as trash:
        transaction.move(trash, entry.name, folder, name)


def purge(transaction: WriteTransaction, entry: Trashed) -> None:
    """Destroy a trashed file for good."""
    with transaction.root.descend(TRASH, entry.collection) as trash:
        transaction.remove(trash, entry.name)


def list_trash(root: Directory) -> list[Trashed]:
    """What can be brought back, newest first."""
    trashed: list[Trashed] = []
    # A trash that is a link holds nothing of ours; the bank lists it among its problems.
    with contextlib.suppress(NotFound, Unsafe), root.child(TRASH) as trash:
        names = [entry.name for entry in trash.entries() if entry.is_dir(follow_symlinks=False)]
        for collection in ("", *names):
            with contextlib.suppress(NotFound), trash.child(collection) as folder:
                for entry in folder.entries():
                    if entry.is_file(follow_symlinks=False) and entry.name[0] != ".":
                        # Someone may be bringing it back at this moment.
                        with contextlib.suppress(FileNotFoundError):
                            trashed.append(_describe(folder, entry.name, collection))
    return sorted(trashed, key=_age, reverse=True)


def _age(entry: Trashed) -> tuple[str, int, str]:
    match = _NAME.fullmatch(entry.name)
    return entry.deleted_at, int(match[3] or 1) if match else 1, entry.name


def _free_name(trash: Directory, name: str) -> str:
    """A name with the time in it; two deletions in one second get two names."""
    stem, suffix = os.path.splitext(name)
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
    free, number = f"{stem}_{stamp}{suffix}", 1
    while trash.has(free):
        number += 1
        free = f"{stem}_{stamp}-{number}{suffix}"
    return free


def _describe(folder: Directory, name: str, collection: str) -> Trashed:
    facts = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    match = _NAME.fullmatch(name)
    stem = match[1] if match else os.path.splitext(name)[0]
    if match:
        when = re.sub(r"(....)(..)(..)_(..)(..)(..)", r"\1-\2-\3T\4:\5:\6Z", match[2])
    else:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(facts.st_ctime))
    return Trashed(name, stem, collection, when, os.path.join(folder.path, name), facts.st_size)


class Trash:
    """What was deleted from a bank, and how it comes back."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    def entries(self) -> list[Trashed]:
        """What can be brought back, newest first."""
        if not os.path.isdir(self.bank.root):  # another process may have made it meanwhile
            return []
        with self.bank.open() as root:
            return list_trash(root)

    def find(self, ref: str, collection: str | None = None) -> Trashed | None:
        """The newest deleted memory that a reference names, or that very entry of the trash."""
        named, slash, tail = ref.rpartition("/")
        collection = named if slash else collection
        for entry in self.entries():
            is_there = collection is None or key(entry.collection) == key(collection)
            if is_there and (tail == entry.name or key(tail) == key(entry.id)):
                return entry
        return None

    def similar_ids(self, ref: str) -> list[str]:
        """Ids of deleted memories that are like the one a reference names."""
        import difflib

        ids = dict.fromkeys(entry.id for entry in self.entries())
        return difflib.get_close_matches(ref.rpartition("/")[2], ids, 3, 0.5)

    def read(self, entry: Trashed) -> Memory:
        """Return a deleted memory as it was."""
        with self.bank.open() as root, root.descend(TRASH, entry.collection) as folder:
            memory, _ = self.bank.read(folder, Entry(entry.collection, entry.name))
            return memory._replace(id=entry.id)

    def restore(self, wanted: str, *, collection: str | None = None, to_id: str = "") -> Written:
        """Bring back the newest trashed memory of that id, or that very trash entry."""
        entry = self.find(wanted, collection)
        if entry is None:
            near = self.similar_ids(wanted)
            guess = f"Did you mean {' or '.join(near)}? " if near else ""
            raise NotFound(
                f"there is no {wanted!r} in the trash of {self.bank.root}",
                hint=f"{guess}`retain trash list` shows what can be brought back.",
            )
        if entry.collection == CHATS:
            raise UsageError(
                f"{entry.id} is a chat, not a memory",
                hint=f"Bring it back: retain sessions import {entry.path}",
            )
        suffix = os.path.splitext(entry.name)[1]
        suffix = suffix if suffix in SUFFIXES else ".md"
        with self.bank.lock_name(entry.collection, to_id or entry.id, suffix) as target:
            new = target.memory
            if not target.is_new:
                command = f"`retain restore --trash {entry.name} --id NEW`"
                raise taken_error(new.path, f"Bring it back under another id: {command}.")
            written = target.create(set_own_id(self.read(entry)._replace(id=new.id)))
            try:
                purge(target.transaction, entry)
            except OSError:
                target.transaction.remove(target.folder, os.path.basename(new.path))
                raise
            return written._replace(status="restored")

    def keep_conflict(self, memory: Memory, text: str) -> Trashed:
        """Keep in the trash what someone meant to make of a memory, as JSON."""
        with self.bank.transaction(memory.path) as transaction:
            name = f"{memory.id}.json"
            return add_conflict(transaction, name, memory.collection, f"{text}\n".encode())

    def purge(self, trashed: Trashed) -> None:
        """Destroy one entry of the trash for good."""
        with self.bank.transaction(trashed.path) as transaction:
            purge(transaction, trashed)

    def empty(self, before: str = "") -> list[Trashed]:
        """Destroy what is in the trash, or was deleted before a time, and its earlier texts."""
        with self.bank.transaction(TRASH) as transaction:
            root = transaction.root
            entries = list_trash(root)
            purged = [entry for entry in entries if not before or entry.deleted_at < before]
            for entry in purged:
                purge(transaction, entry)
            left = {(entry.collection, entry.id) for entry in list_trash(root)}
            for collection, name in {(entry.collection, entry.id) for entry in purged} - left:
                with contextlib.suppress(NotFound), root.child(collection) as folder:
                    if any(folder.has(f"{name}{suffix}") for suffix in SUFFIXES):
                        continue  # another memory has the name by now, and the versions with it
                with contextlib.suppress(NotFound), versions_dir(root, collection, name) as kept:
                    for version in list_versions(kept):
                        transaction.remove(kept, version.name)
        return purged
