"""Handles of databases stay open, and are asked for from anywhere."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from retain import held


def handle(path: str) -> int:
    """The handle that a look at a file is made through."""
    return held.through(path, lambda fd: fd)


def test_a_handle_can_be_asked_for_while_another_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.write_text(path.name, encoding="utf-8")
    found: list[int] = []
    forget = held._forget_removed

    def forgetting() -> None:
        # As when Python lets go of a bank just now, and its index is closed.
        monkeypatch.setattr(held, "_forget_removed", forget)
        found.append(handle(str(second)))

    monkeypatch.setattr(held, "_forget_removed", forgetting)
    asking = threading.Thread(target=lambda: found.append(handle(str(first))), daemon=True)
    asking.start()
    asking.join(60)
    assert len(found) == 2
    assert found[0] != found[1]


def test_the_handle_of_a_removed_file_is_closed_when_the_next_is_made(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old", encoding="utf-8")
    fd = handle(str(old))
    assert handle(str(old)) == fd
    old.unlink()
    new.write_text("new", encoding="utf-8")
    handle(str(new))
    assert fd not in held._handles.values() or handle(str(new)) == fd


def test_of_many_handles_only_those_in_use_stay_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "_OPENING", 0.0)
    used = tmp_path / "used"
    used.write_text("used", encoding="utf-8")
    fd = handle(str(used))
    with used.open(encoding="utf-8"):  # as SQLite would have it
        for number in range(200):
            path = tmp_path / str(number)
            path.write_text("idle", encoding="utf-8")
            handle(str(path))
        assert len(held._handles) <= held._MANY + 1
        assert handle(str(used)) == fd


def test_whoever_has_just_looked_at_a_file_may_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed while SQLite opens it elsewhere in the process, the handle would take its locks."""
    monkeypatch.setattr(held, "_MANY", 0)
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.write_text(path.name, encoding="utf-8")
    fd = handle(str(first))
    handle(str(second))
    assert fd in held._handles.values()


def test_nobody_closes_a_handle_while_it_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "_MANY", 0)
    monkeypatch.setattr(held, "_OPENING", 0.0)
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        path.write_text(path.name, encoding="utf-8")
    other = threading.Thread(target=lambda: handle(str(second)), daemon=True)

    def look(fd: int) -> bytes:
        other.start()
        other.join(0.2)  # it has to wait
        return os.pread(fd, 100, 0)

    assert held.through(str(first), look) == b"first"
    other.join(60)
    assert not other.is_alive()
