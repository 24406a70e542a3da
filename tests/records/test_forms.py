"""The fields of a category as a person fills them in, on a command line and on a page."""

from __future__ import annotations

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
    return forms.make_form(category, Rules({**DEFAULTS, **own}))


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
        "any": {},
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


def test_a_schema_that_cannot_be_used_makes_a_form_that_asks_for_nothing() -> None:
    found = form("recipe", {"properties": {"a": {"type": 5}}})
    assert (found.fields, found.is_open) == ([], True)


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
    assert forms.make_title(form(), content) == title


def test_a_change_leaves_every_other_field_and_its_order() -> None:
    before = {"b": 1, "extra": {"deep": [None]}, "none": None, "a": 2, "gone": 3}
    after = forms.revise(before, {"a": 9, "gone": None, "new": "x", "never": None})
    assert after == {"b": 1, "extra": {"deep": [None]}, "none": None, "a": 9, "new": "x"}
    assert list(after) == ["b", "extra", "none", "a", "new"]


@pytest.mark.parametrize(
    "category, field", [("decision", "decision"), ("runbook", "trigger"), ("recipe", "any")]
)
def test_a_text_goes_to_the_field_that_says_most(category: str, field: str) -> None:
    assert form(category, OWN).main_field == field
