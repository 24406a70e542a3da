"""Retain from Python: `with retain.open("project") as memory: memory.search("...")`."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from retain.app import App
from retain.bank.memory_input import MemoryInput
from retain.embedding_worker import EmbeddingWorker
from retain.errors import UsageError
from retain.index.sync import Progress
from retain.memory import Answer, Merged, Problem, Written
from retain.search.request import SearchRequest, parse_filters

if TYPE_CHECKING:
    from retain.records.service import Outcome


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _verb(
    verb: Callable[Concatenate[App, _Arguments], _Result], *, writes: bool = False
) -> Callable[Concatenate[Retain, _Arguments], _Result]:
    """A verb of the app as it is, for one thread at a time."""

    @functools.wraps(verb)
    def call(self: Retain, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with self._opened(writes=writes) as app:
            return verb(app, *args, **kwargs)

    return call


class Retain:
    """An open bank; safe to use from several threads, and a context manager."""

    def __init__(self, path: str = "", *, create: bool = True, background: bool = True) -> None:
        self._app = App(bank=path, stays=True)
        if create and path and not self._app.location.exists:
            self._app.init()
            self._app = App(bank=path, stays=True)
        self._lock = threading.RLock()
        self._indexing = threading.Lock()  # apart, so that nobody waits for many vectors
        self._is_closed = threading.Event()
        self._worker = EmbeddingWorker(self._app) if background else None
        # The index is closed in good order also where nobody calls close().
        self._finalizer = weakref.finalize(self, _close, self._app, self._worker)
        if self._worker:
            self._worker.notice()  # something may wait since the last time

    def close(self) -> None:
        """Let go of the bank; everything written is on disk already, and nothing more is read."""
        self._is_closed.set()
        with self._indexing, self._lock:
            self._finalizer()

    def __enter__(self) -> Retain:
        with self._opened():
            return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Memories

    get = _verb(App.get)
    list = _verb(App.list)
    delete = _verb(App.delete, writes=True)

    def put(  # noqa: PLR0913 - a door for people: one keyword for each thing they may say
        self,
        text: str,
        *,
        id: str = "",  # noqa: A002 - the word for it everywhere else
        collection: str | None = None,
        title: str = "",
        type: str = "",  # noqa: A002
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, object] | None = None,
        created_by: str = "",
        replace: bool = False,
        allow_secret: bool = False,
    ) -> Written:
        """Store a memory; it is on disk and searchable when this returns."""
        draft = MemoryInput(text, title, type, tags, False, dict(metadata or {}), allow_secret)
        with self._opened(writes=True) as app:
            return app.put(
                draft, collection=collection, name=id, created_by=created_by, replace=replace
            )

    def update(
        self,
        ref: str,
        text: str | None = None,
        *,
        collection: str | None = None,
        title: str = "",
        type: str = "",  # noqa: A002
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, object] | None = None,
        expect: str = "",
    ) -> Written:
        """Change a memory's text or metadata; what is not named stays, the old text is kept."""
        draft = MemoryInput(text, title, type, tags, False, dict(metadata or {}))
        with self._opened(writes=True) as app:
            return app.update(ref, draft, collection=collection, expect=expect)

    def append(self, ref: str, text: str, *, collection: str | None = None) -> Written:
        """Add text to the end of a memory."""
        with self._opened(writes=True) as app:
            return app.append(ref, MemoryInput(text), collection=collection)

    def merge(self, sources: Sequence[str], into: str, text: str) -> Merged:
        """Put one memory in the place of several, which go to the trash."""
        with self._opened(writes=True) as app:
            return app.merge(sources, into, MemoryInput(text))

    # Typed memories

    record = _verb(App.record, writes=True)
    retire = _verb(App.retire, writes=True)
    restore = _verb(App.unretire, writes=True)
    archive = _verb(App.archive, writes=True)
    unarchive = _verb(App.unarchive, writes=True)
    changes = _verb(App.changes)
    candidate = _verb(App.candidate)

    def supersede(self, ref: str, by: str) -> Outcome:
        """Say that one memory has taken another's place; both remember it."""
        with self._opened(writes=True) as app:
            return app.supersede(ref, by)[0]

    # Recall

    linked = _verb(App.linked)
    graph = _verb(App.graph)
    related = _verb(App.related)
    brief = _verb(App.brief)
    dedupe = _verb(App.dedupe)
    suggest_merges = _verb(App.suggest_merges)

    def search(  # noqa: PLR0913
        self,
        query: str,
        limit: int = 10,
        *,
        mode: str = "hybrid",
        per: str = "memory",
        collection: str | None = None,
        type: str = "",  # noqa: A002
        tags: Sequence[str] = (),
        since: str = "",
        until: str = "",
        filter: Sequence[str] = (),  # noqa: A002
        min_score: float = 0.0,
        explain: bool = False,
    ) -> Answer:
        """Rank memories, or chunks, for a question; `mode` is hybrid, text or semantic."""
        filters = parse_filters(
            collection=collection, kind=type, tags=tags, since=since, until=until, filters=filter
        )
        request = SearchRequest(query, limit, mode, per, filters, min_score, explain)
        with self._opened() as app:
            return app.search(request)

    # The index

    sync = _verb(App.sync, writes=True)

    def index(self, *, progress: Progress | None = None) -> int:
        """Wait until every vector is made; returns how many were missing."""
        self.sync()
        with self._indexing:
            return self._app.make_vectors(progress=progress, is_stopped=self._is_closed.is_set)

    def problems(self) -> tuple[Problem, ...]:
        """Files that are left out, and why."""
        with self._opened() as app:
            return app.status().problems

    @contextlib.contextmanager
    def _opened(self, *, writes: bool = False) -> Iterator[App]:
        """One call at a time, as long as nobody closed the bank; vectors are made afterwards."""
        with self._lock:
            if self._is_closed.is_set():
                raise UsageError(
                    "this bank is closed",
                    hint="Open it again: retain.open(path), or stay in `with`.",
                )
            yield self._app
            if self._worker and writes:
                self._worker.wake()
            elif self._worker:
                self._worker.notice()


def _close(app: App, worker: EmbeddingWorker | None) -> None:
    if worker:
        worker.end()
    app.close()
