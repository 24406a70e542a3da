"""Files that SQLite may have open, looked at through handles that stay open.

A process has its locks on a file together, and closing any handle of it drops them all. Whoever
looks at a database that another part of the same process has open, and closes it again, takes that
one's locks away: another process then takes itself for the last one and removes the log beside the
file, with everything that is written to it from then on.
"""

from __future__ import annotations

import os
from _thread import RLock  # hooks load this: `threading` would cost them more

__all__ = ["handle"]

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_OPEN = "/dev/fd"  # a name for each handle of this process
_MANY = 32  # files from which on a process that has seen many banks lets go of some

_handles: dict[tuple[int, int, int], int] = {}
# The same thread may come here twice: while it is here, Python may let go of a forgotten bank,
# whose index is then closed and looked at.
_turn = RLock()


def handle(path: str) -> int:
    """A handle to read a file with, which nobody closes; a link is not followed."""
    with _turn:
        found = os.lstat(path)
        key = os.getpid(), found.st_dev, found.st_ino
        if key not in _handles:
            _forget_removed()
            _forget_idle()
            fd = os.open(path, _FLAGS)
            found = os.fstat(fd)  # another file may have come into its place
            key = os.getpid(), found.st_dev, found.st_ino
            _handles.setdefault(key, fd)
        return _handles[key]


def _forget_removed() -> None:
    """Close what nobody can open any more, so that its room on the disk is free again."""
    for key, fd in list(_handles.items()):
        if key[0] != os.getpid() or key not in _handles or os.fstat(fd).st_nlink:
            continue
        if _handles.pop(key, None) is not None:
            os.close(fd)


def _forget_idle() -> None:
    """Of many handles, close those whose files nobody here has open: there is no lock to drop."""
    if len(_handles) < _MANY:
        return
    own = set(_handles.values())
    used = {_file(fd) for fd in map(int, os.listdir(_OPEN)) if fd not in own}
    for key, fd in list(_handles.items()):
        if key[0] == os.getpid() and key[1:] not in used and _handles.pop(key, None) is not None:
            os.close(fd)


def _file(fd: int) -> tuple[int, int]:
    try:
        found = os.fstat(fd)
    except OSError:  # the listing's own, which is closed again
        return 0, 0
    return found.st_dev, found.st_ino
