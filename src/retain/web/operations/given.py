"""Values that several operations on memories take, with the limits of each."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from retain.web.operation import Given, Many, Name

__all__ = ["ONE", "Expected", "Name", "Reason", "Tags", "Text"]

ONE: Final = "/memories/{scope}/{collection}/{id}"

Text = Annotated[str, Field(max_length=2_000_000)]
Tags = Annotated[Many[Name], Field(max_length=1_000)]


class Expected(Given):
    """The hash of the text that was seen: nothing is done to another one."""

    expect: Name = ""


class Reason(Given):
    """Why something is done."""

    reason: Annotated[str, Field(max_length=2_000)] = ""
