"""A node, a replica or a primary may go and come back: no answer and no write is lost."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from retain.index.engines.client import Breaker
from retain.index.engines.engine import EngineDown, EngineRefused
from tests import indexes
from tests.engines import clusters
from tests.engines.conftest import KEY, REAL, Bench, document, uuid, uuids
from tests.engines.machines import Machine
from tests.engines.servers import Server

pytestmark = pytest.mark.slow

_PATIENCE = 60.0
_NUMBERS = itertools.count()
_COPIES: dict[str, Any] = {"shards": 3, "replicas": 2}


def _until(is_so: Callable[[], bool]) -> None:
    """Wait for what a cluster does in its own time."""
    end = time.monotonic() + _PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


class _Bench(Bench):
    """A bench whose engines have other settings."""

    def __init__(self, kind: str, part: str, server: Server, notes: Path, **settings: Any) -> None:
        self._settings, self._notes = settings, notes
        row = next(row for row in REAL if (row.kind, row.part) == (kind, part))
        super().__init__(row, server, f"cluster{next(_NUMBERS)}")

    def another(self, bank: str = "", **options: Any) -> Any:
        return super().another(bank, **(self._settings | options))


def _delivers(machine: Machine) -> bool:
    Breaker.servers.clear()
    try:
        return machine.push().left == 0
    except EngineDown:
        return False


def _answers(machine: Machine) -> bool:
    """Whether the engine answers; where it does not, the bank itself does."""
    Breaker.servers.clear()
    found, reasons = machine.ask(f"Memory 7: The harbour has a lantern called {indexes.word(7)}.")
    assert found[0] == "notes/m007"
    return not reasons


# Qdrant


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Nodes]:
    found = clusters.qdrant_nodes(tmp_path_factory.mktemp("cluster"), KEY)
    found.start()
    _until(lambda: len(_ask(found, "/cluster")["peers"]) == 3)
    yield found
    found.kill()


def _ask(nodes: clusters.Nodes, path: str) -> Any:
    url = nodes.nodes[-1].address + path
    answer = httpx.get(url, headers={"api-key": KEY}, trust_env=False, timeout=60)
    return answer.raise_for_status().json()["result"]


def _states(nodes: clusters.Nodes, bench: Bench) -> list[str]:
    """The states of all copies of parts."""
    found = _ask(nodes, f"/collections/{bench.bank}-retain-0a1b2c3d/cluster")
    return [one["state"] for one in found["local_shards"] + found["remote_shards"]]


@pytest.mark.parametrize("copies", [1, 2])
def test_a_node_that_dies_costs_no_answer_no_write_and_no_drift(
    tmp_path: Path, nodes: clusters.Nodes, copies: int
) -> None:
    bench = _Bench("qdrant", "vector", nodes, tmp_path, **_COPIES, write_consistency=copies)
    machine = Machine(tmp_path / "bank", bench)
    indexes.many(machine.root, 30)
    machine.push()
    assert _states(nodes, bench) == ["Active"] * 6
    nodes.nodes[0].kill()
    _until(lambda: _answers(machine))
    for number in range(20):
        machine.write(f"notes/new{number}", f"# New\n\nThe zeppelin {number} lands.\n")
    if copies == 1:  # one is enough, as soon as the others have noticed who is gone
        _until(lambda: _delivers(machine))
        assert machine.drift().total == 0
    else:  # two are not there: what is refused is sent again
        _delivers(machine)
    nodes.nodes[0].start()
    _until(lambda: _delivers(machine))
    _until(lambda: set(_states(nodes, bench)) == {"Active"})
    assert machine.drift().total == 0
    every = bench.another(read_consistency="all")  # what counts is not what one of the copies says
    assert set(every.ids()) == set(bench.engine.ids())
    bench.engine.drop()
    machine.close()
    bench.close()


def test_a_token_for_one_collection_is_enough_for_whoever_uses_it(
    tmp_path: Path, nodes: clusters.Nodes
) -> None:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    bench = _Bench("qdrant", "vector", nodes, tmp_path, **_COPIES)
    bench.engine.put([document(1)])  # with the server's key: it makes the collection
    claims = {"access": [{"collection": f"{bench.bank}-retain-0a1b2c3d", "access": "rw"}]}
    head = part(b'{"alg":"HS256","typ":"JWT"}')
    signed = f"{head}.{part(json.dumps(claims).encode())}"
    signature = part(hmac.digest(KEY.encode(), signed.encode(), hashlib.sha256))
    engine = bench.another(key=f"{signed}.{signature}")
    engine.put([document(2)])
    engine.delete([uuid(1)])
    assert bench.find(engine=engine) == set(engine.ids()) == uuids(2)
    with pytest.raises(EngineRefused):
        bench.another("other", key=f"{signed}.{signature}").put([document(1)])
    bench.engine.drop()
    bench.close()


# Postgres


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Pair]:
    found = clusters.postgres_pair(tmp_path_factory.mktemp("pair"), KEY)
    yield found
    found.replica.kill()
    found.primary.kill()


def _say(server: Server, statement: str) -> Any:
    with psycopg.connect(server.address, password=KEY, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def _is_level(pair: clusters.Pair) -> bool:
    place = _say(pair.primary, "SELECT pg_current_wal_lsn()")
    return bool(_say(pair.replica, f"SELECT pg_last_wal_replay_lsn() >= '{place}'"))


@pytest.mark.parametrize("part", ["text", "vector"])
def test_a_replica_is_searched_unless_it_lags_and_either_may_go(
    tmp_path: Path, pair: clusters.Pair, part: str
) -> None:
    address = pair.replica.address
    bench = _Bench("postgres", part, pair.primary, tmp_path, read_url=address)
    machine = Machine(tmp_path / "bank", bench)
    indexes.many(machine.root, 30)
    machine.push()
    _until(lambda: _is_level(pair))
    _say(pair.replica, "SELECT pg_wal_replay_pause()")
    machine.write("notes/new", "# New\n\nThe zeppelin lands at noon.\n")
    assert machine.push().left == 0
    found, reasons = machine.ask("zeppelin lands at noon")
    assert (found[0], reasons) == ("notes/new", [])  # by the primary
    assert machine.drift().total == 0
    _say(pair.replica, "SELECT pg_wal_replay_resume()")
    _until(lambda: _is_level(pair))
    pair.primary.stop()
    assert _answers(machine)  # nobody else could have answered
    pair.primary.start()
    pair.replica.kill()
    assert not _answers(machine)
    machine.write("notes/later", "# Later\n\nThe balloon lands at night.\n")
    Breaker.servers.clear()
    assert machine.push().sent == 1
    assert machine.drift().total == 0
    pair.replica.start()
    _until(lambda: _is_level(pair))
    assert _answers(machine)
    bench.engine.drop()
    machine.close()
    bench.close()
