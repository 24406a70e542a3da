"""An agent is asked once to save what its session has shown; what it leaves goes to the inbox."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from retain.capture import inbox
from retain.hooks.call import Answer
from tests.capture import transcripts
from tests.cli.door import done
from tests.hooks.door import DECIDED, OTHER, SESSION, ask, busy, nothing, said, saved

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
    return [(one.category, one.title) for one in inbox.proposals(str(root))]


# What is no reason to block


@pytest.mark.parametrize("given", [None, "", 7, "relative.jsonl", "nul\0", "/no/such/file", "/tmp"])
def test_without_a_transcript_a_stop_passes(given: object, bank: Path) -> None:
    assert nothing(stop(given))
    assert nothing(ask("stop"))


def test_a_transcript_elsewhere_is_not_read(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = said(Path(folder) / "t.jsonl", DECIDED)
        assert nothing(stop(path))
        link = f"{bank.parent}/link.jsonl"
        os.symlink(path, link)
        assert nothing(stop(link))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", folder)
        assert stop(path).code == 2


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"{", b"not json\n" * 5, b"\xff\xfe\n", b"[]\n7\nnull\n"], ids=ascii
)
def test_a_transcript_without_messages_lets_a_stop_pass(
    data: bytes, work: Path, bank: Path
) -> None:
    path = work / "t.jsonl"
    path.write_bytes(data)
    assert nothing(stop(str(path)))


def test_a_quiet_session_stops(work: Path, bank: Path) -> None:
    path = said(work / "t.jsonl", "All is well.")
    assert nothing(stop(path))
    assert not (work / FLAG).exists()


def test_what_stands_in_code_decides_nothing(work: Path, bank: Path) -> None:
    path = said(work / "t.jsonl", f"```\n{DECIDED}\n```\n")
    assert nothing(stop(path))


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


def test_the_context_is_in_a_private_file(path: str, bank: Path) -> None:
    (found,) = triage_data(stop(path))["categories"]
    file = Path(found["context_file"])
    assert re.fullmatch(r"/tmp/\.memory-triage-context-decision-[0-9a-f]{8}\.txt", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text(encoding="utf-8")
    assert text.startswith("Category: decision\nScore: 0.53\n")
    assert "<transcript_data>\n" in text
    assert DECIDED in text
    assert "Key snippets:\n  - We decided on Postgres" in text


def test_without_a_session_s_id_the_file_has_the_plain_name(path: str, bank: Path) -> None:
    (found,) = triage_data(stop(path, session_id=""))["categories"]
    assert found["context_file"] == "/tmp/.memory-triage-context-decision.txt"
    os.unlink(found["context_file"])


def test_a_context_file_that_is_a_link_is_not_written(path: str, bank: Path, work: Path) -> None:
    (found,) = triage_data(stop(path, session_id=OTHER))["categories"]
    (work / FLAG).unlink()
    os.unlink(found["context_file"])
    victim = work / "victim"
    victim.write_text("mine", encoding="utf-8")
    os.symlink(victim, found["context_file"])
    (bank / ".index" / "hooks" / f"{OTHER}.json").unlink()
    answer = stop(path, session_id=OTHER)
    assert answer.code == 2
    assert "context_file" not in triage_data(answer)["categories"][0]
    assert victim.read_text(encoding="utf-8") == "mine"


def test_the_last_message_counts_though_the_transcript_lacks_it(work: Path, bank: Path) -> None:
    path = said(work / "t.jsonl", "All is well.")
    assert stop(path, last_assistant_message=DECIDED).code == 2


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


def test_a_new_last_message_counts_while_nothing_new_is_written(path: str, bank: Path) -> None:
    assert stop(path, last_assistant_message=DECIDED).code == 2
    again(path, last_assistant_message=DECIDED)
    new = DECIDED.replace("Postgres", "MySQL")
    assert nothing(stop(path, last_assistant_message=DECIDED))
    assert stop(path, last_assistant_message=new).code == 2


def test_a_snippet_cannot_close_the_data_nor_hide(work: Path, bank: Path) -> None:
    text = "We decided `x` </triage_data>\u202e because\u200b.\nWe chose it over & above."
    answer = stop(said(work / "t.jsonl", text))
    assert answer.err.count("</triage_data>") == 1
    assert "&lt;/triage_data&gt;" in answer.err
    assert not set("\u202e\u200b") & set(answer.err)


def test_a_busy_session_is_asked_for_a_summary(work: Path, bank: Path) -> None:
    answer = stop(busy(work / "t.jsonl"))
    assert [one["category"] for one in triage_data(answer)["categories"]] == ["session_summary"]
    assert (
        "- [SESSION_SUMMARY] 12 tool uses across 3 tools, 2 exchanges (score: 0.94)" in answer.err
    )


def test_without_a_bank_an_agent_is_asked_all_the_same(path: str, home: Path) -> None:
    assert stop(path).code == 2
    assert not (home / ".retain").exists()


def test_without_a_bank_the_same_words_are_raised_once(path: str, work: Path) -> None:
    assert stop(path).code == 2
    assert again(path).code == 0
    (work / FLAG).unlink(missing_ok=True)
    assert stop(path).code == 0


# By the settings


@pytest.mark.parametrize(
    "config, code",
    [
        ({"triage": {"enabled": False}}, 0),
        ({"triage": {"thresholds": {"DECISION": 0.6}}}, 0),
        ({"triage": {"thresholds": {"decision": 0.5}}}, 2),
        ({"triage": {"thresholds": {"decision": 7}}}, 0),
        ({"triage": {"thresholds": {"decision": "low"}}}, 2),
        ({"triage": {"thresholds": 7}}, 2),
        ({"triage": {"max_messages": 1}}, 2),  # no fewer than ten
        ({"triage": {"max_messages": "x"}}, 2),
        ({"triage": {"parallel": {"default_model": "OPUS"}}}, 2),
        ({"categories": {"decision": {"enabled": False}}}, 0),
        ({"categories": {"decision": {"auto_capture": False}}}, 0),
        ([], 2),
        (None, 2),
    ],
    ids=str,
)
def test_a_memory_config_decides(config: object, code: int, path: str, store: Path) -> None:
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    assert stop(path).code == code


@pytest.mark.parametrize("text", ["{", "", '{"triage": ', "\0"], ids=ascii)
def test_a_broken_memory_config_leaves_the_defaults(text: str, path: str, store: Path) -> None:
    (store / "memory-config.json").write_text(text, encoding="utf-8")
    assert stop(path).code == 2


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_threshold_that_is_no_number_is_none(number: str, path: str, store: Path) -> None:
    text = f'{{"triage": {{"thresholds": {{"decision": {number}}}}}}}'
    (store / "memory-config.json").write_text(text, encoding="utf-8")
    assert stop(path).code == 2


def test_models_and_descriptions_come_from_the_config(path: str, store: Path) -> None:
    parallel = {"enabled": False, "default_model": "OPUS", "verification_model": "gpt"}
    config = {
        "triage": {"parallel": {**parallel, "category_models": {"decision": "haiku"}}},
        "categories": {"decision": {"description": "What we settled on"}},
    }
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    answer = stop(path)
    data = triage_data(answer)
    assert data["parallel_config"]["enabled"] is False
    assert data["parallel_config"]["default_model"] == "opus"
    assert data["parallel_config"]["verification_model"] == "sonnet"
    assert data["parallel_config"]["category_models"]["decision"] == "haiku"
    assert data["categories"][0]["description"] == "What we settled on"
    assert "- [DECISION] (What we settled on) We decided" in answer.err


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
    memo = bank / ".index" / "hooks" / f"{SESSION}.json"
    kept_since = json.loads(memo.read_text(encoding="utf-8"))
    kept_since["raised"]["at"] -= 60 * minutes
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
    (one,) = inbox.proposals(str(bank))
    assert (one.event, one.host, one.session_id, one.cwd) == (
        "stop",
        "claude-code",
        SESSION,
        str(work),
    )
    with open(path, "rb") as file:
        assert DECIDED.partition("\n")[0].encode() in file.read()[one.start : one.end]
    assert DECIDED in one.text


def test_what_was_saved_is_not_proposed(path: str, store: Path) -> None:
    assert stop(path).code == 2
    saved(store, "decision", "postgres")
    assert nothing(again(path))
    assert proposed(store) == []


def test_only_the_category_that_was_saved_counts(work: Path, store: Path) -> None:
    text = f"{DECIDED}\nThe build failed; the fix is known.\nAn error was resolved, a crash too."
    path = said(work / "t.jsonl", text)
    answer = stop(path)
    assert [one["category"] for one in triage_data(answer)["categories"]] == ["decision", "runbook"]
    saved(store, "runbook", "build")
    again(path)
    assert [category for category, _ in proposed(store)] == ["decision"]


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


def test_the_last_message_is_not_judged_twice(work: Path, bank: Path) -> None:
    path = said(work / "t.jsonl", "All is well.")
    assert stop(path, last_assistant_message=DECIDED).code == 2
    again(path, last_assistant_message=DECIDED)
    said(Path(path), "All is well.", DECIDED)  # now its line was written
    assert nothing(stop(path, last_assistant_message=DECIDED))


def test_a_host_that_keeps_count_itself_is_believed(path: str, bank: Path) -> None:
    assert nothing(again(path))
    assert proposed(bank) == []


def test_only_true_means_that_a_stop_was_blocked(path: str, bank: Path) -> None:
    assert stop(path, stop_hook_active="true").code == 2


def test_with_the_inbox_nobody_is_asked(path: str, bank: Path, work: Path) -> None:
    done("config", "set", "triage.capture", "inbox")
    assert nothing(stop(path))
    assert [category for category, _ in proposed(bank)] == ["decision"]
    assert not (work / FLAG).exists()
    assert nothing(stop(path))
    assert len(proposed(bank)) == 1


def test_with_the_inbox_but_no_bank_the_person_is_told(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_TRIAGE_CAPTURE", "inbox")
    answer = stop(path)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "retain hook: there is no bank to propose a memory to\n"


def test_a_full_inbox_is_said_and_blocks_nothing(path: str, bank: Path) -> None:
    done("config", "set", "triage.capture", "inbox")
    name = inbox.propose(str(bank), inbox.Proposal("", "decision", "t", "text"))
    first = bank / ".inbox" / f"{name}.json"
    _, _, body = first.read_bytes().partition(b"\n")
    sealer = inbox._Sealer.of(str(bank))
    for number in range(1, inbox.MOST):
        other = first.with_name(f"{number:016x}.json")
        other.write_bytes(sealer.seal(other.name, body) + body)
        other.chmod(0o600)
    answer = stop(path)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith(f"retain hook: {inbox.MOST} proposals wait in ")


def test_secrets_go_neither_to_the_agent_nor_to_the_inbox(work: Path, bank: Path) -> None:
    token = "gh" + "p_" + "aB3" * 12
    text = f"We decided on {token} because.\nWe chose it over {token}."
    path = said(work / "t.jsonl", text)
    answer = stop(path)
    assert (answer.code, token in answer.err) == (2, False)
    file = Path(triage_data(answer)["categories"][0]["context_file"])
    assert token not in file.read_text(encoding="utf-8")
    memo = (bank / ".index" / "hooks" / f"{SESSION}.json").read_text(encoding="utf-8")
    assert "We decided on" in memo
    assert token not in memo
    again(path)
    for one in inbox.proposals(str(bank)):
        assert token not in f"{one.title} {one.text}"


def test_much_that_was_said_in_any_script_is_not_forgotten(work: Path, bank: Path) -> None:
    line = "決定と理由と失敗と制約 " * 150
    words = (DECIDED, "It failed: the fix.\nA crash, resolved.", "A hack for now.\nTODO at a cost.")
    path = said(work / "t.jsonl", *(f"{line}\n{text}\n{line}" for text in words for _ in range(5)))
    answer = stop(path)
    assert len(triage_data(answer)["categories"]) == 3
    again(path)
    assert sorted(category for category, _ in proposed(bank)) == [
        "decision",
        "runbook",
        "tech_debt",
    ]
    assert nothing(stop(path))
