"""One memory: read with all that is around it, and compared with what it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.errors import RetainError
from retain.memory import Memory
from retain.search.related import MOST_AROUND, Graph, Related
from retain.web import contents, wikilinks
from retain.web.diff import Diff, compare
from retain.web.office import Office
from retain.web.operation import collection_of
from retain.web.passages import plain
from retain.web.past import past
from retain.web.rendering import address, page
from retain.web.undoing import api_path

if TYPE_CHECKING:
    from retain.app import App


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

    pages: wikilinks.Pages
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
    (memory, history), app = await office.use(
        lambda app: (app.with_history(ref(request)), app), scope
    )
    # Not while the bank waits: git takes its time, and so does a long text.
    known = await past(history, memory)
    targets = await anyio.to_thread.run_sync(contents.targets, memory)
    successors = await anyio.to_thread.run_sync(app.successors, [memory])
    successor = successors.get(memory.path, "")
    read = await office.use(lambda app: _around(app, office, memory, scope, targets), scope)
    values = {
        **named(request, memory),
        "read": read,
        "past": known,
        "successor": successor,
        "content": await anyio.to_thread.run_sync(contents.content, memory, read.pages),
        "details": _details(memory),
    }
    return page(request, "memory.html", values)


def named(request: Request, memory: Memory) -> dict[str, Any]:
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


def ref(request: Request) -> str:
    """The memory that a page's address means, as a bank calls it."""
    return f"{collection_of(request.path_params['collection'])}/{request.path_params['id']}"


def _around(
    app: App, office: Office, memory: Memory, scope: str, targets: Sequence[str]
) -> _Around:
    try:
        graph = app.connections(memory.address)
        near = app.related(memory.address, _NEAR)
    except RetainError:  # an index that cannot be used hides what is around, not the memory
        graph, near = Graph((), ()), []
    links, backlinks = _sides(graph, memory, scope)
    there = {link.page for link in (*links, *backlinks)}
    places = [(one, address(scope, one.collection, one.id)) for one in near]
    others = [(one, where) for one, where in places if where not in there]
    return _Around(
        wikilinks.look_up(app, office, targets),
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
        link = Link(shown, node.kind, where, how, plain(edge.context), node.freshness, said)
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
    memory, history = await office.use(lambda app: app.with_history(ref(request)), scope)
    known = await past(history, memory)
    first = older or (known.versions[0].version if known.versions else "current")

    def beside() -> Diff:
        texts = (history.read(memory, one).decode("utf-8", "replace") for one in (first, newer))
        return compare(*texts)

    values = {
        **named(request, memory),
        "versions": known.versions,
        "problem": known.problem,
        "older": first,
        "newer": newer,
        "diff": await anyio.to_thread.run_sync(beside),
    }
    return page(request, "history.html", values)


ONE: Final = "/memory/{scope}/{collection}/{id}"

ROUTES: Final = (
    Route(ONE, _one, methods=["GET"]),
    Route(f"{ONE}/history", _history, methods=["GET"]),
)
