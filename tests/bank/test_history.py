"""Earlier texts: listed, read, compared and brought back, from git and from numbered copies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from retain.app import App
from retain.bank.bank import Bank
from retain.errors import Conflict, NotFound
from tests import crash


def git(*words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *identity, *words], capture_output=True, check=True, encoding="utf-8"
    ).stdout


def write(text: str, name: str = "note") -> None:
    App().put(text, id=name)


@pytest.fixture
def project(home: Path) -> Path:
    git("init", "-q")
    App().init()
    for text in ("one", "two", "three"):
        write(text)
        git("add", ".")
        git("commit", "-qm", text)
    return home / "work"


def test_numbered_versions_are_listed_newest_first(home: Path) -> None:
    for text in ("one", "two", "three"):
        write(text)
    app = App()
    assert [one.version for one in app.versions("note")] == ["v2", "v1"]
    for wanted in ("v1", "1"):
        assert app.get("note", version=wanted).body == "one"
    assert app.get("note", version="current").body == "three"
    for missing in ("v3", "0", "v999999", "HEAD"):
        with pytest.raises(NotFound):
            app.get("note", version=missing)


def test_commits_and_copies_stand_in_one_list(project: Path) -> None:
    versions = App().versions("note")
    assert [one.message for one in versions if one.source == "git"] == ["three", "two", "one"]
    assert [one.version for one in versions if one.source == "numbered"] == ["v2", "v1"]
    assert {one.author for one in versions if one.source == "git"} == {"Ada"}


def test_a_commit_that_deleted_the_memory_is_no_version(project: Path) -> None:
    App().delete("note")
    git("commit", "-qam", "gone")
    App().untrash("note")
    git("add", ".")
    git("commit", "-qm", "back")
    app = App()
    assert "gone" not in [one.message for one in app.versions("note")]
    assert "-two" in app.diff("note")


def test_revision_that_is_none_is_not_found(project: Path) -> None:
    for version in ("HEAD~9", "--output=x"):
        with pytest.raises(NotFound, match="has no version"):
            App().get("note", version=version)


def test_restore_never_loses_the_present_text(project: Path) -> None:
    write("four, never committed")
    written = App().restore("note", "HEAD~2")
    assert (written.status, written.memory.body) == ("restored", "one")
    bodies = [App().get("note", version=one.version).body for one in App().versions("note")]
    assert "four, never committed" in bodies


def test_restore_of_what_git_does_not_track_commits_nothing(project: Path) -> None:
    write("one", "untracked")
    write("two", "untracked")
    head = git("rev-parse", "HEAD")
    assert App().restore("untracked", "v1").commit == ""
    assert git("rev-parse", "HEAD") == head


def test_text_from_before_a_move_gets_the_present_id(project: Path) -> None:
    App().move("note", to_collection="elsewhere", to_id="renamed")
    written = App().restore("renamed", "v1")
    assert (written.memory.body, written.memory.meta["id"]) == ("one", "renamed")


@pytest.mark.slow
def test_every_change_is_committed_when_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_VERSIONING_AUTO_COMMIT", "true")
    write("fresh", "other")
    App().update("other", tags=["x"])
    App().append("other", "more")
    App().move("other", to_collection="elsewhere", to_id="")
    App().restore("other", "v1")
    App().delete("other")
    App().untrash("other")
    App().rewrite(App().get("other"), App().get("other").data.decode() + "by hand")
    (project / "theirs.md").write_text("from elsewhere", encoding="utf-8")
    done = App().import_bank(str(project / "theirs.md"), replace=False, allow_secret=False)
    (project / "theirs.md").unlink()
    assert done.commit, done.warnings
    subjects = git("log", "--format=%s", "-9").splitlines()
    assert subjects == [
        "retain: import 1 memories",
        "retain: edit elsewhere/other",
        "retain: restore elsewhere/other",
        "retain: delete elsewhere/other",
        "retain: restore elsewhere/other to v1",
        "retain: move memories/other to elsewhere/other",
        "retain: append memories/other",
        "retain: update memories/other",
        "retain: put memories/other",
    ]
    assert git("status", "--porcelain") == ""


def test_commit_that_cannot_be_made_is_a_warning_and_the_memory_is_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_VERSIONING_AUTO_COMMIT", "true")
    written = App().put("one", id="note")
    assert (written.commit, App().get("note").body) == ("", "one")
    assert "not committed" in written.warnings[0]
    warnings = App().delete("note").warnings
    assert "not committed" in warnings[0]


@pytest.mark.parametrize("mode, kept", [("off", []), ("numbered", ["v1"]), ("auto", ["v1"])])
def test_mode_decides_what_is_kept(
    mode: str, kept: list[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_VERSIONING_MODE", mode)
    write("one")
    write("two")
    assert [one.version for one in App().versions("note")] == kept
    assert crash.leftovers(home / ".retain") == []


def test_an_earlier_text_takes_the_place_only_of_the_text_that_was_seen(home: Path) -> None:
    for text in ("one", "two"):
        write(text)
    seen = App().find_own("note").hash
    write("three")
    with pytest.raises(Conflict):
        App().restore("note", "v1", expect=seen)
    with pytest.raises(Conflict):
        App().restore("note", "v2", expect=seen, exact=True)
    assert App().get("note").body == "three"
    assert App().restore("note", "v1", expect=App().find_own("note").hash).memory.body == "one"


def test_a_numbered_version_names_the_author_its_text_names(home: Path) -> None:
    App().put("one", id="note", created_by="Ada")
    App().update("note", "two")
    assert [one.author for one in App().versions("note")] == ["Ada"]


# Numbered copies


@pytest.fixture
def bank_app(tmp_path: Path) -> App:
    return crash.new_bank(tmp_path / "bank")


def put_all(app: App, name: str, *texts: str) -> None:
    for text in texts:
        app.put(text, id=name)


def kept_texts(app: App, name: str) -> dict[int, str]:
    memory = app.get(name)
    return {
        version.number: (app.bank.read_version(memory, version.number) or b"")
        .decode()
        .rpartition("\n")[2]
        for version in app.bank.versions(memory)
    }


def test_only_the_newest_versions_are_kept(bank_app: App) -> None:
    bank = Bank(bank_app.location, max_versions=3)
    put_all(bank_app, "x", "0")
    for number in range(1, 8):
        bank.change("x", lambda _, text=str(number): text.encode())  # type: ignore[misc]
    assert kept_texts(bank_app, "x") == {5: "4", 6: "5", 7: "6"}


def test_versions_follow_a_moved_memory(bank_app: App) -> None:
    put_all(bank_app, "x", "0", "1", "2")
    bank_app.move("x", to_collection="other", to_id="y")
    assert kept_texts(bank_app, "y") == {1: "0", 2: "1", 3: "2"}


def test_versions_join_those_that_a_deleted_memory_left(bank_app: App) -> None:
    put_all(bank_app, "y", "another", "another still")
    bank_app.delete("y")
    put_all(bank_app, "x", "0", "1")
    bank_app.move("x", to_collection=None, to_id="y")
    assert kept_texts(bank_app, "y") == {1: "another", 2: "0", 3: "1"}


def test_write_that_cannot_prune_is_still_a_write(bank_app: App) -> None:
    put_all(bank_app, "x", *map(str, range(11)))
    unlink = os.unlink

    def refuse(name: str, **options: int) -> None:
        if name.startswith("v1_"):
            raise OSError(5, "broken")
        unlink(name, **options)

    with mock.patch.object(os, "unlink", refuse):
        assert bank_app.update("x", "new").kept == "v11"
    assert 1 in kept_texts(bank_app, "x")
    bank_app.update("x", "newer")
    assert list(kept_texts(bank_app, "x")) == list(range(3, 13))


def test_a_project_cannot_keep_versions_without_end(home: Path) -> None:
    App().init()
    config = home / "work/.retain/config.toml"
    config.write_text("[versioning]\nmax_versions = 999999999\n", encoding="utf-8")
    assert App().bank.max_versions == 1000
