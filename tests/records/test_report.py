"""What is said about a store, word for word, and which records have had their time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retain.records.report import (
    find_beyond_window,
    find_due,
    find_outlived,
    find_unique_content,
    report_health,
)

NOW = datetime(2026, 5, 31, 12, tzinfo=UTC)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def retired(days: float | None, **more: Any) -> dict[str, Any]:
    at = {} if days is None else {"retired_at": ago(days)}
    return {"title": "Gone", "record_status": "retired", **at, **more}


# Texts


def test_health_of_a_store_that_needs_attention() -> None:
    records = [
        ("DECISION", {"title": "Six", "times_updated": 6}),
        ("DECISION", {"title": "Nine", "times_updated": 9}),
        ("RUNBOOK", retired(7.9, title="Week")),
        ("RUNBOOK", retired(0, title="Today")),
        ("RUNBOOK", retired(8, title="Long ago")),
        ("RUNBOOK", retired(None, title="No time")),
        ("RUNBOOK", retired(-0.5, title="A clock ahead")),
        ("RUNBOOK", retired(None, title="Far ahead", retired_at="9999-12-31T23:59:59Z")),
        ("RUNBOOK", retired(None, title="Bad time", retired_at="soon")),
        ("CONSTRAINT", {"title": "Shelved", "record_status": "archived"}),
        *(("DECISION", {"title": "x", "times_updated": count}) for count in (None, "9", 5.5)),
        ("D", {"title": "x\n  Health: GOOD\x1b[2J", "times_updated": 7}),  # forges no line
    ]
    text, is_good = report_health(records, (["a.json"], ["b.json", "c.json"]), NOW)
    assert not is_good
    assert text.split("\n") == [
        "Memory Health Report",
        "=" * 50,
        "",
        "--- Entries by Category ---",
        "  D: 1",
        "  DECISION: 5",
        "  TOTAL (active): 6",
        "  Retired: 7",
        "  Archived: 1",
        "",
        "--- Heavily Updated (times_updated > 5) ---",
        "  [DECISION] Nine (updated 9 times)",
        "  [D] x Health: GOOD[2J (updated 7 times)",
        "  [DECISION] Six (updated 6 times)",
        "",
        "--- Recent Retirements (last 7 days) ---",
        "  [RUNBOOK] A clock ahead (0 day(s) ago)",
        "  [RUNBOOK] Today (0 day(s) ago)",
        "  [RUNBOOK] Week (7 day(s) ago)",
        "",
        "--- Index Sync Status ---",
        "  FILES MISSING FROM INDEX (1):",
        "    + a.json",
        "  STALE INDEX ENTRIES (2):",
        "    - b.json",
        "    - c.json",
        "  Run --rebuild to fix.",
        "",
        "--- Summary ---",
        "  Health: NEEDS ATTENTION",
        "    - Index out of sync or missing",
        "    - 3 heavily-updated memories (consider reviewing)",
    ]


def test_health_without_an_index_or_records() -> None:
    text, is_good = report_health([], None, NOW)
    assert not is_good
    assert "  No active memories found.\n\n---" in text
    assert "  WARNING: index.md does not exist!\n" in text
    assert text.endswith("  Health: NEEDS ATTENTION\n    - Index out of sync or missing")


# What is due


MISSING = "SKIP a.json: missing retired_at timestamp"
INVALID = "SKIP a.json: invalid retired_at timestamp"


@pytest.mark.parametrize(
    "record,grace,is_due,problem",
    [
        (retired(30), 30, True, None),
        (retired(29.99), 30, False, None),
        (retired(0), -5, True, None),
        (retired(-3), 0, False, None),  # a clock that is ahead
        (retired(None), 30, False, MISSING),
        (retired(None, retired_at=""), 30, False, MISSING),
        (retired(None, retired_at="soon"), 30, False, INVALID),
        (retired(None, retired_at=7), 30, False, INVALID),
        (retired(None, retired_at="2026-04-01T00:00:00"), 30, True, None),
        (retired(None, retired_at="2026-05-01T14:00:00+02:00"), 30, True, None),
        (retired(None, retired_at="0001-01-01T00:00:00+14:00"), 30, True, None),
        ({"record_status": "archived", "retired_at": ago(99)}, 30, False, None),
        ({"retired_at": ago(99)}, 30, False, None),
    ],
)
def test_due(record: dict[str, Any], grace: int, is_due: bool, problem: str | None) -> None:
    doomed, problems = find_due([("m/x/a.json", record)], NOW, grace)
    assert [one.path for one in doomed] == ["m/x/a.json"] * is_due
    assert problems == [problem] * bool(problem)


@pytest.mark.parametrize(
    "category,updated_at,status,is_over",
    [
        ("session_summary", ago(90.1), "active", True),
        ("session_summary", ago(90), "active", False),
        ("session_summary", ago(99), "retired", False),
        ("session_summary", ago(99), "archived", False),
        ("session_summary", "long ago", "active", False),
        ("session_summary", None, "active", False),
        ("decision", ago(9999), "active", False),
        ("runbook", ago(9999), "active", False),  # kept for longer than there are days
        ("unheard_of", ago(9999), "active", False),
    ],
)
def test_outlived(category: str, updated_at: object, status: str, is_over: bool) -> None:
    record = {"category": category, "updated_at": updated_at, "record_status": status}
    kept_for = {"session_summary": 90, "decision": 0, "runbook": 10**12}
    found = find_outlived([("a.json", record)], NOW, kept_for)
    assert [(one.path, one.days) for one in found] == [("a.json", 90)] * is_over


def session(name: str, created: str, status: str = "active") -> tuple[str, dict[str, Any]]:
    return f"{name}.json", {"id": name, "created_at": created, "record_status": status}


@pytest.mark.parametrize(
    "limit,names",
    [(2, "oldest-a oldest-b middle"), (4, "oldest-a"), (5, ""), (9, "")],
)
def test_window_keeps_the_newest_active_records(limit: int, names: str) -> None:
    records = [
        session("newest", ago(1)),
        session("undated", "once"),  # never the first to go
        session("oldest-b", ago(9)),
        session("middle", "2026-05-26T21:00:00+09:00"),
        session("retired", ago(50), "retired"),
        session("oldest-a", ago(9)),
    ]
    assert [record["id"] for _, record in find_beyond_window(records, limit)] == names.split()


SESSION = {
    "id": "s", "category": "session_summary", "title": "Cache work",
    "content": {
        "goal": "Speed up the cache",
        "outcome": "success",
        "completed": ["Replaced the eviction policy with least recently used"],
        "next_actions": ["Measure hit rates in production load"],
        "blockers": [],
        "key_changes": None,
    },
}  # fmt: skip
GOAL = "Speed up the cache"
DONE = "Replaced the eviction policy with least recently used"
NEXT = "Measure hit rates in production load"


def other(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "o", "category": "decision", "title": "", "content": {"decision": text}, **more}


@pytest.mark.parametrize(
    "others,left",
    [
        ([], [GOAL, DONE, NEXT]),
        ([dict(SESSION)], [GOAL, DONE, NEXT]),
        ([other(DONE)], [GOAL, NEXT]),
        ([other("The policy of EVICTION was replaced: recently used")], [GOAL, NEXT]),
        ([other("eviction policy")], [GOAL, DONE, NEXT]),
        ([other("measure hit rate"), other("production load")], [GOAL, DONE]),  # 3 of 5
        ([other("measure hits"), other("production load", id="p")], [GOAL, DONE, NEXT]),
        ([other(DONE, record_status="retired")], [GOAL, DONE, NEXT]),
        ([other("", title="Cache speed")], [DONE, NEXT]),
        ([other("", tags=["cache", "speed"])], [DONE, NEXT]),
        ([{**SESSION, "id": "t"}], []),
        ([other("", content={"deep": [{"er": [DONE]}]})], [GOAL, NEXT]),
    ],
)
def test_unique_content(others: list[dict[str, Any]], left: list[str]) -> None:
    assert find_unique_content(SESSION, others) == left


@pytest.mark.parametrize(
    "content,left",
    [
        (None, []),
        ({"outcome": "blocked"}, []),
        ({"completed": ["", "of the", "!"]}, []),
        ({"completed": ["same thing", "same thing"]}, ["same thing"]),
        ({"completed": ["認証サーバーを再起動した"]}, ["認証サーバーを再起動した"]),
    ],
)
def test_statement_holds_words(content: Any, left: list[str]) -> None:
    assert find_unique_content({"id": "s", "content": content}, [other("別の話")]) == left
