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


ONLY_ARCHIVED = "Only archived memories can be unarchived."
ONLY_RETIRED = "Only retired memories can be restored; archived ones are unarchived."


@pytest.mark.parametrize(
    "action, record, code, status, fix",
    [
        ("retire", ARCHIVED, "DELETE_ERROR", "archived",
         "Archived memories must be unarchived before retiring."),
        ("archive", RETIRED, "ARCHIVE_ERROR", "retired", "Only active memories can be archived."),
        ("unarchive", {}, "UNARCHIVE_ERROR", "active", ONLY_ARCHIVED),
        ("unarchive", RETIRED, "UNARCHIVE_ERROR", "retired", ONLY_ARCHIVED),
        ("restore", ARCHIVED, "RESTORE_ERROR", "archived", ONLY_RETIRED),
        ("restore", {"record_status": "a\nb"}, "RESTORE_ERROR", "a\\nb", ONLY_RETIRED),
    ],
)  # fmt: skip
def test_a_step_that_the_state_forbids_is_refused(
    action: str, record: Record, code: str, status: str, fix: str
) -> None:
    with pytest.raises(RecordError) as refused:
        step(action, record)
    error = refused.value
    assert (error.kind, error.hint) == (code, fix)
    assert error.facts == ({"target": "t", "record_status": status},)


def test_a_status_that_somebody_made_up_can_be_retired() -> None:
    after = step("retire", {"record_status": "odd"})
    assert after is not None
    assert after["record_status"] == "retired"


@pytest.mark.parametrize(
    "reason, stored",
    [
        ("  \n", "No reason provided"),
        (" because ", "because"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "…"),
    ],
)
def test_a_reason_is_given_and_kept_short(reason: str, stored: str) -> None:
    retired = step("retire", {}, reason)
    assert retired is not None
    assert retired["retired_reason"] == stored
    assert len(retired["changes"][0]["summary"]) <= 300
    assert retired["changes"][0]["summary"].startswith(f"Retired: {stored}"[:290])


def test_a_new_record_is_active_under_its_own_name_whatever_it_claims() -> None:
    claimed = {**RETIRED, **ARCHIVED, "id": "other", "category": "runbook", "times_updated": 9}
    claimed |= {"created_at": "2020-01-01T00:00:00Z", "changes": [{"date": NOW, "summary": "s"}]}
    kept = {name: claimed[name] for name in ("created_at", "changes")}
    new, notes = lifecycle.create(claimed, "decision", "use-jwt")
    assert notes == ["category: set to 'decision'", "id: set to match filename 'use-jwt'"]
    assert new == {**ACTIVE, **kept, "times_updated": 0}
    assert lifecycle.create(new, "decision", "use-jwt") == (new, [])


@pytest.mark.parametrize("record, step", [({}, "Update"), (ARCHIVED, "Unarchive")])
def test_nothing_in_force_or_shelved_is_created_over_unless_forced(
    record: Record, step: str
) -> None:
    with pytest.raises(RecordError) as refused:
        lifecycle.refuse_overwrite(record, "t", NOW, force=False)
    status = record.get("record_status", "active")
    assert refused.value.facts == ({"target": "t", "record_status": status},)
    assert refused.value.hint == f"{step} that one, or use --force."
    lifecycle.refuse_overwrite(record, "t", NOW, force=True)


@pytest.mark.parametrize(
    "retired_at, is_free",
    [
        ("2026-05-07T12:00:01Z", False), ("2026-05-07T12:00:00Z", True),
        ("2026-05-07T12:00:00", True), ("2026-05-07T13:30:00+02:00", True), ("2026-04-01", True),
        ("2027-01-01T00:00:00Z", False), ("long ago", False), (None, False), (17, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("force", [False, True])
def test_a_retired_name_rests_for_a_day_even_when_forced(
    retired_at: object, is_free: bool, force: bool
) -> None:
    record = {**RETIRED, "retired_at": retired_at}
    if is_free:
        lifecycle.refuse_overwrite(record, "t", NOW, force=force)
        return
    with pytest.raises(RecordError) as refused:
        lifecycle.refuse_overwrite(record, "t", NOW, force=force)
    error = refused.value
    assert (error.kind, [*error.facts[0]]) == ("ANTI_RESURRECTION_ERROR", ["target", "retired_at"])
    assert error.hint.startswith("This file was retired less than 24 hours ago. Wait or use a")


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
