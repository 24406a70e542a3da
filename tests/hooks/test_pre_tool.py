"""What an agent may write with its own tools, and what is Retain's alone to write."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.door import done
from tests.hooks.door import ask, nothing

DENIED = """\
.claude/memory/decisions/use-jwt.json .claude/memory .claude/memory/ .claude/memory/USER.md
.claude/memory/skills/x.json .memories/USER.md .memories/skills/y.md .retain/memory-config.json
.claude/memory/index.md .claude/memory/decisions/memory-config.json .claude/memory/sub/skills/x.md
.Claude/Memory/x.json .claude//memory/./x.json src/../.claude/memory/x.json
deep/er/.claude/memory/x.json .retain/memories/note.md .retain/config.toml .RETAIN/memories/note.md
.memories/2026/note.md ~/.retain/memories/note.md .claude/memory/half-\ud800.json
.retain/memories/half-\udcff.md"""
ALLOWED = """\
src/main.py .claude/settings.json .claude/memory.md .claude/memories/x.json
.claude/agents/memory/x.md claude/memory/x.json .claude/x/memory/y.json .retain.md my.retain/x.md
.claude/memory/memory-config.json .retain/USER.md .retain/PREFERENCES.md
.retain/skills/build/SKILL.md .claude/memory/x\0.json half-\ud800.txt"""


def write(path: object, key: str = "file_path", **more: object) -> str:
    """Why a write is refused; empty if it is not."""
    answer = ask("pre-tool-use", {"tool_name": "Write", "tool_input": {key: path}}, **more)
    assert (answer.err, answer.code) == ("", 0)
    if not answer.out:
        return ""
    said = json.loads(answer.out)["hookSpecificOutput"]
    assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "deny")
    return str(said["permissionDecisionReason"])


@pytest.mark.parametrize("path", DENIED.split(), ids=ascii)
def test_a_write_into_a_bank_is_refused_with_the_right_way(path: str) -> None:
    for spelled in (path, path if path.startswith("~") else os.path.join(os.getcwd(), path)):
        reason = write(spelled)
        assert reason.startswith("Direct writes to the memory directory are blocked")
        assert "retain record write" in reason


@pytest.mark.parametrize("path", ["", *ALLOWED.split()], ids=ascii)
def test_everything_else_is_nobody_s_business(path: str) -> None:
    assert write(path) == ""


def test_a_link_leads_where_it_leads(work: Path, tmp_path: Path) -> None:
    (work / ".claude" / "memory").mkdir(parents=True)
    (work / "notes").symlink_to(work / ".claude" / "memory")
    assert write("notes/x.json")
    (tmp_path / "draft.json").symlink_to(work / ".claude" / "memory" / "x.json")
    assert write(str(tmp_path / "draft.json"))
    (work / "loop").symlink_to("loop")
    assert not write("loop/x.json")


def test_the_person_s_own_bank_may_be_a_link(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETAIN_HOME")
    (home / "dotfiles").mkdir()
    (home / ".retain").symlink_to(home / "dotfiles")
    assert write("~/.retain/memories/x.md")
    assert write("~/dotfiles/memories/x.md")
    assert not write("~/dotfiles/USER.md")


@pytest.mark.parametrize("trick", ["off", "broken", "link", "arcaneum", "own"])
def test_no_project_opens_the_person_s_own_bank(trick: str, home: Path, work: Path) -> None:
    done("init", "--global")
    if trick == "link":
        (work / ".retain").symlink_to(home)
    else:
        (work / ".retain").mkdir()
        file, text = {
            "off": (work / ".retain/config.toml", "format = 1\n[memory]\nenabled = false\n"),
            "broken": (work / ".retain/config.toml", "= ["),
            "arcaneum": (work / ".arcaneum", "version: ["),
            "own": (home / ".retain/config.toml", "= ["),  # the person's own cannot be read
        }[trick]
        file.write_text(text, encoding="utf-8")
    assert write("~/.retain/memories/x.md")


def test_a_bank_that_is_switched_off_is_not_guarded(bank: Path, work: Path) -> None:
    done("config", "set", "memory.enabled", "false")
    assert not write(".retain/memories/x.md")
    assert not write(str(bank / "x.md"), cwd=str(work.parent))


def test_every_spelling_and_every_field_of_a_path_is_judged(work: Path, bank: Path) -> None:
    (bank / "decisions").mkdir()
    (work / "docs").symlink_to(bank / "decisions")
    (bank / "skills").mkdir()
    (bank / "skills" / "out").symlink_to("../..")
    assert write("docs/a\ud800.md")
    assert write(".retain/skills/out/../../decisions/a.md")
    assert write(".retain/memories/x.ipynb", "notebook_path")
    assert write("x.md", cwd=str(bank))
    assert not write(str(bank / "memories" / "x.md"), tool_name="Read")
    both = {"file_path": "src/main.py", "notebook_path": ".retain/memories/x.md"}
    assert not nothing(ask("pre-tool-use", tool_name="NotebookEdit", tool_input=both))
