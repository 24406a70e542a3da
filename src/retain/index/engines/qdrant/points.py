"""Pieces as points of Qdrant, and read again; and the version of a memory that each is of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.index.engines.arm import GRAVE, Piece
from retain.index.engines.tally import Row

HELD: Final = ["memory", "hash", "written", "pieces", "model"]
# The server reads a number of more than fifteen digits not quite as it was written, so a version
# is two of them: the second, and then the parts of a second and the beginning of the hash.
_TICKS: Final = 22  # bits: a float tells moments apart as finely between 2004 and 2038
_BITS: Final = 27


class Version(NamedTuple):
    """Which version of a memory a piece is of, in numbers that the server can compare."""

    second: int
    order: int  # within that second


def version_of(piece: Piece | Row) -> Version:
    ticks = math.floor(piece.written * (1 << _TICKS))
    rank = int(piece.hash[:7] or "0", 16) >> (28 - _BITS)
    return Version(ticks >> _TICKS, (ticks & ((1 << _TICKS) - 1)) << _BITS | rank)


def vector_of(piece: Piece) -> Any:
    # A grave has none, and is not found by any question.
    return {} if piece.vector is None or piece.place == GRAVE else piece.vector.tolist()


def payload_of(piece: Piece) -> dict[str, Any]:
    """All that is searched by or told again; what the memory says stays at home."""
    version = version_of(piece)
    return {
        "memory": piece.memory,
        "place": piece.place,
        "pieces": piece.pieces,
        "collection": piece.collection,
        "type": piece.type,
        "status": piece.status,
        "tags": list(piece.tags),
        "created": float(piece.created),
        "hash": piece.hash,
        "written": repr(float(piece.written)),  # a number might come back rounded
        "digest": piece.digest,
        "model": piece.model,
        "second": version.second,
        "order": version.order,
    }


def row_of(point: Any) -> Row:
    said = point["payload"]
    return Row(
        str(point["id"]),
        str(said["memory"]),
        str(said["hash"]),
        float(said["written"]),
        int(said["pieces"]),
        str(said["model"]),
    )


def batches(memories: Mapping[str, Sequence[Piece]], most: int) -> Iterator[list[str]]:
    """Memories that go into one request together; one that is too large goes alone."""
    some: list[str] = []
    room = most
    for memory, pieces in memories.items():
        if some and len(pieces) > room:
            yield some
            some, room = [], most
        some.append(memory)
        room -= len(pieces)
    if some:
        yield some
