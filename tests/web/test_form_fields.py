"""The fields of a typed memory on the page where it is written."""

from __future__ import annotations

import json

import pytest

from retain.categories import DEFAULTS, Category, Rules
from retain.records import forms
from retain.web.editor import FormField, lay_out

TEXTS = {"type": "array", "items": {"type": "string"}}
SCHEMA = {
    "type": "object",
    "properties": {
        "impact": {"type": "string"},
        "minutes": {"type": "integer"},
        "level": {"type": "integer", "enum": [1, 2, 3]},
        "paged": {"type": "boolean"},
        "causes": TEXTS,
        "people": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "hours": {"type": "number"}},
                "required": ["name"],
            },
        },
        "where": {"type": "object", "properties": {"hosts": TEXTS}},
        "deep": {"type": "object", "properties": {"deeper": {"type": "object"}}},
        "odd": {"type": "array", "items": {"type": "number"}},
    },
    "required": ["impact", "causes"],
}  # fmt: skip


def fields(category: str = "recipe") -> list[forms.Field]:
    own = {"recipe": Category("recipe", "recipes", schema=SCHEMA)}
    return list(forms.make_form(category, Rules({**DEFAULTS, **own})).fields)


def entry(name: str, value: object = None, category: str = "recipe") -> FormField:
    (field,) = (field for field in fields(category) if field.name == name)
    return lay_out(field, value)


@pytest.mark.parametrize(
    "name, value, kind, text",
    [
        ("impact", "no orders\n\ntwice", "text", "no orders\n\ntwice"),
        ("minutes", 34, "number", "34"),
        ("minutes", 1.5, "number", "1.5"),
        ("paged", True, "flag", "yes"),
        ("paged", False, "flag", "no"),
        ("causes", ["a", "b c"], "list", "a\nb c"),
        ("people", [{"name": "Ada"}], "rows", '[{"name": "Ada"}]'),
        ("where", {"hosts": ["a"]}, "group", '{"hosts": ["a"]}'),
        ("deep", {"deeper": {}}, "json", '{\n  "deeper": {}\n}'),
        ("odd", [1], "json", "[\n  1\n]"),
    ],
)
def test_a_value_stands_in_the_box_of_its_kind(
    name: str, value: object, kind: str, text: str
) -> None:
    assert entry(name, value)[2:4] == (kind, text)


@pytest.mark.parametrize(
    "name, value",
    [
        ("impact", 3),
        ("minutes", "many"),
        ("minutes", True),
        ("paged", "perhaps"),
        ("causes", "one"),
        ("causes", ["two\nlines"]),
        ("causes", ["", "x"]),
        ("causes", [1]),
        ("people", [{"name": "Ada", "role": "ours"}]),
        ("people", ["Ada"]),
        ("where", {"hosts": [["a"]]}),
        ("where", []),
    ],
)
def test_what_a_box_would_not_give_back_is_shown_as_json(name: str, value: object) -> None:
    found = entry(name, value)
    assert found.kind == "json"
    assert json.loads(found.text) == value
    assert not found.choices


def test_a_field_that_says_nothing_is_an_empty_box() -> None:
    boxes = [lay_out(field, None) for field in fields()]
    kinds = "text number number flag list rows group json json"
    assert [box.kind for box in boxes] == kinds.split()
    assert all(box.text == "" for box in boxes)
    assert [box.name for box in boxes if box.is_required] == ["impact", "causes"]
    assert [box.about for box in boxes[-5:]] == [
        "One item on each line.",
        "",
        "",
        *["As JSON."] * 2,
    ]
    for category in DEFAULTS:
        assert "json" not in {lay_out(field, None).kind for field in fields(category)}, category


def test_what_is_chosen_from_has_also_the_word_that_stands_there() -> None:
    known = ("proposed", "accepted", "deprecated", "superseded")
    assert tuple(entry("status", category="decision").choices) == known
    assert tuple(entry("status", "maybe", "decision").choices) == (*known, "maybe")
    assert tuple(entry("level", 2).choices) == ("1", "2", "3")
    assert tuple(entry("paged").choices) == ("yes", "no")


def test_rows_have_fields_and_one_to_be_filled_in() -> None:
    found = entry("people", [{"name": "Ada", "hours": 2}, {"name": "Bob"}])
    assert [[(one.name, one.text) for one in row] for row in found.rows] == [
        [("name", "Ada"), ("hours", "2")],
        [("name", "Bob"), ("hours", "")],
    ]
    assert [(one.label, one.kind, one.is_required) for one in found.blank] == [
        ("Name", "text", True),
        ("Hours", "number", False),
    ]
    (row,) = entry("where").rows  # there is always one
    assert [(one.name, one.kind) for one in row] == [("hosts", "list")]
