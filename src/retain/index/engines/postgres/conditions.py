"""A sieve as a condition in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString

from retain.index.engines.spelling import kept

if TYPE_CHECKING:
    from psycopg.sql import Composable

    from retain.index.engines.arm import Sieve
    from retain.index.engines.naming import Names


def condition_of(sieve: Sieve, names: Names) -> tuple[Composable, dict[str, object]]:
    """A sieve in SQL; every value goes as a value, never as a part of it."""
    from psycopg.sql import SQL

    parts: list[LiteralString] = ["p.place >= 0"]
    values: dict[str, object] = {}
    if sieve.collections:
        parts.append("p.part = ANY(%(parts)s)")
        values["parts"] = [names.of(collection) for collection in sieve.collections]
    lists: tuple[tuple[LiteralString, str, tuple[str, ...]], ...] = (
        ("p.type = ANY(%(types)s)", "types", sieve.types),
        ("p.tags && %(tags)s::text[]", "tags", sieve.tags),
        ("p.status = ANY(%(statuses)s)", "statuses", sieve.statuses),
        ("NOT p.status = ANY(%(without)s)", "without", sieve.without_statuses),
    )
    for part, name, wanted in lists:
        if wanted:
            parts.append(part)
            values[name] = [kept(value) for value in wanted]
    moments: tuple[tuple[LiteralString, str, float | None], ...] = (
        ("p.created >= %(since)s", "since", sieve.since),
        ("p.created <= %(until)s", "until", sieve.until),
    )
    for part, name, moment in moments:
        if moment is not None:
            parts += ["p.created <> 0", part]
            values[name] = moment
    return SQL(" AND ").join(map(SQL, parts)), values
