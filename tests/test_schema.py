"""What a typed memory must look like; model and JSON Schema are asked about every row."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from retain.categories import DEFAULTS
from retain.schema import CATEGORIES, Fault, faults, json_schema, schema_fault

ROOT = Path(__file__).parent.parent
Record = dict[str, Any]
GONE = object()

CONTENT: dict[str, Record] = {
    "session_summary": {"goal": "g", "outcome": "success", "completed": [], "next_actions": []},
    "decision": {"status": "accepted", "context": "c", "decision": "d", "rationale": ["r"]},
    "runbook": {"trigger": "t", "steps": ["s"], "verification": "v"},
    "constraint": {
        "kind": "gap", "rule": "r", "impact": ["i"], "severity": "low", "active": True,
    },
    "tech_debt": {
        "status": "open", "priority": "low", "description": "d", "reason_deferred": "r",
    },
    "preference": {"topic": "t", "value": "v", "reason": "r", "strength": "soft"},
}  # fmt: skip
TEXTS = {
    "session_summary": ["goal"],
    "decision": ["context", "decision"],
    "runbook": ["trigger", "verification"],
    "constraint": ["rule"],
    "tech_debt": ["description", "reason_deferred"],
    "preference": ["topic", "value", "reason"],
}
OPTIONAL_TEXTS = {"runbook": ["root_cause", "environment"], "constraint": ["expires"]}
LISTS = {"session_summary": ["completed", "next_actions"]}
FILLED_LISTS = {"decision": ["rationale"], "runbook": ["steps"], "constraint": ["impact"]}
OPTIONAL_LISTS = {
    "session_summary": ["in_progress", "blockers", "key_changes"],
    "decision": ["consequences"],
    "runbook": ["symptoms"],
    "constraint": ["workarounds"],
    "tech_debt": ["impact", "suggested_fix", "acceptance_criteria"],
}
CHOICES = {
    ("decision", "status"): "proposed accepted deprecated superseded",
    ("session_summary", "outcome"): "success partial blocked abandoned",
    ("constraint", "kind"): "limitation gap policy technical",
    ("constraint", "severity"): "high medium low",
    ("tech_debt", "status"): "open in_progress resolved wont_fix",
    ("tech_debt", "priority"): "critical high medium low",
    ("preference", "strength"): "strong default soft",
}


def record(category: str = "decision") -> Record:
    return {
        "schema_version": "1.0",
        "category": category,
        "id": "use-postgres",
        "title": "Use Postgres",
        "created_at": "2026-11-15T18:00:00Z",
        "updated_at": "2026-11-15T18:00:00Z",
        "tags": ["db"],
        "content": copy.deepcopy(CONTENT[category]),
    }


def changed(category: str, loc: str, value: object) -> Record:
    """A record that is in order but for one place."""
    whole = record(category)
    inner: Any = whole
    *way, last = loc.split(".")
    for part in way:
        inner = inner[int(part)] if part.isdigit() else inner[part]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return whole


@cache
def shipped(category: str) -> Draft202012Validator:
    path = ROOT / "src/retain/schemas" / f"{category.replace('_', '-')}.schema.json"
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def agreed(whole: Record) -> list[Fault]:
    """The model's faults, after the JSON Schema has said the same about the record."""
    found = faults(whole)
    theirs = list(shipped(whole["category"]).iter_errors(whole))
    assert bool(found) == bool(theirs), (found, theirs)
    return found


