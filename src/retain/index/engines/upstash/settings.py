"""What can be chosen about Upstash."""

from __future__ import annotations

from typing import NamedTuple


class UpstashSettings(NamedTuple):
    """How the service is asked."""

    batch: int = 500  # pieces in one request
    lanes: int = 8  # requests at a time
    settle: float = 2.0  # seconds that a put waits until queries see it
