"""The fields of a category as a person fills them in: on a command line, asked, or on a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from retain.categories import DEFAULTS, Category, Rules
from retain.errors import UsageError
from retain.records.schema import load_schema

_MAX_TITLE: Final = 60  # characters of a field that stand in for a title
_MAIN_FIELDS: Final = {
    "decision": "decision",
    "runbook": "trigger",
    "constraint": "rule",
    "tech_debt": "description",
    "preference": "topic",
    "session_summary": "goal",
}
_EXAMPLES: Final[Mapping[str, object]] = {
    "alternatives": [{"option": "MySQL", "rejected_reason": "no transactional DDL"}],
    "examples": {"prefer": ["tabs"], "avoid": ["spaces"]},
}
_ABOUT: Final = {"list": "One item on each line.", "json": "As JSON.", "number": "A number."}


class Field(NamedTuple):
    """One field of a category's content."""

    name: str
    kind: str  # text, number, flag, list; rows and group for what has fields of its own
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

    @property
    def main_field(self) -> str:
        """The field that says most about a record, where there is one that does."""
        texts = [field.name for field in self.fields if field.kind == "text" and not field.choices]
        usual = _MAIN_FIELDS.get(self.category, "")
        return usual if usual in texts else next(iter(texts), "")


class Entry(NamedTuple):
    """One field on a page: how it is asked for, and what it says."""

    name: str
    label: str
    kind: str  # text, number, flag, list, rows, group, json
    text: str  # what stands in its box; of rows and groups, and of what fits no box, its JSON
    is_required: bool
    choices: Sequence[str] = ()
    rows: Sequence[Sequence[Entry]] = ()  # of rows, each one; of a group, the one that it has
    blank: Sequence[Entry] = ()  # a row that is yet to be filled in
    about: str = ""


def known_category(name: str, rules: Rules) -> Category:
    """Return a category, or raise a UsageError with those there are."""
    kind = rules.category(name)
    if kind is None:
        known = ", ".join(rules.categories)
        raise UsageError(f"there is no category {name!r}", hint=f"There are: {known}.")
    return kind


def form(category: str, rules: Rules) -> Form:
    """Return the form of a category, made from its JSON Schema."""
    kind = known_category(category, rules)
    schema: Mapping[str, Any] = kind.schema or {}
    if category in DEFAULTS:
        schema = load_schema(category)["properties"]["content"]
    is_open = schema.get("additionalProperties") is not False
    return Form(category, kind.folder, _fields(schema), is_open)


def _fields(schema: object) -> list[Field]:
    # A schema of the person's own may be odd; whether it can be used, the check will say.
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return []
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    return [_field(name, inner, name in required) for name, inner in properties.items()]


def _field(name: str, schema: object, is_required: bool) -> Field:
    if not isinstance(schema, dict):
        return Field(name, "text", is_required)
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    type_ = next((it for it in types if it != "null"), None)  # optional ones may be null
    if type_ == "array":
        items, least = schema.get("items"), schema.get("minItems")
        at_least = least if isinstance(least, int) else 0
        if isinstance(items, dict) and items.get("type") == "string":
            return Field(name, "list", is_required, at_least=at_least)
        return Field(name, "rows", is_required, at_least=at_least, fields=_inner_fields(items))
    if type_ == "object":
        return Field(name, "group", is_required, fields=_inner_fields(schema))
    enum = schema.get("enum")
    choices = tuple(str(it) for it in (enum if isinstance(enum, list) else ()) if it is not None)
    kinds = {"boolean": "flag", "integer": "number", "number": "number"}
    return Field(name, kinds.get(str(type_), "text"), is_required, choices)


def _inner_fields(schema: object) -> Sequence[Field]:
    """Return the fields of a row or an object; none if one of those has some in turn."""
    fields = _fields(schema)
    return () if any(field.kind in ("rows", "group") for field in fields) else fields


def _choices(field: Field) -> tuple[str, ...]:
    return field.choices or (("yes", "no") if field.kind == "flag" else ())


def label(name: str) -> str:
    """Return what a field or a category is called to a person."""
    return name.replace("_", " ").capitalize()


def title(form: Form, content: Mapping[str, object]) -> str:
    """Make a title for content that was given none: the start of the field that says most."""
    texts = [content.get(_MAIN_FIELDS.get(form.category, "")), *content.values()]
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    line = text.strip().partition("\n")[0]
    if len(line) <= _MAX_TITLE:
        return line
    return line[:_MAX_TITLE].rpartition(" ")[0] or line[:_MAX_TITLE]


# On a command line