def each(table: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    return [(category, name) for category, names in table.items() for name in names]


CHANGE = {"date": "d", "summary": "s"}
LONG = "x" * 301
WHOLE: list[tuple[str, object]] = [
    ("id", "a"), ("id", "a" * 80), ("id", "0-9"), ("id", "a--b"),
    ("title", ""), ("title", "é" * 120), ("title", "\N{GRINNING FACE}" * 120),
    ("record_status", "active"), ("record_status", "retired"), ("record_status", "archived"),
    ("created_at", ""), ("created_at", "yesterday"), ("updated_at", "soon"),
    ("tags", ["a", "a"]), ("tags", [str(n) for n in range(40)]), ("tags", [""]),
    ("related_files", []), ("related_files", ["a.py"]), ("related_files", None),
    ("confidence", 0), ("confidence", 1), ("confidence", 1.0), ("confidence", 0.5),
    ("confidence", None),
    ("changes", []), ("changes", None), ("changes", [CHANGE]), ("changes", [CHANGE] * 50),
    ("changes", [{**CHANGE, "field": "content.status", "old_value": True, "new_value": [1]}]),
    ("changes", [{**CHANGE, "field": None, "old_value": None, "new_value": None}]),
    ("changes", [{**CHANGE, "summary": "x" * 300}]),
    ("times_updated", 0), ("times_updated", 7), ("times_updated", 7.0), ("times_updated", -1),
    ("retired_at", "2026-01-01"), ("retired_at", None), ("retired_reason", "x" * 300),
    ("retired_reason", None), ("archived_at", "x"), ("archived_at", None),
    ("archived_reason", ""), ("archived_reason", None),
]  # fmt: skip


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_record_in_order_has_no_faults(category: str) -> None:
    for name, value in WHOLE:
        assert agreed(record(category) | {name: value}) == [], (name, value)


ID = "1 to 80 characters of a-z, 0-9 and '-', with no '-' at either end"
TAGS = "a list with at least 1 item"
FIELDS = (
    "no field of this name (fields: schema_version, category, id, title, record_status, "
    "created_at, updated_at, tags, related_files, confidence, content, changes, times_updated, "
    "retired_at, retired_reason, archived_at, archived_reason)"
)
CHANGED = "an object with the fields date, summary, field, old_value, new_value"
BROKEN: list[tuple[str, object, str, str, str]] = [
    ("schema_version", "2.0", "schema_version", 'exactly "1.0"', '"2.0"'),
    ("schema_version", 1.0, "schema_version", 'exactly "1.0"', "1.0 (number)"),
    *(("id", bad, "id", ID, json.dumps(bad, ensure_ascii=False)) for bad in (
        "", "-a", "a-", "A", "a b", "a_b", "é", "a" * 81, "a\n", "a\nb",
    ) if len(bad) < 70),
    ("id", "a" * 81, "id", ID, '"' + "a" * 76 + "..."),
    ("id", 5, "id", ID, "5 (integer)"),
    ("id", None, "id", ID, "null"),
    ("title", "x" * 121, "title", "a string of at most 120 characters", '"' + "x" * 76 + "..."),
    ("title", 5, "title", "a string of at most 120 characters", "5 (integer)"),
    ("title", None, "title", "a string of at most 120 characters", "null"),
    ("record_status", "gone", "record_status", "one of active, retired, archived", '"gone"'),
    ("record_status", None, "record_status", "one of active, retired, archived", "null"),
    ("created_at", 5, "created_at", "a string", "5 (integer)"),
    ("created_at", None, "created_at", "a string", "null"),
    ("updated_at", True, "updated_at", "a string", "true (boolean)"),
    ("tags", [], "tags", TAGS, "[]"),
    ("tags", "db", "tags", TAGS, '"db" (string)'),
    ("tags", None, "tags", TAGS, "null"),
    ("tags", ["a", 5], "tags.1", "a string", "5 (integer)"),
    ("related_files", "a.py", "related_files", "a list or null", '"a.py" (string)'),
    ("related_files", [None], "related_files.0", "a string", "null"),
    ("confidence", -0.1, "confidence", "a number from 0 to 1 or null", "-0.1"),
    ("confidence", 1.1, "confidence", "a number from 0 to 1 or null", "1.1"),
    ("confidence", 2, "confidence", "a number from 0 to 1 or null", "2"),
    ("confidence", "0.5", "confidence", "a number from 0 to 1 or null", '"0.5" (string)'),
    ("confidence", True, "confidence", "a number from 0 to 1 or null", "true (boolean)"),
    ("changes", {}, "changes", "a list with at most 50 items or null", "{} (object)"),
    ("changes", [5], "changes.0", CHANGED, "5 (integer)"),
    ("changes", [{"date": "d"}], "changes.0.summary",
     "a string of at most 300 characters (required)", "nothing"),
    ("changes", [{"summary": "s"}], "changes.0.date", "a string (required)", "nothing"),
    ("changes", [CHANGE | {"summary": LONG}], "changes.0.summary",
     "a string of at most 300 characters", '"' + "x" * 76 + "..."),
    ("changes", [CHANGE | {"date": 5}], "changes.0.date", "a string", "5 (integer)"),
    ("changes", [CHANGE | {"field": 5}], "changes.0.field", "a string or null", "5 (integer)"),
    ("changes", [CHANGE, CHANGE | {"by": "me"}], "changes.1.by",
     "no field of this name (fields: date, summary, field, old_value, new_value)", '"me"'),
    ("times_updated", "5", "times_updated", "a whole number", '"5" (string)'),
    ("times_updated", 1.5, "times_updated", "a whole number", "1.5 (number)"),
    ("times_updated", True, "times_updated", "a whole number", "true (boolean)"),
    ("times_updated", None, "times_updated", "a whole number", "null"),
    ("retired_at", 5, "retired_at", "a string or null", "5 (integer)"),
    ("retired_reason", LONG, "retired_reason", "a string of at most 300 characters or null",
     '"' + "x" * 76 + "..."),
    ("archived_at", [], "archived_at", "a string or null", "[] (list)"),
    ("archived_reason", LONG, "archived_reason", "a string of at most 300 characters or null",
     '"' + "x" * 76 + "..."),
    ("author", "me", "author", FIELDS, '"me"'),
    ("content", GONE, "content", "", "nothing"),
    ("content", None, "content", "", "null"),
    ("content", [], "content", "", "[] (list)"),
    ("content", "text", "content", "", '"text" (string)'),
]  # fmt: skip


@pytest.mark.parametrize("category", CATEGORIES)
def test_each_broken_rule_is_named_with_what_belongs_there(category: str) -> None:
    for name, value, field, expected, got in BROKEN:
        found = agreed(changed(category, name, value))
        assert [(one.field, one.got) for one in found] == [(field, got)], (name, value)
        assert found[0].expected == expected or not expected, (name, value)


def test_changes_are_at_most_fifty() -> None:
    (fault,) = agreed(record() | {"changes": [CHANGE] * 51})
    assert (fault.field, fault.expected) == ("changes", "a list with at most 50 items or null")
    assert len(fault.got) == 80


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize(
    "name", ["schema_version", "id", "title", "created_at", "updated_at", "tags", "content"]
)
def test_a_field_every_record_needs(category: str, name: str) -> None:
    (fault,) = agreed(changed(category, name, GONE))
    assert fault.field == name
    assert fault.expected.endswith(" (required)")
    assert fault.got == "nothing"


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_needed_field_of_a_content_is_missed(category: str) -> None:
    names = list(CONTENT[category])
    assert [one.field for one in agreed(record(category) | {"content": {}})] == [
        f"content.{name}" for name in names
    ]
    for name in names:
        (fault,) = agreed(changed(category, f"content.{name}", GONE))
        assert fault.field == f"content.{name}"


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_content_has_no_other_fields(category: str) -> None:
    (fault,) = agreed(changed(category, "content.mood", "good"))
    assert fault.field == "content.mood"
    assert fault.expected.startswith("no field of this name (fields: ")
    assert all(name in fault.expected for name in CONTENT[category])


@pytest.mark.parametrize("category, name", each(TEXTS))
def test_a_needed_text(category: str, name: str) -> None:
    loc = f"content.{name}"
    assert agreed(changed(category, loc, "")) == []
    for bad in (5, None, ["x"], True):
        (fault,) = agreed(changed(category, loc, bad))
        assert fault[:2] == (loc, "a string")


@pytest.mark.parametrize("category, name", each(OPTIONAL_TEXTS))
def test_a_text_that_may_be_left_out(category: str, name: str) -> None:
    loc = f"content.{name}"
    assert agreed(changed(category, loc, None)) == agreed(changed(category, loc, "x")) == []
    (fault,) = agreed(changed(category, loc, 5))
    assert fault == (loc, "a string or null", "5 (integer)")


@pytest.mark.parametrize("category, name", each(LISTS))
def test_a_needed_list(category: str, name: str) -> None:
    loc = f"content.{name}"
    assert agreed(changed(category, loc, [])) == agreed(changed(category, loc, ["x"])) == []
    assert agreed(changed(category, loc, "x")) == [(loc, "a list", '"x" (string)')]
    assert agreed(changed(category, loc, None)) == [(loc, "a list", "null")]
    assert agreed(changed(category, loc, [1])) == [(f"{loc}.0", "a string", "1 (integer)")]


@pytest.mark.parametrize("category, name", each(FILLED_LISTS))
def test_a_list_that_must_not_be_empty(category: str, name: str) -> None:
    loc = f"content.{name}"
    assert agreed(changed(category, loc, ["x", "y"])) == []
    assert agreed(changed(category, loc, [])) == [(loc, "a list with at least 1 item", "[]")]
    assert (
        len(agreed(changed(category, loc, "x"))) == len(agreed(changed(category, loc, None))) == 1
    )
    assert len(agreed(changed(category, loc, ["x", {}]))) == 1


@pytest.mark.parametrize("category, name", each(OPTIONAL_LISTS))
def test_a_list_that_may_be_left_out(category: str, name: str) -> None:
    loc = f"content.{name}"
    for fine in (None, [], ["x"]):
        assert agreed(changed(category, loc, fine)) == []
    assert agreed(changed(category, loc, {})) == [(loc, "a list or null", "{} (object)")]
    assert agreed(changed(category, loc, [1.5])) == [(f"{loc}.0", "a string", "1.5 (number)")]


@pytest.mark.parametrize("category, name", CHOICES)
def test_a_choice(category: str, name: str) -> None:
    loc, choices = f"content.{name}", CHOICES[category, name].split()
    for choice in choices:
        assert agreed(changed(category, loc, choice)) == []
    for bad in ("", choices[0].upper(), f"{choices[0]} ", 5, None, [choices[0]], True):
        (fault,) = agreed(changed(category, loc, bad))
        assert fault[:2] == (loc, f"one of {', '.join(choices)}")


@pytest.mark.parametrize("bad", [0, 1, "true", None, "yes"])
def test_a_constraint_is_active_or_not(bad: object) -> None:
    assert agreed(changed("constraint", "content.active", False)) == []
    (fault,) = agreed(changed("constraint", "content.active", bad))
    assert fault[:2] == ("content.active", "true or false")


OPTION = {"option": "MySQL", "rejected_reason": "no"}


@pytest.mark.parametrize(
    "alternatives, field",
    [
        (None, ""), ([], ""), ([OPTION], ""), ([OPTION, OPTION], ""),
        ([{"option": "x"}], "0.rejected_reason"), ([{"rejected_reason": "x"}], "0.option"),
        ([OPTION | {"option": 5}], "0.option"), ([OPTION | {"option": None}], "0.option"),
        ([OPTION, OPTION | {"cost": 1}], "1.cost"), (["MySQL"], "0"), ({}, "-"),
    ],
)  # fmt: skip
def test_the_alternatives_of_a_decision(alternatives: object, field: str) -> None:
    found = agreed(changed("decision", "content.alternatives", alternatives))
    wanted = f"content.alternatives.{field}".removesuffix(".-")
    assert [one.field for one in found] == ([wanted] if field else [])


@pytest.mark.parametrize(
    "examples, field",
    [
        (None, ""), ({}, ""), ({"prefer": [], "avoid": []}, ""), ({"prefer": ["a"]}, ""),
        ({"avoid": None}, ""), ({"prefer": "a"}, "prefer"), ({"avoid": [5]}, "avoid.0"),
        ({"never": []}, "never"), ([], "-"), ("a", "-"),
    ],
)  # fmt: skip
def test_the_examples_of_a_preference(examples: object, field: str) -> None:
    found = agreed(changed("preference", "content.examples", examples))
    wanted = f"content.examples.{field}".removesuffix(".-")
    assert [one.field for one in found] == ([wanted] if field else [])


def test_all_faults_are_told_in_the_order_of_the_record() -> None:
    whole = {
        "extra": 1,
        "content": {"rationale": [], "mood": 1, "status": "maybe", "decision": "d"},
        "tags": [],
        **{key: value for key, value in record().items() if key not in ("content", "tags", "id")},
        "title": 5,
    }
    assert [one.field for one in agreed(whole)] == [
        "extra", "content.rationale", "content.mood", "content.status", "content.context",
        "tags", "title", "id",
    ]  # fmt: skip


def test_an_empty_record_misses_everything() -> None:
    found = faults({})
    assert [one.field for one in found] == json_schema("base")["required"]
    assert {one.got for one in found} == {"nothing"}


@pytest.mark.parametrize("bad", [None, 5, [], {}, "", "Decision", "a-b", "a" * 41, "décision"])
def test_a_category_is_a_name(bad: object) -> None:
    (fault,) = faults(record() | {"category": bad})
    assert fault.field == "category"
    assert fault.expected.startswith("a category's name")


def test_a_value_cannot_write_to_a_terminal() -> None:
    (fault,) = faults(record() | {"record_status": "\x1b[2J\x9b\u202e\udc80"})
    assert fault.got.isprintable()


def test_a_key_that_is_no_text_is_a_fault() -> None:
    whole: Any = record() | {5: "x"}
    assert [(one.field, one.got) for one in faults(whole)] == [("5", "5")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner),
    max_leaves=6,
)  # fmt: skip


