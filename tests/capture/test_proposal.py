"""A title and a text become content that the category's schema allows, and lose no words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retain.capture.proposal import UNSTATED, Proposal
from retain.categories import DEFAULTS
from retain.records.schema import find_faults
from tests.hooks.door import record


def content(category: str, title: str, text: str) -> dict[str, object]:
    return Proposal("", category, title, text).content()


@pytest.mark.parametrize("category", DEFAULTS)
@settings(max_examples=settings().max_examples // 4)
@given(title=st.text(min_size=1).filter(str.strip), text=st.text())
def test_any_words_make_a_valid_memory(category: str, title: str, text: str) -> None:
    whole = record(category)
    whole["content"] = content(category, title, text)
    assert find_faults(whole) == []


@pytest.mark.parametrize("category", DEFAULTS)
def test_no_word_is_lost(category: str) -> None:
    words = "alpha beta\n- gamma because of epsilon\n2. zeta\neta passes\n\nSee also:\n- kappa"
    said = str(content(category, "Title", words))
    listed = [word for word in words.split() if word not in ("-", "2.")]
    assert [word for word in (*listed, "Title") if word not in said] == []


@pytest.mark.parametrize(
    "category, text, wanted",
    [
        (
            "decision",
            "We looked. We took it because one writer is not enough. Done.",
            {"decision": "T", "rationale": ["We took it because one writer is not enough."]},
        ),
        (
            "runbook",
            "The build fails.\n1. npm ci\n2) stop - then start\nVerified: the build passes.",
            {
                "trigger": "T",
                "symptoms": ["The build fails."],
                "steps": ["npm ci", "stop - then start", "Verified: the build passes."],
                "verification": "Verified: the build passes.",
            },
        ),
        ("constraint", "They say so.", {"rule": "T", "impact": ["They say so."], "active": True}),
        (
            "tech_debt",
            "It sleeps. For now that is enough.",
            {
                "reason_deferred": "For now that is enough.",
                "description": "T\n\nIt sleeps. For now that is enough.",
            },
        ),
        ("tech_debt", "T sleeps.", {"reason_deferred": UNSTATED, "description": "T sleeps."}),
        ("preference", "Always tabs.", {"topic": "T", "value": "Always tabs."}),
        ("incident", "It was DNS.", {"title": "T", "text": "It was DNS."}),
    ],
)
def test_words_go_where_the_category_has_a_field_for_them(
    category: str, text: str, wanted: dict[str, object]
) -> None:
    made = content(category, "T", text)
    assert {name: made.get(name) for name in wanted} == wanted


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


@pytest.mark.parametrize(
    "line, goal",
    [("- **Task:** ship it", "ship it"), ("Goal: a: b", "a: b"), ("Goal:", "T"), ("Goals: x", "T")],
)
def test_a_goal_is_what_a_line_says_it_is(line: str, goal: str) -> None:
    assert content("session_summary", "T", f"Some words\n{line}")["goal"] == goal
