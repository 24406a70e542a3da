"""A title and a text become content that the category's schema allows, and lose no words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retain.capture.content import UNSTATED, content
from retain.model import TYPED
from retain.schema import faults


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


@pytest.mark.parametrize("category", TYPED)
@settings(max_examples=settings().max_examples // 4)
@given(title=st.text(min_size=1), text=st.text())
def test_any_words_make_a_valid_memory(category: str, title: str, text: str) -> None:
    assert faults(record(category, content(category, title, text))) == []


@pytest.mark.parametrize("category", TYPED)
def test_no_word_is_lost(category: str) -> None:
    words = "alpha beta\n- gamma because of epsilon\n2. zeta\neta passes\n\nSee also:\n- kappa"
    said = str(content(category, "Title", words))
    listed = [word for word in words.split() if word not in ("-", "2.")]
    assert [word for word in (*listed, "Title") if word not in said] == []


def test_decision_has_the_sentence_that_says_why() -> None:
    text = "We looked at two. We took Postgres because one writer is not enough. It is done."
    assert content("decision", "Use Postgres", text) == {
        "status": "accepted",
        "context": text,
        "decision": "Use Postgres",
        "rationale": ["We took Postgres because one writer is not enough."],
    }


def test_decision_without_a_reason_claims_none() -> None:
    assert content("decision", "Use Postgres", "It is so.")["rationale"] == ["Use Postgres"]


def test_runbook_has_steps_and_what_came_before_them() -> None:
    text = "The build fails.\n1. npm ci\n2) npm run build\nVerified: the build passes."
    assert content("runbook", "Build fails", text) == {
        "trigger": "Build fails",
        "symptoms": ["The build fails."],
        "steps": ["npm ci", "npm run build", "Verified: the build passes."],
        "verification": "Verified: the build passes.",
    }


def test_runbook_without_a_list_has_its_lines_as_steps() -> None:
    made = content("runbook", "Cache", "Delete the folder.\n\nStart again.")
    assert made["steps"] == ["Delete the folder.", "Start again."]
    assert made["verification"] == UNSTATED


def test_constraint_is_a_limitation_in_force() -> None:
    assert content("constraint", "100 calls a minute", "The vendor says so.") == {
        "kind": "limitation",
        "rule": "100 calls a minute",
        "impact": ["The vendor says so."],
        "severity": "medium",
        "active": True,
    }


def test_tech_debt_has_the_sentence_that_says_why_it_waits() -> None:
    made = content("tech_debt", "Retry loop", "The retry loop sleeps. For now that is enough.")
    assert made["reason_deferred"] == "For now that is enough."
    assert made["description"] == "Retry loop\n\nThe retry loop sleeps. For now that is enough."
    assert content("tech_debt", "Retry", "Retry sleeps.")["reason_deferred"] == UNSTATED


def test_preference_says_that_it_has_no_reason() -> None:
    assert content("preference", "Tabs", "Always tabs.") == {
        "topic": "Tabs",
        "value": "Always tabs.",
        "reason": UNSTATED,
        "strength": "default",
    }


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
    assert content("session_summary", "Databases", text) == {
        "goal": "choose a database",
        "outcome": "partial",
        "completed": ["Some words first", "picked Postgres", "All user messages:", "which one?"],
        "next_actions": ["migrate", "measure"],
        "in_progress": ["the schema"],
        "blockers": ["a missing driver"],
        "key_changes": ["db.py"],
    }


def test_a_dash_in_the_middle_of_a_line_stays() -> None:
    made = content("runbook", "Build", "1. stop - then start\nwait - and see")
    assert made["steps"] == ["stop - then start", "wait - and see"]


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
    assert content("session_summary", "Title", f"Some words\n{line}")["goal"] == goal


def test_category_of_ones_own_gets_the_words_as_they_are() -> None:
    assert content("incident", "Outage", "It was DNS.") == {
        "title": "Outage",
        "text": "It was DNS.",
    }
