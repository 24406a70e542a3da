"""What happens while a message is answered, besides what the model itself says."""

from __future__ import annotations

from typing import NamedTuple

from retain.facts.store import Synced
from retain.talk.events import Event, ToolResult, ToolUse
from retain.talk.prompt import Prompt
from retain.talk.retention import Saved
from retain.text.sanitize import visible


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


Happening = Event | Assembled | ToolStarted | ToolDone | MemorySaved | Notice


def notice(text: str) -> Notice:
    """A line to show, in which nothing acts on a terminal."""
    return Notice(visible(text, keep_newlines=False))


def changes(done: Synced) -> list[Notice]:
    """What a look at MEMORY.md brought, as a person is told."""
    counts = (
        (len(done.learned), "learned"),
        (len(done.changed), "changed"),
        (len(done.forgotten), "moved to the trash"),
    )
    said = [f"{count} {what}" for count, what in counts if count]
    notes = [f"MEMORY.md was edited: {', '.join(said)}."] if said else []
    return [notice(note) for note in (*notes, *done.notes)]
