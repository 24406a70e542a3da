"""Vectors made, and engines told, in the background, for whoever keeps a bank open."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from retain.app import App
from retain.errors import RetainError

_AGAIN: Final = 5.0  # seconds until what could not be delivered is tried again
_LOOK: Final = 60.0  # and between looks for what others have changed, where an engine is to know
_SWEEP: Final = 86_400.0  # and between two removals of what nobody uses


class EmbeddingWorker:
    """A thread that makes missing vectors, and delivers them, whenever it is woken.

    `failed` is called with a fault of ours; the thread ends with it, and the next call begins
    another.
    """

    def __init__(self, app: App, failed: Callable[[Exception], object] | None = None) -> None:
        self._app, self._failed = app, failed
        self._woken, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._rests = False  # until it is woken: nothing lives elsewhere
        self._swept_at = -_SWEEP

    @property
    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def notice(self) -> None:
        """Begin after a question: it may have found something that engines have to be told."""
        # Settings that make no sense are reported to whoever asks for something.
        with contextlib.suppress(RetainError):
            is_new = not self._is_running or self._app.has_news
            if is_new or (self._rests and self._app.has_engines):
                self.wake()

    def wake(self) -> None:
        """Begin after a write."""
        self._woken.set()
        if not self._is_running:
            self._thread = threading.Thread(target=self._run, name="retain-vectors", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(error)

    def _work(self) -> None:
        pause: float | None = None
        while not self._ended.is_set():
            self._rests = pause is None
            self._woken.wait(pause)
            self._rests = False
            self._woken.clear()
            # A model that does not answer is reported by the next search.
            with contextlib.suppress(RetainError):
                self._app.index().refresh()  # files may have come by git, without a write
                self._app.make_vectors(is_stopped=self._ended.is_set)
            pause = _AGAIN
            with contextlib.suppress(RetainError):
                waits = self._app.deliver(is_stopped=self._ended.is_set)
                pause = _AGAIN if waits else _LOOK if self._app.has_engines else None
            if not self._ended.is_set() and time.monotonic() > self._swept_at + _SWEEP:
                from retain.doctor import sweep_states  # reads records, which a start can spare

                sweep_states(self._app.env)
                self._swept_at = time.monotonic()

    def end(self) -> None:
        """Stop after the vector that is being made; no server is waited for."""
        self._ended.set()
        self._woken.set()
        self._app.stop_waiting()
        if self._thread is not None:
            self._thread.join()
