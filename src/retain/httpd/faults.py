"""Faults of our own, written where whoever runs a server looks for them.

A line for each step that led there, but no value and no message: either may hold what a memory
says, or a key, and a log is read and passed on.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import Final

_MOST_STEPS: Final = 30  # of one error, the last ones: a recursion without end has thousands
_MOST_ERRORS: Final = 8  # of those that led to each other


def log_fault(error: BaseException, doing: str = "") -> None:
    """Say what broke and where, and go on: a log that cannot be written breaks nothing more."""
    where = f" while {doing}" if doing else ""
    with contextlib.suppress(OSError, ValueError):
        print(f"retain: a fault{where}: {described(error)}", file=sys.stderr, flush=True)  # noqa: T201


def described(error: BaseException) -> str:
    """What an error is and the places it went through, with those that led to it."""
    return "\n  from ".join(map(_one, _chain(error)))


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < _MOST_ERRORS:
        one = waiting.pop(0)
        if any(one is known for known in found):
            continue
        found.append(one)
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        if before := one.__cause__ or (None if one.__suppress_context__ else one.__context__):
            waiting.append(before)
    return found


def _one(error: BaseException) -> str:
    steps = [
        f"\n    {_short(frame.f_code.co_filename)}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return type(error).__name__ + "".join(steps[-_MOST_STEPS:])


def _short(file: str) -> str:
    """A file as it is called below the place where packages are, which names no one's home."""
    return "/".join(file.replace("\\", "/").split("/")[-3:])
