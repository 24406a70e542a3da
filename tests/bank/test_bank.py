"""One bank: what is promised of memories as files, tested on real files."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from retain.app import App
from retain.bank import trash
from retain.bank.bank import Bank
from retain.bank.files import Directory
from retain.errors import BadName, Conflict, LimitExceeded, NotFound, RetainError, Unsafe
from tests import crash
from tests.bank.test_files import EDITS, OUTSIDE, SYSTEMS, at_the_exchange, system

HOUR = 3600.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bank"


@pytest.fixture
def app(root: Path) -> App:
    app = crash.new_bank(root)
    app.put("the old text", id="x", collection="notes")
    return app


@pytest.fixture
def bank(app: App) -> Bank:
    return app.bank


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "x.md").write_bytes(OUTSIDE)
    return folder


def _new(_: object) -> bytes:
    return b"ours"


def _trash(root: Path) -> list[bytes]:
    return [data for name, data in crash.files(root / ".trash").items() if name.endswith(".md")]


# A person's edit between the read and the write


@pytest.mark.parametrize("edit", EDITS)
def test_update_that_meets_a_persons_edit_keeps_both_texts(
    root: Path, bank: Bank, edit: Callable[[Path], None]
) -> None:
    file = root / "notes/x.md"
    with at_the_exchange(edit, file), pytest.raises(Conflict) as caught:
        bank.change("notes/x", _new)
    theirs = crash.files(root / "notes").get("x.md", b"")
    assert b"ours" not in theirs
    assert theirs.startswith(b"what the person saved") or not file.exists()
    assert b"ours" in _trash(root)
    assert "your text is in the trash as x.conflict_" in caught.value.unchanged


def test_edit_made_before_the_lock_was_free_is_noticed_by_its_hash(bank: Bank, root: Path) -> None:
    seen = bank.find("x").hash
    (root / "notes/x.md").write_bytes(b"what the person saved")
    with pytest.raises(Conflict):
        bank.change("x", _new, expect=seen)
    with pytest.raises(Conflict):
        bank.delete("x", expect=seen)
    assert (root / "notes/x.md").read_bytes() == b"what the person saved"
    assert b"ours" in _trash(root)


def test_delete_that_meets_a_persons_edit_leaves_the_file(root: Path, bank: Bank) -> None:
    file = root / "notes/x.md"
    moved = Directory.holds

    def late(folder: Directory, name: str, expected: bytes) -> bool:
        (root / ".trash/notes" / name).write_bytes(b"what the person saved")
        return moved(folder, name, expected)

    with mock.patch.object(Directory, "holds", late), pytest.raises(Conflict):
        bank.delete("x")
    assert file.read_bytes() == b"what the person saved"
    assert _trash(root) == []


@SYSTEMS
def test_every_operation_works_on_any_file_system(root: Path, app: App, kind: str) -> None:
    with system(kind):
        app.update("x", "second")
        app.append("x", "third")
        app.move("x", to_collection="other", to_id="y")
        app.restore("y", "v1")
        app.delete("y")
        app.untrash("y", to_id="z")
    assert app.get("other/z").body == "the old text"
    assert app.get("other/z").meta["id"] == "z"
    assert crash.leftovers(root) == []


# Links


@pytest.mark.parametrize("target", ["x.md", "no-such.md", "itself"])
def test_linked_memory_is_listed_and_never_followed(
    root: Path, app: App, outside: Path, target: str
) -> None:
    link = root / "notes/linked.md"
    link.symlink_to(link if target == "itself" else outside / target)
    for act in (
        lambda: app.get("linked"),
        lambda: app.update("linked", "new"),
        lambda: app.append("linked", "new"),
        lambda: app.delete("linked"),
        lambda: app.move("linked", to_collection=None, to_id="new"),
    ):
        with pytest.raises(Unsafe):
            act()
    with pytest.raises(Unsafe):
        app.bank.create("notes", "linked", b"new")
    assert [memory.id for memory in app.list()] == ["x"]
    assert [problem.path for problem in app.status().problems] == [str(link)]
    assert link.is_symlink()
    assert crash.files(outside) == {"x.md": OUTSIDE}


def test_linked_collection_is_listed_and_never_followed(
    root: Path, app: App, outside: Path
) -> None:
    (root / "linked").symlink_to(outside)
    (root / "notes/nested").symlink_to(outside)
    with pytest.raises(NotFound):
        app.get("linked/x")
    with pytest.raises(Unsafe):
        app.put("new", id="y", collection="linked")
    with pytest.raises(Unsafe):
        app.move("notes/x", to_collection="linked", to_id="")
    assert [memory.ref for memory in app.list()] == ["notes/x"]
    listed = [problem.path for problem in app.status().problems]
    assert listed == [str(root / "linked"), str(root / "notes/nested")]
    assert crash.files(outside) == {"x.md": OUTSIDE}


@pytest.mark.parametrize("name", [".trash", ".versions"])
def test_linked_directory_of_retains_own_is_listed_and_never_followed(
    root: Path, app: App, outside: Path, name: str
) -> None:
    if (root / name).exists():
        (root / name).rename(root / f"{name}.bak")
    (root / name).symlink_to(outside)
    act = app.delete if name == ".trash" else lambda ref: app.update(ref, "new")
    before = crash.memories(root)
    with pytest.raises(Unsafe):
        act("x")
    assert crash.memories(root) == before
    assert [memory.id for memory in app.list()] == ["x"]
    assert [problem.path for problem in app.status().problems] == [str(root / name)]
    assert crash.files(outside) == {"x.md": OUTSIDE}


# Clocks


def test_clock_set_back_an_hour_loses_nothing(
    root: Path, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = time.gmtime
    app.update("x", "before")
    app.put("deleted before", id="gone")
    app.delete("gone")
    monkeypatch.setattr(time, "gmtime", lambda at=None: present((at or time.time()) - HOUR))
    app.update("x", "after")
    app.put("deleted after", id="gone")
    app.delete("gone")
    assert app.get("x").body == "after"
    kept = [app.bank.read_version(app.get("x"), number) or b"" for number in (1, 2)]
    assert [data.rpartition(b"\n")[2] for data in kept] == [b"the old text", b"before"]
    assert sorted(data.rpartition(b"\n")[2] for data in _trash(root)) == [
        b"deleted after",
        b"deleted before",
    ]


def test_far_years_are_kept(root: Path, app: App) -> None:
    for year in ("1969", "2038", "9999"):
        path = root / f"notes/y{year}.md"
        path.write_text(f"---\ncreated_at: {year}-12-31T23:59:59Z\n---\n\nfar\n", encoding="utf-8")
        os.utime(path, (253_402_300_799, 253_402_300_799))
        assert app.append(path.stem, "more").memory.text("created_at").startswith(year)
    assert [memory.id for memory in app.list(sort="created")] == ["y1969", "x", "y2038", "y9999"]


def test_times_are_sorted_as_times(root: Path, app: App) -> None:
    times = {"late": "2026-01-01T01:00:00-05:00", "early": "2026-01-01T05:00:00", "none": "unknown"}
    for name, stated in times.items():
        text = f"---\ncreated_at: {stated}\n---\n\nx\n"
        (root / f"notes/{name}.md").write_text(text, encoding="utf-8")
    found = [memory.id for memory in app.list(sort="created") if memory.id in times]
    assert found == ["none", "early", "late"]


# Modes


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_everything_in_a_bank_is_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    root, before = tmp_path / "private", os.umask(umask)
    try:
        app = crash.new_bank(root)
        app.put("one", id="x")
        app.update("x", "two")
        app.move("x", to_collection="other", to_id="")
        app.delete("x")
        app.put("three", id="y")
    finally:
        os.umask(before)
    for path in (root, *root.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


# Names, batches, new banks


def test_batch_goes_to_the_collection_as_it_is_spelt(root: Path, bank: Bank) -> None:
    (stored,) = bank.write_all([("Notes", "y.md", b"new")])
    assert (stored.ref, stored.body) == ("notes/y", "new")
    with pytest.raises(Conflict):
        bank.write_all([("notes", "z.md", b"new"), ("NOTES", "X.md", b"new")])
    assert set(crash.memories(root)) == {"notes/x.md", "notes/y.md"}


@pytest.mark.parametrize("act", ["move", "untrash"])
def test_move_or_untrash_that_fails_half_way_is_undone(root: Path, app: App, act: str) -> None:
    app.update("x", "second")
    if act == "untrash":
        app.delete("x")
    before = crash.files(root)
    step = (Bank, "replace") if act == "move" else (trash, "purge")
    with (
        mock.patch.object(*step, side_effect=OSError(28, "full")),
        pytest.raises(RetainError),
    ):
        getattr(app, act)("x", to_id="y", **{"to_collection": "other"} if act == "move" else {})
    assert crash.files(root) == before


def test_change_of_a_missing_memory_leaves_no_trace(tmp_path: Path) -> None:
    app = crash.new_bank(tmp_path / "empty")
    for act in (app.bank.delete, lambda ref: app.bank.change(ref, _new)):
        with pytest.raises(NotFound):
            act("nothing")
    assert sorted(os.listdir(tmp_path / "empty")) == [".gitignore", "config.toml"]


def test_refused_names_and_sizes_store_nothing(root: Path, app: App) -> None:
    before = crash.files(root)
    small = Bank(app.location, max_bytes=10)
    with pytest.raises(LimitExceeded):
        small.create("notes", "big", b"x" * 11)
    with pytest.raises(LimitExceeded):
        small.write_all([("notes", "a.md", b"x"), ("notes", "big.md", b"x" * 11)])
    with pytest.raises(BadName):
        app.bank.create("skills", "a", b"x")
    assert crash.files(root) == before
