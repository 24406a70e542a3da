"""Engines beside the embedded index, in one run: how fast they are filled and asked, their weight.

    python bench/engines.py [--size 10000] [--engine qdrant,meilisearch,postgres,meilisearch+qdrant]

The bank is made up as in scale.py, and so are its vectors, which take no time: texts that share
their rarest word are near each other, as texts about one thing are. Real servers are started here
and given the finished index, as `retain engine push` does. Clients are threads of one
process, each with the bank opened for itself, as agents on one machine have it; Python lets one
of them compute at a time. The same is measured of the bare requests to a server, where it does most
of the work. A question that an engine did not answer in time, ten seconds here, is counted as
missed: the bank's own index has answered it. Machines differ and are shared: read the ratios, and
the processor's time.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scale
import servers

from retain.app import App
from retain.index.engines.client import Client as EngineClient
from retain.index.engines.engine import EngineError
from retain.search.request import SearchRequest

EMBEDDED = "embedded"
DEFAULT = "qdrant,meilisearch,postgres,meilisearch+qdrant"
THEMES = 1_000
CLIENTS: Mapping[int, int] = {1: 20, 8: 4, 32: 2}  # questions that each asks


class WordModel:
    """Vectors that follow from a text's words, at next to no cost."""

    name, dimension = "words", scale.DIMENSION

    def __init__(self, words: Sequence[str]) -> None:
        dice = np.random.default_rng(scale.SEED)
        # Some directions say more than others, as in the vectors of any real model.
        spread = 1 / np.sqrt(1 + np.arange(self.dimension) / 16)
        self._numbers = {word: number for number, word in enumerate(words)}
        self._words = (dice.standard_normal((len(words), self.dimension)) * spread).astype("f4")
        self._words *= np.log(np.arange(len(words)) + 10).astype("f4")[:, None]
        self._themes = (dice.standard_normal((THEMES, self.dimension)) * spread).astype("f4")

    def embed(self, texts: Sequence[str]) -> Any:
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> Any:
        known = [self._numbers[word] for word in text.split() if word in self._numbers]
        total = _unit(self._themes[max(known, default=0) % THEMES])
        if known:
            total = total + _unit(self._words[known].sum(axis=0))
        return _unit(total)


def _unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


class Load(NamedTuple):
    """What so many clients at once see."""

    p50: float  # ms
    p95: float
    rate: float  # answers in a second, of all together
    here: float  # ms of a processor for each answer, in the client
    there: float  # and in servers
    missed: float  # the share of questions that an engine did not answer in time


class Filled(NamedTuple):
    """How one arm was filled."""

    name: str
    rate: float  # memories in a second
    here: float  # ms of a processor for each, in the client
    there: float  # and in the server
    settled: float  # seconds until the server had done what it does afterwards
    disk: float  # bytes of a memory


class Asked(NamedTuple):
    """How one choice of engines answers."""

    name: str
    overlap: float  # of the first ten with the embedded index's, by words and meaning
    nearness: float  # the same by meaning alone
    searches: Mapping[int, Load]
    requests: Mapping[str, Mapping[int, Load]]  # of each arm elsewhere alone
    weights: Mapping[str, servers.Weight]  # of the servers after that


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size", type=int, default=10_000, help="memories")
    options.add_argument("--engine", default=DEFAULT, help="which, with + for two at once")
    args = options.parse_args()
    together = servers.parsed(args.engine)
    with tempfile.TemporaryDirectory(prefix="retain-engines-") as scratch:
        os.environ |= {"HOME": scratch, "RETAIN_HOME": os.path.join(scratch, "home")}
        random.seed(scale.SEED)
        words = scale.vocabulary()
        root = os.path.join(scratch, "bank", ".retain")
        scale.write(root, args.size, words)
        said(f"{args.size:,} memories written")
        with scale.model(WordModel(words)):
            report(root, args.size, together)


def report(root: str, size: int, together: Sequence[Sequence[str]]) -> None:
    filled = [indexed(root, size)]
    questions = [
        " ".join(random.choices(scale.vocabulary_of_this_run, scale.rarities(), k=5))
        for _ in range(scale.QUERIES)
    ]
    first = first_ten({}, root, questions)
    local = weight_of(root, size)
    asked = [pressed(EMBEDDED, [], root, questions, first)]
    with servers.running(dict.fromkeys(name for some in together for name in some)) as found:
        for some in together:
            if not all(name in found for name in some):
                continue
            chosen = [found[name] for name in some]
            if len(chosen) == 1:
                filled += delivered(chosen[0], root, size)
            else:  # each has it all by now, and only has to say so
                delivered_together(chosen, root)
            asked.append(pressed("+".join(some), chosen, root, questions, first))
    print(f"{size:,} memories. {local}\n")
    show_filled(filled)
    show_asked(asked)


def said(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr)