@given(st.sampled_from(CATEGORIES), st.data())
def test_model_and_json_schema_agree_on_any_value_anywhere(
    category: str, data: st.DataObject
) -> None:
    schema = json_schema(category)
    name = data.draw(st.sampled_from(sorted({*schema["properties"], "other"} - {"category"})))
    inner = data.draw(st.sampled_from(sorted(schema["properties"]["content"]["properties"])))
    value = data.draw(JSON)
    agreed(record(category) | {name: value})
    agreed(changed(category, f"content.{inner}", value))


# The files


def test_the_shipped_schemas_are_what_the_models_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/schemas.py"), "--check"], check=False
    )
    assert done.returncode == 0, "run: .venv/bin/python scripts/schemas.py"


@pytest.mark.parametrize("category", ["base", *CATEGORIES, "incident"])
def test_a_json_schema_stands_on_its_own(category: str) -> None:
    schema = json_schema(category)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"https://claude-memory.dev/schemas/{category}.schema.json"
    assert schema["additionalProperties"] is False
    assert schema["required"] == [
        "schema_version", "category", "id", "title", "created_at", "updated_at", "tags", "content",
    ]  # fmt: skip
    assert "$ref" not in json.dumps(schema)
    if category in CATEGORIES:
        content = schema["properties"]["content"]
        assert content["required"] == list(CONTENT[category])
        assert content["additionalProperties"] is False


