"""What Claude Code really sends, through every hook: none is disturbed, the right one acts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from retain.hooks import EVENTS
from tests.capture.proposals import inbox
from tests.cli.door import done
from tests.hooks.door import ask, context, nothing

FOLDER = Path(__file__).parent / "payloads"
NAMES = sorted(path.stem for path in FOLDER.glob("[A-Z]*.jsonl"))


@pytest.fixture
def session(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A transcript of the host's where its payloads say it is, and a bank with a memory."""
    folder = home / ".claude" / "projects" / "-home-user-proj"
    folder.mkdir(parents=True)
    for name in NAMES:
        for payload in sent(name, home):
            shutil.copy(FOLDER / "transcript-bash-tool.jsonl", payload["transcript_path"])
    (home / "proj").mkdir()
    monkeypatch.chdir(home / "proj")
    done("init")
    done("put", "-", "--id", "usetool", input="USETOOL is the word for the bash tool.")
    return home / "proj"


def sent(name: str, home: Path) -> list[dict[str, Any]]:
    """The payloads of an event, as if the person's home were the test's."""
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    lines = text.replace("/home/user/", f"{home}/").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("event", EVENTS)
def test_no_payload_disturbs_a_hook(event: str, name: str, session: Path, home: Path) -> None:
    for payload in sent(name, home):
        answer = ask(event, payload)
        assert answer.code == 0
        if answer.out:
            json.loads(answer.out)
        assert "Traceback" not in answer.err


def test_a_real_prompt_brings_its_memory(session: Path, home: Path) -> None:
    texts = [context(ask("user-prompt-submit", one)) for one in sent("UserPromptSubmit", home)]
    shown = [".retain/memories/usetool.md" in text for text in texts]
    assert shown == [False, True, False, False, False]


def test_a_real_compaction_leaves_its_summary(session: Path, home: Path) -> None:
    for payload in sent("PostCompact", home):
        assert nothing(ask("post-compact", payload))
    (one,) = inbox(session / ".retain").proposals()
    assert (one.title, one.text) == ("please USETOOL now", "Hello from the fake model.")
