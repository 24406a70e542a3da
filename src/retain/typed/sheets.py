"""A form laid out with what a record says, and a record with what a person changed on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.typed.forms import Field, Form, label

__all__ = ["Entry", "entries", "others", "revised"]

_ABOUT: Final = {
    "list": "One item on each line.",
    "json": "As JSON.",
    "number": "A number.",
}


class Entry(NamedTuple):
    """One field on the sheet: how it is asked for, and what it says."""

    name: str
    label: str
    kind: str  # text, number, flag, list, rows, group, json
    text: str  # what stands in its box; of rows and groups, and of what fits no box, its JSON
    is_required: bool
    choices: Sequence[str] = ()
    rows: Sequence[Sequence[Entry]] = ()  # of rows, each one; of a group, the one that it has
    blank: Sequence[Entry] = ()  # a row that is yet to be filled in
    about: str = ""


def entries(form: Form, content: Mapping[str, object]) -> list[Entry]:
    """Each field of a form with what the content says there.

    What a box would not give back as it was, as an item of several lines, is shown as JSON.
    """
    return [_entry(field, content.get(field.name)) for field in form.fields]


def others(form: Form, content: Mapping[str, object]) -> list[str]:
    """What the content says that the form does not ask for."""
    known = {field.name for field in form.fields}
    return [name for name in content if name not in known]


def revised(content: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Content with some fields changed; None takes one out, and all others stay as they are."""
    wanted = {**content, **changes}
    return {
        name: value
        for name, value in wanted.items()
        if value is not None or (name in content and name not in changes)
    }


def _entry(field: Field, value: object) -> Entry:
    kind = _kind(field) if value is None or _fits(field, value) else "json"
    is_simple = kind not in ("rows", "group", "json")
    return Entry(
        field.name,
        label(field.name),
        kind,
        "" if value is None else _text(kind, value),
        field.is_required,
        _choices(field, value) if is_simple else (),
        [_row(field, one) for one in _rows(kind, value)],
        _row(field, {}) if kind in ("rows", "group") else (),
        _ABOUT.get(kind, "") if not field.choices else "",
    )


def _rows(kind: str, value: Any) -> Sequence[Mapping[str, object]]:
    """What stands in rows, and in a group, which is one row that is always there."""
    if kind == "group":
        return [value or {}]
    return value or [] if kind == "rows" else []


def _row(field: Field, row: Mapping[str, object]) -> list[Entry]:
    return [_entry(one, row.get(one.name)) for one in field.fields]


def _kind(field: Field) -> str:
    if field.kind == "rows":
        return "rows" if field.fields else "json"
    return "group" if field.kind == "json" and field.fields else field.kind


def _choices(field: Field, value: object) -> Sequence[str]:
    """The words to choose from; a record that was written by hand may have another one."""
    words = ("yes", "no") if field.kind == "flag" else field.choices
    said = "" if value is None else _text(field.kind, value)
    return [*words, said] if words and said and said not in words else words


def _text(kind: str, value: object) -> str:
    if isinstance(value, bool) and kind == "flag":
        return "yes" if value else "no"
    if kind == "list" and isinstance(value, list):
        return "\n".join(map(str, value))
    if kind == "text" and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2 if kind == "json" else None, default=str)


def _fits(field: Field, value: object) -> bool:
    """Whether the box of a field can show a value, and give it back."""
    if field.kind == "text":
        return isinstance(value, str)
    if field.kind == "flag":
        return isinstance(value, bool)
    if field.kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if field.kind == "list":
        return isinstance(value, list) and all(map(_is_line, value))
    if field.kind == "rows":
        return isinstance(value, list) and all(_fits_row(field, one) for one in value)
    return _fits_row(field, value)


def _fits_row(field: Field, row: object) -> bool:
    known = {one.name: one for one in field.fields}
    if not isinstance(row, dict) or not row.keys() <= known.keys():
        return False
    return all(_fits(known[name], value) for name, value in row.items())


def _is_line(item: object) -> bool:
    return isinstance(item, str) and item == item.strip() and len(item.splitlines()) == 1
