"""What is Qdrant's own: what it is told, what it refuses, and that the last writer wins there."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from retain.index.engines.arm import EngineRefused, Piece, Sieve
from retain.index.engines.naming import Names
from retain.index.engines.qdrant import QdrantSettings, QdrantVectors
from retain.index.vectors import Floats
from tests.engines import servers
from tests.engines.contract import DIMENSION, KEY, MODEL, is_held, memory, unit
from tests.engines.strangers import Asked, Reply, stranger

pytestmark = pytest.mark.slow

NAMES = Names("bank")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[servers.Process]:
    """One that builds its graphs early and always searches by them."""
    found = servers.qdrant(
        tmp_path,
        KEY,
        STORAGE__OPTIMIZERS__INDEXING_THRESHOLD_KB="50",
        STORAGE__OPTIMIZERS__FLUSH_INTERVAL_SEC="1",
        STORAGE__HNSW_INDEX__FULL_SCAN_THRESHOLD_KB="10",
    )
    found.start()
    yield found
    found.kill()


def _arm(server: servers.Server, settings: QdrantSettings | None = None) -> QdrantVectors:
    return QdrantVectors(
        server.address, KEY, NAMES, patience=60, dimension=DIMENSION, settings=settings
    )


def _asked(server: servers.Server, path: str, body: Any = None, method: str = "") -> Any:
    """The server's own answer, without the adapter."""
    import httpx

    method = method or ("POST" if body is not None else "GET")
    answer = httpx.request(
        method,
        server.address + path,
        json=body,
        headers={"api-key": KEY},
        timeout=60,
        trust_env=False,
    )
    return answer.raise_for_status().json()["result"]


def test_the_settings_reach_the_server(server: servers.Process) -> None:
    wanted = QdrantSettings(
        shards=2, write_consistency=1, m=24, ef_construct=99, quantization="int8", on_disk=True
    )
    arm = _arm(server, wanted)
    arm.ready(["notes"])
    made = _asked(server, "/collections/bank-retain-notes")
    params, hnsw = made["config"]["params"], made["config"]["hnsw_config"]
    assert params["vectors"] == {"size": DIMENSION, "distance": "Dot", "on_disk": True}
    assert (params["shard_number"], params["write_consistency_factor"]) == (2, 1)
    assert (hnsw["m"], hnsw["ef_construct"]) == (24, 99)
    assert made["config"]["quantization_config"]["scalar"]["type"] == "int8"
    arm.close()


def test_everything_that_is_asked_for_has_an_index(server: servers.Process) -> None:
    arm = _arm(server)
    arm.ready(["notes"])
    # A server that allows no search without an index must still answer everything.
    strict = {"enabled": True, "unindexed_filtering_retrieve": False}
    strict["unindexed_filtering_update"] = False
    path = "/collections/bank-retain-notes"
    _asked(server, path, {"strict_mode_config": strict}, "PATCH")
    arm.put(memory(NAMES, "notes/a.md", tags=("x",), chunks=3))
    arm.put(memory(NAMES, "notes/a.md", tags=("x",), version=2))
    everything = Sieve(("notes",), ("note",), ("x",), ("active",), ("archived",), 1.0, 2e9)
    (found,) = arm.nearest([unit("q")], MODEL, everything, [5])
    assert [match.memory for match in found] == ["notes/a.md"]
    assert arm.count(everything) == 1
    arm.remove(["notes/a.md"])
    assert arm.count(Sieve()) == 0
    arm.close()


