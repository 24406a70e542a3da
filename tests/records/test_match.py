"""Which record new information belongs to: tokens, points, and the two tables."""
# ruff: noqa: RUF001 - letters that look alike are what some of this is about

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.categories import Category
from retain.records.match import (
    DELETE_DISALLOWED,
    STOP_WORDS,
    Entry,
    excerpt,
    score,
    select,
    select_hit,
    tokens,
    verdict,
)
from tests.records.filing import CONTENT

DISALLOWED = (
    "lifecycle_event=reversed present but DELETE disallowed for preference; consider UPDATE"
)
FOUND = Entry("m/tech-debt/old-parser.json", "Old parser", ("parser",))


@pytest.mark.parametrize(
    "text,found",
    [
        ("Use the PostgreSQL database", "postgresql database"),
        ("an API is up, go to CI", "api"),
        ("snake_case kebab-case node.js utf-8", "snake case kebab node utf"),
        ("cache cache CACHE", "cache"),
        ("version 3 12 2026", "version 2026"),
        ("", ""),
        ("“Quoted” — the cache’s end…", "quoted cache end"),
        ("Überprüfung café STRASSE straße", "überprüfung café strasse"),
        ("Ｐｏｓｔｇｒｅｓ ﬁle", "postgres file"),
        ("Решили выбрать базу на год", "решили выбрать базу год"),
        ("हिन्दी में लिखो", "हिन्दी में लिखो"),
        ("数据库", "数据 据库"),
        ("認証サーバーの設定", "認証 証サ サー ーバ バー 設定"),
        ("Postgresを使う", "postgres 使"),
        ("してください", ""),
        ("데이터베이스 앱", "데이 이터 터베 베이 이스 앱"),
        ("ตั้งค่า", "ตั ั้ ้ง งค ค่ ่า"),
    ],
)
def test_tokens(text: str, found: str) -> None:
    assert tokens(text) == set(found.split())


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_tokens_of_ascii_text_are_the_documents(text: str) -> None:
    words = re.findall(r"[a-z0-9]+", text.lower())
    assert tokens(text) == {word for word in words if len(word) > 2 and word not in STOP_WORDS}


@pytest.mark.parametrize(
    "new,title,tags,points",
    [
        ("database", "Choose a database", (), 2),
        ("database choose", "Choose a database", (), 4),
        ("database database", "Choose a database", (), 2),
        ("database", "Something", ("database",), 3),
        ("database", "Choose a database", ("database",), 5),
        ("DATABASE", "something", ("Database",), 3),
        ("data", "Choose a database", (), 1),
        ("data", "something", ("database",), 1),
        ("data", "Choose a database", ("databases",), 1),
        ("dat", "Choose a database", (), 0),
        ("databases", "Choose a database", (), 0),
        ("rate limit", "something", ("rate limit", "rate-limit"), 1),  # `rate` begins them
        ("tags cache", "something", ("cache", "cache"), 3),
        ("the use of", "The use of it", ("the",), 0),
        ("база данных", "Выбор: база данных", (), 4),
        ("база", "Нечто", ("база",), 3),
        ("данны", "база данных", (), 1),
        ("数据库选择改了", "数据库选择", (), 8),
        ("数据", "数据库", ("数据库",), 2),
        ("我们的数据库", "标题", ("数据库",), 3),
        ("café", "x", ("Café",), 3),
        ("anything", "", ("",), 0),
    ],
)
def test_score(new: str, title: str, tags: tuple[str, ...], points: int) -> None:
    assert score(tokens(new), title, tags) == points


ALIKE = st.lists(st.text(alphabet="ab", min_size=1, max_size=7), max_size=6)


@given(ALIKE, ALIKE, ALIKE)
def test_score_of_ascii_text_is_the_documents(
    new: list[str], title: list[str], tags: list[str]
) -> None:
    wanted, words, named = tokens(" ".join(new)), tokens(" ".join(title)), set(tags)
    rest = wanted - words - named
    begun = [w for w in rest if len(w) >= 4 and any(t.startswith(w) for t in words | named)]
    points = 2 * len(wanted & words) + 3 * len(wanted & named) + len(begun)
    assert score(wanted, " ".join(title), tags) == points


def entry(path: str, title: str = "", *tags: str) -> Entry:
    return Entry(path, title, tags)


@pytest.mark.parametrize(
    "entries,path,points",
    [
        ([], None, 0),
        ([entry("a", "cache")], None, 0),  # two points
        ([entry("a", "cache database")], "a", 4),
        ([entry("a", "", "cache")], "a", 3),
        ([entry("a", "cache datab")], None, 0),
        ([entry("b", "", "cache"), entry("a", "", "cache")], "a", 3),
        ([entry("a", "", "cache"), entry("b", "cache", "cache")], "b", 5),
    ],
)
def test_best_entry_with_three_points_is_selected(
    entries: list[Entry], path: str | None, points: int
) -> None:
    found = select(entries, "The cache of the database")
    assert (found and (found[0].path, found[1])) == (path and (path, points))


