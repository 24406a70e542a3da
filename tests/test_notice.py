"""Changes told by the kernel: nothing is missed, and nothing is told twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retain import notice as module
from retain.bank import Bank
from retain.notice import Notice, is_network
from retain.place import Place

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


@pytest.fixture
def bank(home: Path) -> Path:
    """A bank with a collection that holds one memory."""
    bank = home / "work" / ".retain"
    (bank / "knowledge").mkdir(parents=True)
    (bank / "knowledge" / "a.md").write_bytes(b"one\n")
    return bank


@pytest.fixture
def notice(bank: Path) -> Iterator[Notice]:
    with watching(bank, bank / "knowledge") as notice:
        yield notice


def watching(*folders: Path) -> Notice:
    notice = Notice.on(str(folder) for folder in folders)
    assert notice is not None
    return notice


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more\n")


def write_in_place(path: Path) -> None:
    path.write_bytes(b"in place\n")


def replace(path: Path) -> None:
    draft = path.with_name("draft")
    draft.write_bytes(b"replaced\n")
    draft.replace(path)


def save_like_vim(path: Path) -> None:
    path.rename(f"{path}~")
    path.write_bytes(b"vim\n")
    Path(f"{path}~").unlink()


def edit_a_mapping(path: Path) -> None:
    import mmap

    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as text:
        text[:3] = b"two"


WAYS: list[Callable[[Path], None]] = [
    append,
    write_in_place,
    replace,
    save_like_vim,
    edit_a_mapping,
    lambda path: path.unlink(),
    lambda path: os.rename(path, f"{path}.bak"),
    lambda path: path.chmod(0o600),
    os.utime,
    lambda path: os.truncate(path, 1),
    lambda path: path.with_name("new.md").touch(),
    lambda path: path.with_name("second.md").hardlink_to(path),
    lambda path: path.with_name("link.md").symlink_to(path),
    lambda path: path.with_name("folder").mkdir(),
]


@pytest.mark.parametrize("change", WAYS)
def test_any_way_to_change_a_folder_is_told_once_and_for_that_folder_alone(
    bank: Path, notice: Notice, change: Callable[[Path], None]
) -> None:
    assert notice.changed() == set()
    change(bank / "knowledge" / "a.md")
    assert notice.changed() == {str(bank / "knowledge")}
    assert notice.changed() == set()


def test_a_file_that_arrives_from_elsewhere_is_told(home: Path, bank: Path, notice: Notice) -> None:
    (home / "b.md").write_bytes(b"b")
    (home / "b.md").rename(bank / "b.md")
    assert notice.changed() == {str(bank)}


def test_a_move_between_two_folders_is_told_of_both(bank: Path, notice: Notice) -> None:
    (bank / "knowledge" / "a.md").rename(bank / "a.md")
    assert notice.changed() == {str(bank), str(bank / "knowledge")}


def test_what_another_process_did_before_it_ended_is_told(bank: Path, notice: Notice) -> None:
    script = "import sys; open(sys.argv[1], 'a', encoding='utf-8').write('x')"
    subprocess.run([sys.executable, "-c", script, str(bank / "knowledge" / "a.md")], check=True)
    assert notice.changed() == {str(bank / "knowledge")}


def test_retains_own_writes_are_told(bank: Path) -> None:
    own = Bank(Place(str(bank), "retain", "bank", "", True))
    with watching(bank, bank / "knowledge") as notice:
        memory = own.find("a", "knowledge")
        assert notice.changed() == set()
        own.change(memory.address, lambda _: b"---\nid: a\n---\n\ntwo\n", status="updated")
        changed = notice.changed()
        assert changed is not None
        assert str(bank / "knowledge") in changed


def test_reading_is_no_change(bank: Path, notice: Notice) -> None:
    (bank / "knowledge" / "a.md").read_bytes()
    os.listdir(bank)
    os.stat(bank / "knowledge")
    assert notice.changed() == set()


def test_thousands_of_events_are_one_answer(bank: Path, notice: Notice) -> None:
    for number in range(2000):
        (bank / "knowledge" / f"{'long name ' * 20}{number}.md").touch()
    assert notice.changed() == {str(bank / "knowledge")}
    assert notice.changed() == set()


def test_a_new_folder_is_told_and_can_be_watched(bank: Path, notice: Notice) -> None:
    (bank / "decisions").mkdir()
    assert notice.changed() == {str(bank)}
    notice.add(str(bank / "decisions"))
    (bank / "decisions" / "b.md").touch()
    assert notice.changed() == {str(bank / "decisions")}


def test_a_folder_added_twice_is_told_once(bank: Path, notice: Notice) -> None:
    notice.add(str(bank / "knowledge"))
    append(bank / "knowledge" / "a.md")
    assert notice.changed() == {str(bank / "knowledge")}
    assert notice.changed() == set()


def remove(folder: Path) -> None:
    (folder / "a.md").unlink()
    folder.rmdir()


def remove_and_make_again(folder: Path) -> None:
    remove(folder)
    folder.mkdir()


def rename_away(folder: Path) -> None:
    folder.rename(folder.with_name("other"))


def exchange(folder: Path) -> None:
    folder.rename(folder.with_name("other"))
    folder.mkdir()


@pytest.mark.parametrize("way", [remove, remove_and_make_again, rename_away, exchange])
def test_a_watched_folder_that_goes_means_look_at_everything(
    bank: Path, notice: Notice, way: Callable[[Path], None]
) -> None:
    way(bank / "knowledge")
    assert notice.changed() is None
    assert notice.changed() is None


def test_a_folder_replaced_while_someone_has_it_open_means_look_at_everything(
    bank: Path, notice: Notice
) -> None:
    held = os.open(bank / "knowledge", os.O_RDONLY)
    try:
        remove_and_make_again(bank / "knowledge")
        assert notice.changed() is None
    finally:
        os.close(held)


def test_a_project_moved_away_and_replaced_means_look_at_everything(
    home: Path, bank: Path, notice: Notice
) -> None:
    (home / "work").rename(home / "old")
    (bank / "knowledge").mkdir(parents=True)
    assert notice.changed() is None


def test_lost_events_mean_look_at_everything(bank: Path, notice: Notice) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
    if limit > 200_000:
        pytest.skip("this kernel keeps more events than a test should make")
    one, other = bank / "knowledge" / "a.md", bank / "knowledge" / "b.md"
    other.touch()
    # The kernel merges events that follow their like, so these take turns.
    for _ in range(limit):
        os.utime(one)
        os.utime(other)
    assert notice.changed() is None


def test_a_folder_that_cannot_be_watched_means_no_notice(home: Path, bank: Path) -> None:
    (home / "link").symlink_to(bank)
    for path in (home / "none", home / "link", bank / "knowledge" / "a.md", Path("a\0b")):
        assert Notice.on([str(bank), str(path)]) is None


def test_a_folder_that_cannot_be_added_means_look_at_everything(bank: Path, notice: Notice) -> None:
    notice.add(str(bank / "none"))
    assert notice.wait(60)
    assert notice.changed() is None


def test_a_refused_notice_keeps_no_descriptor(home: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        assert Notice.on([str(home / "none")]) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_forgotten_notice_gives_its_descriptor_back(bank: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    forgotten = watching(bank)
    del forgotten
    assert len(os.listdir("/proc/self/fd")) == before


EXHAUST = """
import resource, sys
from retain.notice import Notice
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
while notice := Notice.on([sys.argv[1]]):
    held.append(notice)
