"""How search, reconciliation and indexing grow with a bank, against the least each must cost.

Called by speed.py. The texts are made up from words as rare and as common as in English; their
vectors are random, because a model would take hours for what no measurement here depends on. The
floor of a search is the plainest thing that could answer it: FTS5's own ranking of the same words,
and one product of the same vectors in numpy.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from retain.app import App
from retain.index import embed
from retain.index.database import Database
from retain.search.request import SearchRequest
from retain.text.tokens import query as terms

SEED = 7
VOCABULARY = 30_000
WORDS = 130  # of a memory
DIMENSION = 384
QUERIES = 40
ROUNDS = 3


class Speed(NamedTuple):
    """Milliseconds, unless it says otherwise."""

    memories: int
    text: tuple[float, float]  # p50, p95
    hybrid: tuple[float, float]
    floor_text: tuple[float, float]
    floor: tuple[float, float]
    noop: float
    bare_listing: float
    changed: float
    index_rate: float  # chunks per second
    bare_rate: float


class RandomModel:
    """Vectors without a meaning, at no cost."""

    name, dimension = "random", DIMENSION

    def __init__(self) -> None:
        self._random = np.random.default_rng(SEED)

    def embed(self, texts: Sequence[str]) -> Any:
        vectors = self._random.standard_normal((len(texts), DIMENSION)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def query(self, text: str) -> Any:
        return self.embed([text])[0]


def measure(scratch: str, size: int) -> Speed:
    random.seed(SEED)
    words = vocabulary()
    root = os.path.join(scratch, f"scale-{size}", ".retain")
    write(root, size, words)
    app = App(bank=root, stays=True)
    with model(RandomModel()):
        started = time.perf_counter()
        app.sync()
        seconds = time.perf_counter() - started
        app.make_vectors()
        bank = app.indexes()[0]
        texts = bank.look(lambda it: [row[0] for row in it.execute("SELECT text FROM chunks")])
        queries = [" ".join(random.choices(words, rarities(), k=5)) for _ in range(QUERIES)]
        result = Speed(
            size,
            asked(app, queries, "text"),
            asked(app, queries, "hybrid"),
            *floors(bank.database, queries, len(texts)),
            *listing(root),
            changed(app, root),
            len(texts) / seconds,
            bare_rate(scratch, texts),
        )
    app.close()
    return result


def vocabulary() -> list[str]:
    """Words that no stemmer brings together, the common ones first."""
    letters = "bcdfghklmnprstvz"
    made = {
        "".join(
            random.choice(letters) + random.choice("aeiou") for _ in range(random.randint(2, 5))
        )
        for _ in range(VOCABULARY)
    }
    return sorted(made)


def rarities() -> list[float]:
    return [1 / (rank + 10) for rank in range(len(vocabulary_of_this_run))]


vocabulary_of_this_run: list[str] = []


def write(root: str, size: int, words: list[str]) -> None:
    vocabulary_of_this_run[:] = words
    for folder in range(5):
        os.makedirs(os.path.join(root, f"collection-{folder}"))
    weights = np.cumsum(rarities())
    for number in range(size):
        body = " ".join(random.choices(words, cum_weights=weights, k=WORDS))
        path = os.path.join(root, f"collection-{number % 5}", f"note-{number}.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f"---\ntitle: Note {number}\ntags: [bench]\n"
                f"created_at: 2026-01-{number % 28 + 1:02}T12:00:00Z\n---\n\n{body}\n"
            )


@contextlib.contextmanager
def model(one: Any) -> Iterator[None]:
    """Let every bank use this model."""
    before = embed.embedder
    embed.embedder = lambda *_, **__: one
    try:
        yield
    finally:
        embed.embedder = before


def asked(app: App, queries: Sequence[str], mode: str) -> tuple[float, float]:
    return spread(
        [lambda text=text: app.search(SearchRequest(text, mode=mode)) for text in queries]
    )


def spread(calls: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """The 50th and 95th percentile over some rounds, after one that warms up."""
    times = []
    for number in range(ROUNDS + 1):
        for call in calls:
            started = time.perf_counter()
            call()
            if number:
                times.append(1000 * (time.perf_counter() - started))
    ordered = sorted(times)
    return statistics.median(ordered), ordered[int(0.95 * len(ordered))]


def floors(
    store: Database, queries: Sequence[str], chunks: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    vectors = np.random.default_rng(SEED).standard_normal((chunks, DIMENSION)).astype(np.float32)
    probe = vectors[0].copy()
    match = "SELECT rowid FROM terms WHERE terms MATCH ? ORDER BY rank LIMIT 10"

    def words(connection: sqlite3.Connection, text: str) -> None:
        expression = " OR ".join(f'"{term}"' for term in terms(text))
        connection.execute(match, (expression,)).fetchall()

    def both(connection: sqlite3.Connection, text: str) -> None:
        words(connection, text)
        scores = vectors @ probe
        np.argpartition(-scores, 10)[:10]

    with store.reading() as connection:
        return (
            spread([lambda text=text: words(connection, text) for text in queries]),
            spread([lambda text=text: both(connection, text) for text in queries]),
        )


def listing(root: str) -> tuple[float, float]:
    """Finding out that nothing changed by looking at every file, and a bare listing of them."""

    def bare() -> None:
        for folder in os.scandir(root):
            if folder.is_dir() and folder.name[0] != ".":
                for entry in os.scandir(folder.path):
                    entry.stat(follow_symlinks=False)

    app = App(bank=root)
    app.sync()  # opens the index, which is not what is measured
    return spread([app.sync] * 3)[0], spread([bare] * 3)[0]


def changed(app: App, root: str) -> float:
    """From the change of one file to the answer that has it; a process that stays hears of it."""
    path = os.path.join(root, "collection-0", "note-0.md")
    with open(path, "a", encoding="utf-8") as file:
        file.write("\nxylophonequartz\n")
    request = SearchRequest("xylophonequartz", mode="text")
    started = time.perf_counter()
    while not app.search(request).hits:
        assert time.perf_counter() < started + 10
    return 1000 * (time.perf_counter() - started)


def bare_rate(scratch: str, texts: Sequence[str]) -> float:
    """Chunks per second into a bare FTS5 table in one transaction."""
    path = os.path.join(scratch, "bare.db")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE VIRTUAL TABLE bare USING fts5 (text, tokenize = 'porter unicode61')")
    started = time.perf_counter()
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO bare VALUES (?)", ((text,) for text in texts))
    connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    os.unlink(path)
    return len(texts) / seconds


def report(scratch: str, sizes: Sequence[int]) -> None:
    speeds = []
    for size in sizes:
        speeds.append(measure(scratch, size))
        print(f"{size:,} memories measured", file=sys.stderr)
    print("\n| memories | words p50 / p95 | floor | hybrid p50 / p95 | floor | x floor (p50) |")
    print("|---|---|---|---|---|---|")
    for one in speeds:
        print(
            f"| {one.memories:,} | {pair(one.text)} | {pair(one.floor_text)} | {pair(one.hybrid)} "
            f"| {pair(one.floor)} | {one.hybrid[0] / one.floor[0]:.2f} |"
        )
    print("\n| memories | no-op reconcile ms | x bare listing | one change searchable ms |", end="")
    print(" indexing chunks/s | x bare FTS5 |\n|---|---|---|---|---|---|")
    for one in speeds:
        print(
            f"| {one.memories:,} | {one.noop:.1f} | {one.noop / one.bare_listing:.2f} "
            f"| {one.changed:.0f} | {one.index_rate:,.0f} | {one.index_rate / one.bare_rate:.2f} |"
        )
    limits(speeds[-1])


def limits(one: Speed) -> None:
    """What is promised for a hundred thousand memories, beside what was measured."""
    print(
        f"\nAt {one.memories:,} memories (limits are for 100,000): no-op reconcile "
        f"{one.noop / 1000:.2f} s (limit 2), one change searchable {one.changed / 1000:.2f} s "
        f"(limit 1), hybrid p95 {one.hybrid[1]:.0f} ms (limit 50)."
    )


def pair(values: tuple[float, float]) -> str:
    return f"{values[0]:.1f} / {values[1]:.1f}"


WARM = """
import sys
from retain.app import App
from retain.search.request import SearchRequest
app = App(bank=sys.argv[1], stays=True)
app.search(SearchRequest("what is worth remembering", mode="text"))
bank = app.indexes()[0]
bank.embedder.query("warm")
type(bank.embedder).name = "random"  # whose vectors are there
for text in ("kada lemo", "tiru"):
    app.search(SearchRequest(text))
