"""Questions about many memories at once: lists, facets, dates and counts, without a file opened."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from retain.index.database import fact
from retain.index.graph import find_superseded
from retain.memory import Data, key

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_DAY: Final = "substr(created, 1, 10)"

# By what a list is sorted: a column, and whether the highest comes first.
ORDERS: Final[Mapping[str, tuple[str, bool]]] = {
    "updated": ("written", True),  # as the memory says, or else its file
    "created": ("created", True),
    "oldest": ("created", False),
    "title": ("lower(title)", False),
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
    scope: tuple[str, ...] = ()


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
    changed: float  # when it was written last, as the memory or else its file says
    is_superseded: bool
    problem: str
    start: str  # how its text begins
    scope: str = ""


class Page(NamedTuple):
    """One page of a list, and what all of it is made of."""

    total: int
    memories: tuple[Listed, ...]
    facets: Mapping[str, Mapping[str, int]]


class Survey(NamedTuple):
    """All memories of a bank that were chosen, in order, and how many there are of each value."""

    found: Sequence[tuple[Any, int]]  # what they are sorted by, and their numbers
    facets: Mapping[str, Counter[str]]


def survey(
    connection: sqlite3.Connection, chosen: Chosen, order: str = "updated", scope: str = ""
) -> Survey:
    """The memories of one bank that were chosen."""
    column, is_descending = ORDERS[order]
    direction = "DESC" if is_descending else "ASC"
    condition, values = _condition(chosen, scope)
    query = (
        f"SELECT {column}, number FROM memories m WHERE {condition} "  # noqa: S608 - our own words
        f"ORDER BY 1 {direction}, 2 {direction}"
    )
    found = connection.execute(query, values).fetchall()
    return Survey(found, count_facets(connection, chosen, scope))


# What a memory has of each facet.
_VALUES: Final = {
    "scope": ":scope",
    "collection": "collection",
    "type": "m.type",
    "status": "status",
    "tag": "t.value",
    "month": "substr(created, 1, 7)",
}
FACETS: Final = tuple(_VALUES)


def count_facets(
    connection: sqlite3.Connection,
    chosen: Chosen,
    scope: str,
    among: Sequence[int] | None = None,
) -> dict[str, Counter[str]]:
    """How many memories each value of each facet has; a facet counts as if it were not chosen."""
    counts = {}
    for facet, value in _VALUES.items():
        condition, values = _condition(chosen, scope, facet, among)
        tables = "memories m, json_each(tags) t" if facet == "tag" else "memories m"
        query = f"SELECT {value}, count(DISTINCT number) FROM {tables} WHERE {condition} GROUP BY 1"  # noqa: S608 - our own words
        counts[facet] = Counter(dict(connection.execute(query, values)))
    return counts


def _condition(
    chosen: Chosen, scope: str, besides: str = "", among: Sequence[int] | None = None
) -> tuple[str, dict[str, str]]:
    """The condition that only memories fulfil which were chosen, whatever one facet says."""
    conditions, values = ["NOT is_gone"], {"scope": scope}
    for facet, value in _VALUES.items():
        if facet != besides and (wanted := getattr(chosen, facet)):
            of_these = f"IN (SELECT value FROM json_each(:{facet}s))"  # noqa: S608 - our own words
            has_tag = f"EXISTS (SELECT 1 FROM json_each(tags) WHERE value {of_these})"  # noqa: S608 - our own words
            conditions.append(has_tag if facet == "tag" else f"{value} {of_these}")
            values[f"{facet}s"] = json.dumps(wanted)
    if not chosen.status and besides != "status":
        conditions.append("status <> 'retired'")
    for sign, day in ((">=", "since"), ("<=", "until")):
        if getattr(chosen, day):
            conditions.append(f"{_DAY} {sign} :{day} AND date({_DAY}) = {_DAY}")  # if it is one
            values[day] = getattr(chosen, day)
    if among is not None:
        conditions.append("number IN (SELECT value FROM json_each(:among))")
        values["among"] = json.dumps(among)
    return " AND ".join(conditions), values


@lru_cache(maxsize=50_000)
def parse_tags(tags: str) -> tuple[str, ...]:
    """Tags as the index keeps them, each once; many memories have the same."""
    return () if tags == "[]" else tuple(dict.fromkeys(json.loads(tags)))


def find_titles(connection: sqlite3.Connection, words: Sequence[str], limit: int) -> list[int]:
    """Memories in force whose title or name has all of these words, or beginnings of words.

    Those that begin with the first word come first, then those in which any word does.
    """
    wanted = [word.casefold() for word in words]
    query = (
        "SELECT number, title, id, collection || '/' || id, written FROM memories "
        "WHERE NOT is_gone AND status <> 'retired'"
    )
    found = []
    for number, title, name, ref, written in connection.execute(query):
        named = f"{title} {ref}".casefold()
        if wanted and all(word in named for word in wanted):
            is_first = any(text.casefold().startswith(wanted[0]) for text in (title, name))
            # A name's own words stand between slashes and dashes.
            is_inner = any(word.startswith(wanted[0]) for word in re.split(r"[\s/-]", named))
            found.append((not is_first, not is_inner, len(title), -written, number))
    return [row[-1] for row in sorted(found)[:limit]]


def list_memories(
    connection: sqlite3.Connection, numbers: Sequence[int], scope: str = ""
) -> dict[int, Listed]:
    """These memories, by number, as a list shows them."""
    rows = connection.execute(
        "SELECT number, collection, id, file, title, type, status, tags, created, written, "
        "is_superseded, problem, (SELECT substr(text, 1, 400) FROM chunks WHERE memory = "
        "memories.number ORDER BY chunks.number LIMIT 1) FROM memories "
        "WHERE number IN (SELECT value FROM json_each(?))",
        (json.dumps(list(numbers)),),
    ).fetchall()
    names = {row[0]: f"{key(row[1])}/{key(row[2])}" for row in rows}
    replaced = find_superseded(connection, names.values())
    memories = {}
    for number, *fields in rows:
        memory = Listed._make([*fields, scope])
        memories[number] = memory._replace(
            tags=parse_tags(fields[6]),
            is_superseded=bool(fields[9]) or names[number] in replaced,
            start=memory.start or "",
        )
    return memories


# In time


class Dated(NamedTuple):
    """A memory in time."""

    collection: str
    id: str
    title: str
    type: str
    status: str
    tags: tuple[str, ...]
    created: str
    updated: str
    created_by: str
    source: str
    changes: tuple[Mapping[str, Any], ...]  # what a typed memory tells of itself
    ended: str = ""  # when it was retired or archived, if it is
    reason: str = ""


def list_dates(connection: sqlite3.Connection) -> list[Dated]:
    """Every memory with its times, in no order."""
    query = (
        "SELECT collection, id, title, type, status, tags, created, modified, meta "
        "FROM memories WHERE NOT is_gone"
    )
    memories = []
    for *names, tags, created, modified, meta in connection.execute(query):
        fields = json.loads(meta)
        since = created or datetime.fromtimestamp(modified / 1e9, UTC).strftime(_TIME)
        author, source, ended, reason = (
            str(fields.get(name) or "")
            for name in ("created_by", "source", f"{names[-1]}_at", f"{names[-1]}_reason")
        )
        updated, changes = str(fields.get("updated_at") or since), fields.get("changes")
        changes = (
            [one for one in changes if isinstance(one, dict)] if isinstance(changes, list) else []
        )
        times = (parse_tags(tags), since, updated, author, source, tuple(changes), ended, reason)
        memories.append(Dated._make([*names, *times]))
    return memories


# Counted


class Facts(NamedTuple):
    """An index at a glance."""

    memories: int = 0
    size: int = 0  # of the memories' files
    chunks: int = 0
    vectors: int = 0
    pending: int = 0
    held: int = 0
    model: str = ""

    def to_dict(self) -> Data:
        counts = {name: getattr(self, name) for name in ("chunks", "vectors", "pending", "held")}
        return {**counts, "model": self.model or None}


def facts(connection: sqlite3.Connection) -> Facts:
    """Count what the index holds."""
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE NOT is_gone), "
        "coalesce(sum(size) FILTER (WHERE NOT is_gone), 0), (SELECT chunks FROM totals), "
        "(SELECT count(*) FROM vectors), (SELECT count(*) FROM pending), "
        "count(*) FILTER (WHERE is_gone) FROM memories"
    ).fetchone()
    return Facts._make([*row, str(fact(connection, "model") or "")])


class Census(NamedTuple):
    """The memories of which nothing is to be said but how many they are."""

    counts: Sequence[tuple[str, str, str, int, int]]  # collection, type, status, memories, bytes
    files: Set[tuple[str, str]]  # their collections and file names


def census(connection: sqlite3.Connection) -> Census:
    """Count the memories that are not odd."""
    condition = "FROM memories WHERE NOT is_gone AND NOT is_odd"
    counts = f"SELECT collection, type, status, count(*), sum(size) {condition} GROUP BY 1, 2, 3"
    files = f"SELECT collection, file {condition}"
    return Census(connection.execute(counts).fetchall(), set(connection.execute(files)))


def files(connection: sqlite3.Connection) -> Set[tuple[str, str]]:
    """Collection and name of every file that the index knows."""
    return set(connection.execute("SELECT collection, file FROM memories WHERE NOT is_gone"))


def count_tags(connection: sqlite3.Connection) -> Mapping[str, int]:
    """How many memories bear each tag, the most common first."""
    return _count(connection, "t.value", "memories m, json_each(m.tags) t")


def count_types(connection: sqlite3.Connection) -> Mapping[str, int]:
    """How many memories are of each type, the most common first."""
    return _count(connection, "type", "memories m")


def _count(connection: sqlite3.Connection, value: str, tables: str) -> Mapping[str, int]:
    query = f"SELECT {value}, count(*) FROM {tables} WHERE NOT m.is_gone GROUP BY 1"  # noqa: S608 - our own names
    return dict(connection.execute(f"{query} ORDER BY count(*) DESC, 1"))
