"""One conversation in the browser: what is sent goes to the engine, what happens to its pages.

It goes on whether a page looks or not; any number of pages may look at it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from retain.errors import Busy, Conflict, LimitExceeded, NotFound, RetainError, UsageError
from retain.facts.retraction import kept, retract
from retain.httpd.logging import log_fault
from retain.talk import models
from retain.talk.approval import Answer, Choice, Question, choices
from retain.talk.chat import Chat
from retain.talk.commands import Commands, Shown, is_command, named
from retain.talk.events import (
    Assembled,
    Finished,
    MemorySaved,
    Notice,
    Retrying,
    TextDelta,
    Thinking,
    ToolDone,
    ToolStarted,
    Usage,
)
from retain.talk.models.access import LOCAL, key_file, key_variable
from retain.talk.models.errors import ModelError
from retain.text.sanitize import flat
from retain.web import message_view
from retain.web.event_log import EventLog
from retain.web.stream import Stream
from retain.web.wikilinks import Pages, resolver

if TYPE_CHECKING:
    from retain.app import App
    from retain.sessions.model import Message, Session
    from retain.web.markdown import Resolve


_SHOWN: Final = 60  # messages of a conversation that is taken up again
_MOST_QUEUED: Final = 20
_MOST_WAITING: Final = 1_000_000  # characters of all that wait, which every page is told
_WAITING: Final = "Waiting for the model"
_ENDINGS: Final = {
    "length": "The reply was cut: it reached its greatest length (chat.max_tokens).",
    "refused": "The model declined to answer. Say it in other words, or choose another model.",
}
_SETUP: Final = """\
### There is no model to talk to yet

{message}. To talk to `{model}`, do one of these:

- Write `{variable}=...` into `{file}`, readable by you alone (`chmod 600`), and reload this page.
- Or set `{variable}` in the environment and start `retain web` again.

{local}

Without a model these work: `/search`, `/memories`, `/remember`, `/sessions`, `/help`.
"""


_Result = TypeVar("_Result")


class _Asked(NamedTuple):
    """A question that waits for the person's answer."""

    piece: str
    choices: list[Choice]
    answer: asyncio.Future[Answer]


