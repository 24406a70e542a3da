"""The vector arm: every chunk's vector in memory, compared with a query in one pass.

Vectors are stored as they come from the model, as bytes with a scale. What a chunk's neighbours
add is linear in the comparison with a query, so it is added to the results, not to the vectors.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from retain.index.database import STATE

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

NEIGHBOUR: Final = 0.3  # how much of the chunk before and after is part of a chunk's meaning
HUB: Final = 0.4  # how much of what every chunk has in common is taken off
_MANY: Final = 200  # chunks from which on one can tell what all have in common
# Numbers turned into floats at a time: they stay in the processor's cache, and are few enough that
# OpenBLAS (from 460,800 on) does not share out the work among threads of its own, which then wait
# for each other whenever two searches come at once. Bigger blocks are not faster for one either.
_BLOCK: Final = 131_072


def pack(vector: Floats) -> bytes:
    """A unit vector as one byte per dimension, then the scale."""
    scale = np.float32(max(float(np.abs(vector).max()), 1e-9) / 127)
    rounded: Bytes = np.rint(vector / scale).astype(np.int8)
    return rounded.tobytes() + scale.tobytes()


class Mean(NamedTuple):
    """What all vectors of a bank have in common, and how many those are."""

    chunks: int
    vector: Floats

    @property
    def hub(self) -> Floats:
        """The part of it that is taken off every comparison."""
        # What a few chunks have in common is what the bank is about, and not to be taken off.
        share = HUB * min(1.0, self.chunks / _MANY)
        found: Floats = (share * self.vector).astype(np.float32)
        return found


class Matrix:
    """The vectors of a bank, in the order of their chunks."""

    def __init__(
        self,
        chunks: Numbers,
        memories: Numbers,
        data: Bytes,
        scales: Floats,
        mean: Mean | None = None,
    ) -> None:
        self.chunks, self.memories = chunks, memories
        self.data, self.scales = data, scales
        # Whether the row above belongs to the chunk before.
        follows = (np.diff(chunks) == 1) & (np.diff(memories) == 0)
        self._follows: Floats = np.concatenate(([False], follows)).astype(np.float32)
        self._lengths = np.empty(len(data), np.float32)  # of vectors with their neighbours
        total = np.zeros(data.shape[1], np.float64)
        for part in self._parts():
            self._lengths[part] = np.linalg.norm(self._with_neighbours(part), axis=1)
            total += scales[part] @ data[part].astype(np.float32)
        np.maximum(self._lengths, 1e-6, out=self._lengths)
        # A part of a bank's vectors is told what all of them have in common.
        self.mean = mean or Mean(len(chunks), (total / max(len(data), 1)).astype(np.float32))
        self._hub = self._smooth(self.products(self.mean.hub))

    def __len__(self) -> int:
        return len(self.chunks)

    def _parts(self) -> Iterator[slice]:
        step = max(1, _BLOCK // max(1, self.data.shape[1]))
        for start in range(0, len(self.data), step):
            yield slice(start, min(start + step, len(self.data)))

    def products(self, query: Floats) -> Floats:
        """The cosine of every chunk's own vector with a query."""
        out = np.empty(len(self.data), np.float32)
        for part in self._parts():
            np.dot(self.data[part].astype(np.float32), query, out=out[part])
        out *= self.scales
        return out

    def compare(self, query: Floats) -> tuple[Floats, Floats]:
        """How near every chunk is to a query: with its neighbours, and that less the hub."""
        near = self._smooth(self.products(query))
        return near, np.maximum(near - self._hub, 0)

    def _smooth(self, values: Floats) -> Floats:
        """Add to each chunk's value what its neighbours have."""
        result: Floats = values.copy()
        result[1:] += NEIGHBOUR * self._follows[1:] * values[:-1]
        result[:-1] += NEIGHBOUR * self._follows[1:] * values[1:]
        result /= self._lengths
        return result

    def _with_neighbours(self, part: slice) -> Floats:
        """The vectors of some rows, each with its neighbours added."""
        low, high = max(part.start - 1, 0), min(part.stop + 1, len(self.data))
        block = self.data[low:high].astype(np.float32) * self.scales[low:high, None]
        summed: Floats = block.copy()
        follows = self._follows[low + 1 : high, None]
        summed[1:] += NEIGHBOUR * follows * block[:-1]
        summed[:-1] += NEIGHBOUR * follows * block[1:]
        return summed[part.start - low : part.stop - low]

    def smoothed_vectors(self) -> Floats:
        """Every row as a unit vector with its neighbours added, as `compare` sees it."""
        whole = slice(0, len(self.data))
        smoothed: Floats = self._with_neighbours(whole) / self._lengths[:, None]
        return smoothed

    def at(self, chunks: Sequence[int] | Numbers) -> Numbers:
        """The rows of these chunks, -1 for one that has no vector."""
        wanted = np.asarray(chunks, np.int64)
        places = np.searchsorted(self.chunks, wanted)
        places = np.minimum(places, max(len(self.chunks) - 1, 0))
        found: Numbers = np.where(self.chunks[places] == wanted, places, -1)
        return found

    def among(self, memories: Sequence[int]) -> Numbers:
        """The rows of these memories' chunks."""
        found: Numbers = np.flatnonzero(np.isin(self.memories, np.asarray(memories, np.int64)))
        return found

    def vectors(self, places: Numbers) -> Floats:
        """These rows as unit vectors."""
        found: Floats = self.data[places].astype(np.float32) * self.scales[places, None]
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
        return found


