"""The steps of a record's life: what each one sets, clears and refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.errors import RecordError
from retain.typed import lifecycle
from retain.typed.fixing import CHANGES_CAP

NOW = "2026-05-08T12:00:00Z"
Record = dict[str, Any]
ACTIVE: Record = {
    "category": "decision",
    "id": "use-jwt",
    "record_status": "active",
    "updated_at": "2026-01-01T00:00:00Z",
    "content": {"status": "accepted", "context": "c"},
}
RETIRED = {**ACTIVE, "record_status": "retired", "retired_at": NOW, "retired_reason": "old"}
ARCHIVED = {**ACTIVE, "record_status": "archived", "archived_at": NOW, "archived_reason": "done"}


def retired(record: Record) -> Record | None:
    return lifecycle.retired(record, "t", "why", NOW)


def archived(record: Record) -> Record | None:
    return lifecycle.archived(record, "t", "why", NOW)


def unarchived(record: Record) -> Record | None:
    return lifecycle.unarchived(record, "t", NOW)


def restored(record: Record) -> Record | None:
    return lifecycle.restored(record, "t", NOW)


Step = Callable[[Record], Record | None]

STEPS = [
    (retired, ACTIVE, "retired", "Retired: why", {"retired_at": NOW, "retired_reason": "why"}),
    (archived, ACTIVE, "archived", "Archived: why", {"archived_at": NOW, "archived_reason": "why"}),
    (unarchived, ARCHIVED, "active", "Unarchived: restored to active", {}),
    (restored, RETIRED, "active", "Restored: returned to active from retired", {}),
]


@pytest.mark.parametrize("step, before, status, summary, fields", STEPS)
def test_a_step_sets_its_state_and_leaves_an_entry(
    step: Step, before: Record, status: str, summary: str, fields: Record
) -> None:
    stray = {**before, **dict.fromkeys(lifecycle.STATE_FIELDS, "stray")}
    untouched = copy.deepcopy(stray)
    after = step(stray)
    assert stray == untouched
    assert after == {
        **ACTIVE,
        **fields,
        "record_status": status,
        "updated_at": NOW,
        "changes": [
            {
                "date": NOW,
                "summary": summary,
                "field": "record_status",
                "old_value": before["record_status"],
                "new_value": status,
            }
        ],
    }


@pytest.mark.parametrize(
    "step, record", [(retired, RETIRED), (archived, ARCHIVED), (restored, ACTIVE), (restored, {})]
)
def test_a_step_already_taken_is_no_error(step: Step, record: Record) -> None:
    assert step(record) is None


UNARCHIVE_FIRST = (
    "Archived memories must be unarchived before retiring. Use --action unarchive first."
)
ONLY_ACTIVE = "Only active memories can be archived."
ONLY_ARCHIVED = "Only archived memories can be unarchived."
ONLY_RETIRED = (
    "Only retired memories can be restored. Use --action unarchive for archived memories."
)


@pytest.mark.parametrize(
    "step, record, code, status, fix",
    [
        (retired, ARCHIVED, "DELETE_ERROR", "archived", UNARCHIVE_FIRST),
        (archived, RETIRED, "ARCHIVE_ERROR", "retired", ONLY_ACTIVE),
        (unarchived, ACTIVE, "UNARCHIVE_ERROR", "active", ONLY_ARCHIVED),
        (unarchived, {}, "UNARCHIVE_ERROR", "active", ONLY_ARCHIVED),
        (unarchived, RETIRED, "UNARCHIVE_ERROR", "retired", ONLY_ARCHIVED),
        (restored, ARCHIVED, "RESTORE_ERROR", "archived", ONLY_RETIRED),
        (restored, {"record_status": "a\nb"}, "RESTORE_ERROR", "a\\nb", ONLY_RETIRED),
    ],
)
def test_a_step_that_the_state_forbids_is_refused(
    step: Step, record: Record, code: str, status: str, fix: str
) -> None:
    with pytest.raises(RecordError) as refused:
        step(record)
    assert refused.value.blocks == (f"{code}\ntarget: t\nrecord_status: {status}\nfix: {fix}",)


@pytest.mark.parametrize(
    "reason, stored",
    [
        ("", "No reason provided"),
        ("  \n", "No reason provided"),
        (" because ", "because"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "…"),
    ],
)
def test_a_reason_is_given_and_kept_short(reason: str, stored: str) -> None:
    out, shelved = lifecycle.retired({}, "t", reason, NOW), lifecycle.archived({}, "t", reason, NOW)
    assert out is not None
    assert shelved is not None
    assert out["retired_reason"] == shelved["archived_reason"] == stored
    assert len(out["changes"][0]["summary"]) <= 300
    assert out["changes"][0]["summary"].startswith(f"Retired: {stored}"[:290])


def test_the_oldest_change_makes_room_for_the_fifty_first() -> None:
    old = [{"date": NOW, "summary": str(number)} for number in range(CHANGES_CAP)]
    after = lifecycle.archived({"changes": old}, "t", "", NOW)
    assert after is not None
    assert after["changes"][:-1] == old[1:]
    assert len(after["changes"]) == CHANGES_CAP


def test_a_new_record_is_active_under_its_own_name_whatever_it_claims() -> None:
    claimed = {**RETIRED, **ARCHIVED, "id": "other", "category": "runbook", "times_updated": 9}
    claimed |= {"created_at": "2020-01-01T00:00:00Z", "changes": [{"date": NOW, "summary": "s"}]}
    new, notes = lifecycle.created(claimed, "decision", "use-jwt", NOW)
    assert notes == ["category: set to 'decision'", "id: set to match filename 'use-jwt'"]
    assert new == {
        **ACTIVE,
        "times_updated": 0,
        "created_at": "2020-01-01T00:00:00Z",
        "changes": [{"date": NOW, "summary": "s"}],
    }
    assert claimed["id"] == "other"


def test_a_new_record_that_is_right_needs_no_note() -> None:
    new, notes = lifecycle.created({"category": "decision", "id": "x"}, "decision", "x", NOW)
    assert notes == []
    assert new["created_at"] == new["updated_at"] == NOW


@pytest.mark.parametrize(
    "record, step",
    [(ACTIVE, "update"), ({}, "update"), (ARCHIVED, "unarchive")],
)
def test_nothing_in_force_or_shelved_is_created_over_unless_forced(
    record: Record, step: str
) -> None:
    with pytest.raises(RecordError) as refused:
        lifecycle.may_create_over(record, "t", NOW)
    status = record.get("record_status", "active")
    assert refused.value.blocks == (
        f"CREATE_ERROR\ntarget: t\nrecord_status: {status}\nfix: Use --action {step}, or --force",
    )
    lifecycle.may_create_over(record, "t", NOW, force=True)


@pytest.mark.parametrize(
    "retired_at, is_free",
    [
        ("2026-05-08T11:59:59Z", False),
        ("2026-05-07T12:00:01Z", False),
        ("2026-05-07T12:00:00Z", True),
        ("2026-05-07T12:00:00", True),
        ("2026-05-07T13:30:00+02:00", True),
        ("2026-04-01", True),
        ("2027-01-01T00:00:00Z", False),
        ("long ago", False),
        (None, False),
        (17, False),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_retired_name_rests_for_a_day_even_when_forced(
    retired_at: object, is_free: bool, force: bool
) -> None:
    record = {**RETIRED, "retired_at": retired_at}
    if is_free:
        lifecycle.may_create_over(record, "t", NOW, force)
        return
    with pytest.raises(RecordError) as refused:
        lifecycle.may_create_over(record, "t", NOW, force)
    (block,) = refused.value.blocks
    assert block.startswith("ANTI_RESURRECTION_ERROR\ntarget: t\nretired_at: ")
    assert "fix: This file was retired less than 24 hours ago. Wait or use a different" in block


def test_both_sides_of_a_replacement_remember_it() -> None:
    old = lifecycle.superseded(ACTIVE, "decisions/new", NOW)
    new = lifecycle.superseding(ACTIVE, "decisions/old", NOW)
    assert old["content"] == {"status": "superseded", "context": "c"}
    assert new["content"] == ACTIVE["content"] == {"status": "accepted", "context": "c"}
    assert old["updated_at"] == new["updated_at"] == NOW
    assert old["changes"] == [
        {
            "date": NOW,
            "summary": "Superseded by decisions/new",
            "field": "superseded_by",
            "old_value": None,
            "new_value": "decisions/new",
        }
    ]
    assert new["changes"][0]["summary"] == "Supersedes decisions/old"
    assert new["changes"][0]["field"] == "supersedes"
    assert new["changes"][0]["new_value"] == "decisions/old"


def test_only_a_decision_has_a_status_to_supersede() -> None:
    runbook = {"category": "runbook", "content": {"trigger": "t"}}
    assert lifecycle.superseded(runbook, "x", NOW)["content"] == {"trigger": "t"}
    assert "content" not in lifecycle.superseded({"category": "decision"}, "x", NOW)


@given(
    st.lists(st.sampled_from([retired, archived, unarchived, restored]), max_size=60),
    st.integers(0, CHANGES_CAP),
)
def test_any_walk_through_life_keeps_one_state_and_its_history(
    walk: list[Step], stored: int
) -> None:
    record = {**ACTIVE, "changes": [{"date": NOW, "summary": str(n)} for n in range(stored)]}
    for step in walk:
        try:
            after = step(record)
        except RecordError:
            continue
        if after is None:
            continue
        status = after["record_status"]
        fields = {name for name in lifecycle.STATE_FIELDS if name in after}
        assert fields == (set() if status == "active" else {f"{status}_at", f"{status}_reason"})
        kept = after["changes"][:-1]
        assert kept == record["changes"][len(record["changes"]) - len(kept) :]
        assert len(after["changes"]) == min(len(record["changes"]) + 1, CHANGES_CAP)
        assert after["content"] == ACTIVE["content"]
        record = after
