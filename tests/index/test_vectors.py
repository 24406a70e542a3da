"""The vectors of a few chunks are read at the cost of those few."""

from __future__ import annotations

import sqlite3

import numpy as np

from retain.index import database
from retain.index.vectors import Mean, of_chunks, packed

SIZE = 4
STEP = 100  # instructions of SQLite's machine that are counted together


def _filled(many: int) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    database._create_tables(connection)
    vector = packed(np.full(SIZE, 0.5, np.float32))
    rows = ((number, number, "m", 0, b"", vector) for number in range(many))
    connection.executemany("INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?)", rows)
    return connection


def _steps(connection: sqlite3.Connection, chunks: list[int]) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, STEP)
    found = of_chunks(connection, "m", chunks, Mean(1, np.zeros(SIZE, np.float32)))
    connection.set_progress_handler(None, 0)
    assert found is not None
    assert found.chunks.tolist() == chunks
    return steps


def test_a_larger_bank_makes_reading_a_few_vectors_no_dearer() -> None:
    chunks = list(range(0, 400, 4))
    assert _steps(_filled(4_000), chunks) <= 2 * _steps(_filled(400), chunks)
