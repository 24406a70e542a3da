"""Memories: listed, found, read, written, moved, taken out of force and brought back."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from retain import shapes
from retain.drafts import Draft
from retain.recall.asking import Wanted, conditions
from retain.web.office import HERE
from retain.web.operation import Call, Given, Operation, collection_of, named

__all__ = ["OPERATIONS"]

Data = dict[str, Any]
Text = Annotated[str, Field(max_length=2_000_000)]
Name = Annotated[str, Field(max_length=400)]
Tags = Annotated[tuple[Name, ...], Field(max_length=1_000)]


class Search(Given):
    """A question, and what its answers must be."""

    q: Annotated[str, Field(max_length=100_000)]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    mode: Name = "hybrid"
    collection: Name | None = None
    type: Name = ""
    tag: Tags = ()
    since: Name = ""
    until: Name = ""


class New(Given):
    """A memory to be stored."""

    text: Text
    title: Name = ""
    id: Name = ""
    collection: Name | None = None
    type: Name = ""
    tags: Tags = ()


class Changed(Given):
    """What changes in a memory; `expect` is the hash of the text that was seen."""

    text: Text | None = None
    title: Name = ""
    type: Name = ""
    tags: Tags | None = None
    expect: Name = ""


async def _search(call: Call) -> Data:
    given: Search = call.query
    wanted = Wanted(
        given.q,
        limit=given.limit,
        mode=given.mode,
        explain=True,
        conditions=conditions(
            collection=given.collection,
            kind=given.type,
            tags=given.tag,
            since=given.since,
            until=given.until,
        ),
    )
    found = await call.office.use(lambda app: app.library.search(wanted))
    return shapes.answer(given.q, given.mode, found)


async def _create(call: Call) -> Data:
    given: New = call.body
    draft = Draft(given.text, given.title, given.type, given.tags or None)
    done = await call.office.use(
        lambda app: app.put(
            draft,
            collection=None if given.collection is None else collection_of(given.collection),
            name=given.id,
            is_new=True,
        ),
        call.path.get("scope", HERE),
        writes=True,
    )
    return shapes.written(done)


async def _get(call: Call) -> Data:
    found = await call.office.use(lambda app: app.ours(named(call)), call.path["scope"])
    return shapes.memory(found, content=True)


async def _update(call: Call) -> Data:
    given: Changed = call.body
    draft = Draft(given.text, given.title, given.type, given.tags)
    done = await call.office.use(
        lambda app: app.update(named(call), draft, expect=given.expect),
        call.path["scope"],
        writes=True,
    )
    return shapes.written(done)


_ONE: Final = "/memories/{scope}/{collection}/{id}"

OPERATIONS: Final = (
    Operation("GET", "/search", "search", "Find memories", _search, query=Search),
    Operation("POST", "/memories/{scope}", "create", "Store a memory", _create, body=New),
    Operation("GET", _ONE, "get", "Read a memory", _get),
    Operation("PUT", _ONE, "update", "Change a memory", _update, body=Changed),
)
