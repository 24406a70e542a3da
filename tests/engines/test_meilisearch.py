"""What is Meilisearch's own: how it is told to take terms as they are, and how it is left."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from retain.index.engines.arm import EngineDown, EngineError, EngineRefused, Piece, Sieve
from retain.index.engines.meilisearch import MeilisearchText
from retain.index.engines.naming import Names
from tests.engines.contract import KEY, grave, memory, shown
from tests.engines.servers import Process, frozen, meilisearch

pytestmark = pytest.mark.slow

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    found = meilisearch(tmp_path_factory.mktemp("meilisearch"), KEY)
    found.start()
    yield found
    found.kill()


@pytest.fixture
def names() -> Names:
    return Names(f"m{os.getpid()}-{next(_NUMBERS)}")


@pytest.fixture
def arm(server: Process, names: Names) -> Iterator[MeilisearchText]:
    made = MeilisearchText(server.address, KEY, names, patience=30.0)
    yield made
    made.drop()
    made.close()


def put(arm: MeilisearchText, names: Names, bags: dict[str, list[str]]) -> None:
    """Memories of nothing but these terms."""
    arm.put(
        [
            piece._replace(terms=" ".join(bag))
            for name, bag in bags.items()
            for piece in memory(names, name)
        ]
    )


def ask(server: Process, method: str, path: str, body: Any = None) -> Any:
    """A request of someone else's."""
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{server.address}/{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return json.loads(answer.read())


def settle(server: Process, task: Any) -> None:
    while ask(server, "GET", f"tasks/{task['taskUid']}")["status"] in ("enqueued", "processing"):
        pass


def found(arm: MeilisearchText, *terms: str) -> set[str]:
    return {match.memory for match in arm.matching(dict.fromkeys(terms, 1.0), Sieve(), 50)}


def test_words_are_neither_joined_nor_parted_nor_completed(
    arm: MeilisearchText, names: Names
) -> None:
    put(
        arm,
        names,
        {
            "a/1.md": ["foo", "bar"],
            "a/2.md": ["foobar"],
            "a/3.md": ["dampfschiff", "fahrt", "the", "getusername"],
            "a/4.md": ["3·11·2", "utf8", "Foo", "über"],
        },
    )
    assert found(arm, "foo", "bar") == {"a/1.md"}
    assert found(arm, "foobar") == {"a/2.md"}
    assert found(arm, "bar", "foo") == {"a/1.md"}
    assert found(arm, "dampfschifffahrt") == set()
    assert found(arm, "the") == {"a/3.md"}
    assert found(arm, "fooba") == found(arm, "utf") == found(arm, "uber") == set()
    assert found(arm, "3·11·2") == found(arm, "Foo") == found(arm, "über") == {"a/4.md"}


def test_a_piece_with_any_of_the_terms_is_found(arm: MeilisearchText, names: Names) -> None:
    put(arm, names, {f"a/{n}.md": [f"t{n}", f"u{n}"] for n in range(30)})
    assert found(arm, *(f"t{n}" for n in range(20))) == {f"a/{n}.md" for n in range(20)}
    assert found(arm, *(f"x{n}" for n in range(12)), "u5") == {"a/5.md"}


def test_terms_are_ranked_as_bm25_ranks_them(arm: MeilisearchText, names: Names) -> None:
    dice = random.Random(7)
    words = [f"w{n}" for n in range(300)]
    odds = [1 / (n + 1) for n in range(300)]
    bags = {f"{'ab'[n % 2]}/{n}.md": dice.choices(words, odds, k=60) for n in range(600)}
    put(arm, names, bags)
    counts = Counter(word for bag in bags.values() for word in set(bag))
    hits = total = 0
    for _ in range(20):
        asked = dice.sample(words, 5)
        weights = {w: math.log(1 + (600 - counts[w] + 0.5) / (counts[w] + 0.5)) for w in asked}
        matches = arm.matching(weights, Sieve(), 10)
        scores = {name: _bm25(bag, weights) for name, bag in bags.items()}
        least = sorted(scores.values(), reverse=True)[len(matches) - 1]
        hits += sum(scores[match.memory] >= least - 1e-9 for match in matches)
        total += len(matches)
    assert hits >= 0.9 * total


def _bm25(bag: list[str], weights: dict[str, float]) -> float:
    times = Counter(bag)
    return sum(w * times[term] / (times[term] + 1.2) for term, w in weights.items())


def test_an_index_that_was_made_otherwise_is_refused_once_it_is_filled(
    server: Process, arm: MeilisearchText, names: Names
) -> None:
    uid = names.of("notes")
    settle(server, ask(server, "POST", "indexes", {"uid": uid, "primaryKey": "id"}))
    arm.ready(["notes"])  # an empty one is made as it should be
    arm.put(memory(names, "notes/a.md"))
    settle(
        server,
        ask(server, "PATCH", f"indexes/{uid}/settings", {"typoTolerance": {"enabled": True}}),
    )
    with pytest.raises(EngineRefused, match="other settings"):
        arm.ready(["notes"])
    with pytest.raises(EngineRefused, match="other settings"):
        arm.put(memory(names, "notes/b.md"))


def test_an_index_that_has_not_been_told_how_yet_holds_nothing_and_is_filled(
    server: Process, arm: MeilisearchText, names: Names
) -> None:
    """Another machine is between making it and telling it how, or was ended there."""
    put(arm, names, {"work/a.md": ["zebra"]})
    settle(server, ask(server, "POST", "indexes", {"uid": names.of("notes"), "primaryKey": "id"}))
    assert set(arm.held(["notes/a.md", "work/a.md"])) == {"work/a.md"}
    assert [held.memory for held in arm.manifest()] == ["work/a.md"]
    assert arm.prune(2e9) == 0
    assert arm.count(Sieve()) == 1
    assert found(arm, "zebra") == {"work/a.md"}
    assert arm.matching({"zebra": 1.0}, Sieve(collections=("notes",)), 5) == []
    put(arm, names, {"notes/a.md": ["zebra"]})
    assert found(arm, "zebra") == {"notes/a.md", "work/a.md"}


def test_settings_that_are_the_operators_stay(
    server: Process, arm: MeilisearchText, names: Names
) -> None:
    arm.put(memory(names, "notes/a.md"))
    path = f"indexes/{names.of('notes')}/settings"
    settle(server, ask(server, "PATCH", path, {"searchCutoffMs": 1500}))
    arm.put(memory(names, "notes/b.md"))
    assert ask(server, "GET", path)["searchCutoffMs"] == 1500


def test_many_machines_make_and_fill_one_bank_at_once(server: Process, names: Names) -> None:
    arms = [MeilisearchText(server.address, KEY, names, patience=30.0) for _ in range(4)]

    def fill(n: int) -> None:
        arms[n % 4].put(memory(names, f"{'ab'[n % 2]}/{n}.md", chunks=2))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(24)))
    assert len(list(arms[0].manifest())) == 24
    assert all(held.is_whole for held in arms[1].manifest())
    arms[0].drop()
    for arm in arms:
        arm.close()


