"""One bank with its index: brought in step with the files before every look at it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from retain import sync
from retain.errors import ConfigError
from retain.index.store import Damaged, Replaced, Store
from retain.index.text import Counts
from retain.reading import Reader

if TYPE_CHECKING:
    import sqlite3

    from retain.embed import Embedder
    from retain.engines.choosing import Engines
    from retain.freshness import Project
    from retain.index.vectors import Cache, Floats
    from retain.model import Hit
    from retain.notice import Notice

__all__ = ["Indexed"]

_Result = TypeVar("_Result")
_TRIES: Final = 10


class Indexed:
    """A bank that can be searched."""

    def __init__(
        self,
        bank: Reader,
        make_embedder: Callable[[], Embedder | None],
        make_engines: Callable[[Indexed], Engines | None] = lambda _bank: None,
        *,
        settings: Callable[[], object] = lambda: None,
        project: str = "",
        stays: bool = False,
    ) -> None:
        self.bank = bank
        self.store = Store(bank.root)
        self.project_root = project
        self._make_embedder, self._make_engines = make_embedder, make_engines
        self._settings = settings  # of the engines: another object when one of them has changed
        self._chosen: tuple[object, Engines | None] | None = None  # and the settings it is for
        self._former: list[Engines] = []  # in which somebody may still be asking something
        self._choosing = threading.Lock()
        self._stays = stays  # a process that lives on is told by the kernel what changed
        self._notice: Notice | None = None
        self.held = 0
        self._unclear = ""  # why no engine is asked, though one is set
        self.has_searched = False  # what is known of engines may be old
        self.has_news = False  # something was taken in, that engines may have to be told of
        self.counts = Counts()
        self.meant: dict[str, Floats] = {}  # the last question's vector
        self._generation = 0  # of the index that was brought in step

    @cached_property
    def embedder(self) -> Embedder | None:
        """The model that vectors come from, None when there is none."""
        return self._make_embedder()

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
        """Let go of the engines as they were set; what is under way there is not cut off."""
        chosen, self._chosen = self._chosen, None
        if chosen and chosen[1]:
            chosen[1].retire()
            self._former.append(chosen[1])

    @cached_property
    def vectors(self) -> Cache:
        """The bank's vectors, in memory."""
        from retain.index.vectors import Cache

        return Cache()

    @property
    def project(self) -> Project | None:
        """The project whose files the bank's memories link to, at this moment."""
        from retain.freshness import Project

        return Project(self.project_root) if self.project_root else None

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """What makes every answer from this bank worse, in words."""
        lasting = (*self.store.lasting, *filter(None, (self._unclear,)))
        if not self.held:
            return lasting
        held = (
            f"{self.held} memories are missing from disk at once and are left out; "
            "`retain sync --force` forgets them"
        )
        return (*lasting, held)

    def owns(self, hit: Hit) -> bool:
        """Whether a hit is from this bank."""
        return hit.path.startswith(f"{self.bank.root}/")

    def read(
        self, work: Callable[[sqlite3.Connection], _Result], *, is_fresh: bool = False
    ) -> _Result:
        """Look something up in an index that says what the files say; `is_fresh` if it just did."""
        for number in range(_TRIES):
            if number or not is_fresh:
                self.refresh()
            with contextlib.suppress(Replaced):
                return self.mended(lambda: self._in_step(work))
        return self.mended(lambda: self._in_step(work))

    def _in_step(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Look something up in the very index that was brought in step."""
        with self.store.reading(self._generation) as connection:
            return work(connection)

    def mended(self, work: Callable[[], _Result]) -> _Result:
        """Do something with the index; a damaged one is built anew, and it is done again."""
        try:
            return work()
        except Damaged as error:
            self.store.set_aside(error.message)
            self.refresh(force_look=True)
            return work()

    def look(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Look something up without another look at the files."""
        with self.store.reading() as connection:
            return work(connection)

    def refresh(
        self,
        *,
        force: bool = False,
        force_look: bool = False,
        progress: sync.Progress | None = None,
    ) -> sync.Changes:
        """Bring the index in step with the files, whoever changed them and however."""
        if not (force or force_look) and self._is_quiet():
            return sync.Changes(held=self.held)
        with self.store.lock, contextlib.ExitStack() as undo:
            undo.callback(self._unwatch)  # what the kernel told and nobody took in is told once
            try:
                changes = self._reconciled(force, progress)
            except Damaged as error:
                self.store.set_aside(error.message)
                changes = self._reconciled(force, progress)
            undo.pop_all()
            self._generation = self.store.generation
        self.held = changes.held
        self.has_news = self.has_news or bool(changes.added or changes.changed or changes.removed)
        return changes

    def _reconciled(self, force: bool, progress: sync.Progress | None) -> sync.Changes:
        project = self.project
        # Whoever wrote these files did so at some time before: what did the linked files say then?
        seen = project.fingerprint_at if project else None
        return sync.reconcile(self.bank, self.store, force=force, progress=progress, seen=seen)

    def update(self, paths: Iterable[str], progress: sync.Progress | None = None) -> None:
        """Take in files that were just written or removed."""
        files = [os.path.split(os.path.relpath(path, self.bank.root)) for path in paths]
        self.has_news = True
        try:
            sync.update(self.bank, self.store, files, self._seen_now(), progress)
        except Damaged as error:
            self.store.set_aside(error.message)

    def _seen_now(self) -> sync.Seen | None:
        project = self.project
        return (lambda target, _written: project.fingerprint(target)) if project else None

    def _is_quiet(self) -> bool:
        """Whether the kernel says that no file changed since the last look."""
        if not self._stays or not self.bank.place.exists:
            return False
        changed = self._notice.changed() if self._notice else None
        if changed is None or self.bank.root in changed:  # a new collection is to be watched too
            self._unwatch()
            self._notice = self._watched()
            return False
        return not changed and not self.store.is_new(self._generation)

    def _watched(self) -> Notice | None:
        from retain.notice import Notice

        # The root first: a collection made while the others are added is told of by it.
        notice = Notice.on([self.bank.root])
        if notice:
            for name in filter(None, self.bank.collections()):
                notice.add(os.path.join(self.bank.root, name))
        return notice

    def _unwatch(self) -> None:
        if self._notice is not None:
            self._notice.close()
            self._notice = None

    def leave(self) -> None:
        """Have nobody wait for an engine any longer."""
        for engines in self._all_engines():
            engines.leave()

    def _all_engines(self) -> list[Engines]:
        """Those that were made, the former among them; none is made for this."""
        with self._choosing:
            current = self._chosen[1] if self._chosen else None
            return [*self._former, *([current] if current else [])]

    def close(self) -> None:
        """Let go of the index."""
        for engines in self._all_engines():
            engines.close()
        self._chosen, self._former = None, []
        self.store.close()
        self._unwatch()
