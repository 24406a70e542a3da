"""Machines that share an engine: each has files of its own, an index, and a way to the server."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from retain.index.embed import FloatArray
from retain.index.engines.choosing import TEXT, VECTOR, Engines
from retain.index.engines.delivery import Pushed, Sender
from retain.index.engines.wire import Wire
from retain.index.index import Index
from retain.memory import Answer
from tests import indexes
from tests.engines.contract import DIMENSION, MODEL, Bench
from tests.index.embed import server as models

__all__ = ["Machine", "Words", "by_words", "machine"]

_COUNT = itertools.count()


class Words:
    """An embedder that knows a text by its words alone."""

    name = MODEL
    dimension = DIMENSION

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


class Machine:
    """One clone of a bank, and what a person does with it."""

    def __init__(
        self,
        root: Path,
        bench: Bench,
        patience: float = 30.0,
        *,
        is_alone: bool = False,
        address: str = "",  # that a person has written for the same server
    ) -> None:
        self.root, self.bench = root, bench
        self.is_alone, self._address = is_alone, address or bench.server.address
        self.part = TEXT if bench.row.kind == "text" else VECTOR
        self._patience = patience
        self.bank = indexes.indexed(root, Words(), make_engines=self._engines)

    def _engines(self, bank: Index) -> Engines:
        def make(patience: float) -> object:
            return self.bench.another(self.bench.names, patience=patience)

        model = MODEL if self.part == VECTOR else ""
        wire: Wire[object] = Wire(  # type: ignore[type-var]
            self.part,
            f"{self.bench.row.product} {self._address} {self.bench.names.prefix}",
            make,
            bank.database,
            self._patience,
        )
        sender = Sender(
            bank.database,
            wire,  # type: ignore[arg-type]
            self.bench.names,
            model,
            is_alone=self.is_alone,
            root=str(self.root),
        )
        text = wire if self.part == TEXT else None
        vector = wire if self.part == VECTOR else None
        return Engines(self.bench.names, text, vector, {self.part: sender})  # type: ignore[arg-type]

    @property
    def engines(self) -> Engines:
        found = self.bank.engines
        assert found is not None
        return found

    @property
    def sender_model(self) -> str:
        """Whose vectors it sends; empty for words."""
        return MODEL if self.part == VECTOR else ""

    @property
    def key(self) -> str:
        """By what notes about its arm are known."""
        return self.engines.wires[self.part].key

    @property
    def sender(self) -> Sender:
        return self.engines.senders[self.part]

    def write(self, ref: str, text: str) -> Path:
        return indexes.write(self.root, ref, text)

    def take_in(self) -> None:
        """The index in step with the files, vectors and all."""
        self.bank.refresh()
        indexes.fill(self.bank)

    def push(self) -> Pushed:
        self.take_in()
        return self.sender.push()

    def ask(self, query: str, limit: int = 10) -> Answer:
        return indexes.ask(self.bank, query, limit=limit)

    def names(self, query: str, limit: int = 10) -> list[str]:
        return [f"{hit.collection}/{hit.id}" for hit in self.ask(query, limit).hits]

    def close(self) -> None:
        self.bank.close()


@contextlib.contextmanager
def machine(tmp_path: Path, bench: Bench, *, patience: float = 30.0) -> Iterator[Machine]:
    """A machine with an empty bank."""
    made = Machine(indexes.new(tmp_path / f"bank{next(_COUNT)}"), bench, patience)
    yield made
    made.close()
