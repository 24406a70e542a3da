"""Memories looked through and searched, and the searches that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from retain.index.queries import Chosen, Listed
from retain.memory import Hit
from retain.search.request import SearchRequest
from retain.web import answers, looking, undoing
from retain.web.looking import Sought
from retain.web.office import HERE, OWN, Office, Scope
from retain.web.operation import Call, Given, Many, Name, Operation, collection_of
from retain.web.rendering import address
from retain.web.searches import Searches

if TYPE_CHECKING:
    from retain.app import App


Data = dict[str, Any]
Names = Annotated[Many[Name], Field(max_length=200)]
Day = Annotated[str, Field(pattern=r"^(\d{4}-\d{2}-\d{2})?$")]


class Facets(Given):
    """What is chosen of each facet; several values of one mean either."""

    collection: Names = ()
    type: Names = ()
    tag: Names = ()
    status: Names = ()
    scope: Annotated[Many[Scope], Field(max_length=2)] = ()
    month: Names = ()
    since: Day = ""
    until: Day = ""

    def chosen(self, app: App) -> Chosen:
        """The same as the engine calls it, for whom the bank in force has another name."""
        names = {HERE: app.location.scope, OWN: "global"}
        return Chosen(
            tuple(map(collection_of, self.collection)),
            self.type,
            self.status,
            self.tag,
            self.month,
            self.since,
            self.until,
            tuple(names[one] for one in self.scope),
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


class Begun(Given):
    """The beginning of what a memory is called, in one bank."""

    q: Annotated[str, Field(max_length=200)]
    scope: Scope = "here"
    limit: Annotated[int, Field(ge=1, le=20)] = 8


class Kept(Given):
    """The end of an address of the list, after the question mark."""

    query: Annotated[str, Field(max_length=4_000)]


async def _list(call: Call) -> Data:
    given: Listing = call.query

    def read(app: App) -> Data:
        wanted = Sought(chosen=given.chosen(app), order=given.sort)
        found = looking.found(app, wanted, given.limit, given.offset)
        return {
            "total": found.total,
            "memories": [_listed(call.office, one) for one in found.listed],
            "facets": _facets(call.office, found),
        }

    return await call.office.use(read)


def _facets(office: Office, found: looking.Found) -> Data:
    """How many memories each value has, with the banks called as in every address."""
    counts = {name: dict(values) for name, values in found.facets.items()}
    banks = counts.get("scope", {})
    return counts | {"scope": {office.scope_of(shown): count for shown, count in banks.items()}}


def _listed(office: Office, one: Any) -> Data:
    return {
        **_name(office.scope_of(one.scope), one),
        "type": one.type,
        "status": one.status,
        "tags": list(one.tags),
        "created_at": one.created or None,
        "superseded": one.is_superseded,
        "start": one.start,
    }


async def _search(call: Call) -> Data:
    given: Question = call.query

    def read(app: App) -> Data:
        wanted = Sought(given.q.strip(), given.chosen(app), mode=given.mode, is_wide=True)
        if not wanted.question:
            return {**_NOTHING, "query": given.q, "mode": given.mode}
        found = looking.found(app, wanted, given.limit, given.offset)
        assert found.answer is not None  # noqa: S101 - there is a question
        answer = found.answer._replace(hits=found.hits)
        told = {"query": given.q, "mode": given.mode, **answer.to_dict()}
        pages = [
            address(call.office.scope_of(hit.scope), hit.collection, hit.id) for hit in found.hits
        ]
        hits = zip([hit.to_dict() for hit in found.hits], pages, strict=True)
        return {
            **told,
            "total": found.total,
            "hits": [{**hit, "page": page} for hit, page in hits],
            "facets": _facets(call.office, found),
        }

    return await call.office.use(read)


async def _names(call: Call) -> Data:
    given: Begun = call.query

    def read(app: App) -> Data:
        if not app.location.exists:
            return {"memories": []}
        # Who does not know what a memory is called may still know what it is about.
        found = app.find_by_name(given.q, given.limit) or _nearest(app, given)
        return {"memories": [_name(given.scope, one) for one in found]}

    return await call.office.use(read, given.scope)


def _nearest(app: App, given: Begun) -> Sequence[Hit]:
    if not given.q.strip():
        return ()
    answer, _ = app.search_with_tally(
        SearchRequest(given.q, limit=given.limit), [app.location.scope]
    )
    return answer.hits


def _name(scope: str, one: Listed | Hit) -> Data:
    return {
        "id": one.id,
        "collection": one.collection,
        "scope": scope,
        "page": address(scope, one.collection, one.id),
        "title": one.title,
    }


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
    Operation(
        "GET", "/names", "names", "Complete what a memory is called", _names, answers.Names, Begun
    ),
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
