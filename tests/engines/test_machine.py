"""The key of this machine: private, made once, and the same for every process."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from retain.index.engines import machine
from tests import crash


def test_the_key_is_made_once_and_is_private(home: Path) -> None:
    name = machine.digest(b"bank")
    path = home / ".local" / "state" / "retain" / "machine.key"
    assert machine.digest(b"bank") == name
    assert len(path.read_bytes()) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["machine.key"]


def test_processes_that_make_it_at_once_have_the_same() -> None:
    outcomes = crash.together([lambda: machine.digest(b"bank")] * 6)
    assert {outcome.value for outcome in outcomes} == {machine.digest(b"bank")}


def test_a_digest_depends_on_the_key_and_on_where_parts_end(home: Path) -> None:
    digests = {machine.digest(b"ab", b"c"), machine.digest(b"a", b"bc")}
    Path(machine.key_path()).unlink()
    digests |= {machine.digest(b"ab", b"c")}
    assert len(digests) == 3


def test_without_a_place_for_it_names_can_still_be_made(home: Path) -> None:
    (home / ".local").write_text("a file", encoding="utf-8")
    assert machine.digest(b"bank") == machine.digest(b"bank")
