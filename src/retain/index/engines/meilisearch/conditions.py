"""What pieces are looked for, as filters of Meilisearch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from retain.index.engines.spelling import word

if TYPE_CHECKING:
    from retain.index.engines.arm import Sieve


def among(field: str, values: Iterable[str]) -> str:
    """A filter for one of these values, which are UUIDs or words of our own spelling."""
    return f"{field} IN [{', '.join(values)}]"


def moment(seconds: float) -> int:
    """A moment as a whole number, which both sides read alike: Meilisearch rounds others."""
    return round(seconds * 1e6)


def elsewhere(places: frozenset[int]) -> str:
    """A filter for all places but these, which as a rule have no gaps."""
    first, last = min(places), max(places)
    gaps = [str(place) for place in range(first, last) if place not in places]
    return f"place < {first} OR place > {last}" + (f" OR {among('place', gaps)}" if gaps else "")


def condition_of(sieve: Sieve) -> str:
    parts = ["place >= 0"]
    for field, values in (("type", sieve.types), ("tags", sieve.tags), ("status", sieve.statuses)):
        if values:
            parts.append(among(field, map(word, values)))
    if sieve.without_statuses:
        parts.append(f"NOT {among('status', map(word, sieve.without_statuses))}")
    if sieve.since is not None or sieve.until is not None:
        parts.append("created != 0")
    if sieve.since is not None:
        parts.append(f"created >= {moment(sieve.since)}")
    if sieve.until is not None:
        parts.append(f"created <= {moment(sieve.until)}")
    return " AND ".join(parts)
