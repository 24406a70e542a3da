"""Memories listed from the index: chosen, sorted and counted, without a file opened."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["FACETS", "ORDERS", "Chosen", "Listed", "Shelf", "shelf"]

FACETS: Final = ("collection", "type", "status", "tag", "month")
ORDERS: Final = {
    "updated": "modified DESC, number DESC",
    "created": "created DESC, number DESC",
    "oldest": "created, number",
    "title": "title COLLATE NOCASE, number",
}


class Chosen(NamedTuple):
    """What a person looks through; a facet without values leaves out nothing."""

    collection: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    status: tuple[str, ...] = ()  # retired ones are listed only when named
    tag: tuple[str, ...] = ()
    month: tuple[str, ...] = ()  # 2026-11
    since: str = ""  # dates, both included
    until: str = ""


class Listed(NamedTuple):
    """A memory in a list."""

    collection: str
    id: str
    file: str
    title: str
    type: str
    status: str
    tags: tuple[str, ...]
    created: str
    modified: float
    is_superseded: bool
    problem: str
    start: str  # how its text begins


class Shelf(NamedTuple):
    """One page of a list, and what all of it is made of."""

    total: int
    memories: tuple[Listed, ...]
    facets: Mapping[str, Mapping[str, int]]


class _Row(NamedTuple):
    number: int
    collection: str
    type: str
    status: str
    tags: str
    created: str

    def values(self, facet: str) -> Sequence[str]:
        if facet == "tag":
            return () if self.tags == "[]" else json.loads(self.tags)
        return (self.created[:7],) if facet == "month" else (getattr(self, facet),)


def shelf(
    connection: sqlite3.Connection,
    chosen: Chosen,
    order: str = "updated",
    limit: int = 50,
    offset: int = 0,
) -> Shelf:
    """The memories that were chosen; each facet counts what its own choice would leave."""
    rows = connection.execute(
        "SELECT number, collection, type, status, tags, created FROM memories "  # noqa: S608 - ours
        f"WHERE NOT is_gone ORDER BY {ORDERS[order]}"
    )
    counts: dict[str, Counter[str]] = {facet: Counter() for facet in FACETS}
    found: list[int] = []
    for row in map(_Row._make, rows):
        failing = _failing(row, chosen)
        if not failing:
            found.append(row.number)
        if len(failing) < 2:
            for facet in failing or FACETS:
                if facet in counts:
                    counts[facet].update(row.values(facet))
    page = found[offset : offset + limit]
    return Shelf(
        len(found),
        tuple(_listed(connection, page)),
        {facet: dict(counter.most_common()) for facet, counter in counts.items()},
    )


def _failing(row: _Row, chosen: Chosen) -> list[str]:
    """The facets whose choice leaves a memory out."""
    failing = [
        facet
        for facet in FACETS
        if (wanted := getattr(chosen, facet)) and not set(wanted).intersection(row.values(facet))
    ]
    if row.status == "retired" and not chosen.status:
        failing.append("status")
    day = row.created[:10]
    if (chosen.since and day < chosen.since) or (chosen.until and day > chosen.until):
        failing.append("date")
    return failing


def _listed(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[Listed]:
    marks = ",".join("?" * len(numbers))
    rows = connection.execute(
        "SELECT number, collection, id, file, title, type, status, tags, created, modified, "  # noqa: S608 - marks alone
        "is_superseded, problem, (SELECT substr(text, 1, 400) FROM chunks WHERE memory = "
        f"memories.number ORDER BY chunks.number LIMIT 1) FROM memories WHERE number IN ({marks})",
        numbers,
    )
    by_number = {row[0]: _as_listed(*row[1:]) for row in rows}
    return [by_number[number] for number in numbers if number in by_number]


def _as_listed(*row: Any) -> Listed:
    *named, tags, created, modified, is_superseded, problem, start = row
    shown = tuple(json.loads(tags))
    facts = (created, modified / 1e9, bool(is_superseded), problem, start or "")
    return Listed._make([*named, shown, *facts])
