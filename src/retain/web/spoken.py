"""What was said in a conversation, as pieces that a page can show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from retain.guard.characters import flat, visible
from retain.sessions.model import Chat, Message
from retain.talk import blocks
from retain.talk.events import Block, Text, ToolResult, ToolUse
from retain.talk.tools import summary
from retain.web.prose import rendered

__all__ = ["inert", "laid_out", "of_chat", "pieces", "shown_result", "shown_tool"]

_MOST_RESULT: Final = 20_000  # characters of what a tool gave, on a page
_MOST_INPUT: Final = 10_000

Piece = dict[str, Any]


def inert(text: str) -> str:
    """A text in which no character changes how others look."""
    return visible(text.replace("\r\n", "\n"))


def laid_out(text: str) -> str:
    """A text of a model's as HTML."""
    return str(rendered(inert(text)))


def shown_tool(call: ToolUse) -> Piece:
    """A tool that a model wants to use: in one line, and with all it was called with."""
    given = json.dumps(dict(call.input), ensure_ascii=False, indent=2, default=str)
    return {
        "kind": "tool",
        "id": call.id,
        "summary": flat(summary(call.name, call.input)),
        "input": _cut(given, _MOST_INPUT),
        "result": "",
        "state": "open",
    }


def shown_result(result: ToolResult) -> Piece:
    """What became of it."""
    return {
        "result": _cut(result.text, _MOST_RESULT),
        "state": "failed" if result.is_error else "done",
    }


def pieces(messages: Sequence[Message]) -> list[Piece]:
    """A conversation as it looked; each tool with its result."""
    tools: dict[str, Piece] = {}
    return [piece for message in messages for piece in _of_message(message, tools)]


def of_chat(chat: Chat) -> list[Piece]:
    """A whole chat, with the summaries that stand for its first messages where a model reads."""
    tools: dict[str, Piece] = {}
    found: list[Piece] = []
    for number, said in enumerate(chat.said, 1):
        given = (said.role, said.content, said.timestamp, None, said.blocks)
        found += _of_message(Message(number, chat.id, *given), tools)
        found += [
            {"kind": "summary", "html": laid_out(one.summary), "when": one.created_at}
            for one in chat.compactions
            if one.messages == number
        ]
    return found


def _of_message(message: Message, tools: dict[str, Piece]) -> Iterator[Piece]:
    when = {"when": message.timestamp}
    if message.role == "user" and message.content:
        yield {"kind": "person", "text": inert(message.content), **when}
    elif message.role == "system":
        yield {"kind": "summary", "html": laid_out(message.content), **when}
    else:
        for block in blocks.turn(message).blocks:
            yield from _piece(block, tools)


def _piece(block: Block, tools: dict[str, Piece]) -> Iterator[Piece]:
    if isinstance(block, Text) and block.text == blocks.STOPPED:
        yield {"kind": "note", "text": "Stopped here.", "tone": "warning"}
    elif isinstance(block, Text) and block.text.strip():
        yield {"kind": "reply", "html": laid_out(block.text)}
    elif isinstance(block, ToolUse):
        tools[block.id] = shown_tool(block)
        yield tools[block.id]
    elif isinstance(block, ToolResult) and block.id in tools:
        tools[block.id] |= shown_result(block)


def _cut(text: str, most: int) -> str:
    text = inert(text)
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} characters more"
