"""Each hook can be switched off on its own, and all of them at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retain.hooks import EVENTS
from tests.capture.proposals import inbox
from tests.cli.door import done
from tests.hooks.door import DECIDED, ask, busy, kept, nothing, said

OWN = ("pre-tool-use", "post-tool-use")  # a project may not take these from a person
PROMPT = "which oil does the lantern burn"


@pytest.fixture
def full(bank: Path) -> Path:
    """A bank in which every hook has something to do."""
    done("put", "-", "--id", "lantern", input="The lantern burns whale oil.")
    kept(bank, "constraint")
    (bank / "constraints" / "bad.json").write_text("{", encoding="utf-8")
    return bank


def acts(event: str, bank: Path) -> bool:
    """Whether a hook does something, when there is something to do."""
    work = bank.parent
    payload = {
        "source": "startup",
        "prompt": PROMPT,
        "tool_input": {"file_path": str(bank / "constraints" / "bad.json")},
        "compact_summary": "They mended the lantern.",
        "transcript_path": said(work / "said.jsonl", DECIDED),
    }
    if event == "session-end":
        payload["transcript_path"] = busy(work / "busy.jsonl")
    before = inbox(bank).count()
    answer = ask(event, payload)
    return not nothing(answer) or inbox(bank).count() > before


ON = dict.fromkeys(EVENTS, True)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(
    "whose, key, is_on",
    [
        ("person", "", ON),
        ("person", "hooks.{}", {}),
        ("person", "memory.enabled", {}),
        ("project", "memory.enabled", {}),
        ("project", "hooks.{}", dict.fromkeys(OWN, True)),
        ("person", "retrieval.enabled", {**ON, "user-prompt-submit": False}),
        ("person", "triage.enabled", dict.fromkeys(("session-start", "user-prompt-submit", *OWN))),
    ],
)
def test_what_is_switched_off_does_nothing_and_nothing_else_is(
    event: str, whose: str, key: str, is_on: dict[str, bool], full: Path, home: Path
) -> None:
    section, _, name = key.format(event.replace("-", "_")).partition(".")
    root = home / ".retain" if whose == "person" else full
    root.mkdir(exist_ok=True)
    setting = f"[{section}]\n{name} = false\n" if key else ""
    (root / "config.toml").write_text(f"format = 1\n{setting}", encoding="utf-8")
    wanted = is_on.get(event, False) is not False
    assert acts(event, full) == wanted
    assert wanted or (full / "constraints" / "bad.json").exists()


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
    for root, value in ((bank, "true"), (home / ".retain", "false")):
        text = f"format = 1\n[memory]\nenabled = {value}\n"
        (root / "config.toml").write_text(text, encoding="utf-8")
    out = ask("user-prompt-submit", prompt=PROMPT).out
    assert ("ours.md" in out, "mine.md" in out) == (True, False)