def test_a_server_without_a_key_is_asked_without_one(tmp_path: Path, names: Names) -> None:
    open_to_all = meilisearch(tmp_path)
    open_to_all.start()
    arm = MeilisearchText(open_to_all.address, "", names, patience=30.0)
    try:
        arm.put(memory(names, "notes/a.md"))
        assert arm.count(Sieve()) == 1
    finally:
        arm.close()
        open_to_all.kill()


def test_a_server_that_stops_answering_is_left_in_time(tmp_path: Path, names: Names) -> None:
    server = meilisearch(tmp_path, KEY)
    server.start()
    arm = MeilisearchText(server.address, KEY, names, patience=3.0)
    assert server.pid is not None
    try:
        arm.version()
        with frozen(server.pid):
            for act in (arm.version, arm.drop, lambda: arm.count(Sieve())):
                with pytest.raises(EngineDown):
                    act()
        assert arm.version()
    finally:
        arm.close()
        server.kill()


def test_a_change_that_the_server_fails_at_is_an_error(arm: MeilisearchText, names: Names) -> None:
    (piece,) = memory(names, "notes/a.md")
    bad: Piece = piece._replace(id="not an id / at all")
    with pytest.raises(EngineRefused):
        arm.put([bad])
    arm.put([piece])
    assert arm.count(Sieve()) == 1


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends every request to another address, and notes what it was sent."""

    seen: list[dict[str, str]] = []  # noqa: RUF012 - one server at a time
    target = ""

    def do_GET(self) -> None:
        self.seen.append(dict(self.headers))
        if self.target:
            self.send_response(307)
            self.send_header("Location", self.target)
        else:
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_the_key_is_sent_to_no_other_address(
    names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password sk-netrc\n", "utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setattr(_Elsewhere, "seen", [])
    with HTTPServer(("127.0.0.1", 0), _Elsewhere) as there:
        monkeypatch.setattr(_Elsewhere, "target", f"http://127.0.0.1:{there.server_port}/other")
        thread = threading.Thread(target=there.serve_forever, args=(0.02,))
        thread.start()
        try:
            address = f"http://127.0.0.1:{there.server_port}"
            arm = MeilisearchText(address, KEY, names, patience=5.0)
            with pytest.raises(EngineRefused):
                arm.version()
            arm.close()
        finally:
            there.shutdown()
            thread.join()
    assert [headers["Authorization"] for headers in _Elsewhere.seen] == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    "address, seen",
    [
        ("http://me:sk-secret@127.0.0.1:1/?key=sk-secret#sk-secret", "http://127.0.0.1:1"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("http://[::1]:1/search/", "http://[::1]:1/search"),
        ("ftp://me:sk-secret@127.0.0.1", "an address that cannot be read"),
        ("http://127.0.0.1:sk-secret", "an address that cannot be read"),
        ("", "an address that cannot be read"),
    ],
)
@pytest.mark.parametrize("key", ["sk-secret", "sk-secret\nX: y", "sk-secret\N{SNOWMAN}"])
def test_what_an_address_holds_besides_the_place_is_never_shown(
    address: str, key: str, seen: str, names: Names
) -> None:
    arm = MeilisearchText(address, key, names, patience=1.0)
    assert arm.address == seen
    with pytest.raises(EngineError) as caught:
        arm.version()
    assert "sk-secret" not in shown(caught.value)
    arm.close()


def test_a_key_for_one_bank_opens_that_bank_alone(server: Process, names: Names) -> None:
    actions = """search documents.add documents.get documents.delete indexes.create indexes.get
        indexes.delete settings.get settings.update stats.get tasks.get version""".split()
    wanted = {"actions": actions, "indexes": [f"{names.prefix}*"], "expiresAt": None}
    key = str(ask(server, "POST", "keys", wanted)["key"])
    other = MeilisearchText(server.address, KEY, Names("other"), patience=30.0)
    other.put(memory(Names("other"), "notes/a.md"))
    arm = MeilisearchText(server.address, key, names, patience=30.0)
    arm.ready(["notes"])
    arm.put(memory(names, "notes/a.md", chunks=2))
    arm.put([*memory(names, "notes/a.md", version=2), *grave(names, "notes/b.md")])
    assert [match.memory for match in arm.matching({"common": 1.0}, Sieve(), 5)] == ["notes/a.md"]
    assert {held.memory for held in arm.manifest()} == {"notes/a.md", "notes/b.md"}
    assert arm.prune(2e9) == 1
    assert arm.otherwise() == []
    stranger = MeilisearchText(server.address, key, Names("other"), patience=30.0)
    assert stranger.count(Sieve()) == 0
    with pytest.raises(EngineRefused):
        stranger.put(memory(Names("other"), "notes/b.md"))
    arm.drop()
    assert other.count(Sieve()) == 1
    other.drop()
    for one in (arm, other, stranger):
        one.close()


def test_other_settings_are_told_of_and_changed(
    server: Process, arm: MeilisearchText, names: Names
) -> None:
    put(arm, names, {"notes/a.md": ["zebra"]})
    task = ask(server, "PATCH", f"indexes/{names.of('notes')}/settings", {"stopWords": ["zebra"]})
    settle(server, task)
    assert len(arm.otherwise()) == 1
    arm.adapt()
    assert arm.otherwise() == []
    assert [match.memory for match in arm.matching({"zebra": 1.0}, Sieve(), 5)] == ["notes/a.md"]
