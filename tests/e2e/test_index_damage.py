"""A damaged index: noticed, built anew once, and nobody sees a difference."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import crash, indexes

pytestmark = pytest.mark.slow

COUNT = 40
PAGE = 4096
QUESTIONS = (
    ("harbour lantern", "hybrid"),
    ("rope1 harbour", "text"),
    (indexes.word(8), "text"),
    (f"a lantern called {indexes.word(17)}", "semantic"),
)

Damage = Callable[[Path], object]


class View(NamedTuple):
    """What one process saw of an index."""

    answers: list[list[tuple[str, float, str]]]
    notes: list[str]
    inode: int
    embedded: int
    faults: list[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, COUNT)
    indexes.build(root, indexes.Letters())
    return root


def _look(root: Path) -> View:
    letters = indexes.Letters()
    with indexes.opened(root, letters) as bank:
        bank.refresh()
        indexes.fill(bank)
        answers = [indexes.ranked(bank, *question) for question in QUESTIONS]
        inode = indexes.database(root).stat().st_ino
        return View(answers, bank.database.notes, inode, len(letters.texts), indexes.faults(bank))


def _in_child(root: Path) -> View:
    outcome = crash.in_child(partial(_look, root))
    assert not outcome.message, outcome.message
    view: View = outcome.value
    return view


# Damages


def _overwrite(offset: int | float, data: bytes) -> Damage:
    """Bytes at an offset, or at a share of the file's pages."""

    def damage(path: Path) -> None:
        size = path.stat().st_size
        place = offset if isinstance(offset, int) else int(size / PAGE * offset) * PAGE
        with path.open("r+b") as file:
            file.seek(place % size)
            file.write(data)

    return damage


def _flip(offset: int | float) -> Damage:
    def damage(path: Path) -> None:
        size = path.stat().st_size
        place = (offset if isinstance(offset, int) else int(size * offset)) % size
        data = path.read_bytes()
        _overwrite(place, bytes([data[place] ^ 0xFF]))(path)

    return damage


