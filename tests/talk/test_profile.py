"""USER.md and PREFERENCES.md are read as they are, and only added to when asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from retain.app import App
from retain.errors import UsageError
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


@pytest.mark.parametrize(
    "before, after",
    [
        (None, "# About me\n\n- Lives in Rome\n"),
        ("", "# About me\n\n- Lives in Rome\n"),
        ("# Me", "# Me\n\n- Lives in Rome\n"),
        ("# Me\r\n- a\r\n", "# Me\r\n- a\r\n- Lives in Rome\r\n"),
        ("- a\n\nend\n", "- a\n\nend\n\n- Lives in Rome\n"),
        ("- lives in rome.\n", "- lives in rome.\n"),
        ("```\nnot closed\n", "```\nnot closed\n\n- Lives in Rome\n"),
        ("\udcff\n", "\udcff\n\n- Lives in Rome\n"),
    ],
)
def test_line_about_the_person_is_added_at_the_end(
    root: Path, before: str | None, after: str
) -> None:
    path = root / "USER.md"
    if before is not None:
        path.write_bytes(before.encode("utf-8", "surrogateescape"))
    assert of(root).remember_about_user("Lives \n in Rome") == "Lives in Rome"
    assert path.read_bytes() == after.encode("utf-8", "surrogateescape")


def test_secrets_about_the_person_are_redacted(root: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 23 + "AA"
    assert secret not in of(root).remember_about_user(f"My key is {secret}")
    assert secret not in (root / "USER.md").read_text(encoding="utf-8")


def test_nothing_is_not_remembered(root: Path) -> None:
    with pytest.raises(UsageError):
        of(root).remember_about_user(" ... ")
    assert not (root / "USER.md").exists()


def test_lines_of_many_processes_are_all_added(root: Path) -> None:
    works = [lambda n=n: of(root).remember_about_user(f"line {n}") for n in range(8)]
    assert [one.message for one in crash.together(works)] == [""] * 8
    text = (root / "USER.md").read_text(encoding="utf-8")
    assert sorted(text.splitlines()[2:]) == [f"- line {n}" for n in range(8)]
