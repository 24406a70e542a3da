"""The only writer: files placed whole, links never followed, nothing of anyone's overwritten."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from retain.bank import files as fsio
from retain.bank.files import Directory, FileWrite, WriteTransaction
from retain.errors import Conflict, NotSaved, Unsafe
from tests import crash

OLD, NEW, THEIRS = b"the old text", b"ours", b"what the person saved"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "x.md").write_bytes(OLD)
    (folder / "shelf").mkdir()
    return folder


@contextmanager
def _transaction(root: Path) -> Iterator[tuple[WriteTransaction, Directory, Directory]]:
    with (
        Directory.open(str(root)) as directory,
        WriteTransaction.open(directory, str(root)) as write,
        directory.child("notes") as notes,
        directory.child("shelf") as shelf,
    ):
        yield write, notes, shelf


def _replace(root: Path, data: bytes = NEW) -> None:
    with _transaction(root) as (write, notes, shelf):
        write.replace(notes, "x.md", data, OLD, shelf, "v1.md")


def _unfinished(root: Path) -> list[str]:
    return [name for name in os.listdir(root / ".trash") if name.startswith(fsio.DRAFT)]


def no_renameat2() -> Any:
    return mock.patch.object(fsio, "_renameat2", return_value=False)


@contextmanager
def system(kind: str) -> Iterator[None]:
    """This system, or one without renameat2."""
    with nullcontext() if kind == "full" else no_renameat2():
        yield


SYSTEMS = pytest.mark.parametrize("kind", ["full", "plain"])


@SYSTEMS
def test_replace_shelves_the_old_text_and_leaves_nothing_else(root: Path, kind: str) -> None:
    (root / "notes/x.md").chmod(0o640)
    with system(kind):
        _replace(root)
    assert (root / "notes/x.md").read_bytes() == NEW
    assert stat.S_IMODE((root / "notes/x.md").stat().st_mode) == 0o640
    assert (root / "shelf/v1.md").read_bytes() == OLD
    assert (root / "shelf/v1.md").stat().st_nlink == 1
    assert _unfinished(root) == []


@SYSTEMS
def test_create_never_overwrites(root: Path, kind: str) -> None:
    with system(kind), _transaction(root) as (write, notes, _):
        write.create(notes, "y.md", NEW)
        with pytest.raises(Conflict):
            write.create(notes, "x.md", NEW)
    assert crash.memories(root) == {"notes/x.md": OLD, "notes/y.md": NEW}
    assert _unfinished(root) == []


@SYSTEMS
def test_move_never_overwrites(root: Path, kind: str) -> None:
    with system(kind), _transaction(root) as (write, notes, shelf):
        write.create(shelf, "x.md", THEIRS)
        with pytest.raises(Conflict):
            write.move(notes, "x.md", shelf, "x.md")
        write.move(notes, "x.md", shelf, "y.md")
    assert crash.memories(root) == {"shelf/x.md": THEIRS, "shelf/y.md": OLD}


def _by_rename(file: Path) -> None:
    """Save as vim does: a backup, a new file, and the backup removed."""
    backup = file.with_name(f"{file.name}~")
    file.rename(backup)
    file.write_bytes(THEIRS)
    backup.unlink()


def _in_place(file: Path) -> None:
    file.write_bytes(THEIRS)


def _vanish(file: Path) -> None:
    file.unlink()


EDITS = [_by_rename, _in_place, _vanish]


@contextmanager
def at_the_exchange(edit: Callable[[Path], None], file: Path) -> Iterator[None]:
    """Let a person save their edit just before the first exchange."""
    rename, done = fsio._renameat2, False

    def late(*args: Any) -> bool:
        nonlocal done
        if not done and args[4] == fsio._EXCHANGE:
            done = True
            edit(file)
        return rename(*args)

    with mock.patch.object(fsio, "_renameat2", late):
        yield
    assert done


@pytest.mark.parametrize("edit", EDITS)
def test_edit_at_the_moment_of_the_exchange_stays(root: Path, edit: Callable[[Path], None]) -> None:
    twin = root.parent / "x.md"
    twin.write_bytes(OLD)
    edit(twin)
    with at_the_exchange(edit, root / "notes/x.md"), pytest.raises(Conflict):
        _replace(root)
    files = crash.files(root / "notes")
    assert files.get("x.md") == (twin.read_bytes() if twin.exists() else None)
    assert NEW not in files.values()
    assert _unfinished(root) == []


def test_old_text_outlives_a_deleted_trash_on_a_failing_disk(root: Path) -> None:
    """The old text has left its file, and the directory it waits in is deleted."""
    sync = Directory.sync

    def wreck(folder: Directory) -> None:
        if folder.path.endswith("notes"):
            shutil.rmtree(root / ".trash")
            raise OSError(errno.EIO, "broken")
        sync(folder)

    with mock.patch.object(Directory, "sync", wreck), pytest.raises(NotSaved):
        _replace(root)
    assert OLD in crash.files(root).values()


def test_leftover_text_goes_to_the_trash_once(root: Path) -> None:
    with _transaction(root):
        pass
    (root / ".trash/.new-half").write_bytes(b"unfinished")
    (root / ".trash/.new-empty").touch()
    os.link(root / "notes/x.md", root / ".trash/.new-placed")
    with _transaction(root):
        pass
    texts = [data for name, data in crash.files(root / ".trash").items() if name[0] != "."]
    assert texts == [b"unfinished"]
    assert crash.leftovers(root) == []
    assert crash.memories(root) == {"notes/x.md": OLD}


def test_foreign_journal_does_not_stop_writing(root: Path) -> None:
    (root / ".trash").mkdir()
    for number, text in enumerate([b"{ not ours", b"[1, 2]", b"\xff", b"", b"[" * 100_000]):
        (root / ".trash/.journal").write_bytes(text)
        with _transaction(root) as (write, notes, _):
            write.create(notes, f"{number}.md", NEW)
    assert len(crash.memories(root)) == 6


@pytest.mark.parametrize("label", ["", "v1_2026-01-01T00-00-00Z.md"])
def test_a_planted_journal_loses_no_memory_and_stops_no_write(root: Path, label: str) -> None:
    (root / ".trash/.journal.new").mkdir(parents=True)
    (root / ".versions/notes/y").mkdir(parents=True)
    (root / "notes/y.md").write_bytes(THEIRS)
    listed = [["notes", "y.md", hashlib.sha256(THEIRS).hexdigest(), label]]
    (root / ".trash/.journal").write_text(json.dumps(listed), encoding="utf-8")
    _replace(root)
    kept = [path for path in root.rglob("*.md") if path.read_bytes() == THEIRS]
    assert [path.parent.name for path in kept] == ["notes"]


@pytest.mark.parametrize(
    "place", [("..", "x.md"), ("../outside", "x.md"), ("", "../outside/x.md"), (".git", "x.md")]
)
def test_journal_of_a_cloned_project_removes_nothing_outside(
    root: Path, outside: Path, place: tuple[str, str]
) -> None:
    (root / ".git").mkdir()
    for folder in (root.parent, root / ".git"):
        (folder / "x.md").write_bytes(OUTSIDE)
    (root / ".trash").mkdir()
    digest = hashlib.sha256(OUTSIDE).hexdigest()
    (root / ".trash/.journal").write_text(json.dumps([[*place, digest, ""]]), encoding="utf-8")
    _replace(root)
    for folder in (root.parent, root / ".git", outside):
        assert (folder / "x.md").read_bytes() == OUTSIDE


def test_batch_that_meets_a_taken_name_places_nothing(root: Path) -> None:
    with _transaction(root) as (write, *_), pytest.raises(Conflict):
        write.write_all(
            [
                FileWrite("fresh", "a.md", NEW),
                FileWrite("notes", "x.md", OLD),
                FileWrite("notes", "z.md", NEW),
            ]
        )
    assert crash.memories(root) == {"notes/x.md": OLD}
    assert crash.leftovers(root) == []


# Links


OUTSIDE = b"not Retain's to touch"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir(mode=0o755)
    (folder / "x.md").write_bytes(OUTSIDE)
    return folder


def _untouched(outside: Path) -> None:
    assert crash.files(outside) == {"x.md": OUTSIDE}
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["link.md", "dangling.md", "loop.md"])
def test_linked_file_is_never_read_or_replaced(root: Path, outside: Path, name: str) -> None:
    target = {"link.md": f"{outside}/x.md", "dangling.md": f"{outside}/no", "loop.md": "loop.md"}
    (root / "notes" / name).symlink_to(target[name])
    with _transaction(root) as (write, notes, _):
        with pytest.raises(Unsafe):
            notes.read(name, 1000)
        with pytest.raises(Conflict):
            write.replace(notes, name, NEW, OUTSIDE)
        with pytest.raises(Conflict):
            write.create(notes, name, NEW)
    assert (root / "notes" / name).is_symlink()
    assert _unfinished(root) == []
    _untouched(outside)


@pytest.mark.parametrize("create", [False, True])
def test_linked_directory_is_never_entered(root: Path, outside: Path, create: bool) -> None:
    (root / "linked").symlink_to(outside)
    with Directory.open(str(root)) as directory, pytest.raises(Unsafe):
        directory.child("linked", create=create)
    _untouched(outside)


def test_file_swapped_for_a_link_before_the_exchange_is_a_conflict(
    root: Path, outside: Path
) -> None:
    def swap(file: Path) -> None:
        file.unlink()
        file.symlink_to(outside / "x.md")

    with at_the_exchange(swap, root / "notes/x.md"), pytest.raises(Conflict):
        _replace(root)
    assert (root / "notes/x.md").is_symlink()
    _untouched(outside)


def test_directory_swapped_for_a_link_while_it_is_held_is_not_followed(
    root: Path, outside: Path
) -> None:
    with _transaction(root) as (write, notes, _):
        (root / "notes").rename(root / "moved")
        (root / "notes").symlink_to(outside)
        write.create(notes, "y.md", NEW)
    assert (root / "moved/y.md").read_bytes() == NEW
    _untouched(outside)


# Modes
