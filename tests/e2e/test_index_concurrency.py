"""Many processes on one index: every memory is found, and nobody hears of a lock."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

import retain
from retain.index import database
from retain.index.database import Database
from tests import crash, indexes
from tests.conftest import Run

pytestmark = pytest.mark.slow

PROCESSES = 8


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


class Told(NamedTuple):
    """What one writer heard."""

    warnings: list[str]
    missed: list[str]  # what it could not find just after storing it
    waits: list[float]


def _word(writer: int, number: int) -> str:
    letters = "bcdfghjklmnpqrst"
    return f"quartz{letters[writer]}{letters[number // 16]}{letters[number % 16]}ux"


def _text(writer: int, number: int) -> str:
    return f"# Entry {number}\n\nWriter number {writer} saw a stone called {_word(writer, number)}."


@contextmanager
def _timed(waits: list[float]) -> Iterator[None]:
    """Note how long each transaction of this process waits for its turn."""
    begin = Database._transaction

    @contextmanager
    def timed(self: Database, *args: Any) -> Iterator[Any]:
        start = time.perf_counter()
        with begin(self, *args) as connection:
            waits.append(time.perf_counter() - start)
            yield connection

    with mock.patch.object(Database, "_transaction", timed):
        yield


def _through_the_app(root: Path, writer: int, count: int) -> Told:
    """As the command line does: a new App for every memory."""
    told = Told([], [], [])
    with _timed(told.waits):
        for number in range(count):
            app = crash.open_bank(root)
            name = f"w{writer}-{number}"
            told.warnings.extend(app.put(_text(writer, number), id=name).warnings)
            app.close()
    return told


def _through_the_api(root: Path, writer: int, count: int) -> Told:
    """As a server does: one object that stays, and asks for what it stored."""
    told = Told([], [], [])
    with _timed(told.waits), retain.open(str(root)) as memory:
        for number in range(count):
            name = f"w{writer}-{number}"
            told.warnings.extend(memory.put(_text(writer, number), id=name).warnings)
            if number % 5 == 0:
                found = [hit.id for hit in memory.search(_word(writer, number)).hits]
                told.missed.extend([] if found == [name] else [f"{name}: {found}"])
    return told


DOORS = (_through_the_app, _through_the_api)


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_what_eight_processes_store_is_all_found(tmp_path: Path, count: int) -> None:
    root = tmp_path / "bank"
    crash.new_bank(root)
    works = [partial(DOORS[one % 2], root, one, count) for one in range(PROCESSES)]
    outcomes = crash.together(works)
    assert [outcome.message for outcome in outcomes] == [""] * PROCESSES
    told: list[Told] = [outcome.value for outcome in outcomes]
    assert [warning for one in told for warning in one.warnings] == []
    assert [missed for one in told for missed in one.missed] == []
    waits = sorted(wait for one in told for wait in one.waits)
    print(f"{len(waits)} transactions, p99 {waits[int(len(waits) * 0.99)]:.3f} s")
    print(f"longest wait {waits[-1]:.3f} s")

    names = {(f"w{one}-{number}") for one in range(PROCESSES) for number in range(count)}
    assert {path.stem for path in (root / "memories").glob("*.md")} == names
    with indexes.opened(root) as bank:
        indexes.agrees(bank)
        found = {
            name
            for one in range(PROCESSES)
            for number in range(count)
            for name in indexes.ids(bank, _word(one, number))
        }
        assert found == names
        assert bank.database.notes == []
    assert crash.leftovers(root) == []


def test_the_command_is_safe_with_itself(home: Path, run: Run) -> None:
    """The installed command, several at a time, on a bank that has no index yet."""
    bank = indexes.new(home / "work" / ".retain")

    def command(number: int) -> object:
        name, text = f"c{number}", _text(0, number)
        put = run("put", "-", "--id", name, "--quiet", input=text)
        search = run("search", _word(0, number), "--json")
        return put.code, put.err, search.code, name in search.out

    outcomes = crash.together([partial(command, number) for number in range(6)])
    assert [outcome.value for outcome in outcomes] == [(0, "", 0, True)] * 6
    with indexes.opened(bank) as opened:
        indexes.agrees(opened)


# Opening


def _opened_at_once(root: Path) -> tuple[int, int, int, list[str], list[str]]:
    with indexes.opened(root) as bank:
        found = len(indexes.ids(bank, "harbour lantern"))
        inode = indexes.database(root).stat().st_ino
        return (
            found,
            inode,
            int(indexes.value(bank, "PRAGMA user_version")),
            bank.database.notes,
            indexes.faults(bank),
        )


@pytest.mark.parametrize("turn", range(6))
def test_twelve_processes_open_a_bank_without_an_index_at_once(tmp_path: Path, turn: int) -> None:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, 12 if turn % 2 else 1)
    outcomes = crash.together([partial(_opened_at_once, root)] * 12)
    assert [outcome.message for outcome in outcomes] == [""] * 12
    (seen,) = {repr(outcome.value) for outcome in outcomes}
    inode = indexes.database(root).stat().st_ino
    assert seen == repr((12 if turn % 2 else 1, inode, database.VERSION, [], []))
    with indexes.plain(root) as connection:
        query = "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
        tables = [name for (name,) in connection.execute(query)]
    assert len(tables) == len(set(tables))
    assert {"memories", "chunks", "terms", "vectors", "links"} <= set(tables)


# An index that comes and goes


def _set_aside(root: Path) -> None:
    bank = indexes.indexed(root)
    bank.refresh()
    bank.database.replace("for the test")
    bank.close()


def _delete(root: Path) -> None:
    shutil.rmtree(indexes.state(root), ignore_errors=True)


@pytest.mark.parametrize("wreck", [_set_aside, _delete])
def test_no_answer_is_short_while_the_index_is_replaced(
    tmp_path: Path, wreck: Callable[[Path], None]
) -> None:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, 30)
    indexes.build(root, indexes.Letters())
    done = root.with_name("done")

    def search(stays: bool) -> object:
        wrong: list[object] = []
        letters = indexes.Letters()
        turns = 0
        while not done.exists() or not turns:
            with indexes.opened(root, letters, stays=stays) as bank:
                for number in range(5):
                    turns += 1
                    answer = indexes.ask(bank, "harbour lantern")
                    found = indexes.ids(bank, indexes.word(number))
                    if len(answer.hits) != 30 or found != [f"m{number:03}"]:
                        wrong.append((len(answer.hits), found))
        return wrong

    def replace() -> None:
        try:
            for _ in range(12):
                wreck(root)
                os.sched_yield()
        finally:
            done.touch()

    works: list[Callable[[], object]] = [partial(search, False), partial(search, True)]
    outcomes = crash.together([*works, partial(search, True), replace])
    assert [outcome.message for outcome in outcomes] == [""] * 4
    assert [outcome.value for outcome in outcomes[:3]] == [[]] * 3
    letters = indexes.Letters()
    indexes.build(root, letters)
    with indexes.opened(root, letters) as bank:
        indexes.agrees(bank)
        (pending,) = (indexes.value(bank, "SELECT count(*) FROM pending"),)
        assert pending == 0
    assert crash.leftovers(root) == []
