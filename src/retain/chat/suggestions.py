"""What a line that begins with a slash may become, above the box it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from textual.content import Content, Span
from textual.widgets import Static

from retain.text.sanitize import flat

_ROWS: Final = 8


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
        first = max(0, min(self._at - _ROWS // 2, len(self._offers) - _ROWS))
        shown = self._offers[first : first + _ROWS]
        width = max((len(one.shown) for one in shown), default=0)
        lines: list[Content] = []
        for at, one in enumerate(shown, first):
            name = f" {flat(one.shown, 40):<{min(width, 40)}} "
            text = f"{name} {flat(one.about, 120)}"
            style = "reverse" if at == self._at else "bold"
            about = Span(len(name), len(text), "dim")
            lines.append(Content(text, [Span(0, len(name), style), about]))
        self.update(Content("\n").join(lines))
