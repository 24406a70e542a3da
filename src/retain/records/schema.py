"""What a record must look like: the JSON Schema of its category, and what it breaks in words.

The schemas of the six lie in `retain/schemas`. A category of a person's own may have one for its
content. Since that may be a stranger's, only a few keywords are known, none of which refers to
another place, and patterns are matched by an engine that takes linear time.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from retain.categories import DEFAULTS, Rules
from retain.errors import RecordError
from retain.text.frontmatter import is_deep, same

Record = dict[str, Any]
Rule = Mapping[str, Any]

ID: Final = "^[a-z0-9]([a-z0-9-]{0,78}[a-z0-9])?$"

_FOLDER: Final = os.path.join(os.path.dirname(__file__), os.pardir, "schemas")
_MAX_SHOWN: Final = 80  # characters of a value in a message
# The types of values by their names in JSON Schema, and how they are said.
_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
    "string": (str, "a string"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
    "null": (type(None), "null"),
}
# What each limit speaks of, and how it is said.
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "minLength": ("string", "of at least {} characters"),
    "maxLength": ("string", "of at most {} characters"),
    "minItems": ("array", "with at least {} items"),
    "maxItems": ("array", "with at most {} items"),
    "minimum": ("number", "of at least {}"),
    "maximum": ("number", "of at most {}"),
}
_ANNOTATIONS: Final = ("title", "description", "default", "examples", "format", "$schema", "$id")
# The schema of a schema: the keywords that are known, some of which say nothing of a value.
_META: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "type": {"type": ["string", "array"]},
        "properties": {"type": "object"},
        "required": {"type": "array", "items": {"type": "string"}},
        "additionalProperties": {"type": "boolean"},
        "items": {"type": "object"},
        "enum": {"type": "array"},
        "const": {},
        "pattern": {"type": "string"},
        **{keyword: {"type": "number"} for keyword in _LIMITS},
        **{keyword: {} for keyword in _ANNOTATIONS},
    },
    "additionalProperties": False,
}


class Fault(NamedTuple):
    """One rule a record breaks: where (`content.steps.0`), what belongs there, what is there."""

    field: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected}; got {self.got}"


def validation_error(faults: Sequence[Fault], hint: str = "") -> RecordError:
    """Make the error of a record with fields that its category does not allow."""
    message = "\n".join(map(str, faults))
    facts = (fault._asdict() for fault in faults)
    return RecordError("VALIDATION_ERROR", message, *facts, hint=hint)


@cache
def load_schema(category: str) -> Rule:
    """Return the JSON Schema of a record; in one of a person's own any object is content."""
    name = category.replace("_", "-") if category in DEFAULTS else "base"
    with open(os.path.join(_FOLDER, f"{name}.schema.json"), encoding="utf-8") as file:
        schema: dict[str, Any] = json.load(file)
    if category not in DEFAULTS:
        schema["properties"]["category"] = {"const": category}
    return schema


def check(record: Record, rules: Rules) -> None:
    """Refuse a record that its schema does not allow, with every fault named."""
    name = str(record.get("category"))
    category = rules.category(name)
    if category is None:
        raise validation_error([Fault("category", f"one of {', '.join(rules.categories)}", name)])
    if faults := find_faults(record, category.schema):
        raise validation_error(faults)


def find_faults(record: Mapping[str, object], schema: Rule | None = None) -> list[Fault]:
    """Return every rule a record breaks; its own category says which rules.

    `schema` is a JSON Schema for the content besides: one that cannot be used is a fault of the
    field `schema`, and nothing is checked against it.
    """
    faults = list(_check(record, load_schema(str(record.get("category"))), ""))
    content = record.get("content")
    if schema is not None and isinstance(content, dict):
        faults += find_schema_faults(schema) or _check(content, schema, "content")
    return list(dict.fromkeys(faults))


def find_schema_faults(schema: object, place: str = "schema") -> list[Fault]:
    """Return why nothing can be checked against a JSON Schema for a content; none if it can."""
    if is_deep(schema):
        return [Fault(place, "a schema that is not so deep", "deeper nesting")]
    faults = list(_check(schema, _META, place))
    if faults or not isinstance(schema, dict):
        return faults
    if not all(name in _TYPES for name in types(schema)):
        faults.append(Fault(f"{place}.type", f"one of {', '.join(_TYPES)}", _show(schema["type"])))
    if "pattern" in schema and _matcher(schema["pattern"]) is None:
        usable = "a regular expression that does not look around"
        faults.append(Fault(f"{place}.pattern", usable, _show(schema["pattern"])))
    parts = {"items": schema["items"]} if "items" in schema else {}
    for name, part in (parts | schema.get("properties", {})).items():
        faults += find_schema_faults(part, f"{place}.{name}")
    return faults


