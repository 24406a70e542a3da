"""Typed memories by their fields: stored, and changed field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field
from typing_extensions import TypeAliasType

from retain.bank.markdown import clean_tags
from retain.web import answers, undoing
from retain.web.operation import Call, Given, Name, Operation, named
from retain.web.operations.given import ONE, Tags, Text

if TYPE_CHECKING:
    from retain.app import App
    from retain.records.service import Outcome


Data = dict[str, Any]

_MOST: Final = 2_000  # values in a list, and fields; a request has 10,000 at most
# Whatever JSON can say: which of it a field takes, the category's own schema knows.
Value = TypeAliasType("Value", "bool | int | float | Text | Items | Content | None")
Items = Annotated[list[Value], Field(max_length=_MOST, fail_fast=True)]
Content = Annotated[dict[Name, Value], Field(max_length=_MOST, fail_fast=True)]


class Record(Given):
    """A typed memory to be stored: a category, and what its fields say."""

    category: Name
    content: Content
    title: Name = ""
    id: Name = ""
    tags: Tags = ()


class Revised(Given):
    """Fields that change in a typed memory; `expect` is the hash of the text that was seen.

    A field of the content that is null is taken out, and what is not named stays as it is.
    """

    content: Content = Field(default_factory=dict)
    title: Name | None = None
    tags: Tags | None = None
    expect: Name = ""


async def _create(call: Call) -> Data:
    given: Record = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        done = app.record(
            given.category,
            given.content,
            id=given.id,
            title=given.title.strip(),
            tags=clean_tags(given.tags),
        )
        undo = [undoing.deleting(scope, done.memory)]
        return undoing.changed(scope, done.memory, done.status, _said(done), undo)

    return await call.office.use(work, scope)


async def _revise(call: Call) -> Data:
    given: Revised = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        done = app.revise(
            named(call),
            given.content,
            expect=given.expect or before.hash,
            title=None if given.title is None else given.title.strip(),
            tags=None if given.tags is None else clean_tags(given.tags),
        )
        undo = undoing.restoring(app, scope, before, done)
        return undoing.changed(scope, done.memory, done.status, _said(done), undo)

    return await call.office.use(work, scope)


def _said(done: Outcome) -> list[str]:
    """What is to be said of it: what was mended in what was given, and what to be careful with."""
    return [*(f"mended: {note}" for note in done.notes), *done.warnings]


OPERATIONS: Final = (
    Operation(
        "POST", "/records/{scope}", "create_record", "Store a typed memory", _create,
        answers.Changed, body=Record,
    ),
    Operation(
        "PUT", f"{ONE}/content", "revise", "Change fields of a typed memory", _revise,
        answers.Changed, body=Revised,
    ),
)  # fmt: skip
