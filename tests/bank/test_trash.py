"""The trash: everything that was deleted can come back, the newest first."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from retain.app import App
from retain.bank.files import Directory
from retain.errors import NotFound
from tests import crash


@pytest.fixture
def app(tmp_path: Path) -> App:
    return crash.new_bank(tmp_path / "bank")


def _delete(app: App, *texts: str, name: str = "x") -> None:
    for text in texts:
        app.put(text, id=name)
        app.delete(name)


def test_deletes_within_one_second_are_all_kept_and_the_last_comes_back(app: App) -> None:
    texts = [f"text {number}" for number in range(12)]
    crash.at_noon(lambda: _delete(app, *texts))()
    assert len(app.trashed()) == 12
    assert {entry.deleted_at for entry in app.trashed()} == {"2020-02-29T12:00:00Z"}
    bodies = [app.untrash("x", to_id=f"back-{number}").memory.body for number in range(12)]
    assert bodies == texts[::-1]


def test_foreign_names_in_the_trash_are_listed_with_their_own_time(
    app: App, tmp_path: Path
) -> None:
    _delete(app, "deleted")
    (tmp_path / "bank/.trash/notes.md").write_text("put here by hand", encoding="utf-8")
    assert {entry.id for entry in app.trashed()} == {"x", "notes"}
    assert app.untrash("notes").memory.body == "put here by hand"


def test_entry_that_is_brought_back_while_the_trash_is_listed_is_passed_over(
    app: App, tmp_path: Path
) -> None:
    _delete(app, "going", name="going")
    _delete(app, "staying", name="staying")
    entries = Directory.entries

    def late(folder: Directory) -> list[os.DirEntry[str]]:
        found = entries(folder)
        for entry in (tmp_path / "bank/.trash/memories").glob("going*"):
            if folder.path.endswith("memories"):
                entry.unlink()
        return found

    with mock.patch.object(Directory, "entries", late):
        assert [entry.id for entry in app.trashed()] == ["staying"]


def test_emptying_the_trash_destroys_earlier_texts_but_not_those_of_a_namesake(app: App) -> None:
    for name in ("gone", "back"):
        app.put("first", id=name)
        app.put("second", id=name)
        app.delete(name)
    app.put("again", id="back")
    app.empty_trash()
    versions = Path(app.bank.root) / ".versions" / "memories"
    assert not any(versions.joinpath("gone").iterdir())
    assert any(versions.joinpath("back").iterdir())


def test_emptying_the_trash_spares_what_is_newer(app: App) -> None:
    crash.at_noon(lambda: _delete(app, "old", name="old"))()
    _delete(app, "new", name="new")
    newest = max(entry.deleted_at for entry in app.trashed())
    assert newest > "2020-02-29T12:00:00Z"
    assert [entry.id for entry in app.empty_trash(before="2020-02-29T12:00:01Z")] == ["old"]
    assert [entry.id for entry in app.trashed()] == ["new"]
    assert [entry.id for entry in app.empty_trash()] == ["new"]
    with pytest.raises(NotFound):
        app.untrash("new")
