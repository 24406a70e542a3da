"""The fields of a category as a person fills them in, on a command line and on a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from retain.categories import DEFAULTS, Category, Rules
from retain.errors import UsageError
from retain.records import forms
from retain.records.schema import find_faults
from tests.records.filing import CONTENT


def form(category: str = "decision", schema: Mapping[str, Any] | None = None) -> forms.Form:
    own = {"recipe": Category("recipe", "recipes", schema=schema)}
    return forms.form(category, Rules({**DEFAULTS, **own}))


def answering(*answers: str) -> tuple[Callable[[str], str], list[str]]:
    """Someone who answers in this order, and what they were asked."""
    left, asked = list(answers), []

    def ask(question: str) -> str:
        asked.append(question)
        return left.pop(0)

    return ask, asked


@pytest.mark.parametrize("category", CONTENT)
def test_the_built_in_forms_name_every_field(category: str) -> None:
    found = form(category)
    assert found.folder == DEFAULTS[category].folder
    assert not found.is_open
    required = {field.name for field in found.fields if field.is_required}
    assert required == set(CONTENT[category])


def test_a_category_without_a_schema_takes_any_field_as_text() -> None:
    assert forms.parse_fields(form("recipe"), ["salt=much", "a = b=c", "empty="]) == {
        "salt": "much",
        "a": " b=c",
        "empty": "",
    }


OWN = {
    "properties": {
        "serves": {"type": "integer"},
        "cost": {"type": ["number", "null"]},
        "vegan": {"type": ["boolean", "null"]},
        "steps": {"type": ["array", "null"], "items": {"type": "string"}, "minItems": 2},
        "rows": {"type": "array", "items": {"type": "object"}},
        "any": True,
        "kind": {"enum": ["soup", "cake", None]},
    },
    "required": ["serves", "steps"],
}


def test_values_get_the_type_that_the_schema_asks_for() -> None:
    words = ["serves=4", "cost=2.5", "vegan=no", "steps=a", "steps=b", 'rows={"a": 1}', "any=5"]
    assert forms.parse_fields(form("recipe", OWN), words) == {
        "serves": 4,
        "cost": 2.5,
        "vegan": False,
        "steps": ["a", "b"],
        "rows": [{"a": 1}],
        "any": "5",
    }


@pytest.mark.parametrize("text", ["many", "true", "NaN", "Infinity", "[1]", ""])
def test_what_is_no_number_is_left_for_the_schema_to_refuse(text: str) -> None:
    content = forms.parse_fields(form("recipe", OWN), [f"serves={text}"])
    assert content == {"serves": text}
    record = {"category": "recipe", "content": content}
    assert any(one.field == "content.serves" for one in find_faults(record, OWN))


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["=x"],
        ["colour=red"],
        ["status=accepted", "status=proposed"],
        ["alternatives=none"],
        ["alternatives=" + "[" * 100_000],
        ["alternatives=NaN"],
    ],
)
def test_what_cannot_be_filled_in_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        forms.parse_fields(form(), words)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"a": None, "b": 5, "c": []}},
        {"properties": {"a": {"type": 5, "enum": 5, "items": 5}}},
        {"properties": {"a": {"type": "array", "items": True, "minItems": "x"}}},
        {"properties": {"a": {"type": []}}, "required": 5},
        {"required": {"a": 1}},
        {"additionalProperties": "no"},
    ],
)
def test_an_odd_schema_makes_a_form_all_the_same(schema: Mapping[str, Any]) -> None:
    found = form("recipe", schema)
    ask, _ = answering(*["1"] * 3, *[""] * 9)
    forms.ask_fields(found, ask)
    forms.parse_fields(found, ["a=[1]"])


def test_asking_insists_on_what_is_required_and_no_more() -> None:
    ask, asked = answering(
        *("perhaps", "accepted", "", "why", "what"), *("", "because", "and so", ""), ""
    )
    assert forms.ask_fields(form(), ask) == {
        "status": "accepted",
        "context": "why",
        "decision": "what",
        "rationale": ["because", "and so"],
    }
    assert asked == [
        "Status (proposed|accepted|deprecated|superseded): ",
        "Status (proposed|accepted|deprecated|superseded): ",
        "Context: ",
        "Context: ",
        "Decision: ",
        "Rationale 1: ",
        "Rationale 1: ",
        "Rationale 2 (empty: done): ",
        "Rationale 3 (empty: done): ",
        "Consequences 1 (empty: done): ",
    ]


def test_flags_are_asked_for_as_yes_or_no() -> None:
    ask, asked = answering("limitation", "r", "i", "", "", "high", "maybe", "no", "")
    content = forms.ask_fields(form("constraint"), ask)
    assert content["active"] is False
    assert asked.count("Active (yes|no): ") == 2


@pytest.mark.parametrize(
    "content, title",
    [
        ({"context": "c", "decision": "Use it"}, "Use it"),
        ({"context": "c"}, "c"),
        ({"decision": " one line\nand another"}, "one line"),
        ({"decision": "word " * 30}, ("word " * 12).strip()),
        ({"decision": "x" * 100}, "x" * 60),
        ({"decision": 5, "rationale": ["r"]}, ""),
        ({}, ""),
    ],
)
def test_a_title_is_the_start_of_what_says_most(content: Mapping[str, object], title: str) -> None:
    assert forms.title(form(), content) == title


# On a page


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


def sheet(category: str = "recipe") -> forms.Form:
    return form(category, SCHEMA)


def entry(name: str, value: object = None, category: str = "recipe") -> forms.Entry:
    content = {} if value is None else {name: value}
    (found,) = (one for one in forms.entries(sheet(category), content) if one.name == name)
    return found


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
        ("causes", [" spaces "]),
        ("causes", ["a\u2028b"]),
        ("causes", [1]),
        ("people", [{"name": "Ada", "role": "ours"}]),
        ("people", [{"name": None}]),
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
    boxes = forms.entries(sheet(), {})
    kinds = "text number number flag list rows group json json"
    assert [box.kind for box in boxes] == kinds.split()
    assert all(box.text == "" for box in boxes)
    assert [box.name for box in boxes if box.is_required] == ["impact", "causes"]
    for category in DEFAULTS:
        assert "json" not in {box.kind for box in forms.entries(form(category), {})}, category


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


def test_a_list_says_how_it_is_written() -> None:
    assert entry("causes").about == "One item on each line."
    assert entry("odd").about == "As JSON."
    assert entry("impact").about == ""


def test_a_change_leaves_every_other_field_and_its_order() -> None:
    before = {"b": 1, "extra": {"deep": [None]}, "none": None, "a": 2, "gone": 3}
    after = forms.revise(before, {"a": 9, "gone": None, "new": "x", "never": None})
    assert after == {"b": 1, "extra": {"deep": [None]}, "none": None, "a": 9, "new": "x"}
    assert list(after) == ["b", "extra", "none", "a", "new"]


@pytest.mark.parametrize(
    "category, field", [("decision", "decision"), ("runbook", "trigger"), ("recipe", "impact")]
)
def test_a_text_goes_to_the_field_that_says_most(category: str, field: str) -> None:
    assert sheet(category).main_field == field
