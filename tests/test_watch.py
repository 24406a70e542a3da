"""A bank kept in step with its files: by events, and by looking where there are none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest

from retain import watch
from retain.errors import Busy
from retain.notice import Notice
from retain.sync import Changes

SECONDS = 60


class Folder:
    """A folder whose files are counted at every look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: set[str] = set()
        self.looks = 0

    def look(self) -> Changes:
        self.looks += 1
        found = {str(file) for file in self.path.rglob("*.md")}
        changes = Changes(added=len(found - self.known), removed=len(self.known - found))
        self.known = found
        return changes

    def folders(self) -> list[str]:
        inside = (one for one in self.path.rglob("*") if one.is_dir())
        return [str(self.path), *sorted(map(str, inside))]


Started = tuple[Folder, "Queue[Changes]"]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[Callable[[], Changes] | None], Started]]:
    """Starts a watch in a thread; what it yields comes in a queue."""
    ended = threading.Event()
    threads: list[threading.Thread] = []
    root = tmp_path / "bank"
    root.mkdir()

    def start(look: Callable[[], Changes] | None = None, *, all_events: bool = False) -> Started:
        folder, told = Folder(root), Queue[Changes]()

        def run() -> None:
            found = watch.changes(look or folder.look, folder.folders, ended, all_events=all_events)
            for changes in found:
                told.put(changes)

        threads.append(threading.Thread(target=run))
        threads[0].start()
        return folder, told

    yield start
    ended.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


def write(folder: Path, name: str) -> None:
    (folder / f"{name}.md").write_text("text\n", encoding="utf-8")


def test_what_is_there_at_the_start_is_taken_in(started: Callable[..., Started]) -> None:
    folder, told = started()
    write(folder.path, "a")
    assert told.get(timeout=SECONDS).added == 1


def test_files_written_together_are_one_change(started: Callable[..., Started]) -> None:
    folder, told = started()
    write(folder.path, "first")
    assert told.get(timeout=SECONDS).added == 1
    for number in range(50):
        write(folder.path, str(number))
    assert told.get(timeout=SECONDS).added == 50


def test_folder_made_later_is_watched_too(started: Callable[..., Started]) -> None:
    folder, told = started()
    (folder.path / "deep").mkdir()
    write(folder.path / "deep", "a")
    assert told.get(timeout=SECONDS).added == 1
    write(folder.path / "deep", "b")
    assert told.get(timeout=SECONDS).added == 1
    (folder.path / "deep" / "b.md").unlink()
    assert told.get(timeout=SECONDS).removed == 1


def test_without_events_it_looks_every_so_often(
    started: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notice, "on", lambda _: None)
    monkeypatch.setattr(watch, "_POLL_SECONDS", 0.05)
    folder, told = started()
    write(folder.path, "a")
    assert told.get(timeout=SECONDS).added == 1
    write(folder.path, "b")
    assert told.get(timeout=SECONDS).added == 1


def test_nothing_is_looked_at_while_nothing_happens(started: Callable[..., Started]) -> None:
    folder, told = started()
    write(folder.path, "a")
    told.get(timeout=SECONDS)
    threading.Event().wait(0.7)
    looks = folder.looks
    threading.Event().wait(0.7)
    assert folder.looks == looks


def test_busy_index_is_waited_for(
    started: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_POLL_SECONDS", 0.05)
    refusals = [Busy("held"), Busy("held")]

    def look() -> Changes:
        if refusals:
            raise refusals.pop()
        return Changes(added=7)

    assert started(look)[1].get(timeout=SECONDS).added == 7


def test_loss_that_is_held_is_told_once(
    started: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notice, "on", lambda _: None)
    monkeypatch.setattr(watch, "_POLL_SECONDS", 0.02)
    answers = iter([Changes(held=30)] * 5 + [Changes(added=1, held=30)])
    _, told = started(lambda: next(answers, Changes(held=30)))
    assert told.get(timeout=SECONDS) == Changes(held=30)
    assert told.get(timeout=SECONDS) == Changes(added=1, held=30)


# For who shows what others have indexed already


def test_the_first_look_is_told_for_nobody_knows_what_was_before(
    started: Callable[..., Started],
) -> None:
    _, told = started(Changes, all_events=True)
    assert told.get(timeout=SECONDS) == Changes()


def test_what_another_took_in_is_told_by_events(started: Callable[..., Started]) -> None:
    folder, told = started(Changes, all_events=True)
    told.get(timeout=SECONDS)
    write(folder.path, "a")
    assert told.get(timeout=SECONDS) == Changes()


def test_what_another_took_in_is_told_where_there_are_no_events(
    started: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notice, "on", lambda _: None)
    monkeypatch.setattr(watch, "_POLL_SECONDS", 0.05)
    folder, told = started(Changes, all_events=True)
    told.get(timeout=SECONDS)
    threading.Event().wait(0.5)
    assert told.empty()  # nothing has happened
    write(folder.path, "a")
    assert told.get(timeout=SECONDS) == Changes()
    (folder.path / "a.md").write_text("another text\n", encoding="utf-8")
    assert told.get(timeout=SECONDS) == Changes()


def test_what_happened_while_events_were_lost_is_told(
    started: Callable[..., Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = [True]

    def changed(notice: Notice) -> set[str] | None:
        if losses and losses.pop():
            notice.close()
        return found(notice)

    found = Notice.changed
    monkeypatch.setattr(Notice, "changed", changed)
    folder, told = started(Changes, all_events=True)
    told.get(timeout=SECONDS)
    write(folder.path, "a")
    assert told.get(timeout=SECONDS) == Changes()
    assert not losses
    write(folder.path, "b")  # there is a new watch
    assert told.get(timeout=SECONDS) == Changes()
