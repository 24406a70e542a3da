"""A record comes back from Markdown and JSON as it was, and nothing else in its file moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.bank.markdown import parse_file
from retain.memory import Memory
from retain.records import codec
from tests.records.filing import CONTENT

Record = dict[str, Any]
SUFFIXES = [".json", ".md"]
WHOLE: Record = {
    "schema_version": "1.0",
    "category": "decision",
    "id": "use-postgres",
    "title": "Use Postgres",
    "record_status": "active",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-02T00:00:00Z",
    "tags": ["db", "auth"],
    "related_files": ["src/db.py"],
    "confidence": 0.5,
    "content": CONTENT["decision"],
    "changes": [
        {"date": "2026-01-02", "summary": "a: b", "field": None, "old_value": 1, "new_value": [2]}
    ],
    "times_updated": 3,
}


def memory(data: bytes, suffix: str, name: str = "use-postgres") -> Memory:
    document = parse_file(f"x{suffix}", data)
    path = f"/bank/decisions/{name}{suffix}"
    return Memory(name, "decisions", path, document.meta, document.body, data, document.problem)


def filed(record: Record, suffix: str) -> Memory:
    return memory(codec.dump_record(record, suffix, "tester"), suffix)


words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Co", "Cn")), max_size=30)
looks = st.sampled_from(
    ["yes", "null", "~", "1.0", "0x1", "2026-01-01", "- a", "a: b", "#", "'", "é\n b"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | words | looks,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(content=st.dictionaries(words, values, max_size=4), title=words | looks)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_content_comes_back_from_both_kinds_of_file(
    suffix: str, content: Record, title: str
) -> None:
    wanted = {**WHOLE, "category": "recipe", "content": content, "title": title.strip() or "x"}
    wanted["changes"] = [{"date": "d", "summary": "s", "new_value": content}]
    found = filed(wanted, suffix)
    assert codec.load_record(found) == wanted
    assert (found.type, codec.is_record(found)) == ("recipe", True)


@given(content=st.dictionaries(words, values, max_size=4))
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_change_is_made_and_undone_to_the_byte(suffix: str, content: Record) -> None:
    before = filed({**WHOLE, "category": "recipe", "content": {"a": 1}}, suffix)
    record = codec.load_record(before)
    assert codec.edit_record({**record, "tags": record["tags"][::-1]}, before) == before.data
    after = memory(codec.edit_record({**record, "content": content}, before), suffix)
    assert codec.load_record(after)["content"] == content
    assert codec.edit_record(record, after) == before.data


def test_each_kind_of_file_states_what_belongs_there() -> None:
    text = codec.dump_record({**WHOLE, "times_updated": 0}, ".md", "tester").decode()
    assert not any(word in text for word in ("schema_version", "status: active", "times_updated"))
    assert "created_by: tester" in text
    names = [line.split(":")[0] for line in text.splitlines()[1:6]]
    assert names == ["id", "title", "type", "tags", "created_at"]
    data = codec.dump_record(WHOLE, ".json", "tester")
    assert b"tester" not in data
    assert list(json.loads(data)) == [name for name in codec.FIELDS if name in WHOLE]


BY_HAND = b"""---
title: Mine   # a remark
type: decision
created_at: 2026-01-01T00:00:00Z
mood: sunny
content: {status: accepted, context: c, decision: d, rationale: [r]}
---
# Below

A text of the person's own.
"""


def test_what_is_the_persons_own_stays_and_what_they_leave_out_is_known() -> None:
    before = memory(BY_HAND, ".md")
    record = codec.load_record(before)
    assert (record["id"], record["tags"]) == ("use-postgres", ["untagged"])
    assert record["updated_at"] == record["created_at"] == "2026-01-01T00:00:00Z"
    assert (record["record_status"], record["schema_version"]) == ("active", "1.0")
    assert "mood" not in record
    text = codec.edit_record({**record, "record_status": "retired", "retired_reason": "x"}, before)
    added = set(text.splitlines()) - set(BY_HAND.splitlines())
    assert added == {b"status: retired", b"retired_reason: x"}
    # And back in force nothing of it is left.
    after = memory(text, ".md")
    active = {**codec.load_record(after), "record_status": "active", "retired_reason": None}
    assert codec.edit_record(active, after) == BY_HAND


@pytest.mark.parametrize(
    "text, suffix, is_record",
    [
        ("---\ntype: decision\ncontent: {a: 1}\n---\n", ".md", True),
        ("---\ntype: decision\n---\ntext\n", ".md", False),
        ("---\ntype: decision\ncontent: text\n---\n", ".md", False),
        ("---\ntype: fact\ncontent: {a: 1}\n---\n", ".md", False),
        ("---\ncontent: {a: 1}\n---\n", ".md", False),
        ("---\ntype: [\n---\n", ".md", False),
        ('{"category": "decision"}', ".json", True),
        ('{"category": "fact"}', ".json", False),
        ('{"a": 1}', ".json", False),
        ("{", ".json", False),
    ],
)
def test_what_is_a_record(text: str, suffix: str, is_record: bool) -> None:
    assert codec.is_record(memory(text.encode(), suffix)) is is_record
