"""One memory: read with all that is around it, compared with what it was, edited; a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.errors import BadName, RetainError
from retain.model import FREE_TYPES, Memory
from retain.paths import check_collection, check_id
from retain.recall.linking import MOST_AROUND, Graph, Related
from retain.typed.shape import is_record
from retain.web import contents
from retain.web.comparing import Compared, compared
from retain.web.office import Office
from retain.web.operation import collection_of
from retain.web.past import past
from retain.web.rendering import address, page
from retain.web.undoing import api_path

if TYPE_CHECKING:
    from retain.app import App

__all__ = ["ROUTES"]

_MOST_SHOWN: Final = 200  # links, each way
_NEAR: Final = 6  # memories that are shown as related
# What stands elsewhere on the page, or is of no use to a reader.
_ELSEWHERE: Final = frozenset(
    ("id", "title", "type", "status", "tags", "content", "changes", "schema_version", "category")
)
_STATES: Final = {
    "fresh": "as it was",
    "changed": "changed since",
    "moved": "moved",
    "gone": "gone",
    "planned": "not there yet",
}


class Link(NamedTuple):
    """A memory or a file on the other side of a link."""

    name: str
    kind: str  # memory, ghost, dangling
    page: str
    edge: str
    context: str
    state: str = ""
    said: str = ""  # the state in words


class _Around(NamedTuple):
    """What is around a memory, as it was read in one go."""

    pages: Mapping[str, str]
    links: Sequence[Link]
    backlinks: Sequence[Link]
    near: list[tuple[Related, str]]
    collections: list[str]
    several: bool  # whether there is another bank to move it to

    @property
    def shown(self) -> list[tuple[str, Sequence[Link], str]]:
        """Both kinds of links, each with its heading and a word about those that are too many."""
        sides = (("Links to", self.links), ("Linked from", self.backlinks))
        return [(name, found[:_MOST_SHOWN], _more(found)) for name, found in sides if found]


def _more(found: Sequence[Link]) -> str:
    more = len(found) - _MOST_SHOWN
    if more <= 0:
        return ""
    return f"and {more:,} more" if len(found) < MOST_AROUND else f"and more than {more:,} others"


async def _one(request: Request) -> Response:
    office: Office = request.app.state.office
    scope = request.path_params["scope"]
    (memory, history), app = await office.use(lambda app: (app.past(_ref(request)), app), scope)
    # Not while the bank waits: git takes its time, and so does a long text.
    known = await past(history, memory)
    named = await anyio.to_thread.run_sync(contents.targets, memory)
    successor = await anyio.to_thread.run_sync(app.successor, memory)
    read = await office.use(lambda app: _around(app, office, memory, scope, named), scope)
    values = {
        **_named(request, memory),
        "read": read,
        "past": known,
        "successor": successor,
        "content": await anyio.to_thread.run_sync(contents.content, memory, read.pages),
        "details": _details(memory),
    }
    return page(request, "memory.html", values)


def _named(request: Request, memory: Memory) -> dict[str, Any]:
    """What every page of one memory has to know."""
    scope = request.path_params["scope"]
    return {
        "title": memory.title,
        "here": "memories",
        "memory": memory,
        "scope": scope,
        "page": address(scope, memory.collection, memory.id),
        "api": api_path(scope, memory.collection, memory.id),
    }


def _ref(request: Request) -> str:
    return f"{collection_of(request.path_params['collection'])}/{request.path_params['id']}"


def _around(app: App, office: Office, memory: Memory, scope: str, named: Sequence[str]) -> _Around:
    try:
        graph = app.library.connections(memory.address)
        near = app.library.related(memory.address, _NEAR)
    except RetainError:  # an index that cannot be used hides what is around, not the memory
        graph, near = Graph((), ()), []
    links, backlinks = _sides(graph, memory, scope)
    there = {link.page for link in (*links, *backlinks)}
    places = [(one, address(scope, one.collection, one.id)) for one in near]
    others = [(one, where) for one, where in places if where not in there]
    return _Around(
        contents.pages(app, office, named),
        links,
        backlinks,
        others,
        sorted({name for name, where, _ in app.collections() if where == memory.scope}),
        not office.is_one,
    )


def _sides(graph: Graph, memory: Memory, scope: str) -> tuple[list[Link], list[Link]]:
    """What a memory links to and what links to it, each once."""
    nodes = {node.name: node for node in graph.nodes}
    links: dict[str, Link] = {}
    backlinks: dict[str, Link] = {}
    for edge in graph.edges:
        is_out = edge.source == memory.ref
        node = nodes[(edge.target if is_out else edge.source).removeprefix("?")]
        where = ""
        if node.kind == "memory":
            collection, _, name = node.name.rpartition("/")
            where = address(scope, collection, name)
        said = _STATES.get(node.freshness, node.freshness)
        said = f"{said} to {node.now_at}" if node.now_at else said
        shown = node.title or node.name.removeprefix("ghost:")
        how = edge.edge.replace("_", " ")
        link = Link(shown, node.kind, where, how, edge.context, node.freshness, said)
        (links if is_out else backlinks).setdefault(node.name, link)
    return list(links.values()), list(backlinks.values())


def _details(memory: Memory) -> list[tuple[str, str]]:
    """The rest of what stands in a memory's head, in words."""
    return [
        (str(name).replace("_", " "), _said(value))
        for name, value in memory.meta.items()
        if name not in _ELSEWHERE and value not in (None, "", [], {})
    ]


