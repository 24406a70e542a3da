"""A record comes back from Markdown and JSON as it was, and nothing else in its file moves."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.bank.markdown import parse_file
from retain.memory import Memory
from retain.records import codec as shape
from tests.records.filing import CONTENT, FOLDERS

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
    "tags": ["db"],
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
    path = str(PurePosixPath("/bank/decisions") / f"{name}{suffix}")
    return Memory(name, "decisions", path, document.meta, document.body, data, document.problem)


def filed(record: Record, suffix: str) -> Memory:
    return memory(shape.dump_record(record, suffix, "tester"), suffix)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("category", FOLDERS)
def test_a_record_comes_back_as_it_was(suffix: str, category: str) -> None:
    wanted = {**WHOLE, "category": category, "content": CONTENT[category]}
    found = filed(wanted, suffix)
    assert shape.load_record(found) == wanted
    assert shape.is_record(found)
    assert (found.type, found.title, found.tags) == (category, "Use Postgres", ("db",))


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
    assert shape.load_record(filed(wanted, suffix)) == wanted


@given(content=st.dictionaries(words, values, max_size=4))
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_change_is_made_and_undone_to_the_byte(suffix: str, content: Record) -> None:
    before = filed({**WHOLE, "category": "recipe", "content": {"a": 1}}, suffix)
    record = shape.load_record(before)
    assert shape.edit_record(record, before) == before.data
    after = memory(shape.edit_record({**record, "content": content}, before), suffix)
    assert shape.load_record(after)["content"] == content
    assert shape.edit_record(record, after) == before.data


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tags_in_another_order_are_the_same_tags(suffix: str) -> None:
    before = filed({**WHOLE, "tags": ["b", "a"]}, suffix)
    assert (
        shape.edit_record({**shape.load_record(before), "tags": ["a", "b"]}, before) == before.data
    )


def test_markdown_states_only_what_does_not_go_without_saying() -> None:
    text = shape.dump_record({**WHOLE, "times_updated": 0}, ".md", "tester").decode()
    assert "schema_version" not in text
    assert "status: active" not in text
    assert "times_updated" not in text
    assert "created_by: tester" in text
    names = [line.split(":")[0] for line in text.splitlines()[1:6]]
    assert names == ["id", "title", "type", "tags", "created_at"]


def test_json_has_no_author_and_the_order_of_the_schema() -> None:
    data = shape.dump_record(WHOLE, ".json", "tester")
    assert b"tester" not in data
    assert list(shape.load_record(memory(data, ".json"))) == [
        it for it in shape.FIELDS if it in WHOLE
    ]


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


def test_what_a_person_leaves_out_is_known_anyway() -> None:
    record = shape.load_record(memory(BY_HAND, ".md"))
    assert (record["id"], record["tags"]) == ("use-postgres", ["untagged"])
    assert record["updated_at"] == record["created_at"] == "2026-01-01T00:00:00Z"
    assert (record["record_status"], record["schema_version"]) == ("active", "1.0")
    assert "mood" not in record


def test_what_is_the_persons_own_stays_where_it_is() -> None:
    before = memory(BY_HAND, ".md")
    record = {**shape.load_record(before), "record_status": "retired", "retired_reason": "why"}
    text = shape.edit_record(record, before)
    for line in (b"title: Mine   # a remark\n", b"mood: sunny\n", b"content: {status: accepted"):
        assert line in text
    assert text.endswith(b"---\n# Below\n\nA text of the person's own.\n")
    assert b"status: retired\n" in text
    # And back in force nothing of it is left.
    after = memory(text, ".md")
    active = {**shape.load_record(after), "record_status": "active", "retired_reason": None}
    assert shape.edit_record(active, after) == BY_HAND


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
    assert shape.is_record(memory(text.encode(), suffix)) is is_record