@cache
def _matcher(pattern: str) -> Any:
    """Compile a pattern with the Rust engine, which takes linear time; None if it cannot be."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        return None


def _check(value: object, rule: Rule, place: str) -> Iterator[Fault]:
    """Yield what a value breaks of a rule: a fault of its own, or those of its parts."""
    if not _fits(value, rule):
        is_of_type = value is None or _has_type(value, rule)
        yield Fault(place, _describe(rule), _show(value, with_type=not is_of_type))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _check(item, rule.get("items", {}), f"{place}.{number}")
    elif isinstance(value, dict):
        properties, required = rule.get("properties", {}), rule.get("required", ())
        for name in dict.fromkeys((*properties, *required, *value)):
            inner, path = properties.get(name), f"{place}.{name}".removeprefix(".")
            if name not in value:
                if name in required:
                    yield Fault(path, f"{_describe(inner or {})} (required)", "nothing")
            elif inner is not None:
                yield from _check(value[name], inner, path)
            elif rule.get("additionalProperties") is False:
                known = f"no field of this name (fields: {', '.join(properties) or 'none'})"
                yield Fault(path, known, _show(value[name]))


def _fits(value: Any, rule: Rule) -> bool:
    """Say whether a value is what a rule asks for; its parts are looked at by `_check`."""
    if not _has_type(value, rule):
        return False
    if "const" in rule and not same(value, rule["const"]):
        return False
    if "enum" in rule and not any(same(value, choice) for choice in rule["enum"]):
        return False
    for keyword, (kind, _) in _LIMITS.items():
        if keyword in rule and _is(value, kind):
            size = value if kind == "number" else len(value)
            if size < rule[keyword] if keyword.startswith("min") else size > rule[keyword]:
                return False
    pattern = rule.get("pattern")
    if pattern is None or not isinstance(value, str):
        return True
    if pattern == ID:  # for which the other engine need not be loaded
        return re.fullmatch(pattern, value) is not None and not value.endswith("\n")
    return bool(_matcher(pattern).isinstance_python(value))


def _has_type(value: object, rule: Rule) -> bool:
    return "type" not in rule or any(_is(value, name) for name in types(rule))


def _is(value: object, name: str) -> bool:
    """Say whether a value is of a type of JSON Schema, where 1.0 is a whole number too."""
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, float) and name == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES[name][0])


def types(rule: Rule) -> list[str]:
    """Return the types that a rule allows; none if it does not say."""
    stated = rule.get("type", [])
    return list(map(str, stated)) if isinstance(stated, list) else [stated]


# Rules and values in words


def _describe(rule: Rule) -> str:
    """Say what a JSON Schema asks for."""
    if "const" in rule:
        return f"exactly {_show(rule['const'])}"
    if "enum" in rule:
        values = (value if isinstance(value, str) else _show(value) for value in rule["enum"])
        return "one of " + ", ".join(values)
    if rule.get("pattern") == ID:
        return "1 to 80 characters of a-z, 0-9 and '-', with no '-' at either end"
    names = [_TYPES[name][1] for name in types(rule)] or ["any value"]
    limits = [words.format(rule[word]) for word, (_, words) in _LIMITS.items() if word in rule]
    if "pattern" in rule:
        limits.append(f"that matches {rule['pattern']}")
    if "properties" in rule:
        limits.append(f"with the fields {', '.join(rule['properties'])}")
    names[0] = f"{names[0]} {' and '.join(limits)}".rstrip().replace(" 1 items", " 1 item")
    return " or ".join(names)


def _show(value: object, *, with_type: bool = False) -> str:
    kind = next((name for name in _TYPES if _is(value, name)), type(value).__name__)
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    except (ValueError, RecursionError):  # thousands of digits, or of levels
        text, with_type = "a value too large to show", True
    if len(text) > _MAX_SHOWN:
        text = f"{text[: _MAX_SHOWN - 3]}..."
    # An escape sequence or a turned direction in a stranger's file is not for a terminal.
    text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return f"{text} ({kind.replace('array', 'list')})" if with_type else text
