"""Banks with their indexes for tests, and a model that takes no time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from retain.bank.bank import Bank
from retain.bank.listing import make_bank
from retain.doctor import index_faults
from retain.index.embed import Embedder, FloatArray
from retain.index.index import Index
from retain.locate import BankLocation, state_directory
from retain.memory import Answer
from retain.search.request import SearchRequest
from retain.search.search import search

NOW = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
DIMENSION = 24


class Letters:
    """An embedder that knows a text by its words alone, and remembers what it was asked."""

    def __init__(
        self, name: str = "letters:1", *, before: Callable[[], object] = lambda: None
    ) -> None:
        self.name = name
        self.dimension = DIMENSION
        self.texts: list[str] = []
        self._before = before

    def embed(self, texts: Sequence[str]) -> FloatArray:
        self._before()
        self.texts += texts
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> FloatArray:
        total = np.full(DIMENSION, 0.01, np.float32)
        for word in text.casefold().split():
            total += _direction(self.name, word.strip(".,:;!?#*"))
        unit: FloatArray = (total / np.linalg.norm(total)).astype(np.float32)
        return unit


def _direction(model: str, word: str) -> FloatArray:
    digest = hashlib.blake2b(f"{model} {word}".encode(), digest_size=DIMENSION).digest()
    centred: FloatArray = np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5
    return centred


def new(root: Path) -> Path:
    """A bank that nobody has indexed yet."""
    make_bank(str(root))
    return root


def write(root: Path, ref: str, text: str) -> Path:
    """Write a memory as a person does, with no help from Retain."""
    path = root / f"{ref}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def many(root: Path, count: int, collection: str = "notes") -> list[Path]:
    """Memories that each have a word of their own, one in four of several chunks."""
    return [write(root, f"{collection}/m{number:03}", _text(number)) for number in range(count)]


def _text(number: int) -> str:
    text = f"# Memory {number}\n\nThe harbour has a lantern called {word(number)}.\n"
    if number % 4 == 0:
        parts = (f"\n## Part {part}\n\n{f'rope{part} ' * 120}\n" for part in range(3))
        text += f"\nSee [[notes/m{number + 1:03}]].\n" + "".join(parts)
    return text


def word(number: int) -> str:
    """A word that no other memory has."""
    return "lamp" + "".join("bcdfghjklm"[int(digit)] for digit in f"{number:03}") + "ux"


def place(root: Path) -> BankLocation:
    return BankLocation(str(root), "retain", "bank", "a test", True)


def indexed(root: Path, embedder: Embedder | None = None, **rest: Any) -> Index:
    index = Index(Bank(place(root)), os.environ, **rest)
    index.embedder = embedder
    return index


@contextlib.contextmanager
def opened(root: Path, embedder: Embedder | None = None, *, stays: bool = False) -> Iterator[Index]:
    """A bank's index, let go of and sealed at the end."""
    bank = indexed(root, embedder, stays=stays)
    try:
        yield bank
    finally:
        bank.close()


def ask(bank: Index, query: str, mode: str = "hybrid", limit: int = 50) -> Answer:
    return search([bank], SearchRequest(query, limit=limit, mode=mode), now=NOW)


def ids(bank: Index, query: str, mode: str = "text") -> list[str]:
    return [hit.id for hit in ask(bank, query, mode).hits]


def ranked(bank: Index, query: str, mode: str = "hybrid") -> list[tuple[str, float, str]]:
    """Everything of an answer that a person would notice a change in."""
    return [(hit.id, hit.score, hit.text) for hit in ask(bank, query, mode).hits]


def build(root: Path, embedder: Embedder | None = None) -> None:
    """Index a bank with all its vectors, and leave it at rest."""
    with opened(root, embedder) as bank:
        bank.refresh()
        fill(bank)


def fill(bank: Index) -> int:
    """Make every missing vector."""
    return bank.make_vectors()


def faults(bank: Index) -> list[str]:
    return index_faults(bank.bank, bank.database)


def agrees(bank: Index) -> None:
    """The index says what the files say, in every row."""
    bank.refresh(force_look=True)
    assert faults(bank) == []
    rows = bank.look(lambda db: db.execute("SELECT collection, id FROM memories").fetchall())
    assert sorted(rows) == sorted(bank.bank.names())


def database(root: Path) -> Path:
    return state(root) / "index.db"


def state(root: Path) -> Path:
    """Where the state of a bank lies."""
    return Path(state_directory(str(root), os.environ))


@contextlib.contextmanager
def plain(root: Path) -> Iterator[sqlite3.Connection]:
    """The index as anyone with SQLite opens it."""
    with contextlib.closing(sqlite3.connect(database(root), isolation_level=None)) as connection:
        yield connection


def value(bank: Index, query: str) -> Any:
    """The one value a query gives."""
    return bank.look(lambda connection: connection.execute(query).fetchone()[0])
