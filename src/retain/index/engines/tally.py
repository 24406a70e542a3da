"""What is held of memories, counted from the pieces that a server lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from retain.index.engines.arm import Held


class Row(NamedTuple):
    """A piece as a server lists it."""

    id: str
    memory: str
    hash: str
    written: float
    pieces: int
    model: str


def tally(rows: Iterable[Row]) -> dict[str, Held]:
    """What is held of each memory; where pieces of several versions are left, of the newest."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.memory, []).append(row)
    return {memory: _held(memory, its) for memory, its in found.items()}


def _held(memory: str, rows: Sequence[Row]) -> Held:
    newest = max(rows, key=lambda row: (row.written, row.hash))
    same = sum((row.written, row.hash) == (newest.written, newest.hash) for row in rows)
    # What is left of an older version is drift as well: it must not pass for whole.
    count = same if same != newest.pieces else len(rows)
    return Held(memory, newest.hash, newest.written, newest.pieces, count, newest.model)


def firsts(page: Iterable[Row], all_: Mapping[str, Sequence[Row]]) -> list[Held]:
    """What is held of the memories whose first piece is on this page.

    A manifest is listed piece by piece, and those of one memory are on many pages. Each memory is
    told of once, with the piece of the least id, so that no list of all memories is needed.
    """
    found = []
    for row in page:
        rows = all_.get(row.memory) or [row]
        if row.id <= min(one.id for one in rows):
            found.append(_held(row.memory, rows))
    return found
