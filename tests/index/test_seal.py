"""By what an index is known to be ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retain.index.schema import LATEST
from retain.index.seal import Seal
from retain.index.store import Store
from tests import indexes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    indexes.write(root, "notes/honest", "an honest zebra")
    indexes.build(root)
    return root


def test_an_index_as_we_left_it_is_ours(root: Path) -> None:
    seal = Seal(str(root))
    assert (seal.version(), seal.holds()) == (LATEST, True)


def test_without_an_index_there_is_nothing_to_hold(tmp_path: Path) -> None:
    seal = Seal(str(tmp_path))
    assert (seal.version(), seal.holds()) == (None, False)
    seal.write()
    assert not (tmp_path / ".index").exists()


def test_a_file_that_is_no_index_has_no_version(root: Path) -> None:
    file = root / ".index" / "index.db"
    file.write_bytes(b"SQLite format 3\0" + bytes(200))
    assert Seal(str(root)).version() is None


def test_a_file_that_somebody_wrote_to_is_no_longer_as_we_left_it(root: Path) -> None:
    file = root / ".index" / "index.db"
    file.write_bytes(file.read_bytes())
    assert not Seal(str(root)).holds()
    Seal(str(root)).write()
    assert Seal(str(root)).holds()


def test_a_copy_of_a_bank_is_not_the_bank(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")
    assert not Seal(str(tmp_path / "copy")).holds()


@pytest.mark.parametrize("kind", ["missing", "link", "pipe", "bytes"])
def test_a_seal_that_is_none_holds_nothing(kind: str, root: Path, tmp_path: Path) -> None:
    seal = root / ".index" / Seal.NAME
    moved = seal.rename(tmp_path / "moved")
    if kind == "link":
        seal.symlink_to(moved)
    elif kind == "pipe":
        os.mkfifo(seal)
    elif kind == "bytes":
        seal.write_bytes(b"\xff")
    assert not Seal(str(root)).holds()


def test_a_second_opening_in_one_process_takes_no_lock_of_the_first(root: Path) -> None:
    """Without its locks the first would lose its log to the next process that closes the file."""
    first, second = Store(str(root)), Store(str(root))
    elsewhere = "import sys; from retain.index.store import Store\n"
    elsewhere += "one = Store(sys.argv[1])\nwith one.reading(): pass\none.close()\n"
    with first.reading():
        pass
    with second.reading():  # which looks at the file before it opens it
        pass
    assert Seal(str(root)).holds()
    log = root / ".index" / "index.db-wal"
    before = log.stat().st_ino
    second.close()
    subprocess.run([sys.executable, "-c", elsewhere, str(root)], check=True)
    assert log.stat().st_ino == before
    first.close()
    assert not log.exists()
    assert Seal(str(root)).holds()