# Not ru_maxrss, which a child inherits from whoever started it.
with open("/proc/self/status", encoding="ascii") as file:
    print(next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")))
"""


def model_report(scratch: str, sizes: Sequence[int]) -> None:
    """The real model: how fast it fills an index, and what a warm process weighs."""
    from retain.index.embed import embedder

    root = os.path.join(scratch, "model", ".retain")
    random.seed(SEED)
    write(root, 300, vocabulary())
    one = embedder("bundled")
    assert one is not None
    app = App(bank=root)
    app.sync()
    bank = app.indexes()[0]
    texts = bank.look(lambda it: [row[0] for row in it.execute("SELECT text FROM chunks")])
    one.embed(texts[:8])
    rates = []
    for call in (lambda: one.embed(texts), app.make_vectors):
        started = time.perf_counter()
        call()
        rates.append(len(texts) / (time.perf_counter() - started))
    queries = spread([lambda: one.query("what did we decide about the release?")] * 20)
    app.close()
    print(
        f"\nVectors: {rates[1]:.1f} chunks/s into the index, {rates[0]:.1f} by the model alone: ",
        end="",
    )
    print(f"{rates[1] / rates[0]:.2f}x. A question's vector: {queries[0]:.1f} ms.")
    for size in sizes:
        large = os.path.join(scratch, f"scale-{size}", ".retain")
        child = subprocess.run(
            [sys.executable, "-c", WARM, large], check=True, capture_output=True, encoding="utf-8"
        )
        print(
            f"Peak RSS of a warm process with the model at {size:,} memories: "
            f"{child.stdout.strip()} MB (limit 400 at 100,000)."
        )
