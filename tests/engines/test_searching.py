"""What a search asks of an engine, and that nobody waits for it longer than patience (R21)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from retain.config import SETTINGS
from retain.index import database
from retain.index.database import PRAGMAS
from retain.index.engines import wire as wiring
from retain.index.engines.arm import EngineDown
from retain.index.engines.naming import Names
from retain.index.engines.wire import Wire
from retain.memory import Answer
from retain.search import remote
from retain.search.request import SearchRequest
from retain.search.search import search
from tests import indexes
from tests.engines.conftest import Servers
from tests.engines.contract import Bench
from tests.engines.machines import Machine, machine
from tests.engines.rows import ROWS
from tests.engines.servers import Odd, odd

PATIENCE = 0.5
HANG = 60.0  # seconds that only a hang meets


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Bench]:
    """A server of its own that takes no time to start; what is waited for is alike for all."""
    row = next(row for row in ROWS if row.product == "upstash")
    server = row.server(tmp_path)
    server.start()
    made = Bench(row, server, Names("own"))
    yield made
    made.close()
    server.kill()


class Waits:
    """How long the one who asks waited in vain, as told by the limits of each wait."""

    def __init__(self) -> None:
        self.in_vain: list[float | None] = []
        waits, asker = self, threading.get_ident()

        class Event(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:
                is_set = super().wait(timeout)
                if not is_set and threading.get_ident() == asker:
                    waits.in_vain.append(timeout)
                return is_set

        self.instead = SimpleNamespace(Event=Event, Thread=threading.Thread, Lock=threading.Lock)

    @property
    def total(self) -> float:
        assert None not in self.in_vain
        return sum(filter(None, self.in_vain))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """What this test's own thread waits for."""
    found = Waits()
    monkeypatch.setattr(wiring, "threading", found.instead)
    return found


def test_patience_leaves_time_for_an_answer_within_two_seconds() -> None:
    default = SETTINGS["engine.patience_ms"].default
    assert isinstance(default, int)
    assert default <= 1000


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_search_waits_for_a_silent_server_no_longer_than_patience(
    tmp_path: Path, hosted: Bench, waits: Waits, how: Odd, is_known: bool
) -> None:
    """The server never answers while this runs; what is added up are the limits of all waits."""
    with machine(tmp_path, hosted, patience=PATIENCE) as one:
        indexes.many(one.root, 20)
        one.push()
        asker = Machine(one.root, hosted, PATIENCE)
        wire = asker.engines.wires[one.part]
        if is_known:
            wire.insist(lambda _arm: None)  # which opens what a person asks by
        hosted.server.kill()
        with odd(how, urlsplit(hosted.server.address).port or 0):
            waits.in_vain.clear()
            answer = asker.ask("the lantern of memory 7")
        assert len(answer.hits) == 10
        assert "local index" in str(answer.degraded.reasons)
        loading = wire._opened_at - wire._loaded_from  # which is no server's time
        assert waits.total <= PATIENCE + loading
        asker.close()


def test_all_banks_of_a_search_share_one_patience(
    tmp_path: Path, hosted: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic() + 1000.0  # so that no client was loaded since
    with machine(tmp_path, hosted) as first, machine(tmp_path, hosted) as second:
        for number, one in enumerate((first, second)):
            one.write("notes/mine", f"# Lantern\n\nThe lantern of bank {number}.\n")
            one.push()
        monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: now))
        asked: list[float | None] = []
        ask = Wire.ask

        def slow(wire: Wire[Any], work: Any, seconds: float | None = None) -> Any:
            asked.append(seconds)
            answer = ask(wire, work, seconds)

            def later() -> Any:
                nonlocal now
                now += takes
                return answer()

            return later

        monkeypatch.setattr(Wire, "ask", slow)

        def searched() -> Answer:
            asked.clear()
            wanted = SearchRequest("the lantern", limit=10)
            answer = search([first.bank, second.bank], wanted)
            assert len(answer.hits) == 2
            return answer

        takes = 12.0
        assert not searched().degraded.reasons
        assert asked == [None, pytest.approx(18.0)]
        takes = 30.0
        (reason,) = searched().degraded.reasons
        assert "answered from the local index" in reason
        assert "engine.patience_ms" in reason
        assert asked == [None]


def test_a_server_that_had_less_time_than_usual_is_not_taken_for_silent(
    tmp_path: Path, hosted: Bench
) -> None:
    is_over = threading.Event()
    with machine(tmp_path, hosted, patience=HANG) as one:
        one.write("notes/mine", "# Lantern\n")
        one.push()
        wire = one.engines.wires[one.part]
        with pytest.raises(EngineDown, match=r"within 0\.05 seconds"):
            wire.ask(lambda _arm: is_over.wait(HANG), 0.05)()
        is_over.set()
        assert wire.trouble() is None
        assert wire.ask(lambda arm: arm.version())()


