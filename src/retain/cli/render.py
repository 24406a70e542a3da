"""What a terminal shows beside plain text: tables, coloured diffs and progress bars."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from retain.text.sanitize import shorten, visible

if TYPE_CHECKING:
    from rich.progress import Progress

_CELL = 60  # as much of a title as a line of a listing has room for


class Table(NamedTuple):
    """Rows under headings."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    empty: str = ""
    flexible: Sequence[str] = ()  # columns that may be cut short; the others never are


def show_table(table: Table) -> None:
    """Print a table: with lines and colours on a terminal, in plain columns elsewhere."""
    if not table.rows:
        if table.empty:
            print(table.empty, file=sys.stderr)
        return
    rows = [
        [
            shorten(text, _CELL) if column in table.flexible else text
            for column, cell in zip(table.columns, row, strict=True)
            for text in [visible(cell, keep_newlines=False)]
        ]
        for row in table.rows
    ]
    if sys.stdout.isatty():
        _show_rich(table, rows)
        return
    lines = [list(table.columns), *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def _show_rich(table: Table, rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(title=table.title or None, title_justify="left", box=SIMPLE_HEAD)
    for number, column in enumerate(table.columns):
        is_flexible = column in table.flexible  # rich makes room by breaking the lines of these
        grid.add_column(
            column, style="cyan" if number == 0 else None, no_wrap=not is_flexible, overflow="fold"
        )
    for row in rows:
        grid.add_row(*map(Text, row))
    Console().print(grid)


def colour_diff(diff: str) -> str:
    """A diff as people know it: what went is red, what came is green."""
    colours = {"+++ ": "1", "--- ": "1", "+": "32", "-": "31", "@": "36"}
    lines = []
    for line in diff.splitlines(keepends=True):
        colour = colours.get(line[:4]) or colours.get(line[:1])
        lines.append(f"\x1b[{colour}m{line.rstrip()}\x1b[0m\n" if colour else line)
    return "".join(lines)


class Bar:
    """A progress bar on standard error, for people who watch.

    It is called with how much is done and how much there is. `kept` is what a person who breaks
    the work off is told about what was done until then.
    """

    def __init__(self, title: str, kept: str = "") -> None:
        self._title, self._kept = title, kept
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        """Draw the bar, from the first call on that has something left to wait for."""
        if self._progress is None and done < total and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._progress.add_task(self._title)
            self._progress.start()
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=done, total=total)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
        if self._kept and kind is not None and issubclass(kind, KeyboardInterrupt):
            print(f"\n{self._kept}", file=sys.stderr)
