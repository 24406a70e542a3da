"""USER.md and PREFERENCES.md are read as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from retain.app import App
from retain.talk.profile import Profile, Text
from tests import crash


@pytest.fixture
def root(tmp_path: Path) -> Path:
    crash.new_bank(tmp_path / "bank")
    return tmp_path / "bank"


def of(root: Path, **env: str) -> Profile:
    known = {"USER": "t", "HOME": str(root.parent), "RETAIN_RECALL_EMBEDDER": "none"}
    return Profile(App(bank=str(root), cwd=str(root), env=known | env))


def test_files_are_read_as_they_are(root: Path) -> None:
    assert of(root).texts() == []
    (root / "USER.md").write_bytes(b"\xef\xbb\xbf# JR\r\n\r\n- bullets stay\r\n\xff")
    (root / "PREFERENCES.md").write_text(" \n", encoding="utf-8")
    (root / "MEMORY.md").write_text("- Uses Bun\n", encoding="utf-8")
    of(root).sync()
    assert of(root).texts() == [
        Text("USER.md", "bank", "# JR\r\n\r\n- bullets stay\r\n\ufffd"),
        Text("MEMORY.md", "bank", "- Uses Bun\n"),
    ]
    assert (root / "USER.md").read_bytes().endswith(b"\xff")


def test_link_and_large_file_are_not_read_and_it_is_said(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (root / "USER.md").symlink_to(tmp_path / "secret")
    (root / "PREFERENCES.md").write_bytes(b"x" * 3_000_000)
    link, large = of(root).texts()
    assert (link.text, large.text) == ("", "")
    assert "does not follow it" in link.note
    assert "larger than" in large.note


def test_project_and_person_both_have_a_profile(tmp_path: Path) -> None:
    env = {"USER": "t", "HOME": str(tmp_path), "RETAIN_HOME": str(tmp_path / "own")}
    project = tmp_path / "project"
    project.mkdir()
    App(cwd=str(project), env=env).init()
    App(cwd=str(project), env=env, everywhere=True).init()
    (project / ".retain/USER.md").write_text("here\n", encoding="utf-8")
    (tmp_path / "own/USER.md").write_text("everywhere\n", encoding="utf-8")
    texts = Profile(App(cwd=str(project), env=env)).texts()
    assert [(it.scope, it.text) for it in texts] == [
        ("project", "here\n"),
        ("global", "everywhere\n"),
    ]
