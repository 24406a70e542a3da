"""Memories taken out of force and put back, replaced by others, and merged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from retain.records.service import Outcome
from retain.web import answers, undoing
from retain.web.operation import Call, Given, Many, Name, Operation, collection_of, named
from retain.web.operations.given import ONE, Reason, Step, Tags, Text, refuse_newer

if TYPE_CHECKING:
    from retain.app import App


Data = dict[str, Any]
Taken = Callable[["App", str, str], Outcome]


class Successor(Given):
    """The memory that takes another one's place: `collection/id`, or an id."""

    by: Name


class Seen(Given):
    """A memory as it was seen: one that was changed since is left alone."""

    ref: Name
    expect: Name = ""


class Merging(Given):
    """Several memories, the one that takes their place, and its text."""

    sources: Annotated[Many[Seen | Name], Field(min_length=2, max_length=100)]
    id: Name
    text: Text
    collection: Name | None = None
    title: Name = ""
    tags: Tags | None = None


def _stepping(to: str, step: Taken) -> Callable[[Call], Awaitable[Data]]:
    """One step of a memory's life to a status, as an operation."""

    async def handler(call: Call) -> Data:
        scope, reason = call.path["scope"], str(getattr(call.body, "reason", ""))

        def work(app: App) -> Data:
            before = app.find_own(named(call))
            # Whoever asks again, because no answer came, asks for what is so already.
            refuse_newer(before, call.body.expect, "" if before.status == to else call.body.said)
            done = step(app, named(call), reason)
            undo = undoing.restoring(app, scope, before, done)
            return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

        return await call.office.use(work, scope)

    return handler


_retire = _stepping("retired", lambda app, ref, reason: app.retire(ref, reason))
_archive = _stepping("archived", lambda app, ref, reason: app.archive(ref, reason))
_restore = _stepping("active", lambda app, ref, _reason: app.unretire(ref))
_unarchive = _stepping("active", lambda app, ref, _reason: app.unarchive(ref))


async def _supersede(call: Call) -> Data:
    given: Successor = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before, other = app.find_own(named(call)), app.find_own(given.by)
        done, taking = app.supersede(named(call), other.address)
        # Its own memory last: that is where a page goes on after an undo.
        undo = [
            *undoing.restoring(app, scope, other, taking),
            *undoing.restoring(app, scope, before, done),
        ]
        return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.office.use(work, scope)


async def _merge(call: Call) -> Data:
    given: Merging = call.body
    scope = call.path["scope"]
    collection = None if given.collection is None else collection_of(given.collection)

    def work(app: App) -> Data:
        seen = [Seen(ref=one) if isinstance(one, str) else one for one in given.sources]
        expect = {app.find_own(one.ref).address: one.expect for one in seen}
        refs = [one.ref for one in seen]
        done = app.merge(
            refs,
            given.id,
            given.text,
            collection=collection,
            expect=expect,
            title=given.title,
            tags=given.tags,
        )
        after = done.written.memory
        back = undoing.untrashing(scope, done.trashed[::-1])  # the first one last, as above
        undo = [undoing.deleting(scope, after), *back]
        return undoing.changed(scope, after, "merged", done.written.warnings, undo)

    return await call.office.use(work, scope)


OPERATIONS: Final = (
    Operation(
        "POST", f"{ONE}/retire", "retire", "Take a memory out of force", _retire,
        answers.Changed, body=Reason,
    ),
    Operation(
        "POST", f"{ONE}/archive", "archive", "Put a memory on the shelf", _archive,
        answers.Changed, body=Reason,
    ),
    Operation(
        "POST", f"{ONE}/restore", "restore", "Put a retired memory in force again", _restore,
        answers.Changed, body=Step,
    ),
    Operation(
        "POST", f"{ONE}/unarchive", "unarchive", "Take a memory off the shelf", _unarchive,
        answers.Changed, body=Step,
    ),
    Operation(
        "POST", f"{ONE}/supersede", "supersede", "Say what has taken a memory's place",
        _supersede, answers.Changed, body=Successor,
    ),
    Operation(
        "POST", "/merges/{scope}", "merge", "Put one memory in the place of several", _merge,
        answers.Changed, body=Merging,
    ),
)  # fmt: skip
