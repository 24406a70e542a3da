"""A process that stays hears what happens to the files of a bank."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest
import watchfiles

from retain import locate
from retain.app import App
from retain.index import watch
from retain.index.sync import Changes
from tests import indexes
from tests.test_disk import mount_table

SECONDS = 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return indexes.new(tmp_path / "bank")


@pytest.fixture
def start(root: Path) -> Iterator[Callable[..., Queue[Changes]]]:
    """Starts a watch in a thread; what it yields comes in a queue."""
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def run(told: Queue[Changes], all_events: bool) -> None:
        app = App(bank=str(root), env={"RETAIN_RECALL_EMBEDDER": "none"}, stays=True)
        for changes in app.watch(ended, all_events=all_events):
            told.put(changes)
        app.close()

    def started(*, all_events: bool = False) -> Queue[Changes]:
        told = Queue[Changes]()
        threads.append(threading.Thread(target=run, args=(told, all_events)))
        threads[-1].start()
        return told

    yield started
    ended.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


def _total(told: Queue[Changes], count: int) -> Changes:
    """Everything that is told until so many files were added or removed."""
    total = Changes()
    while total.added + total.changed + total.removed < count:
        one = told.get(timeout=SECONDS)
        total = Changes(
            total.added + one.added, total.changed + one.changed, total.removed + one.removed
        )
    return total


def test_files_are_taken_in_whenever_they_change(
    root: Path, start: Callable[..., Queue[Changes]]
) -> None:
    indexes.write(root, "notes/first", "text")
    told = start()
    assert _total(told, 1) == Changes(added=1)
    indexes.many(root, 50)
    assert _total(told, 50) == Changes(added=50)
    (root / "deep").mkdir()
    indexes.write(root, "deep/a", "text")
    assert _total(told, 1) == Changes(added=1)
    indexes.write(root, "deep/a", "another text")
    assert _total(told, 1) == Changes(changed=1)
    (root / "deep" / "a.md").unlink()
    assert _total(told, 1) == Changes(removed=1)


def test_a_directory_that_is_replaced_is_watched_anew(
    root: Path, start: Callable[..., Queue[Changes]]
) -> None:
    indexes.write(root, "notes/a", "text")
    told = start()
    _total(told, 1)
    other = indexes.new(root.with_name("other"))
    indexes.write(other, "notes/a", "text")
    indexes.write(other, "notes/b", "text")
    root.rename(root.with_name("gone"))
    other.rename(root)
    assert _total(told, 1).added == 1
    indexes.write(root, "notes/c", "text")
    assert _total(told, 1).added == 1


def test_on_a_network_the_files_are_looked_at_every_so_often(
    home: Path,
    root: Path,
    start: Callable[..., Queue[Changes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locate, "_MOUNTS", mount_table(home, root, "nfs4"))
    monkeypatch.setattr(watch, "_POLL_SECONDS", 0.05)
    told = start()
    indexes.write(root, "notes/a", "text")
    assert _total(told, 1) == Changes(added=1)
    indexes.write(root, "notes/b", "text")
    assert _total(told, 1) == Changes(added=1)


def test_files_are_looked_at_where_the_system_watches_too_much_already(
    root: Path, start: Callable[..., Queue[Changes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_options: object) -> Iterator[None]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(watchfiles, "watch", refuse)
    monkeypatch.setattr(watch, "_POLL_SECONDS", 0.05)
    told = start(all_events=True)
    assert told.get(timeout=SECONDS) == Changes()
    indexes.write(root, "notes/a", "text")
    assert _total(told, 1) == Changes(added=1)
    with indexes.opened(root) as other:
        indexes.write(root, "notes/b", "text")
        other.refresh()
    told.get(timeout=SECONDS)  # whoever took it in
