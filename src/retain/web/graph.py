"""The graph: memories of one bank or both, their files and tags, as a page and as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

import anyio.to_thread
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.errors import NotFound
from retain.web.bank_pool import BankPool, Scope
from retain.web.operation import ROOT, Answer, Call, Given, Gives, Many, Name, Operation, queried
from retain.web.rendering import address, page

if TYPE_CHECKING:
    from retain.index.queries import Dated
    from retain.search.related import Graph


HIDDEN: Final = {"tags": "tag", "files": "ghost", "dangling": "dangling"}
_TAG: Final = "tag:"
_MOST_TAGS: Final = 300  # that are offered as a choice


class Look(Given):
    """Which part of the graph to show."""

    scope: Literal["all", "here", "global"] = "all"
    collection: Name = ""  # ":root" is the one without a name
    type: Name = ""
    tag: Name = ""
    q: Name = ""
    hide: Annotated[Many[Literal["tags", "files", "dangling"]], Field(max_length=3)] = ()
    focus: Annotated[str, Field(max_length=2_000)] = ""
    depth: Annotated[int, Field(ge=1, le=3)] = 1
    limit: Annotated[int, Field(ge=1, le=5_000)] = 3_000


class GraphNode(NamedTuple):
    """A memory, a linked file (ghost), a name that nothing answers to (dangling), or a tag."""

    key: str
    kind: str
    title: str
    name: str
    scope: str = ""
    collection: str = ""
    type: str = ""
    status: str = ""
    tags: tuple[str, ...] = ()
    freshness: str = ""
    now_at: str = ""

    @property
    def page(self) -> str:
        """Where a click leads; empty for what has no page."""
        if self.kind == "memory":
            return address(self.scope, self.collection, self.name.rpartition("/")[2])
        return ""


class Link(NamedTuple):
    """One link between two nodes, by their keys."""

    source: str
    target: str
    edge: str


class Net(NamedTuple):
    """What is shown, the best connected first, and what all of it is made of."""

    nodes: Sequence[GraphNode]
    links: Sequence[Link]
    total: int  # nodes that fit; a few may be too many to draw
    facets: Mapping[str, Mapping[str, int]]

    @property
    def degrees(self) -> Counter[str]:
        """How many links each node has."""
        return Counter(end for link in self.links for end in (link.source, link.target))


async def network(banks: BankPool, look: Look) -> Net:
    """The part of the graph that was asked for."""
    found: list[tuple[str, Graph, list[Dated]]] = []
    for scope in await _scopes(banks, look.scope):
        try:
            graph, dated = await banks.use(lambda app: (app.graph(), app.dated_memories()), scope)
        except NotFound:  # a bank is made with its first memory
            continue
        found.append((scope, graph, dated))
    # On a thread: ten thousand memories would keep every other page waiting.
    return await anyio.to_thread.run_sync(partial(_drawn, look, found))


def _drawn(look: Look, found: Sequence[tuple[str, Graph, list[Dated]]]) -> Net:
    nodes: dict[str, GraphNode] = {}
    links: dict[Link, None] = {}
    for scope, graph, dated in found:
        _add(scope, graph, dated, nodes, links)
    memories = [one for _, _, dated in found for one in dated]
    return _chosen(look, nodes, list(links), _facets(memories))


async def _scopes(banks: BankPool, wanted: str) -> Sequence[Scope]:
    every = await banks.use(lambda _app: banks.scopes)
    return [one for one in every if wanted in ("all", one)]


def _add(
    scope: str,
    graph: Graph,
    dated: Iterable[Dated],
    nodes: dict[str, GraphNode],
    links: dict[Link, None],
) -> None:
    """Take in one bank's graph; tags are the same in both."""
    facts = {f"{one.collection}/{one.id}".removeprefix("/"): one for one in dated}
    for node in graph.nodes:
        key = f"{scope}:{'?' if node.kind == 'dangling' else ''}{node.name}"
        if node.kind == "memory" and (one := facts.get(node.name)):
            known = (scope, one.collection, one.type, one.status, one.tags)
            nodes[key] = GraphNode(key, "memory", one.title, node.name, *known)
            for tag in one.tags:
                nodes.setdefault(f"{_TAG}{tag}", GraphNode(f"{_TAG}{tag}", "tag", tag, tag))
                links[Link(key, f"{_TAG}{tag}", "tag")] = None
        elif node.kind != "memory":
            name = node.name.removeprefix("ghost:")
            state = (node.freshness, node.now_at)
            nodes[key] = GraphNode(key, node.kind, name, name, scope, "", "", "", (), *state)
    for edge in graph.edges:
        link = Link(f"{scope}:{edge.source}", f"{scope}:{edge.target}", edge.edge)
        if link.source in nodes and link.target in nodes and link.source != link.target:
            links[link] = None


