"""A delivery that nobody waits for: a process of its own, which ends when all is told.

There is one for a bank at a time. Whoever starts it takes its lock and hands it over as its input,
so that it is never without; everybody else sees the lock, and leaves what they wrote to it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from retain.index.engines import locks
from retain.locate import state_directory

_LOCK: Final = "sending.lock"
_INPUT: Final = 0
# Those that were started here and may still run: whoever ends is no dead child of a long program.
_LEFT: Final[list[subprocess.Popen[bytes]]] = []


def send_off(root: str, env: Mapping[str, str]) -> None:
    """Start `retain engine push` for a bank, and leave it to itself; not where one is at it."""
    _LEFT[:] = [one for one in _LEFT if one.poll() is None]
    with contextlib.suppress(OSError):  # what cannot be told now is told by whoever comes next
        lock = locks.opened(_path(root))
        try:
            if locks.is_taken(lock):
                _start(root, env, lock)
        finally:
            os.close(lock)


def _start(root: str, env: Mapping[str, str], lock: int) -> None:
    command = [sys.executable, "-P", "-m", "retain", "--bank", root, "--quiet", "engine", "push"]
    _LEFT.append(
        subprocess.Popen(
            command,
            cwd=os.path.dirname(root),
            env=dict(env),
            stdin=lock,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    )


def rounds(root: str, waiting: Callable[[], int]) -> Iterator[None]:
    """One delivery for who asks for it; for one that was sent off as many as it takes.

    Who has written something and seen the lock relies on it, so it looks once more after it has let
    go of the lock: what was written later than that has somebody else sent off.
    """
    yield
    left = 0
    while _is_sent_off(root):
        locks.let_go(_INPUT)
        now = waiting()
        if now in (0, left) or not locks.is_taken(_INPUT):  # the rest cannot be told, or others do
            return
        left = now
        yield


def _is_sent_off(root: str) -> bool:
    try:
        return os.path.samestat(os.fstat(_INPUT), os.lstat(_path(root)))
    except OSError:
        return False


def _path(root: str) -> str:
    return os.path.join(state_directory(root, os.environ), _LOCK)
