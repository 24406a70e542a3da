"""Kill a writer at every step it takes: nothing is torn, nothing acknowledged is lost."""

from __future__ import annotations

import functools
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from retain.app import App
from retain.bank import files as fsio
from tests import crash, indexes

pytestmark = pytest.mark.slow

Act = Callable[[App], object]
Job = Callable[[Path], object]
Between = Callable[[crash.Snapshot], list[crash.Snapshot]]  # from what was there

OLD = "# One\n\nthe old text, acknowledged long ago\n"
MEMORY = Path("/dev/shm")
IMPORTED = ("first", "second", "third")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: a killed process does not lose what it wrote."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        yield Path(folder)


class Case(NamedTuple):
    """One operation, and the states it may be caught in besides before and after."""

    act: Act
    between: Between = lambda *_: []


def _renamed(*pairs: tuple[str, str]) -> Between:
    """The file has its new name, but not yet the new `id:` inside it."""
    return lambda before: [{dict(pairs).get(name, name): data for name, data in before.items()}]


CASES = {
    "create": Case(lambda app: app.put("new", id="two")),
    "create in a new collection": Case(lambda app: app.put("new", id="two", collection="fresh")),
    "replace": Case(lambda app: app.put("a newer text", id="one")),
    "update": Case(lambda app: app.update("one", "a newer text")),
    "append": Case(lambda app: app.append("one", "and more")),
    "delete": Case(lambda app: app.delete("one")),
    "move to an id": Case(
        lambda app: app.move("one", to_collection=None, to_id="uno"),
        _renamed(("memories/one.md", "memories/uno.md")),
    ),
    "move to a collection": Case(lambda app: app.move("one", to_collection="notes", to_id="")),
    "move to both": Case(
        lambda app: app.move("one", to_collection="notes", to_id="uno"),
        _renamed(("memories/one.md", "notes/uno.md")),
    ),
    "restore a version": Case(lambda app: app.restore("one", "v1")),
    "untrash": Case(lambda app: app.untrash("gone")),
    "untrash under an id": Case(lambda app: app.untrash("gone", to_id="back")),
}


def _bank(root: Path) -> Path:
    """A bank with a history: a memory with a version, a bystander, a deleted one."""
    app = crash.new_bank(root)
    app.put("# One\n\nthe very first text\n", id="one")
    app.update("one", OLD)
    app.put("never touched", id="bystander", collection="notes")
    app.put("deleted, not lost", id="gone")
    app.delete("gone")
    return root


def _every_kill(model: Path, act: Job, check: Callable[[Path], None], *, after: bool) -> int:
    """Kill the act at each of its steps, on a fresh copy each time; how many steps it has."""
    number = 0
    while True:
        number += 1
        root = model.with_name(f"kill-{number}")
        shutil.copytree(model, root, symlinks=True)
        outcome = crash.killed_at(number, crash.at_noon(functools.partial(act, root)), after=after)
        check(root)
        shutil.rmtree(root)
        if outcome.signal != signal.SIGKILL:
            assert not outcome.code, outcome.message
            return number - 1


def _in_bank(act: Act) -> Job:
    return lambda root: bool(act(crash.open_bank(root)))


def _finished(model: Path, act: Job) -> crash.Snapshot:
    root = model.with_name("finished")
    shutil.copytree(model, root, symlinks=True)
    assert not crash.in_child(crash.at_noon(functools.partial(act, root))).code
    return crash.memories(root / ".retain" if (root / ".retain").exists() else root)


def _next_commands_work(root: Path) -> None:
    app = crash.open_bank(root)
    assert not [memory for memory in app.list() if memory.problem]
    app.status()
    app.put("written after the kill", id="later")
    app.close()  # as every command does at its end
    assert "written after the kill" in crash.open_bank(root).get("later").body
    assert crash.leftovers(root) == []


def _nothing_lost(before: crash.Snapshot, root: Path) -> None:
    """Every text that was in a memory, a version or the trash is in one of them still."""
    texts = set(crash.files(root).values())
    for name, data in before.items():
        if name.endswith(".md"):  # one that came back has its new id in its text
            forms = {data, data.replace(b"id: gone", b"id: back")}
            assert forms & texts, f"{name} is gone"


