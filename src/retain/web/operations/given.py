"""Values that several operations on memories take, with the limits of each."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from retain.errors import Conflict
from retain.memory import Memory
from retain.web import undoing
from retain.web.operation import Given, Many, Name

ONE: Final = "/memories/{scope}/{collection}/{id}"

Text = Annotated[str, Field(max_length=2_000_000)]
Tags = Annotated[Many[Name], Field(max_length=1_000)]


class Expected(Given):
    """The hash of the text that was seen: nothing is done to another one."""

    expect: Name = ""


class Step(Expected):
    """The same; `said` comes with an undo, and holds for what the step that it takes back left."""

    said: Name = ""


class Reason(Step):
    """The same, and why something is done."""

    reason: Annotated[str, Field(max_length=2_000)] = ""


def refuse_newer(memory: Memory, expect: str, said: str = "") -> None:
    """Leave a memory alone that is no longer what was seen, or no longer what a step left."""
    if said and undoing.said(memory) != said:
        raise Conflict(
            f"{memory.ref} was changed after what you want to undo",
            unchanged="It was left as it is.",
            hint="Look at it as it is now, and do there what is still right.",
        )
    if expect and memory.hash != expect:
        raise Conflict(
            f"{memory.ref} was changed since you read it",
            unchanged="It was left as it is.",
            hint="Read it again, and change that text.",
        )
