"""Pieces as vectors with metadata, and read again."""

from __future__ import annotations

from typing import Any

from retain.index.engines.arm import GRAVE, Match, Piece
from retain.index.engines.tally import Row
from retain.index.engines.upstash.conditions import DEAD, token


def vector_of(piece: Piece, dimension: int) -> list[float]:
    if piece.place == GRAVE or piece.vector is None:
        # The service wants a vector for everything; no question finds a grave by it.
        return nowhere(dimension)
    found: list[float] = piece.vector.tolist()
    return found


def nowhere(dimension: int) -> list[float]:
    return [1.0] + [0.0] * (dimension - 1)


def metadata_of(piece: Piece) -> dict[str, Any]:
    """All that is searched by or told again; what the memory says stays at home."""
    return {
        "memory": piece.memory,
        "place": piece.place,
        "pieces": piece.pieces,
        "collection": token(piece.collection),
        "type": token(piece.type),
        "status": token(piece.status),
        "tags": [token(tag) for tag in piece.tags],
        "created": float(piece.created),
        "hash": piece.hash,
        "written": repr(float(piece.written)),  # a number might come back rounded
        "digest": piece.digest,
        "model": piece.model,
        "space": DEAD if piece.place == GRAVE else token(piece.model),
    }


def row_of(id_: str, said: Any) -> Row:
    return Row(
        str(id_),
        str(said["memory"]),
        str(said["hash"]),
        float(said["written"]),
        int(said["pieces"]),
        str(said["model"]),
    )


def match_of(said: Any, score: float) -> Match:
    return Match(str(said["memory"]), int(said["place"]), str(said["digest"]), score)


def product(score: float, function: str) -> float:
    """The product of two vectors of length 1, from the score between 0 and 1 that is told."""
    if function == "EUCLIDEAN":
        return 1 - (1 / max(float(score), 1e-9) - 1) / 2
    return 2 * float(score) - 1
