"""A hook whose time is up says what it has, loses nothing, and does nothing that can wait."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from retain.hooks import Answer, Call, respond
from tests import indexes
from tests.capture.proposals import inbox
from tests.cli.door import done
from tests.hooks.door import DECIDED, SESSION, ask, busy, kept, said


def late(event: str, **payload: object) -> Answer:
    """What is answered to an event that came a minute ago."""
    whole = {"session_id": SESSION, "cwd": os.getcwd(), **payload}
    env = {**os.environ, "RETAIN_HOOKS_DEADLINE_MS": "10"}
    answer = respond(Call(event, whole, env, time.monotonic() - 60))
    assert answer.code == 0
    assert not answer.out or json.loads(answer.out)
    return answer


def test_a_stop_passes_and_is_looked_at_the_next_time(bank: Path, work: Path) -> None:
    path = said(work / "t.jsonl", DECIDED)
    answer = late("stop", transcript_path=path)
    assert (answer.err, answer.reason[:21]) == ("", "There was no time: ho")
    assert ask("stop", transcript_path=path).code == 2
    late("stop", transcript_path=path, stop_hook_active=True)
    assert [one.category for one in inbox(bank).proposals()] == ["decision"]


@pytest.mark.parametrize("event", ["pre-compact", "session-end"])
def test_a_transcript_is_not_judged(event: str, bank: Path, work: Path) -> None:
    path = busy(work / "t.jsonl") if event == "session-end" else said(work / "t.jsonl", DECIDED)
    late(event, transcript_path=path)
    assert inbox(bank).proposals() == []


def test_a_summary_that_the_host_made_is_proposed(bank: Path) -> None:
    late("post-compact", compact_summary="They mended the lantern.")
    assert [one.text for one in inbox(bank).proposals()] == ["They mended the lantern."]


def test_a_bank_stays_closed_and_what_was_written_is_only_mentioned(bank: Path) -> None:
    path = kept(bank, "decision", title=None)
    call = {"tool_name": "Write", "tool_input": {"file_path": str(path)}}
    assert "deny" in late("pre-tool-use", **call).out
    answer = late("post-tool-use", **call)
    assert answer.out == ""
    assert answer.err.endswith("WARNING: There was no time to look at it.\n")
    assert path.exists()


def test_a_prompt_brings_nothing(bank: Path) -> None:
    done("put", "-", "--id", "lantern", input="The lantern burns whale oil.")
    indexes.database(bank).unlink()
    assert late("user-prompt-submit", prompt="which oil does the lantern burn").out == ""


def test_a_session_begins_with_what_could_be_read(bank: Path) -> None:
    (bank / "USER.md").write_text("I am Ada.", encoding="utf-8")
    for number in range(9):
        kept(bank, "constraint", f"n-{number}")
    text = late("session-start", source="startup").out
    assert "I am Ada." in text
    assert text.count("[CONSTRAINT]") == 1
