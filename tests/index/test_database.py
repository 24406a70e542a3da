"""The index's file: private, with every setting in force, and never anybody else's."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from retain import locate
from retain.app import App
from retain.errors import Busy, NewerFormat, RetainError
from retain.index import database
from retain.index.database import PRAGMAS, Database
from tests import crash, indexes
from tests.e2e.test_disk import _tmpfs
from tests.test_disk import mount_table

LANTERN = "harbour lantern"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, 8)
    return root


def _settings(connection: sqlite3.Connection) -> dict[str, object]:
    names = [name for name, _ in PRAGMAS] + ["journal_mode", "application_id", "user_version"]
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}


# Settings


def _opened(root: Path) -> Database:
    return Database(str(indexes.state(root)))


def _built_anew(root: Path) -> Database:
    indexes.build(root)
    indexes.database(root).write_bytes(b"not a database at all")
    return _opened(root)


def _replaced(root: Path) -> Database:
    held = _opened(root)
    with held.reading():
        pass
    held.replace("for the test")
    return held


def _deleted_meanwhile(root: Path) -> Database:
    held = _opened(root)
    with held.reading():
        pass
    shutil.rmtree(indexes.state(root))
    return held


@pytest.mark.parametrize("make", [_opened, _built_anew, _replaced, _deleted_meanwhile])
def test_every_connection_has_every_setting(root: Path, make: Callable[[Path], Database]) -> None:
    held = make(root)
    for transaction in (held.reading, held.writing):
        with transaction() as connection:
            found = _settings(connection)
        assert found == {
            **dict(PRAGMAS),
            "journal_mode": "wal",
            "application_id": database.APPLICATION_ID,
            "user_version": database.VERSION,
        }
    held.close()
    assert crash.leftovers(root) == []


def test_a_setting_that_does_not_take_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PRAGMAS", (*PRAGMAS, ("max_page_count", 0)))
    held = _opened(root)
    with pytest.raises(RetainError, match=r"max_page_count is \d+, not 0"), held.reading():
        pass


# Network file systems


def test_on_a_network_the_journal_is_safe_and_the_answer_says_so(
    home: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = indexes.Letters()
    indexes.build(root, letters)  # with a log, which is given up
    made = len(letters.texts)
    monkeypatch.setattr(locate, "_MOUNTS", mount_table(home, root, "nfs4"))
    for _ in range(2):
        with indexes.opened(root, letters) as bank:
            answer = indexes.ask(bank, LANTERN)
            assert len(answer.hits) == 8
            assert answer.degraded.reasons == (
                "the index is on a network file system: it uses a safe journal",
            )
            with bank.database.writing() as connection:
                assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
                assert _settings(connection).items() >= dict(PRAGMAS).items()
            assert not indexes.database(root).with_name("index.db-wal").exists()
    assert len(letters.texts) == made


# With the person


def test_files_are_private_whatever_the_umask(root: Path) -> None:
    def work() -> object:
        os.umask(0)
        with indexes.opened(root, indexes.Letters()) as bank:
            indexes.ask(bank, LANTERN)
            return _modes(root)

    during = crash.in_child(work).value
    assert {"banks", "vectors.db"} <= set(during)
    assert set(during.values()) == {0o600, 0o700}
    assert set(_modes(root).values()) == {0o600, 0o700}


def _modes(root: Path) -> dict[str, int]:
    home = indexes.state(root).parent.parent
    return {
        str(path.relative_to(home)): stat.S_IMODE(path.lstat().st_mode)
        for path in (home, *home.rglob("*"))
    }


def test_nothing_of_the_index_is_in_the_bank_and_nothing_in_the_bank_is_taken_for_it(
    root: Path, tmp_path: Path
) -> None:
    """S24: a repository cannot bring an index along."""
    other = indexes.new(tmp_path / "other")
    indexes.write(other, "notes/planted", "a planted harbour lantern")
    indexes.build(other)
    planted = root / ".index"
    shutil.copytree(indexes.state(other), planted)
    before = crash.files(root)
    with indexes.opened(root, indexes.Letters()) as bank:
        assert sorted(indexes.ids(bank, LANTERN)) == [f"m{number:03}" for number in range(8)]
        indexes.fill(bank)
    assert crash.files(root) == before


def test_a_bank_that_is_copied_moved_or_on_another_branch_embeds_nothing_again(
    root: Path, tmp_path: Path
) -> None:
    indexes.build(root, indexes.Letters())
    shutil.copytree(root, tmp_path / "copy")
    indexes.write(tmp_path / "copy", "notes/m000", "quite another text")
    letters = indexes.Letters()
    with indexes.opened(tmp_path / "copy", letters) as bank:
        assert indexes.ids(bank, "quite another text", "hybrid")[0] == "m000"
        indexes.agrees(bank)
    assert letters.texts == ["quite another text"]
    root.rename(tmp_path / "moved")
    away = (tmp_path / "moved" / "notes").rename(tmp_path / "away")
    indexes.build(tmp_path / "moved", letters)  # a branch that has none of it
    away.rename(tmp_path / "moved" / "notes")
    indexes.build(tmp_path / "moved", letters)
    assert letters.texts == ["quite another text"]


# Schemas


def test_a_newer_schema_is_refused_in_one_line_and_left_untouched(root: Path) -> None:
    with mock.patch.object(database, "VERSION", database.VERSION + 1):
        indexes.build(root)
    before = crash.files(indexes.state(root))
    for _ in range(3):
        with indexes.opened(root) as bank:
            with pytest.raises(NewerFormat, match="newer Retain and is left untouched") as caught:
                indexes.ids(bank, LANTERN)
            assert "\n" not in caught.value.message
    assert crash.files(indexes.state(root)) == before
    written = crash.open_bank(root).put("stored all the same", id="stored")
    assert written.status == "created"
    assert [note for note in written.warnings if "newer Retain" in note]
    assert crash.files(indexes.state(root)) == before


def test_an_index_of_another_schema_is_made_anew_with_its_vectors(root: Path) -> None:
    letters = indexes.Letters()
    indexes.build(root, letters)
    made = len(letters.texts)
    with indexes.opened(root) as bank, bank.database.writing() as connection:
        connection.execute("ALTER TABLE chunks DROP COLUMN is_heading")
        connection.execute(f"PRAGMA user_version = {database.VERSION - 1}")
    outcomes = crash.together([lambda: _counted(root)] * 4)
    assert [outcome.value for outcome in outcomes] == [8] * 4, outcomes
    with indexes.opened(root, letters) as bank:
        indexes.fill(bank)
        indexes.agrees(bank)
        assert bank.database.notes == []
    assert len(letters.texts) == made


def _counted(root: Path) -> int:
    with indexes.opened(root) as bank:
        return len(indexes.ids(bank, LANTERN))


# Disks that refuse


def test_a_state_directory_that_is_read_only_means_an_index_in_memory(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _tmpfs(tmp_path / "disk", "8m")
    monkeypatch.setenv("XDG_STATE_HOME", str(disk))
    try:
        indexes.build(root)
        indexes.write(root, "notes/m000", "changed before the disk was locked")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with indexes.opened(root, indexes.Letters(), stays=True) as bank:
            answer = indexes.ask(bank, LANTERN, "text")
            assert len(answer.hits) == 7
            (reason,) = answer.degraded.reasons
            assert reason.startswith(f"the index is kept in memory only: {indexes.state(root)}: ")
            assert indexes.ids(bank, "disk locked") == ["m000"]
            indexes.agrees(bank)
            bank.database.replace("it was asked for")
            assert len(indexes.ids(bank, LANTERN)) == 7
        env = {**os.environ, "RETAIN_RECALL_EMBEDDER": "none"}
        app = App(bank=str(root), cwd=str(root), env=env)
        assert app.index_facts().memories == 8
        assert app.rebuild().added == 8
        app.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_still_answers(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = _tmpfs(tmp_path / "disk", "100k")
    monkeypatch.setenv("XDG_STATE_HOME", str(disk))
    try:
        with indexes.opened(root) as bank:
            assert len(indexes.ids(bank, LANTERN)) == 8
            assert "memory only" in " ".join(bank.database.notes)
            subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
            bank.database.close()
            answer = indexes.ask(bank, LANTERN, "text")
            assert (len(answer.hits), answer.degraded.reasons) == (8, ())
            assert "memory only" not in " ".join(bank.database.notes)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# Deleted, busy


def test_deleting_the_index_under_an_open_process_harms_nobody(root: Path) -> None:
    letters = indexes.Letters()
    with indexes.opened(root, letters, stays=True) as bank, indexes.opened(root) as other:
        for delete in (_rmtree, _unlink, _unlink_all):
            assert len(indexes.ids(bank, LANTERN)) == len(indexes.ids(other, LANTERN)) == 8
            delete(root)
            assert indexes.ids(bank, indexes.word(5), "hybrid")[0] == "m005"
            indexes.agrees(other)
            indexes.agrees(bank)


def _rmtree(root: Path) -> None:
    shutil.rmtree(indexes.state(root))


def _unlink(root: Path) -> None:
    indexes.database(root).unlink()


def _unlink_all(root: Path) -> None:
    for path in indexes.state(root).iterdir():
        path.unlink()


def test_a_busy_index_is_said_to_be_busy_and_left_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes.build(root)
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    short = tuple((name, 50 if name == "busy_timeout" else value) for name, value in PRAGMAS)
    monkeypatch.setattr(database, "PRAGMAS", short)
    first = indexes.database(root).stat().st_ino
    with indexes.plain(root) as holder, indexes.opened(root, stays=True) as bank:
        assert len(indexes.ids(bank, LANTERN)) == 8
        holder.execute("BEGIN IMMEDIATE")
        indexes.write(root, "notes/m000", "an albatross came by")
        with pytest.raises(Busy, match=r"has held the index .* for 0.05 seconds"):
            indexes.ids(bank, "albatross")
        holder.execute("ROLLBACK")
        assert indexes.ids(bank, "albatross") == ["m000"]
        assert bank.database.notes == []
    assert indexes.database(root).stat().st_ino == first
