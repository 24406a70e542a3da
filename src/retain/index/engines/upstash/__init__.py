"""Vectors in Upstash Vector: one namespace of an index for each collection of the bank.

The index itself is made by its owner, who chooses its dimension. It sees a write in a fetch at
once, but in a query only after a while: a put waits for that. It cannot refuse an older version by
itself, nor count what passes a filter; both are done here.
"""

from __future__ import annotations

from retain.index.engines.upstash.settings import UpstashSettings
from retain.index.engines.upstash.vectors import UpstashVectors

__all__ = ["UpstashSettings", "UpstashVectors"]
