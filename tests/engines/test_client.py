"""Nobody waits for a server longer than was said, nor again at once after it failed (R21)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retain.config import SETTINGS
from retain.index.engines import client as clients
from retain.index.engines.client import Breaker, Client
from retain.index.engines.engine import EngineDown, EngineError, EngineRefused
from tests import indexes
from tests.engines.conftest import EXAMPLES, Bench, document, in_memory
from tests.engines.machines import Machine, fail

FOREVER = 600.0
QUESTION = f"Memory 7: The harbour has a lantern called {indexes.word(7)}."


class Clock:
    """A clock that stands still unless it is moved."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(clients, "time", found)
    return found


@pytest.fixture
def silence() -> Iterator[threading.Event]:
    """What a silent server waits for."""
    found = threading.Event()
    yield found
    found.set()


def _client(patience: float = FOREVER, address: str = "nowhere") -> Client:
    return Client("text", "example", address, "x-retain", lambda _: in_memory("x-retain"), patience)


def test_patience_leaves_time_for_an_answer_within_two_seconds() -> None:
    default = SETTINGS["engine.patience_ms"].default
    assert isinstance(default, int)
    assert default <= 1000


def test_an_answer_is_passed_on_and_an_error_raised() -> None:
    client = _client()
    assert client.call(lambda engine: engine.version()) == "1.0"
    assert client.ask(lambda engine: engine.count())() == 0
    with pytest.raises(EngineDown, match="is down"):
        client.call(lambda _: fail())
    with pytest.raises(EngineDown, match="is down"):  # and it is not asked again at once
        client.call(lambda engine: engine.version())


def test_what_no_adapter_expected_is_the_servers_fault_and_shows_nothing() -> None:
    def unexpected(_: Any) -> None:
        raise ValueError("sk-secret")

    with pytest.raises(EngineRefused, match=r"cannot be read \(ValueError\)") as caught:
        _client().call(unexpected)
    assert "sk-secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_silent_server_is_waited_for_as_long_as_was_said(silence: threading.Event) -> None:
    client = _client(patience=0.05)
    client.call(lambda engine: engine.version())
    client.ask(lambda engine: engine.version())
    with pytest.raises(EngineDown, match=r"did not answer within 0\.05 seconds"):
        client.ask(lambda _: silence.wait(FOREVER))()
    with pytest.raises(EngineDown, match="did not answer"):
        client.ask(lambda engine: engine.version())


def test_the_time_to_answer_begins_with_the_question(
    silence: threading.Event, clock: Clock
) -> None:
    client = _client()
    client.ask(lambda engine: engine.version())()
    answers = [client.ask(lambda _: silence.wait(FOREVER)) for _ in range(2)]
    clock.now += FOREVER  # while another engine was waited for
    for answer in answers:
        with pytest.raises(EngineDown, match="did not answer"):
            answer()


def test_a_client_that_is_still_loading_is_no_failure(silence: threading.Event) -> None:
    def make(_: float) -> Any:
        silence.wait(FOREVER)
        return in_memory("x-retain")

    client = Client("text", "example", "nowhere", "x-retain", make, 0.05)
    with pytest.raises(EngineDown, match="is loading"):
        client.ask(lambda engine: engine.version())()
    silence.set()
    assert client.call(lambda engine: engine.version()) == "1.0"


def test_the_pause_after_failures_grows_and_ends_with_a_success(clock: Clock) -> None:
    breaker = Breaker()
    for pause in (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0):
        breaker.note(EngineDown("why"))
        clock.now += pause - 0.01
        with pytest.raises(EngineDown, match="why"):
            breaker.check()
        clock.now += 0.02
        breaker.check()
    breaker.note(None)
    breaker.note(EngineDown("why"))
    clock.now += 2.01
    breaker.check()


def test_a_failure_counts_for_every_bank_on_the_same_server() -> None:
    with pytest.raises(EngineDown):
        _client().call(lambda _: fail())
    with pytest.raises(EngineDown, match="is down"):
        _client().call(lambda engine: engine.version())
    assert _client(address="elsewhere").call(lambda engine: engine.version()) == "1.0"


def test_closing_ends_every_wait(silence: threading.Event) -> None:
    client = _client()
    begun = threading.Event()

    def hang(_: Any) -> None:
        begun.set()
        silence.wait(FOREVER)

    answer = client.ask(hang)
    assert begun.wait(FOREVER)
    client.close()
    with pytest.raises(EngineDown, match="not waited for"):
        answer()
    Breaker.servers.clear()
    with pytest.raises(EngineDown, match="not asked any more"):
        client.call(lambda engine: engine.version())


# What a search does with it


@pytest.fixture(params=EXAMPLES, ids=lambda row: row.name)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    bench = Bench(request.param, request.param.server(tmp_path), "searched")
    found = Machine(tmp_path / "bank", bench, patience=FOREVER)
    indexes.many(found.root, 20)
    yield found
    bench.engine.drop()
    found.close()


def test_an_engine_answers_once_it_has_all_but_a_few(machine: Machine) -> None:
    asked: list[str] = []
    for method in ("matching", "nearest"):
        machine.faults[method] = lambda: asked.append("asked")
    machine.take_in()
    here, reasons = machine.ask(QUESTION)
    assert (here[0], reasons, asked) == ("notes/m007", [], [])
    machine.push()
    there, reasons = machine.ask(QUESTION)
    assert (there[0], reasons, asked) == ("notes/m007", [], ["asked"])
    machine.write("notes/new", "The harbour has a brandnew zeppelin.\n")
    machine.take_in()
    assert machine.ask("zeppelin")[0][0] == "notes/new"
    (machine.root / "notes" / "m007.md").unlink()
    machine.take_in()
    assert "notes/m007" not in machine.ask(QUESTION)[0]


@pytest.mark.parametrize(
    "error", [EngineDown("it is down"), EngineRefused("no", hint="Set a key.")]
)
def test_an_engine_that_fails_costs_nobody_an_answer(machine: Machine, error: EngineError) -> None:
    def refuse() -> None:
        raise error

    machine.push()
    machine.faults |= {"matching": refuse, "nearest": refuse}
    for _ in range(2):
        found, reasons = machine.ask(QUESTION)
        assert found[0] == "notes/m007"
        assert reasons == [f"answered from the local index: {clients.describe(error)}"]


def test_an_engine_that_has_lost_everything_costs_nobody_an_answer(machine: Machine) -> None:
    machine.push()
    machine.bench.engine.drop()
    assert machine.ask(QUESTION)[0][0] == "notes/m007"


def test_a_hostile_server_shows_nothing_that_is_not_here(machine: Machine) -> None:
    machine.push()
    ids = list(machine.bench.engine.ids())
    machine.bench.engine.delete(ids)
    hostile = ["", "x" * 100, "' OR 1=1", "\ud800", "00000000-0000-4000-8000-000000000001"]
    machine.bench.engine.put([document(1)._replace(id=id_, collection="notes") for id_ in hostile])
    found, _ = machine.ask("common")
    assert set(found) <= {f"notes/m{number:03}" for number in range(20)}
