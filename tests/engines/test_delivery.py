"""A bank and an engine kept in step: by one machine or several, through kills and silence."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from retain.index import database, rows
from retain.index.engines import locating, outbox
from retain.index.engines.arm import EngineDown, EngineError
from retain.index.engines.checking import Drift, compared
from retain.index.engines.delivery import mistrust
from retain.index.engines.naming import Names
from tests import indexes
from tests.engines.contract import MODEL, Bench, Row
from tests.engines.machines import Machine, machine
from tests.engines.rows import ROWS

pytestmark = pytest.mark.slow


def _drift(one: Machine) -> Drift:
    held = one.engines.wires[one.part].insist(lambda arm: list(arm.manifest()), 60)
    model = MODEL if one.part == "vector" else ""
    return one.bank.look(
        partial(compared, arm=one.key, held=held, model=model, is_alone=one.is_alone)
    )


def _waiting(one: Machine) -> int:
    return one.bank.look(partial(outbox.left, arm=one.key))


def test_what_was_written_is_told_and_what_is_told_is_not_told_again(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 30)
        assert one.push().sent == 30
        assert _drift(one).total == 0
        assert one.push().settled == 0
        one.write("notes/m003", "# Other\n\nAnother text altogether.\n")
        (one.root / "notes/m005.md").unlink()
        done = one.push()
        assert (done.sent, done.removed, done.left) == (1, 1, 0)
        assert _drift(one).total == 0
        assert "notes/m005" not in one.names("lantern", 50)


def test_an_engine_gives_what_the_embedded_arm_gives(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 300)
        one.push()
        wire = one.engines.wires[one.part]
        ask, asked = wire.ask, list[object]()

        def counted(work: Any, *args: Any) -> Any:
            asked.append(work)
            return ask(work, *args)

        monkeypatch.setattr(wire, "ask", counted)
        embedded = indexes.indexed(one.root, one.bank.embedder)
        overlaps = []
        for number in range(0, 300, 15):
            question = f"the lantern {indexes.word(number)} of memory {number}"
            here = [
                (hit.collection, hit.id) for hit in indexes.ask(embedded, question, limit=10).hits
            ]
            answer = one.ask(question)
            # The bank itself would give the same: without the engine this says nothing.
            assert not answer.degraded.reasons
            there = [(hit.collection, hit.id) for hit in answer.hits]
            overlaps.append(len(set(here) & set(there)) / len(here))
            assert here[0] == there[0]
        embedded.close()
        assert len(asked) == len(overlaps)
        if one.part == "vector":  # engines for words rank in their own way
            assert sum(overlaps) / len(overlaps) >= 0.95


def test_what_was_just_written_is_found_before_the_engine_knows_of_it(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 40)
        one.push()
        one.write("notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        one.take_in()
        assert _waiting(one) == 1
        assert one.names("zeppelin at noon")[0] == "notes/new"
        assert not one.ask("zeppelin at noon").degraded.reasons


def test_an_engine_that_was_told_nothing_is_not_believed(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 40)
        one.push()
    fresh = Bench(bench.row, bench.server, Names(f"{bench.names.prefix[:12]}x"))
    again = Machine(one.root, fresh)  # as if the address had been changed
    try:
        assert again.names("lantern of memory 7", 50) == _embedded(again, "lantern of memory 7")
        assert not again.ask("lantern of memory 7").degraded.reasons
    finally:
        again.close()
        fresh.end()


def _embedded(one: Machine, query: str) -> list[str]:
    """What the bank's own index finds."""
    embedded = indexes.indexed(one.root, one.bank.embedder)
    try:
        found = indexes.ask(embedded, query, limit=50).hits
        return [f"{hit.collection}/{hit.id}" for hit in found]
    finally:
        embedded.close()


