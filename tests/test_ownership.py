"""Banks that a variable or a config names; tests/hooks/test_pre_tool.py has the rest."""

from __future__ import annotations

import os
from pathlib import Path

from retain.ownership import bank_of


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
