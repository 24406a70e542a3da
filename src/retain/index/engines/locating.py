"""What an engine found, as chunks of the local index; and what it cannot know yet."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from retain.index import database
from retain.index.engines import outbox

if TYPE_CHECKING:
    from retain.index.engines.arm import Match
    from retain.index.vectors import Mean


FEW: Final = 500  # memories that are looked through here because the engine does not have them yet
_STALE: Final = 0.02  # of the chunks: from which change on their mean is taken anew

_LOCATED: Final = (
    "SELECT c.number, o.key, lower(hex(c.digest)) = o.value ->> 3, m.number FROM json_each(?) o "
    "JOIN memories m ON m.collection = o.value ->> 0 AND m.file = o.value ->> 1 "
    "LEFT JOIN chunks c ON c.memory = m.number AND c.number = (o.value ->> 2) + "
    "(SELECT min(number) FROM chunks WHERE memory = m.number) "
    "WHERE NOT m.is_gone ORDER BY o.key"
)
_OF: Final = "SELECT number FROM chunks JOIN json_each(?) ON memory = json_each.value"


def located(connection: sqlite3.Connection, matches: Sequence[Match]) -> list[int]:
    """The chunks that were found, in their order; what is not here is left out.

    Another machine may have told the engine of what this one has yet to be given: where it holds
    another text of a memory than the one that is here, all of this one is looked at instead.
    """
    wanted = []
    for match in matches:
        collection, _, file = match.memory.rpartition("/")
        wanted.append((collection, file, match.place, match.digest))
    found: list[int] = []
    others: dict[int, None] = {}
    for number, _, is_same, memory in connection.execute(_LOCATED, (json.dumps(wanted),)):
        if is_same:
            found.append(number)
        else:
            others[memory] = None
    return [*found, *chunks_of(connection, list(others))] if others else found


def chunks_of(connection: sqlite3.Connection, memories: Sequence[int]) -> list[int]:
    """All chunks of some memories."""
    return [number for (number,) in connection.execute(_OF, (json.dumps(memories),))]


def unknown(connection: sqlite3.Connection, arm: str) -> list[int] | None:
    """The memories that an engine does not have as they are; None for too many to look at."""
    found = outbox.unknown(connection, arm, FEW + 1)
    return None if len(found) > FEW else found


def mean(connection: sqlite3.Connection, model: str) -> Mean | None:
    """What all vectors have in common, as it was counted last; None if it never was."""
    import numpy as np

    from retain.index.vectors import Mean

    found = database.fact(connection, "mean")
    if not isinstance(found, bytes):
        return None
    name, _, data = found.partition(b"\0")
    if name != model.encode() or len(data) < 12 or len(data) % 4:
        return None
    return Mean(int.from_bytes(data[:8], "big"), np.frombuffer(data[8:], np.float32))


def counted(connection: sqlite3.Connection, model: str) -> Mean | None:
    """That anew, where enough has changed since it was noted; None where it has not."""
    from retain.index.vectors import total

    (chunks,) = connection.execute(
        "SELECT count(*) FROM vectors WHERE model = ?", (model,)
    ).fetchone()
    old = mean(connection, model)
    if old is not None and abs(old.chunks - chunks) <= _STALE * old.chunks:
        return None
    return total(connection, model)


def note_mean(connection: sqlite3.Connection, model: str, new: Mean) -> None:
    """Remember it for searches."""
    data = new.chunks.to_bytes(8, "big") + new.vector.tobytes()
    database.set_fact(connection, "mean", model.encode() + b"\0" + data)
