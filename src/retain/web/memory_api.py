"""Memories over the JSON interface: stored, read, changed, moved, retired, merged, deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from retain.bank.markdown import clean_tags
from retain.errors import Conflict
from retain.memory import Memory
from retain.records.service import Outcome
from retain.web import answers, undo_steps
from retain.web.bank_pool import Scope
from retain.web.operation import Call, Given, Many, Name, Operation, collection_of, named

if TYPE_CHECKING:
    from retain.app import App


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
    if said and undo_steps.said(memory) != said:
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


Data = dict[str, Any]


class New(Given):
    """A memory to be stored."""

    text: Text
    title: Name = ""
    id: Name = ""
    collection: Name | None = None
    type: Name = ""
    tags: Tags = ()


class Changed(Given):
    """What changes in a memory; `expect` is the hash of the text that was seen.

    A title or a type that is empty is taken out of the file.
    """

    text: Text | None = None
    title: Name | None = None
    type: Name | None = None
    tags: Tags | None = None
    expect: Name = ""


class Source(Given):
    """A memory's whole file, as a person rewrote it."""

    source: Text
    expect: Name = ""


class Tagging(Given):
    """Tags that a memory gets, and tags that it loses."""

    add: Tags = ()
    remove: Tags = ()


class Place(Step):
    """Where a memory goes: another collection, another id, another bank, or all of these."""

    collection: Name | None = None
    id: Name = ""
    scope: Scope | None = None


async def _create(call: Call) -> Data:
    given: New = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        done = app.put(
            given.text,
            collection=None if given.collection is None else collection_of(given.collection),
            id=given.id,
            is_new=True,
            title=given.title,
            type=given.type,
            tags=clean_tags(given.tags) or None,
        )
        undo = [undo_steps.deleting(scope, done.memory)]
        return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.banks.use(work, scope)


async def _get(call: Call) -> Data:
    found = await call.banks.use(lambda app: app.find_own(named(call)), call.path["scope"])
    return {**found.to_dict(content=True), "source": found.data.decode("utf-8", "replace")}


async def _update(call: Call) -> Data:
    given: Changed = call.body
    scope = call.path["scope"]
    heads = {"title": given.title, "type": given.type}

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        done = app.update(
            named(call),
            given.text,
            expect=given.expect or before.hash,
            title=given.title or "",
            type=given.type or "",
            tags=None if given.tags is None else clean_tags(given.tags),
            metadata={key: None for key, value in heads.items() if value == ""},
        )
        undo = undo_steps.to_version(app, scope, before, done)
        return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.banks.use(work, scope)


async def _rewrite(call: Call) -> Data:
    given: Source = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))

        refuse_newer(before, given.expect)
        done = app.rewrite(before, given.source)
        undo = undo_steps.to_version(app, scope, before, done)
        return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.banks.use(work, scope)


async def _tag(call: Call) -> Data:
    given: Tagging = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        gone = set(given.remove) - set(given.add)
        wanted = dict.fromkeys((*before.tags, *clean_tags(given.add)))
        tags = [tag for tag in wanted if tag not in gone]
        if tags == list(before.tags):
            return undo_steps.changed(scope, before, "unchanged", (), ())
        done = app.update(named(call), tags=tags, expect=before.hash)
        undo = undo_steps.to_version(app, scope, before, done)
        return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.banks.use(work, scope)


async def _move(call: Call) -> Data:
    given: Place = call.body
    scope = call.path["scope"]
    collection = None if given.collection is None else collection_of(given.collection)

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        refuse_newer(before, given.expect, given.said)
        if given.scope and call.banks.app(given.scope) is not app:
            return _moved_over(app, before, call.banks.app(given.scope), scope, given)
        if collection is None and not given.id:
            return undo_steps.changed(scope, before, "unchanged", (), ())
        moved = app.move(named(call), to_collection=collection, to_id=given.id)
        undo = (
            [] if moved.status == "unchanged" else [undo_steps.moving(scope, before, moved.memory)]
        )
        return undo_steps.changed(scope, moved.memory, moved.status, moved.warnings, undo)

    return await call.banks.use(work, scope)


def _moved_over(app: App, before: Memory, other: App, scope: str, given: Place) -> Data:
    there = str(given.scope)
    collection = None if given.collection is None else collection_of(given.collection)
    done, gone = app.move_over(before.address, other, to_collection=collection, to_id=given.id)
    undo = [undo_steps.deleting(there, done.memory), *undo_steps.untrashing(scope, [gone.trashed])]
    warnings = [*done.warnings, *gone.warnings]
    if app.bank.versions(before):
        warnings.append("its earlier texts stay where it was")
    return undo_steps.changed(there, done.memory, done.status, warnings, undo)


async def _delete(call: Call) -> Data:
    given: Expected = call.query
    scope = call.path["scope"]

    def work(app: App) -> Data:
        done = app.delete(named(call), expect=given.expect)
        return {
            "id": done.trashed.id,
            "collection": done.trashed.collection,
            "status": "deleted",
            "trash": done.trashed.name,
            "warnings": list(done.warnings),
            "undo": undo_steps.untrashing(scope, [done.trashed]),
        }

    return await call.banks.use(work, scope)


_WRITING: Final = (
    Operation(
        "POST", "/memories/{scope}", "create", "Store a memory", _create, answers.Changed, body=New
    ),
    Operation("GET", ONE, "get", "Read a memory", _get, answers.Memory),
    Operation("PUT", ONE, "update", "Change a memory", _update, answers.Changed, body=Changed),
    Operation(
        "DELETE", ONE, "delete", "Move a memory to the trash", _delete, answers.Deleted, Expected
    ),
    Operation(
        "PUT", f"{ONE}/source", "rewrite", "Rewrite a memory's file", _rewrite, answers.Changed,
        body=Source,
    ),
    Operation(
        "POST", f"{ONE}/tags", "tag", "Add and remove tags", _tag, answers.Changed, body=Tagging
    ),
    Operation(
        "POST", f"{ONE}/move", "move", "Move or rename a memory", _move, answers.Changed,
        body=Place,
    ),
)  # fmt: skip

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
            undo = undo_steps.restoring(app, scope, before, done)
            return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

        return await call.banks.use(work, scope)

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
            *undo_steps.restoring(app, scope, other, taking),
            *undo_steps.restoring(app, scope, before, done),
        ]
        return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.banks.use(work, scope)


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
        back = undo_steps.untrashing(scope, done.trashed[::-1])  # the first one last, as above
        undo = [undo_steps.deleting(scope, after), *back]
        return undo_steps.changed(scope, after, "merged", done.written.warnings, undo)

    return await call.banks.use(work, scope)


_LIFECYCLE: Final = (
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


OPERATIONS: Final = (*_WRITING, *_LIFECYCLE)
