"""What kind of disk a path is on, and directories that only their owner can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retain import locate
from retain.locate import is_network, make_private_directory


def mount_table(home: Path, path: Path, kind: str) -> str:
    """A table in which the disk that holds a path is of another kind."""
    device = os.stat(path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = (
        "22 27 0:999 / /proc rw,relatime - proc proc rw",
        f"27 1 {number} / /a\\040b rw shared:1 master:2 - {kind} src rw",
    )
    table = home / "mountinfo"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(table)


NETWORKS = ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuse.sshfs", "ceph")
LOCAL = ("ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "fuseblk")


@pytest.mark.parametrize("kind", [*NETWORKS, *LOCAL])
def test_a_network_disk_is_known(home: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(locate, "_MOUNTS", mount_table(home, home, kind))
    assert is_network(str(home)) == (kind in NETWORKS)
    assert is_network(str(home / "not" / "there" / "yet")) == (kind in NETWORKS)


@pytest.mark.parametrize("path", ["", "/", "/proc/self", "/dev/null", "/no/such", "a\0b", "\ud800"])
def test_any_path_has_an_answer(path: str) -> None:
    assert not is_network(path)


def test_without_a_mount_table_nobody_can_tell(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "_MOUNTS", str(home / "none"))
    assert not is_network(str(home))


def test_a_private_directory_is_private_up_to_the_first_that_was_there(home: Path) -> None:
    path = home / "state" / "retain" / "banks"
    make_private_directory(str(path))
    make_private_directory(str(path))
    for one in (path, path.parent, path.parent.parent):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
