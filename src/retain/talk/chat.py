"""A chat as a door opens it: the bank, the sessions, the model and the tools, put together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from retain.errors import Busy, NotFound, RetainError, UsageError
from retain.sessions.files import export
from retain.talk import models
from retain.talk.conversation import Conversation
from retain.talk.events import Notice, notice
from retain.talk.models.errors import ModelError
from retain.talk.profile import Profile
from retain.talk.retention import Retention
from retain.talk.summaries import SUMMARY_SECONDS
from retain.talk.threads import run_alone, run_locked
from retain.talk.tools import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retain.app import App
    from retain.facts.known import One
    from retain.sessions.model import Session
    from retain.sessions.store import Sessions
    from retain.talk.models import Model
    from retain.talk.prompt import Prompt
    from retain.talk.retention import Saved
    from retain.talk.tools import Asker


_CLOSE_SECONDS: Final = 3.0

_Result = TypeVar("_Result")


class Chat:
    """Everything one person talks with, and the conversation they are in.

    `ask` puts a tool's question to the person; without it nothing that needs their word is done.
    With `is_question`, what is said is listed apart from conversations.
    """

    def __init__(
        self,
        app: App,
        *,
        ask: Asker | None = None,
        env: Mapping[str, str] | None = None,
        model: str = "",
        is_question: bool = False,
    ) -> None:
        self.app = app
        self._is_question = is_question
        self.env = os.environ if env is None else env
        self.turn = threading.RLock()
        self.profile = Profile(app)
        self.toolbox = Toolbox(
            app,
            app.cwd,
            ask=ask,
            save=self._save_fact,
            is_doubtful=self._is_doubtful,
            turn=self.turn,
        )
        self._wanted = model
        self._is_given = bool(model)
        self._model: Model | None = None
        self._conversation: Conversation | None = None
        self._resumed: Session | None = None  # what the conversation will go on with
        self._notices: list[Notice] = []  # which it will begin with
        # Conversations that were left, while their summaries are made.
        self._behind: dict[asyncio.Task[None], Conversation] = {}

    async def away(self, work: Callable[[], _Result]) -> _Result:
        """Do blocking work in a thread, alone with the App."""
        return await run_alone(self.turn, work)

    @property
    def sessions(self) -> Sessions:
        """The conversations of the bank in force."""
        return self.app.sessions

    @property
    def model_name(self) -> str:
        """The model that is talked to, or would be."""
        if self._model:
            return self._model.name
        return self._wanted or self.app.config.text("chat.model")

    @property
    def model(self) -> Model:
        """The model that is talked to; a ModelError says how to set one where none can be."""
        if self._model is None:
            self._model = models.model(self._wanted, self.app.config, self.env)
        return self._model

    @property
    def session(self) -> Session | None:
        """The session that the conversation is kept in, once something was said."""
        return self._conversation.session if self._conversation else self._resumed

    @property
    def conversation(self) -> Conversation:
        """The conversation, begun when something is said; it needs a model."""
        if self._conversation is None:
            self._conversation = Conversation(
                self.app,
                self.profile,
                self.model,
                self.toolbox,
                session=self._resumed,
                turn=self.turn,
                untold=self._notices,
                is_question=self._is_question,
            )
        return self._conversation

    def use(self, name: str) -> Model:
        """Talk to another model from now on, in the same conversation; blocking."""
        if not name.strip():
            raise UsageError("name a model", hint="`/model` lists those there are.")
        chosen = models.model(name, self.app.config, self.env)
        if self.session:
            with contextlib.suppress(NotFound):  # another window has deleted it; there is a next
                self.sessions.set_model(self.session.id, models.full_name(chosen))
        self._model, self._wanted = chosen, name
        if self._conversation:
            self._conversation.model = chosen
        return chosen

    async def new(self) -> None:
        """Begin another conversation; a summary of this one is made behind."""
        before = self._conversation
        self._conversation = self._resumed = None
        self._notices = []
        if not self._is_given:
            self._model = None  # the one that a resumed conversation had was its own
        self._leave_behind(before)

    async def resume(self, name: str) -> Session:
        """Go on with an earlier conversation and its model; none is needed before it is asked."""
        session = await self.away(lambda: self._meant(name))
        if self.session is None or self.session.id != session.id:
            before = self._conversation
            self._conversation, self._resumed = None, session
            self._notices = []
            if session.model and not self._is_given:
                await self.away(lambda: self._take_model(session.model))
            self._leave_behind(before)
        return session

    def _meant(self, name: str) -> Session:
        """The conversation of a name."""
        return self.sessions.resolve(name)

    def _take_model(self, name: str) -> None:
        """Talk to the model that a conversation had; where it cannot be, to the one that is set."""
        self._model = None
        config = self.app.config
        meant = models.parted(name, config)
        if meant == models.parted(self.model_name.strip(), config):
            return
        try:
            self._model = models.model(name, config, self.env)
        except ModelError as error:
            said = f"This conversation was with {meant[1]}, which cannot be used now"
            self._notices = [notice(f"{said}: {error.message}. It goes on with another.")]

    def _leave_behind(self, before: Conversation | None) -> None:
        """Have a conversation summarised while the next one is already there."""
        if before:
            task = asyncio.create_task(before.close())
            self._behind[task] = before
            task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._behind.pop(task, None)
        if not task.cancelled():
            task.exception()  # looked at: every message is safe, and nobody waits for more

    async def leave(self, seconds: float = SUMMARY_SECONDS) -> None:
        """Leave a summary of the conversation behind, made within so many seconds."""
        behind = dict(self._behind)
        for before in behind.values():
            with contextlib.suppress(RetainError):
                await before.leave_plainly()
        waiting = asyncio.wait(behind, timeout=max(seconds, 0)) if behind else asyncio.sleep(0)
        close = self._conversation.close(seconds) if self._conversation else asyncio.sleep(0)
        await asyncio.gather(close, waiting)
        for task in behind:
            task.cancel()
        if behind:
            await asyncio.wait(behind)

    def close(self) -> None:
        """Let go of what was opened; every message is safe already."""
        with contextlib.suppress(Busy):  # by a tool that hangs; it ends with the program
            run_locked(self.turn, _CLOSE_SECONDS, self.app.close)

    # Facts, blocking

    def facts(self, words: str = "") -> list[tuple[str, str]]:
        """The facts in force as references and texts; those with all of some words."""
        return [(one.refs[0], one.text) for one in self.profile.facts.present(words)]

    def forget(self, words: str) -> One:
        """Move the one fact to the trash that words or an id mean."""
        one = self.profile.facts.meant(words)
        self.profile.facts.forget(one)
        for ref in one.refs:
            self.sessions.forget(ref)
        return one

    def keep(self, facts: Sequence[str]) -> list[Saved]:
        """Keep facts that the person states themselves."""
        session = self.session.id if self.session else ""
        return Retention(self.app, self.sessions).save(facts, session)

    def export(self, path: str) -> str:
        """Write the conversation to a new file: Markdown, JSON lines or JSON, by its ending."""
        assert self.session  # noqa: S101 - whoever calls has looked
        chat = self.sessions.chat(self.session.id)
        path = os.path.join(self.app.cwd, os.path.expanduser(path))
        export(path, chat)
        return path

    @property
    def prompt(self) -> Prompt | None:
        """What the model was sent last."""
        return self._conversation.prompt if self._conversation else None

    def _is_doubtful(self, fact: str, replaces: str) -> bool:
        return self.conversation.retention.is_doubtful(fact, replaces)

    def _save_fact(self, fact: str, replaces: str) -> str:
        session = self.session.id if self.session else ""
        keep = self.conversation.retention.asked
        return keep(fact, replaces, session, by=self.conversation.model.name)
