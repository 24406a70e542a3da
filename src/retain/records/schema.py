"""What a record must look like: the JSON Schema of its category, and what it breaks in words.

The schemas of the six lie in `retain/schemas`. A category of a person's own may have one for its
content, and that may be a stranger's: it is of a limited size with its references resolved,
nothing is fetched, and patterns are matched by an engine that takes linear time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from retain.categories import DEFAULTS, Rules
from retain.records.normalize import Fault, Record, invalid

Path = tuple[int | str, ...]
Rule = Mapping[str, Any]

ID: Final = "^[a-z0-9]([a-z0-9-]{0,78}[a-z0-9])?$"

_FOLDER: Final = os.path.join(os.path.dirname(__file__), os.pardir, "schemas")
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_MAX_OBJECTS: Final = 1_000  # in a schema, its references resolved
_MAX_SHOWN: Final = 80  # characters of a value in a message
# Which say nothing of a value; references are resolved.
_NAMES: Final = frozenset(("$schema", "$id", "$anchor", "$comment", "$ref"))
_REFUSED: Final[Mapping[str, str]] = {
    "$dynamicRef": "no $dynamicRef, only $ref",
    "patternProperties": "no patternProperties; name the properties",
    "unevaluatedProperties": "no unevaluatedProperties, only additionalProperties",
    "unevaluatedItems": "no unevaluatedItems, only items",
}
# The type that a keyword of JSON Schema speaks of.
_IMPLIED_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("minLength", "maxLength", "pattern"), "string"),
    **dict.fromkeys(("minItems", "maxItems"), "array"),
    **dict.fromkeys(("minimum", "maximum"), "number"),
}
_JSON_TYPES: Final[Mapping[str, str]] = {
    "NoneType": "null",
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "list": "array",
    "dict": "object",
}


class _UnusableSchema(Exception):
    """A schema that Retain does not work with."""


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
        raise invalid([Fault("category", f"one of {', '.join(rules.categories)}", name)])
    if faults := find_faults(record, category.schema):
        raise invalid(faults)


def find_faults(record: Mapping[str, object], schema: Rule | None = None) -> list[Fault]:
    """Return every rule a record breaks; its own category says which rules.

    `schema` is a JSON Schema for the content besides: one that cannot be used is a fault of the
    field `schema`, and nothing is checked against it.
    """
    faults = _check(record, load_schema(str(record.get("category"))), ())
    content = record.get("content")
    if schema is not None and isinstance(content, dict):
        faults |= _check_content(content, schema)
    return list(faults)


def schema_problem(schema: Rule) -> str:
    """Say why nothing can be checked against a content's JSON Schema; empty if it can."""
    return next((fault.got for fault in _check_content({}, schema) if fault.field == "schema"), "")


def _check_content(content: Mapping[str, object], schema: Rule) -> dict[Fault, None]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        plain = _resolve(schema, schema, iter(range(_MAX_OBJECTS)))
        Draft202012Validator.check_schema(plain)
        return _check(content, plain, ("content",))
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "the schema itself"
        problem = f"{_show(error.instance)} at {place}"
    except RecursionError:
        problem = "a schema or a content that is nested too deep, or a schema that never ends"
    except (ArithmeticError, ValueError):
        problem = "a number beyond what can be computed"
    except _UnusableSchema as error:
        problem = str(error)
    usable = "a JSON Schema of draft 2020-12 that needs nothing from elsewhere"
    return {Fault("schema", usable, problem): None}


def _check(value: Mapping[str, object], schema: Rule, place: Path) -> dict[Fault, None]:
    """Return what a value breaks of a schema, in our words, each fault once."""
    faults: dict[Fault, None] = {}
    told: set[Path] = set()
    for error in _validator_class()(schema).iter_errors(value):
        path = (*place, *error.absolute_path)
        # Of several missing fields there is an error for each, which tells of all.
        if error.validator != "required" or path not in told:
            faults |= dict.fromkeys(_describe(error, path))
        if error.validator == "required":
            told.add(path)
    return faults


@cache
def _validator_class() -> Any:
    """Return the validator of jsonschema, which matches patterns in linear time here."""
    from jsonschema import Draft202012Validator  # 50 ms to import
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def check_pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[ValidationError]:
        if isinstance(value, str) and not _matcher(pattern).isinstance_python(value):
            yield ValidationError(f"does not match {pattern}")

    return extend(Draft202012Validator, {"pattern": check_pattern})  # type: ignore[no-untyped-call]


