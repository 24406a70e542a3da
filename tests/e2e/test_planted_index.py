"""An index that came with somebody's repository says nothing that the files do not say."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from retain.errors import Unsafe
from retain.fsio import Directory
from tests import indexes


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
