"""Every rule that a record breaks: those of its category, and those given for its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from retain.schema.given import unfit
from retain.schema.models import json_schema, model_of
from retain.schema.words import Found, Loc, expected, got, required, shown, unknown

__all__ = ["Fault", "faults", "schema_fault"]

_Orders = dict[int, dict[object, int]]


class Fault(NamedTuple):
    """One rule a record breaks: where (`content.steps.0`), what belongs there, what is there."""

    field: str
    expected: str
    got: str


def faults(record: Mapping[str, object], schema: Mapping[str, object] | None = None) -> list[Fault]:
    """Every rule a record breaks, in the order of the record; none if it is in order.

    The record's own category says which rules. `schema` is a JSON Schema for the content besides:
    one that cannot be used is a fault of the field `schema`, and nothing is checked against it.
    """
    named = record.get("category")
    category = named if isinstance(named, str) else ""
    found = list(_broken(record, category))
    content = record.get("content")
    if schema is not None and isinstance(content, dict):
        found += unfit(content, schema)
    orders: _Orders = {}
    found.sort(key=lambda one: _position(record, one[0], orders))
    return [Fault(".".join(map(str, loc)), *rest) for loc, *rest in found]


def schema_fault(schema: Mapping[str, object]) -> str:
    """Why nothing can be checked against a content's JSON Schema; empty if it can."""
    return next((wrong for loc, _, wrong in unfit({}, schema) if loc == ("schema",)), "")


def _broken(record: Mapping[str, object], category: str) -> Iterator[Found]:
    try:
        model_of(category).model_validate(dict(record))
    except ValidationError as error:
        rules = json_schema(category)
        for one in error.errors(include_url=False, include_context=False):
            loc = one["loc"]
            if one["type"] == "missing":
                yield loc, required(_rule(rules, loc)), "nothing"
            elif one["type"] in ("extra_forbidden", "invalid_key"):
                value = _value(record, loc) if one["type"] == "extra_forbidden" else loc[-1]
                yield loc, unknown(_rule(rules, loc[:-1])), shown(value)
            else:
                rule = _rule(rules, loc)
                yield loc, expected(rule), got(one["input"], rule)


def _rule(rules: Mapping[str, Any], loc: Loc) -> Mapping[str, Any]:
    """The part of a JSON Schema that speaks about one place of a record."""
    for part in loc:
        inside = rules.get("items") if isinstance(part, int) else rules["properties"].get(part)
        rules = inside or {}
    return rules


def _value(record: object, loc: Loc) -> object:
    for part in loc:
        record = record[part]  # type: ignore[index]  # the model found a value there
    return record


def _position(record: object, loc: Loc, orders: _Orders) -> tuple[int, ...]:
    """Where in the record a place is; what is not there comes after all that is."""
    places = []
    for part in loc:
        if isinstance(record, Mapping):
            if id(record) not in orders:  # counted once: a record may have as many faults as fields
                orders[id(record)] = {name: place for place, name in enumerate(record)}
            places.append(orders[id(record)].get(part, len(record)))
            record = record.get(part)
        elif isinstance(part, int):
            places.append(part)
            record = record[part] if isinstance(record, list) and part < len(record) else None
    return tuple(places)