def test_the_base_is_what_all_six_have_in_common() -> None:
    base = json_schema("base")
    assert base["properties"]["category"] == {"enum": list(CATEGORIES)}
    assert base["properties"]["content"] == {"type": "object"}
    for category in CATEGORIES:
        own = json_schema(category)
        assert list(own["properties"]) == list(base["properties"])
        Draft202012Validator(base).validate(record(category))


def test_the_six_are_the_same_everywhere() -> None:
    assert list(DEFAULTS) == list(CATEGORIES)


# Categories of one's own


INCIDENT: Record = {
    "type": "object",
    "required": ["impact", "level"],
    "properties": {
        "impact": {"type": "string", "minLength": 3},
        "level": {"enum": [1, 2, "high"]},
        "hosts": {"type": "array", "items": {"$ref": "#/$defs/host"}, "maxItems": 2},
        "cost": {"type": "number", "minimum": 0, "multipleOf": 5},
        "closed": {"const": True},
        "code": {"type": ["string", "null"], "pattern": "^[A-Z]+-[0-9]+$"},
        "never": False,
        "size": {"maximum": 9},
    },
    "additionalProperties": False,
    "$defs": {"host": {"type": "string"}},
}


def incident(**content: object) -> Record:
    return record() | {"category": "incident", "content": {"impact": "all", "level": 1, **content}}


