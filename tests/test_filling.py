"""Vectors made in the background: a fault there is told, and does not end it for good."""

from __future__ import annotations

import threading
from typing import Any

from retain.filling import Filling


class Faulty:
    """A library that breaks the first time."""

    has_engines = False
    has_news = False

    def __init__(self) -> None:
        self.times = 0
        self.is_filled = threading.Event()

    def fill(self, **_: Any) -> None:
        self.times += 1
        if self.times == 1:
            raise ValueError("what a memory says")
        self.is_filled.set()

    def deliver(self, **_: Any) -> int:
        return 0

    def leave(self) -> None:
        pass


def test_a_fault_is_told_and_the_next_call_begins_anew() -> None:
    library, told = Faulty(), list[Exception]()
    has_failed = threading.Event()

    def failed(error: Exception) -> None:
        told.append(error)
        has_failed.set()

    filling = Filling(library, failed)  # type: ignore[arg-type]
    filling.wake()
    assert has_failed.wait(60)
    thread = filling._thread
    assert thread is not None
    thread.join(60)
    assert [type(one) for one in told] == [ValueError]
    filling.notice()
    assert library.is_filled.wait(60)
    filling.end()
