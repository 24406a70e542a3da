"""What points are looked for, in Qdrant's words: a sieve, memories, versions beside another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from retain.index.engines.arm import GRAVE, Sieve

if TYPE_CHECKING:
    from qdrant_client.http import models as q

    from retain.index.engines.qdrant.points import Version


def equal(field: str, value: str | int) -> Any:
    return {"key": field, "match": {"value": value}}


def _in(field: str, values: Iterable[str]) -> Any:
    return {"key": field, "match": {"any": list(values)}}


def any_of(field: str, values: Iterable[str]) -> dict[str, list[Any]]:
    """A filter as it is written in a request."""
    return {"must": [_in(field, values)]}


def either(conditions: Iterable[Any]) -> q.Filter:
    from qdrant_client.http import models as q

    return q.Filter(should=list(conditions))


def buried(before: int) -> q.Filter:
    """The graves that are older than this second."""
    from qdrant_client.http import models as q

    older = q.FieldCondition(key="second", range=q.Range(lt=before))
    return q.Filter(must=[equal("place", GRAVE), older])


def sieved(sieve: Sieve, more: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """A filter as it is written in a request; an empty list in it sets no condition."""
    wanted, unwanted = [*more.get("must", ())], [*more.get("must_not", ())]
    for field, values in (
        ("collection", sieve.collections),
        ("type", sieve.types),
        ("tags", sieve.tags),
        ("status", sieve.statuses),
    ):
        if values:
            wanted.append(_in(field, values))
    if sieve.without_statuses:
        unwanted.append(_in("status", sieve.without_statuses))
    if sieve.since is not None or sieve.until is not None:
        limits = {"gte": sieve.since, "lte": sieve.until}
        within = {name: at for name, at in limits.items() if at is not None}
        wanted.append({"key": "created", "range": within})
        unwanted.append({"key": "created", "range": {"gte": 0.0, "lte": 0.0}})
    return {"must": wanted, "must_not": unwanted}


def _beside(memory: str, version: Version, *, newer: bool) -> q.Filter:
    """The pieces of a memory that are of a newer version than this, or of an older one."""
    from qdrant_client.http import models as q

    def beyond(field: str, value: int) -> q.FieldCondition:
        limits = q.Range(gt=value) if newer else q.Range(lt=value)
        return q.FieldCondition(key=field, range=limits)

    tie = q.Filter(must=[equal("second", version.second), beyond("order", version.order)])
    return q.Filter(must=[equal("memory", memory)], should=[beyond("second", version.second), tie])


def _newer(memory: str, version: Version) -> q.Filter:
    return _beside(memory, version, newer=True)


def older_than(memory: str, version: Version) -> q.Filter:
    return _beside(memory, version, newer=False)


def not_newer(memory: str, version: Version) -> q.Filter:
    from qdrant_client.http import models as q

    return q.Filter(must=[equal("memory", memory)], must_not=[_newer(memory, version)])