"""


def test_running_out_of_descriptors_means_no_notice(bank: Path) -> None:
    subprocess.run([sys.executable, "-c", EXHAUST, str(bank)], check=True)


def test_wait_ends_when_something_happens(bank: Path, notice: Notice) -> None:
    timer = threading.Timer(0.05, append, [bank / "knowledge" / "a.md"])
    timer.start()
    assert notice.wait(60)
    timer.join()
    assert notice.changed() == {str(bank / "knowledge")}


def test_wait_ends_when_the_time_is_up(notice: Notice) -> None:
    assert not notice.wait(0.01)
    assert not notice.wait(-1)


def test_the_descriptor_can_be_waited_on_with_others(bank: Path, notice: Notice) -> None:
    import select

    assert select.select([notice], [], [], 0)[0] == []
    append(bank / "knowledge" / "a.md")
    assert select.select([notice], [], [], 60)[0] == [notice]


FORK = """
import os, pathlib, sys
from retain.notice import Notice
folder = pathlib.Path(sys.argv[1])
notice = Notice.on([str(folder)])
(folder / "b.md").touch()
child = os.fork()
if not child:
    is_right = notice.changed() is None and notice.wait(60)
    notice.close()
    os._exit(0 if is_right else 1)
assert os.waitpid(child, 0)[1] == 0
assert notice.changed() == {str(folder)}
(folder / "b.md").unlink()
assert notice.changed() == {str(folder)}
"""


def test_a_forked_child_takes_no_events_from_its_parent(bank: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(bank)], check=True)


def test_a_started_program_does_not_inherit_the_descriptor(notice: Notice) -> None:
    assert not os.get_inheritable(notice.fileno())
    listing = subprocess.run(
        ["ls", "-l", "/proc/self/fd"], capture_output=True, check=True, close_fds=False
    )
    assert b"inotify" not in listing.stdout


def test_a_closed_notice_tells_nothing_and_closes_again(bank: Path) -> None:
    notice = watching(bank)
    notice.close()
    notice.close()
    assert notice.changed() is None
    assert notice.wait(60)
    with pytest.raises(ValueError, match="closed"):
        notice.fileno()


def test_other_systems_have_no_notice(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Notice.on([str(bank)]) is None


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


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuse.sshfs", "ceph"]
)
def test_a_network_disk_is_known_and_not_watched(
    home: Path, bank: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(module, "_MOUNTS", mount_table(home, bank, kind))
    assert is_network(str(bank))
    assert is_network(str(bank / "not" / "there" / "yet"))
    assert Notice.on([str(bank)]) is None


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "fuseblk"])
def test_a_local_disk_is_watched(
    home: Path, bank: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(module, "_MOUNTS", mount_table(home, bank, kind))
    assert not is_network(str(bank))
    watching(bank).close()


@pytest.mark.parametrize("path", ["", "/", "/proc/self", "/dev/null", "/no/such", "a\0b", "\ud800"])
def test_any_path_has_an_answer(path: str) -> None:
    assert not is_network(path)


def test_without_a_mount_table_nobody_can_tell(
    home: Path, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOUNTS", str(home / "none"))
    assert not is_network(str(bank))


def test_the_question_about_networks_does_not_load_ctypes() -> None:
    script = "import sys; from retain.notice import is_network; is_network('/')\n"
    script += "print('ctypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b"False\n"
