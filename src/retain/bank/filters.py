"""Filter expressions: `tags=gpu,metal` (either), `priority!=low`, `title~gpu`; all must hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import BadFilter
from retain.memory import Memory

if TYPE_CHECKING:
    from datetime import datetime


_EXPRESSION = re.compile(r"\s*([^\W\d][\w.-]{0,79})\s*(!=|>=|<=|=|>|<|~)(.*)", re.DOTALL)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_ORDER: Final[Mapping[str, Callable[[object, object], bool]]] = {
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    "<": lambda a, b: a < b,  # type: ignore[operator]
}


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
    key, operator, text = match.groups()
    several = operator in ("=", "!=")
    values = tuple(part.strip() for part in text.split(",")) if several else (text.strip(),)
    if key.endswith("_at") and operator in _ORDER and not text.strip()[:4].isdecimal():
        raise BadFilter(
            f"{key} is compared with a date, and {values[0][:80]!r} is none",
            hint=f"Write a date, for example --filter '{key}{operator}2026-01-31'.",
        )
    return Filter(key, operator, values)


def matches(memory: Memory, filters: Iterable[Filter]) -> bool:
    """Whether a memory meets every filter."""
    return all(_meets(memory, one) for one in filters)


def _meets(memory: Memory, condition: Filter) -> bool:
    found = _values(memory, condition.key)
    if condition.operator in ("=", "!="):
        wanted_values = condition.values
        if condition.key == "tags":  # as search compares them
            found = [value.casefold() for value in found]
            wanted_values = tuple(value.casefold() for value in wanted_values)
        is_there = any(_equal(value, one) for value in found for one in wanted_values)
        return is_there == (condition.operator == "=")
    wanted = condition.values[0]
    if condition.operator == "~":
        return any(wanted.casefold() in value.casefold() for value in found)
    compare = _ORDER[condition.operator]
    return any(compare(*_comparable(value, wanted)) for value in found)


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
    return [_shown(item) for item in items if item is not None]


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _equal(value: str, wanted: str) -> bool:
    if _DAY.match(value) and _DAY.fullmatch(wanted):
        one, other = _comparable(value, wanted)
        return one == other
    return value == wanted or (value in ("true", "false") and value == wanted.lower())


def _comparable(value: str, wanted: str) -> tuple[object, object]:
    """Numbers as numbers, times as times, a time and a day as days, everything else as text."""
    if _DAY.match(value) and _DAY.match(wanted):
        one, other = _moment(value), _moment(wanted)
        if one and other:
            return (one.date(), other.date()) if _DAY.fullmatch(wanted) else (one, other)
    try:
        return float(value), float(wanted)
    except ValueError:
        return value, wanted


def _moment(text: str) -> datetime | None:
    """A time in UTC, which is also what a time without a zone is taken for."""
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
