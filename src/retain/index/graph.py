"""The graph arm: links between memories and to files outside the bank (ghosts)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

from retain.index.entries import FILE_ENDING
from retain.links import normal
from retain.paths import key

__all__ = ["Edge", "connected", "edges_from", "edges_to", "named_files", "superseded"]

NAMED: Final = 0.25  # what a memory gains that links to a file the question names
_AROUND: Final = ".,;:!?\"'`()[]{}<>"  # what a path may stand between in a sentence
_COLUMNS: Final = (
    "m.number, m.collection, m.id, l.target, l.kind, l.edge, l.memory_edge, l.label, l.anchor, "
    "l.line, l.seen, l.context, m.written"
)


class Edge(NamedTuple):
    """A link from a memory."""

    memory: int
    collection: str
    id: str
    target: str
    kind: str
    edge: str
    memory_edge: str
    label: str
    anchor: str
    line: int
    seen: str
    context: str
    written: float


def edges_from(
    connection: sqlite3.Connection, memories: Iterable[int], *, once: bool = False, most: int = -1
) -> list[Edge]:
    """What these memories link to, in the order of their lines; `once`: the first of equal ones."""
    order = "m.number, l.line, l.rowid"
    return _edges(connection, "l.memory", json.dumps(list(memories)), order, once, most)


def edges_to(
    connection: sqlite3.Connection, targets: Iterable[str], *, once: bool = False, most: int = -1
) -> list[Edge]:
    """What links to any of these targets; `once`: the first of equal ones."""
    order = "m.collection, m.id, l.line, l.rowid"
    return _edges(connection, "l.target", json.dumps(list(targets)), order, once, most)


def _edges(
    connection: sqlite3.Connection, column: str, values: str, order: str, once: bool, most: int
) -> list[Edge]:
    among = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own words
    if once:
        among = (
            f"l.rowid IN (SELECT min(l.rowid) FROM links l WHERE {among} "  # noqa: S608 - our own words
            "GROUP BY l.memory, l.target, l.kind, l.edge, l.memory_edge)"
        )
    query = (
        f"SELECT {_COLUMNS} FROM links l JOIN memories m ON m.number = l.memory "  # noqa: S608 - our own words
        f"WHERE NOT m.is_gone AND {among} ORDER BY {order} LIMIT ?"
    )
    return [Edge(*row) for row in connection.execute(query, (values, most))]


def superseded(connection: sqlite3.Connection) -> dict[str, int]:
    """The memories that another one says it replaces, as `collection/key`, each with that one.

    A bare name means the one in the same collection, else the only one of that name. Of several
    that replace one the newest counts.
    """
    query = (
        "SELECT l.target, m.collection, m.number FROM links l "
        "JOIN memories m ON m.number = l.memory "
        "WHERE l.memory_edge = 'supersedes' AND NOT m.is_gone AND m.status <> 'retired' "
        "ORDER BY m.written, m.number"
    )
    return {
        found: number
        for target, where, number in connection.execute(query).fetchall()
        for found in _meant(connection, key(target), key(where))
    }


def _meant(connection: sqlite3.Connection, target: str, collection: str) -> list[str]:
    if "/" in target:
        return [target]
    query = "SELECT DISTINCT collection FROM memories WHERE key = ?"
    there = {key(where) for (where,) in connection.execute(query, (target,))}
    if collection in there:
        return [f"{collection}/{target}"]
    return [f"{where}/{target}" for where in there] if len(there) == 1 else []


def named_files(connection: sqlite3.Connection, query: str) -> dict[int, float]:
    """Chunks that link to a file which a question names, with what that is worth."""
    said = (word.strip(_AROUND) for word in query[:2_000].split())
    named = [normal(word) for word in said if "/" in word or FILE_ENDING.search(word)]
    if not named:
        return {}
    found = connection.execute(
        "SELECT DISTINCT (SELECT max(number) FROM chunks c WHERE c.memory = l.memory "
        "AND (c.line <= l.line OR c.number = (SELECT min(number) FROM chunks d "
        "WHERE d.memory = l.memory))) "
        "FROM links l WHERE l.kind = 'ghost' AND l.target IN (SELECT value FROM json_each(?))",
        (json.dumps(named),),
    )
    return {chunk: NAMED for (chunk,) in found if chunk is not None}


def connected(connection: sqlite3.Connection, memories: Iterable[int]) -> frozenset[int]:
    """The memories that links connect with any of these: from, to, or by way of one file."""
    numbers = json.dumps(sorted(memories))
    targets = [target for (target,) in connection.execute(_TARGETS, (numbers,))]
    names = [name for row in connection.execute(_NAMES, (numbers,)) for name in row]
    # Memories by the last part of what is linked to; who else links to the same file; and who
    # links to these.
    keys = {key(target).rpartition("/")[2] for target in targets}
    found = {number for (number,) in connection.execute(_NAMED, (json.dumps(sorted(keys)),))}
    beside = json.dumps(sorted({*targets, *names}))
    return frozenset(found | {number for (number,) in connection.execute(_LINKING, (beside,))})


_TARGETS: Final = "SELECT target FROM links WHERE memory IN (SELECT value FROM json_each(?))"
_NAMES: Final = (
    "SELECT key, collection || '/' || key FROM memories "
    "WHERE number IN (SELECT value FROM json_each(?))"
)
_NAMED: Final = "SELECT number FROM memories WHERE key IN (SELECT value FROM json_each(?))"
_LINKING: Final = "SELECT memory FROM links WHERE target IN (SELECT value FROM json_each(?))"
