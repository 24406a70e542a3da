"""Chats that are part of a repository are seen, in whichever file they came."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from retain.app import App
from retain.sessions.published import warning
from retain.sessions.store import Sessions


def git(where: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=where, capture_output=True, check=True)


@pytest.fixture
def bank(home: Path) -> Path:
    """The bank of a repository, with a chat in it that git ignores."""
    work = home / "work"
    git(work, "init", "-q")
    App(cwd=str(work)).init()
    sessions = Sessions(str(work / ".retain"))
    sessions.create()
    sessions.close()
    return work / ".retain"


def test_chats_that_git_ignores_are_the_persons(bank: Path) -> None:
    git(bank.parent, "add", ".")
    assert warning(str(bank)) == ""
    assert App(cwd=str(bank.parent)).status().problems == ()


@pytest.mark.parametrize("name", ["sessions.db", "sessions.db-wal", "sessions.db-journal"])
def test_chats_that_git_tracks_are_named_with_the_way_out(bank: Path, name: str) -> None:
    (bank / name).touch()
    git(bank.parent, "add", "-f", f".retain/{name}")
    said = warning(str(bank))
    assert said.startswith("sessions.db is part of the repository")
    (problem,) = App(cwd=str(bank.parent)).status().problems
    assert (problem.path, problem.reason) == (str(bank / "sessions.db"), said)
    command = said.split("`")[1]
    assert command == f"git rm --cached {bank / name}"
    git(bank.parent, *shlex.split(command)[1:])
    assert warning(str(bank)) == ""


def test_git_is_asked_once_for_all_chats(bank: Path) -> None:
    git(bank.parent, "add", "-f", ".retain/sessions.db")
    sessions = Sessions(str(bank))
    assert sessions.published
    git(bank.parent, "rm", "-q", "--cached", ".retain/sessions.db")
    assert sessions.published
    assert not Sessions(str(bank)).published


def test_without_a_repository_or_with_a_broken_one_nobody_is_stopped(bank: Path) -> None:
    git(bank.parent, "add", "-f", ".retain/sessions.db")
    (bank.parent / ".git/index").write_bytes(b"none")
    assert warning(str(bank)) == ""
    (bank.parent / ".git").rename(bank.parent / "gone")
    assert warning(str(bank)) == ""
    assert warning(str(bank / "nowhere")) == ""


def test_a_persons_own_bank_may_be_in_a_repository_of_theirs(home: Path) -> None:
    app = App(everywhere=True)
    app.sessions.create()
    git(home, "init", "-q")
    git(home, "add", "-f", str(app.sessions.path))
    assert app.status().problems == ()
    app.close()
