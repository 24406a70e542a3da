"""Machines that share an engine: each has files of its own, an index, and a way to the server."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retain.index.embed import FloatArray
from retain.index.engines.client import Client
from retain.index.engines.engine import Engine, EngineDown
from retain.index.engines.settings import Engines
from retain.index.engines.sync import Delivery, Drift, Pushed
from retain.index.index import Index
from tests import indexes
from tests.engines.conftest import DIMENSION, Bench
from tests.index.embed import server as models


class Words:
    """An embedder that knows a text by its words alone."""

    name, dimension = "words", DIMENSION

    def embed(self, texts: Sequence[str]) -> FloatArray:
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> FloatArray:
        total = np.full(DIMENSION, 0.01, np.float32)
        for word in text.casefold().split():
            digest = hashlib.blake2b(word.strip(".,:;!?#*").encode(), digest_size=DIMENSION)
            total += np.frombuffer(digest.digest(), np.uint8).astype(np.float32) - 127.5
        unit: FloatArray = (total / np.linalg.norm(total)).astype(np.float32)
        return unit


def by_words(asked: models.Asked) -> models.Answer:
    """The same behind an address, as what a model's server answers."""
    found = [
        {"index": at, "embedding": Words().query(text).tolist()}
        for at, text in enumerate(asked.body["input"])
    ]
    return models.Answer(body=json.dumps({"object": "list", "data": found}))


class Faulty:
    """An engine that can be made to fail, or hang, at any call, before it or after it."""

    def __init__(self, engine: Engine, faults: dict[str, Callable[[], None]]) -> None:
        self._engine, self._faults = engine, faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._engine, name)

        def call(*args: Any, **options: Any) -> Any:
            self._faults.get(name, lambda: None)()
            found = method(*args, **options)
            self._faults.get(f"after {name}", lambda: None)()
            return found

        return call


def fail() -> None:
    raise EngineDown("example at nowhere is down.")


class Machine:
    """One clone of a bank, and what a person does with it."""

    def __init__(
        self, root: Path, bench: Bench, *, is_shared: bool = False, patience: float = 30.0
    ) -> None:
        self.root, self.bench = indexes.new(root), bench
        self.faults: dict[str, Callable[[], None]] = {}
        self._is_shared, self._patience = is_shared, patience
        self.index = indexes.indexed(root, Words(), make_engines=self._engines, stays=True)
        self.hanging = threading.Event()

    def _engines(self, index: Index) -> Engines:
        part = self.bench.row.part

        def make(seconds: float) -> Engine:
            return Faulty(self.bench.another(seconds=seconds), self.faults)

        client = Client(part, self.bench.row.kind, "nowhere", self.bench.bank, make, self._patience)
        model = Words.name if part == "vector" else ""
        bank, is_shared = self.bench.bank, self._is_shared
        delivery = Delivery(index.database, client, bank, model, is_shared=is_shared)
        return Engines(bank, is_shared, {part: delivery})

    @property
    def delivery(self) -> Delivery:
        engines = self.index.engines
        assert engines is not None
        (delivery,) = engines.deliveries.values()
        return delivery

    def write(self, ref: str, text: str) -> Path:
        return indexes.write(self.root, ref, text)

    def take_in(self) -> None:
        """The index in step with the files, vectors and all."""
        self.index.refresh()
        indexes.fill(self.index)

    def push(self, **options: Any) -> Pushed:
        self.take_in()
        return self.delivery.push(**options)

    def drift(self) -> Drift:
        self.take_in()
        return self.delivery.verify()

    def ask(self, query: str) -> tuple[list[str], list[str]]:
        """What a search finds, and why it was answered from the local index, if it was."""
        mode = "text" if self.bench.row.part == "text" else "semantic"
        answer = indexes.ask(self.index, query, mode, limit=10)
        reasons = [*answer.degraded.reasons] if answer.degraded else []
        return [f"{hit.collection}/{hit.id}" for hit in answer.hits], reasons

    def close(self) -> None:
        self.index.close()
