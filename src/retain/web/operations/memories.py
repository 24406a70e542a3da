"""One memory: stored, read, changed, tagged, moved, deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retain.bank.markdown import clean_tags
from retain.memory import Memory
from retain.web import answers, undoing
from retain.web.office import Scope
from retain.web.operation import Call, Given, Name, Operation, collection_of, named
from retain.web.operations.given import ONE, Expected, Step, Tags, Text, refuse_newer

if TYPE_CHECKING:
    from retain.app import App


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
        undo = [undoing.deleting(scope, done.memory)]
        return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.office.use(work, scope)


async def _get(call: Call) -> Data:
    found = await call.office.use(lambda app: app.find_own(named(call)), call.path["scope"])
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
        undo = undoing.to_version(app, scope, before, done)
        return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.office.use(work, scope)


async def _rewrite(call: Call) -> Data:
    given: Source = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))

        refuse_newer(before, given.expect)
        done = app.rewrite(before, given.source)
        undo = undoing.to_version(app, scope, before, done)
        return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.office.use(work, scope)


async def _tag(call: Call) -> Data:
    given: Tagging = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        gone = set(given.remove) - set(given.add)
        wanted = dict.fromkeys((*before.tags, *clean_tags(given.add)))
        tags = [tag for tag in wanted if tag not in gone]
        if tags == list(before.tags):
            return undoing.changed(scope, before, "unchanged", (), ())
        done = app.update(named(call), tags=tags, expect=before.hash)
        undo = undoing.to_version(app, scope, before, done)
        return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.office.use(work, scope)


async def _move(call: Call) -> Data:
    given: Place = call.body
    scope = call.path["scope"]
    collection = None if given.collection is None else collection_of(given.collection)

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        refuse_newer(before, given.expect, given.said)
        if given.scope and call.office.app(given.scope) is not app:
            return _moved_over(app, before, call.office.app(given.scope), scope, given)
        if collection is None and not given.id:
            return undoing.changed(scope, before, "unchanged", (), ())
        moved = app.move(named(call), to_collection=collection, to_id=given.id)
        undo = [] if moved.status == "unchanged" else [undoing.moving(scope, before, moved.memory)]
        return undoing.changed(scope, moved.memory, moved.status, moved.warnings, undo)

    return await call.office.use(work, scope)


def _moved_over(app: App, before: Memory, other: App, scope: str, given: Place) -> Data:
    there = str(given.scope)
    collection = None if given.collection is None else collection_of(given.collection)
    done, gone = app.move_over(before.address, other, to_collection=collection, to_id=given.id)
    undo = [undoing.deleting(there, done.memory), *undoing.untrashing(scope, [gone.trashed])]
    warnings = [*done.warnings, *gone.warnings]
    if app.bank.versions(before):
        warnings.append("its earlier texts stay where it was")
    return undoing.changed(there, done.memory, done.status, warnings, undo)


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
            "undo": undoing.untrashing(scope, [done.trashed]),
        }

    return await call.office.use(work, scope)


OPERATIONS: Final = (
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
