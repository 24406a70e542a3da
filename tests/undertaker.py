"""Servers of tests end with the tests, however those end.

A run that is interrupted or killed ends no server of its own. So a process that nothing but the end
of the tests can end is told which servers there are, and ends those that are left.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from functools import cache
from typing import IO

__all__ = ["lets_go", "minds"]

_PROGRAM = """
import os, signal, sys

left = set()
for line in sys.stdin:
    (left.add if line[0] == "+" else left.discard)(int(line[1:]))
for pid in left:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


def minds(pid: int) -> None:
    """End this process with the tests."""
    _tell(f"+{pid}")


def lets_go(pid: int) -> None:
    """It has ended, and its number may be another's."""
    _tell(f"-{pid}")


def _tell(what: str) -> None:
    told = _listener()
    told.write(f"{what}\n".encode("ascii"))
    told.flush()


@cache
def _listener() -> IO[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-ISc", _PROGRAM],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is not for it: it hears of that by the end of the tests
    )
    atexit.register(process.communicate)
    assert process.stdin
    return process.stdin