class Clock:
    """The time on the wall, and on processors, which others on the machine do not lengthen."""

    def __init__(self, chosen: Sequence[servers.Running] = ()) -> None:
        self._chosen = chosen
        self._started = self._now()

    def _now(self) -> tuple[float, float, float]:
        there = sum(one.cpu() for one in self._chosen)
        return time.perf_counter(), time.process_time(), there

    def read(self, count: int) -> tuple[float, float, float]:
        """Seconds since, and the ms of processors for each of so many."""
        wall, here, there = (b - a for a, b in zip(self._started, self._now(), strict=True))
        return wall, 1000 * here / count, 1000 * there / count


# Filling


def indexed(root: str, size: int) -> Filled:
    """The embedded index: from files to words and vectors that can be asked for."""
    with opened({}, root) as app:
        clock = Clock()
        app.sync()
        app.make_vectors()
        seconds, here, _ = clock.read(size)
        folder = os.path.dirname(app.index().database.path)
    said(f"indexed in {seconds:.0f} s")
    disk = servers.disk(folder)
    return Filled(EMBEDDED, size / seconds, here, 0.0, 0.0, disk / size)


def delivered(server: servers.Running, root: str, size: int) -> list[Filled]:
    """Give one server everything, arm by arm."""
    found = []
    with opened(servers.settings([server]), root) as app:
        engines = app.index().engines
        assert engines is not None
        for part, delivery in engines.deliveries.items():
            before = server.weight().disk
            clock = Clock([server])
            done = delivery.push(progress=servers.progress(f"{server.name}, {part}"))
            seconds = clock.read(size)[0]
            assert (done.sent, done.left) == (size, 0), done
            settled = server.settle()
            _, here, there = clock.read(size)
            disk = (server.weight().disk - before) / size
            name = f"{server.name}, {part}"
            found.append(Filled(name, size / seconds, here, there, settled, disk))
            said(f"{name}: {seconds:.0f} s, then {settled:.0f} s: {found[-1]}")
    return found


def delivered_together(chosen: Sequence[servers.Running], root: str) -> None:
    with opened(servers.settings(chosen), root) as app:
        servers.pushed(app)


def weight_of(root: str, size: int) -> str:
    files = [
        os.lstat(os.path.join(folder, name))
        for folder, _, names in os.walk(root)
        if "/." not in folder.removeprefix(root)
        for name in names
        if name.endswith(".md")
    ]
    read = sum(one.st_size for one in files) / size
    taken = sum(512 * one.st_blocks for one in files) / size
    return f"A memory's file has {read:,.0f} bytes and takes {taken:,.0f} on disk."


# Asking


@contextmanager
def opened(env: Mapping[str, str], root: str) -> Iterator[App]:
    app = App(bank=root, stays=True, env={**os.environ, **env})
    try:
        yield app
    finally:
        app.close()


def first_ten(
    env: Mapping[str, str], root: str, questions: Sequence[str]
) -> Mapping[str, list[set[str]]]:
    """What is found by words and meaning, and by meaning alone."""
    found: dict[str, list[set[str]]] = {"hybrid": [], "semantic": []}
    with opened(env, root) as app:
        for mode, ids in found.items():
            for text in questions:
                answer = app.search(SearchRequest(text, 10, mode))
                assert not answer.degraded, answer.degraded
                ids.append({hit.id for hit in answer.hits})
    return found


def overlap(ours: Sequence[set[str]], theirs: Sequence[set[str]]) -> float:
    shares = [len(a & b) / len(a) for a, b in zip(ours, theirs, strict=True) if a]
    return statistics.mean(shares)


def pressed(
    name: str,
    chosen: Sequence[servers.Running],
    root: str,
    questions: Sequence[str],
    first: Mapping[str, list[set[str]]],
) -> Asked:
    """Ask with one client, and with many."""
    env = servers.settings(chosen) if chosen else {}
    theirs = first_ten(env, root, questions)
    nearness = overlap(first["semantic"], theirs["semantic"])
    clients = [Client(env, root, questions) for _ in range(max(CLIENTS))]
    try:
        searches = {many: load([one.search for one in clients[:many]], chosen) for many in CLIENTS}
        said(f"{name}: searched")
        requests = {
            part: {
                many: load([one.requests(part) for one in clients[:many]], chosen)
                for many in CLIENTS
            }
            for part in clients[0].works
        }
        assert set(requests) == {part for one in chosen for part in servers.PARTS[one.name]}
        weights = {one.name: one.weight() for one in chosen}
    finally:
        for one in clients:
            one.app.close()
    shared = overlap(first["hybrid"], theirs["hybrid"])
    found = Asked(name, shared, nearness, searches, requests, weights)
    said(f"{name}: measured: {found}")  # a run takes long: what is known by now is not lost
    return found


