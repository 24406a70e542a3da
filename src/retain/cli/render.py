"""Answers on standard output and messages on standard error, for people, pipes and programs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TextIO

from retain.errors import RetainError
from retain.guard.characters import visible
from retain.model import FREE_TYPES, Memory, Version

if TYPE_CHECKING:
    from retain.index.checking import Facts

__all__ = [
    "Line",
    "Output",
    "Table",
    "as_context",
    "as_versions",
    "coloured",
    "facts_data",
    "facts_line",
    "held_note",
    "report",
    "show",
    "surprise",
    "wants_colour",
    "wants_json",
]


_LEAST = 8  # below which a cut cell says nothing
_CELL = 60  # as much of a title as a line of a listing has room for


class Table(NamedTuple):
    """Rows under headings."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    empty: str = ""
    flexible: Sequence[str] = ()  # columns that may be cut short; the others never are
    least: str = ""  # the one of them that is cut before the others


class Line(NamedTuple):
    """One of many answers that are given as they come."""

    data: object
    text: str | None = None  # None: JSON, whether or not it was asked for


class Output(NamedTuple):
    """A command's answer in every form it can be asked for."""

    data: object  # or a function that makes it, called only for --json
    text: str = ""
    table: Table | None = None
    raw: bytes | None = None
    quiet: str | None = None  # what --quiet prints; None: the same as always
    messages: Sequence[str] = ()
    warnings: Sequence[str] = ()
    paint: Callable[[str], str] | None = None  # colours for the text, on a terminal
    stream: Iterable[Line] | None = None  # in place of all the other forms
    code: int = 0


def wants_json(args: argparse.Namespace) -> bool:
    """Whether a call asks for JSON, with --json or --format json."""
    return getattr(args, "json", False) or getattr(args, "format", "") == "json"


def show(output: Output, args: argparse.Namespace) -> int:
    """Print an answer the way it was asked for, and return the exit code."""
    quiet = getattr(args, "quiet", False)
    if output.stream is not None:
        _show_stream(output.stream, as_json=wants_json(args))
    elif wants_json(args):
        sys.stdout.write(_json(output.data() if callable(output.data) else output.data))
    elif quiet and output.quiet is not None:
        sys.stdout.write(visible(output.quiet))
    else:
        _show_text(output)
    sys.stdout.flush()
    if not quiet:
        for message in output.messages:
            print(visible(message), file=sys.stderr)
    for warning in output.warnings:
        print(f"warning: {visible(warning)}", file=sys.stderr)
    return output.code


def _show_stream(lines: Iterable[Line], *, as_json: bool) -> None:
    """Print each line when it is there: whoever reads along need not wait for the last."""
    for line in lines:
        if as_json or line.text is None:
            sys.stdout.write(_json(line.data, indent=None))
        else:
            sys.stdout.write(visible(line.text, keep_newlines=False) + "\n")
        sys.stdout.flush()


def _show_text(output: Output) -> None:
    if output.raw is not None:
        _show_raw(output.raw)
    if output.text:
        text = visible(output.text)
        sys.stdout.write(output.paint(text) if output.paint and wants_colour(sys.stdout) else text)
    if output.table is not None:
        sys.stdout.write("\n" if output.text and output.table.rows else "")
        _show_table(output.table)


def _show_raw(data: bytes) -> None:
    """A memory's own text: exact bytes into a pipe, harmless on a terminal."""
    if sys.stdout.isatty():
        text = visible(data.decode("utf-8", "replace"))
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        return
    sys.stdout.buffer.write(data)


def _json(data: object, indent: int | None = 2) -> str:
    import json

    from retain.guard.characters import visible_json

    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    return visible_json(json.dumps(data, ensure_ascii=plain, indent=indent, default=str)) + "\n"


def _show_table(table: Table) -> None:
    if not table.rows:
        if table.empty:
            print(table.empty, file=sys.stderr)
        return
    rows = [[visible(cell, keep_newlines=False) for cell in row] for row in table.rows]
    rows = _short_cells(table, rows)
    if sys.stdout.isatty():
        _show_rich(table, rows)
    else:
        sys.stdout.write(_aligned(table.columns, rows))


def wants_colour(stream: TextIO) -> bool:
    """Whether whoever reads a stream sees colours and has not asked for none."""
    import os

    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not is_plain


