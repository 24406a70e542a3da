"""A sieve in the service's own language, and the same for a piece whose values are here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from retain.index.engines.arm import Sieve

DEAD: Final = "~grave"  # the space of what marks a deleted memory
# Nothing here can end a quotation; whatever else a value has, only its digest is compared.
_SAFE: Final = re.compile(r"[A-Za-z0-9 _./:@+-]{1,60}")


def token(value: str) -> str:
    """A value as it is compared: itself, or its digest where it has anything unusual."""
    if _SAFE.fullmatch(value):
        return value
    return f"~{hashlib.sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def condition_of(sieve: Sieve, model: str) -> str:
    """A sieve in the service's own language."""
    found = [f"space = '{token(model)}'"]
    for field, values in (
        ("collection", sieve.collections),
        ("type", sieve.types),
        ("status", sieve.statuses),
    ):
        if values:
            found.append(f"{field} IN ({_list(values)})")
    if sieve.without_statuses:
        found.append(f"status NOT IN ({_list(sieve.without_statuses)})")
    if sieve.tags:
        either = (f"tags CONTAINS '{token(tag)}'" for tag in sieve.tags)
        found.append(f"({' OR '.join(either)})")
    if sieve.since is not None:
        found.append(f"created >= {sieve.since:.6f}")
    if sieve.until is not None:
        found.append(f"created <= {sieve.until:.6f}")
    if sieve.since is not None or sieve.until is not None:
        found.append("created != 0")
    return " AND ".join(found)


def _list(values: Iterable[str]) -> str:
    return ", ".join(f"'{token(value)}'" for value in values)


def passes(said: Mapping[str, Any], sieve: Sieve) -> bool:
    """The same for a piece whose values are here."""
    if said["space"] == DEAD:
        return False
    for field, values in (
        ("collection", sieve.collections),
        ("type", sieve.types),
        ("status", sieve.statuses),
    ):
        if values and said[field] not in map(token, values):
            return False
    if said["status"] in map(token, sieve.without_statuses):
        return False
    if sieve.tags and not set(said["tags"]) & set(map(token, sieve.tags)):
        return False
    return _is_within(float(said["created"]), sieve)


def _is_within(created: float, sieve: Sieve) -> bool:
    if sieve.since is None and sieve.until is None:
        return True
    after = sieve.since is None or created >= sieve.since
    return created != 0 and after and (sieve.until is None or created <= sieve.until)