def _survives(model: Path, case: Case, *, after: bool) -> int:
    job = _in_bank(case.act)
    old, new = crash.memories(model), _finished(model, job)
    everything = crash.files(model)
    legal = [old, new, *case.between(old)]

    def check(root: Path) -> None:
        assert crash.memories(root) in legal
        _next_commands_work(root)
        _nothing_lost(everything, root)

    return _every_kill(model, job, check, after=after)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", CASES)
def test_kill_at_every_step_leaves_old_or_new(scratch: Path, name: str, after: bool) -> None:
    steps = _survives(_bank(scratch / "bank"), CASES[name], after=after)
    assert steps >= 4


@pytest.mark.parametrize("name", ["create", "replace", "update", "append"])
def test_kill_at_every_step_without_renameat2(scratch: Path, name: str) -> None:
    with mock.patch.object(fsio, "_renameat2", return_value=False):
        steps = _survives(_bank(scratch / "bank"), CASES[name], after=False)
    assert steps >= 8


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_merge_leaves_too_much_and_never_too_little(scratch: Path, after: bool) -> None:
    model = _bank(scratch / "bank")
    everything = crash.files(model)
    old = crash.memories(model)

    act = _in_bank(lambda app: app.merge(["one", "bystander"], "notes/both", "both"))
    new = _finished(model, act)
    both = {"notes/both.md": new["notes/both.md"]}
    rest = {name: data for name, data in old.items() if name != "memories/one.md"}
    assert set(new) == {"notes/both.md"}
    seen = []

    def check(root: Path) -> None:
        present = crash.memories(root)
        assert present in (old, old | both, rest | both, new)
        seen.append(len(present))
        _next_commands_work(root)
        _nothing_lost(everything, root)

    assert _every_kill(model, act, check, after=after) > 8
    assert set(seen) == {1, 2, 3}


def _synced(root: Path) -> object:
    """Take in changes made by hand, and give every chunk its vector."""
    bank = indexes.indexed(root, indexes.Letters())
    bank.refresh()
    indexes.fill(bank)
    bank.close()
    return True


def _rebuilt(root: Path) -> object:
    bank = indexes.indexed(root, indexes.Letters())
    bank.refresh()
    bank.database.checkpoint()
    bank.database.replace("for the test")
    bank.refresh(force_look=True)
    indexes.fill(bank)
    bank.close()
    return True


def _indexed_bank(root: Path) -> Path:
    """A bank whose index is at rest, and whose files a person has changed since."""
    indexes.new(root)
    indexes.many(root, 5)
    indexes.build(root, indexes.Letters())
    indexes.write(root, "notes/m001", "an albatross instead")
    indexes.write(root, "birds/new", "a cormorant")
    (root / "notes/m002.md").rename(root / "notes/moved.md")
    (root / "notes/m003.md").unlink()
    return root


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("act, steps", [(_synced, 6), (_rebuilt, 12)])
def test_killed_index_work_is_finished_by_the_next_search(
    scratch: Path, act: Job, steps: int, after: bool
) -> None:
    number, embedded = 0, set()
    while True:
        number += 1
        root = _indexed_bank(scratch / f"kill-{number}")
        files = crash.memories(root)
        outcome = crash.killed_at(number, functools.partial(act, root), after=after)
        letters = indexes.Letters()
        with indexes.opened(root, letters) as bank:
            assert indexes.ids(bank, "albatross", "hybrid")[0] == "m001"
            assert indexes.ids(bank, "cormorant") == ["new"]
            assert indexes.ids(bank, indexes.word(2)) == ["moved"]
            assert indexes.ids(bank, indexes.word(3)) == []
            assert indexes.value(bank, "SELECT count(*) FROM pending") == 0
            indexes.agrees(bank)
        assert crash.memories(root) == files
        assert crash.leftovers(root) == []
        embedded.add(len(letters.texts))
        shutil.rmtree(root)
        if outcome.signal != signal.SIGKILL:
            assert not outcome.code, outcome.message
            break
    assert number > steps
    print(f"{number - 1} kills; vectors made again: {sorted(embedded)}")
    assert min(embedded) == 0


