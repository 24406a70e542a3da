"""`retain hook` for people: which hooks are on, and one of them tried."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from retain.hooks import EVENTS
from tests.cli.door import call, done
from tests.conftest import Run, command


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's bank with one memory, and all the time in the world."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    monkeypatch.setenv("RETAIN_HOOKS_DEADLINE_MS", "10000")
    done("init")
    text = "The harbour lantern burns whale oil, as the keeper of the harbour wants it."
    done("put", "-", "--id", "lantern", "--title", "The harbour lantern", input=text)
    return home / "work" / ".retain"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made, so that one can see what is left."""
    where = tmp_path / "scratch"
    where.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(where))
    return where


def tried(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(done("hook", "test", *words, "--json"))
    return answer


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Which are on


def test_without_an_event_those_that_can_be_tried_are_listed(home: Path) -> None:
    ran = call("hook", "test")
    assert ran.code == 0
    lines = ran.out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(EVENTS)
    assert all(len(line.split()) > 3 for line in lines)
    assert "retain hook test EVENT" in ran.err
    assert call("hook", "test", "--prompt", "x").code == 2


def test_every_event_is_listed_with_its_switch() -> None:
    listed = json.loads(done("hook", "--json"))
    assert [(one["event"], one["host_event"], one["on"]) for one in listed] == [
        (event, name, True) for event, name in EVENTS.items()
    ]
    assert listed[4]["switch"] == "hooks.stop"


@pytest.mark.parametrize(
    "key, events",
    [
        ("hooks.stop", {"stop"}),
        ("retrieval.enabled", {"user-prompt-submit"}),
        ("triage.enabled", {"stop", "pre-compact", "post-compact", "session-end"}),
        ("memory.enabled", set(EVENTS)),
    ],
)
def test_what_is_off_names_what_switched_it_off(key: str, events: set[str], bank: Path) -> None:
    done("config", "set", key, "false")
    listed = json.loads(done("hook", "--json"))
    assert {one["event"] for one in listed if not one["on"]} == events
    ran = call("hook")
    assert f"off: {key}" in ran.out
    assert str(bank) not in ran.out
    assert f"{key} is off: {bank / 'config.toml'}\n" in ran.err
    assert not events.intersection(done("hook", "--quiet").split())


def test_the_state_says_whether_there_is_a_bank_and_who_calls(bank: Path, home: Path) -> None:
    said = call("hook").err
    assert f"Bank: {bank} (project)" in said
    assert "no plugin" in said
    plugins = home / ".claude" / "plugins"
    plugins.mkdir(parents=True)
    known = {"version": 2, "plugins": {"retain@retain": [{"scope": "user"}]}}
    (plugins / "installed_plugins.json").write_text(json.dumps(known), encoding="utf-8")
    (home / "elsewhere").mkdir()
    os.chdir(home / "elsewhere")
    said = call("hook").err
    assert "There is no bank here: `retain init` makes one" in said
    assert "Claude Code has the plugin retain@retain." in said


# test


def test_a_prompt_brings_the_memory_it_is_about(bank: Path) -> None:
    before = files(bank)
    answer = tried("user-prompt-submit")
    assert answer["payload"]["prompt"].endswith("The harbour lantern?")
    assert "- [JOURNAL] The harbour lantern -> .retain/memories/lantern.md" in answer["says"]
    assert answer["reason"].startswith("The confidence is ")
    # Nothing is kept, so a second look sees the same.
    assert tried("user-prompt-submit", "--prompt", "harbour lantern oil")["says"] == answer["says"]
    assert files(bank) == before


def test_a_prompt_that_nothing_fits_is_answered_with_nothing() -> None:
    answer = tried("user-prompt-submit", "--prompt", "quarterly accounting of zeppelins")
    assert (answer["exit_code"], answer["stdout"]) == (0, "")
    assert "No memory fits the prompt well enough. The confidence is 0.00" in answer["says"]
    assert "None has any of its words." in answer["says"]


def test_a_prompt_that_hardly_fits_shows_what_comes_nearest() -> None:
    done(
        "put", "-", "--id", "oil", "--title", "Oil of the press", input="Oil the press on Mondays."
    )
    prompt = "which accountant audits the quarterly oil of zeppelins and balloons"
    said = tried("user-prompt-submit", "--prompt", prompt)["says"]
    assert "The nearest: " in said
    assert "is enough" in said


@pytest.mark.parametrize(
    "event, words, payload, why",
    [
        ("user-prompt-submit", ("--prompt", "go on"), {}, "fewer than 10 characters"),
        ("session-start", (), {}, "no preference, constraint, open work"),
        ("pre-tool-use", ("--file", "src/main.py"), {}, "That file is in no bank"),
        ("pre-tool-use", (), {"tool_name": "Read"}, "Read is no tool that writes files"),
        ("post-tool-use", ("--file", "payload.json"), {}, "That file is in no bank"),
        ("post-compact", (), {"compact_summary": ""}, "no compact_summary"),
        ("stop", (), {"stop_hook_active": True}, "a second one passes"),
        ("stop", (), {"transcript_path": "/nowhere/x.jsonl"}, "/nowhere/x.jsonl cannot be read"),
        ("session-end", (), {}, "It is switched off: hooks.session_end"),
    ],
)
def test_silence_is_explained(
    event: str, words: tuple[str, ...], payload: dict[str, object], why: str
) -> None:
    Path("payload.json").write_text(json.dumps(payload), encoding="utf-8")
    done("config", "set", "hooks.session_end", "false")
    answer = tried(event, *words, "--payload", "payload.json")
    assert answer["payload"]["session_id"] == "retain-hook-test"
    assert (answer["exit_code"], answer["stdout"]) == (0, "")
    assert answer["says"].startswith("Nothing: the host goes on.")
    assert why in answer["says"]


@pytest.mark.parametrize("event", ["stop", "session-end"])
def test_a_session_below_the_thresholds_shows_its_scores(event: str, home: Path) -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "Good morning to you."}]}
    path = home / "session.jsonl"
    path.write_text(json.dumps({"type": "assistant", "message": message}), encoding="utf-8")
    Path("payload.json").write_text('{"last_assistant_message": ""}', encoding="utf-8")
    said = tried(event, "--file", str(path), "--payload", "payload.json")["says"]
    assert "No category reaches its threshold (triage.thresholds): " in said
    assert "session_summary 0.02 of 0.6" in said
    assert ("decision 0.00 of 0.4" in said) == (event == "stop")


