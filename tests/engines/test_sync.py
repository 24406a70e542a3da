"""What an engine holds is brought in step with the index, whoever is killed when (R21)."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retain.index.engines import sync
from retain.index.engines.engine import EngineDown
from retain.index.engines.sync import Delivery, Pushed, locked
from tests import indexes
from tests.engines.conftest import EXAMPLES, Bench, document
from tests.engines.machines import Machine, fail

pytestmark = pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row.name, indirect=True)


@pytest.fixture
def make(bench: Bench, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Machines that share the bench's copy."""
    made: list[Machine] = []
    numbers = itertools.count()

    def make(*, is_shared: bool = False) -> Machine:
        machine = Machine(tmp_path / f"bank{next(numbers)}", bench, is_shared=is_shared)
        made.append(machine)
        return machine

    yield make
    for machine in made:
        machine.close()


@pytest.fixture
def machine(make: Callable[..., Machine]) -> Machine:
    return make()


def test_what_differs_is_sent_and_nothing_else(machine: Machine) -> None:
    indexes.many(machine.root, 5)  # of which the first and the last have four chunks
    assert machine.push() == Pushed(sent=5)
    assert machine.push() == Pushed()
    documents = machine.bench.engine.count()
    machine.write("notes/m001", "# Another\n\nThe harbour has a buoy.\n")
    assert machine.push() == Pushed(sent=1, removed=1)
    (machine.root / "notes" / "m002.md").unlink()
    assert machine.push() == Pushed(removed=1)
    assert machine.bench.engine.count() == documents - 1
    assert machine.drift().total == 0
    assert machine.ask("buoy") == (["notes/m001"], []) or machine.bench.row.part == "vector"


def test_of_a_long_memory_only_what_changed_is_sent(machine: Machine) -> None:
    text = "".join(f"## Part {part}\n\n{f'rope{part} ' * 120}\n\n" for part in range(9))
    machine.write("notes/long", text)
    machine.push()
    before = set(machine.bench.engine.ids())
    machine.write("notes/long", text.replace("rope8 rope8", "rope8 anchor"))
    machine.push()
    after = set(machine.bench.engine.ids())
    assert before & after
    assert after - before
    assert machine.drift().total == 0


def test_what_searches_are_narrowed_by_is_part_of_a_document(machine: Machine) -> None:
    machine.write("notes/a", "---\ntags: [x]\n---\nA kettle.\n")
    machine.push()
    machine.write("notes/a", "---\ntags: [y]\n---\nA kettle.\n")
    assert machine.push() == Pushed(sent=1, removed=1)
    assert machine.drift().total == 0


def test_a_memory_that_waits_for_its_vectors_keeps_back_no_other(machine: Machine) -> None:
    indexes.many(machine.root, 4)
    machine.push()
    machine.write("notes/m009", "A kettle without a vector.\n")
    machine.index.refresh()
    pushed = machine.delivery.push()
    is_text = machine.bench.row.part == "text"
    assert pushed == (Pushed(sent=1) if is_text else Pushed(lacking=1))
    assert machine.delivery.verify().lacking == (0 if is_text else 1)
    machine.push()
    assert machine.drift().total == 0


def test_vectors_of_another_model_are_not_taken_for_this_ones(machine: Machine) -> None:
    indexes.many(machine.root, 3)
    machine.take_in()
    client, bank = machine.delivery.client, machine.bench.bank
    pushed = Delivery(machine.index.database, client, bank, "another", is_shared=False).push()
    assert (pushed, machine.bench.engine.count()) == (Pushed(left=3), 0)


def test_what_a_server_lost_is_sent_again(machine: Machine) -> None:
    indexes.many(machine.root, 6)
    machine.push()
    lost = list(machine.bench.engine.ids())[:3]
    machine.bench.engine.delete(lost)
    drift = machine.drift()
    assert drift.total == len(drift.missing) > 0
    assert machine.push().sent == len(drift.missing)  # fewer are there than were given
    machine.bench.engine.drop()
    assert machine.push().sent == 6
    assert machine.drift().total == 0


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_nobody_here_has_goes_unless_it_may_be_another_machines(
    make: Callable[..., Machine], is_shared: bool
) -> None:
    machine = make(is_shared=is_shared)
    indexes.many(machine.root, 3)
    machine.push()
    machine.bench.engine.put([document(1, collection="theirs")])
    drift = machine.drift()
    assert (drift.extra, drift.total) == (1, 0 if is_shared else 1)
    assert machine.push(compare=True).removed == (0 if is_shared else 1)
    machine.push(compare=True, is_mine=True)
    assert machine.drift().extra == 0


def test_an_index_that_was_made_anew_sends_nothing_twice(machine: Machine) -> None:
    paths = indexes.many(machine.root, 5)
    machine.push()
    before = set(machine.bench.engine.ids())
    paths[1].unlink()
    machine.index.database.replace("it was asked for")
    puts: list[int] = []
    machine.faults["put"] = lambda: puts.append(1)
    pushed = machine.push()
    assert (pushed.sent, pushed.known, puts) == (0, 4, [])
    assert set(machine.bench.engine.ids()) < before
    assert machine.drift().total == 0


def test_memories_that_are_missing_from_disk_at_once_stay_on_the_server(machine: Machine) -> None:
    indexes.many(machine.root, 30)
    machine.push()
    folder = machine.root / "notes"
    folder.rename(machine.root.parent / "elsewhere")
    assert machine.push() == Pushed()
    assert machine.drift().total == 0
    (machine.root.parent / "elsewhere").rename(folder)
    assert machine.push() == Pushed()


