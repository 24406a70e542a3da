"""The conversations that are open in one server, found again by every page that looks at them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from retain.errors import Conflict, LimitExceeded, NotFound, RetainError
from retain.facts.retraction import retract
from retain.httpd.logging import log_fault
from retain.memory import GLOBAL
from retain.web.bank_pool import HERE, BankPool
from retain.web.chat_session import ChatSession
from retain.web.rendering import address
from retain.web.wikilinks import Pages, find_targets, look_up

if TYPE_CHECKING:
    from retain.app import App
    from retain.web.live import Live


_MOST: Final = 32  # each has a bank open, and perhaps a model's connection
_MOST_PAGES: Final = 64  # that listen; fewer than the connections of a server
_LONG: Final = 30 * 60.0  # seconds nobody looks, after which a conversation is left
_SHORT: Final = 60.0  # the same where nothing was said
_TIDY_SECONDS: Final = 20.0
_SUMMARY_SECONDS: Final = 20.0
_LAST_SECONDS: Final = 4.0  # for all to be left when the server ends


class ChatRegistry:
    """Opens conversations, one for each session, and leaves those that nobody looks at."""

    def __init__(
        self,
        banks: BankPool,
        live: Live,
        *,
        long: float = _LONG,
        short: float = _SHORT,
        pause: float = _TIDY_SECONDS,
    ) -> None:
        self._banks, self._live = banks, live
        self._long, self._short, self._pause = long, short, pause
        self._open: dict[str, ChatSession] = {}
        self._opening = asyncio.Lock()
        self._tidying: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look after them from now on; called where the server's loop runs."""
        self._live.at_end.append(self._hush)
        self._tidying = asyncio.create_task(self._keep_tidy())

    async def open(self, session: str = "", scope: str = HERE, model: str = "") -> ChatSession:
        """A new conversation, or the one that goes on with a session, which may be open already."""
        async with self._opening:
            scope = await self._banks.settled(scope)
            # By its whole name: `latest`, or the beginning of an id, is not what an address has.
            if session and (found := self._at(scope, session)):
                found.script.touch()
                await found.catch_up()
                return found
            await self._make_room()
            talk = ChatSession(
                secrets.token_hex(8), scope, self.page_of, self._places, self._changed
            )
            await talk.begin(lambda: self._banks.another(scope), session, model)
            # The id may have been given by its beginning.
            known = self._at(scope, talk.session.id) if talk.session else None
            if known:
                await talk.leave(0)
                return known
            self._open[talk.name] = talk
            return talk

    def get(self, name: str) -> ChatSession:
        """A conversation that is open."""
        try:
            found = self._open[name]
        except KeyError:
            raise NotFound(
                "this conversation is not open any more",
                hint="Everything said is kept: resume it from the sessions.",
            ) from None
        found.script.touch()  # a program has no page that looks
        return found

    @property
    def is_full(self) -> bool:
        """Whether so many pages listen that one more would be at the cost of others."""
        return sum(talk.script.listeners for talk in self._open.values()) >= _MOST_PAGES

    def _at(self, scope: str, session: str) -> ChatSession | None:
        return next(
            (
                talk
                for talk in self._open.values()
                if talk.session and (talk.scope, talk.session.id) == (scope, session)
            ),
            None,
        )

    def page_of(self, app: App, ref: str) -> str:
        """The address of the memory that a conversation calls so."""
        is_own = ref.startswith(GLOBAL) or app.location.scope == "global"
        collection, _, name = ref.removeprefix(GLOBAL).rpartition("/")
        with self._banks.turn:
            scope = self._banks.scope_of("global" if is_own else app.location.scope)
        return address(scope, collection, name)

    def _places(self, app: App, texts: Sequence[str]) -> Pages:
        return look_up(app, self._banks, find_targets(texts))

    async def undo(self, scope: str, session: str, ref: str) -> list[str]:
        """Take back a fact that a chat saved; its pages hear of it if it is open."""
        scope = await self._banks.settled(scope)
        if talk := self._at(scope, session):
            return await talk.undo(ref)
        return await self._banks.use(lambda app: retract(app, session, ref), scope)

    async def renamed(self, scope: str, session: str) -> None:
        """Show a session's new title on the pages of its conversation, if it is open."""
        if talk := self._at(await self._banks.settled(scope), session):
            await talk.retitle()

    def _changed(self) -> None:
        self._live.tell("sessions", {})

    # Leaving

    async def let_go(self, scope: str, session: str) -> None:
        """Close the conversation that has a session open, which is about to be deleted."""
        talk = self._at(await self._banks.settled(scope), session)
        if talk and talk.is_busy:
            raise Conflict(
                f"a reply comes in {session}",
                unchanged="Nothing was deleted.",
                hint="Stop it first.",
            )
        if talk:
            await self._leave(talk, 0)

    async def _make_room(self) -> None:
        while len(self._open) >= _MOST:
            idle = [one for one in self._open.values() if not one.is_busy and one.alone_for()]
            if not idle:
                raise LimitExceeded(
                    f"{_MOST} conversations are open", hint="Close the pages of some of them."
                )
            await self._leave(max(idle, key=ChatSession.alone_for), 0)

    async def _keep_tidy(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            try:
                await self.tidy()
            except Exception as error:  # noqa: BLE001 - else nobody would look after them any more
                log_fault(error, "looking after conversations")

    async def tidy(self) -> None:
        """Leave the conversations that nobody has looked at for long."""
        for talk in list(self._open.values()):
            if not talk.is_busy and talk.alone_for() > (
                self._long if talk.session else self._short
            ):
                await self._leave(talk, _SUMMARY_SECONDS)

    async def _leave(self, talk: ChatSession, seconds: float) -> None:
        self._open.pop(talk.name, None)
        try:
            await talk.leave(seconds)
        except (RetainError, OSError):
            pass  # every message is on disk already
        except Exception as error:  # noqa: BLE001 - the others are to be left too
            log_fault(error, "leaving a conversation")

    def _hush(self) -> None:
        for talk in self._open.values():
            talk.script.end()

    async def close(self) -> None:
        """Leave every conversation, each with a plain summary; the server ends."""
        if self._tidying:
            self._tidying.cancel()
        leaving = [asyncio.create_task(self._leave(talk, 0)) for talk in self._open.values()]
        if leaving:
            await asyncio.wait(leaving, timeout=_LAST_SECONDS)
