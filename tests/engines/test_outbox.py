"""What waits for an engine, found from the last few memories alone, is all that there is."""

from __future__ import annotations

import random
import sqlite3
from functools import partial
from pathlib import Path

from retain.engines import outbox
from retain.indexed import Indexed
from tests import indexes

ARM = "text"


def _expected(connection: sqlite3.Connection) -> tuple[set[int], set[int], set[str]]:
    """The memories to send, those the engine does not have as they are, and the deleted ones."""
    given = dict(
        connection.execute(
            "SELECT collection || '/' || file, hash FROM delivered WHERE arm = ?", (ARM,)
        )
    )
    here = connection.execute(
        "SELECT m.number, m.collection || '/' || m.file, "  # noqa: S608 - our own words
        f"{outbox.HASH}, m.is_gone FROM memories m"
    ).fetchall()
    changed, unknown = set(), set()
    for number, name, hash_, is_gone in here:
        if not is_gone and given.get(name) != hash_:
            unknown.add(number)
            if given.get(name) != outbox.AHEAD + hash_:
                changed.add(number)
    return changed, unknown, set(given) - {name for _, name, *_ in here}


def _check(connection: sqlite3.Connection) -> None:
    changed, unknown, deleted = _expected(connection)
    waiting = outbox.waiting(connection, ARM, 1000, needs_vectors=False)
    assert set(waiting.changed) == changed
    assert set(waiting.deleted) == deleted
    assert set(outbox.unknown(connection, ARM, 1000)) == unknown
    assert outbox.left(connection, ARM) == len(changed) + len(deleted)


def _deliver(bank: Indexed, dice: random.Random, most: int) -> None:
    """Some of what waits is told, in order; of some the engine has something newer."""
    with bank.store.writing() as connection:
        waiting = outbox.waiting(connection, ARM, most, needs_vectors=False)
        numbers = ",".join(map(str, waiting.changed))
        found = connection.execute(
            f"SELECT m.collection || '/' || m.file, {outbox.HASH} FROM memories m "  # noqa: S608 - our own words
            f"WHERE m.number IN ({numbers})"
        )
        told = {
            name: (outbox.AHEAD if dice.random() < 0.2 else "") + hash_ for name, hash_ in found
        }
        outbox.mark(connection, ARM, told, waiting.deleted)


def _settle(bank: Indexed) -> None:
    before, found = bank.look(
        lambda connection: (outbox.floor(connection, ARM), outbox.found_floor(connection, ARM))
    )
    with bank.store.writing() as connection:
        outbox.note_floor(connection, ARM, before, found)


def test_nothing_that_waits_is_overlooked(tmp_path: Path) -> None:
    dice = random.Random(7)
    bank = indexes.indexed(tmp_path / ".retain")
    folder = tmp_path / ".retain" / "notes"
    folder.mkdir(parents=True, exist_ok=True)
    for step in range(250):
        path = folder / f"m{dice.randrange(30):02}.md"
        what = dice.choice(["write", "write", "delete", "deliver", "settle", "hide", "doubt"])
        if what == "write":
            path.write_text(f"# Step {step}\n\nA text.\n", encoding="utf-8")
        elif what == "delete":
            path.unlink(missing_ok=True)
        elif what == "deliver":
            _deliver(bank, dice, dice.choice([3, 100]))
        elif what == "settle":
            _settle(bank)
        elif what == "doubt":
            with bank.store.writing() as connection:
                outbox.doubt(connection, ARM)
        else:  # files go missing together; they are there again by the next look
            with bank.store.writing() as connection:
                connection.execute("UPDATE memories SET is_gone = 1 WHERE number % 3 = 0")
            bank.look(_check)
            _settle(bank)
        bank.refresh(force_look=True)
        bank.look(_check)
    assert bank.look(partial(outbox.told, arm=ARM)) > 0


def test_a_floor_is_not_noted_where_someone_came_to_doubt(tmp_path: Path) -> None:
    root = indexes.new(tmp_path / ".retain")
    indexes.many(root, 5)
    bank = indexes.indexed(root)
    bank.refresh()
    _deliver(bank, random.Random(0), 100)
    _settle(bank)
    before = bank.look(partial(outbox.floor, arm=ARM))
    assert before > 0
    with bank.store.writing() as connection:
        outbox.doubt(connection, ARM)
        outbox.note_floor(connection, ARM, before, before + 1)
    assert bank.look(partial(outbox.floor, arm=ARM)) == 0