@pytest.mark.parametrize(
    "strategy,path",
    [("title_tags", "both"), ("title", "title"), ("tags", "tags")],
)
def test_strategy_says_what_is_compared(strategy: str, path: str) -> None:
    entries = [
        entry("title", "cache database speed", "other"),
        entry("tags", "other", "cache", "database", "pages"),
        entry("both", "cache database", "cache", "database"),
    ]
    found = select(entries, "cache database speed pages", strategy)
    assert found
    assert found[0].path == path


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
        ("runbook", {"trigger": "t", "root_cause": "r"}, "trigger root_cause"),
        ("runbook", {"trigger": "t", "root_cause": None}, "trigger"),
        ("incident", {"n": 3, "what": "w", "who": ["a"], "on": True, "when": "t", "why": "z"},
         "what who when"),
        ("decision", None, ""),
    ],
)  # fmt: skip
def test_key_fields(category: str, content: Any, fields: str) -> None:
    assert [*excerpt({"category": category, "content": content})["key_fields"]] == fields.split()


def test_values_of_key_fields_are_short_texts() -> None:
    content = {"context": "x" * 300, "decision": 7, "rationale": ["y" * 150] * 2}
    assert excerpt({"category": "decision", "content": content})["key_fields"] == {
        "context": "x" * 200,
        "decision": "7",
        "rationale": "y" * 150 + "; " + "y" * 48,
    }


@pytest.mark.parametrize(
    "changes,summary",
    [
        (None, "Initial creation"),
        ([], "Initial creation"),
        ("no list", "Initial creation"),
        ([{"summary": "first"}, {"summary": "last"}], "last"),
        ([{"date": "2026-01-01"}], "Unknown change"),
        (["plain"], "plain"),
    ],
)
def test_last_change_summary(changes: Any, summary: str) -> None:
    assert excerpt({"changes": changes})["last_change_summary"] == summary


FOUND_HINT = "1 candidate found (score=5)"


@pytest.mark.parametrize(
    "category,candidate,event,pre_action,action,hints",
    [
        ("tech_debt", None, None, "CREATE", "CREATE", []),
        ("tech_debt", None, "resolved", "NOOP", "NOOP",
         ["lifecycle_event=resolved with no matching candidate; NOOP"]),
        ("tech_debt", FOUND, None, None, "UPDATE_OR_DELETE", [FOUND_HINT]),
        ("tech_debt", FOUND, "resolved", None, "UPDATE_OR_DELETE",
         [FOUND_HINT, "lifecycle_event=resolved suggests DELETE if eligible"]),
        ("decision", FOUND, None, None, "UPDATE", [FOUND_HINT]),
        ("preference", FOUND, "reversed", None, "UPDATE", [FOUND_HINT, DISALLOWED]),
        ("incident", FOUND, None, None, "UPDATE_OR_DELETE", [FOUND_HINT]),
    ],
)  # fmt: skip
def test_tables_vetoes_and_hints(
    category: str,
    candidate: Entry | None,
    event: str | None,
    pre_action: str | None,
    action: str,
    hints: list[str],
) -> None:
    made = verdict(Category(category, "x"), (candidate, 5) if candidate else None, event)
    assert (made["pre_action"], made["structural_cud"], made["hints"]) == (
        pre_action,
        action,
        hints,
    )
    veto = f"Cannot DELETE {category} (triage-initiated)"
    assert made["vetoes"] == ([veto] if action == "UPDATE" else [])
    assert made["delete_allowed"] is (category not in DELETE_DISALLOWED)
    assert made["lifecycle_event"] == event


def test_a_hit_of_a_search_counts_in_the_same_points_unless_it_is_far_below_the_best() -> None:
    entries = {FOUND.path: FOUND}
    for hits, points in (
        ([("other.md", 0.9), (FOUND.path, 0.7)], 8),
        ([(FOUND.path, 1.0)], 10),
        ([(FOUND.path, 0.05)], 3),
        ([("other.md", 0.9), (FOUND.path, 0.1)], 0),
        ([], 0),
    ):
        assert select_hit(entries, hits) == ((FOUND, points) if points else None)


def test_a_category_that_is_not_captured_says_so() -> None:
    kind = Category("decision", "decisions", auto_capture=False)
    hint = "auto_capture is off for decision; save only what was asked for"
    assert verdict(kind, None, None)["hints"] == [hint]
