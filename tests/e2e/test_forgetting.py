"""What is forgotten is gone: from every answer, every cache, and every byte of the index."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import retain
from retain.app import App
from retain.index import embed
from retain.locate import state_home
from retain.text.tokens import words
from tests import crash, indexes
from tests.conftest import Run

STEM = "zephyranthol"
MARKER = f"{STEM}ing"  # stored as it is and, among the terms, without its ending
OTHER = "quillwortamber"
ID = "kestrelbramble"
PLANTED = f"""\
---
title: The {MARKER} of the house
tags: [{MARKER}, kept]
context: {MARKER}
author_note: {MARKER}
---
# {MARKER.capitalize()}

See [[notes/m001]], [[src/{MARKER}.py]] and [[{MARKER}|the {MARKER}]].

[10:04] {MARKER.capitalize()}: I said {MARKER}, did I not?

## About {MARKER}

{f"{MARKER} and more. " * 80}

## And again

{"nothing of the kind. " * 80} {MARKER} {OTHER}
"""

Forget = Callable[[Path, Run], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, 40)
    return root


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> indexes.Letters:
    """The model of every bank that this process opens."""
    letters = indexes.Letters()
    monkeypatch.setattr(embed, "embedder", lambda *_, **__: letters)
    return letters


@pytest.fixture
def memory(root: Path, letters: indexes.Letters) -> Iterator[App]:
    """A process that runs on, with everything in its caches."""
    indexes.write(root, f"notes/{ID}", PLANTED)
    with retain.open(str(root), background=False) as memory:
        memory.make_vectors()
        assert _found(memory) == {"text", "semantic", "hybrid", "graph", "related", "linked"}
        assert _bytes(root) == {STEM, OTHER, ID}
        yield memory


def _found(memory: App) -> set[str]:
    """Where a running process still shows the memory."""
    found = {
        mode
        for mode in ("text", "semantic", "hybrid")
        if ID in [hit.id for hit in memory.search(f"{MARKER} {OTHER}", 50, mode=mode).hits]
    }
    if STEM in str(memory.graph()) or ID in str(memory.graph()):
        found.add("graph")
    if ID in str(memory.related("notes/m001", 50)):
        found.add("related")
    if memory.linked(f"src/{MARKER}.py").hits:
        found.add("linked")
    return found


def _bytes(root: Path) -> set[str]:
    """What of it is still in any file of the index."""
    home = indexes.state(root).parent.parent
    everything = b"".join(crash.files(home).values()).lower()
    return {word for word in (STEM, OTHER, ID) if word.encode() in everything}


def test_the_marker_is_known_by_its_stem() -> None:
    assert words(MARKER) == [STEM]


def _by_the_command(root: Path, run: Run) -> None:
    assert run("delete", ID, "--bank", root).code == 0


def _by_another_process(root: Path, _: Run) -> None:
    def delete() -> None:
        with retain.open(str(root), background=False) as other:
            other.delete(ID)

    assert not crash.in_child(delete).message


def _by_hand_with_a_search(root: Path, _: Run) -> None:
    (root / f"notes/{ID}.md").unlink()

    def search() -> None:
        with indexes.opened(root) as bank:
            assert len(indexes.ids(bank, "harbour lantern")) == 40

    assert not crash.in_child(search).message


def _by_hand_alone(root: Path, _: Run) -> None:
    (root / f"notes/{ID}.md").unlink()


@pytest.mark.parametrize(
    "forget", [_by_the_command, _by_another_process, _by_hand_with_a_search, _by_hand_alone]
)
def test_a_forgotten_memory_is_gone_from_another_running_process_and_from_the_bytes(
    root: Path, memory: App, run: Run, forget: Forget
) -> None:
    forget(root, run)
    assert _found(memory) == set()
    assert _bytes(root) == set()
    assert memory.search("harbour lantern", 50).hits
    memory.close()
    assert _bytes(root) == set()


def test_what_was_merged_into_another_memory_is_gone_with_its_own_text(
    root: Path, memory: App
) -> None:
    """The new memory says which ones it was made from, and keeps their tags."""

    def merge() -> None:
        with retain.open(str(root), background=False) as other:
            other.merge([f"notes/{ID}", "notes/m039"], "notes/both", "nothing of what was there")

    assert not crash.in_child(merge).message
    assert [hit.id for hit in memory.search(OTHER, mode="text").hits] == []
    assert ID not in [hit.id for hit in memory.search(MARKER, 50).hits]
    assert OTHER not in _bytes(root)


def test_a_process_that_forgets_leaves_no_byte_while_others_have_the_index_open(
    root: Path, memory: App
) -> None:
    with indexes.opened(root) as other:
        assert len(indexes.ids(other, MARKER)) == 1
        memory.delete(ID)
        assert _bytes(root) == set()
        assert indexes.ids(other, MARKER) == []
        assert _found(memory) == set()


def test_older_texts_of_a_forgotten_memory_are_gone_too(root: Path, memory: App) -> None:
    for turn in range(5):
        memory.update(ID, f"{PLANTED}\nturn {turn} {OTHER}{'abcde'[turn]}")
        memory.search(MARKER)
    memory.update(ID, "harmless by now")
    memory.delete(ID)
    assert _bytes(root) == set()


def test_every_one_of_many_is_gone_when_it_is_forgotten(root: Path) -> None:
    """In an index of many pages, from wherever a text happens to stand in it."""
    marks = [f"thistledown{'bcdfghjklmnpqrst'[number]}oth" for number in range(12)]
    indexes.many(root, 60, "more")
    letters = indexes.Letters()
    for number, mark in enumerate(marks):
        body = f"{mark} " * (1 + number * 40)
        indexes.write(root, f"notes/{mark}", f"# {mark}\n\n[[src/{mark}.c]] {body}\n")
    with indexes.opened(root, letters) as bank:
        bank.refresh()
        indexes.fill(bank)
        for mark in marks[::2] + marks[1::2]:
            (root / f"notes/{mark}.md").unlink()
            bank.refresh()
            everything = b"".join(crash.files(indexes.state(root)).values())
            assert mark.encode() not in everything, mark
        indexes.agrees(bank)


def test_forgetting_while_a_vector_is_under_way_leaves_none(root: Path) -> None:
    path = indexes.write(root, f"notes/{ID}", PLANTED)

    def forget() -> None:
        path.unlink(missing_ok=True)
        with indexes.opened(root) as other:
            other.refresh()

    letters = indexes.Letters(before=forget)
    with indexes.opened(root, letters) as bank:
        bank.refresh()
        bank.make_vectors()
        assert _bytes(root) == set()
        indexes.agrees(bank)


def test_what_was_lost_at_once_is_gone_when_that_was_meant(root: Path, memory: App) -> None:
    for path in (root / "notes").iterdir():
        os.unlink(path)
    indexes.write(root, "notes/left", "one left harbour")
    assert _found_by_search(memory) == set()
    assert memory.sync(force=True).removed == 41
    assert _bytes(root) == set()


def _found_by_search(memory: App) -> set[str]:
    return {hit.id for hit in memory.search(f"{MARKER} {OTHER}", 50).hits if hit.id == ID}


def test_nothing_of_it_stays_behind_when_a_rebuild_is_killed(root: Path, memory: App) -> None:
    memory.close()

    def doomed() -> None:
        bank = indexes.indexed(root)
        bank.refresh()
        bank.database._open = lambda: os.kill(os.getpid(), 9)  # type: ignore[method-assign, assignment, return-value]
        bank.database.replace("for the test")

    assert crash.in_child(doomed).signal == 9
    (root / f"notes/{ID}.md").unlink()
    with indexes.opened(root) as bank:
        assert indexes.ids(bank, MARKER) == []
    assert _bytes(root) == set()


def _kept_vectors() -> int:
    path = os.path.join(state_home(os.environ), "vectors.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])


def test_emptying_the_trash_removes_the_vectors_of_what_was_in_it(
    root: Path, letters: indexes.Letters
) -> None:
    indexes.write(root, "notes/kept", "A text that stays.")
    with retain.open(str(root), background=False) as memory:
        memory.make_vectors()
    before = _kept_vectors()
    indexes.write(root, f"notes/{ID}", PLANTED)
    with retain.open(str(root), background=False) as memory:
        memory.make_vectors()
        assert _kept_vectors() > before
        memory.delete(ID)
    app = App(bank=str(root))
    assert len(app.empty_trash()) == 1
    app.close()
    assert _kept_vectors() == before
