"""`retain serve`: a warm process for those whose agent keeps none."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from retain import warm
from tests.cli.door import call, done
from tests.conftest import Run
from tests.warm.process import end, holder, left, serve, soon

pytestmark = pytest.mark.slow


@pytest.fixture
def bank(bank: str) -> str:
    done("put", "-", "--id", "tea", input="# Tea\n\nThe tea is hot at noon.\n")
    return bank


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_nothing_is_left(one: int, bank: str) -> None:
    with serve(bank, "--no-idle") as child:
        assert holder(bank) == child.pid
        assert end(child, one) == (0, "")
    assert left(bank) == []
    assert not os.path.exists(f"{bank}/.index/index.db-wal"), "the index is sealed"
    assert call("doctor").code == 0


def test_it_says_where_it_listens(bank: str, run: Run) -> None:
    ran = run("serve", "--idle", "1s", "--json")
    first, last = map(json.loads, ran.out.splitlines())
    assert first == {"status": "listening", "address": warm.address(bank), "bank": bank}
    assert last == {"status": "ended", "bank": bank}


def test_a_second_one_says_that_there_is_one_and_ends(bank: str, run: Run) -> None:
    with serve(bank) as child:
        ran = run("serve")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == f"There is one for {bank} already: process {child.pid}.\n"
        told = json.loads(run("serve", "--json").out)
        assert told == {"status": "there already", "bank": bank, "pid": child.pid}
        assert run("serve", "--quiet") == (0, "", "")
        assert holder(bank) == child.pid


def test_it_ends_by_itself_when_nobody_asks(bank: str, run: Run) -> None:
    ran = run("serve", "--idle", "1s")
    assert (ran.code, ran.err) == (0, "")
    first, last = ran.out.splitlines()
    assert first == f"Listening for {bank} at {warm.address(bank)}; Ctrl-C ends it."
    assert last == "Ended."
    assert left(bank) == []
    assert run("serve", "--idle", "1s", "--quiet") == (0, "", "")


def test_who_asks_keeps_it_from_ending(bank: str) -> None:
    with serve(bank, "--idle", "3s") as child:
        for _ in range(8):
            time.sleep(0.5)
            assert warm.ask(bank, {"op": "embed", "texts": ["x"]}, 30)
        assert child.poll() is None
        assert child.wait(60) == 0, "and a mere look does not"


def test_it_makes_what_changed_searchable_before_anyone_asks(bank: str) -> None:
    def vectors() -> int:
        with contextlib.closing(sqlite3.connect(f"{bank}/.index/index.db")) as connection:
            return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])

    with serve(bank) as child:
        assert soon(lambda: vectors() == 1)
        Path(bank, "memories", "zebra.md").write_text("A zebra.\n", encoding="utf-8")
        assert soon(lambda: vectors() == 2)
        assert end(child, signal.SIGTERM) == (0, "")


@pytest.mark.parametrize("idle", ["", "0s", "-1m", "30", "soon", "1.5h", "1h30m"])
def test_a_time_that_is_none_is_refused(idle: str, bank: str) -> None:
    ran = call("serve", f"--idle={idle}")
    assert ran.code == 2
    assert "90s, 30m or 8h" in ran.err


def test_idle_and_no_idle_do_not_go_together(bank: str) -> None:
    assert call("serve", "--idle", "1s", "--no-idle").code == 2


def test_without_a_bank_there_is_nothing_to_serve(home: Path) -> None:
    assert call("serve", "--global").code == 3
    assert not (home / ".retain").exists()
