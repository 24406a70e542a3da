"""What is Qdrant's alone: how collections are made, changed and indexed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest

from retain.index.engines.engine import EngineRefused, Filter, VectorEngine
from retain.index.vectors import Floats
from tests.engines import servers
from tests.engines.conftest import KEY, REAL, Bench, Row, document, put_all, unit, uuid, uuids

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("row", [row for row in REAL if row.kind == "qdrant"], indirect=True),
]


def _ask(bench: Bench, path: str = "", body: Any = None, method: str = "") -> Any:
    """What the server says about the bank's collection."""
    answer = httpx.request(
        method or ("POST" if body else "GET"),
        f"{bench.server.address}/collections/{bench.bank}-retain-0a1b2c3d{path}",
        json=body, headers={"api-key": KEY}, timeout=60, trust_env=False,
    )  # fmt: skip
    return answer.raise_for_status().json()["result"]


def test_the_settings_reach_the_server(bench: Bench) -> None:
    engine = bench.another(shards=2, m=24, ef_construct=99, quantization="int8", on_disk=True)
    engine.put([document(1)])
    made = _ask(bench)["config"]
    assert made["params"]["vectors"] == {"size": 32, "distance": "Dot", "on_disk": True}
    assert made["params"]["shard_number"] == 2
    assert (made["hnsw_config"]["m"], made["hnsw_config"]["ef_construct"]) == (24, 99)
    assert made["quantization_config"]["scalar"]["type"] == "int8"


def test_everything_that_is_asked_for_has_an_index_and_no_text_is_sent(bench: Bench) -> None:
    bench.engine.put([document(1, tags=("x",), terms="secretword")])
    # A server that allows no search without an index must still answer everything.
    strict = {"enabled": True, "unindexed_filtering_retrieve": False}
    _ask(bench, "", {"strict_mode_config": strict}, "PATCH")
    where = Filter(("notes",), ("note",), ("x",), ("active",), ("archived",), 1.0, 2e9)
    assert bench.find(where) == uuids(1)
    stored = json.dumps(_ask(bench, "/points/scroll", {"with_payload": True}))
    assert "notes" in stored
    assert "secretword" not in stored


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_the_graph_finds_what_an_exact_scan_finds(
    row: Row, tmp_path: Path, quantization: str
) -> None:
    # A graph is built from far fewer vectors on than usual.
    server = servers.qdrant(
        tmp_path,
        KEY,
        STORAGE__OPTIMIZERS__INDEXING_THRESHOLD_KB="50",
        STORAGE__OPTIMIZERS__FLUSH_INTERVAL_SEC="1",
        STORAGE__HNSW_INDEX__FULL_SCAN_THRESHOLD_KB="10",
    )
    server.start()
    bench = Bench(row, server, "graph")
    engine = cast(VectorEngine, bench.another(quantization=quantization))
    documents = [document(number, type=f"t{number % 3}") for number in range(3_000)]
    put_all(engine, documents)
    for _ in range(600):
        info = _ask(bench)
        if info["status"] == "green" and info["indexed_vectors_count"] > 1_000:
            break
        threading.Event().wait(0.1)
    assert info["indexed_vectors_count"] > 1_000
    for where in (Filter(), Filter(types=("t1",))):
        pool = [one for one in documents if not where.types or one.type in where.types]
        matrix = np.stack([cast(Floats, one.vector) for one in pool])
        hits = 0
        for n in range(20):
            probe = unit(f"question {n}")
            best = {pool[at].id for at in np.argsort(-(matrix @ probe))[:10]}
            hits += len(best & {match.id for match in engine.nearest(probe, where, 10)})
        assert hits >= 0.95 * 200
    bench.close()
    server.kill()


def test_machines_may_make_the_same_collection_at_once(bench: Bench) -> None:
    engines = [bench.another() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda at: engines[at].put([document(at)]), range(6)))
    assert set(bench.engine.ids()) == uuids(*range(6))


def test_a_collection_that_someone_else_made_is_refused(bench: Bench) -> None:
    _ask(bench, "", {"vectors": {"size": 32, "distance": "Cosine"}}, "PUT")
    with pytest.raises(EngineRefused, match="that Retain did not make"):
        bench.engine.put([document(1)])


def test_what_other_models_left_is_removed_alone(bench: Bench) -> None:
    old = bench.another(container=f"{bench.bank}-retain-99999999")
    near = bench.another(f"{bench.bank}x")
    for engine in (bench.engine, old, near):
        engine.put([document(1)])
    assert bench.engine.drop(others=True) == 1
    assert old.count() == 0
    assert bench.engine.count() == near.count() == 1
    near.drop()


@contextmanager
def _saying(version: str) -> Iterator[str]:
    """The address of a server of this version, which has no collection."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"title": "qdrant", "version": version}).encode()
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
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
        ("1.15.9", r"has version 1\.15\.9, and 1\.16 or newer is needed"),
        ("", "cannot be read"),
        ("new\x1b[2J", "cannot be read"),
    ],
)
def test_a_server_that_is_too_old_or_something_else_is_refused(
    bench: Bench, version: str, said: str
) -> None:
    with _saying(version) as address:
        engine = bench.another(address=address, seconds=5)
        with pytest.raises(EngineRefused, match=said) as caught:
            engine.put([document(1)])
        assert "\x1b" not in str(caught.value)


def test_the_next_address_of_a_cluster_is_asked_where_nobody_is_at_the_first(bench: Bench) -> None:
    engine = bench.another(address=f"http://127.0.0.1:9,{bench.server.address}")
    for _ in range(2):
        engine.put([document(1)])
        assert list(engine.ids()) == [uuid(1)]
