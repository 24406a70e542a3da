"""Memories connected with one: by links, by files and tags they share, and by meaning."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from retain.errors import NotFound
from retain.index import graph
from retain.indexed import Indexed
from retain.paths import key, split_ref
from retain.recall.targets import memory_of, names_of, numbers_of
from retain.similar import nearest

__all__ = ["Related", "related"]

_SHARED_TAG: Final = 0.1  # what a shared tag adds, at most three times
_LINK: Final = 0.4
_SIMILAR: Final = 0.3  # cosine below which two memories have nothing to do with each other
_SHARED_FILE: Final = 0.15


class Related(NamedTuple):
    """A memory that is connected with another, and by what."""

    id: str
    collection: str
    title: str
    score: float
    reasons: Mapping[str, float]


def related(bank: Indexed, ref: str, limit: int) -> list[Related]:
    """Memories connected with one: by links, files, tags or meaning, the strongest first."""
    return bank.read(lambda connection: _related(bank, connection, ref, limit))


def _related(bank: Indexed, connection: sqlite3.Connection, ref: str, limit: int) -> list[Related]:
    collection, name = split_ref(ref)
    found = numbers_of(connection, collection, name)
    if not found:
        raise NotFound(f"there is no memory {ref!r}")
    reasons = _reasons(connection, found[0], nearest(bank, connection, found[0]))
    names = {
        number: (collection, name, title)
        for number, collection, name, title in connection.execute(
            "SELECT number, collection, id, title FROM memories WHERE NOT is_gone "
            "AND status <> 'retired'"
        )
    }
    made = [
        Related(names[n][1], names[n][0], names[n][2], round(min(1.0, sum(why.values())), 4), why)
        for n, why in reasons.items()
        if n in names
    ]
    return sorted(made, key=lambda one: (-one.score, one.collection, one.id))[:limit]


def _reasons(
    connection: sqlite3.Connection, number: int, near: Mapping[int, float]
) -> dict[int, dict[str, float]]:
    """Other memories by what connects them: links, shared files, shared tags, nearness."""
    reasons: dict[int, dict[str, float]] = defaultdict(dict)
    for other, score in near.items():
        if score >= _SIMILAR:
            reasons[other]["similar"] = score
    for other in _neighbours(connection, number):
        reasons[other]["linked"] = _LINK
    for other, count in _sharing_files(connection, number):
        reasons[other]["shared files"] = _SHARED_FILE * min(count, 3)
    for other, count in _sharing_tags(connection, number):
        reasons[other]["shared tags"] = _SHARED_TAG * min(count, 3)
    reasons.pop(number, None)
    return reasons


def _neighbours(connection: sqlite3.Connection, number: int) -> Iterable[int]:
    for edge in graph.edges_from(connection, [number], once=True):
        other = memory_of(connection, key(edge.target))
        if other is not None:
            yield other
    for edge in graph.edges_to(connection, names_of(connection, number), once=True):
        yield edge.memory


def _sharing_files(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    query = (
        "SELECT memory, count(DISTINCT target) FROM links WHERE kind = 'ghost' AND target IN "
        "(SELECT target FROM links WHERE memory = ? AND kind = 'ghost') GROUP BY memory"
    )
    return list(connection.execute(query, (number,)))


def _sharing_tags(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    query = (
        "SELECT m.number, count(*) FROM memories m, json_each(m.tags) t WHERE NOT m.is_gone "
        "AND t.value IN (SELECT o.value FROM memories s, json_each(s.tags) o WHERE s.number = ?) "
        "GROUP BY m.number"
    )
    return list(connection.execute(query, (number,)))
