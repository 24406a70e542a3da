"""One chat behind its screen: what is sent goes to the engine, what happens comes on the screen."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from textual.widget import Widget

from retain.chat import texts
from retain.chat.prose import Prose, Stream
from retain.chat.widgets import Note, Offer, Person, Tool
from retain.errors import RetainError
from retain.talk import blocks, models
from retain.talk.commands import Commands, completions, is_command, named, parted, told
from retain.talk.events import (
    Assembled,
    Finished,
    MemorySaved,
    Notice,
    Retrying,
    Text,
    TextDelta,
    Thinking,
    Thought,
    ToolDone,
    ToolResult,
    ToolStarted,
    ToolUse,
    Usage,
)
from retain.talk.models.access import key_file, key_variable
from retain.talk.models.errors import ModelError
from retain.talk.tools import summary
from retain.text.memory_tags import hide_tags
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.chat.screen import Terminal
    from retain.sessions.model import Message, Session
    from retain.talk.chat import Chat


_SHOWN: Final = 60  # messages of a conversation that is taken up again
_REMEMBERED: Final = 20  # sessions whose messages the arrow keys go through
_WAITING: Final = "waiting for the model"


class ChatController:
    """The chat, and what the screen knows of it."""

    def __init__(self, screen: Terminal, chat: Chat) -> None:
        self.screen, self.chat = screen, chat
        self.commands = Commands(chat)
        self._title = ""
        self._recent: Sequence[Session] = ()
        self._known = models.known(chat.app.config)

    # Beginning

    async def begin(self, resume: str) -> None:
        """Say where this is, take up what is to be resumed, and what is wrong with the model."""
        place = self.chat.app.location
        where = f"{place.scope} bank {_home_shortened(place.root)}"
        self.screen.query_one(Note).update(texts.welcome(where))
        await self._set_up()
        if resume:
            try:
                session = await self.chat.resume(resume)
                await self.screen.begin_with(await self._taken_up(session))
            except RetainError as error:
                await self.screen.note(texts.error(error), "error")

    async def _set_up(self) -> None:
        """Say at the end of the conversation what the model lacks, and no longer above."""
        await self.screen.query(".-setup").remove()
        try:
            _ = self.chat.model
        except ModelError as error:
            await self.screen.add(Prose(self._setup(error), classes="-setup"))

    def _setup(self, error: ModelError) -> str:
        if error.kind != "no_key":
            return texts.error(error)
        name, config = self.chat.model_name, self.chat.app.config
        variable = key_variable(models.provider(name, config), config)
        file = key_file(self.chat.env)
        return texts.setup(error.message, name, variable, file)

    async def warm_up(self) -> None:
        """Load what the first reply needs, while the person still types."""
        # At once, and not after the rest: nothing else takes as long.
        loading = asyncio.ensure_future(self._prepared())
        said = await asyncio.to_thread(self._earlier)
        self.screen.entry.earlier.load(said)
        await loading

    async def _prepared(self) -> None:
        with contextlib.suppress(RetainError):
            await self.chat.model.prepare()

    def _earlier(self) -> list[str]:
        """What the person said in earlier conversations, the oldest first.

        Any thread may read them, so the first message need not wait for this.
        """
        with contextlib.suppress(RetainError):
            self._recent = self.chat.sessions.list(_REMEMBERED)
            return earlier(self.chat, self._recent)
        return []

    # Sending

    async def exchange(self, text: str) -> None:
        """Do what was sent: a command, or something said to the model."""
        if is_command(text):
            await self._command(text)
        else:
            await self._said(text)

    async def _command(self, line: str) -> None:
        self.screen.do(parted(line)[0])
        shown = await self.commands.run(line)
        if shown.action == "quit":
            self.screen.leave()
            return
        if shown.action == "new":
            self._title = ""
            await self.screen.begin_anew()
        elif shown.action == "resumed" and self.chat.session:
            await self.screen.begin_anew(await self._taken_up(self.chat.session))
        elif shown.action == "titled":
            await asyncio.to_thread(self._retitle)
        if shown.is_error:
            await self.screen.note(f"✗ {shown.text}", "error")
        elif shown.text:
            await self.screen.add(Prose(shown.text))

    async def _taken_up(self, session: Session) -> list[Widget]:
        messages = await asyncio.to_thread(self.chat.sessions.messages, session.id)
        self._title = session.title
        return _pieces(messages)

    async def _said(self, text: str) -> None:
        self.screen.do(_WAITING)
        await self._set_up()
        reply = _Reply(self.screen)
        try:
            async with contextlib.aclosing(self.chat.conversation.send(text)) as happenings:
                async for one in happenings:
                    await reply.show(one)
                    if isinstance(one, Assembled | Usage):
                        self.screen.say_status()
        finally:
            await reply.end()
            await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(self._retitle)))

    def _retitle(self) -> None:
        with contextlib.suppress(RetainError):
            if session := self.chat.session:
                self._title = self.chat.sessions.get(session.id).title
                self._recent = self.chat.sessions.list(_REMEMBERED)

    # What the screen asks

    @staticmethod
    def ends(text: str) -> bool:
        """Whether a text asks to leave."""
        return named(text) == "quit"

    def status(self) -> list[str]:
        """How things are, what matters most first."""
        parts = [flat(self.chat.model_name, 40)]
        prompt = self.chat.prompt
        if prompt:
            used = max(prompt.tokens, self.chat.conversation.spent.input)
            parts.append(f"{texts.amount(used)}/{texts.amount(prompt.budget)} tokens")
            parts.append(f"◇ {prompt.recalled}")
            if prompt.unsent:
                parts.append(f"{prompt.unsent} older not sent")
        if self._title:
            parts.append(flat(self._title, 50))
        return parts

    def offers(self, text: str) -> list[Offer]:
        """What a line that begins with a slash may become."""
        if not text.startswith("/") or "\n" in text:
            return []
        word, rest = parted(text)
        if text == word:
            return [
                Offer(
                    f"/{one.name}" if _needs_nothing(one.takes) else f"/{one.name} ",
                    one.usage,
                    one.about,
                    _needs_nothing(one.takes),
                )
                for one in completions(word)
            ]
        return [one for one in self._arguments(word, rest) if one.line != text]

    def _arguments(self, word: str, rest: str) -> list[Offer]:
        if word == "/model":
            names = [name for name in self._known if name.startswith(rest)]
            return [Offer(f"/model {name}", name, "") for name in names]
        if word == "/resume":
            return [
                Offer(f"/resume {one.id}", one.id, f"{one.updated_at[:10]}  {one.title}")
                for one in self._recent
                if one.id.startswith(rest) or rest.casefold() in one.title.casefold()
            ]
        return []


class _Reply:
    """What comes of one message, piece by piece."""

    def __init__(self, screen: Terminal) -> None:
        self._screen = screen
        self._stream: Stream | None = None
        self._tools: dict[str, Tool] = {}
        self._is_recalled = False
        self._table: Mapping[type, Callable[[Any], Awaitable[None]]] = {
            Assembled: self._assembled,
            TextDelta: self._text,
            Thinking: self._thinking,
            Retrying: self._retrying,
            ToolStarted: self._started,
            ToolDone: self._done,
            Finished: self._finished,
            MemorySaved: self._saved,
            Notice: self._notice,
        }

    async def show(self, happening: object) -> None:
        """Put what happened on the screen, where it shows at all."""
        shows = self._table.get(type(happening))
        if shows:
            await shows(happening)

    async def end(self) -> None:
        """Show the last of the text."""
        if self._stream:
            stream, self._stream = self._stream, None
            await stream.stop()

    async def _assembled(self, one: Assembled) -> None:
        if one.prompt.recalled and not self._is_recalled:
            self._is_recalled = True
            await self._screen.note(texts.recalled(one.prompt.recalled))

    async def _text(self, one: TextDelta) -> None:
        await self._write(texts.inert(one.text))

    async def _write(self, text: str) -> None:
        if self._stream is None:
            if not text.strip():
                return
            prose = Prose()
            await self._screen.add(prose)
            self._stream = Stream(prose)
            self._screen.do("answering")
        self._stream.write(text)

    async def _thinking(self, _: Thinking) -> None:
        self._screen.do("thinking")

    async def _retrying(self, one: Retrying) -> None:
        await self._screen.note(texts.retrying(one))

    async def _started(self, one: ToolStarted) -> None:
        await self.end()
        self._screen.do("using a tool")
        tool = self._tools[one.call.id] = Tool(one.summary)
        await self._screen.add(tool)

    async def _done(self, one: ToolDone) -> None:
        self._tools[one.call.id].done(
            one.result.text, is_error=one.result.is_error, seconds=one.seconds
        )
        self._screen.do(_WAITING)

    async def _finished(self, one: Finished) -> None:
        await self.end()
        if line := texts.finished(one):
            await self._screen.note(line, "warning")

    async def _saved(self, one: MemorySaved) -> None:
        await self._screen.note(told(one.saved), "memory" if one.saved.ref else "warning")

    async def _notice(self, one: Notice) -> None:
        await self._screen.note(flat(one.text))


# Earlier conversations


def earlier(chat: Chat, sessions: Sequence[Session]) -> list[str]:
    """What the person said in these sessions, the oldest first; blocking."""
    return [
        message.content
        for session in reversed(sessions)
        for message in chat.sessions.messages(session.id)
        if message.role == "user" and message.content
    ]


def _pieces(messages: Sequence[Message]) -> list[Widget]:
    """A conversation as it looked; of a long one, its end."""
    pieces: list[Widget] = []
    if len(messages) > _SHOWN:
        pieces.append(Note(f"… {len(messages) - _SHOWN:,} earlier messages"))
    tools: dict[str, Tool] = {}
    for message in messages[-_SHOWN:]:
        if message.role == "user" and message.content:
            pieces.append(Person(message.content))
            continue
        for block in blocks.turn(message).blocks:
            pieces += _piece(block, tools)
    return pieces


def _piece(block: Text | ToolUse | ToolResult | Thought, tools: dict[str, Tool]) -> list[Widget]:
    if isinstance(block, Text):
        text = texts.inert(hide_tags(block.text))
        return [Prose(text)] if text.strip() else []
    if isinstance(block, ToolUse):
        tools[block.id] = Tool(summary(block.name, block.input))
        return [tools[block.id]]
    if isinstance(block, ToolResult) and block.id in tools:
        tools[block.id].done(block.text, is_error=block.is_error)
    return []


def _needs_nothing(takes: str) -> bool:
    return not takes or takes.startswith("[")


def _home_shortened(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
