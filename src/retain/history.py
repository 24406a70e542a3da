"""Earlier texts of a memory: git's commits in a work tree, numbered copies everywhere."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from functools import cached_property

from retain.bank import Bank, restated
from retain.codec import codec
from retain.errors import HistoryError, NotFound
from retain.git import Outcome, Repository
from retain.model import Memory, Version, Written

__all__ = ["History"]

_NUMBER = re.compile(r"v?([0-9]{1,6})")
CURRENT = "current"


class History:
    """What a bank remembers of its memories' earlier texts."""

    def __init__(self, bank: Bank, *, use_git: bool = True) -> None:
        self.bank = bank
        self._use_git = use_git

    @cached_property
    def repository(self) -> Repository | None:
        """The git work tree the bank is in, if it is in one."""
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
        return [
            Version(f"v{one.number}", one.time, "", "kept before a change", "numbered")
            for one in self.bank.versions(memory)[::-1]
        ]

    def at(self, memory: Memory, version: str) -> Memory:
        """A memory as it was."""
        data = self.read(memory, version)
        text = codec(memory.path).parse(data)
        return memory._replace(meta=text.meta, body=text.body, data=data, problem=text.problem)

    def read(self, memory: Memory, version: str) -> bytes:
        """A memory's bytes at a version: `v2`, `2`, a git revision, or `current`."""
        if version == CURRENT:
            return memory.data
        match = _NUMBER.fullmatch(version)
        if match:
            data = self.bank.read_version(memory, int(match[1]))
            if data is not None:
                return data
        if self.repository is None:
            raise self._no_version(memory, version)
        try:
            commit = self.repository.resolve(version)
        except HistoryError as error:
            raise self._no_version(memory, version) from error
        data = self.repository.read(commit, memory.path)
        if data is None:
            raise self._no_version(memory, version)
        return data

    def _no_version(self, memory: Memory, version: str) -> NotFound:
        return NotFound(
            f"{memory.ref} has no version {version!r}",
            hint=f"`retain versions {memory.ref}` lists them.",
        )

    def diff(self, memory: Memory, older: str, newer: str) -> str:
        """The changes from one version to another, as a unified diff."""
        older = older or self._latest(memory)
        newer = newer or CURRENT
        lines = difflib.unified_diff(
            _lines(self.read(memory, older)),
            _lines(self.read(memory, newer)),
            f"{memory.ref}@{older}",
            f"{memory.ref}@{newer}",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def _latest(self, memory: Memory) -> str:
        """The newest version whose text is not the present one."""
        known = self.versions(memory)
        for version in known:
            if self.read(memory, version.version) != memory.data:
                return version.version
        if known:
            return known[0].version
        raise NotFound(
            f"{memory.ref} has no earlier version",
            hint="A version is kept at the first change.",
        )

    def restore(
        self,
        ref: str,
        version: str,
        in_step: Callable[[Memory, bytes], bytes],
        *,
        collection: str | None = None,
        expect: str = "",
    ) -> Written:
        """Bring a version's text back as the newest one; the present text stays in the history."""
        memory = self.bank.find(ref, collection)
        text = codec(memory.path).parse(data := self.read(memory, version))
        # An older text may state the id the memory had then.
        data = restated(memory._replace(meta=text.meta, data=data, problem=text.problem))
        return self.bank.change(
            memory.address,
            lambda it: in_step(it, data),
            expect=expect or memory.hash,
            status="restored",
        )

    def is_tracked(self, memory: Memory) -> bool:
        """Whether git has this memory."""
        return self.repository is not None and self.repository.is_tracked(memory.path)

    def commit(self, changes: Mapping[str, bytes | None], message: str) -> Outcome:
        """Commit just these files to git; without git that is no failure of the write."""
        if self.repository is None:
            return Outcome(None, "not committed: the bank is not in a git work tree")
        try:
            return self.repository.commit(changes, message)
        except HistoryError as error:
            return Outcome(None, f"not committed: {error.message}")


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines(keepends=True)