def _incoming(folder: Path) -> Path:
    for name in IMPORTED:
        path = folder / "taken" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("replace", [False, True], ids=["new", "replaced"])
def test_killed_import_is_wholly_taken_back_by_the_next_write(
    scratch: Path, replace: bool, after: bool
) -> None:
    model, source = _bank(scratch / "bank"), _incoming(scratch / "source")
    if replace:
        crash.open_bank(model).import_bank(str(source), replace=False, allow_secret=False)
        for path in source.rglob("*.md"):
            path.write_text(f"# {path.stem}, their newer text\n", encoding="utf-8")
    everything = crash.files(model)
    old = crash.memories(model)
    act = _in_bank(lambda app: app.import_bank(str(source), replace=replace, allow_secret=False))
    new = _finished(model, act)
    assert len([name for name in new if new[name] != old.get(name)]) == len(IMPORTED)
    seen = set()

    def check(root: Path) -> None:
        _next_commands_work(root)
        present = crash.memories(root)
        del present["memories/later.md"]
        assert present in (old, new)
        seen.add(present == new)
        _nothing_lost(everything, root)

    assert _every_kill(model, act, check, after=after) > 3 * len(IMPORTED)
    assert seen == {False, True}


def _git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words]
    return subprocess.run(
        command, cwd=root, check=True, capture_output=True, encoding="utf-8"
    ).stdout


@pytest.mark.slow
def test_kill_at_every_step_of_a_committed_update(scratch: Path) -> None:
    project = scratch / "project"
    root = project / ".retain"
    _bank(root)
    config = root / "config.toml"
    config.write_text("format = 1\n[versioning]\nauto_commit = true\n", encoding="utf-8")
    _git(project, "init", "-q")
    _git(project, "config", "user.name", "t")
    _git(project, "config", "user.email", "t@example.org")
    _git(project, "add", ".")
    _git(project, "commit", "-qm", "start")
    new = _finished(project, _update_and_commit)["memories/one.md"]
    before, everything = crash.memories(root)["memories/one.md"], crash.files(root)

    def check(copy: Path) -> None:
        bank = copy / ".retain"
        assert crash.memories(bank)["memories/one.md"] in (before, new)
        _git(copy, "fsck", "--strict")
        _next_commands_work(bank)
        _nothing_lost(everything, bank)

    assert _every_kill(project, _update_and_commit, check, after=False) > 12


def _update_and_commit(project: Path) -> object:
    written = crash.open_bank(project / ".retain").update("one", "a newer text")
    assert written.commit, written.warnings
    return True


def _placed(events: list[crash.Event], name: str) -> int:
    return events.index(crash.Event("place", name))


def _synced_at(events: list[crash.Event], path: Path) -> list[int]:
    inode = path.stat().st_ino
    return [at for at, event in enumerate(events) if event == crash.Event("sync", inode)]


@pytest.mark.parametrize("name", ["create", "replace", "update", "append", "restore a version"])
def test_file_is_synced_before_it_is_placed_and_its_directory_after(
    scratch: Path, name: str
) -> None:
    root = _bank(scratch / "bank")
    events = crash.traced(lambda: CASES[name].act(crash.open_bank(root)))
    file = root / "memories" / ("two.md" if name == "create" else "one.md")
    placed = _placed(events, file.name)
    assert _synced_at(events, file)[0] < placed < _synced_at(events, file.parent)[-1]
    if name != "create":
        shelf = root / ".versions/memories/one"
        assert _synced_at(events, shelf)[0] < placed


def test_a_new_bank_and_collection_are_synced_into_their_parents(scratch: Path) -> None:
    root = scratch / "home" / "above" / "bank"
    events = crash.traced(lambda: crash.new_bank(root).put("first", id="a", collection="c"))
    for folder in (root / "c", root, root.parent, root.parent.parent):
        assert _synced_at(events, folder), folder
