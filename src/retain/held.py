"""Files that SQLite may have open, looked at through handles that stay open.

A process has its locks on a file together, and closing any handle of it drops them all. Whoever
looks at a database that another part of the same process has open, and closes it again, takes that
one's locks away: another process then takes itself for the last one and removes the log beside the
file, with everything that is written to it from then on.
"""

from __future__ import annotations

import os
import time
from _thread import RLock  # hooks load this: `threading` would cost them more

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _Result = TypeVar("_Result")

__all__ = ["through"]

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

_OPEN = "/dev/fd"  # a name for each handle of this process
_MANY = 32  # files from which on a process that has seen many banks lets go of some
_OPENING = 5.0  # seconds for which whoever has looked at a file may be about to lock it

_handles: dict[tuple[int, int, int], int] = {}
_looked_at: dict[tuple[int, int, int], float] = {}
# The same thread may come here twice: while it is here, Python may let go of a forgotten bank,
# whose index is then closed and looked at.
_turn = RLock()


def through(path: str, look: Callable[[int], _Result]) -> _Result:
    """What a look at a file finds, through a handle that stays open; a link is not followed.

    No other thread closes the handle meanwhile, nor soon after.
    """
    with _turn:
        return look(_handle(path))


def _handle(path: str) -> int:
    found = os.lstat(path)
    key = os.getpid(), found.st_dev, found.st_ino
    if key not in _handles:
        _forget_removed()
        _forget_idle()
        fd = os.open(path, _FLAGS)
        found = os.fstat(fd)  # another file may have come into its place
        key = os.getpid(), found.st_dev, found.st_ino
        _handles.setdefault(key, fd)
    _looked_at[key] = time.monotonic()
    return _handles[key]


def _forget_removed() -> None:
    """Close what nobody can open any more, so that its room on the disk is free again."""
    for key, fd in list(_handles.items()):
        if key[0] != os.getpid() or key not in _handles or os.fstat(fd).st_nlink:
            continue
        _forget(key, fd)


def _forget_idle() -> None:
    """Of many handles, close those whose files nobody here has open: there is no lock to drop."""
    if len(_handles) < _MANY:
        return
    own = set(_handles.values())
    used = {_file(fd) for fd in map(int, os.listdir(_OPEN)) if fd not in own}
    recent = time.monotonic() - _OPENING
    for key, fd in list(_handles.items()):
        is_idle = key[1:] not in used and _looked_at.get(key, 0.0) < recent
        if key[0] == os.getpid() and is_idle:
            _forget(key, fd)


def _forget(key: tuple[int, int, int], fd: int) -> None:
    _looked_at.pop(key, None)
    if _handles.pop(key, None) is not None:  # once: another file may have its number by now
        os.close(fd)


def _file(fd: int) -> tuple[int, int]:
    try:
        found = os.fstat(fd)
    except OSError:  # the listing's own, which is closed again
        return 0, 0
    return found.st_dev, found.st_ino