def test_what_a_memory_says_is_not_sent(server: servers.Process) -> None:
    arm = _arm(server)
    arm.put(memory(NAMES, "notes/a.md", terms=["secretword"]))
    body = {"with_payload": True, "with_vector": False}
    stored = _asked(server, "/collections/bank-retain-notes/points/scroll", body)
    said = json.dumps(stored)
    assert "notes/a.md" in said
    assert "secretword" not in said
    arm.close()


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_the_graph_finds_what_an_exact_scan_finds(
    server: servers.Process, quantization: Any
) -> None:
    arm = _arm(server, QdrantSettings(quantization=quantization))
    pieces = [p for n in range(3_000) for p in memory(NAMES, f"notes/{n}.md", type=f"t{n % 3}")]
    arm.put(pieces)
    _wait_for_graph(server)
    for sieve in (Sieve(), Sieve(types=("t1",))):
        chosen = [p for p in pieces if not sieve.types or p.type in sieve.types]
        assert _overlap(arm, chosen, sieve) >= 0.95
    arm.close()


def _wait_for_graph(server: servers.Process) -> None:
    for _ in range(600):
        info = _asked(server, "/collections/bank-retain-notes")
        if info["status"] == "green" and info["indexed_vectors_count"] > 1_000:
            return
        threading.Event().wait(0.1)
    pytest.fail("no graph was built")


def _overlap(arm: QdrantVectors, pieces: list[Piece], sieve: Sieve) -> float:
    matrix = np.stack([cast(Floats, piece.vector) for piece in pieces])
    probes = [unit(f"question {n}") for n in range(30)]
    found = arm.nearest(probes, MODEL, sieve, [10] * len(probes))
    hits = 0
    for probe, matches in zip(probes, found, strict=True):
        best = {pieces[at].digest for at in np.argsort(-(matrix @ probe))[:10]}
        hits += len(best & {match.digest for match in matches})
    return hits / (10 * len(probes))


