"""A title and a text become content that the category's schema allows, and lose no words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retain.capture.content import UNSTATED, make_content
from retain.categories import DEFAULTS
from retain.records.schema import find_faults


def record(category: str, made: dict[str, object]) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "category": category,
        "id": "one",
        "title": "One",
        "created_at": "2026-11-15T18:00:00Z",
        "updated_at": "2026-11-15T18:00:00Z",
        "tags": ["captured"],
        "content": made,
    }


@pytest.mark.parametrize("category", DEFAULTS)
@settings(max_examples=settings().max_examples // 4)
@given(title=st.text(min_size=1), text=st.text())
def test_any_words_make_a_valid_memory(category: str, title: str, text: str) -> None:
    assert find_faults(record(category, make_content(category, title, text))) == []


@pytest.mark.parametrize("category", DEFAULTS)
def test_no_word_is_lost(category: str) -> None:
    words = "alpha beta\n- gamma because of epsilon\n2. zeta\neta passes\n\nSee also:\n- kappa"
    said = str(make_content(category, "Title", words))
    listed = [word for word in words.split() if word not in ("-", "2.")]
    assert [word for word in (*listed, "Title") if word not in said] == []


@pytest.mark.parametrize(
    "category, title, text, content",
    [
        (
            "decision",
            "Use Postgres",
            "We looked. We took it because one writer is not enough. Done.",
            {
                "decision": "Use Postgres",
                "rationale": ["We took it because one writer is not enough."],
            },
        ),
        (
            "decision",
            "Use Postgres",
            "It is so.",
            {"rationale": ["Use Postgres"], "status": "accepted"},
        ),
        (
            "runbook",
            "Build fails",
            "The build fails.\n1. npm ci\n2) stop - then start\nVerified: the build passes.",
            {
                "trigger": "Build fails",
                "symptoms": ["The build fails."],
                "steps": ["npm ci", "stop - then start", "Verified: the build passes."],
                "verification": "Verified: the build passes.",
            },
        ),
        (
            "runbook",
            "Cache",
            "Delete the folder.\n\nStart again.",
            {"steps": ["Delete the folder.", "Start again."], "verification": UNSTATED},
        ),
        (
            "constraint",
            "100 calls",
            "The vendor says so.",
            {"rule": "100 calls", "impact": ["The vendor says so."], "active": True},
        ),
        (
            "tech_debt",
            "Retry loop",
            "It sleeps. For now that is enough.",
            {
                "reason_deferred": "For now that is enough.",
                "description": "Retry loop\n\nIt sleeps. For now that is enough.",
            },
        ),
        ("tech_debt", "Retry", "Retry sleeps.", {"reason_deferred": UNSTATED}),
        ("preference", "Tabs", "Always tabs.", {"topic": "Tabs", "value": "Always tabs."}),
        ("incident", "Outage", "It was DNS.", {"title": "Outage", "text": "It was DNS."}),
    ],
)
def test_words_go_where_the_category_has_a_field_for_them(
    category: str, title: str, text: str, content: dict[str, object]
) -> None:
    made = make_content(category, title, text)
    assert {name: made.get(name) for name in content} == content


def test_summary_goes_where_its_headings_say() -> None:
    text = """\
Some words first
Goal: choose a database
## Completed
- picked Postgres
**Next steps:**
1. migrate
2. measure
Current work:
- the schema
4. Errors and fixes:
   - a missing driver
5. Files and Code Sections:
* db.py
All user messages:
- which one?"""
    assert make_content("session_summary", "Databases", text) == {
        "goal": "choose a database",
        "outcome": "partial",
        "completed": ["Some words first", "picked Postgres", "All user messages:", "which one?"],
        "next_actions": ["migrate", "measure"],
        "in_progress": ["the schema"],
        "blockers": ["a missing driver"],
        "key_changes": ["db.py"],
    }


@pytest.mark.parametrize(
    "line, goal",
    [
        ("Goal: ship it", "ship it"),
        ("- **Task:** ship it", "ship it"),
        ("OBJECTIVE : *ship it*", "ship it"),
        ("Goal: a: b", "a: b"),
        ("Goal:", "Title"),
        ("Goals: ship it", "Title"),
        ("The goal: ship it", "Title"),
    ],
)
def test_a_goal_is_what_a_line_says_it_is(line: str, goal: str) -> None:
    assert make_content("session_summary", "Title", f"Some words\n{line}")["goal"] == goal
