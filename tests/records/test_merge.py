"""An update: what it may change in a record, what it never may, and what it leaves behind."""

from __future__ import annotations

import copy
import os
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.errors import RecordError
from retain.records.lifecycle import STATE_FIELDS
from retain.records.merge import merge, new_slug, note_edit, warnings
from retain.records.normalize import CHANGES_CAP, TAG_CAP
from retain.records.schema import ID

Record = dict[str, Any]
NOW, THEN = "2026-05-08T12:00:00Z", "2026-01-01T00:00:00Z"
PROJECT = os.path.dirname(__file__)
OLD: Record = {
    "schema_version": "1.0",
    "category": "decision",
    "id": "use-jwt",
    "title": "Use JWT",
    "record_status": "active",
    "created_at": THEN,
    "updated_at": THEN,
    "tags": ["auth", "jwt"],
    "related_files": ["filing.py", "gone.py"],
    "confidence": 0.5,
    "content": {"status": "accepted", "context": "c", "rationale": ["one", "two", "three"]},
    "changes": [{"date": THEN, "summary": "first"}, {"date": THEN, "summary": "second"}],
    "times_updated": 3,
}
FULL = {**OLD, "tags": [f"t{number:02}" for number in range(TAG_CAP)]}


def entry(summary: str) -> Record:
    return {"date": NOW, "summary": summary}


FIFTY = [entry(f"change {number}") for number in range(CHANGES_CAP)]


def update(old: Record, **stated: Any) -> Record:
    """Update a record with the whole of it and some fields stated otherwise."""
    return merge(old, {**old, **stated}, now=NOW, project=PROJECT)


def content(**stated: Any) -> Record:
    return {"content": {**OLD["content"], **stated}}


REMOVED = "Tags can only be added, not removed (current count 2 < cap 12)"
# A record, what an update states, the field and the rule, what else is told, what to do.
REFUSED: list[tuple[Record, Record, str, str, dict[str, str], str]] = [
    *(
        (OLD, {field: new}, field, rule, {"old": f'"{OLD[field]}"', "new": f'"{new}"'},
         f"Do not change '{field}' during UPDATE")
        for field, new, rule in (
            ("created_at", NOW, "immutable"),
            ("schema_version", "2.0", "immutable"),
            ("category", "runbook", "immutable"),
            ("record_status", "retired", "immutable via UPDATE"),
        )
    ),
    (OLD, {"tags": ["jwt", "new"]}, "tags", "grow-only (below cap of 12)",
     {"removed": '["auth"]'}, REMOVED),
    (OLD, {"tags": None}, "tags", "grow-only (below cap of 12)", {"removed": '["auth", "jwt"]'},
     REMOVED),
    (FULL, {"tags": FULL["tags"][1:]}, "tags", "no net shrink without addition",
     {"removed": '["t00"]'}, "Can only evict tags when adding new ones at cap (12)"),
    (OLD, {"related_files": ["gone.py"]}, "related_files",
     "grow-only (cannot remove existing file reference)", {"removed": '["filing.py"]'},
     "Only non-existent (dangling) file references can be removed"),
    *(
        (old, {"title": "T", "changes": stated}, "changes", "append-only",
         {"old_count": str(len(old["changes"])), "new_count": count},
         "changes[] must grow; do not remove entries")
        for old, stated, count in (
            (OLD, OLD["changes"][:1], "1"),
            (OLD, [entry("other")], "1"),
            (OLD, "none", "0"),
            ({**OLD, "changes": FIFTY}, FIFTY[20:40], "20"),
        )
    ),
    (OLD, {"tags": ["jwt", "auth"]}, "changes", "append-only (new entry required)",
     {"old_count": "2", "total_count": "2"},
     "At least one new change entry is required per UPDATE"),  # tags have no order
]  # fmt: skip


@pytest.mark.parametrize("old, stated, field, rule, facts, hint", REFUSED)
def test_each_broken_rule_is_named(
    old: Record, stated: Record, field: str, rule: str, facts: dict[str, str], hint: str
) -> None:
    with pytest.raises(RecordError) as refused:
        update(old, **stated)
    error = refused.value
    assert (error.kind, error.hint) == ("MERGE_ERROR", hint)
    assert error.facts == ({"field": field, "rule": rule, **facts},)


