"""Proposals: what a session would have remembered, kept until a person has looked at it.

Hooks load this, so it imports nothing heavy. A proposal is one private file, placed whole, whose
name is a digest: the same thing proposed twice, or by eight processes at once, is one file. It is
sealed with this machine's key for one bank, so what a repository or an archive brings along in such
a directory is neither shown nor counted.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from retain import machine
from retain.errors import Conflict, LimitExceeded, NotFound, RetainError, Unreadable, Unsafe
from retain.fsio import DRAFT, INBOX, Directory, saving

__all__ = [
    "FOLDER",
    "LONGEST",
    "MOST",
    "Proposal",
    "accepted",
    "count",
    "drop",
    "is_private",
    "opened",
    "proposals",
    "propose",
    "read",
    "reopen",
    "restore",
    "revise",
    "unchanged",
]

FOLDER: Final = INBOX
MOST: Final = 500  # open proposals: nobody reviews more, and a runaway hook must end somewhere
LONGEST: Final = 50_000  # characters of a text
DROPPED: Final = "dropped"
ACCEPTED: Final = "accepted"

_TITLE: Final = 120
_LOOKED_AT: Final = 1_000_000  # characters of a text that are looked at for secrets
_FILE: Final = 1_000_000
_DIGITS: Final = 16
_HEX: Final = frozenset("0123456789abcdef")
_STALE: Final = 3600.0  # seconds after which nobody is still writing a draft
_IGNORE: Final = b"*\n"
# Colours and cursor movements: noise from a terminal that somebody quoted.
_ANSI: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])"


class Proposal(NamedTuple):
    """A memory that a hook proposes, and where it was found."""

    id: str
    category: str
    title: str
    text: str
    score: float = 0.0
    created_at: str = ""
    event: str = ""
    host: str = ""
    session_id: str = ""
    transcript_path: str = ""
    start: int = 0
    end: int = 0
    cwd: str = ""


class _Sealer(NamedTuple):
    """What proposals of one bank are sealed with."""

    key: bytes
    bank: bytes

    @classmethod
    def of(cls, root: str, *, make: bool = False) -> _Sealer:
        try:
            # Without the number of the disk, which some give anew whenever it is mounted.
            bank = str(os.stat(root).st_ino).encode()
        except OSError:
            bank = b""
        return cls(machine.key(make=make), bank)

    def seal(self, file: str, body: bytes) -> bytes:
        """The first line of a proposal's file."""
        told = machine.digest(self.key, self.bank, file.encode(), body)
        return b'{"seal": "%s",\n' % told.encode()

    def has_sealed(self, file: str, data: bytes) -> bool:
        first, end, body = data.partition(b"\n")
        return first + end == self.seal(file, body)


def propose(root: str, proposal: Proposal) -> str:
    """Put a proposal in the inbox of the bank at a settled path, and return its id.

    One that is there already, or was accepted or dropped, stays as it is.
    """
    clean = _cleaned(proposal)
    file = _file(clean.id)
    with opened(root, create=True) as folder:
        if _is_known(folder, file):
            return clean.id
        sealer = _Sealer.of(root, make=True)
        if _open(folder, sealer) >= MOST:
            raise LimitExceeded(
                f"{MOST} proposals wait in {folder.path} already; this one was not added",
                hint="`retain inbox` shows them, `retain inbox edit` reviews them all.",
            )
        folder.place(file, _packed(clean, sealer))
    return clean.id


def proposals(
    root: str, *, dropped: bool = False, problems: list[str] | None = None
) -> list[Proposal]:
    """The proposals that wait, or those that were dropped, the oldest first.

    A file that cannot be read, or is not our own, is named in `problems` and left alone.
    """
    found: list[tuple[str, int, Proposal]] = []
    passed_over = [] if problems is None else problems
    sealer = _Sealer.of(root)
    with suppress(NotFound), opened(root) as inbox, inbox.child(DROPPED * dropped) as folder:
        for entry in folder.entries():
            if _is_name(entry.name):
                with suppress(NotFound):  # reviewed by another in this moment
                    try:
                        one, written = _read(folder, entry.name, sealer)
                        found.append((one.created_at, written, one))
                    except (Unsafe, Unreadable, LimitExceeded) as error:
                        passed_over.append(error.message)
    return [one for _, _, one in sorted(found)]


