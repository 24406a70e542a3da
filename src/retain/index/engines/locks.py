"""Locks of one machine's processes: files in a bank's own folder, let go when a process ends."""

from __future__ import annotations

import os


def opened(path: str) -> int:
    """The open file of a lock; nothing that a link leads to is ever opened."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def is_taken(fd: int) -> bool:
    """Take a lock unless somebody else has it; whether it is ours now."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def let_go(fd: int) -> None:
    """Let others have it."""
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_UN)
