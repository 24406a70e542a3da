"""A chat as a door opens it: the bank, the sessions, the model and the tools, put together."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeVar

from retain.errors import Conflict, UsageError
from retain.fsio import Directory, saving
from retain.sessions.formats import as_json, as_jsonl, as_markdown
from retain.sessions.store import Sessions
from retain.talk import models
from retain.talk.conversation import Conversation, alone
from retain.talk.profile import Profile
from retain.talk.retention import Retention
from retain.talk.tools import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retain.app import App
    from retain.facts.known import One
    from retain.sessions.model import Session
    from retain.talk.models import Model
    from retain.talk.prompt import Prompt
    from retain.talk.retention import Saved
    from retain.talk.tools import Asker

__all__ = ["Chat"]

_Result = TypeVar("_Result")


class Chat:
    """Everything one person talks with, and the conversation they are in.

    `ask` puts a tool's question to the person; without it nothing that needs their word is done.
    """

    def __init__(
        self,
        app: App,
        *,
        ask: Asker | None = None,
        env: Mapping[str, str] | None = None,
        model: str = "",
    ) -> None:
        self.app = app
        self.env = os.environ if env is None else env
        self.turn = threading.RLock()
        self.sessions = Sessions(app.place.root, app.workspace.make)
        self.profile = Profile(app)
        self.toolbox = Toolbox(
            app,
            app.workspace.cwd,
            ask=ask,
            save=self._save_fact,
            is_quoted=self._is_quoted,
            turn=self.turn,
        )
        self._wanted = model
        self._model: Model | None = None
        self._conversation: Conversation | None = None
        self._resumed: Session | None = None  # what the conversation will go on with

    async def away(self, work: Callable[[], _Result]) -> _Result:
        """Do blocking work in a thread, alone with the App."""
        return await alone(self.turn, work)

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
                self.sessions,
                self.profile,
                self.model,
                self.toolbox,
                session=self._resumed,
                turn=self.turn,
            )
        return self._conversation

    def use(self, name: str) -> Model:
        """Talk to another model from now on, in the same conversation; blocking."""
        if not name.strip():
            raise UsageError("name a model", hint="`/model` lists those there are.")
        chosen = models.model(name, self.app.config, self.env)
        self._model, self._wanted = chosen, name
        if self._conversation:
            self._conversation.model = chosen
        if self.session:
            self.sessions.set_model(self.session.id, chosen.name)
        return chosen

    async def new(self) -> None:
        """End the conversation, with a summary, and begin another."""
        await self.leave()
        self._conversation = self._resumed = None

    async def resume(self, name: str) -> Session:
        """Go on with an earlier conversation; no model is needed before something is said."""
        session = await self.away(lambda: self.sessions.resolve(name))
        if self.session is None or self.session.id != session.id:
            await self.leave()
            self._conversation, self._resumed = None, session
        return session

    async def leave(self, seconds: float | None = None) -> None:
        """Leave a summary of the conversation behind, made within so many seconds."""
        if self._conversation is None:
            return
        if seconds is None:
            await self._conversation.close()
        else:
            await self._conversation.close(seconds)

    def close(self) -> None:
        """Let go of what was opened; every message is safe already."""
        with self.turn:
            self.sessions.close()
            self.app.close()

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
        formats = {".md": as_markdown, ".jsonl": as_jsonl}
        path = os.path.join(self.app.workspace.cwd, os.path.expanduser(path))
        text = formats.get(os.path.splitext(path)[1].lower(), as_json)(chat)
        folder, name = os.path.split(path)
        # Put there whole, and never over something that appears in the same moment.
        with saving(path):
            if os.path.isdir(path) or not os.path.isdir(folder):
                wrong = "is a directory" if os.path.isdir(path) else "is in no directory there is"
                raise UsageError(f"{path} {wrong}", hint="Name a file: /export FILE")
            with Directory.open(os.path.realpath(folder)) as there:
                if not there.place(name, text.encode("utf-8", "replace")):
                    raise Conflict(
                        f"{path} exists already", hint="Give it another name: /export FILE"
                    )
        return path

    @property
    def prompt(self) -> Prompt | None:
        """What the model was sent last."""
        return self._conversation.prompt if self._conversation else None

    def _is_quoted(self, fact: str) -> bool:
        return self.conversation.retention.told.is_quoted(fact)

    def _save_fact(self, fact: str, replaces: str) -> str:
        session = self.session.id if self.session else ""
        keep = self.conversation.retention.asked
        return keep(fact, replaces, session, by=self.conversation.model.name)