class Client:
    """One agent: the bank opened for itself, with connections of its own."""

    def __init__(self, env: Mapping[str, str], root: str, questions: Sequence[str]) -> None:
        self.app = App(bank=root, stays=True, env={**os.environ, **env})
        self._questions = questions
        engines = self.app.index().engines
        deliveries = engines.deliveries if engines else {}
        self._clients = {part: delivery.client for part, delivery in deliveries.items()}
        self.works: dict[str, dict[int, Callable[[Any], Any]]] = {}
        self._current = 0
        for part, client in self._clients.items():
            self._note(part, client)

    def _note(self, part: str, client: EngineClient) -> None:
        """Remember what an arm is asked, so that it can be asked the same again, and only that."""
        ask = client.ask

        def noted(work: Callable[[Any], Any], spent: float = 0.0) -> Any:
            self.works.setdefault(part, {})[self._current] = work
            return ask(work, spent)

        client.ask = noted  # type: ignore[method-assign]

    def search(self, number: int) -> bool:
        self._current = number % len(self._questions)
        answer = self.app.search(SearchRequest(self._questions[self._current], 10))
        return not answer.degraded

    def requests(self, part: str) -> Callable[[int], bool]:
        """Ask one arm what the searches have asked it."""
        works = list(self.works[part].values())

        def request(number: int) -> bool:
            try:
                self._clients[part].call(works[number % len(works)])
            except EngineError:
                return False
            return True

        return request


def load(clients: Sequence[Callable[[int], bool]], chosen: Sequence[servers.Running]) -> Load:
    """Have each client ask its questions, all at once, after a round that warms up."""
    each = CLIENTS[len(clients)]
    times: list[float] = []
    answered: list[bool] = []
    ready = threading.Barrier(len(clients) + 1)

    def run(at: int) -> None:
        mine = range(at * each, (at + 1) * each)
        for number in mine:
            clients[at](number)
        ready.wait()
        for number in mine:
            started = time.perf_counter()
            answered.append(clients[at](number))
            times.append(1000 * (time.perf_counter() - started))

    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(clients))]
    for thread in threads:
        thread.start()
    ready.wait()
    clock = Clock(chosen)
    for thread in threads:
        thread.join()
    seconds, here, there = clock.read(len(clients) * each)
    assert len(times) == len(clients) * each, "a client has ended before its time"
    times.sort()
    middle, late = statistics.median(times), times[int(0.95 * len(times))]
    missed = answered.count(False) / len(answered)
    return Load(middle, late, len(times) / seconds, here, there, missed)


# Showing


def show_filled(filled: Sequence[Filled]) -> None:
    print("| filled | memories/s | CPU ms a memory, client + server | x embedded's CPU | ", end="")
    print("settled after s | bytes of disk a memory |\n|---|---|---|---|---|---|")
    base = filled[0].here
    for one in filled:
        print(
            f"| {one.name} | {one.rate:,.0f} | {one.here:.2f} + {one.there:.2f} "
            f"| {(one.here + one.there) / base:.1f} | {one.settled:.0f} | {one.disk:,.0f} |"
        )


def show_asked(asked: Sequence[Asked]) -> None:
    for many in CLIENTS:
        base = asked[0].searches[many]
        print(f"\n| searches, {many} at once | p50 / p95 ms | x embedded | searches/s | ", end="")
        print("CPU ms, client + server | x embedded | missed |\n|---|---|---|---|---|---|---|")
        for one in asked:
            its = one.searches[many]
            print(f"| {one.name} | {cells(its, base)} |")
        print(f"\n| bare requests, {many} at once | p50 / p95 ms | requests/s | ", end="")
        print("CPU ms, client + server | missed |\n|---|---|---|---|---|")
        for one in asked:
            for part, loads in one.requests.items():
                its = loads[many]
                print(
                    f"| {one.name}, {part} | {pair(its)} | {its.rate:,.0f} | {spent(its)} |", end=""
                )
                print(f" {its.missed:.0%} |")
    print("\n| first ten as embedded's | by words and meaning | by meaning |\n|---|---|---|")
    for one in asked[1:]:
        print(f"| {one.name} | {one.overlap:.3f} | {one.nearness:.3f} |")
    print("\n| server, after all that | RSS MB | of that no file MB |\n|---|---|---|")
    shown = {name: one for row in asked for name, one in row.weights.items()}
    for name, weight in shown.items():
        print(f"| {name} | {weight.resident / 1e6:,.0f} | {weight.own / 1e6:,.0f} |")


def cells(one: Load, base: Load) -> str:
    times = f"{(one.here + one.there) / (base.here + base.there):.2f}"
    slower = f"{one.p50 / base.p50:.2f}"
    return " | ".join(
        (pair(one), slower, f"{one.rate:,.0f}", spent(one), times, f"{one.missed:.0%}")
    )


def spent(one: Load) -> str:
    return f"{one.here:.1f} + {one.there:.1f}"


def pair(one: Load) -> str:
    return f"{one.p50:.1f} / {one.p95:.1f}"


if __name__ == "__main__":
    sys.exit(main())
