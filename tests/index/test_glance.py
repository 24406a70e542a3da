"""A look at an index that neither waits, nor writes, nor makes anything."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

from retain.index.glance import glance
from tests import indexes

FOREVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank ?#%41")
    indexes.write(root, "notes/honest", "an honest zebra")
    indexes.build(root)
    return root


def soon() -> float:
    return time.monotonic() + 60


def test_what_the_index_holds_is_found(root: Path) -> None:
    def titles(connection: sqlite3.Connection) -> list[str]:
        return [row[0] for row in connection.execute("SELECT id FROM memories")]

    before = sorted(os.listdir(root / ".index"))
    assert glance(str(root), titles, soon()) == ["honest"]
    assert sorted(os.listdir(root / ".index")) == before


def test_nothing_in_a_schema_is_trusted_and_nothing_is_written(root: Path) -> None:
    def settings(connection: sqlite3.Connection) -> list[int]:
        names = ("trusted_schema", "query_only")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    def write(connection: sqlite3.Connection) -> str:
        connection.execute("DELETE FROM memories")
        return "written"

    assert glance(str(root), settings, soon()) == [0, 1]
    assert glance(str(root), write, soon()) is None


def test_a_search_without_end_ends_with_the_deadline(root: Path) -> None:
    def endless(connection: sqlite3.Connection) -> object:
        return connection.execute(FOREVER).fetchone()

    assert glance(str(root), endless, time.monotonic() + 0.05) is None


def test_without_an_index_there_is_nothing_and_none_is_made(tmp_path: Path) -> None:
    root = indexes.new(tmp_path / "bank")
    assert glance(str(root), lambda _: "found", soon()) is None
    assert glance(str(tmp_path / "none"), lambda _: "found", soon()) is None
    assert not (root / ".index" / "index.db").exists()


def test_an_index_that_changed_meanwhile_is_not_believed(root: Path) -> None:
    def disturbed(_: sqlite3.Connection) -> str:
        os.utime(root / ".index" / "index.db", ns=(1, 1))
        return "found"

    assert glance(str(root), disturbed, soon()) is None


def test_an_index_of_another_version_is_not_read(root: Path) -> None:
    path = root / ".index" / "index.db"
    facts = path.stat()
    data = bytearray(path.read_bytes())
    data[60:64] = (999).to_bytes(4, "big")
    with open(path, "r+b") as file:
        file.write(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert glance(str(root), lambda _: "found", soon()) is None
