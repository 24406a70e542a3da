"""Which record new information belongs to: points, and the two tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retain.bank.records_json import parse
from retain.categories import Category
from retain.memory import Memory
from retain.records.match import (
    DELETE_DISALLOWED,
    decide,
    make_excerpt,
    score,
    select,
    select_hit,
)
from tests.records.filing import CONTENT


def entry(path: str, title: str = "", *tags: str) -> Memory:
    record = {"category": "tech_debt", "title": title, "tags": tags, "content": {}}
    data = json.dumps(record).encode()
    document = parse(data)
    return Memory("x", "m", f"/m/{path}.json", document.meta, document.body, data)


FOUND = entry("old-parser", "Old parser", "parser")


@pytest.mark.parametrize(
    "news,title,tags,points",
    [
        ("database", "Choose a database", (), 2),
        ("database choose database", "Choose a database", (), 4),
        ("databases", "Choose a database", (), 2),  # stems
        ("DATABASE", "Something", ("Database", "Database"), 3),
        ("database", "Choose a database", ("database",), 5),
        ("post", "Use Postgres", ("postgresql",), 1),
        ("pos", "Use Postgres", (), 0),
        ("the limit of our rate", "something", ("rate-limit",), 3),
        ("our rate", "something", ("rate-limit",), 1),  # which it begins
        ("the use of it, please", "The use of it", ("the",), 0),
        ("go up to CI", "CI: go up", (), 0),
        ("база данных", "Выбор: база данных", (), 4),
        ("数据", "数据库", ("数据库",), 2),
        ("我们的数据库", "标题", ("数据库",), 3),
        ("café", "x", ("Café",), 3),
        ("anything", "", ("",), 0),
    ],
)
def test_score(news: str, title: str, tags: tuple[str, ...], points: int) -> None:
    assert score(news, title, tags) == points


BOTH = [
    entry("title", "cache database speed", "other"),
    entry("tags", "other", "cache", "database", "pages"),
    entry("both", "cache database", "cache", "database"),
]


@pytest.mark.parametrize(
    "entries,strategy,path",
    [
        ([], "title_tags", None),
        ([entry("a", "cache")], "title_tags", None),  # two points
        ([entry("b", "", "cache"), entry("a", "", "cache")], "title_tags", "a"),
        ([entry("a", "", "cache"), entry("b", "cache", "cache")], "title_tags", "b"),
        (BOTH, "title_tags", "both"),
        (BOTH, "title", "title"),
        (BOTH, "tags", "tags"),
    ],
)
def test_the_best_entry_with_three_points_is_selected(
    entries: list[Memory], strategy: str, path: str | None
) -> None:
    found = select(entries, "The cache database: speed of pages", strategy)
    assert (found and found[0].path) == (path and f"/m/{path}.json")


@pytest.mark.parametrize(
    "title,new",
    [
        ("認証サーバーの設定", "認証サーバーの設定を変更しました"),
        ("数据库选择", "我们改变了数据库选择"),
        ("데이터베이스 선택", "데이터베이스를 바꿨다"),
        ("Выбор базы данных", "Меняем выбор базы"),
        ("ตั้งค่าฐานข้อมูล", "เปลี่ยนฐานข้อมูลแล้ว"),
        ("डेटाबेस का चुनाव", "डेटाबेस का नया चुनाव"),
    ],
)
def test_information_in_any_script_finds_its_record(title: str, new: str) -> None:
    assert select([entry("a", title)], new)
    assert not select([entry("a", title)], "Something else entirely, 全然違う話です")


@pytest.mark.parametrize(
    "category,content,fields",
    [
        *((category, CONTENT[category], names) for category, names in (
            ("session_summary", "goal outcome"), ("decision", "context decision rationale"),
            ("runbook", "trigger"), ("constraint", "rule impact"),
            ("tech_debt", "description reason_deferred"), ("preference", "topic value reason"),
        )),
        ("runbook", {"trigger": "t", "root_cause": None}, "trigger"),
        ("incident", {"n": 3, "what": "w", "who": ["a"], "on": True, "when": "t", "why": "z"},
         "what who when"),
        ("decision", None, ""),
    ],
)  # fmt: skip
def test_key_fields(category: str, content: Any, fields: str) -> None:
    assert [
        *make_excerpt({"category": category, "content": content})["key_fields"]
    ] == fields.split()


def test_an_excerpt_is_short_and_has_the_last_change() -> None:
    content = {"context": "x" * 300, "decision": 7, "rationale": ["y" * 150] * 2}
    record = {"category": "decision", "title": "T", "content": content}
    assert make_excerpt(record) == {
        "title": "T",
        "record_status": "active",
        "tags": [],
        "last_change_summary": "Initial creation",
        "key_fields": {
            "context": "x" * 200,
            "decision": "7",
            "rationale": "y" * 150 + "; " + "y" * 48,
        },
    }
    changes = [{"summary": "first"}, {"summary": "last"}]
    assert make_excerpt({"changes": changes})["last_change_summary"] == "last"
    assert make_excerpt({"changes": ["plain"]})["last_change_summary"] == ""


FOUND_HINT = "1 candidate found (score=5)"
DISALLOWED = (
    "lifecycle_event=reversed present but DELETE disallowed for preference; consider UPDATE"
)


@pytest.mark.parametrize(
    "category,candidate,event,pre_action,action,hints",
    [
        ("tech_debt", None, None, "CREATE", "CREATE", []),
        ("tech_debt", None, "resolved", "NOOP", "NOOP",
         ["lifecycle_event=resolved with no matching candidate; NOOP"]),
        ("tech_debt", FOUND, "resolved", None, "UPDATE_OR_DELETE",
         [FOUND_HINT, "lifecycle_event=resolved suggests DELETE if eligible"]),
        ("decision", FOUND, None, None, "UPDATE", [FOUND_HINT]),
        ("preference", FOUND, "reversed", None, "UPDATE", [FOUND_HINT, DISALLOWED]),
        ("incident", FOUND, None, None, "UPDATE_OR_DELETE", [FOUND_HINT]),
    ],
)  # fmt: skip
def test_tables_vetoes_and_hints(
    category: str,
    candidate: Memory | None,
    event: str | None,
    pre_action: str | None,
    action: str,
    hints: list[str],
) -> None:
    said = decide(Category(category, "x"), (candidate, 5) if candidate else None, event, "/m")
    assert (said["candidate"] or {"path": None})["path"] == (candidate and "old-parser.json")
    assert (said["pre_action"], said["structural_cud"]) == (pre_action, action)
    assert (said["hints"], said["lifecycle_event"]) == (hints, event)
    veto = f"Cannot DELETE {category} (triage-initiated)"
    assert said["vetoes"] == ([veto] if action == "UPDATE" else [])
    assert said["delete_allowed"] is (category not in DELETE_DISALLOWED)
    quiet = decide(Category(category, "x", auto_capture=False), None, event, "/m")
    assert quiet["hints"][-1].startswith(f"auto_capture is off for {category}; ")


def test_a_hit_of_a_search_counts_in_the_same_points_unless_it_is_far_below_the_best() -> None:
    for hits, points in (
        ([("other.md", 0.9), (FOUND.path, 0.7)], 8),
        ([(FOUND.path, 1.0)], 10),
        ([(FOUND.path, 0.05)], 3),
        ([("other.md", 0.9), (FOUND.path, 0.1)], 0),
        ([], 0),
    ):
        assert select_hit([FOUND], hits) == ((FOUND, points) if points else None)
