"""What can be chosen about Meilisearch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MeilisearchSettings"]


class MeilisearchSettings(NamedTuple):
    """What can be chosen; replicas and shards are the server's own business."""

    indexing: float = 60.0  # seconds that a change may wait for its turn
    candidates: int = 3  # pieces weighed for each that is asked for; more find a little more