def test_an_engine_that_is_gone_costs_nobody_an_answer_or_a_memory(
    tmp_path: Path, own: Bench
) -> None:
    with machine(tmp_path, own) as one:
        indexes.many(one.root, 30)
        one.push()
        own.server.kill()
        one.write("notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        one.take_in()
        answer = one.ask("zeppelin at noon")
        assert answer.hits[0].id == "new"
        assert any("local index" in reason for reason in answer.degraded.reasons)
        with pytest.raises(EngineError):
            one.sender.push()
        own.server.start()
        assert one.push().sent == 1
        assert _drift(one).total == 0
        assert not one.ask("zeppelin at noon").degraded.reasons


Moment = Literal["before", "during", "after"]


def _push_until_killed(root: str, bench: Bench, number: int, moment: Moment) -> None:
    """Deliver, and be killed at the n-th request: before it, in its midst, or once it is done."""
    one = Machine(Path(root), bench)
    wire = one.engines.wires[one.part]
    insist, asked = wire.insist, itertools.count(1)

    def counted(work: Any, *args: Any) -> Any:
        is_last = next(asked) == number
        if is_last and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if is_last and moment == "during":
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which kills
            signal.setitimer(signal.ITIMER_REAL, 0.005)
        found = insist(work, *args)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    wire.insist = counted  # type: ignore[method-assign, assignment]
    one.push()


def test_a_delivery_that_is_killed_goes_on_where_it_stopped(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 120)
        one.take_in()
        bench.arm.load()  # here, or each of those below would spend seconds on it
        moments: list[Moment] = ["before", "during", "after"]
        for number, moment in itertools.product((1, 2), moments):
            one.write(f"notes/{number}-{moment}", "# New\n\nThe zeppelin lands at noon.\n")
            one.take_in()
            # A process of its own, so that it can be killed in the middle of anything.
            child = multiprocessing.get_context("fork").Process(
                target=_push_until_killed, args=(str(one.root), bench, number, moment)
            )
            child.start()
            child.join()
            assert child.exitcode in (-signal.SIGKILL, -signal.SIGALRM)
        assert _waiting(one)  # it never came to its end
        one.push()
        drift = _drift(one)
        assert (drift.total, drift.memories) == (0, 126)


def test_two_machines_agree_on_the_last_writer(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        text = "---\nupdated_at: 2026-01-0{}T00:00:00Z\n---\n# Tea\n\n{} tea.\n"
        one.write("notes/tea", text.format(1, "Green"))
        one.push()
        two.write("notes/tea", text.format(3, "Black"))
        assert two.push().sent == 1
        one.write("notes/tea", text.format(2, "White"))  # written before, told of later
        done = one.push()
        assert (done.sent, done.ahead) == (0, 1)
        assert _drift(two).total == 0
        assert _drift(one).ahead == ("notes/tea.md",)
        assert one.push().settled == 0  # and it is not tried over and over


def test_what_one_machine_deletes_no_other_brings_back(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        for each in (one, two):
            indexes.many(each.root, 3)
            each.push()
        (one.root / "notes/m001.md").unlink()
        assert one.push().removed == 1
        two.sender.forget(["notes/m001.md"])  # as if it had never been told of
        assert two.push().ahead == 1
        assert _drift(one).total == 0


def test_the_mark_of_a_deleted_memory_is_not_kept_for_ever(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        for each in (one, two):
            indexes.many(each.root, 3)
            each.push()
        (one.root / "notes/m001.md").unlink()
        one.push()
        assert one.sender.prune() == 0  # it is kept long enough for all to hear of it
        assert two.sender.prune(age=-5.0) == 1
        assert one.sender.prune(age=-5.0) == 0  # which forgets that it has told of it
        assert "notes/m001.md" not in bench.manifest()
        assert _drift(one).total == 0
        # Who was away all the time has it still: it is found there, and here it is not.
        two.sender.forget(["notes/m001.md"])
        assert two.push().sent == 1
        assert not (one.root / "notes/m001.md").exists()
        assert _drift(one).elsewhere == ("notes/m001.md",)
        assert "notes/m001" not in one.names("lantern", 10)


def test_what_another_machine_has_alone_is_left_alone(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        indexes.many(one.root, 5)
        one.push()
        two.write("notes/m001", (one.root / "notes/m001.md").read_text(encoding="utf-8"))
        done = two.push()
        assert (done.sent, done.removed, done.known) == (0, 0, 0)  # learnt when they met
        assert len(_drift(two).elsewhere) == 4
        assert _drift(one).total == 0


def test_an_index_that_is_made_anew_sends_nothing_twice(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 20)
        one.push()
    shutil.rmtree(indexes.state(one.root), ignore_errors=True)
    again = Machine(one.root, bench)
    try:
        assert again.push().sent == 0
        assert _drift(again).total == 0
    finally:
        again.close()


def test_a_memory_that_is_newer_there_is_found_here_as_it_is_here(
    tmp_path: Path, bench: Bench
) -> None:
    text = "---\nupdated_at: 2026-01-0{}T00:00:00Z\n---\n# Tea\n\n{}\n"
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        for each in (one, two):
            indexes.many(each.root, 3)
            each.write("notes/tea", text.format(1, "A zeppelin of green leaves."))
            each.push()
        two.write("notes/tea", text.format(3, "A zeppelin over black mountains."))
        two.push()
        # One has not been told of it, and its text has not changed.
        assert one.names("zeppelin green leaves")[0] == "notes/tea"
        one.write("notes/tea", text.format(2, "A dirigible of white leaves."))
        assert one.push().ahead == 1
        assert one.names("dirigible of white")[0] == "notes/tea"
        assert not one.ask("dirigible of white").degraded.reasons


def test_what_was_deleted_and_came_back_is_found(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        text = "---\nupdated_at: 2026-01-01T00:00:00Z\n---\n# Air\n\nA zeppelin at noon.\n"
        path = one.write("notes/air", text)
        one.push()
        path.unlink()
        assert one.push().removed == 1
        one.write("notes/air", text)  # as it was, date and all
        one.push()
        assert one.names("zeppelin at noon")[0] == "notes/air"


def test_a_deletion_counts_whatever_the_clocks_say(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        head = "---\nupdated_at: 9999-01-01T00:00:00Z\n---\n"
        path = one.write("notes/late", f"{head}# Late\n\nA zeppelin at noon.\n")
        one.push()
        path.unlink()
        assert one.push().removed == 1
        held = one.engines.wires[one.part].insist(lambda arm: arm.held(["notes/late.md"]), 60)
        assert held["notes/late.md"].is_grave


def test_a_server_that_lost_everything_is_not_believed_and_told_again(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        for each in (one, two):
            indexes.many(each.root, 5)
            each.push()
        one.engines.wires[one.part].insist(lambda arm: arm.drop(), 60)
        answer = two.ask("lantern")
        assert answer.hits
        assert any("lost what it was told" in reason for reason in answer.degraded.reasons)
        assert two.sender.waits(for_vectors=False)
        assert two.push().sent == 5
        assert not two.ask("lantern").degraded.reasons
        assert _drift(two).total == 0


def test_an_engine_that_is_half_filled_is_not_believed_to_know_all(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 5)
        one.push()
        assert one.bank.look(partial(locating.unknown, arm=one.key)) == []
        one.sender.forget(["notes/m001.md"])
        assert one.bank.look(partial(locating.unknown, arm=one.key)) != []


DATED = "---\nupdated_at: 2026-01-0{}T00:00:00Z\n---\n# {}\n\n{}\n"


def test_a_text_that_a_person_changes_by_hand_is_told_whatever_its_date(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        for number in range(8):
            one.write(f"notes/h{number}", DATED.format(2, "By hand", f"As it was, {number}."))
        one.push()
        for number in range(8):  # of some the hash is lower than before, of others it is not
            one.write(f"notes/h{number}", DATED.format(2, "By hand", f"A zeppelin, {number}."))
        assert one.push().sent == 8
        for number in range(8):  # as when an older text is checked out
            one.write(f"notes/h{number}", DATED.format(1, "By hand", f"A dirigible, {number}."))
        done = one.push()
        assert (done.sent, done.ahead, _drift(one).total) == (8, 0, 0)
        assert one.names("dirigible", 3)[0].startswith("notes/h")
        (one.root / "notes/h3.md").unlink()
        assert one.push().removed == 1
        assert "notes/h3.md" not in _held(bench)


def test_what_was_deleted_and_brought_back_is_told_again(tmp_path: Path, bench: Bench) -> None:
    text = DATED.format(1, "Air", "A zeppelin at noon.")
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        path = one.write("notes/air", text)
        one.push()
        path.unlink()
        assert one.push().removed == 1
        one.write("notes/air", text)  # as it was, date and all
        done = one.push()
        assert (done.sent, done.ahead) == (1, 0)
        assert "notes/air.md" in _held(bench)
        path.unlink()
        assert one.push().removed == 1


def test_a_server_that_comes_back_from_an_older_copy_is_told_again_what_was_deleted(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        one.take_in()
        with one.bank.database.reading() as connection:
            numbers = [n for (n,) in connection.execute("SELECT number FROM memories")]
            groups = outbox.pieces(connection, bench.names, numbers, one.sender_model)
            old = [piece for group in groups for piece in group]
        one.push()
        (one.root / "notes/m001.md").unlink()
        one.push()
        assert _held(bench) == {"notes/m000.md", "notes/m002.md"}
        bench.arm.drop()
        bench.arm.ready(["notes"])
        bench.arm.put(old)
        assert _drift(one).undead == ("notes/m001.md",)
        with one.bank.database.writing() as connection:
            mistrust(connection, one.key)
        one.push()
        assert _held(bench) == {"notes/m000.md", "notes/m002.md"}


def test_what_another_machine_deleted_is_found_here_once_it_is_known(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        for each in (one, two):
            indexes.many(each.root, 4)
            each.write("notes/air", DATED.format(1, "Air", "A zeppelin at noon."))
            each.push()
        (one.root / "notes/air.md").unlink()
        one.push()
        two.sender.manifest()
        assert two.names("zeppelin at noon")[0] == "notes/air"
        assert _drift(two).ahead == ("notes/air.md",)
        two.sender.claim(["notes/air.md"])  # a person says that it is to stay
        assert two.push().sent == 1
        assert "notes/air.md" in _held(bench)
        assert _drift(one).elsewhere == ("notes/air.md",)  # which is not deleted once more


def test_a_witness_that_another_machine_has_changed_is_noted_and_nothing_else_is_asked_for(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        for each in (one, two):
            indexes.many(each.root, 4)
            each.push()
        one.write("notes/m001", "# Other\n\nAnother text altogether.\n")
        one.push()
        read: list[bool] = []
        monkeypatch.setattr(two.sender, "_learn", lambda: read.append(True))
        two.push()  # of so few every one is a witness
        assert not read
        assert two.bank.look(partial(outbox.ahead, arm=two.key)) == 1
        assert _drift(two).ahead == ("notes/m001.md",)
        assert two.names(f"lantern {indexes.word(1)}", 3)[0] == "notes/m001"


def test_a_server_that_was_emptied_on_purpose_is_filled_and_asked_again(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        one.push()
        one.engines.wires[one.part].insist(lambda arm: arm.drop(), 60)
        with one.bank.database.writing() as connection:
            outbox.forget(connection, one.key)
        assert one.push().sent == 3
        assert one.bank.look(partial(outbox.told, arm=one.key)) == 3
        assert one.bank.look(partial(outbox.is_met, arm=one.key))


def _killed_before_it_is_noted(one: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server hears everything, and nobody here hears that it did."""

    class Killed(Exception):
        pass

    mark = outbox.mark

    def killed(
        connection: sqlite3.Connection, arm: str, given: Mapping[str, str], gone: Iterable[str]
    ) -> None:
        if not all(note.startswith(outbox.BEGUN) for note in given.values()):
            raise Killed
        mark(connection, arm, given, gone)

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "mark", killed)
        with pytest.raises(Killed):
            one.push()


def test_what_is_deleted_after_an_answer_was_lost_is_deleted_there_too(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        one.push()
        paths = [one.write("notes/m001", "# Other\n\nAnother text altogether.\n")]
        paths.append(one.write("notes/new", "# New\n\nNobody has heard of it.\n"))
        _killed_before_it_is_noted(one, monkeypatch)
        assert "notes/new.md" in bench.manifest()
        for path in paths:
            path.unlink()
        assert one.push().removed == 2
        drift = _drift(one)
        assert (drift.total, drift.elsewhere) == (0, ())


def test_what_is_deleted_while_it_is_on_its_way_is_deleted_there_too(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        one.take_in()
        begin = outbox.begin

        def deleted(connection: sqlite3.Connection, arm: str, told: Mapping[str, str]) -> None:
            begin(connection, arm, told)
            for (number,) in connection.execute(_NUMBER).fetchall():
                rows.delete_memory(connection, number)

        with monkeypatch.context() as patch:
            patch.setattr(outbox, "begin", deleted)
            one.sender.push()
        (one.root / "notes/m001.md").unlink()
        one.push()
        assert _drift(one).total == 0
        assert _held(bench) == {"notes/m000.md", "notes/m002.md"}


_NUMBER = "SELECT number FROM memories WHERE file = 'm001.md'"


def _held(bench: Bench) -> set[str]:
    return {name for name, held in bench.manifest().items() if not held.is_grave}


def test_what_is_deleted_after_a_meeting_is_deleted_there_too(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        one.push()
        path = one.write("notes/m001", "# Other\n\nAnother text altogether.\n")
        one.take_in()
        with one.bank.database.writing() as connection:
            mistrust(connection, one.key)
        one.sender.push(is_stopped=lambda: True)  # they meet, and no more than that
        path.unlink()
        assert one.push().removed == 1
        assert _held(bench) == {"notes/m000.md", "notes/m002.md"}


def test_what_is_deleted_while_another_server_is_asked_is_deleted_there_too(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 3)
        one.push()
        (one.root / "notes/m001.md").unlink()
        elsewhere = Bench(bench.row, bench.server, Names("another-server"))
        moved = Machine(one.root, elsewhere)
        try:
            moved.push()
            assert _held(elsewhere) == {"notes/m000.md", "notes/m002.md"}
        finally:
            moved.close()
            elsewhere.end()
        assert one.push().removed == 1  # and back again
        assert _held(bench) == {"notes/m000.md", "notes/m002.md"}


def test_files_that_are_missing_together_are_no_drift(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 40)
        one.push()
        for path in (one.root / "notes").glob("m*.md"):
            path.unlink()  # as when a disk is not there
        one.push()
        drift = _drift(one)
        assert (drift.total, drift.memories) == (0, 0)


def test_an_engine_that_is_ahead_of_too_much_is_not_asked_and_that_is_said(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "---\nupdated_at: 2026-01-0{}T00:00:00Z\n---\n# Tea\n\nA lantern, number {}.\n"
    monkeypatch.setattr(locating, "FEW", 2)
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        for number in range(4):
            one.write(f"notes/t{number}", text.format(1, number))
            two.write(f"notes/t{number}", text.format(3, number + 10))
        two.push()
        one.push()
        answer = one.ask("lantern")
        assert answer.hits
        assert any("something newer of 4 memories" in why for why in answer.degraded.reasons)


def test_a_delivery_that_fails_is_told_until_one_succeeds(tmp_path: Path, own: Bench) -> None:
    with machine(tmp_path, own) as one:
        indexes.many(one.root, 5)
        one.push()
        wire = one.engines.wires[one.part]
        own.server.kill()
        one.write("notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        one.take_in()
        for _ in range(2):
            with pytest.raises(EngineError):
                one.sender.push()
        own.server.start()
        wire.insist(lambda arm: arm.version(), 60)
        assert wire.trouble() is None
        told = wire.delivery()
        assert told is not None
        assert told.tries == 2
        one.push()
        assert wire.delivery() is None


def test_what_was_deleted_before_a_server_is_met_again_is_deleted_there(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 5)
        one.push()
        (one.root / "notes/m001.md").unlink()
        one.take_in()
        with one.bank.database.writing() as connection:
            mistrust(connection, one.key)
        assert one.push().removed == 1
        assert _drift(one).total == 0
        assert not _drift(one).elsewhere


def test_a_server_that_lost_some_of_it_is_told_that_again(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 30)
        one.push()
        some = [f"notes/m{number:03}.md" for number in range(20, 30)]
        one.engines.wires[one.part].insist(lambda arm: arm.remove(some), 60)
        assert one.push().sent == 10
        assert _drift(one).total == 0


def test_a_lock_that_cannot_be_used_is_named(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 2)
        one.take_in()
        lock = Path(one.bank.database.path).with_name("engine.lock")
        lock.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(EngineError, match=r"engine\.lock"):
            one.sender.push()
        told = one.engines.wires[one.part].delivery()
        assert told is not None
        assert "engine.lock" in told.why
        assert not (tmp_path / "elsewhere").exists()


# An index or an address that is not what it was

_ONE = pytest.mark.parametrize("row", ROWS[-1:], ids=lambda row: row.name)
_BESIDE = "http://127.0.0.1:1"  # a second address, at which nobody need be


def _changed_unseen(one: Machine) -> None:
    """A memory deleted, and others edited by hand, while the server is away."""
    (one.root / "notes/m001.md").unlink()
    for number in range(2, 10):
        one.write(f"notes/m{number:03}", DATED.format(1, "Other", f"A zeppelin, number {number}."))
    one.take_in()


def _filled(one: Machine) -> None:
    for number in range(10):
        one.write(f"notes/m{number:03}", DATED.format(1, "Old", f"A lantern, number {number}."))
    one.push()


@_ONE
@pytest.mark.parametrize("address", ["", _BESIDE])
def test_in_a_bank_of_its_own_everything_is_its_own_though_the_notes_are_gone(
    tmp_path: Path, bench: Bench, address: str
) -> None:
    root = indexes.new(tmp_path / "alone")
    one = Machine(root, bench, is_alone=True)
    _filled(one)
    _changed_unseen(one)
    one.close()
    if not address:
        shutil.rmtree(indexes.state(root))
    again = Machine(root, bench, is_alone=True, address=address)
    try:
        again.take_in()
        drift = _drift(again)
        assert (drift.undead, len(drift.differing)) == (("notes/m001.md",), 8)
        done = again.push()
        assert (done.sent, done.removed, done.ahead) == (8, 1, 0)
        assert _drift(again).total == 0
        assert set(_held(bench)) == set(SOME)
    finally:
        again.close()


SOME = [f"notes/m{number:03}.md" for number in range(10) if number != 1]


@_ONE
def test_an_index_that_is_yet_to_be_filled_has_nothing_deleted(
    tmp_path: Path, bench: Bench
) -> None:
    root = indexes.new(tmp_path / "alone")
    one = Machine(root, bench, is_alone=True)
    _filled(one)
    one.close()
    shutil.rmtree(indexes.state(root))
    again = Machine(root, bench, is_alone=True)
    try:
        assert _waiting(again) == 0
        assert again.sender.push().removed == 0
        assert len(_held(bench)) == 10
        assert again.push().sent == 0  # what the files say is there
    finally:
        again.close()


@_ONE
def test_what_was_told_at_another_address_is_known_there_too(tmp_path: Path, bench: Bench) -> None:
    with machine(tmp_path, bench) as one, machine(tmp_path, bench) as two:
        _filled(one)
        two.write("notes/theirs", DATED.format(1, "Theirs", "A zeppelin of theirs."))
        two.push()
        _changed_unseen(one)
        one.close()
        again = Machine(one.root, bench, address=_BESIDE)
        done = again.push()
        assert (done.sent, done.removed, done.ahead) == (8, 1, 0)
        assert _drift(again).total == 0
        assert _drift(again).elsewhere == ("notes/theirs.md",)
        again.close()


@_ONE
def test_what_is_known_of_a_server_is_written_only_where_it_changes(
    tmp_path: Path, bench: Bench
) -> None:
    with machine(tmp_path, bench) as one:
        _filled(one)
        with one.bank.database.writing() as connection:
            connection.execute("UPDATE delivered SET hash = 'x' WHERE file = 'm003.md'")
            before = connection.total_changes
        one.sender.manifest()
        with one.bank.database.reading() as connection:
            assert connection.total_changes - before < 5  # that memory, and when it was asked
        assert _waiting(one) == 0


@_ONE
def test_marks_that_cannot_be_removed_keep_no_delivery_from_its_end(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def prune() -> int:
        tries.append(1)
        raise EngineDown("it takes too long")

    with machine(tmp_path, bench) as one:
        _filled(one)
        monkeypatch.setattr(one.sender, "prune", prune)
        with one.bank.database.writing() as connection:
            database.set_fact(connection, f"engine:{one.key}:swept", 1)  # long ago
        one.write("notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        assert one.push().sent == 1
        assert tries
        assert one.engines.wires[one.part].delivery() is None
        one.push()
        assert len(tries) == 1  # which is not tried over and over


# A server that ends, or is full, in the middle


def test_a_server_that_is_killed_in_the_middle_of_a_delivery_is_told_the_rest(
    tmp_path: Path, own: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retain.index.engines.delivery._BATCH", 40)
    killing = threading.Thread(target=own.server.kill)

    def kill(_done: int, _of: int) -> None:
        if killing.ident is None:
            killing.start()  # which ends it while the next batch is on its way
        else:
            killing.join()  # or before the one after that

    with machine(tmp_path, own) as one:
        indexes.many(one.root, 200)
        one.take_in()
        with pytest.raises(EngineError):
            one.sender.push(progress=kill)
        killing.join()
        assert 0 < _waiting(one) < 200
        own.server.start()
        assert one.push().left == 0
        drift = _drift(one)
        assert (drift.total, drift.memories, drift.elsewhere) == (0, 200, ())
        assert len(_held(own)) == 200
        for number in range(0, 200, 25):
            name = f"notes/m{number:03}"
            assert name in one.names(f"the lantern {indexes.word(number)} of memory {number}")
        assert not one.ask("lantern").degraded.reasons


@pytest.mark.parametrize("row", ROWS[2:4], ids=lambda row: row.name)
def test_a_server_whose_disk_is_full_is_named_and_told_when_there_is_room(
    tmp_path: Path, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _small_disk("128m") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))  # where Postgres has its data
        server = row.server(tmp_path)
        server.start()
        bench = Bench(row, server, Names("own"))
        try:
            with machine(tmp_path, bench) as one:
                _filled(one)
                ballast = disk / "ballast"
                _fill_up(ballast)
                indexes.many(one.root, 400, "more")
                one.take_in()
                with pytest.raises(EngineError):
                    one.sender.push()
                told = one.engines.wires[one.part].delivery()
                assert told is not None
                assert "53100" in told.why
                assert "o space left" in told.words
                assert _waiting(one) > 0
                assert one.names(f"the lantern {indexes.word(399)}")  # and nobody goes without
                ballast.unlink()
                assert one.push().left == 0
                drift = _drift(one)
                assert (drift.total, drift.memories) == (0, 410)
                assert one.engines.wires[one.part].delivery() is None
        finally:
            bench.close()
            server.kill()


@contextmanager
def _small_disk(size: str) -> Iterator[Path]:
    """A real file system that others may look into as well."""
    folder = Path(tempfile.mkdtemp(prefix="retain-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
    try:
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("mounting is not permitted here: a full server is not tested")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


def _fill_up(path: Path) -> None:
    """Leave less room than a table takes to grow."""
    with path.open("wb") as stream, suppress(OSError):
        while True:
            stream.write(bytes(65536))
            stream.flush()
