"""Vectors made in the background: a fault there is told, and does not end it for good."""

from __future__ import annotations

import threading
from typing import Any

from retain.app.worker import EmbeddingWorker


class Faulty:
    """An app that breaks the first time."""

    has_engines = False
    has_news = False

    def __init__(self) -> None:
        self.times = 0
        self.is_filled = threading.Event()

    def index(self) -> Faulty:
        return self

    def refresh(self) -> None:
        pass

    def make_vectors(self, **_: Any) -> None:
        self.times += 1
        if self.times == 1:
            raise ValueError("what a memory says")
        self.is_filled.set()

    def deliver(self, **_: Any) -> int:
        return 0

    def stop_waiting(self) -> None:
        pass


def test_a_fault_is_told_and_the_next_call_begins_anew() -> None:
    app, told = Faulty(), list[Exception]()
    has_failed = threading.Event()

    def failed(error: Exception) -> None:
        told.append(error)
        has_failed.set()

    worker = EmbeddingWorker(app, failed)  # type: ignore[arg-type]
    worker.wake()
    assert has_failed.wait(60)
    thread = worker._thread
    assert thread is not None
    thread.join(60)
    assert [type(one) for one in told] == [ValueError]
    worker.notice()
    assert app.is_filled.wait(60)
    worker.end()
