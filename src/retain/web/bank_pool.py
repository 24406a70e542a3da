"""The banks behind the pages: the one in force and the person's own, used by one call at a time."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio.to_thread

from retain.errors import NotFound, RetainError
from retain.httpd.logging import log_fault
from retain.index.sync import Changes
from retain.locate import from_home

if TYPE_CHECKING:
    from retain.app import App


HERE: Final = "here"  # the bank in force
OWN: Final = "global"  # the person's own, where a project's is in force

Scope = Literal["here", "global"]

_Result = TypeVar("_Result")


class BankPool:
    """Opens banks when they are first asked for; every use has a thread, and the bank's turn.

    `open_app` opens the bank in force, or with True the person's own.
    """

    def __init__(self, open_app: Callable[[bool], App]) -> None:
        self._open = open_app
        self._apps: dict[str, App] = {}
        self.turn = threading.RLock()
        self.ended = threading.Event()
        self._where = ""
        self._limit: anyio.CapacityLimiter | None = None

    async def use(self, work: Callable[[App], _Result], scope: str = HERE) -> _Result:
        """Do something with a bank, on a thread."""
        self._limit = self._limit or anyio.CapacityLimiter(8)
        return await anyio.to_thread.run_sync(
            partial(self.at_once, work, scope), limiter=self._limit
        )

    def at_once(self, work: Callable[[App], _Result], scope: str = HERE) -> _Result:
        """The same for who has a thread already."""
        with self.turn:
            return work(self.app(scope))

    def app(self, scope: str = HERE) -> App:
        """A bank's app, opened if it is not yet; only for who has the turn."""
        if self.ended.is_set():
            raise RetainError("Retain is about to end", unchanged="Nothing was changed.")
        if scope not in (HERE, OWN):  # it comes from an address, where anything may stand
            raise NotFound(f"there is no bank {scope[:40]!r}", hint=f"It is {HERE} or {OWN}.")
        if scope not in self._apps:
            app = self._own() if scope == OWN else self._open(False)
            if app not in self._apps.values():
                app.start_worker(partial(log_fault, doing="making vectors"))
            self._apps[scope] = app
        return self._apps[scope]

    def _own(self) -> App:
        """The person's own bank, where it is shown: a bank that was asked for is shown alone."""
        here = self.app()
        if here.location.root == here.global_location.root:
            return here  # both are one bank: it is opened once
        if OWN not in self.scopes:
            raise NotFound("your own bank is not shown here", hint="retain web --global shows it.")
        return self._open(True)

    def another(self, scope: str = HERE) -> App:
        """One more opening of a bank, for who has it for itself and closes it; blocking."""
        with self.turn:
            self.app(scope)  # or why there is none
        return self._open(scope == OWN)

    @property
    def where(self) -> str:
        """The bank in force, as people call it; every page says it, so it waits for no turn."""
        if not self._where:
            with self.turn:
                self._where = from_home(self.app().location.root, os.environ.get("HOME", ""))
        return self._where

    def scope_of(self, shown: str) -> Scope:
        """Which of the two banks has a memory of this scope, as listings and hits call it."""
        return OWN if shown == "global" and self.app().location.scope != "global" else HERE

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The banks there are, the one in force first."""
        here = self.app()
        is_alone = here.is_alone
        return (HERE,) if is_alone else (HERE, OWN)

    @property
    def is_one(self) -> bool:
        """Whether there is one bank alone."""
        with self.turn:
            return len(self.scopes) == 1

    async def settled(self, scope: str) -> str:
        """The one name of a bank: where one bank has both, it is called the bank in force."""
        if scope != OWN:
            return scope
        return HERE if await self.use(lambda own: own is self.app(), OWN) else OWN

    def roots(self) -> list[str]:
        """Where the banks are, the one in force first."""
        with self.turn:
            return [self.app(scope).location.root for scope in self.scopes]

    def chats(self) -> str:
        """Return the file that the chats are in."""
        with self.turn:
            return self.app(self.scopes[0]).sessions.path

    def changes(self, scope: str = HERE) -> Iterator[Changes]:
        """What happens to the files of a bank, whoever indexes them, until the end."""
        while not self.ended.is_set():
            try:
                with self.turn:
                    watching = self.app(scope).watch(self.ended, all_events=True)
                yield from watching
            except NotFound:  # the bank is made with the first memory
                self.ended.wait(1)
            except RetainError:
                self.ended.wait(5)

    def close(self) -> None:
        """Let go of the banks; every file is safe already."""
        self.ended.set()
        with self.turn, contextlib.ExitStack() as stack:
            for app in {id(one): one for one in self._apps.values()}.values():
                stack.callback(app.close)
            self._apps.clear()
