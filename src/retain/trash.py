"""Soft-deleted files: `.trash/[collection/]stem_YYYYMMDD_HHMMSS.md`, each restorable."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from typing import Final

from retain.errors import NotFound, Unsafe
from retain.fsio import Directory, Workshop, changed_meanwhile
from retain.model import Trashed
from retain.paths import key

__all__ = [
    "CHATS",
    "CONFLICT",
    "discard",
    "entries",
    "keep",
    "pick",
    "put_aside",
    "put_back",
    "take_back",
    "throw_away",
]

TRASH: Final = ".trash"
CHATS: Final = ".sessions"  # where deleted chats lie in it; no collection can be called so
CONFLICT: Final = ".conflict"  # how the id of a text ends that lost a race
_NAME = re.compile(r"(.+)_([0-9]{8}_[0-9]{6})(?:-([0-9]{1,9}))?(?:\.md|\.json)")


def throw_away(
    shop: Workshop, folder: Directory, name: str, collection: str, expected: bytes
) -> Trashed:
    """Move a memory's file into the trash, unless it is no longer the one expected."""
    with shop.root.descend(TRASH, collection, create=True) as trash:
        new = _free_name(trash, name)
        shop.move(folder, name, trash, new)
        if not trash.holds(new, expected):
            shop.move(trash, new, folder, name)
            raise changed_meanwhile(os.path.join(folder.path, name))
        return _describe(trash, new, collection)


def put_aside(shop: Workshop, name: str, collection: str, data: bytes) -> Trashed:
    """Keep a text that lost a race where its writer can find it."""
    stem, suffix = os.path.splitext(name)
    return keep(shop, f"{stem}{CONFLICT}{suffix}", collection, data)


def keep(shop: Workshop, name: str, collection: str, data: bytes) -> Trashed:
    """Put a text into the trash that has no file of its own."""
    with shop.root.descend(TRASH, collection, create=True) as trash:
        new = _free_name(trash, name)
        shop.create(trash, new, data)
        return _describe(trash, new, collection)


def take_back(shop: Workshop, entry: Trashed, folder: Directory, name: str) -> None:
    """Move a trashed file back among the memories."""
    with shop.root.descend(TRASH, entry.collection) as trash:
        shop.move(trash, entry.name, folder, name)


def put_back(shop: Workshop, entry: Trashed, folder: Directory, name: str) -> None:
    """Return a file that was taken back to its place in the trash."""
    with shop.root.descend(TRASH, entry.collection) as trash:
        shop.move(folder, name, trash, entry.name)


def discard(shop: Workshop, entry: Trashed) -> None:
    """Destroy a trashed file for good."""
    with shop.root.descend(TRASH, entry.collection) as trash:
        shop.remove(trash, entry.name)


def entries(root: Directory) -> list[Trashed]:
    """What can be brought back, newest first."""
    found: list[Trashed] = []
    # A trash that is a link holds nothing of ours; the bank lists it among its problems.
    with contextlib.suppress(NotFound, Unsafe), root.child(TRASH) as trash:
        folders = [entry.name for entry in trash.entries() if entry.is_dir(follow_symlinks=False)]
        for collection in ("", *folders):
            with contextlib.suppress(NotFound), trash.child(collection) as folder:
                found += _in_folder(folder, collection)
    return sorted(found, key=_age, reverse=True)


def _in_folder(folder: Directory, collection: str) -> Iterator[Trashed]:
    for entry in folder.entries():
        if entry.is_file(follow_symlinks=False) and entry.name[0] != ".":
            # Someone may be bringing it back at this moment.
            with contextlib.suppress(FileNotFoundError):
                yield _describe(folder, entry.name, collection)


def _age(entry: Trashed) -> tuple[str, int, str]:
    match = _NAME.fullmatch(entry.name)
    return entry.deleted_at, int(match[3] or 1) if match else 1, entry.name


def pick(root: Directory, wanted: str, collection: str | None) -> Trashed:
    """The newest entry of that id, or that very entry."""
    named, slash, tail = wanted.rpartition("/")
    if slash:
        collection = named
    for entry in entries(root):
        if collection is not None and key(entry.collection) != key(collection):
            continue
        if tail == entry.name or key(tail) == key(entry.id):
            return entry
    raise NotFound(
        f"there is no {wanted!r} in the trash of {root.path}",
        hint="`retain trash list` shows what can be brought back.",
    )


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
    if match:
        stamp = match[2]
        day, clock = stamp[:8], stamp[9:]
        when = f"{day[:4]}-{day[4:6]}-{day[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}Z"
    else:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(facts.st_ctime))
    stem = match[1] if match else os.path.splitext(name)[0]
    return Trashed(name, stem, collection, when, os.path.join(folder.path, name), facts.st_size)
