"""Behind Retain: a Qdrant of three nodes, a Postgres with a replica, and keys that open little."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import httpx
import psycopg
import pytest

from retain.index.engines.arm import Arm, EngineDown, EngineRefused, Sieve, VectorArm
from retain.index.engines.checking import compared
from retain.index.engines.naming import Names
from retain.index.engines.postgres import PostgresText, PostgresVectors, Replica
from retain.index.engines.qdrant import QdrantSettings, QdrantVectors
from tests import indexes
from tests.engines import clusters
from tests.engines.contract import DIMENSION, KEY, MODEL, Bench, Row, memory, unit
from tests.engines.machines import Machine, machine
from tests.engines.servers import Server

pytestmark = pytest.mark.slow

_NUMBERS = itertools.count()
_COPIES = QdrantSettings(shards=3, replicas=2, write_consistency=1)


def _names() -> Names:
    return Names(f"k{os.getpid()}-{next(_NUMBERS)}")


def _until(is_so: Callable[[], bool]) -> None:
    """Wait for what takes a server a while."""
    end = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def _drift(one: Machine) -> int:
    held = one.engines.wires[one.part].insist(lambda arm: list(arm.manifest()), 60)
    model = MODEL if one.part == "vector" else ""
    return one.bank.look(partial(compared, arm=one.key, held=held, model=model)).total


def _unused(_directory: Path) -> Server:
    raise AssertionError("the cluster runs already")


# Qdrant


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Nodes]:
    found = clusters.qdrant_nodes(tmp_path_factory.mktemp("cluster"), KEY)
    found.start()
    _until(lambda: len(_asked(found, "/cluster")["peers"]) == 3)
    yield found
    found.kill()


def _asked(nodes: clusters.Nodes, path: str, key: str = KEY) -> Any:
    answer = httpx.get(
        nodes.nodes[-1].address + path, headers={"api-key": key}, trust_env=False, timeout=60
    )
    return answer.raise_for_status().json()["result"]


def _states(nodes: clusters.Nodes, collection: str) -> dict[str, int]:
    """How many copies of parts are in which state."""
    found = _asked(nodes, f"/collections/{collection}/cluster")
    states = [one["state"] for one in found["local_shards"] + found["remote_shards"]]
    return {state: states.count(state) for state in states}


def _vectors(
    nodes: clusters.Nodes, names: Names, settings: QdrantSettings = _COPIES, key: str = KEY
) -> QdrantVectors:
    return QdrantVectors(
        nodes.address, key, names, patience=30.0, dimension=DIMENSION, settings=settings
    )


def _bench(nodes: clusters.Nodes, settings: QdrantSettings) -> Bench:
    def arm(address: str, key: str, names: Names, patience: float) -> Arm:
        return QdrantVectors(
            address, key, names, patience=patience, dimension=DIMENSION, settings=settings
        )

    return Bench(Row("cluster", "qdrant", "vector", _unused, arm), nodes, _names())


def test_a_collection_is_split_and_copied_as_it_is_set(nodes: clusters.Nodes) -> None:
    names = _names()
    arm = _vectors(nodes, names)
    arm.put([piece for n in range(60) for piece in memory(names, f"notes/{n}.md")])
    assert _states(nodes, names.of("notes")) == {"Active": 6}
    assert arm.otherwise() == []
    assert arm.count(Sieve()) == 60
    arm.drop()
    arm.close()


def test_what_is_made_otherwise_is_told_and_changed_as_far_as_it_can_be(
    nodes: clusters.Nodes,
) -> None:
    names = _names()
    first = _vectors(nodes, names, QdrantSettings(on_disk=True, payload_on_disk=False))
    first.put(memory(names, "notes/a.md"))
    wanted = _COPIES._replace(m=24, ef_construct=99, quantization="int8", write_consistency=2)
    arm = _vectors(nodes, names, wanted)
    told = arm.otherwise()
    fields = ("shards", "replicas", "write_consistency", "m", "ef_construct", "quantization")
    for field in (*fields, "on_disk", "payload_on_disk"):
        assert any(f": {field} is " in line for line in told), field
    arm.put(memory(names, "notes/b.md"))  # which changes nothing by itself
    assert arm.otherwise() == told
    arm.adapt()
    left = arm.otherwise()
    assert [line.partition(": ")[2] for line in left] == [
        "shards is 1, and 3 is set",
        "parts of it have 1 copies, and 2 are set",
    ]
    first.adapt()
    assert first.otherwise() == []
    assert arm.count(Sieve()) == 2
    for one in (arm, first):
        one.drop()
        one.close()


def test_a_node_that_dies_costs_no_answer_no_write_and_no_drift(
    tmp_path: Path, nodes: clusters.Nodes
) -> None:
    strict = _COPIES._replace(write_consistency=2)
    one_copy, both_copies = _bench(nodes, _COPIES), _bench(nodes, strict)
    with machine(tmp_path, one_copy) as one, machine(tmp_path, both_copies) as both:
        for each in (one, both):
            indexes.many(each.root, 30)
            each.push()
        nodes.nodes[0].kill()
        for each in (one, both):
            _until(partial(_is_answered, each))
            for number in range(20):
                each.write(f"notes/new{number}", f"# New\n\nThe zeppelin {number} lands.\n")
        # One copy is enough, as soon as the others have noticed who is gone.
        _until(partial(_is_delivered, one))
        assert _drift(one) == 0
        # Two are not there: parts may have it and others not, and all of it is told again.
        _is_delivered(both)
        assert both.ask("zeppelin 3 lands").hits[0].title == "New"
        nodes.nodes[0].start()
        for each in (one, both):
            _until(partial(_is_delivered, each))
            names = each.bench.names
            _until(lambda names=names: set(_states(nodes, names.of("notes"))) == {"Active"})  # type: ignore[misc]
            assert _drift(each) == 0
            # What counts is not what one of the copies says.
            every = _vectors(nodes, names, _COPIES._replace(read_consistency="all"))
            assert sum(held.is_whole for held in every.manifest()) == 50
            every.close()
    for bench in (one_copy, both_copies):
        bench.end()


def _is_answered(one: Machine) -> bool:
    """Whether the cluster answers; until it has noticed who is gone, the bank itself may."""
    answer = one.ask("the lantern called " + indexes.word(7))
    assert answer.hits[0].id == "m007"
    return not answer.degraded.reasons


def _is_delivered(one: Machine) -> bool:
    """Deliver what waits, unless the cluster cannot take it now."""
    try:
        return one.push().left == 0
    except EngineDown:
        return False


def test_a_token_for_one_collection_is_enough_for_whoever_uses_it(nodes: clusters.Nodes) -> None:
    names = _names()
    owner = _vectors(nodes, names)
    owner.ready(["notes", "secret"])
    token = _token({"access": [{"collection": names.of("notes"), "access": "rw"}]})
    arm = _vectors(nodes, names, key=token)
    arm.put(memory(names, "notes/a.md", chunks=2))
    arm.put(memory(names, "notes/a.md", version=2))
    (found,) = arm.nearest([unit("q")], MODEL, Sieve(), [5])
    assert [match.memory for match in found] == ["notes/a.md"]
    assert [held.memory for held in arm.manifest()] == ["notes/a.md"]
    assert arm.prune(1.0) == 0
    with pytest.raises(EngineRefused):
        arm.put(memory(names, "secret/a.md"))
    with pytest.raises(EngineRefused):
        arm.put(memory(names, "new/a.md"))
    owner.drop()
    owner.close()
    arm.close()


def _token(claims: Mapping[str, object]) -> str:
    """A JSON Web Token, signed with the server's own key."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    signed = f"{head}.{part(json.dumps(claims).encode())}"
    return f"{signed}.{part(hmac.digest(KEY.encode(), signed.encode(), hashlib.sha256))}"


