"""Every arm of every engine, and how its server is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.engines import servers
from tests.engines.contract import DIMENSION, KEY, Row

if TYPE_CHECKING:
    from retain.index.engines.arm import Arm
    from retain.index.engines.naming import Names

__all__ = ["ROWS"]


def _qdrant(directory: Path) -> servers.Server:
    return servers.qdrant(directory, KEY)


def _qdrant_vectors(address: str, key: str, names: Names, patience: float) -> Arm:
    from retain.index.engines.qdrant import QdrantVectors

    return QdrantVectors(address, key, names, patience=patience, dimension=DIMENSION)


def _meilisearch(directory: Path) -> servers.Server:
    return servers.meilisearch(directory, KEY)


def _meilisearch_text(address: str, key: str, names: Names, patience: float) -> Arm:
    from retain.index.engines.meilisearch import MeilisearchText

    return MeilisearchText(address, key, names, patience=patience)


def _postgres(directory: Path) -> servers.Server:
    return servers.postgres(directory, KEY)


def _postgres_text(address: str, key: str, names: Names, patience: float) -> Arm:
    from retain.index.engines.postgres import PostgresText

    return PostgresText(address, key, names, patience=patience)


def _postgres_vectors(address: str, key: str, names: Names, patience: float) -> Arm:
    from retain.index.engines.postgres import PostgresVectors

    return PostgresVectors(address, key, names, patience=patience, dimension=DIMENSION)


def _upstash(_directory: Path) -> servers.Server:
    from tests.engines.upstash_server import Upstash

    return Upstash(KEY, DIMENSION)


def _upstash_vectors(address: str, key: str, names: Names, patience: float) -> Arm:
    from retain.index.engines.upstash import UpstashVectors

    return UpstashVectors(address, key, names, patience=patience, dimension=DIMENSION)


ROWS = [
    Row("qdrant-vectors", "qdrant", "vector", _qdrant, _qdrant_vectors),
    Row("meilisearch-text", "meilisearch", "text", _meilisearch, _meilisearch_text),
    Row(
        "postgres-text", "postgres", "text", _postgres, _postgres_text,
        speaks_http=False, scheme="postgresql",
    ),
    Row(
        "postgres-vectors", "postgres", "vector", _postgres, _postgres_vectors,
        speaks_http=False, scheme="postgresql",
    ),
    Row("upstash-vectors", "upstash", "vector", _upstash, _upstash_vectors),
]  # fmt: skip
