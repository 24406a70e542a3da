"""What the screen is made of: what was said, tools that ran, notes, and suggested commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content, Span
from textual.widgets import Static

from retain.chat.texts import inert
from retain.text.sanitize import flat

_MOST_LINES: Final = 12  # of what the person said, before it is folded
_SUGGESTED: Final = 8  # rows of suggestions
_MOST_RESULT: Final = 400  # lines of a tool's result, when it is unfolded


class Person(Static):
    """What the person said."""

    def __init__(self, text: str) -> None:
        lines = inert(text).split("\n")
        shown = "\n".join(lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            shown += f"\n… {len(lines) - _MOST_LINES:,} more lines"
        super().__init__(Content(shown), markup=False)


class Note(Static):
    """A line that is neither side's: `dim`, `memory` or `error`."""

    def __init__(self, text: str, kind: str = "dim") -> None:
        super().__init__(Content(inert(text)), markup=False, classes=f"-{kind}")


class Tool(Static, can_focus=True):
    """A tool that the model used, in one line; its result unfolds."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "unfold", show=False)]

    def __init__(self, summary: str) -> None:
        super().__init__("", markup=False)
        self._summary = flat(summary)
        self._result = ""
        self._mark = "○"
        self._took = ""
        self.is_unfolded = False
        self._draw()

    def done(self, result: str, *, is_error: bool, seconds: float | None = None) -> None:
        """Show what came of it."""
        self._result = inert(result).strip("\n")
        self._mark = "✗" if is_error else "●"
        self._took = f" {seconds:.1f} s" if seconds is not None and seconds >= 0.1 else ""
        self.set_class(is_error, "-failed")
        self._draw()

    def stop(self) -> None:
        """Show that it was not let finish."""
        if self._mark == "○":
            self.done("Stopped.", is_error=True)

    def action_unfold(self) -> None:
        """Show all of the result, or a line of it."""
        self.is_unfolded = not self.is_unfolded
        self._draw()

    def on_click(self) -> None:
        self.action_unfold()

    def _draw(self) -> None:
        head = f"{self._mark} {self._summary}"
        spans = [Span(0, 1, self._colour), Span(1, len(head), "bold")]
        text = head + self._took
        if self._result:
            body = self._body()
            text += f"\n{body}"
        spans.append(Span(len(head), len(text), "dim"))
        self.update(Content(text, spans))

    @property
    def _colour(self) -> str:
        return {"○": "ansi_yellow", "✗": "ansi_red"}.get(self._mark, "ansi_green")

    def _body(self) -> str:
        lines = self._result.split("\n")
        if not self.is_unfolded:
            more = f" (+{len(lines) - 1:,} lines, Ctrl+O unfolds)" if len(lines) > 1 else ""
            return f"  └ {flat(lines[0], 120)}{more}"
        shown = [f"    {line}" for line in lines[:_MOST_RESULT]]
        if len(lines) > _MOST_RESULT:
            shown.append(f"    … {len(lines) - _MOST_RESULT:,} more lines")
        return "\n".join(shown)


class Offer(NamedTuple):
    """One thing a line may become."""

    line: str  # the whole line
    shown: str
    about: str
    is_complete: bool = True  # nothing more has to be written


class Suggestions(Static):
    """A short list with one line marked."""

    def __init__(self) -> None:
        super().__init__("", id="suggestions", markup=False)
        self._offers: Sequence[Offer] = ()
        self._at = 0

    @property
    def marked(self) -> Offer | None:
        """The offer that Tab and Enter take."""
        return self._offers[self._at] if self._offers else None

    def offer(self, offers: Sequence[Offer]) -> None:
        """Show these; none hides the list."""
        self._offers, self._at = offers, 0
        self.display = bool(offers)
        self._draw()

    def move(self, by: int) -> None:
        """Mark another."""
        if self._offers:
            self._at = (self._at + by) % len(self._offers)
            self._draw()

    def _draw(self) -> None:
        first = max(0, min(self._at - _SUGGESTED // 2, len(self._offers) - _SUGGESTED))
        shown = self._offers[first : first + _SUGGESTED]
        width = max((len(one.shown) for one in shown), default=0)
        lines: list[Content] = []
        for at, one in enumerate(shown, first):
            name = f" {flat(one.shown, 40):<{min(width, 40)}} "
            text = f"{name} {flat(one.about, 120)}"
            style = "reverse" if at == self._at else "bold"
            about = Span(len(name), len(text), "dim")
            lines.append(Content(text, [Span(0, len(name), style), about]))
        self.update(Content("\n").join(lines))
