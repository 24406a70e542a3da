"""What a typed memory must look like; model and JSON Schema are asked about every row."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from retain.categories import DEFAULTS
from retain.records.schema import find_faults, load_schema, schema_problem
from tests.records.filing import CONTENT

ROOT = Path(__file__).parents[2]
Record = dict[str, Any]
GONE = object()
CATEGORIES = tuple(DEFAULTS)

# What a content's fields take: a text, a list, one that must not be empty (some), choices.
CONTENT_FIELDS: dict[str, dict[str, str]] = {
    "session_summary": {
        "goal": "text", "outcome": "success partial blocked abandoned", "completed": "list",
        "next_actions": "list", "in_progress": "list?", "blockers": "list?",
        "key_changes": "list?",
    },
    "decision": {
        "status": "proposed accepted deprecated superseded", "context": "text",
        "decision": "text", "rationale": "some", "consequences": "list?",
    },
    "runbook": {
        "trigger": "text", "steps": "some", "verification": "text", "symptoms": "list?",
        "root_cause": "text?", "environment": "text?",
    },
    "constraint": {
        "kind": "limitation gap policy technical", "rule": "text", "impact": "some",
        "severity": "high medium low", "active": "flag", "workarounds": "list?",
        "expires": "text?",
    },
    "tech_debt": {
        "status": "open in_progress resolved wont_fix", "priority": "critical high medium low",
        "description": "text", "reason_deferred": "text", "impact": "list?",
        "suggested_fix": "list?", "acceptance_criteria": "list?",
    },
    "preference": {
        "topic": "text", "value": "text", "reason": "text", "strength": "strong default soft",
    },
}  # fmt: skip
# For each kind the values that fit, and those that do not, with the place and what belongs there.
KINDS: dict[str, tuple[list[Any], list[tuple[Any, str, str]]]] = {
    "text": (["", "x"], [(bad, "", "a string") for bad in (5, None, ["x"], True)]),
    "text?": (["x", None], [(5, "", "a string or null")]),
    "list": ([[], ["x"]], [("x", "", "a list"), (None, "", "a list"), ([1], ".0", "a string")]),
    "list?": ([[], ["x"], None], [({}, "", "a list or null"), ([1.5], ".0", "a string")]),
    "some": (
        [["x", "y"]],
        [
            ([], "", "a list with at least 1 item"),
            ("x", "", "a list with at least 1 item"),
            (["x", {}], ".1", "a string"),
        ],
    ),
    "flag": ([True, False], [(bad, "", "true or false") for bad in (0, 1, "true", None, "yes")]),
}
NEEDED = {
    category: [name for name, kind in fields.items() if not kind.endswith("?")]
    for category, fields in CONTENT_FIELDS.items()
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
        assert find_faults(record(category) | {name: value}) == [], (name, value)


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
    ("changes", [CHANGE] * 51, "changes", "a list with at most 50 items or null",
     json.dumps([CHANGE] * 51)[:77] + "..."),
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
        found = find_faults(changed(category, name, value))
        assert [(one.field, one.got) for one in found] == [(field, got)], (name, value)
        assert found[0].expected == expected or not expected, (name, value)


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_field_of_a_content_takes_its_kind_and_no_other(category: str) -> None:
    for name, kind in CONTENT_FIELDS[category].items():
        loc, choices = f"content.{name}", kind.split()
        fine, broken = KINDS.get(kind) or (
            choices,
            [
                (bad, "", f"one of {', '.join(choices)}")
                for bad in ("", choices[0].upper(), f"{choices[0]} ", 5, None, [choices[0]])
            ],
        )
        for value in fine:
            assert find_faults(changed(category, loc, value)) == [], (loc, value)
        for value, place, expected in broken:
            (fault,) = find_faults(changed(category, loc, value))
            assert fault[:2] == (loc + place, expected), (loc, value)


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_is_missing_and_what_is_unknown_is_named(category: str) -> None:
    for name in ("schema_version", "id", "title", "created_at", "updated_at", "tags", "content"):
        (fault,) = find_faults(changed(category, name, GONE))
        assert (fault.field, fault.got) == (name, "nothing")
        assert fault.expected.endswith(" (required)")
    missed = {fault.field for fault in find_faults(record(category) | {"content": {}})}
    assert missed == {f"content.{name}" for name in NEEDED[category]}
    (fault,) = find_faults(changed(category, "content.mood", "good"))
    assert fault.field == "content.mood"
    assert fault.expected.startswith("no field of this name (fields: ")
    assert all(name in fault.expected for name in CONTENT_FIELDS[category])


OPTION = {"option": "MySQL", "rejected_reason": "no"}


@pytest.mark.parametrize(
    "category, name, value, field",
    [
        *(("decision", "alternatives", value, field) for value, field in (
            (None, ""), ([], ""), ([OPTION, OPTION], ""), ([{"option": "x"}], "0.rejected_reason"),
            ([OPTION | {"option": None}], "0.option"), ([OPTION, OPTION | {"cost": 1}], "1.cost"),
            (["MySQL"], "0"), ({}, "-"),
        )),
        *(("preference", "examples", value, field) for value, field in (
            (None, ""), ({}, ""), ({"prefer": ["a"], "avoid": None}, ""),
            ({"prefer": "a"}, "prefer"), ({"avoid": [5]}, "avoid.0"), ({"never": []}, "never"),
            ([], "-"),
        )),
    ],
)  # fmt: skip
def test_fields_that_have_fields(category: str, name: str, value: object, field: str) -> None:
    found = find_faults(changed(category, f"content.{name}", value))
    wanted = f"content.{name}.{field}".removesuffix(".-")
    assert [one.field for one in found] == ([wanted] if field else [])


def test_all_faults_are_told() -> None:
    whole = record() | {
        "extra": 1,
        "content": {"rationale": [], "mood": 1, "status": "maybe", "decision": "d"},
        "tags": [],
        "title": 5,
    }
    assert [one.field for one in find_faults(whole)] == [
        "title", "tags", "content.mood", "content.status", "content.rationale", "content.context",
        "extra",
    ]  # fmt: skip


def test_an_empty_record_misses_everything() -> None:
    found = find_faults({})
    assert [one.field for one in found] == load_schema("own")["required"]
    assert {one.got for one in found} == {"nothing"}


def test_a_value_cannot_write_to_a_terminal() -> None:
    (fault,) = find_faults(record() | {"record_status": "\x1b[2J\x9b\u202e\udc80"})
    assert fault.got.isprintable()


def test_a_key_that_is_no_text_is_a_fault() -> None:
    whole: Any = record() | {5: "x"}
    assert [(one.field, one.got) for one in find_faults(whole)] == [("5", '"x"')]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner),
    max_leaves=6,
)  # fmt: skip


@given(st.sampled_from(CATEGORIES), st.data())
def test_any_value_anywhere_is_judged_as_the_schema_says(
    category: str, data: st.DataObject
) -> None:
    schema = load_schema(category)
    name = data.draw(st.sampled_from(sorted({*schema["properties"], "other"} - {"category"})))
    inner = data.draw(st.sampled_from(sorted(schema["properties"]["content"]["properties"])))
    value = data.draw(JSON)
    for whole in (record(category) | {name: value}, changed(category, f"content.{inner}", value)):
        assert (not find_faults(whole)) is Draft202012Validator(schema).is_valid(whole)


# The files


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_schemas_share_all_but_category_and_content(category: str) -> None:
    path = ROOT / "src/retain/schemas/base.schema.json"
    base, schema = json.loads(path.read_text(encoding="utf-8")), load_schema(category)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(base).validate(record(category))
    assert base["properties"]["category"] == {"enum": list(CATEGORIES)}
    own = {"$id": f"https://claude-memory.dev/schemas/{category}.schema.json"}
    own["title"] = f"{category.replace('_', ' ').capitalize()} memory"
    content = schema["properties"]["content"]
    named = {"category": {"const": category}, "content": content}
    assert schema == {**base, **own, "properties": {**base["properties"], **named}}
    assert sorted(content["required"]) == sorted(NEEDED[category])
    assert content["additionalProperties"] is False
    assert "$ref" not in json.dumps(schema)


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
    assert find_faults(incident()) == []
    assert find_faults(incident(a={"b": [1]})) == []
    assert find_faults(incident() | {"content": []}) == [("content", "an object", "[] (list)")]
    assert [one.field for one in find_faults(incident() | {"tags": [], "x": 1})] == ["tags", "x"]


@pytest.mark.parametrize(
    "content, field, expected, got",
    [
        ({"impact": "no"}, "impact", "a string of at least 3 characters", '"no"'),
        ({"impact": 5}, "impact", "a string of at least 3 characters", "5 (integer)"),
        ({"level": 3}, "level", "one of 1, 2, high", "3"),
        ({"hosts": "a"}, "hosts", "a list with at most 2 items", '"a" (string)'),
        ({"hosts": ["a", 5]}, "hosts.1", "a string", "5 (integer)"),
        ({"hosts": ["a"] * 3}, "hosts", "a list with at most 2 items", '["a", "a", "a"]'),
        ({"cost": -5}, "cost", "a number of at least 0", "-5"),
        ({"cost": 7}, "cost", "what the schema's multipleOf asks for: 5", "7"),
        ({"size": 10}, "size", "a number of at most 9", "10"),
        ({"closed": 1}, "closed", "exactly true", "1 (integer)"),
        ({"code": "x"}, "code", "a string that matches ^[A-Z]+-[0-9]+$ or null", '"x"'),
        ({"code": 5}, "code", "a string that matches ^[A-Z]+-[0-9]+$ or null", "5 (integer)"),
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
    assert find_faults(incident(), INCIDENT) == []
    assert find_faults(incident(**content), INCIDENT) == [(f"content.{field}", expected, got)]


def test_each_missing_field_is_told_once() -> None:
    assert find_faults(incident() | {"content": {}}, INCIDENT) == [
        ("content.impact", "a string of at least 3 characters (required)", "nothing"),
        ("content.level", "one of 1, 2, high (required)", "nothing"),
    ]
    (fault,) = find_faults(incident(), {"required": ["who"]})
    assert fault == ("content.who", "any value (required)", "nothing")
    (fault,) = find_faults(incident(never=1), INCIDENT)
    assert fault.expected == "nothing: the schema allows no value here"


def test_a_schema_can_narrow_one_of_the_six() -> None:
    narrow = {"properties": {"status": {"const": "accepted"}}}
    assert find_faults(record(), narrow) == []
    (fault,) = find_faults(changed("decision", "content.status", "proposed"), narrow)
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
        {"properties": {f"p{number}": {} for number in range(1001)}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
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
    (fault,) = find_faults(incident(), schema)
    assert fault.field == "schema"
    assert "JSON Schema" in fault.expected
    assert fault.got


def test_a_number_that_cannot_be_written_down_is_no_crash() -> None:
    huge = 10**5000
    for rule in ({"type": "string"}, {"maximum": 5}, {"uniqueItems": True}, {"enum": [1]}):
        found = find_faults(
            incident(x=huge, y=[huge, huge]), {"properties": {"x": rule, "y": rule}}
        )
        assert found
        assert all(one.got for one in found)


def test_why_a_schema_cannot_be_used_is_known_before_there_is_a_record() -> None:
    assert schema_problem(INCIDENT) == ""
    assert schema_problem({"$schema": "https://json-schema.org/draft/2020-12/schema"}) == ""
    assert "evil.example" in schema_problem({"$ref": "https://evil.example/x"})


def test_a_pattern_cannot_take_for_ever() -> None:
    schema = {"properties": {"impact": {"pattern": "^(a+)+$"}}}
    (fault,) = find_faults(incident(impact="a" * 5000 + "!"), schema)
    assert fault.field == "content.impact"
