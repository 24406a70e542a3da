"""Numbered versions: the last few texts of a memory, wherever it goes."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from retain import markdown
from retain.app import App
from retain.bank import Bank
from retain.drafts import Draft
from tests import crash


@pytest.fixture
def app(tmp_path: Path) -> App:
    return crash.new_bank(tmp_path / "bank")


def _write(app: App, name: str, *texts: str) -> None:
    for text in texts:
        app.put(Draft(text=text), name=name)


def _kept(app: App, name: str) -> dict[int, str]:
    memory = app.get(name)
    return {
        version.number: (app.bank.read_version(memory, version.number) or b"")
        .decode()
        .rpartition("\n")[2]
        for version in app.bank.versions(memory)
    }


def test_only_the_newest_versions_are_kept(app: App) -> None:
    bank = Bank(app.place, max_versions=3)
    _write(app, "x", "0")
    for number in range(1, 8):
        bank.change("x", lambda _, text=str(number): text.encode())  # type: ignore[misc]
    assert _kept(app, "x") == {5: "4", 6: "5", 7: "6"}


def test_changes_of_metadata_do_not_push_a_text_out(app: App) -> None:
    bank = Bank(app.place, max_versions=3)
    _write(app, "x", "the first text", "the second text")
    for number in range(8):
        bank.change("x", lambda it, n=number: markdown.edit(it.data, {"priority": n}))  # type: ignore[misc]
    assert sorted(_kept(app, "x").values()) == ["the first text", *["the second text"] * 2]
    for number in range(3):
        bank.change("x", lambda _, text=str(number): text.encode())  # type: ignore[misc]
    assert list(_kept(app, "x").values()) == ["the second text", "0", "1"]


def test_no_versions_are_kept_when_none_are_wanted(app: App, tmp_path: Path) -> None:
    _write(app, "x", "0")
    written = Bank(app.place, max_versions=0).change("x", lambda _: b"1")
    assert (written.kept, (tmp_path / "bank/.versions").exists()) == ("", False)
    assert crash.leftovers(tmp_path / "bank") == []


def test_versions_follow_a_moved_memory(app: App) -> None:
    _write(app, "x", "0", "1", "2")
    app.move("x", to_collection="other", to_id="y")
    assert _kept(app, "y") == {1: "0", 2: "1", 3: "2"}


def test_versions_join_those_that_a_deleted_memory_left(app: App) -> None:
    _write(app, "y", "another", "another still")
    app.delete("y")
    _write(app, "x", "0", "1")
    app.move("x", to_collection=None, to_id="y")
    assert _kept(app, "y") == {1: "another", 2: "0", 3: "1"}


def test_write_that_cannot_prune_is_still_a_write(app: App) -> None:
    _write(app, "x", *map(str, range(11)))
    unlink = os.unlink

    def refuse(name: str, **options: int) -> None:
        if name.startswith("v1_"):
            raise OSError(5, "broken")
        unlink(name, **options)

    with mock.patch.object(os, "unlink", refuse):
        assert app.update("x", Draft(text="new")).kept == "v11"
    assert 1 in _kept(app, "x")
    app.update("x", Draft(text="newer"))
    assert list(_kept(app, "x")) == list(range(3, 13))
