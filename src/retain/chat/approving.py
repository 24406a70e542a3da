"""The question before a tool does something: all of it to be read, and a key for each answer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content, Span
from textual.events import Click, Key
from textual.widgets import Input, Static

from retain.chat.words import flat, inert

if TYPE_CHECKING:
    from retain.talk.approval import Answer, Question

__all__ = ["Approving"]

# What is typed before the question can have been read is no answer to it.
SETTLE_SECONDS: Final = 0.4

_COLOURS: Final = {"+": "ansi_green", "-": "ansi_red", "@": "ansi_cyan"}


class _Choice(NamedTuple):
    key: str
    label: str
    choice: str
    pattern: str = ""


class Approving(Vertical, can_focus=True):
    """A panel in the place of the box; `answered` is what the person said."""

    def __init__(self, question: Question) -> None:
        super().__init__(id="approving")
        self.question = question
        self.answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._choices = _choices(question)
        self._at = 0
        self._since = time.monotonic()

    def compose(self) -> ComposeResult:
        question = self.question
        head = f"{flat(question.title, 200)}"
        why = f"  it {flat(question.reason, 100)}" if question.reason else ""
        spans = [Span(0, len(head), "bold"), Span(len(head), len(head) + len(why), "dim")]
        yield Static(Content(head + why, spans), markup=False)
        with VerticalScroll(id="detail", can_focus=False):
            yield Static(_detail(question), markup=False)
        yield Static("", id="choices", markup=False)
        yield Input(placeholder="Tell the model why, if you like; Enter says no", id="note")

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self.query_one("#choices").styles.height = len(self._choices)
        self._draw()
        self.focus()

    # Answering

    def on_key(self, event: Key) -> None:
        if self.query_one(Input).display:
            return
        if time.monotonic() - self._since < SETTLE_SECONDS:
            if event.key != "escape":
                event.stop()
            return
        if self._moves(event.key):
            event.stop()
        elif event.key == "enter":
            event.stop()
            self._take(self._choices[self._at])
        elif found := [at for at, one in enumerate(self._choices) if one.key == event.key]:
            event.stop()
            self._pick(found)

    def _moves(self, key: str) -> bool:
        detail = self.query_one("#detail", VerticalScroll)
        if key in ("up", "down"):
            self._at = (self._at + (1 if key == "down" else -1)) % len(self._choices)
            self._draw()
        elif key in ("pageup", "pagedown"):
            (detail.scroll_page_up if key == "pageup" else detail.scroll_page_down)()
        else:
            return False
        return True

    def _pick(self, found: list[int]) -> None:
        """Take the one choice a key means; where there are several, mark the next of them."""
        if len(found) == 1:
            self._take(self._choices[found[0]])
            return
        later = [at for at in found if at > self._at]
        self._at = later[0] if later else found[0]
        self._draw()

    def _take(self, choice: _Choice) -> None:
        if choice.choice == "no":
            note = self.query_one(Input)
            note.display = True
            note.focus()
            return
        self._answer(choice.choice, choice.pattern)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer("no", note=event.value.strip())

    def _answer(self, choice: str, pattern: str = "", note: str = "") -> None:
        from retain.talk.approval import Answer

        if not self.answered.done():
            self.answered.set_result(Answer(choice, pattern, note))

    def on_click(self, event: Click) -> None:
        if event.widget is not None and event.widget.id == "choices":
            at = event.y
            if 0 <= at < len(self._choices):
                self._take(self._choices[at])

    # Showing

    def _draw(self) -> None:
        lines = []
        for at, one in enumerate(self._choices):
            text = f"{'>' if at == self._at else ' '} {one.key}  {flat(one.label, 200)}"
            style = "bold" if at == self._at else "dim"
            lines.append(Content(text, [Span(0, len(text), style), Span(2, 3, "bold ansi_cyan")]))
        self.query_one("#choices", Static).update(Content("\n").join(lines))


def _choices(question: Question) -> list[_Choice]:
    found = [_Choice("y", "Yes, this once", "once")]
    if "session" in question.choices:
        found.append(_Choice("s", "Yes, and again in this session", "session"))
    if "always" in question.choices:
        found += [
            _Choice("a", f"Always in this project: {pattern}", "always", pattern)
            for pattern in question.patterns
        ]
    return [*found, _Choice("n", "No", "no")]


def _detail(question: Question) -> Content:
    """All that would be done; a difference in colours."""
    text = inert(question.detail)
    if question.tool != "write_file":
        return Content(text)
    spans, at = [], 0
    for line in text.split("\n"):
        if colour := _COLOURS.get(line[:1]):
            spans.append(Span(at, at + len(line), colour))
        at += len(line) + 1
    return Content(text, spans)
