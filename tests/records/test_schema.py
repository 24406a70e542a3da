"""What a typed memory must look like, by the schemas of the six and by those of others."""

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
from retain.records.schema import find_faults, find_schema_faults, load_schema
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
TEXTS = {"type": "array", "items": {"type": "string"}}
KINDS: dict[str, Record] = {
    "text": {"type": "string"},
    "text?": {"type": ["string", "null"]},
    "list": TEXTS,
    "list?": TEXTS | {"type": ["array", "null"]},
    "some": TEXTS | {"minItems": 1},
    "flag": {"type": "boolean"},
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
WHOLE: list[tuple[str, object]] = [
    ("id", "a"), ("id", "a" * 80), ("id", "a--b"), ("title", ""),
    ("title", "\N{GRINNING FACE}" * 120),
    ("record_status", "retired"), ("created_at", "yesterday"), ("tags", [""]),
    ("tags", [str(n) for n in range(40)]), ("related_files", None), ("confidence", 1.0),
    ("confidence", None), ("changes", None), ("changes", [CHANGE] * 50),
    ("changes", [{**CHANGE, "field": None, "old_value": True, "new_value": [1]}]),
    ("times_updated", 7.0), ("times_updated", -1), ("retired_at", None),
    ("retired_reason", "x" * 300), ("archived_reason", None),
]  # fmt: skip
ID = "1 to 80 characters of a-z, 0-9 and '-', with no '-' at either end"
REASON = "a string of at most 300 characters or null"
NUMBER = "a number of at least 0 and of at most 1 or null"
BROKEN: list[tuple[str, object, str, str, str]] = [
    ("schema_version", 1.0, "schema_version", 'exactly "1.0"', "1.0"),
    *(("id", bad, "id", ID, json.dumps(bad, ensure_ascii=False)) for bad in (
        "", "-a", "a-", "A", "a b", "a_b", "é", "a\n", "a\nb",
    )),
    ("id", "a" * 81, "id", ID, '"' + "a" * 76 + "..."),
    ("id", 5, "id", ID, "5 (integer)"),
    ("title", "x" * 121, "title", "a string of at most 120 characters", '"' + "x" * 76 + "..."),
    ("title", None, "title", "a string of at most 120 characters", "null"),
    ("record_status", "gone", "record_status", "one of active, retired, archived", '"gone"'),
    ("created_at", True, "created_at", "a string", "true (boolean)"),
    ("tags", [], "tags", "a list with at least 1 item", "[]"),
    ("tags", "db", "tags", "a list with at least 1 item", '"db" (string)'),
    ("tags", ["a", 5], "tags.1", "a string", "5 (integer)"),
    ("related_files", "a.py", "related_files", "a list or null", '"a.py" (string)'),
    ("confidence", 1.1, "confidence", NUMBER, "1.1"),
    ("confidence", True, "confidence", NUMBER, "true (boolean)"),
    ("changes", [CHANGE] * 51, "changes", "a list with at most 50 items or null",
     json.dumps([CHANGE] * 51)[:77] + "..."),
    ("changes", [5], "changes.0",
     "an object with the fields date, summary, field, old_value, new_value", "5 (integer)"),
    ("changes", [{"date": "d"}], "changes.0.summary",
     "a string of at most 300 characters (required)", "nothing"),
    ("changes", [CHANGE, CHANGE | {"by": "me"}], "changes.1.by",
     "no field of this name (fields: date, summary, field, old_value, new_value)", '"me"'),
    ("times_updated", 1.5, "times_updated", "a whole number", "1.5 (number)"),
    ("times_updated", True, "times_updated", "a whole number", "true (boolean)"),
    ("retired_reason", "x" * 301, "retired_reason", REASON, '"' + "x" * 76 + "..."),
    ("content", GONE, "content", "", "nothing"),
    ("content.alternatives", [{"option": "x"}], "content.alternatives.0.rejected_reason",
     "a string (required)", "nothing"),
    ("content", [], "content", "", "[] (list)"),
    ("record_status", "\x1b[2J\x9b", "record_status", "one of active, retired, archived",
     '"\\u001b[2J\\x9b"'),
]  # fmt: skip


def test_each_broken_rule_is_named_with_what_belongs_there() -> None:
    for name, value in WHOLE:
        assert find_faults(record() | {name: value}) == [], (name, value)
    for name, value, field, expected, got in BROKEN:
        (fault,) = find_faults(changed("decision", name, value))
        assert (fault.field, fault.got) == (field, got), (name, value)
        assert fault.expected == expected or not expected, (name, value)


def test_all_faults_are_told() -> None:
    whole: Record = record() | {"extra": 1, "tags": [], "title": 5}
    whole["content"] = {"rationale": [], "mood": 1, "status": "maybe", "decision": "d"}
    found = find_faults(whole)
    assert [one.field for one in found] == [
        "title", "tags", "content.status", "content.context", "content.rationale", "content.mood",
        "extra",
    ]  # fmt: skip
    assert found[5].expected.startswith("no field of this name (fields: status, context, ")
    assert {one.field for one in find_faults({})} == set(load_schema("own")["required"])
    odd: Any = record() | {5: "x"}
    assert [(one.field, one.got) for one in find_faults(odd)] == [("5", '"x"')]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=5),
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
    assert content["additionalProperties"] is False
    fields = CONTENT_FIELDS[category]
    needed = {name for name, kind in fields.items() if not kind.endswith("?")}
    assert set(content["required"]) == needed
    for name, kind in fields.items():
        choices = {"type": "string", "enum": kind.split()}
        assert content["properties"][name] == KINDS.get(kind, choices), name
    assert find_faults(record(category)) == []
    assert {fault.field for fault in find_faults(record(category) | {"content": {}})} == {
        f"content.{name}" for name in needed
    }


