"""The steps of a record's life: what each one sets, clears and refuses."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.errors import RecordError
from retain.records import lifecycle
from retain.records.normalize import CHANGES_CAP

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


def step(action: str, record: Record, reason: str = "why") -> Record | None:
    return lifecycle.take_step(record, action, "t", NOW, reason)


@pytest.mark.parametrize(
    "action, before, status, summary, fields",
    [
        ("retire", ACTIVE, "retired", "Retired: why", {"retired_at": NOW, "retired_reason": "why"}),
        ("archive", ACTIVE, "archived", "Archived: why",
         {"archived_at": NOW, "archived_reason": "why"}),
        ("unarchive", ARCHIVED, "active", "Unarchived: restored to active", {}),
        ("restore", RETIRED, "active", "Restored: returned to active from retired", {}),
    ],
)  # fmt: skip
def test_a_step_sets_its_state_and_leaves_an_entry(
    action: str, before: Record, status: str, summary: str, fields: Record
) -> None:
    stray = {**before, **dict.fromkeys(lifecycle.STATE_FIELDS, "stray")}
    untouched = copy.deepcopy(stray)
    entry = {"date": NOW, "summary": summary, "field": "record_status"}
    entry |= {"old_value": before["record_status"], "new_value": status}
    changed = {"record_status": status, "updated_at": NOW, "changes": [entry]}
    assert step(action, stray) == {**ACTIVE, **fields, **changed}
    assert stray == untouched


@pytest.mark.parametrize(
    "action, record, kind, status",
    [
        ("retire", ARCHIVED, "DELETE_ERROR", "archived"),
        ("archive", RETIRED, "ARCHIVE_ERROR", "retired"),
        ("unarchive", {}, "UNARCHIVE_ERROR", "active"),
        ("unarchive", RETIRED, "UNARCHIVE_ERROR", "retired"),
        ("restore", ARCHIVED, "RESTORE_ERROR", "archived"),
        ("restore", {"record_status": "a\nb"}, "RESTORE_ERROR", "a\\nb"),
    ],
)
def test_a_step_that_the_state_forbids_is_refused(
    action: str, record: Record, kind: str, status: str
) -> None:
    with pytest.raises(RecordError) as refused:
        step(action, record)
    assert (refused.value.kind, refused.value.hint) == (kind, lifecycle.STEPS[action].hint)
    assert refused.value.facts == ({"target": "t", "record_status": status},)


@pytest.mark.parametrize(
    "reason, stored",
    [
        ("  \n", "No reason provided"),
        (" because ", "because"),
        ("x" * 301, "x" * 299 + "…"),
    ],
)
def test_a_reason_is_given_and_kept_short(reason: str, stored: str) -> None:
    retired = step("retire", {"record_status": "odd"}, reason)  # as somebody made it up
    assert retired is not None
    assert retired["retired_reason"] == stored
    assert retired["changes"][0]["summary"].startswith(f"Retired: {stored}"[:290])


def test_a_new_record_is_active_under_its_own_name_whatever_it_claims() -> None:
    claimed = {**RETIRED, **ARCHIVED, "id": "other", "category": "runbook", "times_updated": 9}
    claimed |= {"created_at": "2020-01-01T00:00:00Z", "changes": [{"date": NOW, "summary": "s"}]}
    kept = {name: claimed[name] for name in ("created_at", "changes")}
    new, notes = lifecycle.create(claimed, "decision", "use-jwt")
    assert notes == ["category: set to 'decision'", "id: set to match filename 'use-jwt'"]
    assert new == {**ACTIVE, **kept, "times_updated": 0}
    assert lifecycle.create(new, "decision", "use-jwt") == (new, [])


def refusal(record: Record, force: bool) -> str:
    try:
        lifecycle.refuse_overwrite(record, "t", NOW, force=force)
    except RecordError as error:
        return error.kind
    return ""


@pytest.mark.parametrize(
    "record, is_free, is_forced",
    [
        (ACTIVE, False, True),
        (ARCHIVED, False, True),
        *(
            ({**RETIRED, "retired_at": at}, is_free, is_free)
            for at, is_free in (
                ("2026-05-07T12:00:01Z", False),
                ("2026-05-07T12:00:00", True),
                ("2026-05-07T13:30:00+02:00", True),
                ("2027-01-01T00:00:00Z", False),
                ("long ago", False),
                (None, False),
            )
        ),
    ],
)
def test_what_a_new_record_may_take_the_place_of(
    record: Record, is_free: bool, is_forced: bool
) -> None:
    kind = "CREATE_ERROR" if record["record_status"] != "retired" else "ANTI_RESURRECTION_ERROR"
    for force, may in ((False, is_free), (True, is_forced)):
        assert refusal(record, force) == ("" if may else kind)


@given(st.lists(st.sampled_from(list(lifecycle.STEPS)), max_size=60), st.integers(0, CHANGES_CAP))
def test_any_walk_through_life_keeps_one_state_and_its_history(
    walk: list[str], stored: int
) -> None:
    record = {**ACTIVE, "changes": [{"date": NOW, "summary": str(n)} for n in range(stored)]}
    for action in walk:
        try:
            after = step(action, record)
        except RecordError:
            continue
        if after is None:  # the step was taken already
            assert record["record_status"] == lifecycle.STEPS[action].status
            continue
        status = after["record_status"]
        fields = {name for name in lifecycle.STATE_FIELDS if name in after}
        assert fields == (set() if status == "active" else {f"{status}_at", f"{status}_reason"})
        kept = after["changes"][:-1]
        assert kept == record["changes"][len(record["changes"]) - len(kept) :]
        assert len(after["changes"]) == min(len(record["changes"]) + 1, CHANGES_CAP)
        assert after["content"] == ACTIVE["content"]
        record = after
