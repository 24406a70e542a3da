"""Which files of a bank are memories, and by what a changed one is told; no file is read here."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from retain.bank.files import TRASH, VERSIONS, Directory, saving, write_whole
from retain.config import FILE, FORMAT, read_file
from retain.errors import Ambiguous, BadName, NotFound, RetainError
from retain.locate import make_private_directory
from retain.memory import SUFFIXES, Kind, Problem, key

_LINK: Final = "a symbolic link; not followed"
_OTHER: Final = "not a memory: its name does not end in .md or .json"
_OUR_OWN: Final = (FILE, *(f"sessions.db{ending}" for ending in ("", "-wal", "-shm", "-journal")))
_OUR_FOLDERS: Final = (TRASH, VERSIONS)
_AGES: Final = 1 << 63  # nanoseconds that a stamp has room for: until the year 2262


class Entry(NamedTuple):
    """Where one memory stands: its collection and its file's name."""

    collection: str
    name: str

    @property
    def id(self) -> str:
        return self.name.rpartition(".")[0]


class Stamp(NamedTuple):
    """By what a changed file is told from an unchanged one without reading it.

    The third is the time of the last change to the file's inode, which no one can set: an edit
    that keeps size and modification time is seen by it.
    """

    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, facts: os.stat_result) -> Stamp:
        modified = facts.st_mtime_ns  # anyone may set it to the year 9999
        if not -_AGES < modified < _AGES:
            modified %= _AGES
        return cls(facts.st_size, modified, facts.st_ctime_ns)


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


def list_collections(root: Directory, kind: Kind, problems: list[Problem]) -> list[str]:
    """The collections of a bank, its root first as the empty string."""
    names = [""]
    for item in root.entries():
        name = item.name
        if item.is_symlink() and (name in _OUR_FOLDERS or not name.startswith(".")):
            if not name.endswith(SUFFIXES):
                problems.append(Problem(os.path.join(root.path, name), _LINK))
        elif name.startswith(".") or name in kind.not_collections:
            continue
        elif item.is_dir(follow_symlinks=False):
            names.append(name)
    return names


def list_entries(
    folder: Directory, collection: str, kind: Kind, problems: list[Problem]
) -> Iterator[Entry]:
    """The memories in a directory by name; what is no memory goes into `problems`."""
    seen: dict[str, str] = {}
    for item in folder.entries():
        fault = _find_fault(item, collection, kind)
        if fault == "":
            entry = Entry(collection, item.name)
            twin = seen.setdefault(key(entry.id), item.name)
            if twin == item.name:
                yield entry
                continue
            fault = f"the same name as {twin}, as other systems see it"
        if fault:
            path = os.path.join(folder.path, item.name)
            problems.append(Problem(path, fault, is_minor=fault == _OTHER))


def _find_fault(item: os.DirEntry[str], collection: str, kind: Kind) -> str | None:
    """Why an entry is no memory: empty if it is one, None if it need not be mentioned."""
    name = item.name
    if name.startswith("."):
        return None
    if not name.endswith(SUFFIXES):
        if item.is_symlink():
            return _LINK if collection else None
        if item.is_dir(follow_symlinks=False):
            return "a directory inside a collection; not read" if collection else None
        is_editors = name.endswith(("~", ".tmp", ".bak")) or name[0] == "#" or name.isdecimal()
        return None if is_editors or (not collection and name in _OUR_OWN) else _OTHER
    if not collection and kind.keeps(name):
        return None
    if item.is_symlink():
        return _LINK
    if name.rpartition(".")[0].lower().endswith(SUFFIXES):
        return "its name has two endings, so that no id can name it"
    return "" if item.is_file(follow_symlinks=False) else "not a plain file"


def list_stamps(folder: Directory) -> Listing:
    """The names and stamps of a directory's files, memories or not, in no order."""
    names: list[str] = []
    stamps = array("q")
    with os.scandir(folder.fd) as items:
        for item in items:
            if item.name.endswith(SUFFIXES):
                with contextlib.suppress(FileNotFoundError):  # gone in this moment
                    stamps.extend(Stamp.of(item.stat(follow_symlinks=False)))
                    names.append(item.name)
    return Listing(names, stamps)


def match_entries(root: Directory, kind: Kind, collection: str | None, wanted: str) -> list[Entry]:
    """The memories of that name, in one collection or in all; other spellings if there is none."""
    names = list_collections(root, kind, [])
    names = [name for name in names if collection is None or key(name) == key(collection)]
    for match in (_match_name, _match_key):  # the first lists no files
        matches: list[Entry] = []
        for name in names:
            # One that cannot be read must not hide the others.
            with contextlib.suppress(RetainError), root.child(name) as folder:
                matches += match(folder, name, kind, wanted)
        if matches:
            return matches
    return []


def _match_name(folder: Directory, collection: str, kind: Kind, wanted: str) -> list[Entry]:
    files = [wanted + suffix for suffix in SUFFIXES if folder.has(wanted + suffix)]
    return [Entry(collection, name) for name in files if collection or not kind.keeps(name)][:1]


def _match_key(folder: Directory, collection: str, kind: Kind, wanted: str) -> list[Entry]:
    entries = list_entries(folder, collection, kind, [])
    return [entry for entry in entries if key(entry.id) == key(wanted)]


def match_one(root: Directory, kind: Kind, collection: str | None, wanted: str) -> Entry:
    """The one memory of that name, or NotFound or Ambiguous."""
    matches = match_entries(root, kind, collection, wanted)
    if not matches:
        where = f" in collection {collection!r}" if collection else ""
        raise NotFound(
            f"there is no memory {wanted!r}{where} in {root.path}",
            hint="`retain list` shows them all.",
        )
    if len(matches) > 1:
        names = [f"{match.collection}/{match.id}" for match in matches]
        raise Ambiguous(
            f"{wanted!r} is the id of several memories: {', '.join(names)}",
            unchanged="Nothing was changed.",
            hint=f"Say which: {' or '.join(repr(name) for name in names)}.",
        )
    return matches[0]


def refuse_reserved(kind: Kind, collection: str, name: str) -> None:
    """Refuse the name of a file that the bank keeps for itself."""
    is_own = kind.keeps(name) or key(name) in map(key, kind.not_memories)
    if is_own and not collection:
        raise BadName(
            f"{name} at the bank's root is not a memory: the bank keeps something else there",
            unchanged="Nothing was stored.",
            hint="Choose another id or a collection.",
        )


@contextlib.contextmanager
def note_problem(path: str, problems: list[Problem]) -> Iterator[None]:
    """Go on after a file that cannot be read; one that is gone by now is no problem."""
    try:
        yield
    except NotFound:
        pass
    except RetainError as error:
        problems.append(Problem(path, error.message))


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
.trash/
.versions/
approvals.json
sessions.db*
"""


def make_bank(root: str) -> bool:
    """Make a bank's directory, its config and its .gitignore; what is there already stays."""
    fresh = not os.path.isdir(root)
    read_file(os.path.join(root, FILE), follow=False)  # a newer format is left untouched
    with saving(root):
        make_private_directory(os.path.abspath(root))
    for name, text in ((FILE, _CONFIG), (".gitignore", _GITIGNORE)):
        path = os.path.join(root, name)
        if not os.path.lexists(path):
            write_whole(path, text.encode())
    return fresh