def test_any_object_is_content_where_there_is_no_schema() -> None:
    assert faults(incident()) == []
    assert faults(incident(a={"b": [1]})) == []
    assert faults(incident() | {"content": []}) == [("content", "an object", "[] (list)")]
    assert [one.field for one in faults(incident() | {"tags": [], "x": 1})] == ["tags", "x"]


@pytest.mark.parametrize(
    "content, field, expected, got",
    [
        ({"impact": "no"}, "impact", "a string of at least 3 characters", '"no"'),
        ({"impact": 5}, "impact", "a string", "5 (integer)"),
        ({"level": 3}, "level", "one of 1, 2, high", "3"),
        ({"hosts": "a"}, "hosts", "a list", '"a" (string)'),
        ({"hosts": ["a", 5]}, "hosts.1", "a string", "5 (integer)"),
        ({"hosts": ["a"] * 3}, "hosts", "a list with at most 2 items", '["a", "a", "a"]'),
        ({"cost": -5}, "cost", "a number of at least 0", "-5"),
        ({"cost": 7}, "cost", "what the schema's multipleOf asks for: 5", "7"),
        ({"size": 10}, "size", "a number of at most 9", "10"),
        ({"closed": 1}, "closed", "exactly true", "1 (integer)"),
        ({"code": "x"}, "code", "a string that matches ^[A-Z]+-[0-9]+$", '"x"'),
        ({"code": 5}, "code", "a string or null", "5 (integer)"),
        (
            {"mood": 1},
            "mood",
            "no field of this name (fields: impact, level, hosts, cost, closed, code, never, size)",
            "1",
        ),
    ],
)
def test_a_content_is_checked_against_its_own_schema(
    content: Record, field: str, expected: str, got: str
) -> None:
    assert faults(incident(), INCIDENT) == []
    assert faults(incident(**content), INCIDENT) == [(f"content.{field}", expected, got)]


