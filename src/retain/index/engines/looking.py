"""Whether an engine still has what it was given: a few memories are asked for, and tell.

Another machine may have dropped the bank there, a server may have lost its disk or come back from
an older copy of it. What it finds then is little or nothing, and looks like any other answer.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from typing import Final

from retain.index.engines import outbox
from retain.index.engines.arm import Held, wins

_SOME: Final = 8  # of the newest memories, which an older copy lacks, and of any others
_GIVEN: Final = (
    f"SELECT m.collection || '/' || m.file, {outbox.HASH}, m.written "  # noqa: S608 - our own words
    "FROM memories m JOIN delivered d ON d.arm = ?1 AND d.collection = m.collection "
    f"AND d.file = m.file WHERE NOT m.is_gone AND d.hash = {outbox.HASH} AND m.number >= ?2 "
    "ORDER BY m.number"
)


def witnesses(connection: sqlite3.Connection, arm: str) -> dict[str, tuple[str, float]]:
    """Memories that an engine was given as they are: the hash of each, and when it was written."""
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM memories").fetchone()
    start = random.randint(0, last)  # noqa: S311 - nobody gains by guessing it
    newest = connection.execute(f"{_GIVEN} DESC LIMIT ?3", (arm, 0, _SOME)).fetchall()
    others = connection.execute(f"{_GIVEN} LIMIT ?3", (arm, start, _SOME)).fetchall()
    return {memory: (hash_, written) for memory, hash_, written in [*newest, *others]}


def differs(some: Mapping[str, tuple[str, float]], held: Mapping[str, Held]) -> bool:
    """Whether one of these is not there as it was told: lost, or changed by another machine."""
    for memory, (hash_, _) in some.items():
        found = held.get(memory)
        if found is None or found.hash != hash_ or not found.is_whole:
            return True
    return False


def changed(some: Mapping[str, tuple[str, float]], held: Mapping[str, Held]) -> dict[str, str]:
    """What to note of those that another machine has changed; none of them is lost."""
    return {
        memory: outbox.AHEAD + hash_
        for memory, (hash_, _) in some.items()
        if memory in held and held[memory].hash != hash_
    }


def has_lost(some: Mapping[str, tuple[str, float]], held: Mapping[str, Held]) -> bool:
    """Whether one of these is not there any more, not whole, or in an older version."""
    for memory, (hash_, written) in some.items():
        found = held.get(memory)
        if found is not None and found.hash == hash_:
            if not found.is_whole:
                return True
        elif wins(hash_, written, found):
            return True
    return False
