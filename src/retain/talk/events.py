"""What a model is asked, and what happens while it replies: values that no provider knows of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Role = Literal["user", "assistant", "system"]
Reason = Literal["end", "tools", "length", "refused"]


class Text(NamedTuple):
    """Words of a turn."""

    text: str


class ToolUse(NamedTuple):
    """A model's wish to use a tool: a block of its turn, and an event while it replies.

    `broken` is what came in place of a JSON object, if that is what came: the tool is then not
    run, and the model is told.
    """

    id: str
    name: str
    input: Mapping[str, object]
    broken: str = ""


class ToolResult(NamedTuple):
    """What became of a tool's use, for the model."""

    id: str
    text: str
    is_error: bool = False


class Thought(NamedTuple):
    """What a model wants back as it was, in its place among the blocks: an event, and a block.

    Only the model it came from can read it, so it is left out of what any other is sent.
    """

    model: str
    data: Mapping[str, object]


Block = Text | ToolUse | ToolResult | Thought


class Turn(NamedTuple):
    """One side's part of a conversation."""

    role: Role
    blocks: tuple[Block, ...]


class ToolSpec(NamedTuple):
    """A tool as a model is told of it; `schema` is the JSON Schema of its input."""

    name: str
    description: str
    schema: Mapping[str, Any]
    purpose: str = ""  # for people


class Ask(NamedTuple):
    """All that a model is sent; the first `stable` parts of the system prompt seldom change."""

    system: tuple[str, ...]
    messages: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 0  # 0 means as many as the provider gives
    stable: int = 1
    may_use_tools: bool = True  # if not, they are named only because the conversation has them


class TextDelta(NamedTuple):
    """More of the reply's text."""

    text: str


class Thinking(NamedTuple):
    """The model thinks; the words, if it shows any, are for a screen and no part of the reply."""

    text: str


class Retrying(NamedTuple):
    """Nothing has come yet, and the same is asked again in so many seconds."""

    seconds: float
    why: str


class Usage(NamedTuple):
    """Tokens: all that were read, those written, and how many of the read ones were cached."""

    input: int
    output: int
    cached: int = 0
    estimated: bool = False


class Finished(NamedTuple):
    """The reply is complete, and why it ended."""

    reason: Reason


Event = TextDelta | Thinking | Thought | ToolUse | Retrying | Usage | Finished
