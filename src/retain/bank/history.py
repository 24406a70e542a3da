"""Earlier texts of a memory: git's commits in a work tree, numbered copies everywhere.

A numbered copy is `.versions/[collection/]id/v3_2026-11-15T18-00-00Z.md`; the last few are kept.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank.files import Directory, WriteTransaction, versions_dir
from retain.bank.markdown import parse_file
from retain.errors import HistoryError, NotFound, RetainError
from retain.memory import Memory, Version

if TYPE_CHECKING:
    from retain.bank.bank import Bank
    from retain.bank.git import Outcome, Repository

CURRENT: Final = "current"
_FILE: Final = re.compile(r"v([0-9]{1,18})_([0-9]{4}-[0-9]{2}-[0-9]{2}T)([0-9-]{8}Z)\.(?:md|json)")
_NUMBER: Final = re.compile(r"v?([0-9]{1,6})")


class Numbered(NamedTuple):
    """One kept text."""

    number: int
    time: str
    name: str


def list_versions(folder: Directory) -> list[Numbered]:
    """The versions in a directory, oldest first."""
    return sorted(
        Numbered(int(match[1]), match[2] + match[3].replace("-", ":"), entry.name)
        for entry in folder.entries()
        if (match := _FILE.fullmatch(entry.name))
    )


def next_label(folder: Directory, name: str) -> str:
    """The file name of the version that a file's present text becomes."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    return f"v{_next_number(folder)}_{stamp}{os.path.splitext(name)[1]}"


def _next_number(folder: Directory) -> int:
    versions = list_versions(folder)
    return versions[-1].number + 1 if versions else 1


def prune_versions(transaction: WriteTransaction, folder: Directory, limit: int) -> None:
    """Remove the oldest versions beyond the limit."""
    # A disk that refuses this has not refused the write; the next one tries again.
    with contextlib.suppress(OSError, RetainError):
        versions = list_versions(folder)
        for version in versions[: max(0, len(versions) - limit)]:
            transaction.remove(folder, version.name)


def move_versions(
    transaction: WriteTransaction, old: tuple[str, str], new: tuple[str, str]
) -> None:
    """Move the versions of `(collection, id)` to another.

    They are numbered on where another memory of that name has left some.
    """
    with contextlib.suppress(NotFound), versions_dir(transaction.root, *old) as source:
        versions = list_versions(source)
        if not versions:
            return
        with versions_dir(transaction.root, *new, create=True) as target:
            number = _next_number(target)
            for version in versions:
                number = max(number, version.number)
                rest = version.name.partition("_")[2]
                transaction.move(source, version.name, target, f"v{number}_{rest}")
                number += 1
        with contextlib.suppress(OSError):  # a collection's versions may lie in it as well
            os.rmdir(source.path)


class History:
    """What a bank remembers of its memories' earlier texts."""

    def __init__(self, bank: Bank, *, use_git: bool = True) -> None:
        self.bank = bank
        self._use_git = use_git

    @cached_property
    def repository(self) -> Repository | None:
        """The git work tree the bank is in, if it is in one."""
        from retain.bank.git import Repository  # 12 ms, and numbered versions need no git

        return Repository.containing(self.bank.root) if self._use_git else None

    def versions(self, memory: Memory, limit: int = 0) -> list[Version]:
        """Every earlier text, newest first: commits, then numbered copies by time."""
        log = self.repository.log(memory.path, limit) if self.repository else ()
        committed = [
            Version(commit.hash[:10], commit.time, commit.author, commit.subject, "git")
            for commit in log
        ]
        # A stable sort: of two texts of one second the later listed stays the newer.
        every = self.numbered(memory)[::-1] + committed[::-1]
        ordered = sorted(every, key=lambda version: version.time)
        return ordered[::-1][: limit or None]

    def numbered(self, memory: Memory) -> list[Version]:
        """The copies that were kept beside the memory, newest first; git is not asked."""
        versions = []
        for number, when, name in self.bank.versions(memory)[::-1]:
            author = ""
            with contextlib.suppress(RetainError):
                meta = parse_file(name, self.bank.read_version(memory, number) or b"").meta
                key = "updated_by" if meta.get("updated_at") else "created_by"
                author = str(meta.get(key) or "")  # who changed it last, if anyone says so
            kept = "kept before a change"
            versions.append(Version(f"v{number}", when, author, kept, "numbered"))
        return versions

    def at(self, memory: Memory, version: str) -> Memory:
        """A memory as it was."""
        data = self.read(memory, version)
        text = parse_file(memory.path, data)
        return memory._replace(meta=text.meta, body=text.body, data=data, problem=text.problem)

    def read(self, memory: Memory, version: str) -> bytes:
        """A memory's bytes at a version: `v2`, `2`, a git revision, or `current`."""
        if version == CURRENT:
            return memory.data
        data = None
        if match := _NUMBER.fullmatch(version):
            data = self.bank.read_version(memory, int(match[1]))
        if data is None and self.repository:
            commit = ""
            with contextlib.suppress(HistoryError):
                commit = self.repository.resolve(version)
            data = self.repository.read(commit, memory.path) if commit else None
        if data is None:
            raise NotFound(
                f"{memory.ref} has no version {version!r}",
                hint=f"`retain versions {memory.ref}` lists them.",
            )
        return data

    def diff(self, memory: Memory, older: str, newer: str) -> str:
        """The changes from one version to another, as a unified diff."""
        import difflib

        older = older or self._latest(memory)
        newer = newer or CURRENT
        before, after = (
            self.read(memory, version).decode("utf-8", "replace").splitlines(keepends=True)
            for version in (older, newer)
        )
        names = (f"{memory.ref}@{older}", f"{memory.ref}@{newer}")
        lines = difflib.unified_diff(before, after, *names)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def _latest(self, memory: Memory) -> str:
        """The newest version whose text is not the present one."""
        versions = [version.version for version in self.versions(memory)]
        if not versions:
            raise NotFound(
                f"{memory.ref} has no earlier version",
                hint="A version is kept at the first change.",
            )
        others = (version for version in versions if self.read(memory, version) != memory.data)
        return next(others, versions[0])

    def is_tracked(self, memory: Memory) -> bool:
        """Whether git has this memory."""
        return self.repository is not None and self.repository.is_tracked(memory.path)

    def commit(self, changes: Mapping[str, bytes | None], message: str) -> Outcome:
        """Commit just these files to git; without git that is no failure of the write."""
        from retain.bank.git import Outcome

        if self.repository is None:
            return Outcome(None, "not committed: the bank is not in a git work tree")
        return self.repository.commit(changes, message)