def nearest(values: Floats, limit: int, among: Numbers | None = None) -> Numbers:
    """The rows with the highest values, best first, the earlier one first among equals."""
    places = np.arange(len(values)) if among is None else among
    if len(places) > limit:
        held = values[places]
        # What ties with the last one must not depend on how the partition fell.
        places = places[held >= np.partition(held, -limit)[-limit]]
    best: Numbers = places[np.lexsort((places, -values[places]))][:limit]
    return best


def of_memory(connection: sqlite3.Connection, memory: int, model: str) -> dict[int, Floats]:
    """A memory's vectors by chunk, of length 1 with their neighbours added."""
    # By the chunks' numbers: there is no index by memory, and all vectors would be looked through.
    where = "chunk IN (SELECT number FROM chunks WHERE memory = ?)"
    matrix = _read(connection, model, where, memory)
    if matrix is None:
        return {}
    return dict(zip(matrix.chunks.tolist(), matrix.smoothed_vectors(), strict=True))


def of_chunks(
    connection: sqlite3.Connection, model: str, chunks: Iterable[int], mean: Mean
) -> Matrix | None:
    """The vectors of some chunks alone; those beside them have to be among them."""
    # As a join SQLite would go through all vectors of the model, and for each through the list.
    where = "chunk IN (SELECT value FROM json_each(?)) AND length(vector) = ?"
    values = (json.dumps(sorted(chunks)), len(mean.vector) + 4)
    return _read(connection, model, where, *values, mean=mean)


def total(connection: sqlite3.Connection, model: str) -> Mean | None:
    """What all vectors of a model have in common."""
    matrix = _read(connection, model, "true")
    return matrix.mean if matrix else None


def _read(
    connection: sqlite3.Connection,
    model: str,
    where: str,
    *values: object,
    mean: Mean | None = None,
) -> Matrix | None:
    query = (
        "SELECT chunk, memory, vector FROM vectors "  # noqa: S608 - our own words
        f"WHERE model = ? AND {where} ORDER BY chunk"
    )
    rows = connection.execute(query, (model, *values)).fetchall()
    if not rows:
        return None
    numbers = np.array([row[:2] for row in rows], np.int64)
    data, scales = _unpack([row[2] for row in rows])
    return Matrix(numbers[:, 0].copy(), numbers[:, 1].copy(), data, scales, mean)


def _unpack(vectors: Sequence[bytes]) -> tuple[Bytes, Floats]:
    """What `pack` made, as rows and their scales."""
    stored = np.frombuffer(b"".join(vectors), np.int8).reshape(len(vectors), -1)
    return stored[:, :-4], np.ascontiguousarray(stored[:, -4:]).view(np.float32)[:, 0]


class Cache:
    """The matrix of one index, read anew when the index says that it is old."""

    def __init__(self) -> None:
        self._state: object = None  # of the index, and the model
        self._matrix: Matrix | None = None

    def matrix(self, connection: sqlite3.Connection, model: str, dimension: int) -> Matrix | None:
        """The vectors of a model as the index has them now, None when there are none."""
        state = (connection.execute(STATE).fetchone(), model)
        if state != self._state:
            self._matrix = _read(connection, model, "length(vector) = ?", dimension + 4)
            self._state = state
        return self._matrix