# Postgres


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Pair]:
    found = clusters.postgres_pair(tmp_path_factory.mktemp("pair"), KEY)
    yield found
    found.replica.kill()
    found.primary.kill()


class _Mark:
    """What one machine knows of the primary's log."""

    place = ""

    def read(self) -> str:
        return self.place

    def note(self, place: str) -> None:
        self.place = place


def _replicated(pair: clusters.Pair, kind: Literal["text", "vector"]) -> Bench:
    replica = Replica(pair.replica.address, _Mark())

    def arm(address: str, key: str, names: Names, patience: float) -> Arm:
        if kind == "text":
            return PostgresText(address, key, names, patience=patience, replica=replica)
        return PostgresVectors(
            address, key, names, patience=patience, dimension=DIMENSION, replica=replica
        )

    row = Row("pair", "postgres", kind, _unused, arm, speaks_http=False, scheme="postgresql")
    return Bench(row, pair.primary, _names())


def _say(pair: clusters.Pair, statement: str) -> object:
    with psycopg.connect(pair.replica.address, password=KEY, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def _is_level(pair: clusters.Pair) -> bool:
    with psycopg.connect(pair.primary.address, password=KEY, autocommit=True) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
    assert row is not None
    return bool(_say(pair, f"SELECT pg_last_wal_replay_lsn() >= '{row[0]}'"))


@pytest.mark.parametrize("kind", ["text", "vector"])
def test_what_a_replica_lacks_is_found_and_is_no_drift(
    tmp_path: Path, pair: clusters.Pair, kind: Literal["text", "vector"]
) -> None:
    bench = _replicated(pair, kind)
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 30)
        one.push()
        _until(lambda: _is_level(pair))
        _say(pair, "SELECT pg_wal_replay_pause()")
        one.write("notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        assert one.push().left == 0
        answer = one.ask("zeppelin at noon")
        assert answer.hits[0].id == "new"
        assert not answer.degraded.reasons
        assert _drift(one) == 0
        assert "notes/new.md" not in _found_by_the_replica(pair, bench)
        _say(pair, "SELECT pg_wal_replay_resume()")
        _until(lambda: _is_level(pair))
        assert "notes/new.md" in _found_by_the_replica(pair, bench)
    bench.end()


def _found_by_the_replica(pair: clusters.Pair, bench: Bench) -> set[str]:
    """What is found by someone who has told nothing, and so takes what the replica has."""
    replica = Replica(pair.replica.address, _Mark())
    nobody = "postgresql://retain@127.0.0.1:1/postgres"  # where nothing can be asked
    if bench.row.kind == "text":
        arm: Arm = PostgresText(nobody, KEY, bench.names, patience=30.0, replica=replica)
        found = cast(PostgresText, arm).matching({"harbour": 1.0, "zeppelin": 1.0}, Sieve(), 100)
    else:
        arm = PostgresVectors(
            nobody, KEY, bench.names, patience=30.0, dimension=DIMENSION, replica=replica
        )
        (found,) = cast(VectorArm, arm).nearest([unit("q")], MODEL, Sieve(), [1_000])
    arm.close()
    return {match.memory for match in found}


def test_either_of_the_two_may_go_and_come_back(tmp_path: Path, pair: clusters.Pair) -> None:
    bench = _replicated(pair, "vector")
    with machine(tmp_path, bench) as one:
        indexes.many(one.root, 30)
        one.push()
        _until(lambda: _is_level(pair))
        assert not one.ask("lantern").degraded.reasons
        pair.primary.stop()
        assert not one.ask("lantern").degraded.reasons  # nobody else could have answered
        pair.primary.start()
        pair.replica.kill()
        answer = one.ask("lantern")
        assert any("local index" in reason for reason in answer.degraded.reasons)
        assert answer.hits
        one.write("notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        assert one.push().sent == 1
        assert _drift(one) == 0
        pair.replica.start()
        _until(lambda: _is_level(pair))
        answer = one.ask("zeppelin at noon")
        assert answer.hits[0].id == "new"
        assert not answer.degraded.reasons
    bench.end()


def test_a_role_that_owns_its_schemas_needs_no_other_right(pair: clusters.Pair) -> None:
    names = _names()
    with psycopg.connect(pair.primary.address, password=KEY, autocommit=True) as connection:
        connection.execute("CREATE DATABASE team")
    address = pair.primary.address.replace("retain@", "team@").replace("/postgres", "/team")
    admin = pair.primary.address.replace("/postgres", "/team")
    with psycopg.connect(admin, password=KEY, autocommit=True) as connection:
        for statement in (
            "CREATE EXTENSION vector",
            f"CREATE ROLE team LOGIN PASSWORD '{KEY}'",
            "CREATE SCHEMA retain_text AUTHORIZATION team",
            "CREATE SCHEMA retain_vector AUTHORIZATION team",
        ):
            connection.execute(statement.encode())
    arms: list[Arm] = [
        PostgresText(address, KEY, names, patience=30.0),
        PostgresVectors(address, KEY, names, patience=30.0, dimension=DIMENSION),
    ]
    for arm in arms:
        arm.put(memory(names, "notes/a.md", chunks=2))
        assert arm.count(Sieve()) == 2
        assert arm.prune(1.0) == 0
        assert arm.otherwise() == []
        arm.drop()
        arm.close()
