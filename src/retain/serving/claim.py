"""The right to listen for a bank: a lock that the kernel releases when its holder dies.

Only who holds the lock puts a socket in place, and by a rename, so that there is never one that
nobody reads from while its holder lives. Lock and socket are removed in the end; a lock that
turns out to have been removed is not the one that counts, and is taken anew.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final

from retain import warm
from retain.errors import Unsafe
from retain.fsio import Directory
from retain.paths import STATE

__all__ = ["Claim"]

_BACKLOG: Final = 64
_TRIES: Final = 10
_PRIVATE: Final = 0o600


class Claim:
    """The one socket of a bank, ready for connections."""

    def __init__(self, path: str, lock: int, listening: socket.socket) -> None:
        self.path = path
        self.socket = listening
        self._lock = lock
        self._inode = _inode(path)

    @classmethod
    def take(cls, root: str) -> Claim | None:
        """Listen for a bank from now on; None when another process does."""
        path = warm.address(root)
        lock = _locked(os.path.realpath(root), _beside(path, ".lock"))
        if lock is None:
            return None
        try:
            return cls(path, lock, _placed(path))
        except BaseException:
            os.close(lock)
            raise

    @property
    def is_held(self) -> bool:
        """Whether socket and lock are still in their places, which anyone may empty."""
        lock = _inode(_beside(self.path, ".lock"))
        return lock == _inode_of(os.fstat(self._lock)) and _inode(self.path) == self._inode

    def release(self) -> None:
        """Stop listening and leave nothing behind."""
        self.socket.close()
        if _inode(self.path) == self._inode:
            _remove(self.path)
        lock = _beside(self.path, ".lock")
        if _inode(lock) == _inode_of(os.fstat(self._lock)):
            _remove(lock)  # while it is held: who waits for it sees that it no longer counts
        os.close(self._lock)
        folder = os.path.dirname(self.path)
        if os.path.basename(folder) != STATE:
            with contextlib.suppress(OSError):  # others listen there too
                os.rmdir(folder)


def _make_folder(root: str, folder: str) -> None:
    """Make the directory that the socket stands in, without following a link to anywhere."""
    with Directory.open(root) as bank:
        if folder == os.path.join(root, STATE):
            bank.child(STATE, create=True).close()
        else:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
    if not warm.is_safe_folder(folder):
        raise Unsafe(
            f"{folder} is not a directory of yours alone; nobody listens there",
            hint="Remove it, or make it yours: mode 0700.",
        )


def _locked(root: str, path: str) -> int | None:
    """A lock file, open and locked; None when another process has it."""
    import fcntl

    for _ in range(_TRIES):
        _make_folder(root, os.path.dirname(path))
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _PRIVATE)
        except FileNotFoundError:
            continue  # the last to leave has removed the folder meanwhile
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except BaseException:
            os.close(lock)
            raise
        if _inode(path) == _inode_of(os.fstat(lock)):
            os.fchmod(lock, _PRIVATE)  # a umask may have taken bits away
            return lock
        os.close(lock)  # its last holder has removed it meanwhile
    return None


def _placed(path: str) -> socket.socket:
    """A listening socket, put in place when it is ready; whatever stands there is of the dead."""
    draft = _beside(path, ".new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        listening.bind(draft)
        os.chmod(draft, _PRIVATE)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        os.rename(draft, path)
    except BaseException:
        listening.close()
        _remove(draft)
        raise
    return listening


def _beside(path: str, ending: str) -> str:
    return os.path.splitext(path)[0] + ending


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


_Inode = tuple[int, int]


def _inode(path: str) -> _Inode | None:
    try:
        return _inode_of(os.lstat(path))
    except OSError:
        return None


def _inode_of(facts: os.stat_result) -> _Inode:
    return facts.st_dev, facts.st_ino