# Categories of one's own


INCIDENT: Record = {
    "type": "object",
    "required": ["impact", "level"],
    "properties": {
        "impact": {"type": "string", "minLength": 3},
        "level": {"enum": [1, 2, "high"]},
        "hosts": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "cost": {"type": "number", "minimum": 0},
        "closed": {"const": True},
        "code": {"type": ["string", "null"], "pattern": "^[A-Z]+-[0-9]+$"},
        "size": {"maximum": 9},
    },
    "additionalProperties": False,
}


def incident(**content: object) -> Record:
    return record() | {"category": "incident", "content": {"impact": "all", "level": 1, **content}}


CODE = "a string that matches ^[A-Z]+-[0-9]+$ or null"


@pytest.mark.parametrize(
    "content, field, expected, got",
    [
        ({"impact": "no"}, "impact", "a string of at least 3 characters", '"no"'),
        ({"level": 3}, "level", "one of 1, 2, high", "3"),
        ({"hosts": ["a", 5]}, "hosts.1", "a string", "5 (integer)"),
        ({"hosts": ["a"] * 3}, "hosts", "a list with at most 2 items", '["a", "a", "a"]'),
        ({"cost": -5}, "cost", "a number of at least 0", "-5"),
        ({"size": 10**5000}, "size", "any value of at most 9",
         "a value too large to show (integer)"),
        ({"closed": 1}, "closed", "exactly true", "1"),
        ({"code": "x"}, "code", CODE, '"x"'),
        ({"code": 5}, "code", CODE, "5 (integer)"),
        ({"mood": 1}, "mood",
         "no field of this name (fields: impact, level, hosts, cost, closed, code, size)", "1"),
    ],
)  # fmt: skip
def test_a_content_is_checked_against_its_own_schema(
    content: Record, field: str, expected: str, got: str
) -> None:
    assert find_faults(incident(), INCIDENT) == []
    assert find_faults(incident(**content), INCIDENT) == [(f"content.{field}", expected, got)]


def test_any_object_is_content_where_there_is_no_schema() -> None:
    assert find_faults(incident(a={"b": [1]})) == []
    assert find_faults(incident() | {"content": []}) == [("content", "an object", "[] (list)")]
    (fault,) = find_faults(incident(), {"required": ["who"]})
    assert fault == ("content.who", "any value (required)", "nothing")


def test_a_schema_can_narrow_one_of_the_six() -> None:
    narrow = {"properties": {"status": {"const": "accepted"}}}
    assert find_faults(record(), narrow) == []
    (fault,) = find_faults(changed("decision", "content.status", "proposed"), narrow)
    assert fault == ("content.status", 'exactly "accepted"', '"proposed"')


DEEP: Record = {}
for _ in range(3000):
    DEEP = {"items": DEEP}


@pytest.mark.parametrize(
    "schema, field",
    [
        ({"$ref": "https://evil.example/schema.json"}, "schema.$ref"),
        ({"properties": {"x": {"multipleOf": 5}}}, "schema.x.multipleOf"),
        ({"items": {"anyOf": []}}, "schema.items.anyOf"),
        ({"patternProperties": {"(a+)+$": {}}}, "schema.patternProperties"),
        ({"type": "thing"}, "schema.type"),
        ({"type": [{}]}, "schema.type"),
        ({"properties": []}, "schema.properties"),
        ({"properties": {"x": False}}, "schema.x"),
        ({"required": "impact"}, "schema.required"),
        ({"required": [{}]}, "schema.required.0"),
        *(({"properties": {"x": {"pattern": pattern}}}, "schema.x.pattern")
          for pattern in ("(", r"(a)\1", "(?=a)")),
        (DEEP, "schema"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_a_fault_that_names_the_keyword(
    schema: Record, field: str
) -> None:
    assert [fault.field for fault in find_schema_faults(schema)] == [field]
    assert [fault.field for fault in find_faults(incident(), schema)] == [field]


def test_a_pattern_cannot_take_for_ever() -> None:
    schema = {"properties": {"impact": {"pattern": "^(a+)+$"}}}
    (fault,) = find_faults(incident(impact="a" * 5000 + "!"), schema)
    assert fault.field == "content.impact"
