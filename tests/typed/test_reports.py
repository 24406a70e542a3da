"""What is said about a store, word for word, and which records have had their time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retain.listing import Line
from retain.typed.reports import (
    NO_INDEX,
    beyond_window,
    collected,
    due,
    health,
    outlived,
    queried,
    rebuilt,
    undeleted,
    unique_content,
    validated,
)

NOW = datetime(2026, 5, 31, 12, tzinfo=UTC)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def retired(days: float | None, **more: Any) -> dict[str, Any]:
    at = {} if days is None else {"retired_at": ago(days)}
    return {"title": "Gone", "record_status": "retired", **at, **more}


# Texts

MISSING = "Files NOT in index.md:"
STALE = "Index entries with NO matching file:"
MISMATCH = "Index has mismatches. Run --rebuild to fix."
USE = "- [DECISION] Use sqlite -> m/a.json"
RESTART = "- [RUNBOOK] Restart -> m/b.json #tags:ops"


def test_rebuilt_says_how_many_entries_there_are() -> None:
    assert rebuilt(3, "m/index.md") == "Rebuilt index.md with 3 entries at m/index.md"


def test_rebuilt_for_an_empty_store_says_so_and_that_the_index_was_written() -> None:
    assert rebuilt(0, "m/index.md") == (
        "No active memory files found. Nothing to index.\n"
        "Rebuilt index.md with 0 entries at m/index.md"
    )


@pytest.mark.parametrize(
    "missing,stale,text",
    [
        ([], [], "Index is valid. 2 entries match 3 files."),
        (["a", "b"], [], f"{MISSING}\n  + a\n  + b\n\n{MISMATCH}"),
        ([], ["c"], f"{STALE}\n  - c\n\n{MISMATCH}"),
        (["a"], ["c"], f"{MISSING}\n  + a\n{STALE}\n  - c\n\n{MISMATCH}"),
    ],
)
def test_validated(missing: list[str], stale: list[str], text: str) -> None:
    assert validated(2, 3, missing, stale) == (text, not missing and not stale)


def test_missing_index_is_named_as_in_the_original() -> None:
    assert NO_INDEX == "ERROR: index.md does not exist. Run --rebuild first."


@pytest.mark.parametrize(
    "keyword,text",
    [
        ("SQL", f"Found 1 match(es) for 'SQL':\n  {USE}"),
        ("m/", f"Found 2 match(es) for 'm/':\n  {USE}\n  {RESTART}"),
        ("OPS", f"Found 1 match(es) for 'OPS':\n  {RESTART}"),
        ("none", "No matches found for 'none'."),
    ],
)
def test_queried_looks_for_a_part_of_the_whole_line(keyword: str, text: str) -> None:
    lines = [
        Line("DECISION", "Use sqlite", "m/a.json"),
        Line("RUNBOOK", "Restart", "m/b.json", ("ops",)),
        Line("RUNBOOK", "Broken SQL", "m/ops\n.json"),
    ]
    assert queried(keyword, lines) == text


def test_health_of_a_store_where_all_is_well() -> None:
    records: list[tuple[str, dict[str, Any]]] = [
        ("RUNBOOK", {"title": "Restart", "times_updated": 5}),
        ("DECISION", {"title": "One", "record_status": "active"}),
        ("DECISION", {"title": "Two"}),
    ]
    text, is_good = health(records, ([], []), NOW)
    assert is_good
    assert text == (
        "Memory Health Report\n"
        "==================================================\n"
        "\n"
        "--- Entries by Category ---\n"
        "  DECISION: 2\n"
        "  RUNBOOK: 1\n"
        "  TOTAL (active): 3\n"
        "\n"
        "--- Heavily Updated (times_updated > 5) ---\n"
        "  None.\n"
        "\n"
        "--- Recent Retirements (last 7 days) ---\n"
        "  None.\n"
        "\n"
        "--- Index Sync Status ---\n"
        "  Index is in sync (3 entries).\n"
        "\n"
        "--- Summary ---\n"
        "  Health: GOOD"
    )


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
    ]
    text, is_good = health(records, (["a.json"], ["b.json", "c.json"]), NOW)
    assert not is_good
    assert text.split("\n")[2:] == [
        "",
        "--- Entries by Category ---",
        "  DECISION: 2",
        "  TOTAL (active): 2",
        "  Retired: 7",
        "  Archived: 1",
        "",
        "--- Heavily Updated (times_updated > 5) ---",
        "  [DECISION] Nine (updated 9 times)",
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
        "    - 2 heavily-updated memories (consider reviewing)",
    ]


def test_health_without_an_index_or_records() -> None:
    text, is_good = health([], None, NOW)
    assert not is_good
    assert "  No active memories found.\n\n---" in text
    assert "  WARNING: index.md does not exist!\n" in text
    assert text.endswith("  Health: NEEDS ATTENTION\n    - Index out of sync or missing")


def test_title_cannot_forge_a_line_of_the_report() -> None:
    text, _ = health([("D", {"title": "x\n  Health: GOOD\x1b[2J", "times_updated": 7})], None, NOW)
    assert "  [D] x Health: GOOD[2J (updated 7 times)" in text.split("\n")


@pytest.mark.parametrize("count", [None, "9", 5.5])
def test_count_of_updates_that_is_none_is_not_heavy(count: object) -> None:
    assert health([("D", {"times_updated": count})], ([], []), NOW)[1]


def test_collected_names_what_was_deleted_and_what_was_not() -> None:
    doomed, problems = due([("m/a.json", retired(31)), ("m/b.json", retired(None))], NOW, 30)
    text = collected(30, doomed, [*problems, undeleted("m/c.json", "no permission")])
    assert text == (
        "Garbage Collection (grace period: 30 days)\n"
        "==================================================\n"
        "\n"
        "Deleted 1 file(s):\n"
        "  DELETED a.json (retired 31 days ago)\n"
        "\n"
        "Warnings/errors (2):\n"
        "  SKIP b.json: missing retired_at timestamp\n"
        "  ERROR deleting c.json: no permission\n"
        "\n"
        "Run --rebuild to update index.md."
    )
    assert "--rebuild" not in collected(30, doomed, [], needs_rebuild=False)


def test_collected_when_nothing_was_due() -> None:
    assert collected(7, [], []) == (
        "Garbage Collection (grace period: 7 days)\n"
        "==================================================\n"
        "\n"
        "No retired memories past grace period."
    )


# What is due


@pytest.mark.parametrize(
    "record,grace,is_due,problem",
    [
        (retired(30), 30, True, None),
        (retired(29.99), 30, False, None),
        (retired(400), 30, True, None),
        (retired(0), 0, True, None),
        (retired(0), -5, True, None),
        (retired(-3), 0, False, None),  # a clock that is ahead
        (retired(None), 30, False, "SKIP a.json: missing retired_at timestamp"),
        (retired(None, retired_at=""), 30, False, "SKIP a.json: missing retired_at timestamp"),
        (retired(None, retired_at="soon"), 30, False, "SKIP a.json: invalid retired_at timestamp"),
        (retired(None, retired_at=7), 30, False, "SKIP a.json: invalid retired_at timestamp"),
        (retired(None, retired_at="2026-04-01T00:00:00"), 30, True, None),
        (retired(None, retired_at="2026-05-01T14:00:00+02:00"), 30, True, None),
        (retired(None, retired_at="0001-01-01T00:00:00+14:00"), 30, True, None),
        ({"record_status": "active", "retired_at": ago(99)}, 30, False, None),
        ({"record_status": "archived", "retired_at": ago(99)}, 30, False, None),
        ({"retired_at": ago(99)}, 30, False, None),
    ],
)
def test_due(record: dict[str, Any], grace: int, is_due: bool, problem: str | None) -> None:
    doomed, problems = due([("m/x/a.json", record)], NOW, grace)
    assert [one.path for one in doomed] == ["m/x/a.json"] * is_due
    assert problems == [problem] * bool(problem)


@pytest.mark.parametrize(
    "record,is_over",
    [
        ({"category": "session_summary", "updated_at": ago(90.1)}, True),
        ({"category": "session_summary", "updated_at": ago(90)}, False),
        ({"category": "session_summary", "updated_at": ago(99), "record_status": "retired"}, False),
        (
            {"category": "session_summary", "updated_at": ago(99), "record_status": "archived"},
            False,
        ),
        ({"category": "session_summary", "updated_at": "long ago"}, False),
        ({"category": "session_summary"}, False),
        ({"category": "decision", "updated_at": ago(9999)}, False),
        ({"category": "unheard_of", "updated_at": ago(9999)}, False),
        ({"updated_at": ago(9999)}, False),
    ],
)
def test_outlived(record: dict[str, Any], is_over: bool) -> None:
    found = outlived([("a.json", record)], NOW, {"session_summary": 90, "decision": 0})
    assert [(one.path, one.record) for one in found] == [("a.json", record)] * is_over


def test_retention_may_be_any_number_of_days() -> None:
    record = {"category": "decision", "updated_at": ago(5)}
    assert outlived([("a", record)], NOW, {"decision": 10**12}) == []
    assert [one.days for one in outlived([("a", record)], NOW, {"decision": 1})] == [5]


def session(name: str, created: str, status: str = "active") -> tuple[str, dict[str, Any]]:
    return f"{name}.json", {"id": name, "created_at": created, "record_status": status}


@pytest.mark.parametrize(
    "limit,names",
    [(2, "oldest-a oldest-b middle"), (4, "oldest-a"), (5, ""), (9, ""), (0, ""), (-1, "")],
)
def test_window_keeps_the_newest_active_records(limit: int, names: str) -> None:
    records = [
        session("newest", ago(1)),
        session("undated", "once"),  # never the first to go
        session("oldest-b", ago(9)),
        session("middle", ago(5)),
        session("retired", ago(50), "retired"),
        session("oldest-a", ago(9)),
    ]
    assert [record["id"] for _, record in beyond_window(records, limit)] == names.split()


def test_window_compares_moments_not_texts() -> None:
    early, late = "2026-05-01T09:00:00+09:00", "2026-05-01T01:00:00Z"
    found = beyond_window([session("late", late), session("early", early)], 1)
    assert [path for path, _ in found] == ["early.json"]


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
        ([SESSION], [GOAL, DONE, NEXT]),
        ([dict(SESSION)], [GOAL, DONE, NEXT]),
        ([other(DONE)], [GOAL, NEXT]),
        ([other("The policy of EVICTION was replaced: recently used")], [GOAL, NEXT]),
        ([other("eviction policy")], [GOAL, DONE, NEXT]),
        ([other("measure hit rate"), other("production load")], [GOAL, DONE]),  # 3 of 5
        ([other("measure hits"), other("production load", id="p")], [GOAL, DONE, NEXT]),
        ([other(DONE, record_status="retired")], [GOAL, DONE, NEXT]),
        ([other(DONE, record_status="archived")], [GOAL, DONE, NEXT]),
        ([other("", title="Cache speed")], [DONE, NEXT]),
        ([other("", tags=["cache", "speed"])], [DONE, NEXT]),
        ([{**SESSION, "id": "t"}], []),
        ([other("", content={"deep": [{"er": [DONE]}]})], [GOAL, NEXT]),
        ([{"id": "bare"}], [GOAL, DONE, NEXT]),
    ],
)
def test_unique_content(others: list[dict[str, Any]], left: list[str]) -> None:
    assert unique_content(SESSION, others) == left


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
    assert unique_content({"id": "s", "content": content}, [other("別の話")]) == left


def test_statement_in_another_script_is_found_elsewhere() -> None:
    record = {"id": "s", "content": {"completed": ["認証サーバーを再起動した"]}}
    assert unique_content(record, [other("昨日、認証サーバーを再起動した。")]) == []


def test_deeply_nested_content_is_read() -> None:
    nested: Any = "the one deep statement"
    for _ in range(5000):
        nested = [nested]
    assert unique_content({"id": "s", "content": {"x": nested}}, []) == ["the one deep statement"]
