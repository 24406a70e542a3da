"""The question before a tool does something: all of it to be read, and a key for each answer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content, Span
from textual.events import Click, Key
from textual.widgets import Input, Static

from retain.chat.texts import inert
from retain.talk.approval import Choice, choices
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from textual.screen import Screen

    from retain.talk.approval import Answer, Question


# What is typed before the question can have been read is no answer to it: someone who writes on
# has not seen it yet, so it takes answers only after a pause.
SETTLE_SECONDS: Final = 0.4

_FRAME: Final = 3  # rows of the border and of the blank line above the choices
_LEAST_DETAIL: Final = 3  # rows for which the frame is given up

_KEYS: Final = "↑ ↓ choose, Enter takes it, Esc stops the reply"
_COLOURS: Final = {"+": "ansi_green", "-": "ansi_red", "@": "ansi_cyan"}


class ApprovalPanel(Vertical, can_focus=True):
    """A panel in the place of the box; `answered` is what the person said."""

    def __init__(self, question: Question) -> None:
        super().__init__(id="approving")
        self.question = question
        self.answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._choices = choices(question)
        self._at = len(self._choices) - 1  # no, unless something else is chosen
        self._since = time.monotonic()
        self._is_read = False

    def compose(self) -> ComposeResult:
        question = self.question
        head = f"{flat(question.title, 200)}"
        why = f"  it {flat(question.reason, 100)}" if question.reason else ""
        spans = [Span(0, len(head), "bold"), Span(len(head), len(head) + len(why), "dim")]
        yield Static(Content(head + why, spans), id="title", markup=False)
        with VerticalScroll(id="detail", can_focus=False):
            yield Static(_detail(question), markup=False)
        yield Static("", id="choices", markup=False)
        yield Static("", id="allows", markup=False)
        yield Input(placeholder="Tell the model why, if you like; Enter says no", id="note")

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self._draw()
        self.focus()
        # What stands around it may change at any time: the window, what waits to be sent.
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit)

    def _fit(self, screen: Screen[object]) -> None:
        """Give what is asked about the rows that are left: the rest must never leave the screen."""
        assert self.parent  # noqa: S101 - it is mounted
        detail = self.query_one("#detail")
        others = [one for one in (*self.parent.children, *self.children) if one.display]
        taken = sum(one.outer_size.height for one in others if one not in (self, detail))
        room = screen.size.height - taken - _FRAME
        is_tight = room < _LEAST_DETAIL
        self.set_class(is_tight, "-tight")
        room = max(room + _FRAME * is_tight, 1)
        detail.styles.max_height = min(room, max(screen.size.height // 2, _LEAST_DETAIL))

    def _is_all_seen(self) -> bool:
        """Whether nothing of the question is beyond the edges of the screen."""
        whole = self.screen.region
        return all(whole.contains_region(one.region) for one in self.children if one.display)

    # Answering

    def on_key(self, event: Key) -> None:
        if self.query_one(Input).display:
            return
        if not self._is_open():
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

    def _is_open(self) -> bool:
        """Whether an answer counts: all of it can be seen, and could be read."""
        return self._is_settled() and self._is_all_seen()

    def _is_settled(self) -> bool:
        """Whether there was a pause before this key."""
        before, self._since = self._since, time.monotonic()
        if self._since - before >= SETTLE_SECONDS:
            self._since = before  # once it is, it stays so
            return True
        return False

    def _moves(self, key: str) -> bool:
        detail = self.query_one("#detail", VerticalScroll)
        if key in ("up", "down"):
            self._at = (self._at + (1 if key == "down" else -1)) % len(self._choices)
            self._draw()
        elif key in ("pageup", "pagedown"):
            (detail.scroll_page_up if key == "pageup" else detail.scroll_page_down)()
        elif key in ("home", "end"):
            (detail.scroll_home if key == "home" else detail.scroll_end)(animate=False)
        else:
            return False
        return True

    def _pick(self, found: list[int]) -> None:
        """Mark the choice a key means, the next where there are several.

        What lasts is not allowed by one key: it is shown first what that will allow.
        """
        later = [at for at in found if at > self._at]
        self._at = later[0] if later else found[0]
        self._draw()
        if self._choices[self._at].choice in ("once", "no"):
            self._take(self._choices[self._at])

    def _has_seen_end(self) -> bool:
        """Whether the person has gone through all that would be done."""
        detail = self.query_one("#detail", VerticalScroll)
        self._is_read = self._is_read or detail.scroll_target_y >= detail.max_scroll_y
        return self._is_read

    def _take(self, choice: Choice) -> None:
        if choice.choice != "no" and not self._has_seen_end():
            text = "There is more of it: Page Down or End shows the rest, then answer."
            span = Span(0, len(text), "ansi_yellow")
            self.query_one("#allows", Static).update(Content(text, [span]))
            return
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
        is_choice = event.widget is not None and event.widget.id == "choices"
        if is_choice and 0 <= event.y < len(self._choices) and self._is_open():
            self._pick([event.y])

    # Showing

    def _draw(self) -> None:
        lines = []
        for at, one in enumerate(self._choices):
            text = f"{'>' if at == self._at else ' '} {one.key}  {flat(one.label, 200)}"
            style = "bold" if at == self._at else "dim"
            lines.append(Content(text, [Span(0, len(text), style), Span(2, 3, "bold ansi_cyan")]))
        allows = self._choices[self._at].allows
        text = f"Enter allows {flat(allows, 200)}" if allows else _KEYS
        spans = [Span(0, len(text), "ansi_yellow" if allows else "dim")]
        self.query_one("#choices", Static).update(Content("\n").join(lines))
        self.query_one("#allows", Static).update(Content(text, spans))


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