def _facets(memories: Sequence[Dated]) -> dict[str, dict[str, int]]:
    tags = Counter(tag for one in memories for tag in one.tags)
    return {
        "collection": dict(Counter(one.collection or ROOT for one in memories).most_common()),
        "type": dict(Counter(one.type for one in memories).most_common()),
        "tag": dict(tags.most_common(_MOST_TAGS)),
    }


def _chosen(
    look: Look,
    nodes: Mapping[str, GraphNode],
    links: Sequence[Link],
    facets: Mapping[str, Mapping[str, int]],
) -> Net:
    kept = _fitting(look, nodes, links)
    kept -= {key for key in kept if nodes[key].kind in {HIDDEN[one] for one in look.hide}}
    links = _between(kept, links)
    if look.focus:
        if look.focus not in kept:
            raise NotFound(
                f"{look.focus.partition(':')[2] or look.focus!r} is not in this part of the graph",
                hint="Take a filter away, or show all of it.",
            )
        kept = _around(look.focus, look.depth, links)
        links = _between(kept, links)
    net = Net((), links, len(kept), facets)
    degrees = net.degrees
    ordered = sorted(
        (nodes[key] for key in kept),
        key=lambda one: (
            one.key != look.focus,
            one.kind != "dangling",  # what leads nowhere wants to be seen
            -degrees[one.key],
            one.title.casefold(),
            one.key,
        ),
    )[: look.limit]
    if len(ordered) < len(kept):
        links = _between({one.key for one in ordered}, links)
    return net._replace(nodes=ordered, links=links)


def _fitting(look: Look, nodes: Mapping[str, GraphNode], links: Sequence[Link]) -> set[str]:
    """The nodes that meet every filter, and the files and tags of those memories."""
    memories = {key for key, one in nodes.items() if one.kind == "memory" and _fits(one, look)}
    wanted = look.q.strip().casefold()
    if wanted:
        hits = {key for key, one in nodes.items() if _says(one, wanted)}
        # A file or a tag that fits brings along the memories that speak of it.
        named = {key for key in hits if nodes[key].kind != "memory"}
        memories &= hits | {link.source for link in links if link.target in named}
    reached = {link.target for link in links if link.source in memories}
    return memories | {key for key in reached if nodes[key].kind != "memory"}


def _fits(one: GraphNode, look: Look) -> bool:
    return (
        look.collection in ("", one.collection or ROOT)
        and look.type in ("", one.type)
        and (not look.tag or look.tag in one.tags)
    )


def _says(one: GraphNode, wanted: str) -> bool:
    return wanted in one.title.casefold() or wanted in one.name.casefold()


def _between(kept: Collection[str], links: Iterable[Link]) -> list[Link]:
    return [link for link in links if link.source in kept and link.target in kept]


def _around(start: str, depth: int, links: Iterable[Link]) -> set[str]:
    """What can be reached from a node in so many steps, whichever way links point."""
    beside: dict[str, set[str]] = defaultdict(set)
    for link in links:
        beside[link.source].add(link.target)
        beside[link.target].add(link.source)
    found = edge = {start}
    for _ in range(depth):
        edge = {other for one in edge for other in beside[one]} - found
        found = found | edge
    return found


# The JSON interface


class Node(Gives):
    """One node; `page` is the path of a memory's page."""

    key: str
    kind: Literal["memory", "ghost", "dangling", "tag"]
    title: str
    name: str
    page: str
    scope: str
    collection: str
    type: str
    status: str
    freshness: str
    degree: int


class Edge(Gives):
    """A link between two nodes, by their places in the list."""

    source: int
    target: int
    edge_type: str


class Drawn(Gives):
    """Nodes, the best connected first, and the links between them."""

    nodes: list[Node]
    edges: list[Edge]
    total: int
    facets: dict[str, dict[str, int]]


async def _draw(call: Call) -> Answer:
    look: Look = call.query
    net = await network(call.banks, look)
    # Thousands of nodes are written out on a thread, too.
    return await anyio.to_thread.run_sync(lambda: Answer(_told(net)))