def _cut(share: float) -> Damage:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def _statements(*statements: str) -> Damage:
    def damage(path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return damage


def _foreign(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE chunks (number, text)")
    connection.execute("INSERT INTO chunks VALUES (1, 'a strange harbour lantern')")
    connection.commit()
    connection.close()


DAMAGES: dict[str, Damage] = {
    "empty": _cut(0.0),
    "truncated to half a page": lambda path: os.truncate(path, 2000),
    "truncated by a quarter": _cut(0.75),
    "truncated by its last bytes": lambda path: os.truncate(path, path.stat().st_size - 9),
    "a byte of the header flipped": _flip(18),
    "a byte of the version flipped": _flip(63),
    "a byte of the mark flipped": _flip(70),
    "a byte flipped at a tenth": _flip(0.1),
    "a byte flipped at half": _flip(0.5),
    "a byte flipped at nine tenths": _flip(0.9),
    "the last byte flipped": _flip(-1),
    "garbage for a header": _overwrite(0, bytes(range(100, 200))),
    "a word's row lost": _statements("DELETE FROM terms WHERE rowid = 3"),
    "a word's text lost": _statements("DELETE FROM terms_content WHERE id = 3"),
    "a word's posting lost": _statements("DELETE FROM wholes_data WHERE id > 10"),
    "a text that was changed": _statements("UPDATE chunks SET text = 'harbour' || text"),
    "a listing that says all is well": _statements("DELETE FROM memories WHERE id='m003'"),
    "a table dropped": _statements("DROP TABLE chunks"),
    "the totals dropped": _statements("DROP TABLE totals"),
    "the vectors dropped": _statements("DROP TABLE vectors"),
    "vectors that were changed": _statements(
        "UPDATE vectors SET vector = zeroblob(length(vector)) WHERE chunk < 9"
    ),
    "pages overwritten in the middle": _overwrite(0.5, b"\xa5" * 2 * PAGE),
    "every page but the first overwritten": _overwrite(PAGE, b"\xa5" * 60 * PAGE),
    "somebody's database": _foreign,
    "somebody's text": lambda path: path.write_bytes(b"Dear diary\n" * 1000),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_index_gives_the_same_answers(root: Path, name: str) -> None:
    damage = DAMAGES[name]
    before, bank = _in_child(root), crash.memories(root)
    assert (before.embedded, before.notes) == (0, [])
    facts = indexes.database(root).stat()
    damage(indexes.database(root))
    os.utime(indexes.database(root), ns=(facts.st_atime_ns, facts.st_mtime_ns))
    after = _in_child(root)
    assert after.answers == before.answers
    assert after.notes == ["the index was built anew: it was changed from outside"]
    assert after.faults == []
    assert after.embedded == 0
    assert crash.memories(root) == bank
    again = _in_child(root)
    assert (again.answers, again.notes, again.embedded) == (before.answers, [], 0)
    assert crash.leftovers(root) == []


@pytest.mark.parametrize(
    "name",
    ["empty", "truncated by a quarter", "a byte flipped at half", "pages overwritten in the middle"]
    + ["a word's row lost", "a table dropped", "somebody's database", "garbage for a header"],
)
def test_of_four_processes_one_builds_it_anew(root: Path, name: str) -> None:
    damage = DAMAGES[name]
    before = _in_child(root)
    damage(indexes.database(root))
    outcomes = crash.together([partial(_look, root)] * 4)
    assert [outcome.message for outcome in outcomes] == [""] * 4
    views: list[View] = [outcome.value for outcome in outcomes]
    assert [view.answers for view in views] == [before.answers] * 4
    assert sorted(len(view.notes) for view in views) == [0, 0, 0, 1]
    assert len({view.inode for view in views}) == 1
    assert [view.faults for view in views] == [[]] * 4
    assert max(view.embedded for view in views) == 0


# A kill, and then damage


def _killed_at_work(root: Path) -> None:
    """Change the index a great deal and die with everything in the log."""
    letters = indexes.Letters()
    bank = indexes.indexed(root, letters)
    for number in range(0, COUNT, 3):
        indexes.write(root, f"notes/m{number:03}", f"rewritten {indexes.word(number)}")
    bank.refresh()
    indexes.fill(bank)
    os.kill(os.getpid(), signal.SIGKILL)


def _no_log(root: Path) -> None:
    indexes.database(root).with_name("index.db-wal").unlink()


def _no_log_nor_memory(root: Path) -> None:
    _no_log(root)
    indexes.database(root).with_name("index.db-shm").unlink()


def _half_a_log(root: Path) -> None:
    log = indexes.database(root).with_name("index.db-wal")
    os.truncate(log, log.stat().st_size // 2)


def _garbage_in_the_log(root: Path) -> None:
    _overwrite(0.3, b"\xa5" * PAGE)(indexes.database(root).with_name("index.db-wal"))


def _garbage_memory(root: Path) -> None:
    indexes.database(root).with_name("index.db-shm").write_bytes(b"\xa5" * 32768)


def _pages_gone(root: Path) -> None:
    _overwrite(PAGE, b"\xa5" * 60 * PAGE)(indexes.database(root))


def _file_cut(root: Path) -> None:
    _cut(0.4)(indexes.database(root))


def _nothing_more(root: Path) -> None:
    """A kill alone."""


@pytest.mark.parametrize(
    "damage",
    [
        _nothing_more,
        _no_log,
        _no_log_nor_memory,
        _half_a_log,
        _garbage_in_the_log,
        _garbage_memory,
        _pages_gone,
        _file_cut,
    ],
)
def test_damage_after_a_kill_gives_the_answers_of_the_files(root: Path, damage: Damage) -> None:
    assert crash.in_child(partial(_killed_at_work, root)).signal == signal.SIGKILL
    assert indexes.database(root).with_name("index.db-wal").stat().st_size
    bank = crash.memories(root)
    damage(root)
    outcomes = crash.together([partial(_look, root)] * 4)
    assert [outcome.message for outcome in outcomes] == [""] * 4
    views: list[View] = [outcome.value for outcome in outcomes]
    expected = _from_scratch(root)
    assert [_sorted(view) for view in views] == [_sorted(expected)] * 4
    assert [view.faults for view in views] == [[]] * 4
    assert sum(len(view.notes) for view in views) <= 1
    assert crash.memories(root) == bank
    assert _in_child(root).notes == []
    assert crash.leftovers(root) == []


def _sorted(view: View) -> list[list[tuple[str, float, str]]]:
    """Answers in which equals have no order: that of an index is the order of its making."""
    return [sorted(answer) for answer in view.answers]


def _from_scratch(root: Path) -> View:
    copy = root.with_name("copy")
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".index"))
    return _in_child(copy)


def test_a_damaged_name_that_sqlite_quotes_is_damage(root: Path) -> None:
    before = _in_child(root)
    path = indexes.database(root)
    data = path.read_bytes()
    assert b"tablememoriesmemories" in data
    path.write_bytes(data.replace(b"tablememories", b"tablem\xffmories", 1))
    path.with_name("index.stamp").unlink()  # as after a kill
    after = _in_child(root)
    assert after.answers == before.answers
    assert "it was damaged" in after.notes[0]


# A process that has it open


@pytest.mark.parametrize("damage", [_pages_gone, _file_cut, _foreign])
def test_damage_under_an_open_process_is_mended_for_all(root: Path, damage: Damage) -> None:
    letters = indexes.Letters()
    with indexes.opened(root, letters, stays=True) as bank:
        before = [indexes.ranked(bank, *question) for question in QUESTIONS]
        damage(indexes.database(root) if damage is _foreign else root)
        view = _in_child(root)
        assert (view.answers, len(view.notes), view.faults) == (before, 1, [])
        assert [indexes.ranked(bank, *question) for question in QUESTIONS] == before
        indexes.agrees(bank)
        assert indexes.database(root).stat().st_ino == view.inode
    assert _in_child(root).notes == []


# Busy is not damaged


def test_a_busy_index_is_waited_for_and_never_called_damaged(root: Path) -> None:
    before = _in_child(root)
    told, tell = os.pipe()

    def hold() -> None:
        with indexes.opened(root) as bank, bank.database.writing():
            os.write(tell, b"held")
            select.select([], [], [], 1.0)

    holder = crash.Child(hold)
    os.read(told, 4)
    path = indexes.write(root, "notes/m001", "an albatross came by")
    waiting = crash.Child(lambda: _found_albatross(root))
    assert not holder.outcome().message
    outcome = waiting.outcome()
    assert outcome.value == (["m001"], [], before.inode), outcome.message
    path.unlink()
    os.close(told)
    os.close(tell)


def _found_albatross(root: Path) -> object:
    with indexes.opened(root) as bank:
        found = indexes.ids(bank, "albatross")
        return found, bank.database.notes, indexes.database(root).stat().st_ino