def count(root: str) -> int:
    """How many proposals of our own wait."""
    with suppress(NotFound), opened(root) as folder:
        return _open(folder, _Sealer.of(root))
    return 0


def read(root: str, name: str) -> Proposal:
    """One proposal that waits."""
    with opened(root) as folder:
        try:
            return _read(folder, _file(name), _Sealer.of(root))[0]
        except NotFound as error:
            raise _gone(name) from error


def revise(root: str, old: Proposal, new: Proposal) -> Proposal:
    """Change what a waiting proposal says, unless someone else has done so since it was read."""
    clean = _cleaned(new)._replace(id=old.id)
    unchanged(old, read(root, old.id))
    with opened(root) as folder:
        folder.put(_file(old.id), _packed(clean, _Sealer.of(root, make=True)))
    return clean


def unchanged(seen: Proposal, present: Proposal) -> Proposal:
    """A proposal that is still the one a person has seen."""
    if seen != present:
        raise Conflict(
            f"the proposal {seen.id} was changed by someone else meanwhile",
            unchanged="It is as they left it.",
            hint=f"Read it again: retain inbox show {seen.id[:8]}",
        )
    return present


def drop(root: str, name: str) -> None:
    """Take a proposal out of the inbox; `restore` brings it back."""
    _move(root, name, "", DROPPED)


def restore(root: str, name: str) -> None:
    """Put a dropped proposal back into the inbox."""
    _move(root, name, DROPPED, "")


def accepted(root: str, name: str) -> None:
    """Take out a proposal that has become a memory; it is remembered, so as not to come again."""
    _move(root, name, "", ACCEPTED)


def reopen(root: str, name: str) -> None:
    """Put a proposal back that had become a memory."""
    _move(root, name, ACCEPTED, "")


def _move(root: str, name: str, source: str, target: str) -> None:
    with (
        opened(root) as inbox,
        inbox.child(source) as folder,
        inbox.child(target, create=True) as other,
    ):
        try:
            folder.shift(_file(name), other, _FILE)
        except FileNotFoundError as error:
            raise _gone(name) from error


def _gone(name: str) -> NotFound:
    return NotFound(
        f"the proposal {name} is not there any more",
        hint="`retain inbox` and `retain inbox list --dropped` show what there is.",
    )


@contextmanager
def opened(root: str, *, create: bool = False) -> Iterator[Directory]:
    """The inbox of a bank, opened without following links."""
    path = os.path.join(root, FOLDER)
    with (
        saving(path),
        Directory.open(root) as bank,
        bank.child(FOLDER, create=create) as folder,
    ):
        if create:
            _make_private(folder)
        yield folder


def _make_private(folder: Directory) -> None:
    """Close an inbox to others, and to git, however it came to be there."""
    facts = os.fstat(folder.fd)
    if facts.st_uid != os.geteuid():
        raise Unsafe(f"{folder.path} belongs to someone else", unchanged="Nothing was written.")
    if stat.S_IMODE(facts.st_mode) != 0o700:
        os.fchmod(folder.fd, 0o700)
    if not folder.holds(".gitignore", _IGNORE):
        folder.put(".gitignore", _IGNORE)


def _is_known(folder: Directory, file: str) -> bool:
    """Whether a proposal waits, or a person has said yes or no to it."""
    if folder.has(file):
        return True
    for name in (DROPPED, ACCEPTED):
        with suppress(NotFound), folder.child(name) as done:
            if done.has(file):
                return True
    return False


def _open(folder: Directory, sealer: _Sealer) -> int:
    """How many proposals wait; what a killed writer left unfinished long ago is swept out."""
    found = 0
    for entry in folder.entries():
        with suppress(FileNotFoundError):
            facts = entry.stat(follow_symlinks=False)
            if entry.name.startswith(DRAFT) and time.time() - facts.st_mtime > _STALE:
                os.unlink(entry.name, dir_fd=folder.fd)
            if _is_name(entry.name) and is_private(facts):
                with suppress(RetainError):
                    data = folder.read(entry.name, _FILE)
                    found += sealer.has_sealed(entry.name, data)
    return found


