"""The fields of a category as a person fills them in, from a command line or asked one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.categories import Rules
from retain.errors import UsageError

__all__ = ["Field", "Form", "asked", "filled", "form", "label", "says", "title"]

_TITLE: Final = 60  # characters of a field that stand in for a title
# The field that says most about a record of a category.
_SAYS: Final = {
    "decision": "decision",
    "runbook": "trigger",
    "constraint": "rule",
    "tech_debt": "description",
    "preference": "topic",
    "session_summary": "goal",
}


class Field(NamedTuple):
    """One field of a category's content."""

    name: str
    kind: str  # text, number, flag, list; rows and json for what has fields of its own
    is_required: bool
    choices: tuple[str, ...] = ()
    at_least: int = 0  # items that a list must have
    fields: Sequence[Field] = ()  # of a row, or of an object; empty where only JSON can say it


class Form(NamedTuple):
    """What a record of one category asks for."""

    category: str
    folder: str
    fields: Sequence[Field]
    is_open: bool  # whether other fields may be given as well


def form(category: str, rules: Rules) -> Form:
    """The form of a category, or a UsageError with those there are."""
    kind = rules.category(category)
    if kind is None:
        raise UsageError(
            f"there is no category {category!r}",
            hint=f"There are: {', '.join(rules.categories)}.",
        )
    schema: Mapping[str, Any] = _built_in(category) or kind.schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    # A schema of the person's own may be odd; whether it can be used, the check will say.
    properties = properties if isinstance(properties, dict) else {}
    required = required if isinstance(required, list) else []
    fields = [_field(name, one, name in required) for name, one in properties.items()]
    return Form(category, kind.folder, fields, schema.get("additionalProperties") is not False)


def _built_in(category: str) -> Mapping[str, Any]:
    from retain.schema import CATEGORIES, json_schema

    if category not in CATEGORIES:
        return {}
    content: Mapping[str, Any] = json_schema(category)["properties"]["content"]
    return content


def _field(name: str, schema: object, is_required: bool) -> Field:
    if not isinstance(schema, dict):
        return Field(name, "text", is_required)
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    kind = next((one for one in kinds if one != "null"), None)  # optional ones may be null
    if kind == "array":
        of, least = schema.get("items"), schema.get("minItems")
        is_plain = isinstance(of, dict) and of.get("type") == "string"
        at_least = least if isinstance(least, int) else 0
        if is_plain:
            return Field(name, "list", is_required, at_least=at_least)
        return Field(name, "rows", is_required, at_least=at_least, fields=_inner(of))
    enum = schema.get("enum")
    choices = tuple(str(one) for one in (enum if isinstance(enum, list) else ()) if one is not None)
    ours = {"boolean": "flag", "object": "json", "integer": "number", "number": "number"}
    inner = _inner(schema) if kind == "object" else ()
    return Field(name, ours.get(str(kind), "text"), is_required, choices, fields=inner)


def _inner(schema: object) -> Sequence[Field]:
    """The fields of what has fields of its own; none if one of those has some in turn."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return ()
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    found = [_field(name, one, name in required) for name, one in properties.items()]
    return () if any(one.kind in ("rows", "json") for one in found) else found


def filled(form: Form, given: Sequence[str]) -> dict[str, object]:
    """Content from `name=value` pairs; what is wrong in it is for the schema to say."""
    known = {field.name: field for field in form.fields}
    content: dict[str, object] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(f"{pair!r} is not NAME=VALUE")
        if name not in known and not form.is_open:
            raise UsageError(
                f"{form.category} has no field {name!r}",
                hint=f"Its fields are: {', '.join(known)}.",
            )
        _fill(content, known.get(name, Field(name, "text", False)), value)
    return content


def _fill(content: dict[str, object], field: Field, text: str) -> None:
    value = _value(field, text)
    if field.kind in ("list", "rows"):
        there = content.get(field.name)
        items = value if isinstance(value, list) else [value]
        content[field.name] = [*there, *items] if isinstance(there, list) else items
    elif field.name in content:
        raise UsageError(f"--field {field.name} is given twice, and it holds one value")
    else:
        content[field.name] = value


def _value(field: Field, text: str) -> object:
    """What a text says in a field; one that says nothing there is left for the schema to name."""
    if field.kind == "flag" and text.strip().lower() in ("true", "false", "yes", "no"):
        return text.strip().lower() in ("true", "yes")
    is_list = field.kind == "list" and text.lstrip().startswith("[")
    if not is_list and field.kind not in ("json", "rows", "number"):
        return text
    try:
        value: object = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        if field.kind in ("list", "number"):
            return text
        raise UsageError(
            f"--field {field.name} takes JSON",
            hint=f"For example: --field '{field.name}={_example(field.name)}'",
        ) from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if field.kind != "number" or is_number else text


def _no_number(name: str) -> object:
    raise ValueError(name)


def _example(name: str) -> str:
    shapes: Mapping[str, object] = {
        "alternatives": [{"option": "MySQL", "rejected_reason": "no transactional DDL"}],
        "examples": {"prefer": ["tabs"], "avoid": ["spaces"]},
    }
    return json.dumps(shapes.get(name, {}))


def asked(form: Form, ask: Callable[[str], str]) -> dict[str, object]:
    """Content asked for field by field; an empty answer leaves an optional one out."""
    content: dict[str, object] = {}
    for field in form.fields:
        if field.kind in ("json", "rows"):
            continue  # nobody types JSON into a question
        if field.kind == "list":
            items = _items(field, ask)
            if items or field.is_required:
                content[field.name] = items
        elif answer := _answer(field, ask):
            content[field.name] = _value(field, answer)
    return content


def _items(field: Field, ask: Callable[[str], str]) -> list[str]:
    about, least = label(field.name), field.at_least if field.is_required else 0
    items: list[str] = []
    while True:
        end = " (empty: done)" if len(items) >= least else ""
        answer = ask(f"{about} {len(items) + 1}{end}: ")
        if answer:
            items.append(answer)
        elif end:
            return items


def _answer(field: Field, ask: Callable[[str], str]) -> str:
    choices = field.choices or (("yes", "no") if field.kind == "flag" else ())
    hint = f" ({'|'.join(choices)})" if choices else "" if field.is_required else " (optional)"
    while True:
        answer = ask(f"{label(field.name)}{hint}: ")
        if not answer and not field.is_required:
            return ""
        if answer and (not choices or answer in choices):
            return answer


def label(name: str) -> str:
    """What a field or a category is called to a person."""
    return name.replace("_", " ").capitalize()


def says(form: Form) -> str:
    """The field that says most about a record, where there is one that does."""
    texts = [field.name for field in form.fields if field.kind == "text" and not field.choices]
    usual = _SAYS.get(form.category, "")
    return usual if usual in texts else next(iter(texts), "")


def title(form: Form, content: Mapping[str, object]) -> str:
    """A title for content that was given none: the start of the field that says most."""
    texts = [content.get(_SAYS.get(form.category, "")), *content.values()]
    found = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    line = found.strip().partition("\n")[0]
    if len(line) <= _TITLE:
        return line
    return line[:_TITLE].rpartition(" ")[0] or line[:_TITLE]
