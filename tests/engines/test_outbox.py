"""What waits for an engine, found from the last few memories alone, is all that there is."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from retain.index.engines import outbox
from retain.index.index import Index
from tests import indexes

ARM = "text-1"


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


def _begin(bank: Index) -> None:
    """What waits is told, and nobody hears whether it arrived."""
    with bank.database.writing() as connection:
        waiting = outbox.waiting(connection, ARM, 100, needs_vectors=False)
        outbox.begin(connection, ARM, _hashes(connection, waiting.changed))
        outbox.begin(connection, ARM, dict.fromkeys(waiting.deleted, ""))


def _hashes(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[str, str]:
    query = (
        f"SELECT m.collection || '/' || m.file, {outbox.HASH} FROM memories m "  # noqa: S608 - our own words
        f"WHERE m.number IN ({','.join(map(str, numbers))})"
    )
    return dict(connection.execute(query))


def _deliver(bank: Index, dice: random.Random, most: int, deleted: Path | None = None) -> None:
    """Some of what waits is told, in order; of some the engine has something newer."""
    with bank.database.reading() as connection:
        waiting = outbox.waiting(connection, ARM, most, needs_vectors=False)
        hashes = _hashes(connection, waiting.changed)
    if deleted:
        deleted.unlink(missing_ok=True)
        bank.refresh(force_look=True)
    with bank.database.writing() as connection:
        told = {
            name: (outbox.AHEAD if dice.random() < 0.2 else "") + hash_
            for name, hash_ in hashes.items()
        }
        outbox.mark(connection, ARM, told, waiting.deleted)


def _settle(bank: Index) -> None:
    with bank.database.writing() as connection:
        outbox.raise_floor(connection, ARM)


def test_nothing_that_waits_is_overlooked(tmp_path: Path) -> None:
    dice = random.Random(7)
    bank = indexes.indexed(tmp_path / ".retain")
    folder = tmp_path / ".retain" / "notes"
    folder.mkdir(parents=True, exist_ok=True)
    for step in range(250):
        path = folder / f"m{dice.randrange(30):02}.md"
        what = dice.choice(
            [
                "write",
                "write",
                "delete",
                "deliver",
                "settle",
                "hide",
                "doubt",
                "begin",
                "late",
                "spoil",
            ]
        )
        if what == "write":
            path.write_text(f"# Step {step}\n\nA text.\n", encoding="utf-8")
        elif what == "delete":
            path.unlink(missing_ok=True)
        elif what == "deliver":
            _deliver(bank, dice, dice.choice([3, 100]))
        elif what == "settle":
            _settle(bank)
        elif what == "doubt":
            with bank.database.writing() as connection:
                outbox.doubt(connection, ARM)
        elif what == "begin":
            _begin(bank)
        elif what == "late":  # it is deleted while it is on its way
            _deliver(bank, dice, 100, path)
        elif what == "spoil":
            with bank.database.writing() as connection:
                outbox.spoil(connection, ARM, [f"notes/{path.name}"])
        else:  # files go missing together; they are there again by the next look
            with bank.database.writing() as connection:
                connection.execute("UPDATE memories SET is_gone = 1 WHERE number % 3 = 0")
            bank.look(_check)
            _settle(bank)
        bank.refresh(force_look=True)
        bank.look(_check)
    assert bank.look(partial(outbox.told, arm=ARM)) > 0