class ChatSession:
    """A conversation that is open; everything here is called in the server's loop.

    `page_of` gives the address of the memory that a reference names, `places` those of what texts
    link to, and `changed` is called when what lists of conversations show may have changed.
    """

    def __init__(
        self,
        name: str,
        scope: str,
        page_of: Callable[[App, str], str],
        places: Callable[[App, Sequence[str]], Pages],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.scope = name, scope
        self.script = EventLog()
        self._page_of, self._places, self._changed = page_of, places, changed
        self._queue: list[str] = []
        self._retry = ""  # what failed last, and is offered to be sent again
        self._task: asyncio.Task[Any] | None = None  # the one thing that goes on
        self._warm: asyncio.Task[None] | None = None
        self._is_left = False
        self._catching_up = asyncio.Lock()
        self._asked: _Asked | None = None
        self._saved: dict[str, str] = {}  # facts that can be taken back: by reference, the piece
        self._doing = ""
        self._title = ""
        self._last = 0  # the number of the last message that the pages know of
        self._growing = Stream(self.script, self.laid_out)
        self._tools: dict[str, str] = {}  # the pieces of tools that run
        self._table: Mapping[type, Callable[[Any], Awaitable[None]]] = {
            Assembled: self._on_assembled,
            TextDelta: self._on_text,
            Thinking: self._on_thinking,
            Retrying: self._on_retrying,
            ToolStarted: self._on_started,
            ToolDone: self._on_done,
            Finished: self._on_finished,
            MemorySaved: self._on_saved,
            Notice: self._on_notice,
            Usage: self._on_usage,
        }
        self.chat: Chat
        self._commands: Commands

    # Beginning and ending

    async def begin(self, open_app: Callable[[], App], session: str = "", model: str = "") -> None:
        """Open the bank, take up what is to be resumed, and say what is wrong with the model."""
        app = await asyncio.to_thread(open_app)
        self.chat = Chat(app, ask=self._ask, model=model)
        self._commands = Commands(self.chat)
        try:
            if session:
                await self._resume(session)
            await self._look_for_model()
        except BaseException:
            self.chat.close()
            raise
        self._say_state()
        self._warm = asyncio.create_task(self._warm_up())

    async def _look_for_model(self) -> None:
        try:
            await self.chat.away(lambda: self.chat.model)
        except ModelError as error:
            html = await asyncio.to_thread(message_view.laid_out, self._setup(error))
            self.script.say("setup", self.script.piece(), html=html)

    def _setup(self, error: ModelError) -> str:
        if error.kind != "no_key":
            return f"{_sentence(error)}"
        name, config = self.chat.model_name, self.chat.app.config
        return _SETUP.format(
            message=flat(error.message[:1].upper() + error.message[1:]),
            model=flat(name, 60),
            variable=flat(key_variable(models.provider(name, config), config), 60),
            file=key_file(self.chat.env),
            local=LOCAL,
        )

    async def _warm_up(self) -> None:
        """Load what the first reply needs, while the person still types."""
        try:
            await self.chat.model.prepare()
        except RetainError:
            pass  # whoever says something is told
        except Exception as error:  # noqa: BLE001 - nobody waits for this
            log_fault(error, "getting a model ready")

    async def _resume(self, name: str) -> None:
        session = await self.chat.resume(name)
        messages = await self.chat.away(lambda: self.chat.sessions.messages(session.id))
        self._title = session.title
        self._last = messages[-1].id if messages else 0
        if len(messages) > _SHOWN:
            self.script.say("earlier", self.script.piece(), count=len(messages) - _SHOWN)
        facts = await self.chat.away(lambda: self._kept(session.id))
        for one in await self._pieces(messages[-_SHOWN:], facts):
            data = {key: value for key, value in one.items() if key != "kind"}
            piece = self.script.piece()
            if one["kind"] == "memory":
                self._saved[one["ref"]] = piece
            self.script.say(one["kind"], piece, **data)

    async def catch_up(self) -> None:
        """Show what was said elsewhere since, by a terminal that went on with the same chat."""
        # One at a time, and whoever sends something comes through here: so nothing that is said
        # meanwhile is taken for something from elsewhere, or shown before it.
        async with self._catching_up:
            if self.is_busy:
                return
            with contextlib.suppress(RetainError):
                news = await self._news()
                for one in await self._pieces(news):
                    data = {key: value for key, value in one.items() if key != "kind"}
                    self.script.say(one["kind"], self.script.piece(), **data)

    async def _news(self) -> list[Message]:
        """The messages that no page knows of yet; from now on they do."""
        if (session := self.session) is None:
            return []
        every = await self.chat.away(lambda: self.chat.sessions.messages(session.id))
        found = [one for one in every if one.id > self._last]
        self._last = every[-1].id if every else self._last
        return found

    async def _pieces(
        self, messages: Sequence[Message], facts: Sequence[message_view.Piece] = ()
    ) -> list[message_view.Piece]:
        found = await asyncio.to_thread(message_view.outlined, messages, facts)
        resolve = await self._looked_up(message_view.texts(found))
        return await asyncio.to_thread(message_view.dressed, found, resolve)

    async def laid_out(self, text: str) -> str:
        """A text of this conversation as HTML, in which links lead to the memories they name."""
        resolve = await self._looked_up([text])
        return await asyncio.to_thread(message_view.laid_out, text, resolve)

    async def _looked_up(self, texts: Sequence[str]) -> Resolve:
        found: Pages = {}
        if any("[[" in text for text in texts):
            with contextlib.suppress(RetainError):  # nobody misses a reply for a link in it
                found = await self.chat.away(lambda: self._places(self.chat.app, texts))
        return resolver(found)

    def _kept(self, session: str) -> list[message_view.Piece]:
        """The facts that were saved here before, each with the page that shows it; blocking."""
        app = self.chat.app
        return [
            message_view.fact_piece(one, self._page_of(app, one.ref)) for one in kept(app, session)
        ]

    async def leave(self, seconds: float) -> None:
        """Stop what goes on, leave a summary behind, and let go of everything."""
        self._is_left = True
        self._queue.clear()
        try:
            if self._warm:
                self._warm.cancel()
            if self._task:
                self._task.cancel()
                await asyncio.wait({self._task})
            # Every message is on disk already; a summary that fails keeps nobody here.
            with contextlib.suppress(RetainError, OSError):
                await self.chat.leave(seconds)
        finally:
            self.script.end()
            await asyncio.to_thread(self.chat.close)
            self._changed()

    # How things are

    @property
    def session(self) -> Session | None:
        """The session it is kept in, once something was said."""
        return self.chat.session

    @property
    def is_busy(self) -> bool:
        """Whether something goes on."""
        return self._task is not None

    def alone_for(self) -> float:
        """Seconds since a page last looked; none while one does."""
        return 0.0 if self.script.listeners else time.monotonic() - self.script.alone_since

    def state(self) -> dict[str, Any]:
        """What is around the conversation on a page."""
        prompt = self.chat.prompt
        used = max(prompt.tokens, self.chat.conversation.spent.input) if prompt else 0
        return {
            "doing": self._doing,
            "queued": list(self._queue),
            "session": self.session.id if self.session else "",
            "scope": self.scope,
            "title": flat(self._title, 200),
            "model": flat(self.chat.model_name, 100),
            "tokens": used,
            "budget": prompt.budget if prompt else 0,
            "recalled": prompt.recalled if prompt else 0,
        }

    def _say_state(self) -> None:
        self.script.say("state", "state", covers=("state",), **self.state())

    def _do(self, what: str) -> None:
        if what != self._doing:
            self._doing = what
            self._say_state()

    def _note(self, text: str, tone: str = "dim", **more: Any) -> None:
        self.script.say("note", self.script.piece(), text=flat(text, 2_000), tone=tone, **more)

    # Sending

    def send(self, text: str) -> None:
        """Do what was sent, or queue it behind what goes on.

        What failed and is sent again comes before what waits, which was said after it.
        """
        self._must_be_open()
        if not text.strip():
            raise UsageError("there is nothing to send")
        waiting = len(self._queue)
        if waiting >= _MOST_QUEUED or sum(map(len, (text, *self._queue))) > _MOST_WAITING:
            raise LimitExceeded(f"{waiting} messages wait already", unchanged="It was not sent.")
        at = 0 if text.strip() == self._retry else waiting
        self._queue.insert(at, text.strip())
        if self._task is None:
            self._begin(self._converse(), _WAITING)
        self._say_state()

    def _must_be_open(self) -> None:
        if self._is_left:
            raise NotFound(
                "this conversation is not open any more",
                hint="Everything said is kept: resume it from the sessions.",
            )

    def _begin(self, work: Coroutine[Any, Any, _Result], doing: str) -> asyncio.Task[_Result]:
        """Do the one thing that goes on; whatever is sent meanwhile waits for its end."""
        self._doing = doing
        task = asyncio.create_task(work)
        self._task = task
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Let the next one begin.

        A task that is stopped before its first step runs nothing of its own, not even what it
        would do at the end: so this is seen to from outside.
        """
        if self._task is task:
            self._rest()
            if self._queue and not self._is_left:
                self._begin(self._converse(), _WAITING)
                self._say_state()

    def _rest(self) -> None:
        self._task = None
        self._doing = ""
        self.script.touch()
        self._say_state()
        self._changed()

    async def _converse(self) -> None:
        """Do one thing after the other; what fails ends it, and what waits goes on waiting."""
        try:
            while self._queue and await self._exchange(self._queue.pop(0)):
                pass
        finally:
            self._rest()

    async def _exchange(self, text: str) -> bool:
        self._retry = ""
        self.script.say("person", self.script.piece(), text=message_view.inert(text))
        try:
            await (self._command(text) if is_command(text) else self._said(text))
        except asyncio.CancelledError:
            self._stopped()
            return True  # nothing waits then but what was sent after the stop
        except RetainError as error:
            self._failed(_sentence(error), text)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the conversation
            log_fault(error, "answering in a conversation")
            name = type(error).__name__
            self._failed(f"Something went wrong in Retain itself ({name}).", text)
        else:
            return True
        return False

    def _failed(self, said: str, text: str) -> None:
        """Say what went wrong; only what failed last is offered to be sent again."""
        self._retry = text
        self.script.withdraw("retry")
        self._note(said, "error", retry=text)

    async def _command(self, line: str) -> None:
        self._do(line.split(maxsplit=1)[0])
        shown = await self._ran(line)
        if shown.is_error:
            self._note(shown.text, "error")
        elif shown.text:
            html = await self.laid_out(shown.text)
            self.script.say("answer", self.script.piece(), html=html)

    async def command(self, line: str) -> Shown:
        """Do a command at once, for a program; not while something else goes on."""
        self._must_be_open()
        if not is_command(line):
            raise UsageError("that is no command", hint="Commands begin with a slash: /help")
        if named(line) in ("new", "resume", "quit"):
            raise UsageError("that opens another conversation", hint="POST /chats does that.")
        if self.is_busy:
            raise Busy("a reply comes", unchanged="Nothing was done.", hint="Stop it, or wait.")
        task = self._begin(self._ran(line), line.split(maxsplit=1)[0])
        self._say_state()
        await asyncio.wait({task})
        if task.cancelled():
            raise Conflict("the command was stopped", hint="Some of it may be done.")
        return task.result()

    async def _ran(self, line: str) -> Shown:
        shown = await self._commands.run(line)
        if shown.action == "titled":
            await self.retitle()
        return shown

    async def _said(self, text: str) -> None:
        self._do(_WAITING)
        try:
            async with contextlib.aclosing(self.chat.conversation.send(text)) as happenings:
                async for one in happenings:
                    if shows := self._table.get(type(one)):
                        await shows(one)
        finally:
            await asyncio.shield(asyncio.ensure_future(self._growing.end()))
            await asyncio.shield(asyncio.ensure_future(self.retitle()))
            with contextlib.suppress(RetainError):
                await asyncio.shield(asyncio.ensure_future(self._news()))

    async def retitle(self) -> None:
        """Show the title that the session has by now."""
        with contextlib.suppress(RetainError):
            if session := self.session:
                found = await self.chat.away(lambda: self.chat.sessions.get(session.id))
                self._title = found.title
                self._say_state()

    def stop(self) -> list[str]:
        """Stop what goes on; what waited behind it is given back."""
        waited, self._queue = self._queue, []
        if self._task:
            self._task.cancel()
        self._say_state()
        return waited

    def _stopped(self) -> None:
        for piece in self._tools.values():
            self.script.say("result", piece, result="Stopped.", state="failed", seconds=0)
        self._tools.clear()
        self._note("Stopped. What had come is kept.", "warning")

    # What happens

    async def _on_assembled(self, one: Assembled) -> None:
        if one.prompt.recalled and self._doing == _WAITING and not self._tools:
            count = one.prompt.recalled
            noun = "memory" if count == 1 else "memories"
            piece = f"recalled-{self.script.last}"
            self.script.say("recalled", piece, text=f"{count} {noun} recalled")
        self._say_state()

    async def _on_text(self, one: TextDelta) -> None:
        self._do("Answering")
        await self._growing.add(one.text)

    async def _on_thinking(self, _: Thinking) -> None:
        self._do("Thinking")

    async def _on_retrying(self, one: Retrying) -> None:
        self._note(f"{one.why}: asking again in {one.seconds:.0f} s")

    async def _on_started(self, one: ToolStarted) -> None:
        await self._growing.end()
        self._do("Using a tool")
        piece = self._tools[one.call.id] = self.script.piece()
        data = message_view.shown_tool(one.call)
        del data["kind"]
        self.script.say("tool", piece, **data)

    async def _on_done(self, one: ToolDone) -> None:
        piece = self._tools.pop(one.call.id)
        self.script.say(
            "result", piece, seconds=round(one.seconds, 1), **message_view.shown_result(one.result)
        )
        self._do("Waiting for the model to go on")

    async def _on_finished(self, one: Finished) -> None:
        await self._growing.end()
        if line := _ENDINGS.get(one.reason):
            self._note(line, "warning")

    async def _on_saved(self, one: MemorySaved) -> None:
        saved = one.saved
        piece = self.script.piece()
        page = ""
        if saved.ref:
            page = await self.chat.away(lambda: self._page_of(self.chat.app, saved.ref))
        if saved.status in ("saved", "supersedes"):
            self._saved[saved.ref] = piece
        self.script.say(
            "memory",
            piece,
            fact=flat(saved.fact, 2_000),
            ref=saved.ref,
            status=saved.status,
            replaced=flat(saved.replaced),
            notes=[flat(note) for note in saved.notes],
            page=page,
            can_undo=saved.ref in self._saved,
        )

    async def _on_notice(self, one: Notice) -> None:
        self._note(one.text)

    async def _on_usage(self, _: Usage) -> None:
        self._say_state()

    # Asking, and what the person decides

    async def _ask(self, question: Question) -> Answer:
        """Put a tool's question to the person, on every page that looks."""
        piece = self.script.piece()
        asked = _Asked(piece, choices(question), asyncio.get_running_loop().create_future())
        doing, self._asked = self._doing, asked
        self.script.say(
            "question",
            piece,
            title=flat(question.title),
            reason=flat(question.reason),
            detail=message_view.inert(question.detail),
            is_diff=question.tool == "write_file",
            choices=[
                {
                    "choice": one.choice,
                    "pattern": one.pattern,
                    "label": flat(one.label),
                    "allows": flat(one.allows),
                }
                for one in asked.choices
            ],
        )
        self._do("Waiting for your answer")
        said = "Stopped"
        try:
            answer = await asked.answer
            said = next(one.label for one in asked.choices if one.choice == answer.choice)
            return answer
        finally:
            self._asked = None
            self.script.say("answered", piece, covers=("question",), label=flat(said))
            self._do(doing)

    def answer(self, piece: str, answer: Answer) -> None:
        """Take the person's answer to the question that waits."""
        asked = self._asked
        if asked is None or asked.piece != piece or asked.answer.done():
            raise Conflict("this question waits no longer", unchanged="Nothing was allowed.")
        if (answer.choice, answer.pattern) not in {(it.choice, it.pattern) for it in asked.choices}:
            raise UsageError("that answer was not offered", unchanged="Nothing was allowed.")
        asked.answer.set_result(answer)

    async def undo(self, ref: str) -> list[str]:
        """Take back a fact that this conversation saved; what it replaced is in force again."""
        session = self.session
        if ref not in self._saved or session is None:
            raise NotFound(
                f"no fact {flat(ref, 80)!r} was saved here", unchanged="Nothing changed."
            )
        back = await self.chat.away(lambda: retract(self.chat.app, session.id, ref))
        self.script.say("undone", self._saved.pop(ref), back=back)
        return back

    async def use(self, name: str) -> str:
        """ChatSession to another model from now on."""
        chosen = await self.chat.away(lambda: self.chat.use(name))
        self._say_state()
        self._warm = asyncio.create_task(self._warm_up())
        return chosen.name

    async def offered(self) -> list[str]:
        """The models to choose from: those of the server, or those that are known."""
        known = models.known(self.chat.app.config)
        try:
            model = await self.chat.away(lambda: self.chat.model)
            return [flat(one, 100) for one in await model.offered()] or known
        except RetainError:
            return known

    def goes_elsewhere(self, text: str) -> str:
        """The command in a text that leads to another page, if it is one."""
        name = named(text.strip())
        return name if name in ("new", "resume", "quit") else ""


def _sentence(error: RetainError) -> str:
    """An error in one line, with what to do about it."""
    message = flat(error.message)
    hint = f" {flat(error.hint)}" if error.hint else ""
    return f"{message[:1].upper()}{message[1:]}.{hint}"
