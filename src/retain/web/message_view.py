"""What was said in a conversation, as pieces that a page can show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from retain.facts.retraction import Kept
from retain.sessions.model import Compaction, Message
from retain.talk import blocks
from retain.talk.events import Block, Text, ToolResult, ToolUse
from retain.talk.tools import summary
from retain.text.memory_tags import hide_tags
from retain.text.sanitize import flat, visible
from retain.web.markdown import Renderer, Resolve, resolve_nothing

_MOST_RESULT: Final = 20_000  # characters of what a tool gave, on a page
_MOST_INPUT: Final = 10_000

Piece = dict[str, Any]


def inert(text: str) -> str:
    """A text in which no character changes how others look."""
    return visible(text.replace("\r\n", "\n"))


def laid_out(text: str, resolve: Resolve = resolve_nothing) -> str:
    """A text of a model's as HTML."""
    return str(Renderer(resolve).render(inert(text)))


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


def texts(found: Sequence[Piece]) -> list[str]:
    """What is to be laid out of pieces, the newest first."""
    return [one["said"] for one in reversed(found) if "said" in one]


def dressed(found: Sequence[Piece], resolve: Resolve = resolve_nothing) -> list[Piece]:
    """Pieces with their texts as HTML; of what would take too long, the oldest is as written."""
    renderer = Renderer(resolve)
    made = [dict(one) for one in found]
    for one in reversed(made):
        if "said" in one:
            one["html"] = str(renderer.render(inert(one.pop("said"))))
    return made


def outlined(
    messages: Sequence[Message],
    facts: Sequence[Piece] = (),
    compactions: Sequence[Compaction] = (),
) -> list[Piece]:
    """A conversation as it looked, with texts that nobody has laid out yet.

    Each tool has its result, facts stand where they were saved, and summaries behind the messages
    for which a model reads them.
    """
    tools: dict[str, Piece] = {}
    found: list[Piece] = []
    left = list(facts)
    for number, message in enumerate(messages, 1):
        while left and message.role == "user" and message.content:
            if left[0]["when"] >= message.timestamp:
                break
            found.append(left.pop(0))
        made = list(_of_message(message, tools))
        for one in made[:1]:  # in place: a tool's result comes with a later message
            one["message"] = message.id
        found += made
        found += [
            {"kind": "summary", "said": one.summary, "when": one.created_at}
            for one in compactions
            if one.messages == number
        ]
    return found + left


def fact_piece(kept: Kept, page: str) -> Piece:
    """A fact that was saved, which can still be taken back."""
    return {
        "kind": "memory",
        "when": kept.created_at,
        "fact": flat(kept.fact, 2_000),
        "ref": kept.ref,
        "status": "supersedes" if kept.replaced else "saved",
        "replaced": flat(", ".join(kept.replaced)),
        "notes": [],
        "page": page,
        "can_undo": True,
    }


def _of_message(message: Message, tools: dict[str, Piece]) -> Iterator[Piece]:
    when = {"when": message.timestamp}
    if message.role == "user" and message.content:
        yield {"kind": "person", "text": inert(message.content), **when}
    elif message.role == "system":
        yield {"kind": "summary", "said": message.content, **when}
    else:
        for block in blocks.turn(message).blocks:
            yield from _piece(block, tools)


def _piece(block: Block, tools: dict[str, Piece]) -> Iterator[Piece]:
    if isinstance(block, Text) and block.text == blocks.STOPPED:
        yield {"kind": "note", "text": "Stopped here.", "tone": "warning"}
    elif isinstance(block, Text) and (said := hide_tags(block.text)).strip():
        # What was flagged stands below as a memory, with a button that takes it back.
        yield {"kind": "reply", "said": said}
    elif isinstance(block, ToolUse):
        tools[block.id] = shown_tool(block)
        yield tools[block.id]
    elif isinstance(block, ToolResult) and block.id in tools:
        tools[block.id] |= shown_result(block)


def _cut(text: str, most: int) -> str:
    text = inert(text)
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} characters more"
