"""What a terminal shows beside plain text: tables, coloured diffs and progress."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import east_asian_width

from retain.text.sanitize import shorten, visible

_CELL = 60  # as much of a title as a line of a listing has room for
_LEAST = 8  # below which a cut cell says nothing
_LEAST_ID = 36  # ids are cut on a terminal alone, and only the long ones


class Table(NamedTuple):
    """Rows under headings."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str = ""
    flexible: Sequence[str] = ()  # columns that may be cut short


def show_table(table: Table) -> None:
    """Print a table in plain columns, on a terminal no wider than that if it can be."""
    if not table.rows:
        if table.empty:
            print(table.empty, file=sys.stderr)
        return
    lines = [
        table.columns,
        *([visible(cell, keep_newlines=False) for cell in row] for row in table.rows),
    ]
    widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
    least = {at: _LEAST for at, column in enumerate(table.columns) if column in table.flexible}
    for at in least:
        widths[at] = min(widths[at], _CELL)
    if sys.stdout.isatty():
        import shutil  # 2 ms that a pipe does not need

        room = shutil.get_terminal_size().columns - 2 * (len(widths) - 1)
        least |= {at: _LEAST_ID for at, column in enumerate(table.columns) if column == "ID"}
        while sum(widths) > room and (wide := [at for at in least if widths[at] > least[at]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
    for line in lines:
        cells = [_fit(cell, width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip())


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(char) in "FW" else 1 for char in text)


def _fit(text: str, width: int) -> str:
    """A text cut or padded to a width."""
    text = shorten(text, width)
    while _width(text) > width:
        text = f"{text[:-2]}…"
    return text + " " * (width - _width(text))


def colour_diff(diff: str) -> str:
    """A diff as people know it: what went is red, what came is green."""
    colours = {"+++ ": "1", "--- ": "1", "+": "32", "-": "31", "@": "36"}
    lines = []
    for line in diff.splitlines(keepends=True):
        colour = colours.get(line[:4]) or colours.get(line[:1])
        lines.append(f"\x1b[{colour}m{line.rstrip()}\x1b[0m\n" if colour else line)
    return "".join(lines)


class Bar:
    """Progress on standard error, for people who watch.

    It is called with how much is done and how much there is. `kept` is what a person who breaks
    the work off is told about what was done until then.
    """

    def __init__(self, title: str, kept: str = "") -> None:
        self._title, self._kept = title, kept
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, from the first call on that has something left to wait for."""
        if sys.stderr.isatty() and (self._is_shown or done < total):
            self._is_shown = True
            line = f"\r{self._title}: {done} of {total}"
            print(line, end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if self._kept and kind is not None and issubclass(kind, KeyboardInterrupt):
            print(f"\n{self._kept}", file=sys.stderr)
