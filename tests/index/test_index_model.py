"""The index against a dictionary: whatever happens, every memory is found and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from retain.app import App
from retain.index.index import Index
from tests import crash, indexes

pytestmark = pytest.mark.slow

COLLECTIONS = ("notes", "plans", "")
NAMES = st.sampled_from([f"n{number}" for number in range(9)])
FOLDERS = st.sampled_from(COLLECTIONS)
SHAPES = st.sampled_from(["plain", "titled", "long", "linked", "broken", "empty head"])

Key = tuple[str, str]


class Bank(RuleBasedStateMachine):
    """A bank that an App, two open indexes and a person at the disk all work on."""

    memories: Bundle[Any] = Bundle("memories")

    @initialize()
    def start(self) -> None:
        base = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
        self.folder = Path(tempfile.mkdtemp(dir=base))
        self.root = indexes.new(self.folder / "bank")
        self._open_app()
        self.letters = indexes.Letters()
        self.passing = indexes.indexed(self.root, self.letters)
        self.staying = indexes.indexed(self.root, self.letters, stays=True)
        self.model: dict[Key, str] = {}  # collection and id, and the word of its own
        self.gone: set[str] = set()  # words that must not be found any more
        self.count = 0

    def _open_app(self) -> None:
        env = {"RETAIN_RECALL_EMBEDDER": "none", "HOME": str(self.folder)}
        self.app = App(bank=str(self.root), cwd=str(self.root), env=env)

    def teardown(self) -> None:
        for bank in (self.passing, self.staying):
            bank.close()
        self.app.close()
        shutil.rmtree(self.folder)

    # Texts

    def _word(self) -> str:
        self.count += 1
        return f"q{indexes.word(self.count)}"

    def _text(self, shape: str, word: str) -> str:
        texts = {
            "plain": f"A bird called {word}.\n",
            "titled": f"---\ntitle: About {word}\ntags: [bird]\n---\nA text without it.\n",
            "long": f"# Birds\n\n{'feather ' * 150}\n\n## More\n\n{'wing ' * 150}\n\n{word}\n",
            "linked": f"See [[notes/n1]] and [[src/{word}.py]] about {word}.\n",
            "broken": f"---\ntitle: [\n---\nStill about {word}.\n",
            "empty head": f"---\n---\n{word}\n",
        }
        return texts[shape]

    def _path(self, key: Key) -> Path:
        return self.root / key[0] / f"{key[1]}.md"

    def _set(self, key: Key, word: str) -> None:
        self._forget(key)
        self.model[key] = word

    def _forget(self, key: Key) -> None:
        if key in self.model:
            self.gone.add(self.model.pop(key))

    def _some(self, key: Key) -> Key | None:
        return key if key in self.model else None

    # Through Retain

    @rule(target=memories, collection=FOLDERS, name=NAMES, shape=SHAPES)
    def put(self, collection: str, name: str, shape: str) -> Any:
        key, word = (collection, name), self._word()
        if key in self.model or shape == "broken":
            return multiple()
        written = self.app.put(self._text(shape, word), id=name, collection=collection)
        assert not [note for note in written.warnings if "searchable" in note]
        self._set(key, word)
        return key

    @rule(key=memories, shape=SHAPES)
    def update(self, key: Key, shape: str) -> None:
        if not self._some(key) or shape in ("broken", "empty head"):
            return
        data = self._path(key).read_bytes()
        if b"[\n---" in data or b"title: About" in data:
            return  # what cannot be parsed is left to its owner, and metadata stays as it is
        word = self._word()
        self.app.update(f"{key[0]}/{key[1]}", self._text(shape, word))
        self._set(key, word)

    @rule(key=consumes(memories))
    def delete(self, key: Key) -> None:
        if self._some(key):
            self.app.delete(f"{key[0]}/{key[1]}")
            self._forget(key)

    @rule(target=memories, key=consumes(memories), collection=FOLDERS, name=NAMES)
    def move(self, key: Key, collection: str, name: str) -> Any:
        to = (collection, name)
        if not self._some(key) or to in self.model or b"[\n---" in self._path(key).read_bytes():
            return key
        self.app.move(f"{key[0]}/{key[1]}", to_collection=collection, to_id=name)
        self.model[to] = self.model.pop(key)
        return to

    # At the disk

    @rule(target=memories, collection=FOLDERS, name=NAMES, shape=SHAPES)
    def write_outside(self, collection: str, name: str, shape: str) -> Any:
        key, word = (collection, name), self._word()
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        path.write_text(self._text(shape, word), encoding="utf-8")
        self._set(key, word)
        return key

    @rule(key=memories)
    def edit_in_place_with_its_time_put_back(self, key: Key) -> None:
        if not self._some(key):
            return
        path, word = self._path(key), self._word()
        facts, data = path.stat(), path.read_bytes()
        with path.open("r+b") as file:
            file.write(data.replace(self.model[key].encode(), word.encode()))
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        self._set(key, word)

    @rule(key=consumes(memories))
    def delete_outside(self, key: Key) -> None:
        if self._some(key):
            self._path(key).unlink()
            self._forget(key)

    @rule(target=memories, key=consumes(memories), collection=FOLDERS, name=NAMES)
    def rename_outside(self, key: Key, collection: str, name: str) -> Any:
        to = (collection, name)
        if not self._some(key) or to == key:
            return key
        self._path(to).parent.mkdir(exist_ok=True)
        self._path(key).rename(self._path(to))
        word = self.model.pop(key)
        self._set(to, word)
        return to

    # The index itself

    @rule()
    def sync(self) -> None:
        self.app.sync()

    @rule()
    def rebuild(self) -> None:
        self.app.rebuild()

    @rule()
    def delete_the_index(self) -> None:
        shutil.rmtree(self.root / ".index", ignore_errors=True)

    @rule()
    def damage_the_index(self) -> None:
        self.passing.close()
        self.staying.close()
        self.app.close()
        with indexes.database(self.root).open("ab") as file:
            file.write(b"damage")
        self._open_app()

    @rule()
    def fill(self) -> None:
        self.passing.refresh()
        indexes.fill(self.passing)

    @rule()
    def be_killed_at_work(self) -> None:
        def doomed() -> None:
            bank = indexes.indexed(self.root, self.letters)
            bank.refresh()
            os.kill(os.getpid(), signal.SIGKILL)

        assert crash.in_child(doomed).signal == signal.SIGKILL

    # What must hold

    @invariant()
    def every_memory_is_found_by_its_word_and_no_other_is(self) -> None:
        if not hasattr(self, "model"):
            return None
        self._check(self.passing)
        # A process that stays hears of an edit in place a moment later.
        give_up = time.monotonic() + 60
        while True:
            try:
                return self._check(self.staying)
            except AssertionError:
                if time.monotonic() > give_up:
                    raise
            time.sleep(0.02)

    def _check(self, bank: Index) -> None:
        for key, word in self.model.items():
            hits = indexes.ask(bank, word, "text").hits
            assert [(hit.collection, hit.id) for hit in hits] == [key], word
        for word in sorted(self.gone)[-5:]:
            assert indexes.ids(bank, word) == [], word

    @invariant()
    def index_and_scan_agree_in_every_row(self) -> None:
        if not hasattr(self, "model"):
            return
        assert sorted(self.app.names()) == sorted(self.model)
        assert indexes.faults(self.passing) == []
        rows = self.passing.look(_rows)
        assert sorted(rows) == sorted(self.model)
        assert self.passing.held == 0

    @invariant()
    def totals_are_the_sums(self) -> None:
        if not hasattr(self, "model"):
            return
        counted, kept = self.passing.look(_totals)
        assert counted == kept


def _rows(connection: Any) -> list[Key]:
    return list(connection.execute("SELECT collection, id FROM memories"))


def _totals(connection: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    counted = connection.execute(
        "SELECT (SELECT count(*) FROM chunks), (SELECT coalesce(sum(length), 0) FROM chunks), "
        "(SELECT count(*) FROM memories WHERE chunks > 1)"
    )
    kept = connection.execute("SELECT chunks, length, wholes FROM totals")
    return counted.fetchone(), kept.fetchone()


TestBank: Callable[..., Any] = Bank.TestCase
TestBank.settings = settings(  # type: ignore[attr-defined]
    stateful_step_count=14, max_examples=max(20, settings().max_examples // 4)
)
