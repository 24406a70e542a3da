"""An agent is asked once to save what its session has shown; what it leaves goes to the inbox."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from retain.hooks import Answer
from tests.capture import transcripts
from tests.capture.proposals import inbox
from tests.cli.door import done
from tests.hooks.door import DECIDED, OTHER, SESSION, ask, kept, nothing, said, saved, state_file

FLAG = ".claude/.stop_hook_active"
DECISION = "We decided on Postgres because it is known."
NEW = DECIDED.replace("Postgres", "MySQL")


@pytest.fixture
def path(work: Path) -> str:
    """A transcript that calls for a decision."""
    return said(work / "t.jsonl", DECIDED)


def stop(path: object, **more: object) -> Answer:
    return ask("stop", transcript_path=path, **more)


def again(path: object, **more: object) -> Answer:
    return stop(path, stop_hook_active=True, **more)


def add(path: str, *lines: object) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


def spoken(text: str, answer: str = "new") -> dict[str, object]:
    return transcripts.assistant(transcripts.text(text), answer=answer)


def triage_data(answer: Answer) -> dict[str, Any]:
    match = re.search(r"<triage_data>\n(.*)\n</triage_data>\n\Z", answer.err, re.DOTALL)
    assert match, answer.err
    data: dict[str, Any] = json.loads(match[1])
    return data


def proposed(root: Path) -> list[tuple[str, str]]:
    return [(one.category, one.title) for one in inbox(root).proposals()]


# What is no reason to block


@pytest.mark.parametrize("given", [None, 7, "relative.jsonl", "nul\0", "/no/such/file", "/tmp"])
def test_without_a_transcript_a_stop_passes(given: object, bank: Path) -> None:
    assert nothing(stop(given))


def test_without_a_bank_nobody_is_asked_and_nothing_is_made(path: str, home: Path) -> None:
    before = sorted(home.rglob("*"))
    assert nothing(stop(path))
    assert sorted(home.rglob("*")) == before


def test_a_quiet_session_stops(work: Path, bank: Path) -> None:
    assert nothing(stop(said(work / "t.jsonl", "All is well.")))
    assert not (work / FLAG).exists()


# The block


def test_a_stop_that_would_lose_something_is_blocked_once(
    path: str, bank: Path, work: Path
) -> None:
    answer = stop(path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.split("\n")[:4] == [
        "The following items should be saved as memories before stopping:",
        f"- [DECISION] {DECISION} (score: 0.53)",
        "",
        "Use the memory-management skill to save each item. After saving, you may stop.",
    ]
    data = triage_data(answer)
    (found,) = data["categories"]
    assert (found["category"], found["score"]) == ("decision", 0.5263)
    assert data["parallel_config"]["default_model"] == "haiku"
    assert data["parallel_config"]["category_models"]["decision"] == "sonnet"
    flag = work / FLAG
    assert abs(float(flag.read_text(encoding="ascii")) - time.time()) < 60
    assert stat.S_IMODE(flag.stat().st_mode) == 0o600
    assert proposed(bank) == []
    assert nothing(again(path))
    (one,) = inbox(bank).proposals()  # what was not saved
    assert (one.category, one.title) == ("decision", DECISION)
    assert (one.event, one.host, one.session_id, one.cwd) == (
        "stop",
        "claude-code",
        SESSION,
        str(work),
    )
    assert DECISION.encode() in Path(path).read_bytes()[one.start : one.end]
    assert DECIDED in one.text
    assert not flag.exists()
    assert nothing(stop(path))  # what was judged is not judged again
    add(path, spoken("We picked tar over zip."))
    assert nothing(stop(path))  # one line is not enough
    add(path, spoken(DECIDED, "newer"))
    assert stop(path).code == 2


@pytest.mark.parametrize("given", [None, "", "later.jsonl"])
def test_the_last_message_counts_before_there_is_a_transcript(
    given: str | None, work: Path, bank: Path
) -> None:
    """Claude Code may begin to write it after the first stop; Codex may have none."""
    path = given and str(work / given)
    assert stop(path, last_assistant_message=DECIDED).code == 2
    assert nothing(again(path, last_assistant_message="Saved."))
    assert len(proposed(bank)) == 1


def test_a_message_judged_before_there_was_a_transcript_is_not_judged_again(
    work: Path, bank: Path
) -> None:
    path = work / "t.jsonl"
    assert stop(str(path), last_assistant_message=DECIDED).code == 2
    said(path, DECIDED)
    assert nothing(stop(str(path), last_assistant_message=DECIDED))
    assert nothing(stop(str(path), last_assistant_message=DECIDED))
    assert len(proposed(bank)) == 1  # what was raised and not saved, once
    assert stop(str(path), last_assistant_message=NEW).code == 2  # no line of it is written yet


@pytest.mark.parametrize(
    "config, code",
    [
        ({"triage": {"enabled": False}}, 0),
        ({"triage": {"thresholds": {"DECISION": 0.6}}}, 0),
        ({"triage": {"thresholds": {"decision": 0.5}}}, 2),
        ({"categories": {"decision": {"enabled": False}}}, 0),
        ({"categories": {"decision": {"auto_capture": False}}}, 0),
        ({"triage": {"max_messages": 10}}, 0),
        ("{", 2),
    ],
    ids=str,
)
def test_a_memory_config_decides(config: object, code: int, work: Path, store: Path) -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    (store / "memory-config.json").write_text(text, encoding="utf-8")
    assert stop(said(work / "t.jsonl", DECIDED, *["x"] * 10)).code == code


def test_settings_decide_how_an_agent_is_asked(
    path: str, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_TRIAGE_PARALLEL_ENABLED", "false")
    monkeypatch.setenv("RETAIN_TRIAGE_PARALLEL_CATEGORY_MODELS_DECISION", "haiku")
    monkeypatch.setenv("RETAIN_CATEGORIES_DECISION_DESCRIPTION", "What we settled on")
    answer = stop(path)
    assert f"- [DECISION] (What we settled on) {DECISION}" in answer.err
    parallel = triage_data(answer)["parallel_config"]
    assert (parallel["enabled"], parallel["category_models"]["decision"]) == (False, "haiku")


# The flag, and the second stop


@pytest.mark.parametrize("age, code", [(0, 0), (301, 2)])
def test_a_fresh_flag_lets_a_stop_pass(
    age: int, code: int, path: str, bank: Path, work: Path
) -> None:
    flag = work / FLAG
    flag.parent.mkdir()
    flag.touch()
    os.utime(flag, (time.time() - age,) * 2)
    answer = stop(path, session_id="")
    assert (answer.code, flag.exists()) == (code, code == 2)
    if code:
        (found,) = triage_data(answer)["categories"]
        assert found["context_file"] == "/tmp/.memory-triage-context-decision.txt"
        os.unlink(found["context_file"])


def test_no_flag_is_set_through_a_link(path: str, bank: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (work / ".claude").symlink_to(tmp_path / "theirs")
    assert stop(path).code == 2
    assert os.listdir(tmp_path / "theirs") == []


def test_two_sessions_lose_nothing_to_each_other(path: str, bank: Path, work: Path) -> None:
    assert stop(path).code == 2
    theirs = said(work / "theirs.jsonl", NEW)
    assert nothing(stop(theirs, session_id=OTHER))  # the flag puts it off
    assert stop(theirs, session_id=OTHER).code == 2
    assert nothing(again(theirs, session_id=OTHER))
    assert nothing(again(path))  # whatever became of its flag
    assert sorted(title.split()[3] for _, title in proposed(bank)) == ["MySQL", "Postgres"]


def test_a_block_of_somebody_else_s_closes_nothing(path: str, bank: Path) -> None:
    assert nothing(again(path))
    assert stop(path).code == 2


@pytest.mark.parametrize("minutes", [0, 6])
def test_what_is_said_after_an_interrupted_block_is_not_lost(
    minutes: int, path: str, bank: Path, work: Path
) -> None:
    assert stop(path).code == 2
    os.utime(work / FLAG, (time.time() - 60 * minutes,) * 2)
    add(path, transcripts.user("No, look at the other store."), spoken(NEW))
    if not minutes:  # it was asked just now
        assert nothing(stop(path))
    assert stop(path).code == 2
    again(path)
    titles = [DECISION, DECISION.replace("Postgres", "MySQL")]
    assert sorted(title for _, title in proposed(bank)) == sorted(titles)
    assert nothing(stop(path))


def test_a_transcript_that_shrank_is_judged_anew(path: str, bank: Path, work: Path) -> None:
    assert stop(path).code == 2
    again(path)
    said(Path(path), DECIDED[:-1])
    assert stop(path).code == 2


@pytest.mark.parametrize(
    "folder, is_new, left",
    [("decisions", True, []), ("choices", True, []), ("decisions", False, ["decision"])],
)
def test_what_the_agent_has_saved_is_not_proposed(
    folder: str, is_new: bool, left: list[str], path: str, store: Path
) -> None:
    """A file that only came from a repository is not what was saved, by its own date."""
    config = {"categories": {"decision": {"folder": folder}}}
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    assert stop(path).code == 2
    (saved if is_new else kept)(store, "decision")
    (store / "decisions" / "half.json").write_text("{", encoding="utf-8")
    (store / "decisions").rename(store / folder)
    again(path)
    assert [category for category, _ in proposed(store)] == left


# The inbox


def test_with_the_inbox_nobody_is_asked(path: str, bank: Path, work: Path) -> None:
    done("config", "set", "triage.capture", "inbox")
    for _ in range(2):
        assert nothing(stop(path))
        assert [category for category, _ in proposed(bank)] == ["decision"]
    assert not (work / FLAG).exists()


def test_a_proposal_goes_to_the_person_s_bank_where_the_project_has_none(
    path: str, home: Path
) -> None:
    done("init", "--global")
    done("config", "set", "triage.capture", "inbox", "--global")
    assert nothing(stop(path))
    assert len(proposed(home / ".retain")) == 1


def test_secrets_go_neither_to_the_agent_nor_to_the_inbox(work: Path, bank: Path) -> None:
    token = "gh" + "p_" + "aB3" * 12
    path = said(work / "t.jsonl", f"We decided on {token} because.\nWe chose it over {token}.")
    answer = stop(path)
    assert (answer.code, token in answer.err) == (2, False)
    file = Path(triage_data(answer)["categories"][0]["context_file"])
    assert token not in file.read_text(encoding="utf-8")
    state = state_file(bank).read_text(encoding="utf-8")
    assert ("We decided on" in state, token in state) == (True, False)
    again(path)
    (one,) = inbox(bank).proposals()
    assert token not in f"{one.title} {one.text}"
