"""Where the person writes: several lines, what was written before, and large pastes folded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from textual import _ansi_sequences
from textual.binding import Binding, BindingType
from textual.events import Key, Paste
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

from retain.chat.texts import inert

_FOLD_LINES: Final = 12
_FOLD_CHARS: Final = 1_500
_MAX_HISTORY: Final = 500
_NEWLINES: Final = ("shift+enter", "alt+enter", "ctrl+j")

# Terminals without a protocol for it send Alt+Enter as an escape and a return, which would be
# taken for a plain Enter and send half a message.
_ansi_sequences.ANSI_SEQUENCES_KEYS["\x1b\r"] = (Keys.ControlJ,)  # type: ignore[index]


class Entry(TextArea):
    """The box at the foot of the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", show=False),
        Binding("ctrl+z", "app.suspend_process", show=False),
    ]

    class Sent(Message):
        """The person has sent this."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Chosen(Message):
        """The person takes the suggestion that is marked, and perhaps wants it done at once."""

        def __init__(self, *, at_once: bool) -> None:
            super().__init__()
            self.at_once = at_once

    class Moved(Message):
        """The person goes through the suggestions."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self) -> None:
        super().__init__(
            id="entry",
            soft_wrap=True,
            tab_behavior="focus",
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Say something, or / for commands",
        )
        self.earlier = InputHistory()
        self.has_suggestions = False
        self._folded: dict[str, str] = {}
        self._brought_back: str | None = None

    # Sending

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter" or event.key in _NEWLINES:
            event.stop()
            event.prevent_default()
            if event.key == "enter":
                self._enter()
            else:
                self.insert("\n")
            return
        await super()._on_key(event)

    def _enter(self) -> None:
        if self.has_suggestions:
            self.post_message(self.Chosen(at_once=True))
        elif self.text.endswith("\\") and self.cursor_location == self.document.end:
            # As in a shell, for terminals whose Shift+Enter is an Enter.
            self.action_delete_left()
            self.insert("\n")
        else:
            self.send()

    def send(self) -> None:
        """Send what there is; whoever takes it empties the box."""
        text = self.whole.strip()
        if text:
            self.post_message(self.Sent(text))

    @property
    def whole(self) -> str:
        """The text with everything that was folded in its place."""
        text = self.text
        for mark, folded in self._folded.items():
            text = text.replace(mark, folded)
        return text

    def empty(self) -> None:
        """Begin anew."""
        self._brought_back = None
        self._folded.clear()
        self.clear()

    def fill(self, text: str) -> None:
        """Show another text, the cursor at its end."""
        self._folded.clear()
        text = inert(text)
        self.text = self._fold(text) if _is_large(text) else text
        self.move_cursor(self.document.end)

    # Pasting

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        text = inert(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        self.insert(self._fold(text) if _is_large(text) else text)

    def _fold(self, text: str) -> str:
        lines = text.count("\n") + 1
        mark = f"[pasted #{len(self._folded) + 1}: {lines:,} lines, {len(text):,} characters]"
        self._folded[mark] = text
        return mark

    # Suggestions and what was written before

    def action_complete(self) -> None:
        """Take the suggestion that is marked."""
        if self.has_suggestions:
            self.post_message(self.Chosen(at_once=False))

    def action_cursor_up(self, select: bool = False) -> None:
        """Go up a line, through the suggestions, or at the top to what was written before."""
        if self.has_suggestions:
            self.post_message(self.Moved(-1))
        elif self._is_at_edge(top=True) and not select:
            self._show(self.earlier.back(self.whole))
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Go down a line, through the suggestions, or at the foot to what was written after."""
        if self.has_suggestions:
            self.post_message(self.Moved(1))
        elif self._is_at_edge(top=False) and not select:
            self._show(self.earlier.forward())
        else:
            super().action_cursor_down(select)

    def _is_at_edge(self, *, top: bool) -> bool:
        row = self.wrapped_document.location_to_offset(self.cursor_location).y
        return row == (0 if top else self.wrapped_document.height - 1)

    def _show(self, text: str | None) -> None:
        if text is not None:
            self.fill(text)
            self._brought_back = self.text

    @property
    def is_brought_back(self) -> bool:
        """Whether the text was written before and not changed since.

        Nothing is suggested for it: the arrow keys would stay with what is suggested.
        """
        return self.text == self._brought_back


def _is_large(text: str) -> bool:
    return text.count("\n") >= _FOLD_LINES or len(text) > _FOLD_CHARS


class InputHistory:
    """Earlier inputs, the oldest first, and where among them the person is."""

    def __init__(self) -> None:
        self._earlier: list[str] = []
        self._at: int | None = None
        self._draft = ""

    def load(self, texts: Iterable[str]) -> None:
        """Put what earlier sessions have before what was typed in this one."""
        mine = self._earlier
        self._earlier = []
        for text in [*texts, *mine]:
            self._keep(text)
        self._at = None

    def add(self, text: str) -> None:
        """Keep what was just sent, and be at the end again."""
        self._keep(text)
        self._at, self._draft = None, ""

    def _keep(self, text: str) -> None:
        if text.strip() and (not self._earlier or self._earlier[-1] != text):
            self._earlier.append(text)
            del self._earlier[:-_MAX_HISTORY]

    def back(self, current: str) -> str | None:
        """The input before; None where there is none. What is being written is kept."""
        if self._at is None:
            self._draft = current
        at = len(self._earlier) if self._at is None else self._at
        if at == 0:
            return None
        self._at = at - 1
        return self._earlier[self._at]

    def forward(self) -> str | None:
        """The input after, in the end what was being written; None where that is shown."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self._earlier):
            return self._earlier[self._at]
        self._at = None
        return self._draft
