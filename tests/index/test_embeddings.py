"""Vectors: of one model at any time, made once, and resumed where a kill stopped them."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from retain.index import embeddings
from retain.index.embed import Embedder, EmbedderError, FloatArray
from retain.index.index import Index
from retain.index.vectors import Cache, Floats, pack
from retain.search.search import FEW_PENDING
from tests import crash, indexes

BATCH = embeddings._BATCH
HOLIDAY = "the model is on holiday and reads no list"
MANY = 160  # memories that have more chunks than a search embeds by itself


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, 12)
    return root


@pytest.fixture
def large(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "large")
    indexes.many(root, MANY)
    with indexes.opened(root) as bank:
        bank.refresh()
    return root


def _models(connection: sqlite3.Connection) -> set[str]:
    return {model for (model,) in connection.execute("SELECT DISTINCT model FROM vectors")}


def _counts(bank: Index) -> tuple[int, int, int]:
    """Chunks, vectors, pending."""
    query = (
        "SELECT (SELECT count(*) FROM chunks), (SELECT count(*) FROM vectors), "
        "(SELECT count(*) FROM pending)"
    )
    found: tuple[int, int, int] = bank.look(lambda db: db.execute(query).fetchone())
    return found


def unpacked(data: bytes) -> Floats:
    """The vector again."""
    scale = np.frombuffer(data[-4:], np.float32)[0]
    vector: Floats = np.frombuffer(data[:-4], np.int8).astype(np.float32) * scale
    return vector


def _is_of(bank: Index, model: Embedder) -> None:
    """Every vector is the one that this model makes of its chunk's own text."""
    stored = bank.look(
        lambda db: db.execute(
            "SELECT vector, lead, substr(text, skip + 1) FROM vectors JOIN chunks ON number = chunk"
        ).fetchall()
    )
    for vector, lead, text in stored:
        expected = model.query(f"{lead}. {text}" if lead else text)
        assert vector == pack(expected)
        assert abs(unpacked(vector) - expected).max() < 0.01


# Which model


def test_at_no_moment_are_vectors_of_two_models_in_the_index(large: Path) -> None:
    """A second process reads after every change that the first one commits."""
    indexes.build(large, indexes.Letters("first:1"))
    seen: list[set[str]] = []
    with indexes.opened(large) as watcher:

        def look() -> None:
            seen.append(watcher.look(_models))

        second = indexes.Letters("second:1", before=look)
        with indexes.opened(large, second) as bank:
            bank.refresh()
            indexes.fill(bank)
        look()
    assert len(seen) > MANY // BATCH
    assert seen[0] == set()
    assert all(one == {"second:1"} for one in seen[1:])


def test_a_model_adopted_by_another_process_ends_a_fill(large: Path) -> None:
    """The vectors that are under way are of the old model, and are thrown away."""
    with indexes.opened(large) as other:
        first = indexes.Letters(
            "first:1", before=lambda: embeddings.adopt(other.database, "second:1")
        )
        with indexes.opened(large, first) as bank:
            bank.refresh()
            embeddings.adopt(bank.database, "first:1")
            assert indexes.fill(bank) == 0
            assert 0 < len(first.texts) <= BATCH
            chunks, vectors, pending = _counts(bank)
            assert (vectors, pending) == (0, chunks)


# A model that does not answer


class Silent(indexes.Letters):
    """A model that has gone away."""

    def embed(self, texts: Sequence[str]) -> FloatArray:
        raise EmbedderError(f"the model is on holiday and reads no {type(texts).__name__}")

    def query(self, text: str) -> FloatArray:
        return self.embed([text])[0]


class Nameless(Silent):
    """A model that cannot even say what it is called: its directory is gone."""

    @property
    def name(self) -> str:
        raise EmbedderError(HOLIDAY)

    @name.setter
    def name(self, value: str) -> None: ...


@pytest.mark.parametrize("kind", [Silent, Nameless])
def test_a_missing_model_leaves_words_and_says_so(root: Path, kind: type[indexes.Letters]) -> None:
    with indexes.opened(root) as bank:
        by_words = indexes.ranked(bank, f"lantern {indexes.word(5)}", "text")
    with indexes.opened(root, kind()) as bank:
        for _ in range(2):
            answer = indexes.ask(bank, f"lantern {indexes.word(5)}")
            assert [(hit.id, hit.score, hit.text) for hit in answer.hits] == by_words
            assert answer.degraded.reasons == (HOLIDAY,)
        semantic = indexes.ask(bank, "lantern", "semantic")
        assert (semantic.hits, semantic.degraded.reasons) == ((), (HOLIDAY,))
        assert indexes.ask(bank, "lantern", "text").degraded.reasons == ()
        indexes.agrees(bank)


# How many are missing


def test_few_missing_vectors_are_made_by_a_search_and_many_are_counted(large: Path) -> None:
    letters = indexes.Letters()
    with indexes.opened(large, letters) as bank:
        answer = indexes.ask(bank, f"a lantern called {indexes.word(7)}")
        chunks, vectors, pending = _counts(bank)
        assert chunks > FEW_PENDING
        assert answer.hits[0].id == "m007"
        assert answer.degraded == (chunks, ())
        assert (vectors, pending, letters.texts) == (0, chunks, [])
        told: list[tuple[int, int]] = []
        assert bank.make_vectors(progress=lambda *at: told.append(at)) == chunks
        assert _counts(bank) == (chunks, chunks, 0)
        assert told == [(min(n, chunks), chunks) for n in range(BATCH, chunks + BATCH, BATCH)]
        indexes.many(large, FEW_PENDING - 1, "more")
        made = len(letters.texts)
        for path in sorted((large / "more").iterdir())[60:]:
            path.unlink()
        answer = indexes.ask(bank, f"a lantern called {indexes.word(7)}")
        assert answer.degraded == (0, ())
        assert _counts(bank)[2] == 0
        assert len(letters.texts) - made <= FEW_PENDING
        indexes.agrees(bank)


