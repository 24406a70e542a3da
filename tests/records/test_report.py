"""What is said about a store, word for word."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retain.bank.records_json import parse
from retain.memory import Memory
from retain.records.report import find_unique_content, report_health


def ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def memory(category: str, title: str, **fields: Any) -> Memory:
    record = {"category": category, "title": title, "content": {}, **fields}
    data = json.dumps(record).encode()
    document = parse(data)
    return Memory(title, "x", f"/{title}.json", document.meta, document.body, data)


def retired(title: str, at: object) -> Memory:
    return memory("runbook", title, record_status="retired", retired_at=at)


def test_health_of_a_store_that_needs_attention() -> None:
    memories = [
        memory("decision", "Six", times_updated=6),
        memory("decision", "Odd", times_updated="9"),
        memory("d", "x\n  Health: GOOD\x1b[2J", times_updated=7),  # forges no line
        retired("Week", ago(7.9)),
        retired("Long ago", ago(8.1)),
        retired("No time", None),
        retired("A clock ahead", ago(-0.5)),
        retired("Far ahead", "9999-12-31T23:59:59Z"),
        retired("Bad time", "soon"),
        memory("constraint", "Shelved", record_status="archived"),
    ]
    text, is_good = report_health(memories, (["a.json"], ["b.json", "c.json"]))
    assert not is_good
    assert text.split("\n") == [
        "Memory Health Report",
        "=" * 50,
        "",
        "--- Entries by Category ---",
        "  D: 1",
        "  DECISION: 2",
        "  TOTAL (active): 3",
        "  Retired: 6",
        "  Archived: 1",
        "",
        "--- Heavily Updated (times_updated > 5) ---",
        "  [DECISION] Six (updated 6 times)",
        "  [D] x Health: GOOD[2J (updated 7 times)",
        "",
        "--- Recent Retirements (last 7 days) ---",
        "  [RUNBOOK] Week (7 day(s) ago)",
        "  [RUNBOOK] A clock ahead (0 day(s) ago)",
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
        "    - 2 heavily-updated memories (consider reviewing)",
    ]


def test_health_without_an_index_or_records() -> None:
    text, is_good = report_health([], None)
    assert not is_good
    assert "  No active memories found.\n\n---" in text
    assert "  WARNING: index.md does not exist!\n" in text
    assert text.endswith("  Health: NEEDS ATTENTION\n    - Index out of sync or missing")
    text, is_good = report_health([], ([], []), "typed memories")
    assert "  No active typed memories found.\n" in text
    assert is_good


GOAL, DONE = "Speed up the cache", "Replaced the eviction policy with least recently used"
SESSION = memory(
    "session_summary",
    "Cache work",
    content={"goal": GOAL, "outcome": "success", "completed": [DONE, ""], "blockers": None},
)


def other(text: str, **fields: Any) -> Memory:
    return memory("decision", "Other", content={"decision": text}, **fields)


@pytest.mark.parametrize(
    "others,left",
    [
        ([], [GOAL, DONE]),
        ([SESSION], [GOAL, DONE]),
        ([other(DONE)], [GOAL]),
        ([other("the policy of EVICTION was replaced: least recently used")], [GOAL]),
        ([other("eviction policy")], [GOAL, DONE]),
        ([other(DONE, record_status="retired")], [GOAL, DONE]),
        ([other("", tags=["cache", "speed"])], [DONE]),
    ],
)
def test_content_that_no_other_record_has(others: list[Memory], left: list[str]) -> None:
    assert find_unique_content(SESSION, others) == left
