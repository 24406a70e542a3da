"""The earlier texts of a memory, read beside the bank's turn: git may take its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import anyio.to_thread

from retain.errors import HistoryError

if TYPE_CHECKING:
    from retain.bank.history import History
    from retain.memory import Memory, Version


_MOST: Final = 200  # versions; a page with more helps nobody


class Past(NamedTuple):
    """The newest versions, and why those of git are not among them."""

    versions: list[Version]
    problem: str = ""


async def past(history: History, memory: Memory) -> Past:
    """What is known of a memory's earlier texts; without git, the copies that were kept."""
    return await anyio.to_thread.run_sync(_read, history, memory)


def _read(history: History, memory: Memory) -> Past:
    try:
        return Past(history.versions(memory, _MOST))
    except HistoryError as error:
        return Past(history.numbered(memory)[:_MOST], error.message)
