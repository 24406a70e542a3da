"""What a typed memory must look like: one model per category, and the same as JSON Schema.

Importing this module takes as long as pydantic does, so it is imported where a record is checked.
Model and JSON Schema agree on every JSON value: nothing is coerced, a field nobody declared is
refused, an optional field may also be null, and a time is any string.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from retain.categories import is_name

__all__ = ["CATEGORIES", "Fault", "faults", "json_schema", "schema_fault"]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_HOME: Final = "https://claude-memory.dev/schemas"
_ID: Final = "^[a-z0-9]([a-z0-9-]{0,78}[a-z0-9])?$"
_NAME: Final = "^[a-z][a-z0-9_]{0,39}$"
_SHOWN: Final = 80

_IN_WORDS: Final[Mapping[str, str]] = {
    _ID: "1 to 80 characters of a-z, 0-9 and '-', with no '-' at either end",
    _NAME: "a category's name: 1 to 40 characters of a-z, 0-9 and '_', the first a letter",
}


class Fault(NamedTuple):
    """One rule a record breaks: where (`content.steps.0`), what belongs there, what is there."""

    field: str
    expected: str
    got: str


def _whole(value: object) -> object:
    """JSON has one kind of number: 2.0 is as whole as 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Texts = list[str]
Some = Annotated[list[str], Field(min_length=1)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Reason = Annotated[str, Field(max_length=300)]
Share = Annotated[float, Field(ge=0, le=1)]
Whole = Annotated[int, BeforeValidator(_whole)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Alternative(_Strict):
    """An option that was not taken, and why."""

    option: str
    rejected_reason: str


class _Decision(_Strict):
    """What was decided, and why."""

    status: Literal["proposed", "accepted", "deprecated", "superseded"]
    context: str
    decision: str
    alternatives: list[_Alternative] | None = None
    rationale: Some
    consequences: Texts | None = None


class _SessionSummary(_Strict):
    """What a session set out to do, and what came of it."""

    goal: str
    outcome: Literal["success", "partial", "blocked", "abandoned"]
    completed: Texts
    in_progress: Texts | None = None
    blockers: Texts | None = None
    next_actions: Texts
    key_changes: Texts | None = None


class _Runbook(_Strict):
    """What to do when something happens, and how to know that it helped."""

    trigger: str
    symptoms: Texts | None = None
    steps: Some
    verification: str
    root_cause: str | None = None
    environment: str | None = None


class _Constraint(_Strict):
    """A limit that stays, and what follows from it."""

    kind: Literal["limitation", "gap", "policy", "technical"]
    rule: str
    impact: Some
    workarounds: Texts | None = None
    severity: Literal["high", "medium", "low"]
    active: bool
    expires: str | None = None


class _TechDebt(_Strict):
    """Work that was put off, and why."""

    status: Literal["open", "in_progress", "resolved", "wont_fix"]
    priority: Literal["critical", "high", "medium", "low"]
    description: str
    reason_deferred: str
    impact: Texts | None = None
    suggested_fix: Texts | None = None
    acceptance_criteria: Texts | None = None


class _Examples(_Strict):
    """What the preference looks like in practice."""

    prefer: Texts | None = None
    avoid: Texts | None = None


class _Preference(_Strict):
    """How things are done here, and how strictly."""

    topic: str
    value: str
    reason: str
    strength: Literal["strong", "default", "soft"]
    examples: _Examples | None = None


class _Change(_Strict):
    """One change of the record, the oldest first."""

    date: str
    summary: Reason
    field: str | None = None
    old_value: Any = None
    new_value: Any = None


class _Record(_Strict):
    """A typed memory."""

    schema_version: Literal["1.0"]
    category: Annotated[str, Field(pattern=_NAME)]
    # A `$` of Python's matches before a last line break as well; there is none in an id.
    id: Annotated[str, Field(pattern=_ID, json_schema_extra={"not": {"pattern": r"\s"}})]
    title: Annotated[str, Field(max_length=120)]
    record_status: Literal["active", "retired", "archived"] = "active"
    created_at: Time
    updated_at: Time
    tags: Some
    related_files: Texts | None = None
    confidence: Share | None = None
    content: dict[Any, Any]
    changes: Annotated[list[_Change], Field(max_length=50)] | None = None
    times_updated: Whole = 0
    retired_at: Time | None = None
    retired_reason: Reason | None = None
    archived_at: Time | None = None
    archived_reason: Reason | None = None


_CONTENT: Final[Mapping[str, type[_Strict]]] = {
    "session_summary": _SessionSummary,
    "decision": _Decision,
    "runbook": _Runbook,
    "constraint": _Constraint,
    "tech_debt": _TechDebt,
    "preference": _Preference,
}
CATEGORIES: Final = tuple(_CONTENT)


@cache
def _model(category: str) -> type[_Record]:
    """The model of one of the six; any other category's content may be any object."""
    if category not in _CONTENT:
        return _Record
    named: Any = Literal[category]
    return create_model(
        category, __base__=_Record, category=(named, ...), content=(_CONTENT[category], ...)
    )


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
        found += _unfit(content, schema)
    orders: _Orders = {}
    found.sort(key=lambda one: _position(record, one[0], orders))
    return [Fault(".".join(map(str, loc)), *rest) for loc, *rest in found]


def schema_fault(schema: Mapping[str, object]) -> str:
    """Why nothing can be checked against a content's JSON Schema; empty if it can."""
    return next((wrong for loc, _, wrong in _unfit({}, schema) if loc == ("schema",)), "")


_Loc = tuple[int | str, ...]
_Orders = dict[int, dict[object, int]]
_Found = tuple[_Loc, str, str]


def _broken(record: Mapping[str, object], category: str) -> Iterator[_Found]:
    try:
        _model(category).model_validate(dict(record))
    except ValidationError as error:
        rules = json_schema(category)
        for one in error.errors(include_url=False, include_context=False):
            loc = one["loc"]
            if one["type"] == "missing":
                yield loc, _required(_rule(rules, loc)), "nothing"
            elif one["type"] in ("extra_forbidden", "invalid_key"):
                value = _value(record, loc) if one["type"] == "extra_forbidden" else loc[-1]
                yield loc, _unknown(_rule(rules, loc[:-1])), _shown(value)
            else:
                rule = _rule(rules, loc)
                yield loc, _expected(rule), _got(one["input"], rule)


def _rule(rules: Mapping[str, Any], loc: _Loc) -> Mapping[str, Any]:
    """The part of a JSON Schema that speaks about one place of a record."""
    for part in loc:
        inside = rules.get("items") if isinstance(part, int) else rules["properties"].get(part)
        rules = inside or {}
    return rules


def _value(record: object, loc: _Loc) -> object:
    for part in loc:
        record = record[part]  # type: ignore[index]  # the model found a value there
    return record


def _position(record: object, loc: _Loc, orders: _Orders) -> tuple[int, ...]:
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


# Rules and values in words


def _expected(rule: Mapping[str, Any]) -> str:
    """What a JSON Schema asks for, as a person would say it."""
    if "const" in rule:
        return f"exactly {_shown(rule['const'])}"
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


def _required(rule: Mapping[str, Any]) -> str:
    said = _expected(rule) if rule else "any value"
    return f"{said} (required)"


def _unknown(rule: Mapping[str, Any]) -> str:
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


def _got(value: object, rule: Mapping[str, Any]) -> str:
    """A value for a message, with its type where that is what is wrong."""
    kind, wanted = _kind(value), _kinds(rule)
    fits = kind in wanted or (kind == "integer" and "number" in wanted)
    if wanted and not fits and value is not None:
        return f"{_shown(value)} ({'list' if kind == 'array' else kind})"
    return _shown(value)


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    except (ValueError, RecursionError):  # thousands of digits, or of levels
        return f"a value too large to show ({_kind(value)})"
    if len(text) > _SHOWN:
        text = f"{text[: _SHOWN - 3]}..."
    # An escape sequence or a turned direction in a stranger's file is not for a terminal.
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _bare(value: object) -> str:
    return value if isinstance(value, str) else _shown(value)


# The same as JSON Schema


def json_schema(category: str) -> dict[str, Any]:
    """A category's rules as JSON Schema, draft 2020-12; `base` is what all six have in common."""
    made = _model(category).model_json_schema()
    plain = _plain(made, made.get("$defs", {}))
    properties = plain["properties"]
    if category == "base":
        properties["category"] = {"enum": list(CATEGORIES)}
    elif category not in _CONTENT and is_name(category):
        properties["category"] = {"const": category}
    return {
        "$schema": DRAFT,
        "$id": f"{_HOME}/{category}.schema.json",
        "title": f"{category.replace('_', ' ').capitalize()} memory",
        "type": "object",
        "required": plain["required"],
        "properties": properties,
        "additionalProperties": False,
    }


def _plain(node: Any, named: Mapping[str, Any]) -> Any:
    """What pydantic says, with nothing to look up and nothing said twice."""
    if isinstance(node, list):
        return [_plain(one, named) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(named[node["$ref"].rpartition("/")[2]], named)
    noise = [name for name in ("title", "$defs") if not isinstance(node.get(name), dict)]
    if node.get("default", ...) is None:
        noise.append("default")
    if node.get("additionalProperties") is True:
        noise.append("additionalProperties")
    rest = {name: _plain(one, named) for name, one in node.items() if name not in noise}
    if "anyOf" in rest:
        value, null = rest.pop("anyOf")
        rest |= value | {"type": [value["type"], null["type"]]}
    if "const" in rest:
        rest.pop("type", None)
    return rest


# The content of a category of one's own


class _Unusable(Exception):
    """A schema that Retain does not work with."""


_MAX_STEPS: Final = 500_000
_MAX_OBJECTS: Final = 1_000
_MAX_PARTS: Final = 200
_REFUSED: Final[Mapping[str, str]] = {
    "$dynamicRef": "no $dynamicRef, only $ref",
    "patternProperties": "no patternProperties; name the properties",
    # These try every other keyword again, and so take time beyond any count.
    "unevaluatedProperties": "no unevaluatedProperties, only additionalProperties",
    "unevaluatedItems": "no unevaluatedItems, only items",
}


_KEYWORDS: Final[Mapping[str, str]] = {
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "minItems": "array",
    "maxItems": "array",
    "minimum": "number",
    "maximum": "number",
}


def _unfit(content: Mapping[str, object], schema: Mapping[str, object]) -> list[_Found]:
    """Where a content breaks a JSON Schema that may be a stranger's.

    Nothing is fetched, and nothing takes more than moments: the schema is of a bounded size, the
    steps are counted, and patterns are matched by an engine whose time does not explode.
    """
    from jsonschema.exceptions import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        checker = _checker(schema)
        told = (found for error in checker.iter_errors(content) for found in _told(error))
        return list(dict.fromkeys(told))
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "the schema itself"
        wrong = f"{_shown(error.instance)} at {where}"
    except Unresolvable as error:
        wrong = f"a reference to {_shown(error.ref)}, which is not there"
    except RecursionError:
        wrong = "a schema or a content that is nested too deep, or a schema that never ends"
    except (ArithmeticError, ValueError):
        wrong = "a number beyond what can be computed"
    except _Unusable as error:
        wrong = str(error)
    return [
        (("schema",), "a JSON Schema of draft 2020-12 that needs nothing from elsewhere", wrong)
    ]


def _checker(schema: Mapping[str, object]) -> Any:
    """A validator for the schema, which is refused if it reaches out or cannot be understood."""
    from jsonschema import Draft202012Validator as Draft
    from jsonschema.validators import create
    from referencing import Registry

    if schema.get("$schema", DRAFT) not in (DRAFT, f"{DRAFT}#"):
        raise _Unusable(f"$schema {_shown(schema['$schema'])}")
    # Below, a $schema would choose another validator, which follows references anywhere.
    own = {name: value for name, value in schema.items() if name not in ("$schema", "$id")}
    _refuse(own, iter(range(_MAX_OBJECTS)))
    Draft.check_schema(own)
    meter = _Meter()
    ours = {"pattern": _pattern, "uniqueItems": _unique, "multipleOf": _multiple}
    keywords = {name: meter.counted(name, one) for name, one in (Draft.VALIDATORS | ours).items()}
    kind: Any = create(
        Draft.META_SCHEMA, keywords, type_checker=Draft.TYPE_CHECKER, applicable_validators=meter.of
    )
    return kind(own, registry=Registry())


def _refuse(node: object, left: Iterator[int]) -> None:
    if isinstance(node, Mapping):
        if next(left, None) is None:
            raise _Unusable(f"more than {_MAX_OBJECTS:,} objects in a schema")
        for name, value in node.items():
            _refuse_keyword(name, value)
            _refuse(value, left)
    elif isinstance(node, list):
        for value in node:
            _refuse(value, left)


def _refuse_keyword(name: str, value: object) -> None:
    if name in _REFUSED:
        raise _Unusable(_REFUSED[name])
    if name in ("$schema", "$id") and isinstance(value, str):
        raise _Unusable(f"a {name} inside the schema")
    # Every reference to an anchor would search the whole schema.
    if name == "$ref" and isinstance(value, str) and value[:2] not in ("#", "#/"):
        raise _Unusable(f"$ref {_shown(value)}: only references like #/$defs/name")
    if name == "pattern" and isinstance(value, str):
        _matcher(value)
    if name != "enum" and _is_long(value):
        raise _Unusable(f"more than {_MAX_PARTS} parts in a list, at {_shown(name)}")


def _is_long(value: object) -> bool:
    """Whether a list would be compared with itself for ever when the schema is checked."""
    return (
        isinstance(value, list)
        and len(value) > _MAX_PARTS
        and not all(isinstance(part, str) for part in value)
    )


class _Meter:
    """The steps that one check takes; a few lines of a schema can ask for 2^30 of them.

    A step is a keyword that is looked at, a value it is compared with, or a part of a value that
    an error repeats.
    """

    def __init__(self) -> None:
        self._left = _MAX_STEPS
        self._sizes: dict[int, int] = {}

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _Unusable(f"more than {_MAX_STEPS:,} steps to check this content")

    def of(self, schema: Any) -> Iterable[Any]:
        """The keywords of a schema."""
        self._spend(len(schema))
        keywords: Iterable[Any] = schema.items()
        return keywords

    def counted(self, name: str, keyword: Any) -> Any:
        """A keyword that stops the check when it takes too long."""

        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._spend(self._cost(name, value, instance))
            for error in keyword(validator, value, instance, schema) or ():
                if not isinstance(error.validator, str):  # it is new, and quotes both
                    self._spend(self._size(instance) + self._size(value))
                yield error

        return check

    def _cost(self, name: str, value: Any, instance: Any) -> int:
        if name == "$ref":
            return 1 + int(value.count("/")) ** 2
        if name in ("enum", "const", "dependentRequired"):
            return self._size(value)
        if name in ("uniqueItems", "pattern"):
            return self._size(instance)
        return 1 + sum(len(one) for one in (value, instance) if isinstance(one, list | dict))

    def _size(self, value: object) -> int:
        """How many values there are in a value; a long text counts for more than one."""
        if not isinstance(value, list | dict):
            return 1 + (len(value) // 100 if isinstance(value, str) else 0)
        if id(value) not in self._sizes:
            count, waiting = 0, [value]
            while waiting:
                one: Any = waiting.pop()
                if isinstance(one, list | dict):
                    count += 1
                    waiting += [*one, *one.values()] if isinstance(one, dict) else one
                else:
                    count += self._size(one)
            self._sizes[id(value)] = count
        return self._sizes[id(value)]


def _pattern(_: Any, pattern: str, instance: object, __: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _matcher(pattern).isinstance_python(instance):
        yield _mismatch(f"does not match {pattern}")


def _unique(_: Any, is_wanted: bool, instance: Any, __: Any) -> Iterator[Any]:
    is_list = is_wanted and isinstance(instance, list)
    if is_list and len(set(map(_canonical, instance))) < len(instance):
        yield _mismatch("has an item twice")


def _canonical(value: object) -> str:
    """A text that two values share if JSON holds them for equal.

    A text, because whoever chooses numbers can choose them so that their hashes are all the same.
    """
    if isinstance(value, Mapping):
        parts = sorted(f"{_canonical(name)}:{_canonical(one)}" for name, one in value.items())
        return f"{{{','.join(parts)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_canonical, value))}]"
    return repr(_whole(value))


def _multiple(_: Any, of: float, instance: object, __: Any) -> Iterator[Any]:
    """Exact, as a float is neither 0.1 nor large enough for every whole number."""
    from fractions import Fraction

    if isinstance(instance, int | float) and not isinstance(instance, bool):
        unit, number = (
            Fraction(one if isinstance(one, int) else repr(one)) for one in (of, instance)
        )
        if number % unit:
            yield _mismatch(f"is no multiple of {of}")


def _mismatch(said: str) -> Exception:
    from jsonschema.exceptions import ValidationError as Mismatch

    return Mismatch(said)


@cache
def _matcher(pattern: str) -> Any:
    """A pattern as the Rust regex engine reads it, which takes linear time for any text."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError:
        raise _Unusable(
            f"the pattern {_shown(pattern)}: not a regular expression, or one that looks around"
        ) from None


def _told(error: Any) -> Iterator[_Found]:
    """What jsonschema says, in our words; of several missing fields it tells each time of all."""
    loc = ("content", *error.absolute_path)
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    properties = rule.get("properties", {})
    if error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance:
                yield (*loc, name), _required(properties.get(name, {})), "nothing"
    elif error.validator == "additionalProperties":
        expected = _unknown(rule)
        for name in error.instance:
            if name not in properties:
                yield (*loc, name), expected, _shown(error.instance[name])
    else:
        expected = _keyword(error.validator, error.validator_value)
        yield loc, expected, _got(error.instance, rule)


def _keyword(name: str | None, wanted: object) -> str:
    """What one keyword of a schema asks for."""
    if name is None:
        return "nothing: the schema allows no value here"
    if name in ("type", "enum", "const"):
        return _expected({name: wanted})
    if name in _KEYWORDS:
        return _expected({"type": _KEYWORDS[name], name: wanted})
    return f"what the schema's {name} asks for: {_shown(wanted)}"