def _told(net: Net) -> dict[str, Any]:
    degrees = net.degrees
    places = {one.key: at for at, one in enumerate(net.nodes)}
    return {
        "nodes": [
            {
                "key": one.key,
                "kind": one.kind,
                "title": one.title,
                "name": one.name,
                "page": one.page,
                "scope": one.scope,
                "collection": one.collection,
                "type": one.type,
                "status": one.status,
                "freshness": one.freshness,
                "degree": degrees[one.key],
            }
            for one in net.nodes
        ],
        "edges": [
            {"source": places[one.source], "target": places[one.target], "edge_type": one.edge}
            for one in net.links
        ],
        "total": net.total,
        "facets": net.facets,
    }


OPERATIONS: Final = (
    Operation(
        "GET",
        "/graph",
        "graph",
        "Memories, linked files, tags and the links between them",
        _draw,
        gives=Drawn,
        query=Look,
        subject="graph",
    ),
)


# The page

_LISTED: Final = 50
_MOST_LINKS: Final = 40  # of one node, in words
_KINDS: Final = {
    "memory": "memory",
    "ghost": "linked file",
    "dangling": "dangling link",
    "tag": "tag",
}


class _Listed(Look):
    """The same part of the graph, one page of its list."""

    at: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class _Line(NamedTuple):
    """A node in the list, with what it is connected with."""

    node: GraphNode
    degree: int
    focus: str  # where its neighbourhood is shown
    out: Sequence[tuple[str, GraphNode]]
    into: Sequence[tuple[str, GraphNode]]
    more: int


async def _page(request: Request) -> Response:
    look = queried(request, _Listed)
    missing = ""
    try:
        net = await network(request.app.state.banks, look)
    except NotFound as error:  # what was focused on is gone; the rest is still there
        missing = error.message
        net = await network(request.app.state.banks, look.model_copy(update={"focus": ""}))
    values = await anyio.to_thread.run_sync(lambda: _values(net, look))
    return page(request, "graph.html", {**values, "missing": missing})


def _values(net: Net, look: _Listed) -> dict[str, Any]:
    degrees = net.degrees
    shown = net.nodes[look.at : look.at + _LISTED]
    return {
        "title": "Graph",
        "here": "graph",
        "look": look,
        "net": net,
        "counts": _counts(net),
        "kinds": _KINDS,
        "lines": _lines(net, shown, degrees, look),
        "focused": next((one for one in net.nodes if one.key == look.focus), None),
        "unfocused": _query(look, focus="", depth=1),
        "newer": _query(look, at=max(0, look.at - _LISTED)) if look.at else "",
        "older": _query(look, at=look.at + _LISTED) if look.at + _LISTED < len(net.nodes) else "",
    }


def _counts(net: Net) -> dict[str, int]:
    found = dict.fromkeys(_KINDS, 0)
    for one in net.nodes:
        found[one.kind] += 1
    return found


def _lines(
    net: Net, shown: Sequence[GraphNode], degrees: Mapping[str, int], look: _Listed
) -> list[_Line]:
    nodes = {one.key: one for one in net.nodes}
    out: dict[str, list[tuple[str, GraphNode]]] = defaultdict(list)
    into: dict[str, list[tuple[str, GraphNode]]] = defaultdict(list)
    for link in net.links:
        out[link.source].append((_words(link), nodes[link.target]))
        into[link.target].append((_words(link), nodes[link.source]))
    return [
        _Line(
            one,
            degrees[one.key],
            _query(look, focus=one.key),
            out[one.key][:_MOST_LINKS],
            into[one.key][:_MOST_LINKS],
            max(0, len(out[one.key]) - _MOST_LINKS) + max(0, len(into[one.key]) - _MOST_LINKS),
        )
        for one in shown
    ]


def _words(link: Link) -> str:
    return link.edge.replace("_", " ")


def _query(look: _Listed, **changes: object) -> str:
    """The address of the same page with something changed; a new list begins at its start."""
    values = {**look.model_dump(), "at": 0, **changes}
    usual = _Listed().model_dump()
    said = {key: value for key, value in values.items() if value != usual[key]}
    return f"/graph?{urlencode(said, doseq=True)}" if said else "/graph"


ROUTES: Final = (Route("/graph", _page, methods=["GET"]),)
