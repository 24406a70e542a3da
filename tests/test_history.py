"""Earlier texts: listed, read, compared and brought back, from git and from numbered copies."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from retain.app import App
from retain.drafts import Draft
from retain.errors import Conflict, NotFound


def git(*words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *identity, *words], capture_output=True, check=True, encoding="utf-8"
    ).stdout


def write(text: str, name: str = "note") -> None:
    App().put(Draft(text=text), name=name)


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
    for missing in ("v3", "0", "v999999", "HEAD", ""):
        if missing:
            with pytest.raises(NotFound):
                app.get("note", version=missing)


def test_commits_and_copies_stand_in_one_list(project: Path) -> None:
    versions = App().versions("note")
    assert [one.message for one in versions if one.source == "git"] == ["three", "two", "one"]
    assert [one.version for one in versions if one.source == "numbered"] == ["v2", "v1"]
    assert {one.author for one in versions if one.source == "git"} == {"Ada"}


@pytest.mark.parametrize("version, body", [("HEAD", "three"), ("HEAD~1", "two"), ("HEAD~2", "one")])
def test_any_git_revision_is_a_version(version: str, body: str, project: Path) -> None:
    assert App().get("note", version=version).body == body


@pytest.mark.parametrize("version", ["HEAD~9", "no-such", "--output=x", "-1", "HEAD:x", "@{9}"])
def test_revision_that_is_none_is_not_found(version: str, project: Path) -> None:
    with pytest.raises(NotFound, match="has no version"):
        App().get("note", version=version)


def test_every_listed_version_can_be_read(project: Path) -> None:
    app = App()
    for one in app.versions("note"):
        assert app.get("note", version=one.version).body in ("one", "two", "three")


def test_restore_never_loses_the_present_text(project: Path) -> None:
    write("four, never committed")
    written = App().restore("note", "HEAD~2")
    assert (written.status, written.memory.body) == ("restored", "one")
    bodies = [App().get("note", version=one.version).body for one in App().versions("note")]
    assert "four, never committed" in bodies


def test_restore_commits_that_one_file(project: Path) -> None:
    (project / "other.txt").write_text("half done", encoding="utf-8")
    git("add", "other.txt")
    written = App().restore("note", "HEAD~1")
    assert written.commit
    assert git("show", "--format=", "--name-only", "HEAD").split() == [".retain/memories/note.md"]
    assert git("diff", "--cached", "--name-only").split() == ["other.txt"]


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


def test_diff_compares_the_last_different_text_with_the_present(home: Path) -> None:
    write("one\n")
    write("two\n")
    lines = App().diff("note").splitlines()
    assert lines[:2] == ["--- memories/note@v1", "+++ memories/note@current"]
    assert "-one" in lines
    assert "+two" in lines
    assert App().diff("note", older="v1", newer="v1") == ""
    assert "-two" in App().diff("note", older="current", newer="v1").splitlines()


def test_diff_without_any_earlier_text_says_so(home: Path) -> None:
    write("one")
    with pytest.raises(NotFound, match="no earlier version"):
        App().diff("note")


@pytest.mark.slow
def test_every_change_is_committed_when_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_VERSIONING_AUTO_COMMIT", "true")
    write("fresh", "other")
    App().update("other", Draft(tags=["x"]))
    App().append("other", Draft(text="more"))
    App().move("other", to_collection="elsewhere", to_id="")
    App().restore("other", "v1")
    App().delete("other")
    App().untrash("other")
    App().edit("other", lambda memory: memory.data.decode() + "by hand")
    (project / "theirs.md").write_text("from elsewhere", encoding="utf-8")
    done = App().take_over(str(project / "theirs.md"), replace=False, allow_secret=False)
    (project / "theirs.md").unlink()
    assert done.commit
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
    written = App().put(Draft(text="one"), name="note")
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


def test_numbered_mode_leaves_git_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_VERSIONING_MODE", "numbered")
    assert {one.source for one in App().versions("note")} == {"numbered"}
    with pytest.raises(NotFound):
        App().get("note", version="HEAD")


def test_so_many_versions_are_read_as_are_wanted(project: Path) -> None:
    memory, history = App().past("note")
    every = [one.version for one in history.versions(memory)]
    assert [one.version for one in history.versions(memory, 2)] == every[:2]
    assert [one.version for one in history.numbered(memory)] == ["v2", "v1"]


def test_an_earlier_text_takes_the_place_only_of_the_text_that_was_seen(home: Path) -> None:
    for text in ("one", "two"):
        write(text)
    seen = App().ours("note").hash
    write("three")
    with pytest.raises(Conflict):
        App().restore("note", "v1", expect=seen)
    with pytest.raises(Conflict):
        App().take_back("note", "v2", expect=seen)
    assert App().get("note").body == "three"
    assert App().restore("note", "v1", expect=App().ours("note").hash).memory.body == "one"
