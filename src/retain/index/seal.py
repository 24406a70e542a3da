"""By what an index is known to be ours, and as we left it; told without opening it.

Who opens the index notes where the file and its log stand on this very disk; when the last process
closes it, it notes the file's stamp. The note is signed with this machine's key. A file that came
from elsewhere, with a repository say, could say anything, and its log too: git puts both in the
place of ours without a word, because they are hidden from it.
"""

from __future__ import annotations

import contextlib
import os
import stat

from retain import held, machine
from retain.index.schema import APPLICATION
from retain.paths import STATE

__all__ = ["FILE", "Seal", "facts", "inode", "private"]

FILE = "index.db"
_LOG = "-wal"
_SEAL = "index.seal"
_MARK = APPLICATION.to_bytes(4, "big")
_AT_REST = "at rest"
_GENERATION = 0x80087601  # FS_IOC_GETVERSION: how often a disk has given a file's number away


class Seal:
    """The seal of one bank's index."""

    NAME = _SEAL

    def __init__(self, root: str) -> None:
        self._root, self._folder = root, os.path.join(root, STATE)
        self.path = os.path.join(self._folder, FILE)
        self._log = f"{self.path}{_LOG}"
        self._file = ""  # which one it was before anybody here had it open

    def version(self) -> int | None:
        """How many migrations the file has seen; None for one that is missing or not ours."""
        head = _head(self.path) if facts(self.path) else b""
        is_ours = head.startswith(b"SQLite format 3\0") and head[68:72] == _MARK
        return int.from_bytes(head[60:64], "big") if is_ours else None

    def holds(self) -> bool:
        """Whether the file is where we left it, and as we left it unless someone is using it."""
        found = facts(self.path)
        # In this mode SQLite leaves no journal behind; one that is there would be played back.
        if found is None or os.path.lexists(f"{self.path}-journal"):
            return False
        place, log, stamp = self._noted()
        self._file = _where(self.path)
        if not place or place != self._place():
            return False
        # A log means that someone uses the file now, or was killed, and SQLite deals with that;
        # but it must be the log that was noted. Nobody keeps one at rest.
        if os.path.lexists(self._log):
            return log == _where(self._log) != ""
        return stamp == _stamp(found)

    def write(self) -> None:
        """Note where the file is and how, for whoever opens it next; nobody has it open now."""
        self._file = _where(self.path)
        self._note()

    def note_log(self) -> None:
        """Note whose log is beside the file, for whoever opens it while it is in use.

        The file itself is not opened again: to close it would take SQLite's locks away.
        """
        place, log, _ = self._noted()
        if self._file and (place, log) != (self._place(), _where(self._log)):
            self._note()

    def _note(self) -> None:
        found = facts(self.path)
        if found is None:
            return
        said = "\n".join((self._place(), _where(self._log) or _AT_REST, _stamp(found)))
        signed = f"{machine.digest(machine.key(make=True), said.encode())}\n{said}"
        path = os.path.join(self._folder, _SEAL)
        draft = f"{path}.{os.getpid()}-{os.urandom(3).hex()}"
        with open(draft, "w", encoding="ascii", opener=private) as file:
            file.write(signed)
        os.replace(draft, path)

    def _noted(self) -> tuple[str, str, str]:
        """What the seal says of the place, the log and the stamp, if this machine has signed it."""
        signature, _, said = self._read().partition("\n")
        place, log, stamp = (*said.split("\n"), "", "", "")[:3]
        is_ours = signature == machine.digest(machine.key(), said.encode())
        return (place, log, stamp) if is_ours else ("", "", "")

    def _place(self) -> str:
        """Where the file stands on this very disk, which nobody can know who did not make it."""
        above = [os.lstat(path) for path in (self._folder, self._root)]
        return " ".join([self._file, *(f"{one.st_dev}:{one.st_ino}" for one in above)])

    def _read(self) -> str:
        path = os.path.join(self._folder, _SEAL)
        try:
            if facts(path) is None:  # a link or a pipe would have us wait for ever
                return ""
            with open(path, encoding="ascii", opener=private) as file:
                return file.read(1000)
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


def _where(path: str) -> str:
    """Which file this is and whose, empty where there is none.

    A disk gives the number of a file that is gone to the next one, with another generation. The
    mode is as we made it: a file that git has put there can mostly be read by others.
    """
    if facts(path) is None:
        return ""
    try:
        if path.endswith(_LOG):  # which SQLite locks nothing of, and which soon goes away
            with open(path, "rb", opener=private) as file:
                return _told(file.fileno())
        return held.through(path, _told)
    except FileNotFoundError:
        return ""  # in this very moment


def _told(fd: int) -> str:
    found = os.fstat(fd)
    told = (found.st_dev, found.st_ino, found.st_mode, found.st_uid, _generation(fd))
    return ":".join(map(str, told))


def _generation(fd: int) -> int:
    """How often the number of a file was given away, 0 where the disk does not tell."""
    import fcntl

    told = bytearray(8)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, _GENERATION, told)
    return int.from_bytes(told, "little")


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _head(path: str) -> bytes:
    return held.through(path, lambda fd: os.pread(fd, 100, 0))
