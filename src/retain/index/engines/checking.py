"""What a bank is and what an engine says it holds, compared memory by memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

from retain.index.engines import outbox
from retain.index.engines.arm import Held, wins

_LOCAL: Final = (
    f"SELECT m.collection || '/' || m.file, {outbox.HASH}, m.written, m.chunks, "  # noqa: S608 - our own words
    f"{outbox.LACKS}, m.is_gone FROM memories m"
)


class Drift(NamedTuple):
    """Where a bank and an engine differ; every list is of collection/file."""

    memories: int = 0  # that the bank has
    missing: tuple[str, ...] = ()  # not there, or not whole
    differing: tuple[str, ...] = ()  # there in an older version
    undead: tuple[str, ...] = ()  # deleted here, and still there
    ahead: tuple[str, ...] = ()  # there in a newer version, or deleted there since
    elsewhere: tuple[str, ...] = ()  # that another machine has told of and this one never had
    lacking: int = 0  # that wait for their vectors

    @property
    def total(self) -> int:
        """How many memories the engine is wrong about."""
        return len(self.missing) + len(self.differing) + len(self.undead)


class _Local(NamedTuple):
    hash: str
    written: float
    chunks: int
    lacks: bool
    is_gone: bool  # from disk, together with most others: held, and not deleted


def compared(
    connection: sqlite3.Connection,
    arm: str,
    held: Iterable[Held],
    model: str = "",
    *,
    is_alone: bool = False,
) -> Drift:
    """Compare what is here with a manifest; `model` names whose vectors there should be.

    Where no other machine can have told the engine of anything, what is not here was deleted.
    """
    notes = outbox.notes(connection, arm)
    here = {name: _Local(*rest) for name, *rest in connection.execute(_LOCAL)}
    missing: list[str] = []
    differing: list[str] = []
    undead: list[str] = []
    ahead: list[str] = []
    elsewhere: list[str] = []
    seen = set()
    for one in held:
        local = here.get(one.memory)
        if local is None:
            if not one.is_grave:
                is_ours = is_alone or outbox.is_ours(notes.get(one.memory, ""), one)
                (undead if is_ours else elsewhere).append(one.memory)
            continue
        seen.add(one.memory)
        if local.is_gone:
            continue
        if one.hash == local.hash:
            if one.found != local.chunks or one.model != model:
                missing.append(one.memory)
        elif (
            is_alone
            or outbox.is_ours(notes.get(one.memory, ""), one)
            or wins(local.hash, local.written, one)
        ):
            differing.append(one.memory)
        else:
            ahead.append(one.memory)
    lacking = {name for name, local in here.items() if model and local.lacks}
    gone = {name for name, local in here.items() if local.is_gone}
    missing += sorted(here.keys() - seen - lacking - gone)
    return Drift(
        len(here) - len(gone),
        tuple(missing),
        tuple(name for name in differing if name not in lacking),
        tuple(undead),
        tuple(ahead),
        tuple(elsewhere),
        len(lacking),
    )
