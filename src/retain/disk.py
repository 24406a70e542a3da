"""Directories of the person's own, and what kind of disk a path is on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

_MOUNTS: Final = "/proc/self/mountinfo"
# Another machine may write here, or the host of a virtual one: this kernel would not know, nor
# would it share the memory that SQLite's write-ahead log needs.
_NETWORKS: Final = frozenset(
    "9p afs beegfs ceph cifs coda fakeowner gfs2 gpfs grpcfuse lustre ncpfs nfs nfs4 ocfs2 "
    "orangefs osxfs prl_fs pvfs2 smb2 smb3 smbfs vboxsf virtiofs vmhgfs".split()
)


def make_private_directory(path: str) -> None:
    """Make a directory that only its owner can read, and those missing above it; all synced."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        make_private_directory(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # a umask may have taken bits away
        with open_directory(above) as fd:
            os.fsync(fd)


@contextlib.contextmanager
def open_directory(path: str) -> Iterator[int]:
    """A handle of a directory, for syncing and locking it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def is_network(path: str) -> bool:
    """Whether a path is on a disk that other machines may write to; False where nobody can tell.

    The nearest folder that exists decides. Mounts are found by device number, which names them
    also behind binds and links; a device without a mount is a subvolume, and those are local.
    """
    path = os.path.abspath(path)
    while True:
        try:
            device = os.stat(path).st_dev
            break
        except (OSError, ValueError):
            path, below = os.path.dirname(path), path
            if path == below:
                return False
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return False
    for line in lines:
        facts, _, source = line.partition(" - ")
        major, _, minor = facts.split(" ", 3)[2].partition(":")
        kind = source.partition(" ")[0]
        # "fuseblk" is a local disk with a driver outside the kernel; of the others one cannot know.
        is_remote = kind in _NETWORKS or kind == "fuse" or kind.startswith("fuse.")
        if is_remote and os.makedev(int(major), int(minor)) == device:
            return True
    return False
