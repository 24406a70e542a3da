"""The list of memories and the search: as a page and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from markupsafe import Markup
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.index.queries import Chosen, Listed
from retain.memory import Hit
from retain.search.rank import describe_fit, fits, query_terms
from retain.search.request import SearchRequest
from retain.web import answers, search_state, snippets, undo_steps
from retain.web.bank_pool import HERE, OWN, BankPool, Scope
from retain.web.operation import Call, Given, Many, Name, Operation, collection_of
from retain.web.rendering import address, page
from retain.web.search_state import PAGE, Found, SearchState
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
    limit: Annotated[int, Field(ge=1, le=200)] = search_state.PAGE
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0


class Question(Facets):
    """A question, and what its answers must be."""

    q: Annotated[str, Field(max_length=search_state.LONGEST)]
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
        wanted = SearchState(chosen=given.chosen(app), order=given.sort)
        found = search_state.found(app, wanted, given.limit, given.offset)
        return {
            "total": found.total,
            "memories": [_listed(call.banks, one) for one in found.listed],
            "facets": _facets(call.banks, found),
        }

    return await call.banks.use(read)


def _facets(banks: BankPool, found: search_state.Found) -> Data:
    """How many memories each value has, with the banks called as in every address."""
    counts = {name: dict(values) for name, values in found.facets.items()}
    scopes = counts.get("scope", {})
    return counts | {"scope": {banks.scope_of(shown): count for shown, count in scopes.items()}}


def _listed(banks: BankPool, one: Any) -> Data:
    return {
        **_name(banks.scope_of(one.scope), one),
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
        wanted = SearchState(given.q.strip(), given.chosen(app), mode=given.mode, is_wide=True)
        if not wanted.question:
            return {**_NOTHING, "query": given.q, "mode": given.mode}
        found = search_state.found(app, wanted, given.limit, given.offset)
        assert found.answer is not None  # noqa: S101 - there is a question
        answer = found.answer._replace(hits=found.hits)
        told = {"query": given.q, "mode": given.mode, **answer.to_dict()}
        pages = [
            address(call.banks.scope_of(hit.scope), hit.collection, hit.id) for hit in found.hits
        ]
        hits = zip([hit.to_dict() for hit in found.hits], pages, strict=True)
        return {
            **told,
            "total": found.total,
            "hits": [{**hit, "page": page} for hit, page in hits],
            "facets": _facets(call.banks, found),
        }

    return await call.banks.use(read)


async def _names(call: Call) -> Data:
    given: Begun = call.query

    def read(app: App) -> Data:
        if not app.location.exists:
            return {"memories": []}
        # Who does not know what a memory is called may still know what it is about.
        found = app.find_by_name(given.q, given.limit) or _nearest(app, given)
        return {"memories": [_name(given.scope, one) for one in found]}

    return await call.banks.use(read, given.scope)


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
    return {"searches": await call.banks.use(lambda _app: Searches().all())}


async def _keep(call: Call) -> Data:
    given: Kept = call.body
    name = call.path["name"]
    every, before = await call.banks.use(lambda _app: Searches().keep(name, given.query))
    path = f"/searches/{quote(' '.join(name.split()), safe='')}"
    back = None if before is None else {"query": before}
    undo = undo_steps.to_call("DELETE" if before is None else "PUT", path, back)
    return {"searches": every, "undo": [undo]}


async def _forget(call: Call) -> Data:
    name = call.path["name"]
    every, query = await call.banks.use(lambda _app: Searches().forget(name))
    undo = undo_steps.to_call("PUT", f"/searches/{quote(name, safe='')}", {"query": query})
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


# The page

_MOST: Final = {"tag": 40, "month": 36, "type": 30, "collection": 60}  # values of a facet shown
_FEW: Final = 8  # values that are shown before the rest is unfolded
_TITLES: Final = {
    "scope": "Bank",
    "collection": "Collection",
    "type": "Type",
    "status": "Status",
    "tag": "Tag",
    "month": "Month",
}


class Row(NamedTuple):
    """One memory in the list."""

    scope: str
    collection: str
    id: str
    page: str
    title: str
    shown: Markup  # the title with the words of a question marked
    type: str
    status: str
    tags: tuple[str, ...]
    time: str
    passage: Markup
    is_superseded: bool = False
    is_own: bool = False  # from the person's own bank, where a project's is in force
    notes: tuple[str, ...] = ()
    place: str = ""  # the headings that a passage stands below
    score: float = 0.0
    why: snippets.Why | None = None


class Value(NamedTuple):
    """One value of a facet."""

    value: str
    label: str
    many: int
    is_chosen: bool
    link: str


class Facet(NamedTuple):
    """A facet with its values; those beyond the first few are folded away."""

    name: str
    title: str
    few: tuple[Value, ...]
    rest: tuple[Value, ...]
    is_open: bool  # whether something folded away is chosen


class _View(NamedTuple):
    """Everything that the list's page shows."""

    rows: list[Row]
    found: Found
    scopes: Mapping[str, str]
    searches: list[dict[str, str]]
    has_any: bool


