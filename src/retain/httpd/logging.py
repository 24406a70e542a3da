"""Faults of our own, written to standard error without any value.

A line for each step, but no message: it may hold what a memory says, or a key, and logs are passed
on.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import Final

_MAX_STEPS: Final = 30  # of one error, the last ones: a recursion without end has thousands
_MAX_ERRORS: Final = 8  # of those that led to each other


def log_fault(error: BaseException, doing: str = "") -> None:
    """Say what broke and where; a log that cannot be written breaks nothing more."""
    where = f" while {doing}" if doing else ""
    with contextlib.suppress(OSError, ValueError):
        print(f"retain: a fault{where}: {describe(error)}", file=sys.stderr, flush=True)  # noqa: T201


def describe(error: BaseException) -> str:
    """Name an error, the places it went through, and the errors that led to it."""
    chain: list[BaseException] = []
    queue = [error]
    while queue and len(chain) < _MAX_ERRORS:
        current = queue.pop(0)
        chain.append(current)
        if isinstance(current, BaseExceptionGroup):
            queue += current.exceptions
        before = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
        queue += [before] if before else []
    return "\n  from ".join(map(_describe_one, chain))


def _describe_one(error: BaseException) -> str:
    steps = [
        # The last parts of the path: the whole would name someone's home.
        f"\n    {'/'.join(frame.f_code.co_filename.split('/')[-3:])}:{line} in "
        f"{frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return type(error).__name__ + "".join(steps[-_MAX_STEPS:])
