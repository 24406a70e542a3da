"""Vectors in Qdrant: one collection there for each collection of the bank."""

from __future__ import annotations

from retain.engines.qdrant.settings import QdrantSettings
from retain.engines.qdrant.vectors import QdrantVectors

__all__ = ["QdrantSettings", "QdrantVectors"]
