"""What is Meilisearch's alone: how its habits are switched off, and where its key goes."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from retain.index.engines.engine import EngineDown, EngineRefused, Filter, TextEngine
from tests.engines import servers
from tests.engines.conftest import KEY, REAL, Bench, document, uuid, uuids

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize(
        "row", [row for row in REAL if row.kind == "meilisearch"], indirect=True
    ),
]


@pytest.fixture
def engine(bench: Bench) -> TextEngine:
    return cast(TextEngine, bench.engine)


def _ask(bench: Bench, method: str, path: str, body: Any = None) -> Any:
    """The server's answer; a change is waited for."""
    url = f"{bench.server.address}/{path}"
    headers = {"Authorization": f"Bearer {KEY}"}
    answer = httpx.request(method, url, json=body, headers=headers, trust_env=False).json()
    task = answer.get("taskUid")
    while task is not None and _ask(bench, "GET", f"tasks/{task}")["status"] in _UNDER_WAY:
        time.sleep(0.01)
    return answer


_UNDER_WAY = ("enqueued", "processing")


def _found(engine: TextEngine, *terms: str) -> set[str]:
    return {match.id for match in engine.matching(dict.fromkeys(terms, 1.0), Filter(), 100)}


def test_words_are_neither_joined_nor_parted_nor_completed(engine: TextEngine) -> None:
    bags = [
        "foo bar",
        "foobar",
        "new york",
        "newyork",
        "running",
        "run",
        "naïve",
        "naive",
        "s3cr3t",
    ]
    engine.put([document(number, terms=bag) for number, bag in enumerate(bags)])
    for number, bag in enumerate(bags):
        for word in bag.split():
            wanted = {at for at, other in enumerate(bags) if word in other.split()}
            assert _found(engine, word) == uuids(*wanted), (number, word)
    many = [f"x{number}" for number in range(12)]  # more than it reads of a question
    assert _found(engine, *many, "foobar") == uuids(1)


def test_terms_are_ranked_as_bm25_ranks_them(engine: TextEngine) -> None:
    dice = random.Random(7)
    words, odds = [f"w{n}" for n in range(300)], [1 / (n + 1) for n in range(300)]
    bags = {uuid(n): dice.choices(words, odds, k=60) for n in range(600)}
    engine.put([document(n, terms=" ".join(bags[uuid(n)])) for n in range(600)])
    counts = Counter(word for bag in bags.values() for word in set(bag))
    hits = total = 0
    for _ in range(20):
        asked = dice.sample(words, 5)
        weights = {w: math.log(1 + (600 - counts[w] + 0.5) / (counts[w] + 0.5)) for w in asked}
        matches = engine.matching(weights, Filter(), 10)
        scores = {}
        for id_, bag in bags.items():
            times = Counter(bag)
            scores[id_] = sum(w * times[t] / (times[t] + 1.2) for t, w in weights.items())
        least = sorted(scores.values(), reverse=True)[len(matches) - 1]
        hits += sum(scores[match.id] >= least - 1e-9 for match in matches)
        total += len(matches)
    assert hits >= 0.9 * total


def test_an_index_with_other_settings_is_refused_unless_it_is_empty(
    bench: Bench, engine: TextEngine
) -> None:
    path = f"indexes/{bench.bank}-retain"
    _ask(bench, "POST", "indexes", {"uid": f"{bench.bank}-retain", "primaryKey": "id"})
    engine.put([document(1, terms="zebra")])  # an empty one is made as it should be
    _ask(bench, "PATCH", f"{path}/settings", {"searchCutoffMs": 1500})
    engine.put([document(2)])  # that is the operator's
    assert _ask(bench, "GET", f"{path}/settings")["searchCutoffMs"] == 1500
    _ask(bench, "PATCH", f"{path}/settings", {"stopWords": ["zebra"]})
    with pytest.raises(EngineRefused, match="other settings"):
        engine.put([document(3)])


def test_machines_make_and_fill_one_index_at_once(bench: Bench) -> None:
    engines = [bench.another() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda at: engines[at].put([document(at)]), range(6)))
    assert set(bench.engine.ids()) == uuids(*range(6))


def test_a_change_that_the_server_fails_at_is_an_error(engine: TextEngine) -> None:
    with pytest.raises(EngineRefused):
        engine.put([document(1)._replace(id="not an id / at all")])
    engine.put([document(1)])
    assert engine.count() == 1


def test_a_server_that_stops_answering_is_left_in_time(bench: Bench, tmp_path: Path) -> None:
    server = servers.meilisearch(tmp_path)  # which asks for no key
    server.start()
    engine = bench.another(address=server.address, key="", seconds=5.0)
    try:
        engine.put([document(1)])
        assert server.pid
        with servers.frozen(server.pid), pytest.raises(EngineDown):
            engine.count()
        assert engine.count() == 1
    finally:
        server.kill()


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends every request to another address, and notes what it was sent."""

    seen: list[str] = []  # noqa: RUF012 - one server at a time

    def do_GET(self) -> None:
        self.seen.append(self.headers["Authorization"])
        self.send_response(307)
        self.send_header("Location", "/other")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()
        thread.join()


def test_the_key_is_sent_to_no_other_address(
    bench: Bench, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password sk-netrc\n", "utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    with pytest.raises(EngineRefused):
        bench.another(address=elsewhere).version()
    assert _Elsewhere.seen == [f"Bearer {KEY}"]


def test_a_key_for_one_bank_opens_that_bank_alone(bench: Bench) -> None:
    actions = """search documents.add documents.get documents.delete indexes.create indexes.get
        indexes.delete settings.get settings.update stats.get tasks.get version""".split()
    wanted = {"actions": actions, "indexes": [f"{bench.bank}-retain"], "expiresAt": None}
    key = str(_ask(bench, "POST", "keys", wanted)["key"])
    other = bench.another(f"{bench.bank}-2")
    other.put([document(1)])
    engine = bench.another(key=key)
    engine.put([document(1), document(2)])
    engine.delete([uuid(2)])
    assert bench.find(engine=engine) == set(engine.ids()) == uuids(1)
    stranger = bench.another(f"{bench.bank}-2", key=key)
    with pytest.raises(EngineRefused):
        stranger.put([document(2)])
    assert engine.drop() == 1
    assert other.drop() == 1
