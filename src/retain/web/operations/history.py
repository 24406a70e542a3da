"""Earlier texts of a memory, its links, the trash, and texts that are only looked at."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio.to_thread

from retain.web import answers, contents, undoing, wikilinks
from retain.web.diff import compare
from retain.web.operation import Call, Given, Name, Operation, named
from retain.web.operations.given import ONE, Expected, Text, refuse_newer
from retain.web.past import past
from retain.web.rendering import part

if TYPE_CHECKING:
    from retain.app import App
    from retain.memory import Memory


Data = dict[str, Any]


class Shown(Given):
    """A text to be shown: a body, or with a suffix the whole file of a memory."""

    text: Text
    suffix: Literal["", ".md", ".json"] = ""


class Two(Given):
    """Two texts to compare."""

    old: Text
    new: Text


class Returning(Expected):
    """The same, and whether the text comes back byte by byte, as if nothing had been done to it.

    A record tells of its own changes, also of those that are taken back: without this it would
    go on saying what has taken its place.
    """

    exact: bool = False


class Thrown(Given):
    """An entry of the trash: its name, after its collection's if it has one."""

    name: Name


async def _versions(call: Call) -> Data:
    memory, history = await call.office.use(
        lambda app: app.with_history(named(call)), call.path["scope"]
    )
    known = await past(history, memory)
    return {"versions": [one.to_dict() for one in known.versions], "problem": known.problem}


async def _version(call: Call) -> Data:
    memory, history = await call.office.use(
        lambda app: app.with_history(named(call)), call.path["scope"]
    )
    found = await anyio.to_thread.run_sync(history.at, memory, call.path["version"])
    source = found.data.decode("utf-8", "replace")
    return {**found.to_dict(content=True), "source": source}


async def _restore(call: Call) -> Data:
    given: Returning = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        refuse_newer(before, given.expect)
        done = app.restore(
            before.address, call.path["version"], expect=given.expect, exact=given.exact
        )
        undo = undoing.to_version(app, scope, before, done)
        return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.office.use(work, scope)


async def _links(call: Call) -> Data:
    def read(app: App) -> Data:
        ref = app.find_own(named(call)).address
        shortfall = app.shortfalls().to_dict()
        near = [{**one.to_dict(), "degraded": shortfall} for one in app.related(ref)]
        return {**app.connections(ref).to_dict(), "related": near}

    return await call.office.use(read, call.path["scope"])


async def _trash(call: Call) -> Data:
    found = await call.office.use(lambda app: app.trashed(), call.path["scope"])
    kept = ("name", "id", "collection", "deleted_at", "size")
    return {"trashed": [{name: getattr(one, name) for name in kept} for one in found]}


async def _untrash(call: Call) -> Data:
    given: Thrown = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        done = app.untrash(given.name)
        undo = [undoing.deleting(scope, done.memory)]
        return undoing.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.office.use(work, scope)


async def _preview(call: Call) -> Data:
    given: Shown = call.body
    read = partial(contents.parsed, given.suffix or ".md", given.text, is_body=not given.suffix)
    # Not while the bank waits: a long text takes its time.
    memory = await anyio.to_thread.run_sync(read)
    linked = await anyio.to_thread.run_sync(contents.targets, memory)
    places = await call.office.use(lambda app: wikilinks.look_up(app, call.office, linked))
    return await anyio.to_thread.run_sync(partial(_laid_out, memory, places))


def _laid_out(memory: Memory, pages: wikilinks.Pages) -> Data:
    made = contents.content(memory, pages)
    return {"html": part("content.html", {"content": made, "problem": memory.problem})}


async def _compare(call: Call) -> Data:
    given: Two = call.body

    def work() -> Data:
        found = compare(given.old, given.new)
        html = part("diff.html", {"diff": found})
        return {"html": html, "removed": found.removed, "added": found.added}

    return await anyio.to_thread.run_sync(work)


OPERATIONS: Final = (
    Operation(
        "GET", f"{ONE}/versions", "versions", "List a memory's earlier texts", _versions,
        answers.Versions,
    ),
    Operation(
        "GET", f"{ONE}/versions/{{version}}", "version", "Read an earlier text", _version,
        answers.Memory,
    ),
    Operation(
        "POST", f"{ONE}/versions/{{version}}/restore", "restore_version",
        "Bring an earlier text back", _restore, answers.Changed, body=Returning,
    ),
    Operation(
        "GET", f"{ONE}/links", "links", "Show what is around a memory", _links, answers.Links
    ),
    Operation("GET", "/trash/{scope}", "trash", "List the trash", _trash, answers.Trash),
    Operation(
        "POST", "/trash/{scope}", "untrash", "Bring a deleted memory back", _untrash,
        answers.Changed, body=Thrown,
    ),
    Operation(
        "POST", "/preview", "preview", "Show a text as it would look", _preview, answers.Preview,
        body=Shown,
    ),
    Operation(
        "POST", "/compare", "compare", "Show two texts side by side", _compare, answers.Compared,
        body=Two,
    ),
)  # fmt: skip