@pytest.mark.parametrize(
    "stated, field, before, after",
    [
        ({"title": "T"}, "title", "Use JWT", "T"),
        ({"tags": ["auth", "jwt", "x"]}, "tags", ["auth", "jwt"], ["auth", "jwt", "x"]),
        ({"related_files": ["filing.py"]}, "related_files", ["filing.py", "gone.py"],
         ["filing.py"]),
        ({"confidence": None}, "confidence", 0.5, None),
        (content(status="deprecated"), "content.status", "accepted", "deprecated"),
        (content(consequences=["x"]), "content.consequences", None, ["x"]),
        (content(context="x" * 201), "content.context", "c", "x" * 199 + "…"),
        (content(rationale=["x" * 250]), "content.rationale", ["one", "two", "three"],
         '["' + "x" * 197 + "…"),
    ],
)  # fmt: skip
def test_every_changed_field_leaves_an_entry_by_itself(
    stated: Record, field: str, before: object, after: object
) -> None:
    made = {"summary": f"{field} changed", "field": field, "old_value": before, "new_value": after}
    entries = [*OLD["changes"], {"date": NOW, **made}]
    own = {"changes": entries, "times_updated": 4, "updated_at": NOW}
    assert update(OLD, **stated) == {**OLD, **stated, **own}


def test_the_writers_own_entry_explains_all_but_scalar_content() -> None:
    changes = [*OLD["changes"], entry("why")]
    record = update(OLD, title="T", changes=changes, **content(status="deprecated", rationale=[]))
    summaries = [one["summary"] for one in record["changes"]]
    assert summaries == ["first", "second", "why", "content.status changed"]
    # As many others are new ones.
    news = [entry("new"), entry("newer")]
    assert update(OLD, changes=news)["changes"] == [*OLD["changes"], *news]


@pytest.mark.parametrize(
    "stated, count",
    [
        (None, 1), (FIFTY, 1), ([entry("new")], 1), ([*FIFTY, entry("new")], 1),
        ([*FIFTY[2:], entry("new"), entry("newer")], 2),
    ],
)  # fmt: skip
def test_a_full_history_takes_updates_and_loses_its_oldest(
    stated: list[Record] | None, count: int
) -> None:
    record = update({**OLD, "changes": FIFTY}, title="T", changes=stated)
    assert record["changes"][:-count] == FIFTY[count:]
    assert len(record["changes"]) == CHANGES_CAP


def test_what_an_update_cannot_state_stays_with_a_warning_for_the_id() -> None:
    old = {**OLD, "record_status": "retired", "retired_at": THEN, "retired_reason": "r"}
    new = {name: OLD[name] for name in ("tags", "related_files", "content")}
    new |= {"title": "T", "id": "other", "archived_at": NOW}
    record = merge(old, new, now=NOW, project=PROJECT)
    kept = ("created_at", "schema_version", "category", "id", "record_status", *STATE_FIELDS)
    assert {name: record.get(name) for name in kept} == {name: old.get(name) for name in kept}
    new |= content(rationale=["two"])
    assert list(warnings(old, new)) == [
        "id: kept 'use-jwt'; an update does not change it",
        'content.rationale: list shrank from 3 to 1 items; removed: "one", "three"',
    ]
    for stored, count in ((None, 1), ("many", 1), (-4, 1), (3, 4)):
        assert update({**OLD, "times_updated": stored}, title="T")["times_updated"] == count


def test_a_hand_edit_gets_its_entries_unless_it_has_its_own() -> None:
    edited = {**OLD, "title": "T", "record_status": "archived", "tags": ["jwt"]}
    record = note_edit(OLD, edited, NOW, is_text_changed=True)
    assert [one["summary"] for one in record["changes"][2:]] == [
        "title changed",
        "record_status changed",
        "tags changed",
    ]
    assert (record["times_updated"], record["archived_at"]) == (4, NOW)
    edited = {**OLD, "title": "T", "changes": [*OLD["changes"], entry("why")]}
    assert note_edit(OLD, edited, NOW, is_text_changed=False) == edited
    # An older text has fewer entries, and takes none of those there are with it.
    older = note_edit(OLD, {**OLD, "title": "T", "changes": []}, NOW, is_text_changed=False)
    assert [one["summary"] for one in older["changes"]] == ["first", "second", "title changed"]
    text = note_edit(OLD, OLD, NOW, is_text_changed=True)
    assert text["changes"][-1]["summary"] == "text changed"


