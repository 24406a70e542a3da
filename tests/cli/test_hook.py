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


def tried(*words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(done("hook", "test", *words, "--json"))
    return answer


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def transcript(path: Path, text: str) -> str:
    """A session in which an agent says something, and no last message beside it."""
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    path.write_text(json.dumps({"type": "assistant", "message": message}), encoding="utf-8")
    Path("payload.json").write_text('{"last_assistant_message": ""}', encoding="utf-8")
    return str(path)


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
    ran = call("hook")
    assert ran.out.count(f"off: {key}") == len(events)
    assert f"{key} is off: {bank / 'config.toml'}\n" in ran.err
    assert set(done("hook", "--quiet").split()) == set(EVENTS) - events


def test_the_state_says_whether_there_is_a_bank_and_who_calls(bank: Path, home: Path) -> None:
    said = call("hook").err
    assert f"Bank: {bank} (project)" in said
    assert "no plugin" in said
    plugins = home / ".claude" / "plugins"
    plugins.mkdir(parents=True)
    known = {"version": 2, "plugins": {"retain@retain": [{"scope": "user"}]}}
    (plugins / "installed_plugins.json").write_text(json.dumps(known), encoding="utf-8")
    os.chdir(home)
    said = call("hook").err
    assert "There is no bank here: `retain init` makes one" in said
    assert "Claude Code has the plugin retain@retain." in said
    for event in ("user-prompt-submit", "session-start", "stop"):
        assert "There is no bank here: `retain init`" in tried(event)["says"]
    words = ("user-prompt-submit", "--prompt", "harbour lantern oil", "--bank", str(bank))
    assert "lantern.md" in tried(*words)["says"]


def test_a_prompt_brings_the_memory_it_is_about(home: Path) -> None:
    before = files(home)
    answer = tried("user-prompt-submit")
    assert answer["payload"]["prompt"].endswith("The harbour lantern?")
    assert "- [JOURNAL] The harbour lantern -> .retain/memories/lantern.md" in answer["says"]
    assert answer["reason"].startswith("The confidence is ")
    # Nothing is kept, so a second look sees the same.
    assert tried("user-prompt-submit", "--prompt", "harbour lantern oil")["says"] == answer["says"]
    assert files(home) == before


@pytest.mark.parametrize(
    "event, words, payload, why",
    [
        ("user-prompt-submit", ("--prompt", "go on"), {}, "fewer than 10 characters"),
        ("user-prompt-submit", ("--prompt", "audit of zeppelins"), {}, "The confidence is 0.00"),
        ("user-prompt-submit", ("--prompt", "audit of zeppelins"), {}, "None has any of its words"),
        (
            "user-prompt-submit",
            ("--prompt", "which accountant audits the quarterly oil of zeppelins and balloons"),
            {},
            "The nearest: The harbour lantern (",
        ),
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
    if event == "stop":
        payload = {"last_assistant_message": "", **payload}
    Path("payload.json").write_text(json.dumps(payload), encoding="utf-8")
    done("config", "set", "hooks.session_end", "false")
    answer = tried(event, *words, "--payload", "payload.json")
    assert answer["payload"]["session_id"] == "retain-hook-test"
    assert (answer["exit_code"], answer["stdout"]) == (0, "")
    assert answer["says"].startswith("Nothing: the host goes on.")
    assert why in answer["says"]


@pytest.mark.parametrize("event", ["stop", "session-end"])
def test_a_session_below_the_thresholds_shows_its_scores(event: str, home: Path) -> None:
    path = transcript(home / "session.jsonl", "Good morning to you.")
    said = tried(event, "--file", path, "--payload", "payload.json")["says"]
    assert "Too little was found (score and threshold, triage.thresholds): " in said
    assert "session_summary 0.02 of 0.6" in said
    assert "decision 0.00 of 0.4" in said


def test_a_write_into_the_bank_is_refused_and_what_was_written_is_judged(bank: Path) -> None:
    assert "refuses the tool's call" in tried("pre-tool-use")["says"]
    broken = bank / "decisions" / "broken.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    assert "broken.json.invalid." in tried("post-tool-use", "--file", str(broken))["says"]
    assert broken.exists()
    valid = tried("post-tool-use", "--file", str(bank / "memories/lantern.md"))
    assert (valid["stdout"], "File is valid" in valid["says"]) == ("", True)


def test_a_stop_is_blocked_and_leaves_nothing_behind(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = files(home)
    answer = tried("stop")
    assert answer["exit_code"] == 2
    assert answer["says"].startswith("The host keeps the agent at work")
    assert "- [DECISION] I compared both and chose Postgres" in answer["says"]
    assert files(home) == before
    assert list(scratch.iterdir()) == []
    assert not list(Path("/tmp").glob(".memory-triage-context-*-29748963.txt"))
    lines = done("hook", "test", "stop").splitlines()
    assert lines[0] == "Event:    stop (Stop)"
    assert lines[1].startswith('Payload:  {"session_id": "retain-hook-test"')
    assert len(lines[1]) < 330
    assert lines[2] == "Exit:     2"
    assert lines[3].startswith("Took: ")


@pytest.mark.parametrize(
    "event, categories",
    [
        ("stop", ["decision", "session_summary"]),
        ("pre-compact", ["decision"]),
        ("post-compact", ["session_summary"]),
        ("session-end", ["session_summary"]),
    ],
)
def test_what_would_be_proposed_is_shown(event: str, categories: list[str], home: Path) -> None:
    done("config", "set", "triage.capture", "inbox")
    before = files(home)
    answer = tried(event)
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (0, "", "")
    assert sorted(one["category"] for one in answer["proposals"]) == categories
    assert "It would wait in the inbox" in answer["says"]
    assert answer["reason"] is None
    assert files(home) == before


def test_a_store_of_claude_memory_is_tried_with_its_settings(home: Path) -> None:
    store = home / "project" / ".claude" / "memory"
    store.mkdir(parents=True)
    config = {"triage": {"enabled": False}}
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    os.chdir(home / "project")
    assert "triage.enabled" in tried("stop")["says"]


def test_a_transcript_of_your_own_is_judged(home: Path) -> None:
    said = "It failed with an error.\nThe root cause is a race; resolved with a lock.\n"
    path = transcript(home / "session.jsonl", said * 3)
    answer = tried("stop", "--file", path, "--payload", "payload.json")
    assert "[RUNBOOK]" in answer["says"]
    assert "[DECISION]" not in answer["says"]


@pytest.mark.parametrize(
    "words, code, said",
    [
        ((), 2, "EVENT"),
        (("stopp",), 2, "session-end"),
        (("stop", "--prompt", "x"), 2, "user-prompt-submit"),
        (("session-start", "--file", "x"), 2, "--file"),
        (("stop", "--file", "nowhere.jsonl"), 3, "--file takes the path"),
        (("stop", "--payload", "nowhere.json"), 3, "nowhere.json"),
        (("stop", "--payload", "list.json"), 2, "no JSON object"),
        (("stop", "--payload", "torn.json"), 2, "no JSON object"),
    ],
)
def test_what_cannot_be_tried_is_refused(words: tuple[str, ...], code: int, said: str) -> None:
    Path("list.json").write_text("[1]", encoding="utf-8")
    Path("torn.json").write_text("{", encoding="utf-8")
    ran = call("hook", "test", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_host_is_told_of_no_mistake_and_a_person_is(run: Run) -> None:
    for words in (("no-such-event",), ("stop", "extra"), ("stop", "--json"), ("stop", "--", "-x")):
        assert run("hook", *words, input="{}") == (0, "", "")
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
    assert "Try one: retain hook test session-start|" in ran.stderr