# Kills and company


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_killed_fill_keeps_what_was_committed(large: Path, at: int) -> None:
    def doomed() -> None:
        calls = iter(range(at))

        def count() -> None:
            if next(calls, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        bank = indexes.indexed(large, indexes.Letters(before=count))
        bank.refresh()
        indexes.fill(bank)

    assert crash.in_child(doomed).signal == signal.SIGKILL
    letters = indexes.Letters()
    with indexes.opened(large, letters) as bank:
        chunks, vectors, pending = _counts(bank)
        assert (vectors, pending) == (at * BATCH, chunks - at * BATCH)
        assert indexes.fill(bank) == pending
        assert 0 < len(letters.texts) <= pending
        _is_of(bank, letters)
        indexes.agrees(bank)


def test_a_kill_while_models_change_leaves_one_model(large: Path) -> None:
    indexes.build(large, indexes.Letters("first:1"))

    def doomed(statement: str) -> None:
        bank = indexes.indexed(large, indexes.Letters("second:1"))
        with bank.database.reading() as connection:
            connection.set_trace_callback(lambda seen: _die_at(statement, seen))
        indexes.fill(bank)

    for statement in ("DELETE FROM vectors", "INSERT OR IGNORE INTO pending", "COMMIT"):
        assert crash.in_child(partial(doomed, statement)).signal == signal.SIGKILL
        with indexes.opened(large) as bank:
            chunks, vectors, pending = _counts(bank)
            assert (bank.look(_models), vectors, pending) == ({"first:1"}, chunks, 0)
            indexes.agrees(bank)


def _die_at(statement: str, seen: str) -> None:
    # Reading transactions commit too; only the one that has changed something counts.
    _die_at.changed = getattr(_die_at, "changed", False) or seen.startswith("DELETE")  # type: ignore[attr-defined]
    if seen.startswith(statement) and _die_at.changed:  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_two_processes_filling_at_once_make_every_vector_right(large: Path) -> None:
    def work() -> object:
        letters = indexes.Letters()
        with indexes.opened(large, letters) as bank:
            bank.refresh()
            indexes.fill(bank)
            _is_of(bank, letters)
            return _counts(bank), len(letters.texts)

    outcomes = crash.together([work] * 3)
    assert [outcome.message for outcome in outcomes] == [""] * 3
    with indexes.opened(large, indexes.Letters()) as bank:
        chunks, vectors, pending = _counts(bank)
        assert (vectors, pending) == (chunks, 0)
        indexes.agrees(bank)
    assert [outcome.value[0] for outcome in outcomes] == [(chunks, chunks, 0)] * 3


def test_vectors_under_way_do_not_land_in_a_new_index(large: Path) -> None:
    """While texts are with the model, the index is built anew, with other numbers."""
    turns: list[int] = []

    def replace() -> None:
        turns.append(1)
        if len(turns) == 2:
            with indexes.opened(large) as other:
                first = indexes.value(other, "SELECT file FROM memories ORDER BY number LIMIT 1")
                (large / "notes" / first).unlink()
                other.refresh()
                other.database.replace("for the test")
                other.refresh(force_look=True)

    letters = indexes.Letters(before=replace)
    with indexes.opened(large, letters) as bank:
        bank.refresh()
        indexes.fill(bank)
        bank.refresh(force_look=True)
        indexes.fill(bank)
        _is_of(bank, letters)
        indexes.agrees(bank)


# The matrix


def test_the_cache_follows_every_change(root: Path) -> None:
    letters, cache = indexes.Letters(), Cache()
    with indexes.opened(root, letters) as bank:
        for change in range(8):
            indexes.write(root, f"notes/m{change:03}", f"bird number {change}")
            (root / f"notes/m{11 - change // 2:03}.md").unlink(missing_ok=True)
            bank.refresh()
            indexes.fill(bank)
            matrix = bank.look(lambda db: cache.matrix(db, letters.name, letters.dimension))
            fresh = bank.look(lambda db: Cache().matrix(db, letters.name, letters.dimension))
            assert matrix is not None
            assert fresh is not None
            assert matrix.chunks.tolist() == fresh.chunks.tolist()
            asked = letters.query("bird")
            assert matrix.products(asked).tolist() == fresh.products(asked).tolist()


class _Slow(indexes.Letters):
    """A model that looks meanwhile whether anyone holds the index, as a truncated log tells."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self.is_held: list[bool] = []

    def query(self, text: str) -> FloatArray:
        with indexes.plain(self._root) as other:
            other.execute("PRAGMA busy_timeout = 0")
            (busy, _, _) = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.is_held.append(bool(busy))
        return super().query(text)


def test_nobody_waits_for_the_index_while_a_model_thinks_about_a_question(root: Path) -> None:
    indexes.build(root, indexes.Letters())
    slow = _Slow(root)
    with indexes.opened(root, slow) as bank:
        bank.refresh()
        indexes.fill(bank)
        slow.is_held.clear()
        assert indexes.ids(bank, "harbour lantern", "hybrid")
    assert slow.is_held == [False]