def is_private(facts: os.stat_result) -> bool:
    """Whether a file is ours alone; what git or an archive puts here can be read by others."""
    return facts.st_uid == os.geteuid() and not stat.S_IMODE(facts.st_mode) & 0o077


def _is_name(name: str) -> bool:
    stem, suffix = os.path.splitext(name)
    return suffix == ".json" and len(stem) == _DIGITS and _HEX.issuperset(stem)


def _file(name: str) -> str:
    file = f"{name}.json"
    if not _is_name(file):
        raise NotFound(f"{name!r} is not the id of a proposal")
    return file


def _read(folder: Directory, file: str, sealer: _Sealer) -> tuple[Proposal, int]:
    """A proposal of our own making, private and of the right shape, and when it was written."""
    path = os.path.join(folder.path, file)
    data, facts = folder.read_with_facts(file, _FILE)
    if not is_private(facts):
        raise Unsafe(f"{path} is not private to you, so Retain did not write it; it is not shown")
    if not sealer.has_sealed(file, data):
        raise Unsafe(f"{path} was not written by Retain on this machine; it is not shown")
    try:
        stated = json.loads(data)
        fields = {name: stated[name] for name in Proposal._fields if name != "id"}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable(f"{path} is not a proposal") from error
    if not all(_fits(name, value) for name, value in fields.items()):
        raise Unreadable(f"{path} is not a proposal")
    return Proposal(id=file.removesuffix(".json"), **fields), facts.st_mtime_ns


def _fits(name: str, value: object) -> bool:
    if name == "score":
        return type(value) in (int, float) and value == value  # noqa: PLR0124 - NaN is no score
    if name in ("start", "end"):
        return type(value) is int and 0 <= value < 1 << 63
    return isinstance(value, str)


def _packed(proposal: Proposal, sealer: _Sealer) -> bytes:
    fields = proposal._asdict()
    del fields["id"]
    body = (json.dumps(fields, ensure_ascii=False, indent=1) + "\n").encode().removeprefix(b"{\n")
    return sealer.seal(_file(proposal.id), body) + body


def _cleaned(given: Proposal) -> Proposal:
    """A proposal as it may be written: no secrets, nothing that acts on a terminal, not endless."""
    text = _plain(given.text[:_LOOKED_AT]).strip()
    title = " ".join(_plain(given.title[:_LOOKED_AT]).split())
    title = title or text.partition("\n")[0].strip()
    clean = given._replace(
        category=_one_line(given.category),
        title=_cut(title, _TITLE),
        text=_cut(text, LONGEST),
        score=given.score if abs(given.score) < 1e9 else 0.0,  # no NaN: JSON has none
        start=max(0, given.start),
        end=max(0, given.end),
        created_at=_one_line(given.created_at)
        or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        event=_one_line(given.event),
        host=_one_line(given.host),
        session_id=_one_line(given.session_id),
        transcript_path=_encodable(given.transcript_path),
        cwd=_encodable(given.cwd),
    )
    return clean._replace(id=_name(clean))


def _name(proposal: Proposal) -> str:
    """What a proposal is called: the same in the same session only for the same words."""
    import hashlib

    told = "\0".join((proposal.session_id, proposal.category, proposal.text))
    return hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]


def _plain(text: str) -> str:
    """A text without secrets; colours go first, lest one stand in the middle of a secret."""
    import re

    from retain.guard.characters import strip_invisible
    from retain.guard.secrets import redact

    if "\x1b" in text:
        text = re.sub(_ANSI, "", text)
    return redact(strip_invisible(_encodable(text).replace("\r\n", "\n"))).text


def _one_line(text: str) -> str:
    return _cut(" ".join(_encodable(text[:_LOOKED_AT]).split()), _TITLE)


def _encodable(text: str) -> str:
    """A text that can be written; half a character may come out of broken JSON."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
