"""An index that came with somebody's repository says nothing that the files do not say."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import stat
import time
from pathlib import Path

import pytest

from retain import machine
from retain.errors import Unsafe
from retain.fsio import Directory
from retain.index.glance import glance
from retain.index.seal import Seal
from retain.recall.quick import quick
from tests import crash, indexes


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A clone of a bank whose index was tampered with, and a file beside it that is no memory."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "id_rsa.md").write_text("numbat private key", encoding="utf-8")
    root = indexes.new(tmp_path / "theirs")
    indexes.write(root, "notes/honest", "an honest zebra")
    indexes.build(root)
    with contextlib.closing(sqlite3.connect(indexes.database(root))) as connection:
        connection.execute("UPDATE chunks SET text = 'a forged zebra'")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(memories)")]
        values = ", ".join(
            {
                "number": "50",
                "collection": f"'{tmp_path / 'secrets'}'",
                "file": "'id_rsa.md'",
                "id": "'id_rsa'",
                "hash": "x'00'",
            }.get(name, name)
            for name in columns
        )
        connection.execute(f"INSERT INTO memories SELECT {values} FROM memories LIMIT 1")  # noqa: S608
        connection.execute(f"INSERT INTO folders VALUES ('{tmp_path / 'secrets'}', x'00')")  # noqa: S608
        connection.execute(
            "CREATE TRIGGER t AFTER UPDATE ON memories BEGIN "
            "UPDATE chunks SET text = 'a triggered zebra'; END"
        )
        connection.commit()
    clone = tmp_path / "ours"
    shutil.copytree(root, clone)
    (clone / ".index" / "index.db-wal").touch()  # as if someone had it open
    return clone


def test_planted_rows_are_not_believed_and_lead_nowhere(planted: Path) -> None:
    with indexes.opened(planted) as bank:
        assert [hit.text for hit in indexes.ask(bank, "zebra", "text").hits] == ["an honest zebra"]
        assert indexes.ids(bank, "numbat") == []
        indexes.agrees(bank)


def test_an_endless_view_is_not_read(tmp_path: Path) -> None:
    root = indexes.new(tmp_path / "bank")
    indexes.write(root, "notes/honest", "an honest zebra")
    (root / ".index").mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(indexes.database(root))) as connection:
        connection.execute("CREATE TABLE facts (name, value)")
        connection.execute("INSERT INTO facts VALUES ('model', 'x')")
        connection.execute(
            "CREATE VIEW vectors (digest, vector, check_sum, model, chunk) AS "
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
            "SELECT n, zeroblob(1000), 0, 'x', n FROM r"
        )
        connection.commit()
    with indexes.opened(root) as bank:
        assert indexes.ids(bank, "zebra") == ["honest"]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_seal_that_is_no_file_keeps_nobody_waiting(tmp_path: Path, kind: str) -> None:
    root = indexes.new(tmp_path / "bank")
    indexes.write(root, "notes/honest", "an honest zebra")
    indexes.build(root)
    seal = root / ".index" / "index.seal"
    seal.unlink()
    if kind == "link":
        seal.symlink_to("/dev/stdin")
    else:
        os.mkfifo(seal)
    with indexes.opened(root) as bank:
        assert indexes.ids(bank, "zebra") == ["honest"]


@pytest.mark.parametrize("name", ["/etc", "../..", "..", ".", "a/b", "a\0b"])
def test_a_directory_is_named_by_one_plain_name(tmp_path: Path, name: str) -> None:
    with Directory.open(str(tmp_path)) as root, pytest.raises(Unsafe):
        root.child(name)


# What git can put in the place of an index, which it takes for a file that nobody minds


FORGED = "a forged zebra"
FORGING = "UPDATE chunks SET text = 'a forged zebra'"


@pytest.fixture
def honest(tmp_path: Path) -> Path:
    """A bank whose index is at rest."""
    root = indexes.new(tmp_path / "bank")
    indexes.write(root, "notes/honest", "an honest zebra")
    indexes.build(root)
    return root


def _forge(path: Path, script: str = FORGING) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"PRAGMA journal_mode = delete; {script}")


def _answers(root: Path) -> tuple[list[str], list[str]]:
    """What an index says: to a hook, and to a search."""
    found = glance(str(root), _texts, time.monotonic() + 60)
    with indexes.opened(root) as bank:
        return found or [], [hit.text for hit in indexes.ask(bank, "zebra", "text").hits]


def _texts(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM chunks")]


def _forged_copy(root: Path) -> bytes:
    """An index of the same bank as somebody else would make it."""
    copy = root.with_name("forged.db")
    shutil.copy(indexes.database(root), copy)
    _forge(copy)
    return copy.read_bytes()


@pytest.mark.parametrize("beside", [(), ("-wal",), ("-wal", "-shm")])
def test_a_file_in_the_place_of_ours_with_its_very_number_is_not_believed(
    honest: Path, beside: tuple[str, ...]
) -> None:
    assert _answers(honest) == (["an honest zebra"], ["an honest zebra"])
    with open(indexes.database(honest), "r+b") as file:  # a disk may give a number away again
        file.write(_forged_copy(honest))
        file.truncate()
    for ending in beside:
        Path(f"{indexes.database(honest)}{ending}").touch(mode=0o600)
    assert _answers(honest) == ([], ["an honest zebra"])


def test_a_log_beside_an_index_at_rest_is_not_played_back(honest: Path) -> None:
    forged = honest.with_name("forged.db")
    shutil.copy(indexes.database(honest), forged)
    with contextlib.closing(sqlite3.connect(forged)) as connection:
        connection.execute(FORGING)
        connection.commit()
        log = Path(f"{forged}-wal").read_bytes()
    assert FORGED.encode() in log
    planted = Path(f"{indexes.database(honest)}-wal")
    planted.touch(mode=0o600)
    planted.write_bytes(log)
    assert _answers(honest) == ([], ["an honest zebra"])


def test_a_journal_beside_an_index_at_rest_is_not_played_back(honest: Path) -> None:
    Path(f"{indexes.database(honest)}-journal").touch(mode=0o600)
    assert _answers(honest) == ([], ["an honest zebra"])


def _killed_at_work(root: Path) -> None:
    bank = indexes.indexed(root)
    indexes.write(root, "notes/second", "another zebra")
    bank.refresh()
    os.kill(os.getpid(), signal.SIGKILL)


def test_after_a_kill_only_the_log_of_the_killed_is_believed(honest: Path) -> None:
    assert crash.in_child(lambda: _killed_at_work(honest)).signal == signal.SIGKILL
    log = Path(f"{indexes.database(honest)}-wal")
    assert set(glance(str(honest), _texts, time.monotonic() + 60) or ()) == {
        "an honest zebra",
        "another zebra",
    }
    data = log.read_bytes()
    log.rename(log.with_name("moved"))
    log.touch(mode=0o600)
    log.write_bytes(data)
    assert glance(str(honest), _texts, time.monotonic() + 60) is None
    with indexes.opened(honest) as bank:
        assert len(indexes.ids(bank, "zebra")) == 2
        assert bank.store.notes == ["the index was built anew: it was changed from outside"]


def test_a_killed_process_leaves_an_index_that_is_gone_on_with(honest: Path) -> None:
    number = indexes.database(honest).stat().st_ino
    assert crash.in_child(lambda: _killed_at_work(honest)).signal == signal.SIGKILL
    with indexes.opened(honest) as bank:
        assert len(indexes.ids(bank, "zebra")) == 2
        assert bank.store.notes == []
    assert indexes.database(honest).stat().st_ino == number


def test_a_seal_of_another_machine_does_not_hold(honest: Path) -> None:
    os.unlink(machine.key_path())
    assert not Seal(str(honest)).holds()
    machine.key(make=True)
    assert not Seal(str(honest)).holds()


def test_a_file_that_others_may_read_since_it_was_sealed_is_not_believed(honest: Path) -> None:
    facts = indexes.database(honest).stat()
    assert stat.S_IMODE(facts.st_mode) == 0o600
    indexes.database(honest).chmod(0o644)
    assert not Seal(str(honest)).holds()


@pytest.mark.parametrize(
    "script",
    [
        "CREATE VIEW v AS SELECT 1",
        "CREATE TRIGGER t AFTER UPDATE ON chunks BEGIN DELETE FROM chunks; END",
    ],
)
def test_an_index_with_a_view_or_a_trigger_is_not_used(honest: Path, script: str) -> None:
    _forge(indexes.database(honest), script)
    seal = Seal(str(honest))
    seal.write()
    assert seal.holds()
    assert _answers(honest) == ([], ["an honest zebra"])
    with indexes.plain(honest) as connection:
        query = "SELECT count(*) FROM sqlite_schema WHERE type IN ('view', 'trigger')"
        assert connection.execute(query).fetchone() == (0,)


def test_a_hook_reads_no_endless_text(honest: Path) -> None:
    _forge(indexes.database(honest), "UPDATE chunks SET text = hex(zeroblob(2500000))")
    Seal(str(honest)).write()
    assert glance(str(honest), _texts, time.monotonic() + 60) is None


@pytest.mark.parametrize(
    "change",
    ["collection = '/etc'", "collection = '../..'", "collection = '..'", "file = '../x.md'",
     "file = '/etc/passwd'", "file = ''", "file = '..'"],
)  # fmt: skip
def test_a_row_that_leads_out_of_the_bank_is_passed_over(honest: Path, change: str) -> None:
    indexes.write(honest, "notes/other", "nothing to see here")
    indexes.build(honest)
    place = indexes.place(honest)
    with indexes.plain(honest) as connection:
        assert [one.id for one in quick(connection, place, "honest zebra", 5)] == ["honest"]
        connection.execute(f"UPDATE memories SET {change} WHERE id = 'honest'")  # noqa: S608
        assert quick(connection, place, "honest zebra", 5) == []


def test_a_negative_size_does_not_make_a_memory_one_that_is_as_indexed(honest: Path) -> None:
    indexes.write(honest, "notes/other", "nothing to see here")
    indexes.build(honest)
    with indexes.plain(honest) as connection:
        connection.execute("UPDATE memories SET size = -1")
        (found,) = quick(connection, indexes.place(honest), "honest zebra", 5)
    assert (found.size, found.modified) == (0, -1)
