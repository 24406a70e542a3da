"""A bank looked over and put in order in the background: one work at a time, told as it goes on.

The work has an app of its own. What others ask meanwhile is answered by the banks's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from retain.errors import Conflict, RetainError
from retain.httpd.logging import log_fault

if TYPE_CHECKING:
    from retain.app import App
    from retain.memory import Problem
    from retain.search.duplicates import Cluster, Member, Proposal


Work = Literal["look", "sync", "vectors", "rebuild", "repair"]
Progress = Callable[[int, int], None]

_EVERY_SECONDS: Final = 0.3  # between two words about progress
_MOST: Final = 100  # of each kind that are shown; a page with more helps nobody
_GROUPS: Final = 20
_NEAR: Final = 0.85
_BROKEN: Final = "It broke off: something went wrong in Retain, and its log has more."
_STALE: Final = ("changed", "moved", "gone")


class Loose(NamedTuple):
    """A link that leads nowhere, or to a file that is no longer what it was."""

    source: str  # the memory that has it
    target: str
    state: str  # dangling, changed, moved, gone
    now_at: str = ""


class Found(NamedTuple):
    """What looking a bank over found."""

    at: float
    memories: int
    size: int
    index_size: int
    collections: Mapping[str, int]
    types: Mapping[str, int]
    statuses: Mapping[str, int]
    problems: tuple[Problem, ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    pairs: tuple[Proposal, ...]
    groups: tuple[Cluster, ...]
    loose: tuple[Loose, ...]
    unsure: str = ""  # why nobody knows what is stated twice

    def without(self, apart: Iterable[frozenset[str]]) -> tuple[Found, int]:
        """The same without what a person ignores by now, and how much that is."""
        known = list(apart)

        def is_open(members: Iterable[Member]) -> bool:
            refs = {one.ref for one in members}
            return not any(refs <= one for one in known)

        pairs = tuple(one for one in self.pairs if is_open((one.older, one.newer)))
        groups = tuple(one for one in self.groups if is_open(one.members))
        left = len(self.pairs) + len(self.groups) - len(pairs) - len(groups)
        return self._replace(pairs=pairs, groups=groups), left


class State(NamedTuple):
    """What is under way, what came of the last work, and what is known."""

    work: str = ""
    done: int = 0
    total: int = 0
    said: str = ""
    is_bad: bool = False
    found: Found | None = None
    was_tried: bool = False


class Checkup:
    """Works on the bank in force; `tell` hears when there is something new to show."""

    def __init__(
        self, open_app: Callable[[bool], App], tell: Callable[[str, Mapping[str, object]], None]
    ) -> None:
        self._open, self._tell = open_app, tell
        self._lock = threading.Lock()
        self._last = 0.0
        self.state = State()

    def look_first(self) -> None:
        """Look the bank over if nobody has yet."""
        if not self.state.was_tried:
            self._begin("look")

    def start(self, work: Work) -> None:
        """Begin a work; one at a time."""
        if not self._begin(work):
            raise Conflict(
                "something is under way already",
                unchanged="Nothing was begun.",
                hint="Wait for it.",
            )

    def _begin(self, work: Work) -> bool:
        with self._lock:
            if self.state.work:
                return False
            self.state = self.state._replace(work=work, done=0, total=0)
        threading.Thread(target=self._run, args=(work,), name="retain-checkup", daemon=True).start()
        return True

    def _run(self, work: Work) -> None:
        # Bad until it has ended well: a fault of ours must not look like work that was done.
        said, is_bad, found = _BROKEN, True, self.state.found
        try:
            app = self._open(False)
            try:
                if app.location.exists:
                    said = _WORKS[work](app, self._progress)
                    found = _found(app, self._progress)
                else:
                    said = "There is no bank yet."
            finally:
                app.close()
            is_bad = False
        except (RetainError, OSError) as error:
            said = str(error)
        except Exception as error:  # noqa: BLE001 - nobody waits for this thread: the log has it
            log_fault(error, "looking a bank over")
        finally:
            with self._lock:
                self.state = State(said=said, is_bad=is_bad, found=found, was_tried=True)
            self._tell("health", {"work": "", "said": said, "bad": is_bad})

    def _progress(self, done: int, total: int) -> None:
        with self._lock:
            self.state = self.state._replace(done=done, total=total)
        if time.monotonic() - self._last > _EVERY_SECONDS:
            self._last = time.monotonic()
            self._tell("health", {"work": self.state.work, "done": done, "total": total})


def _look(_app: App, _progress: Progress) -> str:
    return ""


def _sync(app: App, progress: Progress) -> str:
    done = app.sync(progress=progress)
    said = f"{done.added} added, {done.changed} changed, {done.removed} removed."
    return f"{said} {done.held} are missing at once and kept in mind." if done.held else said


def _vectors(app: App, progress: Progress) -> str:
    return f"{app.make_vectors(progress=progress)} vectors made."


def _rebuild(app: App, progress: Progress) -> str:
    done = app.rebuild(progress)
    made = app.make_vectors(progress=progress)
    return f"The index was made anew: {done.added} memories, {made} new vectors."


def _repair(app: App, progress: Progress) -> str:
    done = app.health(repair=True, progress=progress)
    if done.is_rebuilt:
        return "The index had faults and was made anew."
    return "The index was compared with every file, and is in order."


_WORKS: Final[Mapping[str, Callable[[App, Progress], str]]] = {
    "look": _look,
    "sync": _sync,
    "vectors": _vectors,
    "rebuild": _rebuild,
    "repair": _repair,
}


def _found(app: App, progress: Progress) -> Found:
    """All that takes long to find out."""
    status, stats = app.status(), app.stats()
    health = app.health()
    pairs, groups, unsure = _meanings(app, progress)
    return Found(
        time.time(),
        status.memories,
        status.bytes,
        stats.index_size,
        status.collections,
        status.types,
        status.statuses,
        tuple(one for one in status.problems if not one.is_minor)[:_MOST],
        health.faults[:_MOST],
        health.notes[:_MOST],
        tuple(pairs[:_MOST]),
        tuple(groups),
        tuple(_loose(app))[:_MOST],
        unsure,
    )


def _meanings(app: App, progress: Progress) -> tuple[list[Proposal], list[Cluster], str]:
    """What is alike by its meaning, or why that is not known: it hides nothing else."""
    if not app.has_model():
        return [], [], "no model compares what memories mean (recall.embedder)"
    try:
        app.make_vectors(progress=progress)
        pairs, groups = _alike(app)
    except RetainError as error:
        return [], [], str(error)
    return pairs, groups, ""


def _alike(app: App) -> tuple[list[Proposal], list[Cluster]]:
    """Pairs and groups that are alike; many that are alike are one group, not many pairs."""
    groups = app.suggest_merges(_NEAR, "", _GROUPS, ignored=True)
    large = [{one.ref for one in group.members} for group in groups if len(group.members) > 2]
    pairs = [
        one
        for one in app.dedupe(ignored=True)
        if not any({one.older.ref, one.newer.ref} <= group for group in large)
    ]
    paired = [{one.older.ref, one.newer.ref} for one in pairs]
    left = [one for one in groups if {member.ref for member in one.members} not in paired]
    return pairs, left


def _loose(app: App) -> list[Loose]:
    graph = app.graph()
    states = {
        node.name: (("dangling" if node.kind == "dangling" else node.freshness), node.now_at)
        for node in graph.nodes
        if node.kind == "dangling" or node.freshness in _STALE
    }
    named = [(edge.source, edge.target.removeprefix("?")) for edge in graph.edges]
    loose = (
        Loose(source, target.removeprefix("ghost:"), *states[target])
        for source, target in named
        if target in states
    )
    return list(dict.fromkeys(loose))  # a memory may name a file in its head and in its text