def test_machines_share_one_copy_and_know_what_is_theirs(make: Callable[..., Machine]) -> None:
    anna, ben = make(is_shared=True), make(is_shared=True)
    for machine in (anna, ben):
        machine.write("notes/both", "The kettle of both.\n")
    anna.write("notes/anna", "Anna has a zeppelin.\n")
    ben.write("notes/ben", "Ben has a submarine.\n")
    assert anna.push().sent == 2
    pushed = ben.push()
    assert (pushed.sent, pushed.known) == (1, 1)
    assert anna.push().removed == 0
    for machine, own, other in ((anna, "notes/anna", "submarine"), (ben, "notes/ben", "zeppelin")):
        assert machine.drift().total == 0
        found, reasons = machine.ask(other)
        assert not reasons
        assert set(found) <= {"notes/both", own}
    # Ben deletes what Anna still has: she sends it again when she compares.
    (ben.root / "notes" / "both.md").unlink()
    ben.push()
    assert anna.drift().missing == ("notes/both.md",)
    assert anna.push(compare=True).sent == 1
    assert ben.ask("kettle")[0] in ([], ["notes/ben"])
    assert anna.drift().total == ben.drift().total == 0


def test_only_one_process_of_a_machine_delivers_at_a_time(machine: Machine) -> None:
    indexes.many(machine.root, 3)
    machine.take_in()
    with locked(machine.index.database, 0) as is_ours:
        assert is_ours
        assert machine.delivery.push() == Pushed(left=3, is_busy=True)
    assert machine.push() == Pushed(sent=3)


class Killed(BaseException):
    """What ends a process."""


def _kill() -> None:
    raise Killed


FAULTS = [
    *itertools.product(
        [fail, _kill], ["put", "after put", "delete", "after delete", "ids", "count"]
    ),
    (fail, "after ids"),
]


@pytest.mark.parametrize(
    "how, where", FAULTS, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_whatever_ends_a_delivery_the_next_one_leaves_no_drift(
    machine: Machine, how: Callable[[], None], where: str
) -> None:
    indexes.many(machine.root, 6)
    machine.push()
    machine.write("notes/m001", "# Another\n\nThe harbour has a buoy.\n")
    (machine.root / "notes" / "m002.md").unlink()
    machine.take_in()
    machine.faults[where] = how
    compare = "ids" in where
    with pytest.raises((EngineDown, Killed)):
        machine.delivery.push(compare=compare)
    # Before the next one, what was under way is changed once more.
    machine.write("notes/m001", "# A third\n\nThe harbour has a crane.\n")
    machine.faults.clear()
    _forget_failures()
    assert machine.push().left == 0
    assert machine.drift().total == 0


@pytest.mark.parametrize("seed", range(12))
def test_after_any_sequence_of_changes_and_faults_there_is_no_drift(
    make: Callable[..., Machine], seed: int
) -> None:
    dice = random.Random(seed)
    machines = [make(is_shared=True), make(is_shared=True)]

    def change(machine: Machine) -> None:
        name = f"notes/{dice.choice('abcdef')}"
        path = machine.root / f"{name}.md"
        if dice.random() < 0.3:
            path.unlink(missing_ok=True)
        else:
            machine.write(name, f"The {dice.choice(['kettle', 'crane', 'buoy'])} of the harbour.\n")

    for _ in range(30):
        machine = dice.choice(machines)
        act = dice.randrange(5)
        if act < 3:
            change(machine)
        elif act == 3:
            machine.index.refresh()
            machine.index.database.replace("it was asked for")
        else:
            fault = dice.choice([*FAULTS, None])
            if fault:
                machine.faults[fault[1]] = fault[0]
            try:
                machine.push()
            except (EngineDown, Killed):
                machine.faults.clear()
            machine.faults.clear()
            _forget_failures()
    for machine in machines:
        machine.push(compare=True)
        assert machine.drift().missing == ()
    machines[0].push(compare=True, is_mine=True)
    assert machines[0].drift().extra == 0
    assert machines[0].drift().missing == ()


def _forget_failures() -> None:
    from retain.index.engines.client import Breaker

    Breaker.servers.clear()


def test_a_failed_delivery_is_noted_until_one_succeeds(machine: Machine) -> None:
    indexes.many(machine.root, 2)
    machine.faults["put"] = fail
    with pytest.raises(EngineDown):
        machine.push()

    def failure(connection: sqlite3.Connection) -> str:
        return sync.failure(connection, machine.delivery.client.key)

    assert "is down" in machine.index.look(failure)
    machine.faults.clear()
    _forget_failures()
    machine.push()
    assert machine.index.look(failure) == ""


def test_dropping_forgets_what_was_delivered(machine: Machine) -> None:
    indexes.many(machine.root, 3)
    machine.push()
    documents = machine.bench.engine.count()
    assert machine.delivery.drop() == documents
    assert machine.delivery.drop() == 0
    assert machine.push().sent == 3


def test_a_stopped_delivery_leaves_the_rest_for_later(machine: Machine) -> None:
    indexes.many(machine.root, 3)
    machine.take_in()
    assert machine.delivery.push(is_stopped=lambda: True) == Pushed(left=3)
    assert machine.delivery.push() == Pushed(sent=3)


def test_a_delivery_that_ends_with_its_process_is_no_failure(machine: Machine) -> None:
    indexes.many(machine.root, 2)
    machine.take_in()
    delivery = machine.delivery
    machine.faults["put"] = machine.index.stop_waiting
    with pytest.raises(EngineDown, match="not waited for"):
        delivery.push()
    assert machine.index.look(lambda found: sync.failure(found, delivery.client.key)) == ""
