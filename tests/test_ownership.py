"""Which files are a bank's: those are Retain's to write, except a few that are a person's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retain.ownership import bank_of


@pytest.mark.parametrize(
    "name",
    [
        ".retain/knowledge/a.md",
        ".retain/config.toml",
        ".retain/sessions.db",
        ".retain/.index/index.db",
        ".RETAIN/knowledge/a.md",
        ".memories/a.md",
        ".claude/memory/decisions/a.json",
        "deep/down/.retain/a.md",
    ],
)
def test_a_file_of_a_bank_is_not_a_persons_to_write(home: Path, name: str) -> None:
    path = str(home / "work" / name)
    root = bank_of(path, str(home / "work"), os.environ)
    assert root
    assert path.startswith(f"{root}/")


@pytest.mark.parametrize(
    "name",
    [
        "src/app.py",
        ".retain/USER.md",
        ".retain/MEMORY.md",
        ".retain/skills/deploy/SKILL.md",
        ".retainer/a.md",
        ".claude/settings.json",
    ],
)
def test_every_other_file_is(home: Path, name: str) -> None:
    assert bank_of(str(home / "work" / name), str(home / "work"), os.environ) == ""


def test_a_bank_that_a_variable_names_is_one(home: Path) -> None:
    notes = home / "notes"
    env = {"RETAIN_BANK": "../notes"}
    assert bank_of(str(notes / "a.md"), str(home / "work"), env) == str(notes)
    assert bank_of(str(home / "notes2" / "a.md"), str(home / "work"), env) == ""


def test_a_bank_that_another_tools_config_names_is_one(home: Path) -> None:
    work = home / "work"
    (work / ".arcaneum").write_text("retain:\n  enabled: true\n  path: notes\n", encoding="utf-8")
    assert bank_of(str(work / "notes" / "a.md"), str(work), os.environ) == str(work / "notes")
    assert bank_of(str(work / "src" / "a.md"), str(work), os.environ) == ""
