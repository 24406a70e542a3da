"""The content of a category of one's own, checked against the JSON Schema given for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from retain.schema.models import DRAFT, whole
from retain.schema.words import Found, expected, got, required, shown, unknown

__all__ = ["unfit"]

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


class _Unusable(Exception):
    """A schema that Retain does not work with."""


def unfit(content: Mapping[str, object], schema: Mapping[str, object]) -> list[Found]:
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
        wrong = f"{shown(error.instance)} at {where}"
    except Unresolvable as error:
        wrong = f"a reference to {shown(error.ref)}, which is not there"
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
        raise _Unusable(f"$schema {shown(schema['$schema'])}")
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
        raise _Unusable(f"$ref {shown(value)}: only references like #/$defs/name")
    if name == "pattern" and isinstance(value, str):
        _matcher(value)
    if name != "enum" and _is_long(value):
        raise _Unusable(f"more than {_MAX_PARTS} parts in a list, at {shown(name)}")


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
    return repr(whole(value))


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
            f"the pattern {shown(pattern)}: not a regular expression, or one that looks around"
        ) from None


def _told(error: Any) -> Iterator[Found]:
    """What jsonschema says, in our words; of several missing fields it tells each time of all."""
    loc = ("content", *error.absolute_path)
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    properties = rule.get("properties", {})
    if error.validator == "required":
        for name in error.validator_value:
            if name not in error.instance:
                yield (*loc, name), required(properties.get(name, {})), "nothing"
    elif error.validator == "additionalProperties":
        expected = unknown(rule)
        for name in error.instance:
            if name not in properties:
                yield (*loc, name), expected, shown(error.instance[name])
    else:
        expected = _keyword(error.validator, error.validator_value)
        yield loc, expected, got(error.instance, rule)


def _keyword(name: str | None, wanted: object) -> str:
    """What one keyword of a schema asks for."""
    if name is None:
        return "nothing: the schema allows no value here"
    if name in ("type", "enum", "const"):
        return expected({name: wanted})
    if name in _KEYWORDS:
        return expected({"type": _KEYWORDS[name], name: wanted})
    return f"what the schema's {name} asks for: {shown(wanted)}"
