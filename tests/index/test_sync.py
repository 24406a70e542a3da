"""Files and index: whoever changes a file and however, the next answer knows."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import retain
from retain.app import App
from retain.errors import RetainError
from retain.index import sync
from retain.index.index import Index
from tests import indexes, malformed

SETTLED = 150_000_000  # ns, longer than a file is doubted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, 6)
    return root


@pytest.fixture
def letters() -> indexes.Letters:
    return indexes.Letters()


@pytest.fixture
def bank(root: Path, letters: indexes.Letters) -> Iterator[Index]:
    with indexes.opened(root, letters) as bank:
        bank.refresh()
        indexes.fill(bank)
        letters.texts.clear()
        yield bank


def _counts(changes: sync.Changes) -> tuple[int, int, int]:
    return changes.added, changes.changed, changes.removed


def _settle(bank: Index) -> None:
    """Look again when no file is so new that it might still be changing."""
    files = [path for path in Path(bank.bank.root).rglob("*") if ".local" not in path.parts]
    newest = max(path.lstat().st_ctime_ns for path in files)
    while time.time_ns() - newest <= SETTLED:
        time.sleep(0.01)
    bank.refresh(force_look=True)


# What changed


def test_added_changed_and_removed_files_are_taken_in(root: Path, bank: Index) -> None:
    indexes.write(root, "notes/fresh", "an albatross")
    indexes.write(root, "other/fresh", "a bittern")
    indexes.write(root, "notes/m001", "a cormorant instead")
    (root / "notes/m002.md").unlink()
    assert _counts(bank.refresh()) == (2, 1, 1)
    assert indexes.ids(bank, "albatross") == ["fresh"]
    assert indexes.ids(bank, "cormorant") == ["m001"]
    assert indexes.ids(bank, indexes.word(1)) == indexes.ids(bank, indexes.word(2)) == []
    assert [hit.collection for hit in indexes.ask(bank, "bittern", "text").hits] == ["other"]
    indexes.agrees(bank)


def _renamed(root: Path) -> str:
    (root / "notes/m003.md").rename(root / "notes/uno.md")
    return "uno"


def _to_another_collection(root: Path) -> str:
    (root / "other").mkdir()
    (root / "notes/m003.md").rename(root / "other/m003.md")
    return "m003"


def _collection_renamed(root: Path) -> str:
    (root / "notes").rename(root / "archive")
    return "m003"


@pytest.mark.parametrize("move", [_renamed, _to_another_collection, _collection_renamed])
def test_moved_files_are_found_under_their_new_name_and_keep_their_vectors(
    root: Path, bank: Index, letters: indexes.Letters, move: Callable[[Path], str]
) -> None:
    name = move(root)
    assert indexes.ids(bank, indexes.word(3), "hybrid")[0] == name
    indexes.agrees(bank)
    assert letters.texts == []


def _rewrite(path: Path, data: bytes) -> None:
    """Other bytes of the same number, in the same file, with its times put back."""
    facts = path.stat()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (facts.st_size, facts.st_mtime_ns)


def _replaced(path: Path, data: bytes) -> None:
    facts = path.stat()
    draft = path.with_name("draft")
    draft.write_bytes(data)
    os.utime(draft, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    draft.replace(path)


@pytest.mark.parametrize("edit", [_rewrite, _replaced])
@pytest.mark.parametrize("settled", [False, True])
def test_an_edit_that_keeps_size_and_time_is_seen(
    root: Path, bank: Index, edit: Callable[[Path, bytes], None], settled: bool
) -> None:
    path = indexes.write(root, "notes/same", "the word is albatross")
    assert indexes.ids(bank, "albatross") == ["same"]
    if settled:
        _settle(bank)
    edit(path, b"the word is cormorant")
    assert indexes.ids(bank, "cormorant") == ["same"]
    assert indexes.ids(bank, "albatross") == []


# Nothing changed


def test_a_touched_file_is_not_indexed_again(
    root: Path, bank: Index, letters: indexes.Letters
) -> None:
    version = indexes.value(bank, "SELECT version FROM totals")
    for path in (root / "notes").iterdir():
        path.touch()
    assert not bank.refresh().any
    assert indexes.value(bank, "SELECT version FROM totals") == version
    assert letters.texts == []


# Most of it gone at once


@pytest.fixture
def large(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "large")
    indexes.many(root, 24)
    indexes.many(root, 4, "other")
    return root


def _aside(root: Path) -> Path:
    aside = root.with_name("unmounted")
    aside.mkdir(exist_ok=True)
    return aside


def _one_collection(root: Path) -> None:
    (root / "notes").rename(_aside(root) / "notes")


def _one_collections_files(root: Path) -> None:
    (_aside(root) / "notes").mkdir()
    for path in (root / "notes").iterdir():
        path.rename(_aside(root) / "notes" / path.name)


def _all_collections(root: Path) -> None:
    for name in ("notes", "other"):
        (root / name).rename(_aside(root) / name)


def _more_than_half(root: Path) -> None:
    (_aside(root) / "notes").mkdir()
    for path in sorted((root / "notes").iterdir())[:15]:
        path.rename(_aside(root) / "notes" / path.name)


def _back(root: Path) -> None:
    for folder in _aside(root).iterdir():
        (root / folder.name).mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.rename(root / folder.name / path.name)


LOSSES: dict[Callable[[Path], None], int] = {
    _one_collection: 24,
    _one_collections_files: 24,
    _all_collections: 28,
    _more_than_half: 15,
}


@pytest.mark.parametrize("lose", LOSSES)
def test_most_memories_gone_at_once_are_left_out_and_kept(
    large: Path, lose: Callable[[Path], None]
) -> None:
    letters = indexes.Letters()
    lost = LOSSES[lose]
    with indexes.opened(large, letters, stays=True) as bank:
        bank.refresh()
        indexes.fill(bank)
        before = sorted(indexes.ranked(bank, "harbour lantern"))
        made = len(letters.texts)
        lose(large)
        for _ in range(2):
            answer = indexes.ask(bank, "harbour lantern")
            assert len(answer.hits) == 28 - lost
            assert (f"{lost} memories are missing from disk at once") in answer.degraded.reasons[0]
            assert "retain sync --force" in answer.degraded.reasons[0]
            assert indexes.ids(bank, indexes.word(0), "semantic")[:1] != ["m000"] or lost != 28
            changes = bank.refresh(force_look=True)
            assert (changes.held, changes.removed) == (lost, 0)
        assert indexes.value(bank, "SELECT count(*) FROM memories") == 28
        _back(large)
        answer = indexes.ask(bank, "harbour lantern")
        assert answer.degraded.reasons == ()
        assert sorted(indexes.ranked(bank, "harbour lantern")) == before
        indexes.agrees(bank)
        assert len(letters.texts) == made


@pytest.mark.parametrize("held", [24, 0])
def test_force_forgets_what_is_gone(large: Path, held: int) -> None:
    with indexes.opened(large) as bank:
        bank.refresh()
        _one_collection(large)
        assert not held or bank.refresh().held == held
        changes = bank.refresh(force=True)
        assert (changes.removed, changes.held) == (24, 0)
        assert indexes.ask(bank, "harbour lantern").degraded.reasons == ()
        indexes.agrees(bank)


def test_a_missing_root_is_an_error_and_everything_returns_with_it(large: Path) -> None:
    letters = indexes.Letters()
    with indexes.opened(large, letters, stays=True) as bank:
        assert len(indexes.ask(bank, "harbour lantern").hits) == 28
        made = len(letters.texts)
        large.rename(large.with_name("away"))
        with pytest.raises(RetainError, match="there is no bank at"):
            indexes.ask(bank, "harbour lantern")
        assert not large.exists()
        large.with_name("away").rename(large)
        assert len(indexes.ask(bank, "harbour lantern").hits) == 28
        indexes.agrees(bank)
        assert len(letters.texts) == made


# Files that are no good


def test_a_huge_file_is_left_out_with_a_reason(root: Path, bank: Index) -> None:
    with (root / "notes/huge.md").open("wb") as file:
        file.write(b"albatross\n")
        file.truncate(50_000_000)
    changes = bank.refresh()
    (problem,) = changes.problems
    assert problem.path == str(root / "notes/huge.md")
    assert "larger than 2,000,000 bytes" in problem.reason
    assert changes.added == 0
    assert len(indexes.ids(bank, "harbour lantern")) == 6
    assert indexes.ids(bank, "albatross") == []
    (root / "notes/huge.md").write_bytes(b"a small albatross")
    assert indexes.ids(bank, "albatross") == ["huge"]


def test_malformed_files_are_found_by_their_text(root: Path, bank: Index) -> None:
    samples = malformed.BROKEN | malformed.ODD | malformed.FINE
    for name, data in samples.items():
        (root / "notes" / name).write_bytes(data)
    bank.refresh()
    listed = {memory.id: memory for memory in bank.bank.memories("notes")}
    readable = {name for name, memory in listed.items() if malformed.WORD in memory.body}
    answer = indexes.ask(bank, malformed.WORD, "text", limit=200)
    found = {hit.id for hit in answer.hits}
    assert readable <= found
    assert len(found) > 60
    assert indexes.value(bank, "SELECT count(*) FROM memories") == len(listed)
    assert len(indexes.ids(bank, "harbour lantern")) == 6
    for name, data in samples.items():
        assert (root / "notes" / name).read_bytes() == data
    assert indexes.faults(bank) == []


@pytest.mark.parametrize("first, second", [("x.md", "x.json"), ("B.md", "b.md")])
def test_twins_are_one_memory_and_the_same_one_as_in_a_list(
    root: Path, bank: Index, first: str, second: str
) -> None:
    for name in (first, second):
        data = f'{{"content": "albatross {name}"}}' if name.endswith("json") else "albatross"
        (root / "notes" / name).write_text(data, encoding="utf-8")
        indexes.agrees(bank)
    listed = [name for _, name in bank.bank.names() if name.casefold() in "xab"]
    assert indexes.ids(bank, "albatross") == listed
    (root / "notes" / first).unlink()
    indexes.agrees(bank)
    assert len(indexes.ids(bank, "albatross")) == 1


def test_links_pipes_and_folders_are_not_followed(root: Path, bank: Index, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("an albatross outside", encoding="utf-8")
    (root / "notes/link.md").symlink_to(outside)
    (root / "notes/folder.md").mkdir()
    os.mkfifo(root / "notes/pipe.md")
    (root / "notes/m001.md").unlink()
    (root / "notes/m001.md").symlink_to(outside)
    assert indexes.ids(bank, "albatross") == []
    assert indexes.ids(bank, indexes.word(1)) == []
    assert len(indexes.ids(bank, "harbour lantern")) == 5
    rows = bank.look(lambda db: db.execute("SELECT id FROM memories").fetchall())
    assert sorted(rows) == sorted((name,) for _, name in bank.bank.names())


# A process that stays


@pytest.fixture
def memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    with retain.open(str(root)) as memory:
        assert len(memory.search("harbour lantern").hits) == 6
        yield memory


def _found(memory: App, query: str) -> list[str]:
    return [hit.id for hit in memory.search(query).hits]


def _in_place(path: Path) -> None:
    path.write_bytes(b"an albatross in place")


def _by_rename(path: Path) -> None:
    path.with_name("draft").write_bytes(b"an albatross by rename")
    path.with_name("draft").rename(path)


def _like_vim(path: Path) -> None:
    path.rename(f"{path}~")
    path.write_bytes(b"an albatross by vim")
    os.unlink(f"{path}~")


def _truncated(path: Path) -> None:
    path.write_bytes(b"an albatross and much more")
    os.truncate(path, len(b"an albatross"))


@pytest.mark.parametrize("edit", [_in_place, _by_rename, _like_vim, _truncated])
def test_an_open_bank_sees_an_edit_within_a_moment(
    root: Path, memory: App, edit: Callable[[Path], None]
) -> None:
    path = root / "notes/m001.md"
    edit(path)
    _wait_for(memory, "albatross", ["m001"])
    path.write_bytes(b"nothing of the kind")
    _wait_for(memory, "albatross", [])


def _wait_for(memory: App, query: str, ids: list[str], collection: str = "") -> None:
    """What a person changes is heard of a moment later."""
    end = time.monotonic() + 60
    while True:
        hits = memory.search(query).hits
        is_there = not collection or {hit.collection for hit in hits} == {collection}
        if is_there and [hit.id for hit in hits] == ids:
            return
        assert time.monotonic() < end, query
        time.sleep(0.01)


def test_an_open_bank_sees_collections_come_and_go(root: Path, memory: App) -> None:
    path = indexes.write(root, "fresh/x", "an albatross")
    _wait_for(memory, "albatross", ["x"])
    path.write_bytes(b"a cormorant")  # in a folder that was not there when the bank was opened
    _wait_for(memory, "cormorant", ["x"])
    _wait_for(memory, "albatross", [])
    (root / "fresh").rename(root / "renamed")
    _wait_for(memory, "cormorant", ["x"], "renamed")
    (root / "renamed/x.md").write_bytes(b"a bittern")
    _wait_for(memory, "bittern", ["x"])
    shutil.rmtree(root / "renamed")
    _wait_for(memory, "bittern", [])
    indexes.write(root, "renamed/x", "a dotterel")
    _wait_for(memory, "dotterel", ["x"])
    indexes.write(root, "rooted", "an egret at the root")
    _wait_for(memory, "egret", ["rooted"])


def test_an_update_that_died_half_way_is_looked_at_again(root: Path, bank: Index) -> None:
    _settle(bank)  # so that the listing as it is now is on record
    path = indexes.write(root, "notes/half", "an albatross")

    def killed(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bank.update({str(path): None}, killed)
    path.unlink()  # by hand, before anyone has looked: the listing is the one on record again
    assert indexes.ids(bank, "albatross") == []
    indexes.agrees(bank)
