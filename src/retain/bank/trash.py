"""Soft-deleted files: `.trash/[collection/]stem_YYYYMMDD_HHMMSS.md`, each restorable."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Final

from retain.bank.files import TRASH, Directory, WriteTransaction, changed_error
from retain.errors import NotFound, Unsafe
from retain.memory import Memory, Trashed

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