def _said(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_said(one)}" for name, one in value.items())
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


# What it was


async def _history(request: Request) -> Response:
    office: Office = request.app.state.office
    older = request.query_params.get("older", "")
    newer = request.query_params.get("newer", "") or "current"

    scope = request.path_params["scope"]
    memory, history = await office.use(lambda app: app.past(_ref(request)), scope)
    known = await past(history, memory)
    first = older or (known.versions[0].version if known.versions else "current")

    def beside() -> Compared:
        texts = (history.read(memory, one).decode("utf-8", "replace") for one in (first, newer))
        return compared(*texts)

    values = {
        **_named(request, memory),
        "versions": known.versions,
        "problem": known.problem,
        "older": first,
        "newer": newer,
        "compared": await anyio.to_thread.run_sync(beside),
    }
    return page(request, "history.html", values)


# Writing


async def _edit(request: Request) -> Response:
    office: Office = request.app.state.office

    def read(app: App) -> tuple[Memory, list[str]]:
        return app.ours(_ref(request)), _types(app)

    memory, types = await office.use(read, request.path_params["scope"])
    # A typed memory has its content in its head: there is no other text to edit.
    is_whole = is_record(memory) or not memory.path.endswith(".md") or bool(memory.problem)
    is_whole = is_whole or "whole" in request.query_params
    values = {
        **_named(request, memory),
        "title": f"Edit {memory.title}",
        "is_new": False,
        "is_whole": is_whole,
        "can_be_plain": not is_record(memory)
        and memory.path.endswith(".md")
        and not memory.problem,
        "text": memory.data.decode("utf-8", "replace") if is_whole else memory.body,
        "stated_title": memory.text("title"),
        "suffix": (".json" if memory.path.endswith(".json") else ".md") if is_whole else "",
        "types": types,
        "collections": [],
        "scopes": [],
    }
    return page(request, "edit.html", values)


async def _new(request: Request) -> Response:
    office: Office = request.app.state.office

    def read(app: App) -> dict[str, Any]:
        found = [name for name, _, _ in app.collections() if name]
        names = {"here": "project", "global": "yours"}
        return {
            "types": _types(app),
            "collections": sorted(set(found)),
            "scopes": [(scope, names[scope]) for scope in office.scopes],
        }

    values = {
        **await office.use(read),
        "title": "New memory",
        "here": "memories",
        "memory": None,
        "scope": "here",
        "page": "/",
        "api": "",
        "is_new": True,
        "is_whole": False,
        "can_be_plain": False,
        "text": request.query_params.get("text", "")[:100_000],
        "suffix": "",
        **_wanted(request),
    }
    return page(request, "edit.html", values)


def _wanted(request: Request) -> dict[str, str]:
    """The name that a link has for what is to be written; a title, if it can be no name."""
    asked = request.query_params
    collection, _, name = asked.get("id", "").removeprefix("memory:").rpartition("/")
    found = {
        "stated_title": asked.get("title", "")[:400],
        "wanted_id": name,
        "wanted_collection": collection,
        "wanted_scope": asked.get("scope", ""),
    }
    try:
        check_id(name)
        check_collection(collection)
    except BadName:
        plain = found["stated_title"] or asked.get("id", "")[:400]
        found |= {"stated_title": plain, "wanted_id": "", "wanted_collection": ""}
    return found


def _types(app: App) -> list[str]:
    """The types that a plain memory can have: the usual ones, and those in use."""
    try:
        used = app.library.types()
    except RetainError:
        used = {}
    return list(dict.fromkeys((*FREE_TYPES, *sorted(used))))


_ONE: Final = "/memory/{scope}/{collection}/{id}"

ROUTES: Final = (
    Route("/new", _new, methods=["GET"]),
    Route(_ONE, _one, methods=["GET"]),
    Route(f"{_ONE}/history", _history, methods=["GET"]),
    Route(f"{_ONE}/edit", _edit, methods=["GET"]),
)
