"""Vectors made, and engines told, in the background, for whoever keeps a bank open."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

from retain.errors import RetainError
from retain.library import Library

__all__ = ["Filling"]


_AGAIN: Final = 5.0  # seconds until what could not be delivered is tried again
_LOOK: Final = 60.0  # and between looks for what others have changed, where an engine is to know


class Filling:
    """A thread that makes missing vectors, and delivers them, whenever it is woken.

    `failed` is told of a fault of ours; the thread ends with it, and the next call begins another.
    """

    def __init__(
        self, library: Library, failed: Callable[[Exception], object] | None = None
    ) -> None:
        self._library, self._failed = library, failed
        self._woken, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._rests = False  # until it is woken: nothing lives elsewhere

    def notice(self) -> None:
        """Something was asked: engines may have to be told of what that found, or of what waits."""
        # Settings that make no sense are told to whoever asks for something.
        with contextlib.suppress(RetainError):
            is_new = self._thread is None or self._library.has_news or self._rests
            if self._is_dead or (is_new and self._library.has_engines):
                self.wake()

    @property
    def _is_dead(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    def wake(self) -> None:
        """Something was written."""
        self._woken.set()
        if self._thread is None or self._is_dead:
            self._thread = threading.Thread(target=self._run, name="retain-vectors", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._fill()
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(error)

    def _fill(self) -> None:
        pause: float | None = None
        while not self._ended.is_set():
            self._rests = pause is None
            self._woken.wait(pause)
            self._rests = False
            self._woken.clear()
            # A model that does not answer is reported by the next search.
            with contextlib.suppress(RetainError):
                self._library.fill(is_stopped=self._ended.is_set)
            pause = _AGAIN
            with contextlib.suppress(RetainError):
                waits = self._library.deliver(is_stopped=self._ended.is_set)
                pause = _AGAIN if waits else _LOOK if self._library.has_engines else None

    def end(self) -> None:
        """Stop after the vector that is being made; no server is waited for."""
        self._ended.set()
        self._woken.set()
        self._library.leave()
        if self._thread is not None:
            self._thread.join()
