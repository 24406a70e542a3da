"""Rules and values in words, as a person would say them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from retain.schema.models import ID, NAME

__all__ = ["Found", "Loc", "expected", "got", "required", "shown", "unknown"]

Loc = tuple[int | str, ...]
Found = tuple[Loc, str, str]  # where, what belongs there, what is there

_SHOWN: Final = 80
_IN_WORDS: Final[Mapping[str, str]] = {
    ID: "1 to 80 characters of a-z, 0-9 and '-', with no '-' at either end",
    NAME: "a category's name: 1 to 40 characters of a-z, 0-9 and '_', the first a letter",
}


def expected(rule: Mapping[str, Any]) -> str:
    """What a JSON Schema asks for, as a person would say it."""
    if "const" in rule:
        return f"exactly {shown(rule['const'])}"
    if "enum" in rule:
        return "one of " + ", ".join(map(_bare, rule["enum"]))
    if said := _IN_WORDS.get(rule.get("pattern", "")):
        return said
    kinds = _kinds(rule)
    return " or ".join(_of_kind(kind, rule) for kind in kinds) or "another value"


def _of_kind(kind: str, rule: Mapping[str, Any]) -> str:
    words = {
        "string": "a string" + _range(rule, "Length", "of", "character"),
        "array": "a list" + _range(rule, "Items", "with", "item"),
        "object": "an object" + _fields(rule),
        "boolean": "true or false",
        "integer": "a whole number" + _limits(rule),
        "number": "a number" + _limits(rule),
        "null": "null",
    }
    matching = f" that matches {rule['pattern']}" if kind == "string" and "pattern" in rule else ""
    return words[kind] + matching


def _range(rule: Mapping[str, Any], what: str, joined: str, unit: str) -> str:
    ends = (("at least", rule.get(f"min{what}")), ("at most", rule.get(f"max{what}")))
    said = [f"{end} {count} {unit}{'' if count == 1 else 's'}" for end, count in ends if count]
    return f" {joined} {' and '.join(said)}" if said else ""


def _limits(rule: Mapping[str, Any]) -> str:
    least, most = rule.get("minimum"), rule.get("maximum")
    if least is not None and most is not None:
        return f" from {least} to {most}"
    if least is not None:
        return f" of at least {least}"
    return "" if most is None else f" of at most {most}"


def _fields(rule: Mapping[str, Any]) -> str:
    names = rule.get("properties")
    return f" with the fields {', '.join(names)}" if names else ""


def required(rule: Mapping[str, Any]) -> str:
    said = expected(rule) if rule else "any value"
    return f"{said} (required)"


def unknown(rule: Mapping[str, Any]) -> str:
    return f"no field of this name (fields: {', '.join(rule.get('properties') or ('none',))})"


def _kinds(rule: Mapping[str, Any]) -> list[str]:
    given = rule.get("type")
    if given is None:
        values = [rule["const"]] if "const" in rule else rule.get("enum", ())
        return list(dict.fromkeys(map(_kind, values)))
    return [given] if isinstance(given, str) else list(given)


def _kind(value: object) -> str:
    """What JSON calls a value."""
    named: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        ((list, tuple), "array"),
        (Mapping, "object"),
    )
    if value is None:
        return "null"
    return next((name for kind, name in named if isinstance(value, kind)), type(value).__name__)


def got(value: object, rule: Mapping[str, Any]) -> str:
    """A value for a message, with its type where that is what is wrong."""
    kind, wanted = _kind(value), _kinds(rule)
    fits = kind in wanted or (kind == "integer" and "number" in wanted)
    if wanted and not fits and value is not None:
        return f"{shown(value)} ({'list' if kind == 'array' else kind})"
    return shown(value)


def shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    except (ValueError, RecursionError):  # thousands of digits, or of levels
        return f"a value too large to show ({_kind(value)})"
    if len(text) > _SHOWN:
        text = f"{text[: _SHOWN - 3]}..."
    # An escape sequence or a turned direction in a stranger's file is not for a terminal.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _bare(value: object) -> str:
    return value if isinstance(value, str) else shown(value)
