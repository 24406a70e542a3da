"""Whether anyone still waits for what an arm does.

What takes many requests has no end that its own limits would know: a server may always have one
more page. Who has stopped waiting says so here, and whoever is about to send a request asks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from retain.index.engines.arm import EngineDown

_LEFT: Final[ContextVar[threading.Event | None]] = ContextVar("left", default=None)


@contextmanager
def until(left: threading.Event) -> Iterator[None]:
    """Do something for someone who sets this when they leave."""
    token = _LEFT.set(left)
    try:
        yield
    finally:
        _LEFT.reset(token)


def check_wanted() -> None:
    """Stop here if nobody waits any more for what this is part of."""
    left = _LEFT.get()
    if left is not None and left.is_set():
        raise EngineDown("Nobody waits for this any more.")
