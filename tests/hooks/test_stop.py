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

from retain.capture.inbox import MAX_WAITING
from retain.hooks import Answer
from tests.capture import transcripts
from tests.capture.proposals import inbox
from tests.cli.door import done
from tests.hooks.door import DECIDED, OTHER, SESSION, ask, memo_file, nothing, said, saved

FLAG = ".claude/.stop_hook_active"


@pytest.fixture
def path(work: Path) -> str:
    """A transcript that calls for a decision."""
    return said(work / "t.jsonl", DECIDED)


def stop(path: object, **more: object) -> Answer:
    return ask("stop", transcript_path=path, **more)


def again(path: object, **more: object) -> Answer:
    return stop(path, stop_hook_active=True, **more)


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


def test_a_quiet_session_stops(work: Path, bank: Path) -> None:
    assert nothing(stop(said(work / "t.jsonl", "All is well.")))
    assert not (work / FLAG).exists()


# The block


def test_a_stop_that_would_lose_something_is_blocked(path: str, bank: Path, work: Path) -> None:
    answer = stop(path)
    assert (answer.code, answer.out) == (2, "")
    lines = answer.err.split("\n")
    assert lines[:4] == [
        "The following items should be saved as memories before stopping:",
        "- [DECISION] We decided on Postgres because it is known. (score: 0.53)",
        "",
        "Use the memory-management skill to save each item. After saving, you may stop.",
    ]
    data = triage_data(answer)
    assert list(data) == ["categories", "parallel_config"]
    (found,) = data["categories"]
    assert (found["category"], found["score"]) == ("decision", 0.5263)
    assert data["parallel_config"]["default_model"] == "haiku"
    assert data["parallel_config"]["category_models"]["decision"] == "sonnet"
    flag = work / FLAG
    assert abs(float(flag.read_text(encoding="ascii")) - time.time()) < 60
    assert stat.S_IMODE(flag.stat().st_mode) == 0o600
    flag.unlink()
    (found,) = triage_data(stop(path, session_id="", stop_hook_active="true"))["categories"]
    assert found["context_file"] == "/tmp/.memory-triage-context-decision.txt"
    os.unlink(found["context_file"])


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
    new = DECIDED.replace("Postgres", "MySQL")  # of which no line is written yet
    assert stop(str(path), last_assistant_message=new).code == 2


def test_without_a_bank_nobody_is_asked_and_nothing_is_made(path: str, home: Path) -> None:
    before = sorted(home.rglob("*"))
    assert nothing(stop(path))
    assert sorted(home.rglob("*")) == before


# By the settings


@pytest.mark.parametrize(
    "config, code",
    [
        ({"triage": {"enabled": False}}, 0),
        ({"triage": {"thresholds": {"DECISION": 0.6}}}, 0),
        ({"triage": {"thresholds": {"decision": 0.5}}}, 2),
        ({"categories": {"decision": {"enabled": False}}}, 0),
        ({"categories": {"decision": {"auto_capture": False}}}, 0),
        ("{", 2),
    ],
    ids=str,
)
def test_a_memory_config_decides(config: object, code: int, path: str, store: Path) -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    (store / "memory-config.json").write_text(text, encoding="utf-8")
    assert stop(path).code == code


# The flag, and the second stop


@pytest.fixture
def flag(work: Path) -> Path:
    (work / ".claude").mkdir()
    return work / FLAG


def test_a_fresh_flag_lets_one_stop_pass(flag: Path, path: str, bank: Path) -> None:
    flag.touch()
    assert nothing(stop(path, session_id=""))
    assert not flag.exists()


def test_a_flag_of_another_session_loses_nothing_of_this_one(
    path: str, bank: Path, work: Path
) -> None:
    assert stop(path).code == 2
    theirs = said(work / "theirs.jsonl", DECIDED.replace("Postgres", "MySQL"))
    assert stop(theirs, session_id=OTHER).code == 2
    assert nothing(again(theirs, session_id=OTHER))
    assert nothing(stop(path))  # it was asked just now, whatever became of its flag
    assert sorted(title.split()[3] for _, title in proposed(bank)) == ["MySQL", "Postgres"]


def test_a_block_of_somebody_else_s_closes_nothing(path: str, bank: Path) -> None:
    assert nothing(again(path))
    assert stop(path).code == 2


def add(path: str, *lines: object) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)


@pytest.mark.parametrize("minutes", [0, 6])
def test_what_is_said_after_an_interrupted_block_is_not_lost(
    minutes: int, path: str, bank: Path
) -> None:
    assert stop(path).code == 2
    memo = memo_file(bank)
    kept_since = json.loads(memo.read_text(encoding="utf-8"))
    kept_since["raised_at"] -= 60 * minutes
    memo.write_text(json.dumps(kept_since), encoding="utf-8")
    new = DECIDED.replace("Postgres", "MySQL")
    answered = transcripts.assistant(transcripts.text(new), answer="new")
    add(path, transcripts.user("No, look at the other store."), answered)
    answer = stop(path, stop_hook_active=False)
    old = "We decided on Postgres because it is known."
    if minutes:  # so long ago that it may be asked again
        assert answer.code == 2
        assert [title for _, title in proposed(bank)] == [old]
        again(path)
    else:
        assert nothing(answer)
    assert sorted(title for _, title in proposed(bank)) == [old.replace("Postgres", "MySQL"), old]
    assert nothing(stop(path))


