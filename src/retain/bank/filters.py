"""Filter expressions: `tags=gpu,metal` (either), `priority!=low`, `title~gpu`; all must hold."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from retain.errors import BadFilter
from retain.memory import Memory, parse_time

_EXPRESSION = re.compile(r"\s*([^\W\d][\w.-]{0,79})\s*(!=|>=|<=|=|>|<|~)(.*)", re.DOTALL)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip


class Filter(NamedTuple):
    """One condition on a memory."""

    key: str
    operator: str
    values: tuple[str, ...]


def parse(expression: str) -> Filter:
    """Read one expression, or BadFilter with an example."""
    match = _EXPRESSION.fullmatch(expression)
    if not match:
        raise BadFilter(
            f"{expression[:80]!r} is not a filter",
            hint="Write key=value, key=a,b (either), key!=v, key>=v, key<=v or key~text, "
            "for example --filter tags=gpu,metal",
        )
    key, sign, text = match.groups()
    values = text.split(",") if sign in ("=", "!=") else [text]
    if key.endswith("_at") and sign in _ORDER and not text.strip()[:4].isdecimal():
        raise BadFilter(
            f"{key} is compared with a date, and {text.strip()[:80]!r} is none",
            hint=f"Write a date, for example --filter '{key}{sign}2026-01-31'.",
        )
    return Filter(key, sign, tuple(map(str.strip, values)))


def matches(memory: Memory, filters: Iterable[Filter]) -> bool:
    """Whether a memory meets every filter."""
    return all(_meets(_values(memory, condition.key), *condition) for condition in filters)


def _meets(values: list[str], key: str, sign: str, wanted: tuple[str, ...]) -> bool:
    if sign == "~":
        return any(wanted[0].casefold() in value.casefold() for value in values)
    if sign in _ORDER:
        if key.endswith("_at") or (_DAY.match(wanted[0]) and parse_time(wanted[0])):
            values = [value for value in values if parse_time(value)]  # no other is before or after
        return any(_ORDER[sign](*_comparable(value, wanted[0])) for value in values)
    if key == "tags":  # as search compares them
        values, wanted = [*map(str.casefold, values)], tuple(map(str.casefold, wanted))
    is_there = any(_equal(value, other) for value in values for other in wanted)
    return is_there == (sign == "=")


def _values(memory: Memory, key: str) -> list[str]:
    """A key's values as text; the fields every memory has answer even without frontmatter."""
    if key in ("id", "collection", "title", "type", "status", "scope"):
        return [str(getattr(memory, key))]
    if key in ("tags", "related_to"):
        return list(getattr(memory, key))
    value: object = memory.meta
    for part in [key] if key in memory.meta else key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    items = value if isinstance(value, list) else [value]
    present = (item for item in items if item is not None)
    return [str(item).lower() if isinstance(item, bool) else str(item) for item in present]


def _equal(value: str, wanted: str) -> bool:
    if _DAY.match(value) and _DAY.fullmatch(wanted):
        one, other = _comparable(value, wanted)
        return one == other
    return value == wanted or (value in ("true", "false") and value == wanted.lower())


def _comparable(value: str, wanted: str) -> tuple[object, object]:
    """Numbers as numbers, times as times, a time and a day as days, everything else as text."""
    if _DAY.match(wanted):
        one, other = parse_time(value), parse_time(wanted)
        if one and other:
            return (one.date(), other.date()) if _DAY.fullmatch(wanted) else (one, other)
    try:
        return float(value), float(wanted)
    except ValueError:
        return value, wanted
