"""A message as a model is sent it, and as it is kept: the same blocks, in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from retain.talk.events import Block, Role, Text, Thought, ToolResult, ToolUse, Turn
from retain.text.sizes import count_tokens

if TYPE_CHECKING:
    from retain.sessions.model import Message


# What a model, and whoever takes up the conversation again, is told of a reply that was stopped.
STOPPED: Final = "[The person stopped this reply here.]"

_TYPES: Final[Mapping[type[Block], str]] = {
    Text: "text",
    ToolUse: "tool_use",
    ToolResult: "tool_result",
    Thought: "thought",
}
# What either side can say; anything else in a kept message was put there.
_KINDS: Final[dict[Role, tuple[type[Block], ...]]] = {
    "user": (Text, ToolResult),
    "assistant": (Text, ToolUse, Thought),
}


def pack(blocks: Iterable[Block], *, is_stopped: bool = False) -> tuple[dict[str, object], ...]:
    """Return blocks as they are kept with a message, and that it was stopped there."""
    kept = [{"type": _TYPES[type(block)], **block._asdict()} for block in blocks]
    return (*kept, *([{"type": "stopped"}] if is_stopped else ()))


def turn(message: Message) -> Turn:
    """A kept message as a model is sent it."""
    role: Role = "assistant" if message.role == "assistant" else "user"
    kinds = _KINDS[role]
    found = tuple(one for one in map(_unpack, message.blocks) if isinstance(one, kinds))
    if "".join(one.text for one in found if isinstance(one, Text)) != message.content:
        # Somebody's hand was in it: the model is told what the person can read.
        used = [one for one in found if not isinstance(one, Text)]
        said = [Text(message.content)] if message.content else []
        # Results of tools come before anything else.
        found = (*used, *said) if role == "user" else (*said, *used)
    return Turn(role, (*(found or (Text(message.content),)), *_stopped(message)))


def _stopped(message: Message) -> tuple[Text, ...]:
    """What is to be said where a reply was stopped."""
    is_stopped = any(kept.get("type") == "stopped" for kept in message.blocks)
    return (Text(STOPPED),) if is_stopped and message.role == "assistant" else ()


def _unpack(kept: Mapping[str, Any]) -> Block | None:
    """A kept block; None for one that a later Retain, or somebody's hand, has put there."""
    try:
        kind = kept["type"]
        if kind == "text":
            return Text(str(kept["text"]))
        if kind == "tool_use":
            given = dict(kept["input"])
            broken = str(kept.get("broken", ""))
            given = given if _is_json(given) else {}
            return ToolUse(str(kept["id"]), str(kept["name"]), given, broken)
        if kind == "tool_result":
            return ToolResult(str(kept["id"]), str(kept["text"]), bool(kept["is_error"]))
        if kind == "thought":
            data = dict(kept["data"])
            return Thought(str(kept["model"]), data) if _is_json(data) else None
    except (KeyError, TypeError, ValueError):
        return None
    return None


def _is_json(value: object) -> bool:
    """Whether a value can be sent: Python keeps and reads numbers that JSON does not have."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def begins(one: Turn) -> bool:
    """Whether a turn is something a person said, with which a conversation can begin."""
    return one.role == "user" and not any(isinstance(block, ToolResult) for block in one.blocks)


def size(one: Turn) -> int:
    """About how many tokens a turn takes."""
    return 4 + sum(map(block_size, one.blocks))


def block_size(block: Block) -> int:
    """About how many tokens a block takes."""
    if isinstance(block, Text | ToolResult):
        return count_tokens(block.text)
    if isinstance(block, ToolUse):
        return count_tokens(block.name) + count_tokens(json.dumps(dict(block.input), default=str))
    return count_tokens(json.dumps(dict(block.data), default=str))
