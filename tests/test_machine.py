"""The key of this machine: private, made once, and used only if nobody else can read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retain import machine
from tests import crash


def test_the_key_is_made_once_and_is_private(home: Path) -> None:
    assert machine.key() == b""
    made = machine.key(make=True)
    path = home / ".local" / "state" / "retain" / "seal.key"
    assert path.read_bytes() == made == machine.key() == machine.key(make=True)
    assert len(made) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["seal.key"]


def test_processes_that_make_it_at_once_have_the_same() -> None:
    outcomes = crash.together([lambda: machine.key(make=True)] * 6)
    assert {outcome.value for outcome in outcomes} == {machine.key()}
    assert machine.key()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_can_read_is_none(mode: int) -> None:
    machine.key(make=True)
    os.chmod(machine.key_path(), mode)
    assert machine.key() == machine.key(make=True) == b""


@pytest.mark.parametrize("kind", ["short", "long", "link", "pipe", "directory"])
def test_what_is_no_key_is_none(kind: str) -> None:
    machine.key(make=True)
    path = Path(machine.key_path())
    other = path.rename(path.with_suffix(".moved"))
    if kind == "link":
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "directory":
        path.mkdir(0o700)
    else:
        path.write_bytes(b"x" * (31 if kind == "short" else 33))
        path.chmod(0o600)
    assert machine.key() == machine.key(make=True) == b""


def test_a_state_directory_that_is_no_full_path_counts_as_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert machine.key_path() == str(home / ".local" / "state" / "retain" / "seal.key")


def test_without_a_place_for_it_there_is_no_key(home: Path) -> None:
    (home / ".local").write_text("a file", encoding="utf-8")
    assert machine.key(make=True) == b""


def test_a_digest_depends_on_the_key_and_on_where_parts_end() -> None:
    told = {
        machine.digest(b"", b"ab", b"c"),
        machine.digest(b"", b"a", b"bc"),
        machine.digest(b"k", b"ab", b"c"),
        machine.digest(b"k" * 32, b"ab", b"c"),
    }
    assert len(told) == 4
