"""The fields of a category as a person fills them in, made from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from retain.categories import DEFAULTS, Category, Rules
from retain.errors import UsageError
from retain.records.schema import Rule, find_schema_faults, load_schema, types

_MAX_TITLE: Final = 60  # characters of a field that stand in for a title
# The fields of the six that say most about a record.
KEY_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "session_summary": ("goal", "outcome"),
    "decision": ("context", "decision", "rationale"),
    "runbook": ("trigger", "root_cause"),
    "constraint": ("rule", "impact"),
    "tech_debt": ("description", "reason_deferred"),
    "preference": ("topic", "value", "reason"),
}
_MAIN_FIELDS: Final = {name: fields[0] for name, fields in KEY_FIELDS.items()} | {
    "decision": "decision"
}
_KINDS: Final = {
    "boolean": "flag",
    "integer": "number",
    "number": "number",
    "array": "rows",
    "object": "group",
}


class Field(NamedTuple):
    """One field of a category's content."""

    name: str
    kind: str  # text, number, flag, list; rows and group for what has fields of its own
    is_required: bool
    choices: Sequence[str] = ()
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


def find_category(name: str, rules: Rules) -> Category:
    """Return a category, or raise a UsageError with those there are."""
    kind = rules.category(name)
    if kind is None:
        known = ", ".join(rules.categories)
        raise UsageError(f"there is no category {name!r}", hint=f"There are: {known}.")
    return kind


def make_form(category: str, rules: Rules) -> Form:
    """Return the form of a category; that of a schema that cannot be used asks for nothing."""
    kind = find_category(category, rules)
    schema: Rule = kind.schema or {}
    if category in DEFAULTS:
        schema = load_schema(category)["properties"]["content"]
    elif find_schema_faults(schema):
        schema = {}
    is_open = schema.get("additionalProperties") is not False
    return Form(category, kind.folder, _fields(schema), is_open)


def _fields(schema: Rule) -> list[Field]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    return [_field(name, rule, name in required) for name, rule in properties.items()]


def _field(name: str, rule: Rule, is_required: bool) -> Field:
    stated = next((it for it in types(rule) if it != "null"), "")  # optional ones may be null
    kind, items = _KINDS.get(stated, "text"), rule.get("items", {})
    if kind == "rows" and items.get("type") == "string":
        kind = "list"
    inner = _fields(items if kind == "rows" else rule)
    if any(field.kind in ("rows", "group") for field in inner):
        inner = []
    choices = ("yes", "no") if kind == "flag" else rule.get("enum", ())
    choices = tuple(str(choice) for choice in choices if choice is not None)
    return Field(name, kind, is_required, choices, rule.get("minItems", 0), inner)


def label(name: str) -> str:
    """Return what a field or a category is called to a person."""
    return name.replace("_", " ").capitalize()


def make_title(form: Form, content: Mapping[str, object]) -> str:
    """Make a title for content that was given none: the start of the field that says most."""
    texts = [content.get(_MAIN_FIELDS.get(form.category, "")), *content.values()]
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    line = text.strip().partition("\n")[0]
    if len(line) <= _MAX_TITLE:
        return line
    return line[:_MAX_TITLE].rpartition(" ")[0] or line[:_MAX_TITLE]


def revise(content: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Change some fields of content; None takes one out, and all others stay as they are."""
    return {
        name: value
        for name, value in {**content, **changes}.items()
        if value is not None or name not in changes
    }


# On a command line


def parse_fields(form: Form, pairs: Sequence[str]) -> dict[str, object]:
    """Make content of `name=value` pairs; what is wrong in it is for the schema to say."""
    known = {field.name: field for field in form.fields}
    content: dict[str, Any] = {}
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
            content[name] = content.get(name, []) + (value if isinstance(value, list) else [value])
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
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        if field.kind in ("list", "number"):
            return text
        hint = f"For example: --field '{field.name}={_example(field)}'"
        raise UsageError(f"--field {field.name} takes JSON", hint=hint) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _example(field: Field) -> str:
    example = {inner.name: ["..."] if inner.kind == "list" else "..." for inner in field.fields}
    return json.dumps([example] if field.kind == "rows" else example)


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
    hint = "" if field.is_required else " (optional)"
    if field.choices:
        hint = f" ({'|'.join(field.choices)})"
    while True:
        answer = ask(f"{label(field.name)}{hint}: ")
        if answer in field.choices or (answer and not field.choices):
            return answer
        if not answer and not field.is_required:
            return ""
