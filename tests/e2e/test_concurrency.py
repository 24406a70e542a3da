"""Many processes on one bank: nobody fails, nobody's text vanishes."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from retain.bank import files
from retain.bank.files import Directory, WriteTransaction
from retain.errors import NotSaved
from tests import crash

pytestmark = pytest.mark.slow

WRITERS = 4
ROUNDS = 100

Write = Callable[[Path, str], object]


def _update(root: Path, text: str) -> object:
    return crash.open_bank(root).update("shared", text).status


def _put(root: Path, text: str) -> object:
    return crash.open_bank(root).put(text, id="shared").status


def _many(write: Write, root: Path, writer: int) -> None:
    for number in range(ROUNDS):
        write(root, f"writer {writer} wrote {number}\n" + f"{writer}" * 5000)


@pytest.mark.parametrize("write", [_update, _put])
def test_four_processes_writing_one_memory_all_succeed(tmp_path: Path, write: Write) -> None:
    root = tmp_path / "bank"
    crash.new_bank(root).put("start", id="shared")
    works = [partial(_many, write, root, writer) for writer in range(WRITERS)]
    assert [outcome.message for outcome in crash.together(works)] == [""] * WRITERS
    memory = crash.open_bank(root).get("shared")
    writer = memory.body.split()[1]
    assert memory.body.startswith(f"writer {writer} wrote {ROUNDS - 1}\n")
    assert memory.body.endswith(writer * 5000)
    assert crash.leftovers(root) == []
    assert len(crash.open_bank(root).bank.versions(memory)) == 10
    assert not [name for name in crash.files(root / ".trash") if name.endswith(".md")]


def test_of_two_updates_with_one_expected_hash_one_wins(tmp_path: Path) -> None:
    root = tmp_path / "bank"
    app = crash.new_bank(root)
    app.put("start", id="shared")
    for turn in range(20):
        seen = app.get("shared").hash
        texts = (f"left {turn}", f"right {turn}")
        works = [
            partial(crash.open_bank(root).update, "shared", text, expect=seen) for text in texts
        ]
        outcomes = crash.together([lambda work=work: work().status for work in works])  # type: ignore[misc]
        assert sorted(outcome.code for outcome in outcomes) == ["", "conflict"]
        won = texts[[outcome.code for outcome in outcomes].index("")]
        assert app.get("shared").body.strip() == won
        (lost,) = set(texts) - {won}
        assert any(lost.encode() in data for data in crash.files(root / ".trash").values())


def test_twenty_parallel_appends_are_all_there_once(tmp_path: Path) -> None:
    root = tmp_path / "bank"
    crash.new_bank(root).put("start", id="shared")

    def append(number: int) -> None:
        crash.open_bank(root).append("shared", f"<entry {number}>")

    outcomes = crash.together([partial(append, number) for number in range(20)])
    assert [outcome.message for outcome in outcomes] == [""] * 20
    body = crash.open_bank(root).get("shared").body
    assert [body.count(f"<entry {number}>") for number in range(20)] == [1] * 20


def test_parallel_creates_of_one_name_have_one_winner(tmp_path: Path) -> None:
    root = tmp_path / "bank"
    app = crash.new_bank(root)

    def create(number: int) -> None:
        app.bank.create("memories", "one", f"text {number}".encode())

    outcomes = crash.together([partial(create, number) for number in range(8)])
    assert sorted(outcome.code for outcome in outcomes) == [""] + ["conflict"] * 7
    assert crash.memories(root).keys() == {"memories/one.md"}


def test_readers_see_only_whole_texts_while_others_write(tmp_path: Path) -> None:
    root = tmp_path / "bank"
    crash.new_bank(root).put("0" * 5000, id="shared")

    def write(digit: str) -> None:
        for _ in range(40):
            crash.open_bank(root).update("shared", digit * 5000)

    def read() -> set[str]:
        bodies = (crash.open_bank(root).get("shared").body for _ in range(200))
        return {body.strip() for body in bodies}

    *_, seen = crash.together([partial(write, "1"), partial(write, "2"), read])
    assert not seen.message
    assert {len(body) for body in seen.value} == {5000}
    assert {len(set(body)) for body in seen.value} == {1}


def test_listing_goes_on_while_memories_come_and_go(tmp_path: Path) -> None:
    root = tmp_path / "bank"
    crash.new_bank(root).put("stays", id="stays")

    def churn(name: str) -> None:
        for number in range(25):
            crash.open_bank(root).put("x", id=f"{name}-{number}")
            crash.open_bank(root).delete(f"{name}-{number}")

    def look() -> list[str]:
        wrong: list[str] = []
        for _ in range(100):
            app = crash.open_bank(root)
            problems: list[object] = []
            if "stays" not in [memory.id for memory in app.list(problems=problems)]:  # type: ignore[arg-type]
                wrong.append("missing")
            app.trashed()
            wrong += map(str, problems)
        return wrong

    outcomes = crash.together([partial(churn, "a"), partial(churn, "b"), look])
    assert [outcome.message for outcome in outcomes] == ["", "", ""]
    assert outcomes[2].value == []


def _held(root: Path) -> None:
    with Directory.open(str(root)) as directory, WriteTransaction.open(directory, str(root)):
        (root / "held").touch()
        signal.pause()


def test_lock_of_a_killed_holder_is_free(tmp_path: Path) -> None:
    root = tmp_path / "bank"
    app = crash.new_bank(root)
    holder = crash.Child(partial(_held, root))
    while not (root / "held").exists():
        pass
    waiting = crash.Child(lambda: app.put("waited", id="waited").status)
    holder.kill()
    assert waiting.outcome().value == "created"
    assert holder.outcome().signal


def test_held_lock_gives_busy_after_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "bank"
    app = crash.new_bank(root)
    app.put("kept", id="kept")
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    fd = os.open(root, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    refused = crash.in_child(lambda: app.update("kept", "new"))
    os.close(fd)
    assert (refused.code, "0.1 seconds" in refused.message) == ("busy", True)
    assert app.get("kept").body == "kept"
    assert app.update("kept", "new").status == "updated"


def test_deleting_the_trash_while_others_write_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "bank"
    crash.new_bank(root).put("start", id="shared")

    def write(writer: int) -> list[str]:
        """The entries that were acknowledged; one that was refused is tried again."""
        done: list[str] = []
        for number in range(30):
            entry = f"<{writer}.{number}>"
            while len(done) <= number:
                try:
                    crash.open_bank(root).append("shared", entry)
                except NotSaved:
                    continue
                done.append(entry)
        return done

    def wreck() -> None:
        for _ in range(1500):
            shutil.rmtree(root / ".trash", ignore_errors=True)

    outcomes = crash.together([*(partial(write, writer) for writer in range(3)), wreck])
    assert [outcome.message for outcome in outcomes] == [""] * 4
    body = crash.open_bank(root).get("shared").body
    acknowledged = [entry for outcome in outcomes[:3] for entry in outcome.value]
    assert len(acknowledged) == 90
    assert [entry for entry in acknowledged if body.count(entry) != 1] == []
