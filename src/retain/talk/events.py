"""What a model is asked, and what happens while a message is answered.

No provider knows of these values; `Event` comes from a model, `ChatEvent` from a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.facts.store import Synced
    from retain.talk.prompt import Prompt
    from retain.talk.retention import Saved

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


# What happens besides what the model says


class Assembled(NamedTuple):
    """What the model is sent was put together."""

    prompt: Prompt


class ToolStarted(NamedTuple):
    """A tool is about to run, if it may."""

    call: ToolUse
    summary: str


class ToolDone(NamedTuple):
    """What a tool gave."""

    call: ToolUse
    result: ToolResult
    seconds: float


class MemorySaved(NamedTuple):
    """A fact of the reply was kept, was known, or could not be kept."""

    saved: Saved


class Notice(NamedTuple):
    """Something the person should know, in one line."""

    text: str


ChatEvent = Event | Assembled | ToolStarted | ToolDone | MemorySaved | Notice


def notice(text: str) -> Notice:
    """Return a line to show, in which nothing acts on a terminal."""
    return Notice(visible(text, keep_newlines=False))


def describe_sync(done: Synced) -> list[Notice]:
    """Tell what a look at MEMORY.md brought."""
    counts = (
        (len(done.learned), "learned"),
        (len(done.changed), "changed"),
        (len(done.forgotten), "moved to the trash"),
    )
    counted = [f"{count} {what}" for count, what in counts if count]
    notes = [f"MEMORY.md was edited: {', '.join(counted)}."] if counted else []
    return [notice(note) for note in (*notes, *done.notes)]
