"""What a cloned project, a crafted archive or bad luck brings along does no harm."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from retain.app import App
from retain.bank.files import Directory
from retain.errors import BadName, Conflict, ImportRefused, NewerFormat, NotFound, RetainError
from tests import indexes
from tests.conftest import Run


@pytest.fixture
def bank(home: Path) -> Path:
    App().init()
    return home / "work" / ".retain"


def put(text: str, name: str, collection: str | None = None) -> None:
    App().put(text, id=name, collection=collection)


def test_an_id_that_ends_like_a_file_never_reaches_another_memory(bank: Path) -> None:
    put("FOO", "foo")
    put("NEW", "foo.md")  # the same memory, named by its file
    assert App().get("foo").body == "NEW"
    (bank / "memories" / "foo.md.md").write_text("OTHER", encoding="utf-8")
    assert [memory.id for memory in App().list()] == ["foo"]
    assert any("two endings" in problem.reason for problem in App().status().problems)
    with pytest.raises((BadName, NotFound)):
        App().delete("foo.md.md")
    assert App().get("foo").body == "NEW"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_that_cannot_be_unpacked_in_parts_is_refused(
    bank: Path, tmp_path: Path, method: int
) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", method) as archive:
        archive.writestr("memories/a.md", "x" * 5_000_000)
    with pytest.raises(ImportRefused, match="uncommon way"):
        App().import_bank(str(tmp_path / "bomb.zip"), replace=False, allow_secret=False)


def test_moving_a_root_memory_leaves_the_versions_of_a_collection_of_that_name(bank: Path) -> None:
    put("one", "foo", "knowledge")
    put("two", "foo", "knowledge")
    put("r1", "knowledge", "")
    put("r2", "knowledge", "")
    App().move("/knowledge", to_collection=None, to_id="other")
    assert [one.version for one in App().versions("knowledge/foo")] == ["v1"]
    assert App().get("/other", version="v1").body == "r1"


def test_init_does_not_follow_a_link(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (home / "work" / ".retain").symlink_to(outside)
    with pytest.raises(RetainError, match="symbolic link"):
        App().init()
    assert list(outside.iterdir()) == []


def test_a_directory_reached_through_a_link_is_not_opened_as_a_bank(tmp_path: Path) -> None:
    (tmp_path / "real" / "bank").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(RetainError, match="link"):
        Directory.open(str(tmp_path / "link" / "bank"))


def test_a_planted_journal_removes_nothing_but_memories(bank: Path) -> None:
    put("text", "note")
    rows = []
    for name in ("config.toml", ".gitignore"):
        digest = hashlib.sha256((bank / name).read_bytes()).hexdigest()
        rows.append(["", name, digest, ""])
    (bank / ".trash" / ".journal").write_text(json.dumps(rows), encoding="utf-8")
    put("more", "other")
    assert (bank / "config.toml").exists()
    assert (bank / ".gitignore").exists()


def test_nobody_reads_half_of_an_import_that_was_killed(bank: Path) -> None:
    put("text", "note")
    half = bank / "memories" / "half.md"
    half.write_text("half of an import", encoding="utf-8")
    digest = hashlib.sha256(half.read_bytes()).hexdigest()
    rows = [["memories", "half.md", digest, ""]]
    (bank / ".trash" / ".journal").write_text("ours", encoding="utf-8")
    journal = indexes.state(bank) / "unfinished.json"
    journal.write_text(json.dumps(["another", rows]), encoding="utf-8")
    assert len(App().list()) == 2
    journal.write_text(json.dumps(["ours", rows]), encoding="utf-8")
    assert [memory.id for memory in App().list()] == ["note"]
    assert not half.exists()
    assert not (bank / ".trash" / ".journal").exists()


def test_long_names_and_directories_among_unfinished_files_stop_no_write(bank: Path) -> None:
    put("text", "note")
    (bank / ".trash" / (".new-" + "x" * 240)).write_text("left", encoding="utf-8")
    (bank / ".trash" / ".new-folder").mkdir()
    put("more", "other")
    assert [entry.size for entry in App().trashed()] == [4]


@pytest.mark.parametrize("folder", [".index", ".git", "skills"])
def test_planted_trash_is_not_restored_outside_the_collections(bank: Path, folder: str) -> None:
    place = bank / ".trash" / folder
    place.mkdir(parents=True)
    (place / "x_20260101_000000.md").write_text("planted", encoding="utf-8")
    with pytest.raises((BadName, NotFound)):
        App().untrash("x_20260101_000000.md", collection=folder)
    assert not (bank / folder / "x.md").exists()


def test_a_newer_bank_is_neither_initialised_nor_imported(home: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    (newer / "memories").mkdir(parents=True)
    (newer / "config.toml").write_text("format = 2\n", encoding="utf-8")
    (newer / "memories" / "x.md").write_text("x", encoding="utf-8")
    before = sorted(newer.rglob("*"))
    with pytest.raises(NewerFormat):
        App(bank=str(newer)).init()
    with pytest.raises(NewerFormat):
        App().import_bank(str(newer), replace=False, allow_secret=False)
    assert sorted(newer.rglob("*")) == before


def test_a_head_of_comments_alone_is_kept(bank: Path) -> None:
    written = App().put("---\n# my comment\n---\n\ntext\n", id="note")
    assert b"# my comment" in written.memory.data
    assert written.memory.body == "text\n"


def test_a_text_is_stored_though_the_memory_is_deleted_meanwhile(bank: Path) -> None:
    def one(number: int) -> str:
        try:
            if number % 2:
                App().delete("x")
            else:
                put(f"text {number}", "x")
        except (NotFound, Conflict) as error:
            return "" if number % 2 else f"a put failed: {error}"
        return ""

    with ThreadPoolExecutor(4) as pool:
        assert "".join(pool.map(one, range(120))) == ""


@pytest.mark.slow
def test_the_last_commit_is_what_the_file_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_VERSIONING_AUTO_COMMIT", "true")
    subprocess.run(["git", "init", "-q"], check=True)
    App().init()
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: put(f"{n} {time.monotonic_ns()}", "x"), range(4)))
        show = ["git", "show", "HEAD:.retain/memories/x.md"]
        committed = subprocess.run(show, check=True, capture_output=True).stdout
        assert committed == (home / "work/.retain/memories/x.md").read_bytes()


def test_what_was_typed_survives_an_interrupted_edit(bank: Path, tmp_path: Path) -> None:
    put("text", "note")
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\necho typed >> "$1"\ntouch {tmp_path}/ready\nsleep 30\n', "utf-8")
    editor.chmod(0o755)
    command = [sys.executable, "-m", "retain", "edit", "note"]
    with subprocess.Popen(
        command,
        env={**os.environ, "EDITOR": str(editor), "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        start_new_session=True,
        encoding="utf-8",
    ) as process:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    (kept,) = tmp_path.glob("retain-edit-*/note.md")
    assert "typed" in kept.read_text(encoding="utf-8")
    assert str(kept) in said


def test_names_on_disk_with_line_breaks_stay_on_one_line(bank: Path, run: Run) -> None:
    (bank / "memories").mkdir()
    (bank / "memories" / "x\nimportant.md").write_text("planted", encoding="utf-8")
    assert run("list", "--quiet").out.splitlines() == ["memories/x\\nimportant"]
