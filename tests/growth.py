"""Whether work grows with its input or with the square of it, told on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable

_SHARE = 8  # how much smaller the input is that the whole one is compared with
_NOISE = 0.1  # seconds; a quadratic step needs many at the sizes that are tried


def grows_linearly(run: Callable[[str], object], text: str, noise: float = _NOISE) -> bool:
    """Compare two sizes in one process, so that a slow machine slows both alike.

    Linear work takes eight times as long, quadratic work sixty-four times. One run of the whole
    that is fast enough is proof; what another process disturbed is tried again.
    """
    if (first := _seconds(run, text)) < noise:
        return True
    part = text[: len(text) // _SHARE]
    limit = 3 * _SHARE * min(_seconds(run, part) for _ in range(3)) + noise
    return first < limit or any(_seconds(run, text) < limit for _ in range(4))


def _seconds(run: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    run(text)
    return time.process_time() - start