def parse_fields(form: Form, pairs: Sequence[str]) -> dict[str, object]:
    """Make content of `name=value` pairs; what is wrong in it is for the schema to say."""
    known = {field.name: field for field in form.fields}
    content: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UsageError(f"{pair!r} is not NAME=VALUE")
        if name not in known and not form.is_open:
            hint = f"Its fields are: {', '.join(known)}."
            raise UsageError(f"{form.category} has no field {name!r}", hint=hint)
        field = known.get(name, Field(name, "text", False))
        value = _parse_value(field, text)
        if field.kind in ("list", "rows"):
            before = content.get(name)
            items = value if isinstance(value, list) else [value]
            content[name] = [*before, *items] if isinstance(before, list) else items
        elif name in content:
            raise UsageError(f"--field {name} is given twice, and it holds one value")
        else:
            content[name] = value
    return content


def _parse_value(field: Field, text: str) -> object:
    """Return the value of a text; one that says nothing there is left for the schema to name."""
    if field.kind == "flag" and text.strip().lower() in ("true", "false", "yes", "no"):
        return text.strip().lower() in ("true", "yes")
    is_json_list = field.kind == "list" and text.lstrip().startswith("[")
    if not is_json_list and field.kind not in ("group", "rows", "number"):
        return text
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        if field.kind in ("list", "number"):
            return text
        example = json.dumps(_EXAMPLES.get(field.name, {}))
        hint = f"For example: --field '{field.name}={example}'"
        raise UsageError(f"--field {field.name} takes JSON", hint=hint) from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if field.kind != "number" or is_number else text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def ask_fields(form: Form, ask: Callable[[str], str]) -> dict[str, object]:
    """Ask for content field by field; an empty answer leaves an optional one out."""
    content: dict[str, object] = {}
    for field in form.fields:
        if field.kind in ("group", "rows"):
            continue  # nobody types JSON into a question
        if field.kind == "list":
            items = _ask_items(field, ask)
            if items or field.is_required:
                content[field.name] = items
        elif answer := _ask_value(field, ask):
            content[field.name] = _parse_value(field, answer)
    return content


def _ask_items(field: Field, ask: Callable[[str], str]) -> list[str]:
    least = field.at_least if field.is_required else 0
    items: list[str] = []
    while True:
        end = " (empty: done)" if len(items) >= least else ""
        answer = ask(f"{label(field.name)} {len(items) + 1}{end}: ")
        if answer:
            items.append(answer)
        elif end:
            return items


def _ask_value(field: Field, ask: Callable[[str], str]) -> str:
    choices = _choices(field)
    hint = f" ({'|'.join(choices)})" if choices else "" if field.is_required else " (optional)"
    while True:
        answer = ask(f"{label(field.name)}{hint}: ")
        if not answer and not field.is_required:
            return ""
        if answer and (not choices or answer in choices):
            return answer


# On a page


def entries(form: Form, content: Mapping[str, object]) -> list[Entry]:
    """Lay out each field of a form with what the content says there.

    What a box would not give back as it was, as an item of several lines, is shown as JSON.
    """
    return [_entry(field, content.get(field.name)) for field in form.fields]


def other_fields(form: Form, content: Mapping[str, object]) -> list[str]:
    """Return what the content says that the form does not ask for."""
    known = {field.name for field in form.fields}
    return [name for name in content if name not in known]


def revise(content: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Change some fields of content; None takes one out, and all others stay as they are."""
    return {
        name: value
        for name, value in {**content, **changes}.items()
        if value is not None or (name in content and name not in changes)
    }


def _entry(field: Field, value: Any) -> Entry:
    kind = field.kind
    rows: Sequence[Any] = ()
    if value is not None and not _fits(field, value):
        kind = "json"
    elif kind in ("rows", "group"):
        kind = kind if field.fields else "json"
        rows = [value or {}] if kind == "group" else (value or []) if kind == "rows" else []
    text = ""
    if value is not None:
        indent = 2 if kind == "json" else None
        text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
        if kind == "flag":
            text = "yes" if value else "no"
        elif kind in ("text", "list"):
            text = value if kind == "text" else "\n".join(value)
    choices: Sequence[str] = () if kind == "json" else _choices(field)
    if choices and text and text not in choices:  # a record that was written by hand
        choices = [*choices, text]
    return Entry(
        field.name,
        label(field.name),
        kind,
        text,
        field.is_required,
        choices,
        [[_entry(inner, row.get(inner.name)) for inner in field.fields] for row in rows],
        [_entry(inner, None) for inner in field.fields] if kind in ("rows", "group") else (),
        _ABOUT.get(kind, "") if not field.choices else "",
    )


def _fits(field: Field, value: object) -> bool:
    """Say whether the box of a field can show a value, and give it back."""
    match field.kind:
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list":
            return isinstance(value, list) and all(
                isinstance(item, str) and item == item.strip() and len(item.splitlines()) == 1
                for item in value
            )
        case "rows" | "group":
            rows = value if field.kind == "rows" else [value]
            known = {inner.name: inner for inner in field.fields}
            return isinstance(rows, list) and all(
                isinstance(row, dict)
                and row.keys() <= known.keys()
                and all(_fits(known[name], item) for name, item in row.items())
                for row in rows
            )
        case kind:
            return isinstance(value, bool if kind == "flag" else str)
