"""Every arm of every engine, and how its server is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.engines import servers
from tests.engines.contract import DIMENSION, KEY, Row

if TYPE_CHECKING:
    from retain.engines.arm import Arm
    from retain.engines.naming import Names

__all__ = ["ROWS"]


def _qdrant(directory: Path) -> servers.Server:
    return servers.qdrant(directory, KEY)


def _qdrant_vectors(address: str, key: str, names: Names, patience: float) -> Arm:
    from retain.engines.qdrant import QdrantVectors

    return QdrantVectors(address, key, names, patience=patience, dimension=DIMENSION)


ROWS = [
    Row("qdrant-vectors", "qdrant", "vector", _qdrant, _qdrant_vectors),
]
