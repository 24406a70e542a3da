"""A disk that is full, read-only, forbidden or broken: the old file stays, and we say so."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from retain.app import App
from tests import crash
from tests.conftest import Run

NOBODY = 65534
BIG = "a text that does not fit\n" * 4000

Act = Callable[[App], object]

WRITES: dict[str, Act] = {
    "create": lambda app: app.put(BIG, id="two"),
    "update": lambda app: app.update("one", BIG),
    "append": lambda app: app.append("one", BIG),
}
CHANGES: dict[str, Act] = {
    "delete": lambda app: app.delete("one"),
    "move": lambda app: app.move("one", to_collection="notes", to_id="uno"),
}
PATHS = {"create": ("memories/two.md",), "move": ("memories/one.md", "notes/uno.md")}


def _bank(root: Path) -> App:
    app = crash.new_bank(root)
    app.put("# One\n\nfirst\n", id="one")
    app.update("one", "# One\n\nthe old text\n")
    app.put("another", id="other", collection="notes")
    app.put("gone", id="gone")
    app.delete("gone")
    return app


def _refused(root: Path, outcome: crash.Outcome, name: str, before: crash.Snapshot) -> None:
    """The refusal names the file, everything is as it was, and reading goes on."""
    paths = PATHS.get(name, ("memories/one.md",))
    assert outcome.code == "not-saved", outcome.message
    assert outcome.message.startswith(tuple(f"not saved: {root / path}: " for path in paths))
    assert crash.files(root) == before
    app = crash.open_bank(root)
    assert app.get("one").body == "# One\n\nthe old text\n"
    assert [memory.id for memory in app.list()] == ["one", "other"]
    assert app.status().problems == ()


def _tmpfs(folder: Path, size: str) -> Path:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here: a full and a read-only disk are not tested")
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 100 kB."""
    folder = _tmpfs(tmp_path / "disk", "100k")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(disk: Path) -> None:
    """Take every byte that is left."""
    with open(disk / "ballast", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 512):
            pass
    assert os.statvfs(disk).f_bavail == 0


@pytest.mark.parametrize("name", WRITES)
def test_full_disk_saves_nothing_and_breaks_nothing(disk: Path, name: str) -> None:
    root = disk / "bank"
    app = _bank(root)
    before = crash.files(root)
    _refused(root, crash.in_child(partial(WRITES[name], app)), name, before)
    assert app.update("other", "there is room for this").status == "updated"


def test_move_on_a_disk_without_a_byte_to_spare_changes_nothing(disk: Path) -> None:
    root = disk / "bank"
    app = _bank(root)
    before = crash.files(root)
    _fill(disk)
    _refused(root, crash.in_child(partial(CHANGES["move"], app)), "move", before)


def test_delete_makes_room_even_on_a_full_disk(disk: Path) -> None:
    root = disk / "bank"
    app = _bank(root)
    _fill(disk)
    assert crash.in_child(lambda: app.delete("one")[0].id).value == "one"
    assert crash.leftovers(root) == []


@pytest.mark.parametrize("name", WRITES | CHANGES)
def test_read_only_disk_refuses_with_the_path(disk: Path, name: str) -> None:
    root = disk / "bank"
    app = _bank(root)
    before = crash.files(root)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    _refused(root, crash.in_child(partial((WRITES | CHANGES)[name], app)), name, before)


def _as_nobody(work: Callable[[], object]) -> object:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return work()


def _opened_up(root: Path, mode: int) -> None:
    """Let another user read the bank; its directories get this mode."""
    for path in (root.parent, root, *root.rglob("*")):
        path.chmod(mode if path.is_dir() else 0o644)
    for above in root.parent.parents:
        if above.stat().st_uid == os.getuid() and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("closed", ["", ".trash"])
@pytest.mark.parametrize("name", WRITES | CHANGES)
def test_another_users_bank_is_readable_and_refuses_writes(
    tmp_path: Path, name: str, closed: str
) -> None:
    root = tmp_path / "shared" / "bank"
    app = _bank(root)
    _opened_up(root, 0o755)
    if closed:
        (root / closed).chmod(0o700)
    before = crash.files(root)
    outcome = crash.in_child(partial(_as_nobody, partial((WRITES | CHANGES)[name], app)))
    _refused(root, outcome, name, before)
    reading = partial(_as_nobody, lambda: crash.open_bank(root).get("one").body)
    assert crash.in_child(reading).value == "# One\n\nthe old text\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_collection_that_may_not_be_read_hides_no_other(tmp_path: Path) -> None:
    root = tmp_path / "shared" / "bank"
    _bank(root)
    _opened_up(root, 0o755)
    (root / "notes").chmod(0o700)

    def look() -> tuple[list[str], list[str], str]:
        app = crash.open_bank(root)
        listed = [memory.id for memory in app.list()]
        return listed, [one.path for one in app.status().problems], app.get("one").id

    found = crash.in_child(partial(_as_nobody, look))
    assert found.value, found.message
    assert (found.value[0], found.value[2]) == (["one"], "one")
    assert str(root / "notes") in found.value[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "call", ["fsync", "write", "rename", "_renameat2", "link", "mkdir", "unlink"]
)
@pytest.mark.parametrize("name", WRITES | CHANGES)
def test_every_failing_call_leaves_the_bank_as_it_was(tmp_path: Path, name: str, call: str) -> None:
    """An input/output error at each call of a kind in turn, until the work gets by without one."""
    root = tmp_path / "bank"
    number, refusals = 0, 0
    while True:
        number += 1
        app = _bank(root.with_name(f"bank-{number}"))
        here = Path(app.location.root)
        before = crash.files(here)
        act = partial((WRITES | CHANGES)[name], app)
        outcome = crash.in_child(crash.failing(call, number, errno.EIO, act))
        if not outcome.code:
            break
        refusals += 1
        _refused(here, outcome, name, before)
    if call == "fsync":
        # The file's, its directory's and, for all but a new memory, one other directory's.
        assert refusals >= 2


def test_command_line_says_what_was_not_saved(disk: Path, run: Run) -> None:
    root = disk / "bank"
    _bank(root)
    before = crash.files(root)
    ran = run("put", "-", "--id", "one", "--bank", root, input=BIG)
    assert ran.code == 1
    assert f"not saved: {root}/memories/one.md: " in ran.err
    assert "The old file, if there was one, is intact." in ran.err
    assert crash.files(root) == before
    assert run("get", "one", "--bank", root, "--format", "raw").out == "# One\n\nthe old text\n"


def test_init_on_a_read_only_disk_is_refused_in_words(disk: Path, run: Run) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    ran = run("init", "--bank", disk / "bank")
    assert (ran.code, "Traceback" in ran.err) == (1, False)
    assert f"not saved: {disk}/bank: " in ran.err