async def _all(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    wanted = search_state.sought(request.query_params)
    view = await banks.use(lambda app: _view(app, banks, wanted))
    last = max(1, -(-view.found.total // PAGE))
    values = {
        "title": wanted.question or "Memories",
        "here": "memories",
        "wanted": wanted,
        "rows": view.rows,
        "found": view.found,
        "facets": _facet_lists(wanted, view),
        "searches": view.searches,
        "has_any": view.has_any,
        "sureness": _sureness(wanted, view.found),
        "is_unsure": _is_unsure(wanted, view.found),
        "pages": last,
        "first": (wanted.page - 1) * PAGE + 1,
        "longest": search_state.LONGEST,
        "focus": "focus" in request.query_params,
    }
    return page(request, "memories.html", values)


def _sureness(wanted: SearchState, found: Found) -> str:
    return describe_fit(found.answer, query_terms(wanted.question)) if found.answer else ""


def _is_unsure(wanted: SearchState, found: Found) -> bool:
    """Whether nothing is sure to fit, not even every word of the question."""
    return found.answer is not None and not fits(found.answer, query_terms(wanted.question))


def _view(app: App, banks: BankPool, wanted: SearchState) -> _View:
    found = search_state.found(app, wanted)
    asked = query_terms(wanted.question)
    rows = [_of_hit(banks, hit, asked) for hit in found.hits]
    rows += [_of_listed(banks, one) for one in found.listed]
    # Only an empty answer has to know whether there is anything at all.
    has_any = bool(rows) or bool(app.browse(_ALL, "updated", 1, 0).total)
    scopes = {"global": "yours", "project": "project", "bank": "this bank"}
    return _View(rows, found, scopes, Searches().all(), has_any)


_ALL: Final = Chosen(status=("active", "archived", "retired"))


def _of_hit(banks: BankPool, hit: Hit, asked: frozenset[str]) -> Row:
    scope = banks.scope_of(hit.scope)
    return Row(
        scope,
        hit.collection,
        hit.id,
        address(scope, hit.collection, hit.id),
        hit.title,
        snippets.marked(hit.title, asked),
        hit.type,
        hit.status,
        hit.tags,
        _moment(hit.changed),
        snippets.excerpt(hit.text, asked, hit.title),
        hit.is_superseded,
        scope != banks.scopes[0],
        tuple(note for note in hit.cautions if note != hit.status),  # a badge says that
        hit.header_path if hit.header_path != hit.title else "",
        hit.score,
        snippets.why(hit),
    )


def _moment(seconds: float) -> str:
    """When a memory was changed; nothing for a date that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def _of_listed(banks: BankPool, one: Listed) -> Row:
    scope = banks.scope_of(one.scope)
    return Row(
        scope,
        one.collection,
        one.id,
        address(scope, one.collection, one.id),
        one.title,
        snippets.marked(one.title, frozenset()),
        one.type,
        one.status,
        one.tags,
        _moment(one.changed),
        snippets.excerpt(one.start, frozenset(), one.title),
        one.is_superseded,
        scope != banks.scopes[0],
        (one.problem,) if one.problem else (),
    )


def _facet_lists(wanted: SearchState, view: _View) -> list[Facet]:
    made = (_facet(name, wanted, view) for name in _TITLES)
    return [one for one in made if one is not None]


def _facet(name: str, wanted: SearchState, view: _View) -> Facet | None:
    counts = view.found.facets.get(name, {})
    chosen: tuple[str, ...] = getattr(wanted.chosen, name)
    if not chosen and (not counts or (len(counts) < 2 and name in ("scope", "collection"))):
        return None  # nothing to choose
    shown = [
        Value(
            value,
            _label(name, value, view.scopes),
            count,
            value in chosen,
            wanted.toggled(name, value),
        )
        for value, count in list(counts.items())[: _MOST.get(name, 20)]
    ]
    few, rest = tuple(shown[:_FEW]), tuple(shown[_FEW:])
    return Facet(name, _TITLES[name], few, rest, any(one.is_chosen for one in rest))


def _label(facet: str, value: str, scopes: Mapping[str, Any]) -> str:
    if facet == "scope":
        return str(scopes.get(value, value))
    if facet == "collection":
        return value or "(no collection)"
    return value or "(none)"


ROUTES: Final = (Route("/", _all, methods=["GET"]),)