@pytest.mark.parametrize(
    "old, new, slug",
    [
        ("Use JWT", "Use OAuth", "use-oauth"), ("a b c", "a b d", ""), ("Use JWT", "jwt USE", ""),
        ("Other", "Use JWT", ""), ("", "Use OAuth", ""), ("Use JWT", "", ""),
        ("Use JWT", "인증 결정", ""),
    ],
)  # fmt: skip
def test_an_id_follows_a_title_that_has_become_another(old: str, new: str, slug: str) -> None:
    assert new_slug(old, new, "use-jwt") == slug


@given(st.text(), st.text(), st.text())
def test_a_new_id_is_always_usable(old: str, new: str, name: str) -> None:
    slug = new_slug(old, new, name)
    assert slug == "" or (slug != name and re.fullmatch(ID, slug))


TAGS = st.lists(
    st.sampled_from([f"t{number:02}" for number in range(16)]), min_size=1, max_size=12, unique=True
)
FILES = st.none() | st.lists(st.sampled_from(["filing.py", "test_merge.py", "gone.py"]), max_size=4)
VALUES = st.none() | st.integers(0, 2) | st.sampled_from("xyz") | st.lists(st.integers(0, 2))
CONTENTS = st.dictionaries(st.sampled_from("klm"), VALUES)
NOTES = st.lists(st.builds(entry, st.sampled_from("abcdefgh")), max_size=3)
STORED = st.integers(0, CHANGES_CAP + 5).map(lambda count: [entry(str(n)) for n in range(count)])


@st.composite
def updates(draw: st.DrawFn) -> tuple[Record, Record]:
    """A stored record and an input that is often, but not always, a fair update of it."""
    fields = {"tags": TAGS, "related_files": FILES, "content": CONTENTS, "changes": STORED}
    old = {**OLD, **{name: draw(values) for name, values in fields.items()}}
    stored = old["changes"]
    stated: dict[str, st.SearchStrategy[Any]] = {
        "title": st.sampled_from(["Use JWT", "T"]),
        "created_at": st.sampled_from([THEN, NOW, None]),
        "category": st.sampled_from(["decision", "runbook"]),
        "id": st.sampled_from("xy"),
        "record_status": st.sampled_from(["active", "retired", None]),
        "retired_at": st.just(NOW),
        "tags": TAGS | TAGS.map(lambda new: sorted({*old["tags"], *new})[:TAG_CAP]),
        "related_files": FILES,
        "content": CONTENTS,
        "changes": st.none()
        | NOTES
        | NOTES.map(lambda new: [*stored, *new])
        | NOTES.map(lambda new: [*stored, *new][-CHANGES_CAP:])
        | st.integers(0, 50).map(lambda start: stored[start:]),
    }
    new = copy.deepcopy(old)
    for name in draw(st.sets(st.sampled_from(sorted(stated)), min_size=1, max_size=3)):
        new[name] = draw(stated[name])
    return old, new


def accepted(old: Record, new: Record) -> Record | None:
    try:
        return merge(old, new, now=NOW, project=PROJECT)
    except RecordError:
        return None


@given(updates())
def test_no_update_loses_what_is_protected(pair: tuple[Record, Record]) -> None:
    old, new = pair
    before = copy.deepcopy(pair)
    record = accepted(old, new)
    assert pair == before
    if record is None:
        return
    assert accepted(record, record) is None  # what was made is not made again
    for name in ("created_at", "schema_version", "category", "id", "record_status"):
        assert record[name] == old[name]
    assert not set(STATE_FIELDS) & set(record)
    had, has = set(old["tags"]), set(record["tags"])
    if len(had) < TAG_CAP:
        assert had <= has
    elif had - has:
        assert has - had or len(has) == TAG_CAP
    lost = set(old["related_files"] or ()) - set(record["related_files"] or ())
    assert lost <= {"gone.py"}
    stored, changes = old["changes"], record["changes"]
    surviving = [one for one in changes if one in stored]
    assert changes[: len(surviving)] == surviving
    assert not surviving or stored[-len(surviving) :] == surviving
    assert len(surviving) < len(changes) <= CHANGES_CAP
    assert surviving == stored or len(changes) == CHANGES_CAP
