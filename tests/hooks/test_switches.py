"""Each hook can be switched off on its own, and all of them at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retain.capture import inbox
from retain.hooks import EVENTS
from retain.hooks.call import Answer
from tests.cli.door import done
from tests.hooks.door import DECIDED, ask, busy, kept, nothing, said

OWN = ("pre-tool-use", "post-tool-use")  # a project may not take these from a person


@pytest.fixture
def full(bank: Path) -> Path:
    """A bank in which every hook has something to do."""
    done("put", "-", "--id", "lantern", input="The lantern burns whale oil.")
    kept(bank, "constraint")
    (bank / "constraints" / "bad.json").write_text("{", encoding="utf-8")
    return bank


def act(event: str, bank: Path) -> bool:
    """Whether a hook does something, when there is something to do."""
    work = bank.parent
    bad = bank / "constraints" / "bad.json"
    payloads: dict[str, dict[str, object]] = {
        "session-start": {"source": "startup"},
        "user-prompt-submit": {"prompt": "which oil does the lantern burn"},
        "pre-tool-use": {"tool_input": {"file_path": str(bad)}},
        "post-tool-use": {"tool_input": {"file_path": str(bad)}},
        "stop": {"transcript_path": said(work / "said.jsonl", DECIDED)},
        "pre-compact": {"transcript_path": said(work / "said.jsonl", DECIDED)},
        "post-compact": {"compact_summary": "They mended the lantern."},
        "session-end": {"transcript_path": busy(work / "busy.jsonl")},
    }
    before = len(inbox.proposals(str(bank)))
    answer: Answer = ask(event, payloads[event])
    return not nothing(answer) or len(inbox.proposals(str(bank))) > before


@pytest.mark.parametrize("event", EVENTS)
def test_every_hook_is_on_by_itself(event: str, full: Path) -> None:
    assert act(event, full)


@pytest.mark.parametrize("event", EVENTS)
def test_each_hook_has_a_switch_that_leaves_the_others_on(
    event: str, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = event.replace("-", "_")
    monkeypatch.setenv(f"RETAIN_HOOKS_{name.upper()}", "false")
    assert not act(event, full)
    assert act("stop" if event != "stop" else "user-prompt-submit", full)


@pytest.mark.parametrize("event", EVENTS)
def test_memory_that_is_off_is_off_for_every_hook(event: str, full: Path) -> None:
    done("config", "set", "memory.enabled", "false")
    assert not act(event, full)
    assert (full / "constraints" / "bad.json").exists()


@pytest.mark.parametrize("event", EVENTS)
def test_a_project_may_switch_off_only_what_guards_nobody(event: str, full: Path) -> None:
    name = event.replace("-", "_")
    text = f"format = 1\n[hooks]\n{name} = false\n"
    (full / "config.toml").write_text(text, encoding="utf-8")
    assert act(event, full) == (event in OWN)


@pytest.mark.parametrize("event", EVENTS)
def test_a_person_s_config_switches_a_hook_off_everywhere(
    event: str, home: Path, full: Path
) -> None:
    (home / ".retain").mkdir()
    text = f"format = 1\n[hooks]\n{event.replace('-', '_')} = false\n"
    (home / ".retain" / "config.toml").write_text(text, encoding="utf-8")
    assert not act(event, full)


@pytest.mark.parametrize("event", EVENTS)
def test_what_retrieval_and_triage_switch_off(
    event: str, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RETRIEVAL_ENABLED", "false")
    monkeypatch.setenv("RETAIN_TRIAGE_ENABLED", "false")
    assert act(event, full) == (event in (*OWN, "session-start"))


def test_a_memory_config_has_the_same_switches(store: Path) -> None:
    config = {"hooks": {"stop": False, "pre_tool_use": False}}
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    path = said(store.parent.parent / "t.jsonl", DECIDED)
    assert nothing(ask("stop", transcript_path=path))
    assert ask("pre-tool-use", tool_input={"file_path": str(store / "x.json")}).out


def test_a_switched_off_global_bank_is_not_recalled_from(home: Path, bank: Path) -> None:
    done("init", "--global")
    done("put", "-", "--id", "mine", "--global", input="Ada's lantern burns whale oil.")
    done("put", "-", "--id", "ours", input="The lantern burns whale oil.")
    (bank / "config.toml").write_text("format = 1\n[memory]\nenabled = true\n", encoding="utf-8")
    text = "format = 1\n[memory]\nenabled = false\n"
    (home / ".retain" / "config.toml").write_text(text, encoding="utf-8")
    out = ask("user-prompt-submit", prompt="which oil does the lantern burn").out
    assert "ours.md" in out
    assert "mine.md" not in out
