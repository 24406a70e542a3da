"""The chat's screen. It is there before anything heavy is loaded, and typing works at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Markdown, Static, TextArea

from retain.chat import texts
from retain.chat.driver import Driver
from retain.chat.entry import Entry
from retain.chat.style import CSS
from retain.chat.texts import LEAVING_SECONDS, TWICE_SECONDS
from retain.chat.widgets import Note, Person, Suggestions, Tool
from retain.errors import RetainError
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.chat.controller import ChatController
    from retain.talk.approval import Answer, Question
    from retain.talk.chat import Chat


Opener = Callable[[Callable[["Question"], Coroutine[Any, Any, "Answer"]]], "Chat"]

_TICK: Final = 0.12
_LOOK_SECONDS: Final = 1.0  # between two looks at whether the terminal is still there
_LEAST_PART: Final = 8  # columns below which a cut part of the status says nothing
_QUEUED: Final = 3  # lines of what waits to be sent
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Terminal(App[None]):
    """A conversation, a box to write in, and a line that says how things are.

    `open_chat` gives the chat; it is called in a thread, after the first paint.
    """

    CSS = CSS
    TITLE = "Retain"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "#entry"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", priority=True, show=False),
        Binding("ctrl+d", "end", show=False, priority=True),
        Binding("ctrl+q", "leave", show=False, priority=True),
        Binding("escape", "stop", show=False),
        Binding("ctrl+o", "unfold", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]

    def __init__(self, open_chat: Opener, *, resume: str = "") -> None:
        super().__init__(driver_class=Driver)
        self.theme = _theme(os.environ)
        self.failure: Exception | None = None  # what is said once the screen is gone
        self.controller: ChatController | None = None
        self.ready = asyncio.Event()
        self.replying: asyncio.Task[None] | None = None
        self._open, self._resume = open_chat, resume
        self._interrupted_at = -TWICE_SECONDS
        self._leaving: asyncio.Task[None] | None = None
        self._queued: list[str] = []  # what was sent while a reply came
        self._doing = ""
        self._since = 0.0
        self._hint = ""
        self._signals: list[int] = []

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="talk", can_focus=False):
            yield Note(texts.welcome(""), "welcome")
        with Vertical(id="below"):
            yield Static("", id="queued", markup=False)
            yield Suggestions()
            yield Static("", id="doing", markup=False)
            yield Entry()
            yield Static("", id="status", markup=False)

    # Beginning

    def on_mount(self) -> None:
        self.talk.anchor()
        self.query_one(Suggestions).display = False
        self.query_one("#doing").display = False
        self._show_queued()
        self.say_status()
        self.set_interval(_TICK, self._tick)
        if not self.is_headless:
            self._hear_signals()
            self.set_interval(_LOOK_SECONDS, self._look)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.run_worker(self._load(), exit_on_error=True)

    async def _load(self) -> None:
        try:
            self.controller = await asyncio.to_thread(self._opened)
            await self.controller.begin(self._resume)
        except (RetainError, OSError) as error:
            self.failure = error
            self.exit()
            return
        self.ready.set()
        self.say_status()
        await self.controller.warm_up()

    def _opened(self) -> ChatController:
        from retain.chat.controller import ChatController  # loads the engine, which takes a moment

        return ChatController(self, self._open(self.ask))

    def _hear_signals(self) -> None:
        """End in order when the terminal goes, or the machine."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._told, number)

    def _look(self) -> None:
        """Hear of a terminal that went without a signal."""
        if isinstance(self._driver, Driver) and self._driver.is_gone and not self._signals:
            self._told(signal.SIGHUP)

    def _told(self, number: int) -> None:
        self._signals.append(number)
        self.leave(0)

    @property
    def was_told(self) -> int:
        """The signal that ended the chat, 0 for none."""
        return self._signals[0] if self._signals else 0

    # What is on the screen

    @property
    def talk(self) -> VerticalScroll:
        """Where the conversation is shown."""
        return self.query_one("#talk", VerticalScroll)

    @property
    def entry(self) -> Entry:
        """Where the person writes."""
        return self.query_one(Entry)

    async def add(self, piece: Widget) -> None:
        """Put something at the end of the conversation."""
        await self.talk.mount(piece)

    async def note(self, text: str, kind: str = "dim") -> None:
        """Say a line at the end of the conversation."""
        await self.add(Note(text, kind))

    async def begin_with(self, pieces: Sequence[Widget]) -> None:
        """Show what was said earlier, before whatever was sent while it was loaded."""
        await self.talk.mount_all(pieces, after=self.query_one(Note))
        self.talk.anchor()

    async def begin_anew(self, pieces: Sequence[Widget] = ()) -> None:
        """Show another conversation."""
        await self.talk.remove_children()
        await self.talk.mount_all(pieces)
        self.talk.anchor()

    def do(self, what: str) -> None:
        """Say what is being waited for; nothing hides the line."""
        if what and not self._doing:
            self._since = time.monotonic()
        self._doing = what
        self.query_one("#doing").display = bool(what)
        self._tick()

    def _tick(self) -> None:
        if not self._doing:
            return
        gone = time.monotonic() - self._since
        sign = _SPINNER[int(gone / _TICK) % len(_SPINNER)]
        text = f"{sign} {self._doing} {gone:.0f} s · Esc stops it"
        self.query_one("#doing", Static).update(text)

    def hint(self, text: str, seconds: float = TWICE_SECONDS) -> None:
        """Say something in the place of the status for a moment."""
        self._hint = text
        self.say_status()
        self.set_timer(seconds, self._unhint)

    def _unhint(self) -> None:
        self._hint = ""
        self.say_status()

    def say_status(self) -> None:
        """Say how things are, in as much of a line as there is."""
        if self._hint:
            text = self._hint
        elif self.controller is None:
            text = "loading…"
        else:
            text = _fitting(self.controller.status(), self.size.width - 2)
        with contextlib.suppress(Exception):  # the screen may be gone already
            self.query_one("#status", Static).update(text)

    def on_resize(self, _: Resize) -> None:
        self.say_status()

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """Say where a link leads: whether to go there is the person's to decide."""
        self.hint(f"It leads to {flat(event.href)}", 8)

    # Writing

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self._suggest("" if self.entry.is_brought_back else event.text_area.text)

    def _suggest(self, text: str) -> None:
        offers = self.controller.offers(text) if self.controller else []
        self.query_one(Suggestions).offer(offers)
        self.entry.has_suggestions = bool(offers)

    def on_entry_moved(self, event: Entry.Moved) -> None:
        self.query_one(Suggestions).move(event.by)

    def on_entry_chosen(self, event: Entry.Chosen) -> None:
        chosen = self.query_one(Suggestions).marked
        if chosen is None:
            return
        self.entry.fill(chosen.line)
        if event.at_once and chosen.is_complete:
            self.entry.send()

    async def on_entry_sent(self, event: Entry.Sent) -> None:
        if self._leaving:
            return
        self._suggest("")
        self.entry.earlier.add(event.text)
        self.entry.empty()
        if self.replying is None:
            self.talk.anchor()
            self.replying = asyncio.create_task(self._converse(event.text))
        elif self.controller and self.controller.ends(event.text):
            self.leave()
        else:
            self._queued.append(event.text)
            self._show_queued()

    async def _converse(self, text: str) -> None:
        """Do what was sent, then what was sent meanwhile; what fails or is stopped ends it."""
        try:
            while await self._exchange(text) and self._queued and not self._leaving:
                text = self._queued.pop(0)
                self._show_queued()
        finally:
            self.replying = None
            self.do("")
            self.say_status()

    async def _exchange(self, text: str) -> bool:
        try:
            await self.add(Person(text))
            if not self.ready.is_set():
                self.do("loading")
                await self.ready.wait()
            assert self.controller  # noqa: S101 - it is what readiness means
            await self.controller.exchange(text)
        except asyncio.CancelledError:
            await self._stopped()
        except RetainError as error:
            await self._failed(texts.error(error), text)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the chat
            name = type(error).__name__
            await self._failed(f"✗ Something went wrong in Retain itself ({name}).", text)
        else:
            return True
        return False

    def _show_queued(self) -> None:
        lines = [f"↳ queued: {flat(text, 100)}" for text in self._queued[:_QUEUED]]
        if len(self._queued) > _QUEUED:
            lines.append(f"↳ and {len(self._queued) - _QUEUED} more")
        shown = self.query_one("#queued", Static)
        shown.display = bool(lines)
        shown.update(Content("\n".join(lines)))

    async def _unqueue(self) -> None:
        """Put messages that wait back into the box, before what is being written there.

        A command is joined with nothing: a message would become a part of it, or it of a message.
        """
        if not self._queued:
            return
        from retain.talk.commands import is_command

        self.entry.earlier.add(self.entry.whole)
        waiting = [text for text in (*self._queued, self.entry.whole) if text.strip()]
        back = [text for text in waiting if not is_command(text)] or waiting[-1:]
        self.entry.fill("\n\n".join(back).strip())
        self._queued.clear()
        self._show_queued()
        if undone := [text for text in waiting if text not in back]:
            await self.note(texts.undone(undone), "warning")

    async def _failed(self, line: str, text: str) -> None:
        """Say what went wrong; what was said is in the box again, to be sent once more."""
        await self.note(line, "error")
        if not self.entry.text:
            self.entry.fill(text)

    async def _stopped(self) -> None:
        for tool in self.query(Tool):
            tool.stop()
        if not self._leaving:
            await self.note(texts.STOPPED, "warning")

    # Asking

    async def ask(self, question: Question) -> Answer:
        """Put a tool's question to the person, in the place of the box."""
        from retain.chat.approval import ApprovalPanel

        panel = ApprovalPanel(question)
        doing, self._doing = self._doing, ""
        self.do("")
        self.entry.display = False
        try:
            await self.query_one("#below").mount(panel, before="#status")
            return await panel.answered
        finally:
            await panel.remove()
            self.entry.display = True
            self.entry.focus()
            self.do(doing)

    # Keys

    async def action_stop(self) -> None:
        """Close the list of suggestions, else stop the reply and take back what waits for it."""
        if self.entry.has_suggestions:
            self._suggest("")
        elif not self._leaving:
            await self._stop()

    async def _stop(self) -> None:
        if self.replying:
            self.replying.cancel()
        await self._unqueue()

    async def action_interrupt(self) -> None:
        """Copy what is marked; else stop, empty the box, and at the second time leave."""
        if self._leaving:
            self.leave(0)
            return
        if marked := self.screen.get_selected_text():
            self.copy_to_clipboard(marked)
            self.screen.clear_selection()
            return
        is_twice = time.monotonic() - self._interrupted_at < TWICE_SECONDS
        if is_twice and not self.entry.text:  # what was typed since is not lost
            self.leave()
            return
        self._interrupted_at = time.monotonic()
        if self.replying or self._queued:
            await self._stop()
        elif self.entry.text:
            self.entry.earlier.add(self.entry.whole)
            self.entry.empty()
        self.hint(texts.LEAVE_AGAIN)

    def action_end(self) -> None:
        """Leave from an empty box, as a shell is left."""
        if self.entry.text:
            self.entry.action_delete_right()
        elif self.entry.display:  # a question is not left by accident
            self.leave()

    def action_leave(self) -> None:
        """Leave."""
        self.leave()

    def action_unfold(self) -> None:
        """Unfold the results of all tools, or fold them."""
        tools = list(self.query(Tool))
        unfold = not all(tool.is_unfolded for tool in tools)
        for tool in tools:
            if tool.is_unfolded != unfold:
                tool.action_unfold()

    def action_page(self, by: int) -> None:
        """Go through the conversation, or what is asked about."""
        asked = self.query("#detail")
        target = asked.first(VerticalScroll) if asked else self.talk
        (target.scroll_page_down if by > 0 else target.scroll_page_up)(animate=False)

    # Leaving

    def leave(self, seconds: float = LEAVING_SECONDS) -> None:
        """Leave a summary behind and end; told a second time, at once."""
        if self._leaving and seconds:
            return
        if self._leaving:
            self._leaving.cancel()
        self._leaving = asyncio.create_task(self._leave(seconds))

    async def _leave(self, seconds: float) -> None:
        # Every message is on disk already: nothing that fails here keeps anybody.
        try:
            await self._finish(seconds)
        except (RetainError, OSError):
            pass
        except Exception as error:  # noqa: BLE001 - a fault of ours, which is no secret
            self.failure = error
        self.exit(return_code=128 + self.was_told if self.was_told else 0)

    async def _finish(self, seconds: float) -> None:
        """End the reply, and leave a summary behind."""
        if self.replying:
            self.replying.cancel()
            await asyncio.wait({self.replying})
        if self.controller:
            self.hint(texts.SAVING if seconds else "Leaving…", 60)
            await self.controller.chat.leave(seconds)


def _theme(env: os._Environ[str]) -> str:
    """The terminal's own colours; some terminals say whether their background is light."""
    ground = env.get("COLORFGBG", "").rpartition(";")[2]
    return "ansi-light" if ground in ("7", "15") else "ansi-dark"


def _fitting(parts: Sequence[str], width: int) -> str:
    """As many of the parts as fit, the first ones first; the first that does not is cut."""
    text = ""
    for part in parts:
        room = width - len(text) - (3 if text else 0)
        if len(part) > room and text and room < _LEAST_PART:
            break
        shown = part if len(part) <= room else f"{part[: max(room - 1, 0)]}…"
        text = f"{text} · {shown}" if text else shown
    return text
