"""Real processes that die, wait, or meet a failing disk at a chosen system call."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sqlite3
import stat
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from retain.app import App
from retain.bank import files as fsio
from retain.bank import git
from retain.errors import RetainError

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CALLS = ("fsync", "rename", "replace", "link", "unlink", "mkdir", "rmdir", "open", "write")
NOON = time.struct_time((2020, 2, 29, 12, 0, 0, 5, 60, 0))

Snapshot = dict[str, bytes]


class Outcome(NamedTuple):
    """How a process ended: what it returned, what it raised, or the signal that killed it."""

    value: Any = None
    code: str = ""
    message: str = ""
    signal: int = 0


class Child:
    """A forked process that does one piece of work."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._pipe, end = os.pipe()
        with warnings.catch_warnings():
            # Newer Pythons warn of forking beside threads; the child takes none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _finish(work, end)
        os.close(end)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def outcome(self) -> Outcome:
        with open(self._pipe, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status):
            return Outcome(signal=os.WTERMSIG(status))
        answer: Outcome = pickle.loads(said)  # noqa: S301 - from our own child
        return answer


def _finish(work: Callable[[], object], end: int) -> None:
    """Do the work, say how it went, and leave without running anyone's clean-up."""
    try:
        answer = Outcome(work())
    except RetainError as error:
        answer = Outcome(code=error.code, message=error.message)
    except BaseException:  # noqa: BLE001 - the parent shall see it, whatever it is
        answer = Outcome(code="crash", message=traceback.format_exc())
    with open(end, "wb") as pipe:
        pipe.write(pickle.dumps(answer))
    os._exit(0)


def in_child(work: Callable[[], object]) -> Outcome:
    """Do the work in a process of its own and wait for it."""
    return Child(work).outcome()


def together(works: Sequence[Callable[[], object]]) -> list[Outcome]:
    """Do all the works at once, each in a process of its own, released at the same instant."""
    gate, lift = os.pipe()

    def behind_gate(work: Callable[[], object]) -> object:
        os.close(lift)
        os.read(gate, 1)
        return work()

    children = [Child(lambda work=work: behind_gate(work)) for work in works]  # type: ignore[misc]
    os.close(lift)
    os.close(gate)
    return [child.outcome() for child in children]


@contextlib.contextmanager
def watched(before: Callable[[str], None], after: Callable[[str, Any], None]) -> Iterator[None]:
    """Report every system call that changes something, before and after it is made."""
    with contextlib.ExitStack() as patches:
        places: list[tuple[Any, str]] = [(os, name) for name in CALLS]
        for where, name in [*places, (fsio, "_renameat2"), (git, "run")]:
            call = _watched(getattr(where, name), name, before, after)
            patches.enter_context(mock.patch.object(where, name, call))
        connect = _watched_connect(before, after)
        patches.enter_context(mock.patch.object(sqlite3, "connect", connect))
        yield


def _watched_connect(
    before: Callable[[str], None], after: Callable[[str, Any], None]
) -> Callable[..., sqlite3.Connection]:
    """SQLite connections that report every commit of a change."""

    class Watched(sqlite3.Connection):
        _begun = ""

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            self._begun = sql if sql.startswith("BEGIN") else self._begun
            return self._reported(sql, lambda: super(Watched, self).execute(sql, *args))

        def executescript(self, script: str) -> sqlite3.Cursor:
            self._begun = "BEGIN IMMEDIATE"
            return self._reported("COMMIT", lambda: super(Watched, self).executescript(script))

        def _reported(self, sql: str, call: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
            if sql != "COMMIT" or self._begun != "BEGIN IMMEDIATE":
                return call()
            before("commit")
            result = call()
            after("commit", (sql,))
            return result

    return partial(sqlite3.connect, factory=Watched)


def _watched(
    call: Callable[..., Any],
    name: str,
    before: Callable[[str], None],
    after: Callable[[str, Any], None],
) -> Callable[..., Any]:
    def wrapped(*args: Any, **options: Any) -> Any:
        if name == "open" and not args[1] & WRITING:
            return call(*args, **options)
        before(name)
        result = call(*args, **options)
        after(name, args)
        return result

    return wrapped


def killed_at(number: int, work: Callable[[], object], *, after: bool) -> Outcome:
    """Do the work in a process that kills itself at its n-th changing call."""
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def nothing(*_: object) -> None: ...

    def doomed() -> object:
        with watched(nothing, count) if after else watched(count, nothing):
            return work()

    return in_child(doomed)


class Event(NamedTuple):
    """A sync of an inode, or a file that was placed under a name."""

    kind: str
    what: object


def traced(work: Callable[[], object]) -> list[Event]:
    """The syncs and renames that the work makes, in their order."""
    events: list[Event] = []

    def note(name: str, args: Sequence[Any]) -> None:
        if name == "fsync":
            events.append(Event("sync", os.fstat(args[0]).st_ino))
        elif name == "_renameat2":
            events.append(Event("place", args[3]))
        elif name in ("rename", "link"):
            events.append(Event("place", args[1]))

    def nothing(_: str) -> None: ...

    with watched(nothing, note):
        work()
    return events


def at_noon(work: Callable[[], object]) -> Callable[[], object]:
    """The same work at a time that never changes, so that two runs write the same bytes."""

    def stopped() -> object:
        with mock.patch("time.gmtime", return_value=NOON):
            return work()

    return stopped


def failing(call: str, number: int, code: int, work: Callable[[], object]) -> Callable[[], object]:
    """The same work on a disk that refuses the n-th call of one kind."""
    seen = 0

    def refuse(name: str) -> None:
        nonlocal seen
        if name == call:
            seen += 1
            if seen == number:
                raise OSError(code, os.strerror(code))

    def nothing(*_: object) -> None: ...

    def refused() -> object:
        with watched(refuse, nothing):
            return work()

    return refused


def open_bank(root: Path) -> App:
    """The app on one bank, whatever is set outside."""
    env = {"USER": "tester", "HOME": str(root.parent)}
    state = {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    return App(bank=str(root), cwd=str(root), env={**env, **state})


def new_bank(root: Path) -> App:
    app = open_bank(root)
    app.init()
    return open_bank(root)


def files(root: Path) -> Snapshot:
    """Every plain file below a directory and its bytes."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if stat.S_ISREG(path.lstat().st_mode)
    }


def memories(root: Path) -> Snapshot:
    """The memory files, whatever Retain thinks of them."""
    return {
        name: data
        for name, data in files(root).items()
        if name.endswith((".md", ".json")) and not name.startswith(".")
    }


def leftovers(root: Path) -> list[str]:
    """What a write must never leave behind."""
    return [
        name
        for name in files(root)
        if name.startswith((".trash/.new-", ".trash/.journal")) or ".tmp-" in name
    ]
