"""Vectors in Qdrant: one collection there for each collection of the bank."""

from __future__ import annotations

from retain.index.engines.qdrant.settings import QdrantSettings
from retain.index.engines.qdrant.vectors import QdrantVectors

__all__ = ["QdrantSettings", "QdrantVectors"]