@cache
def _matcher(pattern: str) -> Any:
    """Return a matcher of the Rust regex engine, which takes linear time for any text."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        raise _UnusableSchema(
            f"the pattern {_show(pattern)}: not a regular expression, or one that looks around"
        ) from None


def _resolve(node: Any, root: Rule, budget: Iterator[int]) -> Any:
    """Return a schema with what they name in the place of its references, within the budget."""
    if node is root and (draft := root.get("$schema", _DRAFT)) not in (_DRAFT, f"{_DRAFT}#"):
        raise _UnusableSchema(f"$schema {_show(draft)}")
    if isinstance(node, list):
        return [_resolve(item, root, budget) for item in node]
    if not isinstance(node, Mapping):
        return node
    if next(budget, None) is None:
        raise _UnusableSchema(f"more than {_MAX_OBJECTS:,} objects in a schema, or a circle")
    resolved = {}
    for name, value in node.items():
        if name in _REFUSED:
            raise _UnusableSchema(_REFUSED[name])
        if name == "pattern" and isinstance(value, str):
            _matcher(value)
        is_name = name in _NAMES and isinstance(value, str)
        if not is_name and name != "$defs":
            resolved[name] = _resolve(value, root, budget)
    if isinstance(ref := node.get("$ref"), str):
        target = _resolve(_find_referred(ref, root), root, budget)
        return {"allOf": [target, resolved]} if resolved else target
    return resolved


def _find_referred(ref: str, root: Rule) -> object:
    if ref != "#" and not ref.startswith("#/"):
        raise _UnusableSchema(f"$ref {_show(ref)}: only references like #/$defs/name")
    node: object = root
    for part in ref.split("/")[1:]:
        if not isinstance(node, Mapping) or part not in node:
            raise _UnusableSchema(f"a reference to {_show(ref)}, which is not there")
        node = node[part]
    return node


# Rules and values in words


def _describe(error: Any, path: Path) -> Iterator[Fault]:
    """Yield what jsonschema says, in our words."""
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    properties, place = rule.get("properties", {}), ".".join(map(str, path))
    keyword, wanted = error.validator, error.validator_value
    prefix = f"{place}." if place else ""
    if keyword == "required":
        for name in wanted:
            if name not in error.instance:
                asked = _describe_rule(properties[name]) if properties.get(name) else "any value"
                yield Fault(f"{prefix}{name}", f"{asked} (required)", "nothing")
    elif keyword == "additionalProperties":
        known = f"no field of this name (fields: {', '.join(properties or ('none',))})"
        for name, value in error.instance.items():
            if name not in properties:
                yield Fault(f"{prefix}{name}", known, _show(value))
    else:
        asked = "nothing: the schema allows no value here"
        if keyword in ("type", "enum", "const", *_IMPLIED_TYPES) or rule.get("pattern") == ID:
            asked = _describe_rule(rule)
        elif keyword:
            asked = f"what the schema's {keyword} asks for: {_show(wanted)}"
        yield Fault(place, asked, _describe_value(error.instance, rule))


def _describe_rule(rule: Rule) -> str:
    """Say what a JSON Schema asks for."""
    if "const" in rule:
        return f"exactly {_show(rule['const'])}"
    if "enum" in rule:
        values = (value if isinstance(value, str) else _show(value) for value in rule["enum"])
        return "one of " + ", ".join(values)
    if rule.get("pattern") == ID:
        return "1 to 80 characters of a-z, 0-9 and '-', with no '-' at either end"
    return " or ".join(_describe_type(kind, rule) for kind in _types(rule)) or "another value"


def _describe_type(kind: str, rule: Rule) -> str:
    names = {"string": "a string", "array": "a list", "boolean": "true or false", "null": "null"}
    names |= {"object": "an object", "integer": "a whole number", "number": "a number"}
    text = names[kind]
    match kind:
        case "string":
            matching = f" that matches {rule['pattern']}" if "pattern" in rule else ""
            return text + _limits(rule, "Length", "of", "character") + matching
        case "array":
            return text + _limits(rule, "Items", "with", "item")
        case "object" if fields := rule.get("properties"):
            return f"{text} with the fields {', '.join(fields)}"
        case "integer" | "number":
            least, most = rule.get("minimum"), rule.get("maximum")
            if least is not None and most is not None:
                return f"{text} from {least} to {most}"
            text += f" of at least {least}" if least is not None else ""
            text += f" of at most {most}" if most is not None else ""
    return text


def _limits(rule: Rule, what: str, preposition: str, unit: str) -> str:
    limits = (("at least", rule.get(f"min{what}")), ("at most", rule.get(f"max{what}")))
    words = [f"{end} {n} {unit}{'' if n == 1 else 's'}" for end, n in limits if n]
    return f" {preposition} {' and '.join(words)}" if words else ""


def _types(rule: Rule) -> list[str]:
    stated = rule.get("type")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    values = [rule["const"]] if "const" in rule else rule.get("enum", ())
    implied = [kind for name, kind in _IMPLIED_TYPES.items() if name in rule]
    return list(dict.fromkeys([*map(_type_of, values), *implied]))


def _type_of(value: object) -> str:
    """Return what JSON calls the type of a value."""
    name = type(value).__name__
    return _JSON_TYPES.get(name, name)


def _describe_value(value: object, rule: Rule) -> str:
    """Show a value, with its type where that is what is wrong."""
    kind, wanted = _type_of(value), _types(rule)
    fits = kind in wanted or (kind == "integer" and "number" in wanted)
    if wanted and not fits and value is not None:
        return f"{_show(value)} ({'list' if kind == 'array' else kind})"
    return _show(value)


def _show(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    except (ValueError, RecursionError):  # thousands of digits, or of levels
        return f"a value too large to show ({_type_of(value)})"
    if len(text) > _MAX_SHOWN:
        text = f"{text[: _MAX_SHOWN - 3]}..."
    # An escape sequence or a turned direction in a stranger's file is not for a terminal.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
