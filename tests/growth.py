"""Whether work grows with its input or with the square of it, told on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable

_SHARE = 8  # how much smaller the input is that the whole one is compared with
_NOISE = 0.1  # seconds; a quadratic step needs many at the sizes that are tried


def grows_linearly(run: Callable[[str], object], text: str) -> bool:
    """Compare two sizes in one process, so that a slow machine slows both alike."""
    if _seconds(run, text) < _NOISE:
        return True
    part = text[: len(text) // _SHARE]
    # The fastest of several runs is the one that no other process disturbed. Linear work takes
    # eight times as long, quadratic work sixty-four times.
    whole = min(_seconds(run, text) for _ in range(3))
    return whole < 3 * _SHARE * min(_seconds(run, part) for _ in range(3)) + _NOISE


def _seconds(run: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    run(text)
    return time.process_time() - start