def test_a_hook_without_a_bank_says_so(home: Path) -> None:
    (home / "elsewhere").mkdir()
    os.chdir(home / "elsewhere")
    for event in ("user-prompt-submit", "session-start"):
        assert "There is no bank here: `retain init`" in tried(event)["says"]


def test_a_write_into_the_bank_is_refused_and_another_is_not() -> None:
    assert "refuses the tool's call" in tried("pre-tool-use")["says"]
    inside = tried("pre-tool-use", "--file", ".retain/memories/lantern.md")
    assert '"deny"' in inside["stdout"]
    assert tried("pre-tool-use", "--file", "src/main.py")["stdout"] == ""


def test_a_broken_memory_is_put_aside_only_in_a_copy(bank: Path) -> None:
    broken = bank / "decisions" / "broken.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    before = files(bank)
    answer = tried("post-tool-use", "--file", str(broken))
    assert "broken.json.invalid." in answer["says"]
    assert files(bank) == before
    assert tried("post-tool-use", "--file", str(bank / "memories/lantern.md"))["stdout"] == ""
    assert "written-past-retain.json.invalid." in tried("post-tool-use")["says"]


def test_a_file_of_another_bank_stays_where_it_is(home: Path) -> None:
    other = home / "other" / ".retain" / "decisions" / "broken.json"
    other.parent.mkdir(parents=True)
    other.write_text("{", encoding="utf-8")
    assert tried("post-tool-use", "--file", str(other))["stdout"] == ""
    assert other.exists()


def test_a_stop_is_blocked_and_leaves_nothing_behind(bank: Path, scratch: Path, home: Path) -> None:
    before, contexts = files(home), set(Path("/tmp").glob(".memory-triage-context-*"))
    answer = tried("stop")
    assert answer["exit_code"] == 2
    assert "- [DECISION] I compared both and chose Postgres" in answer["says"]
    assert answer["says"].startswith("The host keeps the agent at work")
    assert files(home) == before
    assert list(scratch.iterdir()) == []
    left = set(Path("/tmp").glob(".memory-triage-context-*-29748963.txt"))
    assert left <= contexts
    assert left == set()


def test_a_stop_proposes_where_the_person_wants_to_look_first(bank: Path) -> None:
    done("config", "set", "triage.capture", "inbox")
    answer = tried("stop")
    assert (answer["exit_code"], answer["stderr"]) == (0, "")
    assert {one["category"] for one in answer["proposals"]} == {"decision", "session_summary"}
    assert "It would wait in the inbox" in answer["says"]
    assert done("inbox", "--quiet") == ""


@pytest.mark.parametrize(
    "event, category",
    [
        ("pre-compact", "decision"),
        ("post-compact", "session_summary"),
        ("session-end", "session_summary"),
    ],
)
def test_what_would_be_forgotten_is_proposed(event: str, category: str, bank: Path) -> None:
    before = files(bank)
    answer = tried(event)
    assert (answer["exit_code"], answer["stdout"]) == (0, "")
    assert [one["category"] for one in answer["proposals"]] == [category]
    assert files(bank) == before


