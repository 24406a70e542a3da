"""`retain serve`: a warm process for those whose agent keeps none."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import threading
from pathlib import Path

import pytest

from retain.app import App
from retain.daemon import client
from retain.daemon.server import Server
from tests import indexes
from tests.cli.door import call, done
from tests.conftest import Run
from tests.daemon.process import end, holder, left, serve, soon

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
    assert not os.path.exists(f"{indexes.database(Path(bank))}-wal"), "the index is sealed"
    assert call("doctor").code == 0


def test_a_second_one_says_that_there_is_one_and_ends(bank: str, run: Run) -> None:
    with serve(bank) as child:
        ran = run("serve")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == f"There is one for {bank} already: process {child.pid}.\n"
        told = json.loads(run("serve", "--json").out)
        assert told == {"status": "there already", "bank": bank, "pid": child.pid}
        assert run("serve", "--quiet") == (0, "", "")
        assert holder(bank) == child.pid


def test_it_says_where_it_listens_and_ends_by_itself_when_nobody_asks(bank: str, run: Run) -> None:
    ran = run("serve", "--idle", "1s")
    assert (ran.code, ran.err) == (0, "")
    first, last = ran.out.splitlines()
    assert first == f"Listening for {bank} at {client.socket_path(bank)}; Ctrl-C ends it."
    assert last == "Ended."
    assert left(bank) == []
    assert run("serve", "--idle", "1s", "--quiet") == (0, "", "")
    told = [json.loads(line) for line in run("serve", "--idle", "1s", "--json").out.splitlines()]
    assert told == [
        {"status": "listening", "address": client.socket_path(bank), "bank": bank},
        {"status": "ended", "bank": bank},
    ]


def test_a_question_keeps_it_from_ending_and_a_mere_look_does_not(bank: str) -> None:
    app = App(bank=bank, stays=True)
    server = Server(app, threading.RLock())
    assert server.take()
    server.start()
    before = server.last_asked
    assert client.ask(bank, {"op": "ping"}, 30)
    assert server.last_asked == before
    assert client.ask(bank, {"op": "search", "query": "tea"}, 30)
    assert server.last_asked > before
    server.stop()
    app.close()


def test_it_makes_what_changed_searchable_before_anyone_asks(bank: str) -> None:
    def vectors() -> int:
        with contextlib.closing(sqlite3.connect(indexes.database(Path(bank)))) as connection:
            return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])

    with serve(bank) as child:
        assert soon(lambda: vectors() == 1)
        Path(bank, "memories", "zebra.md").write_text("A zebra.\n", encoding="utf-8")
        assert soon(lambda: vectors() == 2)
        assert end(child, signal.SIGTERM) == (0, "")


def test_without_a_bank_there_is_nothing_to_serve(home: Path) -> None:
    assert call("serve", "--global").code == 3
    assert not (home / ".retain").exists()
