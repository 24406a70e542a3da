"""Memories looked through and searched, and the searches that were kept."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from retain import shapes
from retain.index.catalogue import Chosen
from retain.web import answers, looking, undoing
from retain.web.looking import Sought
from retain.web.office import Office
from retain.web.operation import Call, Given, Many, Operation, collection_of
from retain.web.operations.given import Name
from retain.web.rendering import address
from retain.web.searches import Searches

__all__ = ["OPERATIONS"]

Data = dict[str, Any]
Names = Annotated[Many[Name], Field(max_length=200)]
Day = Annotated[str, Field(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]


class Facets(Given):
    """What is chosen of each facet; several values of one mean either."""

    collection: Names = ()
    type: Names = ()
    tag: Names = ()
    status: Names = ()
    scope: Names = ()
    month: Names = ()
    since: Day = ""
    until: Day = ""

    def chosen(self) -> Chosen:
        return Chosen(
            tuple(map(collection_of, self.collection)),
            self.type,
            self.status,
            self.tag,
            self.month,
            self.since,
            self.until,
            self.scope,
        )


class Listing(Facets):
    """One page of a list."""

    sort: Literal["updated", "created", "oldest", "title"] = "updated"
    limit: Annotated[int, Field(ge=1, le=200)] = looking.PAGE
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0


class Question(Facets):
    """A question, and what its answers must be."""

    q: Annotated[str, Field(max_length=looking.LONGEST)]
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0
    mode: Literal["hybrid", "text", "semantic"] = "hybrid"


class Kept(Given):
    """The end of an address of the list, after the question mark."""

    query: Annotated[str, Field(max_length=4_000)]


async def _list(call: Call) -> Data:
    given: Listing = call.query
    wanted = Sought(chosen=given.chosen(), order=given.sort)

    def read(app: Any) -> Data:
        found = looking.found(app, wanted, given.limit, given.offset)
        return {
            "total": found.total,
            "memories": [_listed(call.office, one) for one in found.listed],
            "facets": {name: dict(values) for name, values in found.facets.items()},
        }

    return await call.office.use(read)


def _listed(office: Office, one: Any) -> Data:
    scope = office.scope_of(one.scope)
    return {
        "id": one.id,
        "collection": one.collection,
        "scope": scope,
        "page": address(scope, one.collection, one.id),
        "title": one.title,
        "type": one.type,
        "status": one.status,
        "tags": list(one.tags),
        "created_at": one.created or None,
        "superseded": one.is_superseded,
        "start": one.start,
    }


async def _search(call: Call) -> Data:
    given: Question = call.query
    wanted = Sought(given.q.strip(), given.chosen(), mode=given.mode, is_wide=True)

    def read(app: Any) -> Data:
        if not wanted.question:
            return {**_NOTHING, "query": given.q, "mode": given.mode}
        found = looking.found(app, wanted, given.limit, given.offset)
        assert found.answer is not None  # noqa: S101 - there is a question
        told = shapes.answer(given.q, given.mode, found.answer._replace(hits=found.hits))
        pages = [
            address(call.office.scope_of(hit.scope), hit.collection, hit.id) for hit in found.hits
        ]
        hits = zip(list(map(shapes.hit, found.hits)), pages, strict=True)
        return {
            **told,
            "total": found.total,
            "hits": [{**hit, "page": page} for hit, page in hits],
            "facets": {name: dict(values) for name, values in found.facets.items()},
        }

    return await call.office.use(read)


_NOTHING: Final = {
    "total": 0,
    "hits": [],
    "confidence": 0.0,
    "confident": False,
    "degraded": None,
    "facets": {},
}


async def _searches(call: Call) -> Data:
    return {"searches": await call.office.use(lambda _app: Searches().all())}


async def _keep(call: Call) -> Data:
    given: Kept = call.body
    name = call.path["name"]
    every, before = await call.office.use(lambda _app: Searches().keep(name, given.query))
    path = f"/searches/{quote(' '.join(name.split()), safe='')}"
    back = None if before is None else {"query": before}
    undo = undoing.to_call("DELETE" if before is None else "PUT", path, back)
    return {"searches": every, "undo": [undo]}


async def _forget(call: Call) -> Data:
    name = call.path["name"]
    every, query = await call.office.use(lambda _app: Searches().forget(name))
    undo = undoing.to_call("PUT", f"/searches/{quote(name, safe='')}", {"query": query})
    return {"searches": every, "undo": [undo]}


OPERATIONS: Final = (
    Operation(
        "GET", "/memories", "list", "Look through memories", _list, answers.Memories, Listing
    ),
    Operation("GET", "/search", "search", "Find memories", _search, answers.Hits, Question),
    Operation("GET", "/searches", "searches", "List kept searches", _searches, answers.Searches),
    Operation(
        "PUT", "/searches/{name}", "keep_search", "Keep a search", _keep, answers.SearchesChanged,
        body=Kept,
    ),
    Operation(
        "DELETE", "/searches/{name}", "forget_search", "Forget a search", _forget,
        answers.SearchesChanged,
    ),
)  # fmt: skip
