"""Filter expressions: `tags=gpu,metal` (either), `priority!=low`, `title~gpu`; all must hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from retain.errors import BadFilter
from retain.model import Memory

__all__ = ["Filter", "matches", "parse"]

_EXPRESSION = re.compile(r"\s*([A-Za-z_][\w.-]{0,79})\s*(!=|>=|<=|=|>|<|~)(.*)", re.DOTALL)

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
            f"{expression!r} is not a filter",
            hint="Write key=value, key=a,b (either), key!=v, key>=v, key<=v or key~text, "
            "for example --filter tags=gpu,metal",
        )
    key, operator, text = match.groups()
    several = operator in ("=", "!=")
    values = tuple(part.strip() for part in text.split(",")) if several else (text.strip(),)
    return Filter(key, operator, values)


def matches(memory: Memory, filters: Iterable[Filter]) -> bool:
    """Whether a memory meets every filter."""
    return all(_meets(memory, one) for one in filters)


def _meets(memory: Memory, condition: Filter) -> bool:
    found = _values(memory, condition.key)
    if condition.operator == "!=":
        return not any(value in condition.values for value in found)
    if condition.operator == "=":
        return any(value in condition.values for value in found)
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


def _comparable(one: str, other: str) -> tuple[object, object]:
    """Numbers as numbers, everything else (dates, versions, words) as text."""
    try:
        return float(one), float(other)
    except ValueError:
        return one, other
