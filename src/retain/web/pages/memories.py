"""All memories, looked through and searched."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.index.queries import Chosen, Listed
from retain.memory import Hit
from retain.search.rank import describe_fit, fits, query_terms
from retain.web import looking, passages
from retain.web.looking import PAGE, Found, Sought
from retain.web.office import Office
from retain.web.rendering import address, page
from retain.web.searches import Searches

if TYPE_CHECKING:
    from retain.app import App


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
    why: passages.Why | None = None


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
    office: Office = request.app.state.office
    wanted = looking.sought(request.query_params)
    view = await office.use(lambda app: _view(app, office, wanted))
    last = max(1, -(-view.found.total // PAGE))
    values = {
        "title": wanted.question or "Memories",
        "here": "memories",
        "wanted": wanted,
        "rows": view.rows,
        "found": view.found,
        "facets": _facets(wanted, view),
        "searches": view.searches,
        "has_any": view.has_any,
        "sureness": _sureness(wanted, view.found),
        "is_unsure": _is_unsure(wanted, view.found),
        "pages": last,
        "first": (wanted.page - 1) * PAGE + 1,
        "longest": looking.LONGEST,
        "focus": "focus" in request.query_params,
    }
    return page(request, "memories.html", values)


def _sureness(wanted: Sought, found: Found) -> str:
    return describe_fit(found.answer, query_terms(wanted.question)) if found.answer else ""


def _is_unsure(wanted: Sought, found: Found) -> bool:
    """Whether nothing is sure to fit, not even every word of the question."""
    return found.answer is not None and not fits(found.answer, query_terms(wanted.question))


def _view(app: App, office: Office, wanted: Sought) -> _View:
    found = looking.found(app, wanted)
    asked = query_terms(wanted.question)
    rows = [_of_hit(office, hit, asked) for hit in found.hits]
    rows += [_of_listed(office, one) for one in found.listed]
    # Only an empty answer has to know whether there is anything at all.
    has_any = bool(rows) or bool(app.browse(_ALL, "updated", 1, 0).total)
    scopes = {"global": "yours", "project": "project", "bank": "this bank"}
    return _View(rows, found, scopes, Searches().all(), has_any)


_ALL: Final = Chosen(status=("active", "archived", "retired"))


def _of_hit(office: Office, hit: Hit, asked: frozenset[str]) -> Row:
    scope = office.scope_of(hit.scope)
    return Row(
        scope,
        hit.collection,
        hit.id,
        address(scope, hit.collection, hit.id),
        hit.title,
        passages.marked(hit.title, asked),
        hit.type,
        hit.status,
        hit.tags,
        _moment(hit.changed),
        passages.excerpt(hit.text, asked, hit.title),
        hit.is_superseded,
        scope != office.scopes[0],
        tuple(note for note in hit.cautions if note != hit.status),  # a badge says that
        hit.header_path if hit.header_path != hit.title else "",
        hit.score,
        passages.why(hit),
    )


def _moment(seconds: float) -> str:
    """When a memory was changed; nothing for a date that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def _of_listed(office: Office, one: Listed) -> Row:
    scope = office.scope_of(one.scope)
    return Row(
        scope,
        one.collection,
        one.id,
        address(scope, one.collection, one.id),
        one.title,
        passages.marked(one.title, frozenset()),
        one.type,
        one.status,
        one.tags,
        _moment(one.changed),
        passages.excerpt(one.start, frozenset(), one.title),
        one.is_superseded,
        scope != office.scopes[0],
        (one.problem,) if one.problem else (),
    )


def _facets(wanted: Sought, view: _View) -> list[Facet]:
    made = (_facet(name, wanted, view) for name in _TITLES)
    return [one for one in made if one is not None]


def _facet(name: str, wanted: Sought, view: _View) -> Facet | None:
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
