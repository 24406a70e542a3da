"""The graph arm: links between memories and to files outside the bank (ghosts)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from retain.memory import Memory, key

NAMED: Final = 0.25  # what a memory gains that links to a file the question names
_AROUND: Final = ".,;:!?\"'`()[]{}<>"  # what a path may stand between in a sentence
_SUPERSEDES: Final = """
SELECT l.target, m.collection, m.number FROM links l JOIN memories m ON m.number = l.memory
WHERE l.memory_edge = 'supersedes' AND NOT m.is_gone AND m.status <> 'retired'
  AND (?1 IS NULL OR l.target IN (SELECT value FROM json_each(?1)))
ORDER BY m.written, m.number
"""


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
    return _edges(connection, "l.memory", list(memories), "m.number", once, most)


def edges_to(
    connection: sqlite3.Connection, targets: Iterable[str], *, once: bool = False, most: int = -1
) -> list[Edge]:
    """What links to any of these targets; `once`: the first of equal ones."""
    return _edges(connection, "l.target", list(targets), "m.collection, m.id", once, most)


def _edges(
    connection: sqlite3.Connection, column: str, values: object, order: str, once: bool, most: int
) -> list[Edge]:
    among = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own words
    if once:
        among = (
            f"l.rowid IN (SELECT min(l.rowid) FROM links l WHERE {among} "  # noqa: S608 - our own words
            "GROUP BY l.memory, l.target, l.kind, l.edge, l.memory_edge)"
        )
    query = (
        f"SELECT {', '.join(Edge._fields)} FROM links l JOIN memories m ON m.number = l.memory "  # noqa: S608 - our own words
        f"WHERE NOT m.is_gone AND {among} ORDER BY {order}, l.line, l.rowid LIMIT ?"
    )
    return [Edge(*row) for row in connection.execute(query, (json.dumps(values), most))]


def find_superseded(
    connection: sqlite3.Connection, among: Iterable[str] | None = None
) -> dict[str, int]:
    """The memories that another one says it replaces, as `collection/key`, each with that one.

    Of several that replace one the newest counts. `among` are the names in question.
    """
    names = None
    if among is not None:
        names = json.dumps([name for ref in among for name in (ref, ref.rpartition("/")[2])])
    replaced: dict[str, int] = {}
    for target, where, number in connection.execute(_SUPERSEDES, (names,)).fetchall():
        old = resolve_link(connection, target, where)
        row = "SELECT collection, key FROM memories WHERE number = ?"
        for collection, name in connection.execute(row, (old,)):
            if name != key(target).rpartition("/")[2]:
                continue  # what it was merged into is not replaced
            is_bare = "/" not in target and key(collection) != key(where)
            if is_bare and len(numbers_of(connection, None, name)) > 1:
                continue  # nobody knows which of them is meant
            replaced[f"{key(collection)}/{name}"] = number
    return replaced


def named_files(connection: sqlite3.Connection, query: str) -> dict[int, float]:
    """Chunks that link to a file which a question names, with what that is worth."""
    words = [word.strip(_AROUND) for word in query[:2_000].split()]
    if not any("/" in word or "." in word for word in words):
        return {}
    # Their patterns take 20 ms to compile, which a hook has for better things.
    from retain.text.links import normalize_target

    named = [normalize_target(word) for word in words if "/" in word or "." in word]
    found = connection.execute(
        "SELECT DISTINCT (SELECT max(number) FROM chunks c WHERE c.memory = l.memory "
        "AND (c.line <= l.line OR c.number = (SELECT min(number) FROM chunks d "
        "WHERE d.memory = l.memory))) "
        "FROM links l WHERE l.kind = 'ghost' AND l.target IN (SELECT value FROM json_each(?))",
        (json.dumps(named),),
    )
    return {chunk: NAMED for (chunk,) in found if chunk is not None}


def numbers_of(connection: sqlite3.Connection, collection: str | None, name: str) -> list[int]:
    """The memories of that name, in any spelling, in that collection or in any."""
    query = "SELECT number, collection FROM memories WHERE key = ? AND NOT is_gone ORDER BY number"
    return [
        number
        for number, where in connection.execute(query, (key(name),))
        if collection is None or key(where) == key(collection)
    ]


def resolve_link(connection: sqlite3.Connection, target: str, near: str) -> int | None:
    """The memory that a link's target names, if there is one; merged memories live on in one.

    A bare name means the one in the collection `near`, that of the memory with the link, else the
    first of that name.
    """
    name = key(target)
    collection, _, last = name.rpartition("/")
    found = numbers_of(connection, collection if "/" in name else None, last)
    if len(found) > 1 and "/" not in name:
        found = [*numbers_of(connection, near, last), *found]
    if found:
        return found[0]
    row = connection.execute(
        "SELECT memory FROM links WHERE target = ? AND edge = 'merged_from' LIMIT 1", (name,)
    ).fetchone()
    return row[0] if row else None


def ref_of(connection: sqlite3.Connection, number: int) -> str:
    """A memory's id, with its collection if it is in one."""
    query = "SELECT collection, id FROM memories WHERE number = ?"
    collection, name = connection.execute(query, (number,)).fetchone()
    return f"{collection}/{name}" if collection else str(name)


def successors(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """What each of these memories is superseded by, by its own word or the other's."""
    rows = connection.execute(
        "SELECT number, collection, key FROM memories "
        "WHERE number IN (SELECT value FROM json_each(?))",
        (json.dumps(list(numbers)),),
    )
    names = {number: f"{key(collection)}/{name}" for number, collection, name in rows}
    heirs = find_superseded(connection, names.values()) if names else {}
    found = {
        number: ref_of(connection, heirs[name]) for number, name in names.items() if name in heirs
    }
    for edge in edges_from(connection, names):
        # What a memory says of itself counts more; a name that nobody has is told as it is.
        if edge.memory_edge == "superseded_by":
            heir = resolve_link(connection, edge.target, edge.collection)
            found[edge.memory] = edge.target if heir is None else ref_of(connection, heir)
    return found


def successors_of(connection: sqlite3.Connection, memories: Sequence[Memory]) -> dict[str, str]:
    """What each of these memories is superseded by, by the path of its file."""
    paths = {
        number: memory.path
        for memory in memories
        for number in numbers_of(connection, memory.collection, memory.id)
    }
    return {paths[number]: ref for number, ref in successors(connection, paths).items()}


def predecessors_of(connection: sqlite3.Connection, memory: Memory) -> list[str]:
    """The memories that say they are superseded by this one."""
    edges = edges_to(connection, {key(memory.ref), key(memory.id)}, once=True)
    return [
        f"{edge.collection}/{edge.id}" if edge.collection else edge.id
        for edge in edges
        if edge.memory_edge == "superseded_by"
    ]