def test_a_store_of_claude_memory_is_tried_with_its_settings(home: Path) -> None:
    store = home / "project" / ".claude" / "memory"
    store.mkdir(parents=True)
    config = {"triage": {"enabled": False}}
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    os.chdir(home / "project")
    before = files(home)
    assert "triage.enabled" in tried("stop")["says"]
    assert "quarantined" in tried("post-tool-use")["says"]
    assert files(home) == before


def test_a_transcript_of_your_own_is_judged(tmp_path: Path, home: Path) -> None:
    said = "It failed with an error.\nThe root cause is a race; resolved with a lock.\n"
    message = {"role": "assistant", "content": [{"type": "text", "text": said * 3}]}
    path = home / "session.jsonl"
    path.write_text(json.dumps({"type": "assistant", "message": message}), encoding="utf-8")
    payload = home / "payload.json"
    payload.write_text('{"last_assistant_message": ""}', encoding="utf-8")
    answer = tried("stop", "--file", str(path), "--payload", str(payload))
    assert "[RUNBOOK]" in answer["says"]
    assert "[DECISION]" not in answer["says"]


def test_a_named_bank_is_the_one_that_is_asked(home: Path) -> None:
    (home / "elsewhere").mkdir()
    os.chdir(home / "elsewhere")
    words = ("user-prompt-submit", "--prompt", "harbour lantern oil")
    assert "There is no bank" in tried(*words)["says"]
    assert "lantern.md" in tried(*words, "--bank", str(home / "work" / ".retain"))["says"]


def test_the_answer_is_shown_for_a_person_to_read() -> None:
    lines = done("hook", "test", "stop").splitlines()
    assert lines[0] == "Event:    stop (Stop)"
    assert lines[1].startswith('Payload:  {"session_id": "retain-hook-test"')
    assert len(lines[1]) < 330
    assert lines[2] == "Exit:     2"
    assert lines[3].startswith("Took: ")


@pytest.mark.parametrize(
    "words, code, said",
    [
        (("stopp",), 2, "session-end"),
        (("stop", "--prompt", "x"), 2, "user-prompt-submit"),
        (("session-start", "--file", "x"), 2, "--file"),
        (("stop", "--file", "nowhere.jsonl"), 3, "--file takes the path"),
        (("stop", "--payload", "nowhere.json"), 3, "there is no file nowhere.json"),
        (("post-tool-use", "--file", "nowhere.md"), 3, "nowhere.md"),
        (("stop", "--payload", "list.json"), 2, "no JSON object"),
        (("stop", "--payload", "torn.json"), 2, "no JSON"),
    ],
)
def test_what_cannot_be_tried_is_refused(words: tuple[str, ...], code: int, said: str) -> None:
    Path("list.json").write_text("[]", encoding="utf-8")
    Path("torn.json").write_text("{", encoding="utf-8")
    ran = call("hook", "test", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_the_host_s_names_of_events_are_known_too(run: Run) -> None:
    assert tried("Stop")["event"] == "stop"
    prompt = json.dumps({"prompt": "the harbour lantern and its whale oil"})
    told = run("hook", "UserPromptSubmit", input=prompt)
    assert "lantern.md" in told.out
    assert told == run("hook", "user-prompt-submit", input=prompt)
    for words in (("no-such-event",), ("stop", "extra"), ("stop", "--json"), ("stop", "--", "-x")):
        assert run("hook", *words, input="{}") == (0, "", "")  # a host is told of no mistake


def test_a_mistyped_word_on_a_terminal_is_told_what_there_is() -> None:
    main, side = os.openpty()
    try:
        ran = subprocess.run(
            [*command(), "hook", "sats"],
            stdin=side,
            capture_output=True,
            check=False,
            encoding="utf-8",
            timeout=60,
        )
    finally:
        os.close(main)
        os.close(side)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "there is no hook 'sats'" in ran.stderr
    assert "There are: test, session-start" in ran.stderr


@pytest.mark.parametrize("name", ["select.py", "json.py", "retain/__init__.py"])
def test_no_module_of_a_project_runs_in_place_of_ours(name: str, home: Path) -> None:
    planted = Path(name)
    planted.parent.mkdir(exist_ok=True)
    planted.write_text("open('ran', 'w', encoding='utf-8').close()\n", encoding="utf-8")
    for event in ("pre-tool-use", "user-prompt-submit", "session-start"):
        tried(event)
    assert not Path("ran").exists()