def test_finding_out_whether_anyone_is_there_is_a_part_of_patience(
    tmp_path: Path, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    is_over = threading.Event()

    def passes(seconds: float) -> str:
        nonlocal now
        now += seconds
        return ""

    class Slow:
        def load(self) -> None:
            passes(5.0)  # which nobody can blame the server for

    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    monkeypatch.setattr(wiring, "time", clock)
    monkeypatch.setattr(wiring, "_silence", lambda *_args: passes(0.75))
    bank = indexes.indexed(indexes.new(tmp_path / "bank"))
    wire: Wire[Slow] = Wire("text", "slow 127.0.0.1:9 b", lambda _: Slow(), bank.database, 1.0)  # type: ignore[type-var]
    with pytest.raises(EngineDown, match="did not answer within 1 seconds"):
        wire.ask(lambda _arm: is_over.wait(HANG))()
    is_over.set()
    assert waits.in_vain[-1] == pytest.approx(0.25)
    bank.close()


def _silenced(bench: Bench) -> None:
    bench.server.kill()


def _emptied(bench: Bench) -> None:
    bench.arm.drop()


def _settle(one: Machine) -> None:
    """Take in files until none is doubted: one that was just written is looked at once more."""
    while indexes.value(one.bank, "SELECT count(*) FROM folders WHERE signature = x''"):
        one.take_in()


@pytest.mark.parametrize("fails", [_silenced, _emptied])
def test_a_search_does_not_wait_until_what_went_wrong_can_be_noted(
    tmp_path: Path,
    hosted: Bench,
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[[Bench], None],
) -> None:
    for_ever = tuple(
        (name, 3_600_000 if name == "busy_timeout" else value) for name, value in PRAGMAS
    )
    with machine(tmp_path, hosted) as one:
        indexes.many(one.root, 20)
        one.push()
        _settle(one)
        fails(hosted)
        monkeypatch.setattr(database, "PRAGMAS", for_ever)
        monkeypatch.setattr(database, "WAIT_SECONDS", 3600.0)
        asker = Machine(one.root, hosted)
        asker.engines.wires[one.part].insist(lambda _arm: None)
        answers: list[Answer] = []
        search = threading.Thread(target=lambda: answers.append(asker.ask("the lantern")))
        with indexes.plain(one.root) as other:
            other.execute("BEGIN IMMEDIATE")
            search.start()
            search.join(HANG)
            is_answered = bool(answers)
            other.execute("ROLLBACK")
        search.join(HANG)
        assert is_answered
        assert len(answers[0].hits) == 10
        assert answers[0].degraded.reasons
        asker.close()


def test_what_could_not_be_noted_is_known_to_this_process_and_noted_later(
    tmp_path: Path, hosted: Bench
) -> None:
    def fails(_arm: object) -> None:
        raise EngineDown("It is down.")

    with machine(tmp_path, hosted) as one:
        indexes.many(one.root, 3)
        one.push()
        wire = one.engines.wires[one.part]
        another = Machine(one.root, hosted)
        others = another.engines.wires[one.part]
        with indexes.plain(one.root) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(EngineDown):
                wire.insist(fails)
            other.execute("ROLLBACK")
        trouble = wire.trouble()
        assert trouble is not None
        assert (trouble.why, trouble.tries) == ("It is down.", 1)
        assert others.trouble() is None
        with pytest.raises(EngineDown):
            wire.insist(fails)
        known = others.trouble()
        assert known is not None
        assert known.tries == 2
        wire.insist(lambda _arm: None)
        assert (wire.trouble(), others.trouble()) == (None, None)
        another.close()


@pytest.mark.slow
def test_a_question_without_a_known_word_is_no_question_to_an_engine(
    tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for row in ROWS if row.kind == "text")
    bench = Bench(row, servers.of(row), Names(f"unasked{os.getpid()}"))
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 5)
        one.push()
        wire = one.engines.wires[one.part]
        asked: list[object] = []
        ask = wire.ask

        def counted(work: Callable[..., object], *args: float) -> Callable[[], object]:
            asked.append(work)
            return ask(work, *args)

        monkeypatch.setattr(wire, "ask", counted)
        answer = one.ask("xylophone")
        assert not asked
        assert not answer.degraded.reasons
        one.ask("lantern")
        assert len(asked) == 1
    bench.end()
