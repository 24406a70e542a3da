"""A transcript judged by the settings in force; what is found goes to the inbox, once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from retain.hooks import Call
from retain.hooks.stop import Session
from tests.capture.proposals import inbox
from tests.capture.settings import DEFAULTS
from tests.cli.door import done
from tests.hooks.door import DECIDED, SESSION, kept, said, saved

FOUND = {"category": "decision", "title": "A title", "text": "What was said", "score": 0.5}


def session(**payload: object) -> Session:
    whole = {"session_id": SESSION, "cwd": os.getcwd(), **payload}
    return Session(Call("stop", whole, os.environ, time.monotonic()))


def asked(*categories: str) -> Session:
    """A session whose agent was asked just now to save something of each category."""
    one = session()
    one.state.raised = [{**FOUND, "category": category} for category in categories]
    one.state.raised_at = time.time()
    return one


def test_settings_decide_what_is_asked_for_and_how(
    bank: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session().thresholds == DEFAULTS
    for name, value in (
        ("TRIAGE_MAX_MESSAGES", "10"),
        ("TRIAGE_THRESHOLDS_RUNBOOK", "0.9"),
        ("TRIAGE_PARALLEL_ENABLED", "false"),
        ("TRIAGE_PARALLEL_CATEGORY_MODELS_DECISION", "haiku"),
        ("CATEGORIES_DECISION_DESCRIPTION", "What we settled on"),
        ("CATEGORIES_PREFERENCE_AUTO_CAPTURE", "false"),
    ):
        monkeypatch.setenv(f"RETAIN_{name}", value)
    one = session(transcript_path=said(work / "t.jsonl", *["x"] * 20, DECIDED))
    wanted = {**DEFAULTS, "runbook": 0.9}
    del wanted["preference"]
    assert (one.thresholds, len(one.messages)) == (wanted, 10)
    one.judge()
    message = one.write_message()
    assert "- [DECISION] (What we settled on) We decided on Postgres" in message
    assert '"enabled": false' in message
    assert '"decision": "haiku"' in message
    one.settle()


def test_a_proposal_goes_to_the_person_s_bank_where_the_project_has_none(home: Path) -> None:
    done("init", "--global")
    session().propose(FOUND)
    assert len(inbox(home / ".retain").proposals()) == 1


def test_what_was_written_since_counts_as_saved(store: Path) -> None:
    kept(store, "runbook", "old")
    one = asked("decision", "runbook", "constraint")
    saved(store, "decision")
    one.settle()
    assert sorted(one.category for one in inbox(store).proposals()) == ["constraint", "runbook"]
    assert (one.state.raised, one.state.is_summarised) == ([], False)


def test_what_only_came_from_a_repository_is_not_what_was_saved(store: Path) -> None:
    one = asked("decision")
    kept(store, "decision", "pulled")  # a new file with an old date
    (store / "decisions" / "half.json").write_text("{", encoding="utf-8")
    (store / "decisions" / "note.txt").write_text("x", encoding="utf-8")
    one.settle()
    assert [one.category for one in inbox(store).proposals()] == ["decision"]


def test_a_summary_that_was_raised_needs_no_other(store: Path) -> None:
    one = asked("session_summary")
    one.settle()
    assert one.state.is_summarised