def test_what_an_agent_says_of_its_saving_is_no_news(path: str, bank: Path) -> None:
    """A host that does not keep count: nobody has asked for anything since."""
    assert stop(path).code == 2
    add(path, transcripts.assistant(transcripts.text(DECIDED[:-1]), answer="new"))
    assert nothing(stop(path))
    assert nothing(stop(path))
    assert len(proposed(bank)) == 1


def test_a_stale_flag_is_as_good_as_none(flag: Path, path: str, bank: Path) -> None:
    flag.touch()
    os.utime(flag, (time.time() - 301,) * 2)
    answer = stop(path, session_id="")
    assert answer.code == 2
    os.unlink(triage_data(answer)["categories"][0]["context_file"])
    assert time.time() - flag.stat().st_mtime < 60


@pytest.mark.parametrize("kind", ["link", "dangling", "directory"])
def test_a_flag_that_is_no_file_counts_for_nothing(
    kind: str, flag: Path, path: str, bank: Path, work: Path
) -> None:
    victim = work / "victim"
    if kind == "directory":
        flag.mkdir()
    else:
        if kind == "link":
            victim.write_text("mine", encoding="utf-8")
        flag.symlink_to(victim)
    answer = stop(path, session_id="")
    assert answer.code == 2
    os.unlink(triage_data(answer)["categories"][0]["context_file"])
    assert victim.exists() == (kind == "link")
    assert kind != "link" or victim.read_text(encoding="utf-8") == "mine"


def test_no_flag_is_set_through_a_link(path: str, bank: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (work / ".claude").symlink_to(tmp_path / "theirs")
    assert stop(path).code == 2
    assert os.listdir(tmp_path / "theirs") == []


def test_a_second_stop_passes_and_what_was_not_saved_is_in_the_inbox(
    path: str, bank: Path, work: Path
) -> None:
    assert stop(path).code == 2
    assert proposed(bank) == []
    assert nothing(again(path))
    assert proposed(bank) == [("decision", "We decided on Postgres because it is known.")]
    assert not (work / FLAG).exists()
    (one,) = inbox(bank).proposals()
    assert (one.event, one.host, one.session_id, one.cwd) == (
        "stop",
        "claude-code",
        SESSION,
        str(work),
    )
    with open(path, "rb") as file:
        assert DECIDED.partition("\n")[0].encode() in file.read()[one.start : one.end]
    assert DECIDED in one.text


def test_a_category_in_a_folder_of_its_own_is_looked_for_there(path: str, store: Path) -> None:
    config = {"categories": {"decision": {"folder": "choices"}}}
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    assert stop(path).code == 2
    saved(store, "decision").parent.rename(store / "choices")
    again(path)
    assert proposed(store) == []


def test_what_was_judged_is_not_judged_again(path: str, bank: Path, work: Path) -> None:
    assert stop(path).code == 2
    again(path)
    assert nothing(stop(path))
    with open(path, "a", encoding="utf-8") as file:
        line = transcripts.assistant(transcripts.text("We picked tar over zip."), answer="new")
        file.write(json.dumps(line) + "\n")
    assert nothing(stop(path))  # one line is not enough
    with open(path, "a", encoding="utf-8") as file:
        line = transcripts.assistant(transcripts.text(DECIDED), answer="newer")
        file.write(json.dumps(line) + "\n")
    assert stop(path).code == 2


def test_a_transcript_that_shrank_is_judged_anew(path: str, bank: Path, work: Path) -> None:
    assert stop(path).code == 2
    again(path)
    said(Path(path), DECIDED[:-1])
    assert stop(path).code == 2


def test_with_the_inbox_nobody_is_asked(path: str, bank: Path, work: Path) -> None:
    done("config", "set", "triage.capture", "inbox")
    assert nothing(stop(path))
    assert [category for category, _ in proposed(bank)] == ["decision"]
    assert not (work / FLAG).exists()
    assert nothing(stop(path))
    assert len(proposed(bank)) == 1


def test_a_full_inbox_is_said_and_blocks_nothing(path: str, bank: Path) -> None:
    done("config", "set", "triage.capture", "inbox")
    folder = Path(inbox(bank).path)
    folder.mkdir(parents=True)
    for number in range(MAX_WAITING):
        (folder / f"{number:016x}.json").write_text("{}", encoding="utf-8")
    answer = stop(path)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith(f"retain hook: {MAX_WAITING} proposals wait in ")


def test_secrets_go_neither_to_the_agent_nor_to_the_inbox(work: Path, bank: Path) -> None:
    token = "gh" + "p_" + "aB3" * 12
    text = f"We decided on {token} because.\nWe chose it over {token}."
    path = said(work / "t.jsonl", text)
    answer = stop(path)
    assert (answer.code, token in answer.err) == (2, False)
    file = Path(triage_data(answer)["categories"][0]["context_file"])
    assert token not in file.read_text(encoding="utf-8")
    memo = memo_file(bank).read_text(encoding="utf-8")
    assert "We decided on" in memo
    assert token not in memo
    again(path)
    for one in inbox(bank).proposals():
        assert token not in f"{one.title} {one.text}"