def test_of_machines_that_write_at_once_the_last_version_stays_whole(
    server: servers.Process,
) -> None:
    arms = [_arm(server) for _ in range(4)]
    arms[0].ready(["notes"])
    lengths = [5, 2, 7, 3]  # the last written is neither the longest nor the shortest
    every = [
        [memory(NAMES, f"notes/{n}.md", chunks=chunks, version=version) for n in range(25)]
        for version, chunks in enumerate(lengths, 1)
    ]
    start = threading.Barrier(len(arms))
    failed: list[BaseException] = []

    def write(arm: QdrantVectors, memories: list[list[Piece]]) -> None:
        try:
            start.wait()
            for pieces in memories:
                arm.put(pieces)
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    threads = [threading.Thread(target=write, args=pair) for pair in zip(arms, every, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    held = {one.memory: one for one in arms[0].manifest()}
    assert all(is_held(held[pieces[0].memory], pieces) for pieces in every[-1])
    assert arms[0].count(Sieve()) == 25 * lengths[-1]
    for arm in arms:
        arm.close()


def test_machines_may_make_the_same_collection_at_once(server: servers.Process) -> None:
    arms = [_arm(server) for _ in range(4)]
    start = threading.Barrier(len(arms))
    failed: list[BaseException] = []

    def make(arm: QdrantVectors, number: int) -> None:
        try:
            start.wait()
            arm.put(memory(NAMES, f"notes/{number}.md"))
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    threads = [threading.Thread(target=make, args=(arm, n)) for n, arm in enumerate(arms)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert arms[0].count(Sieve()) == len(arms)
    for arm in arms:
        arm.close()


def test_a_collection_that_someone_else_made_is_refused(server: servers.Process) -> None:
    arm = _arm(server)
    vectors = {"size": DIMENSION, "distance": "Cosine"}
    _asked(server, "/collections/bank-retain-notes", {"vectors": vectors}, "PUT")
    with pytest.raises(EngineRefused, match="did not make"):
        arm.ready(["notes"])
    vectors = {"size": DIMENSION + 1, "distance": "Dot"}
    _asked(server, "/collections/bank-retain-work", {"vectors": vectors}, "PUT")
    with pytest.raises(EngineRefused, match=f"dimension {DIMENSION + 1}"):
        arm.put(memory(NAMES, "work/a.md"))
    arm.close()


def test_collections_of_others_are_left_alone(server: servers.Process) -> None:
    arm = _arm(server)
    for name in ("mine", "bank", "bank-retained", "xbank-retain-notes", "bank2-retain-notes"):
        _asked(server, f"/collections/{name}", {"vectors": {"size": 3, "distance": "Dot"}}, "PUT")
    arm.put(memory(NAMES, "notes/a.md"))
    arm.drop()
    left = _asked(server, "/collections")["collections"]
    assert {one["name"] for one in left} == {
        "mine",
        "bank",
        "bank-retained",
        "xbank-retain-notes",
        "bank2-retain-notes",
    }
    arm.close()


@contextmanager
def _saying(version: str) -> Iterator[str]:
    """The address of a server of this version."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"title": "qdrant", "version": version}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}"
        finally:
            listener.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "version, said",
    [
        ("1.15.9", r"is 1\.15\.9, and 1\.16 or newer is needed"),
        ("0.9.0", r"1\.16 or newer is needed"),
        ("", "does not say which version it is"),
        ("new\x1b[2J", "does not say which version it is"),
    ],
)
def test_a_server_that_is_too_old_or_something_else_is_refused(version: str, said: str) -> None:
    with _saying(version) as address:
        arm = QdrantVectors(address, KEY, NAMES, patience=5, dimension=DIMENSION)
        with pytest.raises(EngineRefused, match=said) as caught:
            arm.ready(["notes"])
        assert "\x1b" not in str(caught.value)
        arm.close()


def test_importing_an_adapter_loads_no_client() -> None:
    code = (
        "import sys, retain.index.engines.qdrant, retain.index.engines.upstash;"
        "print([m for m in ('httpx', 'qdrant_client', 'upstash_vector', 'grpc', 'numpy')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name, client", [("qdrant", "qdrant_client"), ("upstash", "upstash_vector")]
)
def test_a_client_that_is_not_installed_is_named_with_what_to_do(name: str, client: str) -> None:
    code = (
        f"import sys; sys.modules[{client!r}] = None\n"
        f"import retain.index.engines.{name} as adapter\n"
        "from retain.index.engines.arm import EngineRefused\n"
        "from retain.index.engines.naming import Names\n"
        f"arm = adapter.{name.title()}Vectors('http://x', 'k', Names('b'), patience=1)\n"
        "acts = [arm.version, arm.drop, lambda: list(arm.manifest()), lambda: arm.prune(0.0)]\n"
        "acts += [lambda: arm.remove(['a/b.md']), lambda: arm.held(['a/b.md'])]\n"
        "for act in acts:\n"
        "    try:\n"
        "        act()\n"
        "    except EngineRefused as error:\n"
        "        print(error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    hint = f'pip install "retain-bank[{name}]", or from a checkout: pip install ".[{name}]"'
    assert done.stdout.splitlines() == [f"Install it: {hint}"] * 6


def test_a_change_of_settings_is_done_when_it_is_seen(server: servers.Process) -> None:
    """Each node of a cluster tells of what was before until all have agreed."""
    import httpx

    first = _arm(server)
    first.put(memory(NAMES, "notes/a.md"))
    first.close()
    path = f"/collections/{NAMES.of('notes')}"
    before = {"result": _asked(server, path), "status": "ok", "time": 0.1}
    late = 3

    def relay(asked: Asked) -> Reply:
        nonlocal late
        if asked.method == "GET" and asked.path == path and late:
            late -= 1
            return Reply(before)
        url, headers = server.address + asked.path, {"api-key": KEY}
        answer = httpx.request(
            asked.method, url, json=asked.body, headers=headers, timeout=60, trust_env=False
        )
        return Reply(answer.content, answer.status_code)

    with stranger(relay) as place:
        wanted = QdrantSettings(m=24, ef_construct=99)
        arm = QdrantVectors(
            f"http://{place}", KEY, NAMES, patience=60, dimension=DIMENSION, settings=wanted
        )
        arm.adapt()
        assert arm.otherwise() == []
        arm.close()