def _short_cells(table: Table, rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows whose flexible cells are cut to what a reader takes in at a glance."""
    return [
        [
            f"{cell[: _CELL - 1]}…" if column in table.flexible and len(cell) > _CELL else cell
            for column, cell in zip(table.columns, row, strict=True)
        ]
        for row in rows
    ]


def _aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [list(columns), *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _show_rich(table: Table, rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    natural = [max(map(cell_len, cells)) for cells in zip(table.columns, *rows, strict=True)]
    widths = _fitted(natural, table, console.width - 3 * (len(natural) - 1))
    shown = RichTable(
        title=table.title or None,
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for number, column in enumerate(table.columns):
        is_flexible = column in table.flexible
        shown.add_column(
            column,
            style="cyan" if number == 0 else None,
            width=widths[number],
            no_wrap=is_flexible,
            overflow="ellipsis" if is_flexible else "fold",
        )
    for row in rows:
        shown.add_row(*map(Text, row))
    console.print(shown)


def _fitted(natural: Sequence[int], table: Table, room: int) -> list[int]:
    """Column widths for the room there is: what may be cut gives way first, the widest of it."""
    widths = list(natural)
    while sum(widths) > max(room, len(widths)):
        flexible = [
            number
            for number, column in enumerate(table.columns)
            if column in table.flexible and widths[number] > _LEAST
        ]
        given_up = [number for number in flexible if table.columns[number] == table.least]
        widest = max(given_up or flexible or range(len(widths)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def coloured(diff: str) -> str:
    """A diff as people know it: what went is red, what came is green."""
    colours = {"+++ ": "1", "--- ": "1", "+": "32", "-": "31", "@": "36"}
    lines = []
    for line in diff.splitlines(keepends=True):
        colour = colours.get(line[:4]) or colours.get(line[:1])
        lines.append(f"\x1b[{colour}m{line.rstrip()}\x1b[0m\n" if colour else line)
    return "".join(lines)


def report(error: RetainError, *, as_json: bool) -> None:
    """Say on standard error what happened, what was left alone and what to run next."""
    message = _short(error.message)
    if as_json:
        body = {
            "code": error.code,
            "message": message,
            "unchanged": error.unchanged,
            "hint": error.hint,
            **error.details,
        }
        sys.stderr.write(_json({"error": body}))
        return
    for line in filter(None, (f"retain: {message}", error.unchanged, error.hint)):
        print(visible(line), file=sys.stderr)


def _short(message: str) -> str:
    """A message that quotes what was typed, without all of it."""
    return message if len(message) <= 800 else f"{message[:400]} ... {message[-380:]}"


def surprise(error: OSError) -> RetainError:
    """What the system refused where nobody expected it to."""
    where = f"{error.filename}: " if error.filename else ""
    return RetainError(f"{where}{error.strerror or error}")


def as_context(memory: Memory) -> str:
    """A memory as an agent reads it: what it is, where it comes from, then its text."""
    created = memory.text("created_at") or "unknown"
    lines = [
        f"# {memory.title}",
        f"ID: {memory.id}",
        f"Created: {created} by {memory.text('created_by') or 'unknown'}",
    ]
    named = (
        ("Type", "" if memory.type in FREE_TYPES else memory.type),
        ("Context", memory.text("context")),
        ("Tags", ", ".join(memory.tags)),
        ("Category", memory.text("category")),
        ("Related", ", ".join(memory.related_to)),
        ("Source", memory.text("source")),
    )
    lines += [f"{name}: {value}" for name, value in named if value]
    return "\n".join([*lines, "", _readable(memory)])


def _readable(memory: Memory) -> str:
    """A memory's text; a typed one's is in its fields."""
    content = memory.meta.get("content")
    if not isinstance(content, dict):
        return memory.body
    from retain.records import render

    return "\n\n".join(filter(None, (render(content), memory.body)))


def as_versions(versions: Sequence[Version]) -> Table:
    """Versions as rows."""
    return Table(
        ("Version", "Time", "Author", "What"),
        [(one.version, one.time, one.author, one.message) for one in versions],
        empty="No earlier versions.",
        flexible=("Author", "What"),
    )


def facts_data(facts: Facts) -> dict[str, object]:
    """What an index holds, as JSON."""
    return {
        "chunks": facts.chunks,
        "vectors": facts.vectors,
        "pending": facts.pending,
        "held": facts.held,
        "model": facts.model or None,
    }


def facts_line(facts: Facts) -> str:
    """What an index holds, in a line."""
    parts = [
        f"{facts.chunks} chunk{'s' * (facts.chunks != 1)}",
        f"{facts.vectors} vector{'s' * (facts.vectors != 1)}",
    ]
    if facts.pending:
        parts.append(f"{facts.pending} waiting for one")
    if facts.vectors:
        parts.append(f"by {facts.model}")
    return ", ".join(parts)


def held_note(held: int) -> list[str]:
    """What is said when so much is gone that it was hardly meant."""
    note = (
        f"{held} memories are missing from disk at once; they are left out and not forgotten. "
        "Bring the files back, or say that it is meant: retain sync --force"
    )
    return [note] if held else []