def test_a_field_that_may_have_no_value_is_refused() -> None:
    (fault,) = faults(incident(never=1), INCIDENT)
    assert fault.expected == "nothing: the schema allows no value here"


def test_each_missing_field_is_told_once() -> None:
    assert faults(incident() | {"content": {}}, INCIDENT) == [
        ("content.impact", "a string of at least 3 characters (required)", "nothing"),
        ("content.level", "one of 1, 2, high (required)", "nothing"),
    ]
    (fault,) = faults(incident(), {"required": ["who"]})
    assert fault == ("content.who", "any value (required)", "nothing")


def test_a_schema_can_narrow_one_of_the_six() -> None:
    narrow = {"properties": {"status": {"const": "accepted"}}}
    assert faults(record(), narrow) == []
    (fault,) = faults(changed("decision", "content.status", "proposed"), narrow)
    assert fault == ("content.status", 'exactly "accepted"', '"proposed"')


DOUBLING = {
    "$ref": "#/$defs/a0",
    "$defs": {
        **{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)},
        "a40": {},
    },
}
DEEP: Record = {}
for _ in range(3000):
    DEEP = {"not": DEEP}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://evil.example/schema.json"},
        {"properties": {"x": {"$ref": "other.json"}}},
        {"allOf": [{"$ref": "file:///etc/passwd"}]},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"$dynamicRef": "#x"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"properties": {"x": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
        {"$schema": []},
        {"type": "thing"},
        {"type": 5},
        {"properties": []},
        {"required": "impact"},
        {"properties": {"impact": {"pattern": "("}}},
        {"properties": {"impact": {"pattern": r"(a)\1"}}},
        {"properties": {"impact": {"pattern": "(?=a)"}}},
        {"patternProperties": {"(a+)+$": {}}},
        {"unevaluatedProperties": True},
        {"properties": {"x": {"unevaluatedItems": False}}},
        {"$ref": "#anchor", "$defs": {"x": {"$anchor": "anchor"}}},
        {"properties": {"x": {"$id": "https://evil.example/x"}}},
        {"properties": {f"p{number}": {} for number in range(1001)}},
        {"type": [{}] * 201},
        DOUBLING,
        DEEP,
    ],
    ids=lambda schema: json.dumps(schema)[:60] if schema is not DEEP else "deep",
)
def test_a_schema_that_cannot_be_used_is_a_fault_and_nothing_is_fetched(
    schema: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*of: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr("socket.socket.connect", refused)
    (fault,) = faults(incident(), schema)
    assert fault.field == "schema"
    assert "JSON Schema" in fault.expected
    assert fault.got


def nested(part: Record, times: int) -> Record:
    for _ in range(times):
        part = {"anyOf": [part, part], **{key: True for key in part if key == WIDE}}
    return part


WIDE = "unevaluatedProperties"
REFERRED = {"allOf": [{"$ref": "#/$defs/x"}] * 150}
LARGE = {"x": [{"a": [number, str(number)]} for number in range(20_000)]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema, content",
    [
        (nested({WIDE: True}, 11), {"x": 1}),
        (nested({"type": "string"}, 8) | {"$defs": {"x": {}}}, LARGE),
        ({"properties": {"x": {"enum": [[number] for number in range(900)]}}}, LARGE),
        ({"properties": {"x": {"items": {"enum": list(range(9000))}}}}, LARGE),
        ({**REFERRED, "$defs": {"x": {"properties": {"x": {"uniqueItems": True}}}}}, LARGE),
        ({**REFERRED, "$defs": {"x": {"type": "string"}}}, LARGE),
        ({**REFERRED, "$defs": {"x": {"properties": {"x": False}}}}, LARGE),
        ({**REFERRED, "$defs": {"x": dict.fromkeys(map(str, range(9000)))}}, {}),
        ({"required": [str(number) for number in range(9000)]}, {}),
        ({"additionalProperties": False}, dict.fromkeys(map(str, range(90_000)))),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_no_schema_and_no_content_takes_long(schema: Record, content: Record) -> None:
    assert_ends(lambda: faults(incident() | {"content": content}, schema))


def assert_ends(check: Callable[[], object]) -> None:
    """A check that hangs is ended by the time limit of every test."""
    check()


@pytest.mark.parametrize(
    "items, is_unique",
    [
        (LARGE["x"], True),
        ([*LARGE["x"], {"a": [7.0, "7"]}], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
        ([1, True, "1", [1], None, "None", {"1": 1}, 1.5], True),
        ([0, False, 0.5, -0.5], True),
        ([[1, [2]], [1, [2.0]]], False),
        ([number * (2**61 - 1) for number in range(50_000)], True),
        ([[], {}, ""], True),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_items_of_a_list_are_compared_as_json_does(items: list[Any], is_unique: bool) -> None:
    schema = {"properties": {"x": {"uniqueItems": True}}}
    assert_ends(lambda: faults(incident(x=items), schema))
    assert (faults(incident(x=items), schema) == []) is is_unique
    assert faults(incident(x=items), {"properties": {"x": {"uniqueItems": False}}}) == []


@pytest.mark.parametrize(
    "of, number, fits",
    [
        (0.5, 10**400, True), (0.5, 10**400 + 1, True), (0.3, 10**400, False), (0.1, 0.3, True),
        (0.01, 4.02, True), (2, 3, False), (2, 4.0, True), (3, 10**400, False),
        (1e-300, 1e300, True), (0.5, True, True), (0.5, "x", True),
    ],
)  # fmt: skip
def test_a_multiple_is_one_however_large_the_number(of: float, number: object, fits: bool) -> None:
    found = faults(incident(x=number), {"properties": {"x": {"multipleOf": of}}})
    assert [one.field for one in found] == ([] if fits else ["content.x"])


def test_a_number_that_cannot_be_written_down_is_no_crash() -> None:
    huge = 10**5000
    for rule in ({"type": "string"}, {"maximum": 5}, {"uniqueItems": True}, {"enum": [1]}):
        found = faults(incident(x=huge, y=[huge, huge]), {"properties": {"x": rule, "y": rule}})
        assert found
        assert all(one.got for one in found)
    assert faults(incident() | {"title": huge})[0].field == "title"


def test_a_content_nested_beyond_reason_is_a_fault() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    schema = {
        "properties": {"x": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"items": {"$ref": "#/$defs/x"}}},
    }
    assert [one.field for one in faults(incident(x=deep), schema)] == ["schema"]


@pytest.mark.slow
def test_a_record_with_a_fault_in_every_field_is_told_of_in_moments() -> None:
    whole = record() | {f"x{number}": 1 for number in range(30_000)}
    assert_ends(lambda: faults(whole))


def test_a_large_record_of_an_ordinary_kind_is_checked() -> None:
    hosts = {"x": [{"name": f"host {number}", "up": True, "load": 0.5} for number in range(5000)]}
    rules = {
        "type": "object",
        "required": ["name", "up"],
        "properties": {
            "name": {"type": "string", "pattern": "^host [0-9]+$"},
            "up": {"type": "boolean"},
            "load": {"type": "number", "minimum": 0},
        },
        "additionalProperties": False,
    }
    schema = {"properties": {"x": {"type": "array", "items": rules, "uniqueItems": True}}}
    assert faults(incident() | {"content": hosts}, schema) == []
    hosts["x"][7]["up"] = "yes"
    (fault,) = faults(incident() | {"content": hosts}, schema)
    assert fault == ("content.x.7.up", "true or false", '"yes" (string)')


def test_why_a_schema_cannot_be_used_is_known_before_there_is_a_record() -> None:
    assert schema_fault(INCIDENT) == ""
    assert schema_fault({"$schema": "https://json-schema.org/draft/2020-12/schema"}) == ""
    assert "evil.example" in schema_fault({"$ref": "https://evil.example/x"})


def test_a_pattern_cannot_take_for_ever() -> None:
    schema = {"properties": {"impact": {"pattern": "^(a+)+$"}}}
    (fault,) = faults(incident(impact="a" * 5000 + "!"), schema)
    assert fault.field == "content.impact"


def test_nothing_but_a_check_loads_pydantic() -> None:
    code = (
        "import sys, retain.app, retain.config, retain.categories\n"
        "print({'pydantic', 'jsonschema', 'retain.schema'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    assert out.stdout == "set()\n"
