"""Retain from Python: `with retain.open("project") as memory: memory.search("...")`."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from retain.app import App
from retain.drafts import Draft
from retain.errors import UsageError
from retain.filling import Filling
from retain.model import Answer, Deleted, Memory, Merged, Problem, Written
from retain.recall.asking import Wanted, conditions, whole
from retain.sync import Changes, Progress

if TYPE_CHECKING:
    from retain.brief import Brief
    from retain.recall.graph import Graph
    from retain.recall.related import Related
    from retain.similar import Cluster, Proposal
    from retain.typed.ledger import Outcome
    from retain.typed.upkeep import Change

__all__ = ["Retain"]


class Retain:
    """An open bank; safe to use from several threads, and a context manager."""

    def __init__(self, path: str = "", *, create: bool = True, background: bool = True) -> None:
        self._app = App(bank=path, stays=True)
        if create and path and not self._app.place.exists:
            self._app.init()
            self._app = App(bank=path, stays=True)
        self._lock = threading.RLock()
        self._indexing = threading.Lock()  # apart, so that nobody waits for many vectors
        self._is_closed = threading.Event()
        self._filling = Filling(self._app.library) if background else None
        # Explicitly, so that the index is sealed also when nobody calls close().
        self._finalizer = weakref.finalize(self, _close, self._app, self._filling)
        if self._filling:
            self._filling.notice()  # something may wait since the last time

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
        draft = Draft(text, title, type, tags, False, dict(metadata or {}), allow_secret)
        with self._changing():
            return self._app.put(
                draft, collection=collection, name=id, created_by=created_by, replace=replace
            )

    def get(self, ref: str, *, collection: str | None = None, version: str = "") -> Memory:
        """A memory by its id, `collection/id` or handle, as it is or as it was."""
        with self._opened():
            return self._app.get(ref, collection=collection, version=version)

    def list(
        self,
        *,
        collection: str | None = None,
        filter: Sequence[str] = (),  # noqa: A002
        type: str = "",  # noqa: A002
        status: str = "",
        limit: int | None = None,
    ) -> Sequence[Memory]:
        """Memories that meet every condition, or the first of them."""
        most = None if limit is None else whole("limit", limit)
        with self._opened():
            return self._app.list(
                collection=collection, conditions=filter, kind=type, status=status
            )[:most]

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
        draft = Draft(text, title, type, tags, False, dict(metadata or {}))
        with self._changing():
            return self._app.update(ref, draft, collection=collection, expect=expect)

    def append(self, ref: str, text: str, *, collection: str | None = None) -> Written:
        """Add text to the end of a memory."""
        with self._changing():
            return self._app.append(ref, Draft(text), collection=collection)

    def delete(self, ref: str, *, collection: str | None = None, expect: str = "") -> Deleted:
        """Move a memory to the trash, out of every index."""
        with self._changing():
            return self._app.delete(ref, collection=collection, expect=expect)

    def merge(self, sources: Sequence[str], into: str, text: str) -> Merged:
        """Put one memory in the place of several, which go to the trash."""
        with self._changing():
            return self._app.merge(sources, into, Draft(text))

    # Typed memories

    def record(
        self,
        category: str,
        content: Mapping[str, object],
        *,
        title: str = "",
        id: str = "",  # noqa: A002
        tags: Sequence[str] = (),
        files: Sequence[str] = (),
        confidence: float | None = None,
        force: bool = False,
    ) -> Outcome:
        """Store a decision, a runbook, a constraint ...: a memory whose fields are checked."""
        with self._changing():
            return self._app.desk.record(
                category,
                content,
                name=id,
                force=force,
                title=title,
                tags=list(tags),
                related_files=list(files),
                confidence=confidence,
            )

    def retire(self, ref: str, reason: str = "") -> Outcome:
        """Take a memory out of force; `restore` brings it back until it is collected."""
        with self._changing():
            return self._app.desk.retire(ref, reason)

    def restore(self, ref: str) -> Outcome:
        """Put a retired memory in force again."""
        with self._changing():
            return self._app.desk.restore(ref)

    def archive(self, ref: str, reason: str = "") -> Outcome:
        """Put a memory on the shelf: kept for good, behind those in force."""
        with self._changing():
            return self._app.desk.archive(ref, reason)

    def unarchive(self, ref: str) -> Outcome:
        """Take a memory off the shelf."""
        with self._changing():
            return self._app.desk.unarchive(ref)

    def supersede(self, ref: str, by: str) -> Outcome:
        """Say that one memory has taken another's place; both remember it."""
        with self._changing():
            return self._app.desk.supersede(ref, by)[0]

    def changes(self, ref: str = "", since: str = "") -> Sequence[Change]:
        """What happened to typed memories, the newest first; `since` is a UTC time."""
        with self._opened():
            return self._app.desk.changes(ref, since)

    def candidate(self, category: str, news: str, event: str | None = None) -> Mapping[str, object]:
        """Which typed memory new information belongs to, and what may be done with it."""
        with self._opened():
            return self._app.desk.candidate(category, news, event)

    # Recall

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
        found = conditions(
            collection=collection, kind=type, tags=tags, since=since, until=until, filters=filter
        )
        wanted = Wanted(query, limit, mode, per, found, min_score, explain)
        with self._opened():
            return self._app.library.search(wanted)

    def linked(self, target: str, query: str = "", limit: int = 5) -> Answer:
        """The memories that link to a document."""
        with self._opened():
            return self._app.library.linked(target, query, limit)

    def graph(self, ref: str = "", depth: int = 2) -> Graph:
        """The links of the bank, or those around one memory or linked file."""
        with self._opened():
            return self._app.library.graph(ref, depth)

    def related(self, ref: str, limit: int = 10) -> Sequence[Related]:
        """Memories connected with one: by links, files, tags or meaning."""
        with self._opened():
            return self._app.library.related(ref, limit)

    def brief(self, query: str, budget: int = 2000) -> Brief:
        """The best hits packed into a token budget, ready for a prompt."""
        with self._opened():
            return self._app.library.brief(query, budget)

    def suggest_merges(
        self,
        threshold: float = 0.85,
        type: str = "journal",  # noqa: A002
        limit: int = 5,
    ) -> Sequence[Cluster]:
        """Groups of memories that could be one."""
        with self._opened():
            return self._app.library.suggest_merges(threshold, type, limit)

    def dedupe(self) -> Sequence[Proposal]:
        """Pairs of memories that state one fact twice, as proposals."""
        with self._opened():
            return self._app.library.dedupe()

    # The index

    def sync(self, *, force: bool = False, progress: Progress | None = None) -> Changes:
        """Bring the index in step with the files; searches do it by themselves."""
        with self._changing():
            return self._app.library.sync(force=force, progress=progress)

    def index(self, *, progress: Progress | None = None) -> int:
        """Wait until every vector is made; returns how many were missing."""
        self.sync()
        with self._indexing:
            return self._app.library.fill(progress=progress, is_stopped=self._is_closed.is_set)

    def problems(self) -> tuple[Problem, ...]:
        """Files that are left out, and why."""
        with self._opened():
            return self._app.status().problems

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        """One call at a time, as long as nobody closed the bank."""
        with self._lock:
            if self._is_closed.is_set():
                raise UsageError(
                    "this bank is closed",
                    hint="Open it again: retain.open(path), or stay in `with`.",
                )
            yield
            if self._filling:
                self._filling.notice()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """One writer at a time; what was written gets its vectors afterwards."""
        with self._opened():
            yield
            if self._filling:
                self._filling.wake()


def _close(app: App, filling: Filling | None) -> None:
    if filling:
        filling.end()
    app.close()
