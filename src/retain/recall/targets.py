"""What links lead to: a memory, by any name it has or had, or a file, wherever it is now."""

from __future__ import annotations

import posixpath
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index.graph import Edge
from retain.links import normal
from retain.model import Linked
from retain.paths import key

if TYPE_CHECKING:
    from retain.freshness import Project

__all__ = [
    "Document",
    "file_names",
    "last_seen",
    "memory_of",
    "names_of",
    "numbers_of",
    "ref_of",
    "state_of",
]

_MOST_MISSING: Final = 200  # linked files that are not there, looked at for one that moved


class Document(NamedTuple):
    """A file or a memory as a person names it, and the directory they stand in."""

    plain: str
    cwd: str

    @classmethod
    def of(cls, target: str, cwd: str) -> Document:
        plain = target.strip().removeprefix("ghost:").removeprefix("memory:")
        # No file has half a character in its name.
        return cls(plain.encode("utf-8", "replace").decode(), cwd)


def numbers_of(connection: sqlite3.Connection, collection: str | None, name: str) -> list[int]:
    """The memories of that name, in any spelling, in that collection or in any."""
    query = "SELECT number, collection FROM memories WHERE key = ? AND NOT is_gone ORDER BY number"
    return [
        number
        for number, where in connection.execute(query, (key(name),))
        if collection is None or key(where) == key(collection)
    ]


def memory_of(connection: sqlite3.Connection, name: str) -> int | None:
    """The memory that a link's target names, if there is one; merged memories live on in one."""
    collection, _, last = name.rpartition("/")
    found = numbers_of(connection, collection if "/" in name else None, last)
    if found:
        return found[0]
    row = connection.execute(
        "SELECT memory FROM links WHERE target = ? AND edge = 'merged_from' LIMIT 1", (name,)
    ).fetchone()
    return row[0] if row else None


def names_of(connection: sqlite3.Connection, number: int) -> set[str]:
    """Every name a link may call a memory by, those of the memories merged into it as well."""
    collection, name = connection.execute(
        "SELECT collection, key FROM memories WHERE number = ?", (number,)
    ).fetchone()
    merged = connection.execute(
        "SELECT target FROM links WHERE memory = ? AND edge = 'merged_from'", (number,)
    )
    return {name, f"{key(collection)}/{name}", *(target for (target,) in merged)}


def ref_of(connection: sqlite3.Connection, number: int) -> str:
    """A memory's id, with its collection if it is in one."""
    query = "SELECT collection, id FROM memories WHERE number = ?"
    collection, name = connection.execute(query, (number,)).fetchone()
    return f"{collection}/{name}" if collection else str(name)


def file_names(
    connection: sqlite3.Connection, document: Document, project: Project | None
) -> list[str]:
    """What links call a file: its place in the project, and where it stood before it moved."""
    places = project.meant(document.plain, document.cwd) if project else []
    if project is None or not places:
        return [normal(document.plain)]
    if not project.has(places[0]):
        return places
    known = last_seen(connection)
    missing = [one for one in known if one not in places and not project.has(one)]
    # What kept its name is likelier to be the same file; a bank may speak of many that are gone.
    name = posixpath.basename(places[0])
    missing.sort(key=lambda one: posixpath.basename(one) != name)
    moved = [
        one for one in missing[:_MOST_MISSING] if project.check(one, *known[one]).now_at in places
    ]
    return [*places, *moved]


def last_seen(connection: sqlite3.Connection) -> dict[str, tuple[float, str]]:
    """For each ghost, when the memory that saw it last was written, and what it saw."""
    query = (
        "SELECT l.target, m.written, l.seen FROM links l JOIN memories m ON m.number = l.memory "
        "WHERE l.kind = 'ghost' ORDER BY m.written"
    )
    return {target: (written, seen) for target, written, seen in connection.execute(query)}


def state_of(edge: Edge, project: Project | None) -> Linked:
    """A link, and how the file that it leads to is now."""
    found = Linked(
        edge.target, edge.edge, edge.context, edge.line, anchor=edge.anchor, label=edge.label
    )
    if project is None:
        return found
    now = project.check(edge.target, edge.written, edge.seen)
    return found._replace(freshness=now.state, now_at=now.now_at)
