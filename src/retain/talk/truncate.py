"""As much of a conversation as there is room for in what a model is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from retain.talk import blocks
from retain.talk.events import Block, Text, ToolResult, Turn
from retain.text.sizes import count_tokens, truncate

if TYPE_CHECKING:
    from retain.sessions.model import Message


_SHORTENED: Final = 200  # tokens that are kept of a tool's result for which there is no room


def insert_before_last(turns: Sequence[Turn], words: str) -> tuple[Turn, ...]:
    """The turns with something before what the person said last, as a text of its own."""
    for at in range(len(turns) - 1, -1, -1):
        held = turns[at].blocks
        texts = [place for place, one in enumerate(held) if isinstance(one, Text)]
        if words and turns[at].role == "user" and texts:
            put = (*held[: texts[-1]], Text(words), *held[texts[-1] :])
            return (*turns[:at], Turn("user", put), *turns[at + 1 :])
    return tuple(turns)


class FittedTurns:
    """As much of the conversation as there is room for, whole exchanges, the newest first."""

    def __init__(self, messages: Sequence[Message], room: int) -> None:
        said = [one for one in messages if one.role != "system"]
        exchanges = list(_exchanges([blocks.turn(one) for one in said]))
        self._shortened, self._room = 0, room
        kept: list[Turn] = []
        self.tokens = 0
        for whole in reversed(exchanges):
            if kept and self.tokens + _sizes(whole) > room:
                break
            exchange = whole if kept else self._fitted(whole)
            kept = [*exchange, *kept]
            self.tokens += _sizes(exchange)
        self._is_over = self.tokens > room
        self.unsent = len(said) - len(kept)  # messages that are left out
        self.turns = tuple(kept)

    def notes(self) -> Iterator[str]:
        """What is missing, and why."""
        if self.unsent:
            yield f"{self.unsent} older messages: no room; /compact summarises them"
        if self._shortened:
            yield f"{self._shortened} results of tools: shortened, no room"
        if self._is_over:
            yield "this message: there is no room for all of it, and it is sent all the same"

    def _fitted(self, exchange: list[Turn]) -> list[Turn]:
        """The newest exchange; where it alone is too large, what tools gave first is shortened."""
        over = _sizes(exchange) - self._room
        fitted: list[Turn] = []
        for turn in exchange:
            held: list[Block] = []
            for block in turn.blocks:
                short = _shortened(block) if over > 0 else block
                saved = blocks.block_size(block) - blocks.block_size(short)
                over -= saved
                self._shortened += saved > 0
                held.append(short if saved > 0 else block)
            fitted.append(turn._replace(blocks=tuple(held)))
        return fitted


def _shortened(block: Block) -> Block:
    if not isinstance(block, ToolResult) or count_tokens(block.text) <= _SHORTENED:
        return block
    text = f"{truncate(block.text, _SHORTENED)}\n[the rest is left out: no room]"
    return block._replace(text=text)


def _exchanges(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Turns from one thing the person said to the next.

    An answer, or a tool's result, means nothing without its question; what comes before the first
    one belongs to no exchange.
    """
    starts = [at for at, turn in enumerate(turns) if blocks.begins(turn)]
    for start, end in zip(starts, [*starts[1:], len(turns)], strict=True):
        yield list(turns[start:end])


def _sizes(turns: Sequence[Turn]) -> int:
    return sum(map(blocks.size, turns))
