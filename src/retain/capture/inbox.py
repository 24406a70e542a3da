"""The inbox of a bank: memories that hooks propose, kept until a person has looked at them.

It lies in the person's own state directory and never in the bank, so nothing that a repository
brings along can pose as a proposal. A proposal is one file, named by a digest of its words: the
same words proposed twice, or by eight processes at once, are one file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from retain.bank.files import saving, write_whole
from retain.capture.proposal import Proposal
from retain.errors import Conflict, LimitExceeded, NotFound, Unreadable
from retain.locate import make_private_directory, state_directory

MAX_WAITING: Final = 500  # nobody reviews more, and a runaway hook must end somewhere

_DROPPED: Final = "dropped"
_ACCEPTED: Final = "accepted"
_IGNORED: Final = "ignored"
_ID: Final = re.compile(r"[0-9a-f]{16}")


class Inbox:
    """The proposals of one bank: those that wait, those that were dropped or accepted."""

    def __init__(self, root: str, env: Mapping[str, str]) -> None:
        self.path = os.path.join(state_directory(root, env), "inbox")

    def propose(self, proposal: Proposal) -> str:
        """Add a proposal and return its id; one that was added before is not added again."""
        clean = proposal.clean()
        known = (self._file(clean.id, folder) for folder in ("", _DROPPED, _ACCEPTED))
        if any(map(os.path.exists, known)):
            return clean.id
        if self.count() >= MAX_WAITING:
            raise LimitExceeded(
                f"{MAX_WAITING} proposals wait in {self.path} already; this one was not added",
                hint="`retain inbox` shows them, `retain inbox edit` reviews them all.",
            )
        self._write(clean)
        return clean.id

    def proposals(self, *, dropped: bool = False) -> list[Proposal]:
        """The proposals that wait, or those that were dropped, the oldest first."""
        return self.scan(dropped=dropped)[0]

    def scan(self, *, dropped: bool = False) -> tuple[list[Proposal], list[str]]:
        """The same, and what is wrong with files that cannot be read and are left alone."""
        folder = _DROPPED if dropped else ""
        dated, problems = [], []
        for name in self._names(folder):
            path = self._file(name, folder)
            with suppress(FileNotFoundError):  # reviewed by another process just now
                try:
                    proposal = _read(path, name)
                    dated.append((proposal.created_at, os.stat(path).st_mtime_ns, proposal))
                except Unreadable as error:
                    problems.append(error.message)
        return [proposal for _, _, proposal in sorted(dated)], problems

    def count(self) -> int:
        """How many proposals wait."""
        return len(self._names(""))

    def revise(self, old: Proposal, new: Proposal) -> Proposal:
        """Change what a waiting proposal says, unless someone else has done so since."""
        clean = new.clean()._replace(id=old.id)
        self.check_unchanged(old)
        self._write(clean)
        return clean

    def check_unchanged(self, seen: Proposal) -> None:
        """Raise Conflict if a waiting proposal is not what a person has seen."""
        try:
            waiting = _read(self._file(seen.id), seen.id)
        except FileNotFoundError as error:
            raise _gone(seen.id) from error
        if waiting != seen:
            raise Conflict(
                f"the proposal {seen.id} was changed by someone else meanwhile",
                unchanged="It is as they left it.",
                hint=f"Read it again: retain inbox show {seen.id[:8]}",
            )

    def drop(self, name: str) -> None:
        """Take a proposal out of the inbox; `restore` brings it back."""
        self._move(name, "", _DROPPED)

    def restore(self, name: str) -> None:
        """Put a dropped proposal back."""
        self._move(name, _DROPPED, "")

    def accept(self, name: str) -> None:
        """Take out a proposal that has become a memory; its id is kept, so it never comes again."""
        self._move(name, "", _ACCEPTED)

    def reopen(self, name: str) -> None:
        """Put a proposal back that had become a memory."""
        self._move(name, _ACCEPTED, "")

    # Suggested merges that a person does not want

    def ignored(self) -> list[frozenset[str]]:
        """The groups of similar memories that a person does not want to merge."""
        folder = os.path.join(self.path, _IGNORED)
        groups = []
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            with (
                suppress(FileNotFoundError, ValueError, TypeError),
                open(os.path.join(folder, name), encoding="utf-8") as file,
            ):
                groups.append(frozenset(map(str, json.load(file))))
        return groups

    def ignore(self, refs: Iterable[str]) -> None:
        """Do not suggest to merge these memories again."""
        _save(self._ignored_file(refs), json.dumps(sorted(set(refs))))

    def unignore(self, refs: Iterable[str]) -> None:
        """Suggest to merge these memories again."""
        with suppress(FileNotFoundError):
            os.unlink(self._ignored_file(refs))

    def _ignored_file(self, refs: Iterable[str]) -> str:
        joined = "\0".join(sorted(set(refs))).encode(errors="surrogateescape")
        name = hashlib.sha256(joined).hexdigest()[:32]
        return os.path.join(self.path, _IGNORED, f"{name}.json")

    # Files

    def _file(self, name: str, folder: str = "") -> str:
        if not _ID.fullmatch(name):
            raise NotFound(f"{name!r} is not the id of a proposal")
        return os.path.join(self.path, folder, f"{name}.json")

    def _names(self, folder: str) -> list[str]:
        try:
            files = os.listdir(os.path.join(self.path, folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = (os.path.splitext(file) for file in files)
        return [name for name, ending in names if ending == ".json" and _ID.fullmatch(name)]

    def _write(self, proposal: Proposal) -> None:
        fields = proposal._asdict()
        del fields["id"]
        _save(self._file(proposal.id), json.dumps(fields, ensure_ascii=False, indent=1))

    def _move(self, name: str, source: str, target: str) -> None:
        old, new = self._file(name, source), self._file(name, target)
        with saving(new):
            make_private_directory(os.path.dirname(new))
            try:
                os.rename(old, new)
            except FileNotFoundError as error:
                raise _gone(name) from error


def _save(path: str, text: str) -> None:
    with saving(path):
        make_private_directory(os.path.dirname(path))
    write_whole(path, f"{text}\n".encode())


def _gone(name: str) -> NotFound:
    return NotFound(
        f"the proposal {name} is not there any more",
        hint="`retain inbox` and `retain inbox list --dropped` show what there is.",
    )


def _read(path: str, name: str) -> Proposal:
    try:
        with open(path, encoding="utf-8") as file:
            return Proposal(id=name, **json.load(file))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise Unreadable(f"{path} is not a proposal") from error
