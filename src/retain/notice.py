"""Whether anything in a bank's folders changed, asked of the kernel instead of the disk.

Linux queues an inotify event before the call that made the change returns, so whoever reads the
queue at the time of a search sees everything done until then, for the price of one system call.
What the kernel does not tell: writes through a memory map that outlives its descriptor, writes
through another hard link of a file, and what other machines do to a shared disk. The last is why
network file systems are refused; the other two are not how anyone saves a text.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ctypes

__all__ = ["Notice", "is_network"]

_MODIFY: Final = 0x002
_ATTRIB: Final = 0x004
_CLOSE_WRITE: Final = 0x008
_MOVED_FROM: Final = 0x040
_MOVED_TO: Final = 0x080
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_DELETE_SELF: Final = 0x400
_MOVE_SELF: Final = 0x800
_UNMOUNT: Final = 0x2000
_OVERFLOW: Final = 0x4000
_IGNORED: Final = 0x8000
_ONLY_A_FOLDER: Final = 0x01000000
_NO_LINK: Final = 0x02000000

_CHANGES: Final = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
)  # never opening or reading, or each search would wake the next
_ENDS: Final = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _OVERFLOW | _IGNORED
_WATCHED: Final = _CHANGES | _DELETE_SELF | _MOVE_SELF | _ONLY_A_FOLDER | _NO_LINK

_EVENT: Final = struct.Struct("iIII")
_BUFFER_BYTES: Final = 65536

_MOUNTS: Final = "/proc/self/mountinfo"
# Another machine may write here, or the host of a virtual one: this kernel would not know, nor
# would it share the memory that SQLite's write-ahead log needs.
_NETWORKS: Final = frozenset(
    "9p afs beegfs ceph cifs coda fakeowner gfs2 gpfs grpcfuse lustre ncpfs nfs nfs4 ocfs2 "
    "orangefs osxfs prl_fs pvfs2 smb2 smb3 smbfs vboxsf virtiofs vmhgfs".split()
)

_Place = tuple[int, int]  # device and inode


class Notice:
    """A watch on some folders, for one process and one thread at a time.

    A forked child shares the queue with its parent and must not empty it: there a Notice only
    says that everything may have changed. Programs that are started do not inherit it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._is_lost = False
        self._folders: dict[int, set[str]] = {}
        self._places: dict[str, _Place] = {}
        self._tops: dict[str, _Place] = {}
        self._local_devices: set[int] = set()

    @classmethod
    def on(cls, folders: Iterable[str]) -> Notice | None:
        """Watch folders, each on its own; None where the kernel cannot tell all that happens."""
        descriptor = _new_queue()
        if descriptor < 0:
            return None
        notice = cls(descriptor)
        for folder in folders:
            notice.add(folder)
        if notice._is_lost:
            notice.close()
            return None
        return notice

    def add(self, folder: str) -> None:
        """Watch one more folder; look into it afterwards, not before.

        A folder that cannot be watched makes the next answer of `changed` None.
        """
        try:
            # Looked up before the watch: a folder exchanged in between will not be in its place.
            place = _place(folder)
            self._refuse_networks(folder, place[0])
            watch = self._add_watch(folder)
        except (OSError, ValueError):
            self._is_lost = True
            return
        self._folders.setdefault(watch, set()).add(folder)
        self._places[folder] = place
        self._tops = {}

    def _refuse_networks(self, folder: str, device: int) -> None:
        if device not in self._local_devices:
            if is_network(folder):
                raise OSError(errno.EREMOTE, os.strerror(errno.EREMOTE), folder)
            self._local_devices.add(device)

    def _add_watch(self, folder: str) -> int:
        import ctypes

        watch: int = _libc().inotify_add_watch(self._descriptor, os.fsencode(folder), _WATCHED)
        if watch < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), folder)
        return watch

    def changed(self) -> set[str] | None:
        """The folders in which something happened since the last call; an empty set is nothing.

        None, once and from then on: events were lost, or a folder is no longer where it was.
        Look at everything, after making a new Notice.
        """
        if self._is_mute():
            return None
        folders: set[str] = set()
        while data := self._read():
            for watch, mask in _events(data):
                if mask & _ENDS:
                    self._is_lost = True
                folders.update(self._folders.get(watch, ()))
        # A folder that was replaced while someone had it open is not reported as deleted.
        self._is_lost = self._is_lost or not _are_in_place(self._places if folders else self._top())
        return None if self._is_lost else folders

    @property
    def is_lost(self) -> bool:
        """Whether it can tell nothing more: events were lost, or it is closed."""
        return self._is_lost

    def _is_mute(self) -> bool:
        return self._is_lost or self._owner != os.getpid()

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _BUFFER_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            self._is_lost = True
            return b""

    def _top(self) -> dict[str, _Place]:
        """The folders that are in no other watched one, and so may be moved without an event."""
        if not self._tops:
            self._tops = {
                folder: place
                for folder, place in self._places.items()
                if os.path.dirname(folder) not in self._places
            }
        return self._tops

    def fileno(self) -> int:
        """The descriptor, readable when something happened: for a loop that waits on several."""
        if self._descriptor < 0:
            raise ValueError("this Notice is closed")
        return self._descriptor

    def wait(self, seconds: float) -> bool:
        """Wait until `changed` has something to tell, or the time is up."""
        if self._is_mute():
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(max(seconds, 0.0) * 1000))

    def close(self) -> None:
        """Give the descriptor back, of which a person has 128 as a rule."""
        self._is_lost = True
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Notice:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _are_in_place(places: dict[str, _Place]) -> bool:
    try:
        return all(_place(folder) == place for folder, place in places.items())
    except OSError:
        return False


def _place(folder: str) -> _Place:
    facts = os.stat(folder, follow_symlinks=False)
    return facts.st_dev, facts.st_ino


def is_network(path: str) -> bool:
    """Whether a path is on a disk that other machines may write to; False where nobody can tell.

    The nearest folder that exists decides. Mounts are found by device number, which names them
    also behind binds and links; a device without a mount is a subvolume, and those are local.
    """
    device = _device(os.path.abspath(path))
    return device != 0 and any(
        number == device and _is_remote(kind) for number, kind in _mounts(_MOUNTS)
    )


def _is_remote(kind: str) -> bool:
    # "fuseblk" is a local disk with a driver outside the kernel; of the others one cannot know.
    return kind in _NETWORKS or kind == "fuse" or kind.startswith("fuse.")


def _device(path: str) -> int:
    while True:
        try:
            return os.stat(path).st_dev
        except (OSError, ValueError):
            path, below = os.path.dirname(path), path
            if path == below:
                return 0


def _mounts(table: str) -> Iterator[tuple[int, str]]:
    """Yield the device and the kind of each mount; none on a system that keeps no such table."""
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return
    for line in lines:
        facts, _, source = line.partition(" - ")
        major, _, minor = facts.split(" ", 3)[2].partition(":")
        yield os.makedev(int(major), int(minor)), source.partition(" ")[0]


def _new_queue() -> int:
    """Return a new inotify descriptor, -1 where there is none to be had."""
    if not sys.platform.startswith("linux"):
        return -1
    try:
        descriptor: int = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except AttributeError:
        return -1
    return descriptor


def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _events(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the watch and the mask of each event; the names do not matter."""
    at = 0
    while at < len(data):
        watch, mask, _cookie, length = _EVENT.unpack_from(data, at)
        yield watch, mask
        at += _EVENT.size + length
