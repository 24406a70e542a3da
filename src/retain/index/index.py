"""The index of one bank: brought in step with the files before every look at it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from retain.errors import ConfigError, RetainError
from retain.index.database import Damaged, Database, Replaced, fact
from retain.locate import is_network, state_directory

if TYPE_CHECKING:
    from retain.bank.bank import Bank
    from retain.index.embed import Embedder
    from retain.index.embeddings import VectorCache
    from retain.index.engines.settings import Engines
    from retain.index.freshness import Project
    from retain.index.sync import Changes, Progress
    from retain.index.vectors import Cache, Floats
    from retain.index.watch import Watcher
    from retain.locate import BankLocation
    from retain.memory import Hit, Memory


_Result = TypeVar("_Result")
_TRIES: Final = 10
_LOOK_SECONDS: Final = 60.0  # after which listings are compared even if nothing was heard


class Model(NamedTuple):
    """The model that vectors come from, as a person has set it."""

    spec: str = "none"
    name: str = ""
    api_key: str = ""
    warm: tuple[str, ...] = ()  # banks whose warm processes may be asked


NO_MODEL: Final = Model()


class Index:
    """A bank that can be searched."""

    def __init__(
        self,
        bank: Bank,
        env: Mapping[str, str],
        model: Model = NO_MODEL,
        make_engines: Callable[[Index], Engines | None] = lambda _index: None,
        *,
        settings: Callable[[], object] = lambda: None,
        project: str = "",
        stays: bool = False,
    ) -> None:
        self.bank = bank
        self.database = Database(state_directory(bank.root, env), os.path.realpath(bank.root))
        self._env = env
        self.project_root = project
        self._model = model
        self._make_engines = make_engines
        self._settings = settings  # of the engines: another object when one of them has changed
        self._chosen: tuple[object, Engines | None] | None = None  # and the settings it is for
        self._choosing = threading.Lock()
        self.stays = stays  # a process that lives on hears what changes
        self._watcher: Watcher | None = None
        self._folders: dict[str, tuple[int, int]] = {}  # as they were at the last look
        self._heard = 0  # how many changes the watcher had counted then
        self._looked_at = 0.0
        self.held = 0
        self._unclear = ""  # why no engine is asked, though one is set
        self.has_news = False  # something was taken in, that engines may have to be told of
        self.query_vectors: dict[str, Floats] = {}  # of the last question
        self._generation = 0  # of the index that was brought in step

    @property
    def location(self) -> BankLocation:
        return self.bank.location

    # What fills an index is imported where it is filled: a command that only looks something up
    # spares 10 ms.

    @cached_property
    def cache(self) -> VectorCache:
        """The person's vectors, of every bank."""
        from retain.index.embeddings import VectorCache

        return VectorCache(self._env)

    @cached_property
    def embedder(self) -> Embedder | None:
        """The model that vectors come from, None when there is none."""
        spec, name, api_key, warm = self._model
        from retain.index import embed  # 0.8 ms, which a command without vectors can spare

        return embed.embedder(spec, model=name, api_key=api_key, warm=warm)

    @property
    def engines(self) -> Engines | None:
        """The arms of the index that live elsewhere by now, None when there are none.

        Settings for them that make no sense cost nobody an answer.
        """
        with self._choosing:
            try:
                settings = self._settings()
                if self._chosen is None or self._chosen[0] is not settings:
                    self._retire()
                    self._chosen = settings, self._make_engines(self)
                    self._unclear = ""
            except ConfigError as error:
                self._retire()
                self._unclear = f"answered from the local index: {error.message}"
            return self._chosen[1] if self._chosen else None

    def _retire(self) -> None:
        """Let go of the engines as they were set."""
        chosen, self._chosen = self._chosen, None
        if chosen and chosen[1]:
            chosen[1].close()

    @cached_property
    def vectors(self) -> Cache:
        """The bank's vectors, in memory."""
        from retain.index.vectors import Cache

        return Cache()

    @property
    def project(self) -> Project | None:
        """The project whose files the bank's memories link to, at this moment."""
        from retain.index.freshness import Project

        return Project(self.project_root) if self.project_root else None

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What makes every answer from this bank worse, in words."""
        notes = [*self.database.limitations, self._unclear]
        if self.held:
            notes.append(
                f"{self.held} memories are missing from disk at once and are left out; "
                "`retain sync --force` forgets them"
            )
        return tuple(filter(None, notes))

    def owns(self, item: Hit | Memory) -> bool:
        """Whether a hit or a memory is from this bank."""
        return item.path.startswith(f"{self.bank.root}/")

    def read(
        self, work: Callable[[sqlite3.Connection], _Result], *, is_fresh: bool = False
    ) -> _Result:
        """Look something up in an index that says what the files say; `is_fresh` if it just did."""
        if not is_fresh:
            self.refresh()
        return self._mend(lambda: self._look(work, self._generation))

    def look(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Look something up without another look at the files."""
        return self._mend(lambda: self._look(work, 0))

    def _look(self, work: Callable[[sqlite3.Connection], _Result], generation: int) -> _Result:
        with self.database.reading(generation) as connection:
            return work(connection)

    def _mend(self, work: Callable[[], _Result], *, is_sync: bool = False) -> _Result:
        """Do something with the index; again when it was damaged, or another process replaced it.

        A damaged one is thrown away. Whatever stands there then is brought in step first.
        """
        for _ in range(_TRIES):
            try:
                return work()
            except Damaged as error:
                self.database.replace(error.message)
            except Replaced:
                pass
            if not is_sync:
                self.refresh(force_look=True)
        return work()

    def refresh(
        self, *, force: bool = False, force_look: bool = False, progress: Progress | None = None
    ) -> Changes:
        """Bring the index in step with the files, whoever changed them and however."""
        from retain.index.sync import Changes, Sync

        folders = self._stat_folders() if self.stays else {}
        if not (force or force_look) and self._is_quiet(folders):
            return Changes(held=self.held)
        heard = self._watcher.count if self._watcher else 0
        with self.database.lock:
            changes = self._mend(lambda: Sync(self, progress).reconcile(force=force), is_sync=True)
            self._generation = self.database.generation
        self._folders, self._heard, self._looked_at = folders, heard, time.monotonic()
        self.held = changes.held
        if changes.any:
            self.has_news = True
            with contextlib.suppress(RetainError):  # the next search says so
                # Texts may have had vectors before, in this bank or another.
                self.make_vectors(only_known=True)
        return changes

    def update(self, changes: Mapping[str, bytes | None], progress: Progress | None = None) -> None:
        """Take in files that were just written, by path, or removed (None)."""
        from retain.index.sync import Sync

        files = {
            os.path.split(os.path.relpath(path, self.bank.root)): data
            for path, data in changes.items()
        }
        self._mend(lambda: Sync(self, progress).update(files), is_sync=True)
        self.has_news = True

    def missing_vectors(self, model: str) -> tuple[int, str]:
        """How many chunks have no vector of a model, and whose they have instead."""
        return self.look(partial(_missing_vectors, model=model))

    def make_vectors(
        self,
        *,
        only_known: bool = False,
        progress: Progress | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> int:
        """Make the vectors that are missing, or only find them again; how many were missing."""
        from retain.index import embeddings

        embedder = self.embedder
        if embedder is None or (only_known and not os.path.exists(self.cache.path)):
            return 0
        make = partial(embeddings.make_vectors, self.database, self.cache, embedder)
        if only_known:
            return make(only_known=True)
        return self._mend(partial(make, progress=progress, is_stopped=is_stopped))

    def _is_quiet(self, folders: dict[str, tuple[int, int]]) -> bool:
        """Whether nobody has changed a file since the last look, as far as the system tells.

        Whatever another Retain writes changes the time of a folder; what a person writes in place
        is heard a moment later. On a network disk neither is sure.
        """
        if not folders or is_network(self.bank.root):
            return False
        watcher = self.watcher
        return (
            folders == self._folders
            and not watcher.is_deaf
            and 0 < watcher.count == self._heard
            and time.monotonic() - self._looked_at < _LOOK_SECONDS
            and not self.database.is_new(self._generation)
        )

    @property
    def watcher(self) -> Watcher:
        """What counts the changes of the files; it is made when it is first asked for."""
        with self.database.lock:
            if self._watcher is None or not self._watcher.is_alive:
                from retain.index.watch import Watcher  # loads watchfiles

                self._watcher = Watcher(self.bank.root)
            return self._watcher

    def _stat_folders(self) -> dict[str, tuple[int, int]]:
        """Number and time of the bank's directory and of every collection's."""
        found: dict[str, tuple[int, int]] = {}
        if self.bank.location.exists:
            for name in ("", *self.bank.collections()):
                with contextlib.suppress(OSError):
                    facts = os.stat(os.path.join(self.bank.root, name), follow_symlinks=False)
                    found[name] = (facts.st_ino, facts.st_mtime_ns)
        return found

    def stop_waiting(self) -> None:
        """Have nobody wait for an engine any longer: the program ends."""
        engines = self._chosen[1] if self._chosen else None
        if engines:
            engines.close()

    def forget_vectors(self, memories: Iterable[Memory]) -> None:
        """Remove the kept vectors of texts that are destroyed for good."""
        from retain.index.rows import make_row

        digests = {row.digest for memory in memories for row in make_row(memory, 0.0).chunks}
        self.cache.forget(digests)

    def close(self) -> None:
        """Let go of the index."""
        self._retire()
        self.database.close()
        if self._watcher:
            self._watcher.close()
            self._watcher = None


def _missing_vectors(connection: sqlite3.Connection, model: str) -> tuple[int, str]:
    there = str(fact(connection, "model") or "")
    query = "SELECT count(*) FROM pending" if there == model else "SELECT chunks FROM totals"
    (missing,) = connection.execute(query).fetchone()
    return missing, "" if there == model else there
