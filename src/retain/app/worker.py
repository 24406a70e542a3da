"""Vectors made, and engines told, in the background, for whoever keeps a bank open."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from retain.errors import RetainError

if TYPE_CHECKING:
    from retain.app.banks import Banks

_AGAIN: Final = 5.0  # seconds until what could not be delivered is tried again
_LOOK: Final = 60.0  # and between looks for what others have changed, where an engine is to know
_SWEEP: Final = 86_400.0  # and between two removals of what nobody uses


class EmbeddingWorker:
    """A thread that makes missing vectors, and delivers them, whenever it is woken.

    It ends with the app it works for. `failed` is called with a fault of ours; the thread ends
    with it, and the next call begins another.
    """

    def __init__(self, app: Banks, failed: Callable[[Exception], object] | None = None) -> None:
        self._app, self._failed = weakref.ref(app), failed
        self._woken, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._rests = False  # until it is woken: nothing lives elsewhere
        self._swept_at = -_SWEEP

    def notice(self) -> None:
        """Begin after a call, which may have written or found something."""
        app = self._app()
        # Settings that make no sense are reported to whoever asks for something.
        with contextlib.suppress(RetainError):
            is_running = self._thread is not None and self._thread.is_alive()
            if app and (not is_running or app.has_news or (self._rests and app.has_engines)):
                self.wake()

    def wake(self) -> None:
        """Begin now."""
        self._woken.set()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="retain-vectors", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        pause: float | None = None
        try:
            while not self._ended.is_set():
                self._rests = pause is None
                self._woken.wait(pause)
                self._rests = False
                self._woken.clear()
                app = self._app()
                if app is None:
                    return
                pause = self._work(app)
                del app  # so that it can be collected while this thread waits
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(error)

    def _work(self, app: Banks) -> float | None:
        """Do what there is to do; returns the seconds until the next look, None for no other."""
        # A model that does not answer is reported by the next search.
        with contextlib.suppress(RetainError):
            index = app.index()
            index.refresh()  # files may have come by git, without a write
            index.make_vectors(is_stopped=self._ended.is_set)
        pause: float | None = _AGAIN
        with contextlib.suppress(RetainError):
            waits = app.deliver(is_stopped=self._ended.is_set)
            pause = _AGAIN if waits else _LOOK if app.has_engines else None
        if not self._ended.is_set() and time.monotonic() > self._swept_at + _SWEEP:
            from retain.doctor import sweep_states  # reads records, which a start can spare

            sweep_states(app.env)
            self._swept_at = time.monotonic()
        return pause

    def end(self) -> None:
        """Stop after the vector that is being made; no server is waited for."""
        self._ended.set()
        self._woken.set()
        if app := self._app():
            app.stop_waiting()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
