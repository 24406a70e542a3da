"""A conversation as any provider takes it: every tool's use with its result, and no empty text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from retain.sizes import tokens
from retain.talk.events import Ask, Block, Text, Thought, ToolResult, ToolUse, Turn, Usage

__all__ = ["PARTING", "arguments", "called", "clean", "estimate", "mended"]

PARTING: Final = "\n\n---\n\n"
_UNFINISHED: Final = "This was interrupted, and there is no result."
_NOTHING: Final = "(no output)"


def mended(turns: Sequence[Turn], model: str) -> list[Turn]:
    """The turns without what a provider refuses.

    A conversation may have been cut, resumed after a crash, or begun with another model: a use
    without its result is given one, a result without its use is dropped, and so are the thoughts
    of another model.
    """
    first = next((at for at, turn in enumerate(turns) if turn.role != "assistant"), len(turns))
    turns = turns[first:]  # nobody takes a conversation that begins with a reply
    kept: list[Turn] = []
    for at, turn in enumerate(turns):
        results = _results(turns[at + 1]) if at + 1 < len(turns) else {}
        asked = [one.id for one in kept[-1].blocks if isinstance(one, ToolUse)] if kept else []
        blocks = tuple(_usable(turn.blocks, asked, model))
        if blocks:
            kept.append(Turn(turn.role, blocks))
        open_ones = [
            ToolResult(one.id, _UNFINISHED, is_error=True)
            for one in blocks
            if isinstance(one, ToolUse) and one.id not in results
        ]
        if open_ones:
            # The next turn may have the results of the others, and all belong in one turn.
            used = [one.id for one in blocks if isinstance(one, ToolUse)]
            answered = [results[id_] for id_ in used if id_ in results]
            kept.append(Turn("user", (*answered, *open_ones)))
    return _merged(kept)


def _results(turn: Turn) -> dict[str, ToolResult]:
    return {one.id: one for one in turn.blocks if isinstance(one, ToolResult)}


def _usable(blocks: Iterable[Block], asked: Sequence[str], model: str) -> Iterator[Block]:
    for one in blocks:
        match one:
            case Text(text) if text.strip():
                yield Text(clean(text))
            case ToolUse():
                yield one
            case ToolResult(id_, text, is_error) if id_ in asked:
                yield ToolResult(id_, clean(text).strip() or _NOTHING, is_error)
            case Thought() if one.model == model:
                yield one
            case _:
                pass


def _merged(turns: Iterable[Turn]) -> list[Turn]:
    """Neighbours of one side as one turn, results first, as a provider wants them."""
    merged: list[Turn] = []
    for turn in turns:
        if merged and merged[-1].role == turn.role:
            both = (*merged[-1].blocks, *turn.blocks)
            if turn.role == "user":
                both = tuple(sorted(both, key=lambda one: not isinstance(one, ToolResult)))
            merged[-1] = Turn(turn.role, both)
        else:
            merged.append(turn)
    return merged


def clean(text: str) -> str:
    """A text that can be encoded, whatever a file name or a broken pipe put into it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def arguments(use: ToolUse) -> str:
    """A tool's input as JSON."""
    return json.dumps(dict(use.input), ensure_ascii=True, default=str)


def called(id_: str, name: str, text: str) -> ToolUse:
    """A tool's use from the JSON of its input, which a model may have got wrong."""
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        return ToolUse(id_, name, given)
    return ToolUse(id_, name, {}, broken=text)


def estimate(ask: Ask, reply: str) -> Usage:
    """About how many tokens went each way, for a server that does not say."""
    read = [*ask.system, *(f"{one.description} {dict(one.schema)}" for one in ask.tools)]
    for turn in ask.messages:
        read += [arguments(one) if isinstance(one, ToolUse) else _text(one) for one in turn.blocks]
    return Usage(sum(map(tokens, read)), tokens(reply), estimated=True)


def _text(one: Block) -> str:
    return one.text if isinstance(one, Text | ToolResult) else ""
