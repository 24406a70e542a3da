"""Textual's driver of a terminal, for one that may go away without a signal."""

from __future__ import annotations

import contextlib
import select
import sys
from typing import TYPE_CHECKING, Any

from textual.drivers.linux_driver import LinuxDriver

if TYPE_CHECKING:
    from typing import TextIO


class Driver(LinuxDriver):
    """Knows whether its terminal is still there, and outlives it.

    A shell that catches SIGHUP keeps it from whoever runs in it. Then a read gives nothing, again
    and again, and a write an error that would end the thread that writes: once its queue is full,
    the screen would wait for ever.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Standard output is the terminal, or there would be no screen; `2>log` takes the other.
        is_terminal = sys.__stderr__ is not None and sys.__stderr__.isatty()
        stream = sys.__stderr__ if is_terminal else sys.__stdout__
        self._file = _Lenient(stream)  # type: ignore[assignment, arg-type]
        self._poll = select.poll()
        self._poll.register(self.fileno, 0)

    @property
    def is_gone(self) -> bool:
        """Whether nobody is at the other end any more."""
        return any(happened & select.POLLHUP for _, happened in self._poll.poll(0))


class _Lenient:
    """A stream that loses what nobody can read."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()
