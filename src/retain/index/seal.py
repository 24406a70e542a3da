"""By what an index is known to be ours, and as we left it; told without opening it.

When the last process closes the index it notes where the file stands on this very disk, and its
stamp. A file that came from elsewhere, with a repository say, could say anything.
"""

from __future__ import annotations

import os
import stat
import zlib

from retain.index.schema import APPLICATION
from retain.paths import STATE

__all__ = ["FILE", "Seal", "facts", "inode", "private"]

FILE = "index.db"
_SEAL = "index.seal"
_MARK = APPLICATION.to_bytes(4, "big")


class Seal:
    """The seal of one bank's index."""

    NAME = _SEAL

    def __init__(self, root: str) -> None:
        self._root, self._folder = root, os.path.join(root, STATE)
        self.path = os.path.join(self._folder, FILE)

    def version(self) -> int | None:
        """How many migrations the file has seen; None for one that is missing or not ours."""
        head = _head(self.path) if facts(self.path) else b""
        is_ours = head.startswith(b"SQLite format 3\0") and head[68:72] == _MARK
        return int.from_bytes(head[60:64], "big") if is_ours else None

    def holds(self) -> bool:
        """Whether the file is where we left it, and as we left it unless someone is using it."""
        found = facts(self.path)
        if found is None:
            return False
        place, _, stamp = self._read().partition("\n")
        if place != self._place(found):
            return False
        # A log beside it means that someone uses it now, or was killed: SQLite deals with that.
        return facts(f"{self.path}-wal") is not None or stamp == _stamp(found)

    def write(self) -> None:
        """Note where the file is and how, for whoever opens it next."""
        found = facts(self.path)
        if found is None:
            return
        path = os.path.join(self._folder, _SEAL)
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="ascii", opener=private) as file:
            file.write(f"{self._place(found)}\n{_stamp(found)}")
        os.replace(draft, path)

    def _place(self, found: os.stat_result) -> str:
        """Where the file stands on this very disk, which nobody can know who did not make it."""
        above = [os.lstat(path) for path in (self._folder, self._root)]
        return " ".join(f"{one.st_dev}:{one.st_ino}" for one in (found, *above))

    def _read(self) -> str:
        path = os.path.join(self._folder, _SEAL)
        try:
            if facts(path) is None:  # a link or a pipe would have us wait for ever
                return ""
            with open(path, encoding="ascii", opener=private) as file:
                return file.read(500)
        except (OSError, UnicodeDecodeError):
            return ""


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may read; no link is followed."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    if flags & os.O_CREAT and os.fstat(fd).st_mode & 0o600 != 0o600:
        os.fchmod(fd, 0o600)  # a umask has taken bits away
    return fd


def facts(path: str) -> os.stat_result | None:
    """What the disk says about a plain file; None where there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def inode(path: str) -> int:
    """The number of a plain file, 0 where there is none."""
    found = facts(path)
    return found.st_ino if found else 0


def _stamp(found: os.stat_result) -> str:
    stamp = f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    return f"{stamp} {zlib.crc32(stamp.encode()):08x}"


def _head(path: str) -> bytes:
    with open(path, "rb", opener=private) as file:
        return file.read(100)
