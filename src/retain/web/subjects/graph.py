"""The graph that is drawn: memories of one bank or both, their files, their tags, filtered."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import anyio.to_thread
from pydantic import Field

from retain.errors import NotFound
from retain.web.office import Office, Scope
from retain.web.operation import ROOT, Given, Many, Name
from retain.web.rendering import address

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


class Node(NamedTuple):
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

    nodes: Sequence[Node]
    links: Sequence[Link]
    total: int  # nodes that fit; a few may be too many to draw
    facets: Mapping[str, Mapping[str, int]]

    @property
    def degrees(self) -> Counter[str]:
        """How many links each node has."""
        return Counter(end for link in self.links for end in (link.source, link.target))


async def network(office: Office, look: Look) -> Net:
    """The part of the graph that was asked for."""
    found: list[tuple[str, Graph, list[Dated]]] = []
    for scope in await _scopes(office, look.scope):
        try:
            graph, dated = await office.use(lambda app: (app.graph(), app.dated_memories()), scope)
        except NotFound:  # a bank is made with its first memory
            continue
        found.append((scope, graph, dated))
    # On a thread: ten thousand memories would keep every other page waiting.
    return await anyio.to_thread.run_sync(partial(_drawn, look, found))


def _drawn(look: Look, found: Sequence[tuple[str, Graph, list[Dated]]]) -> Net:
    nodes: dict[str, Node] = {}
    links: dict[Link, None] = {}
    for scope, graph, dated in found:
        _add(scope, graph, dated, nodes, links)
    memories = [one for _, _, dated in found for one in dated]
    return _chosen(look, nodes, list(links), _facets(memories))


async def _scopes(office: Office, wanted: str) -> Sequence[Scope]:
    every = await office.use(lambda _app: office.scopes)
    return [one for one in every if wanted in ("all", one)]


def _add(
    scope: str,
    graph: Graph,
    dated: Iterable[Dated],
    nodes: dict[str, Node],
    links: dict[Link, None],
) -> None:
    """Take in one bank's graph; tags are the same in both."""
    facts = {f"{one.collection}/{one.id}".removeprefix("/"): one for one in dated}
    for node in graph.nodes:
        key = f"{scope}:{'?' if node.kind == 'dangling' else ''}{node.name}"
        if node.kind == "memory" and (one := facts.get(node.name)):
            known = (scope, one.collection, one.type, one.status, one.tags)
            nodes[key] = Node(key, "memory", one.title, node.name, *known)
            for tag in one.tags:
                nodes.setdefault(f"{_TAG}{tag}", Node(f"{_TAG}{tag}", "tag", tag, tag))
                links[Link(key, f"{_TAG}{tag}", "tag")] = None
        elif node.kind != "memory":
            name = node.name.removeprefix("ghost:")
            state = (node.freshness, node.now_at)
            nodes[key] = Node(key, node.kind, name, name, scope, "", "", "", (), *state)
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
    nodes: Mapping[str, Node],
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


def _fitting(look: Look, nodes: Mapping[str, Node], links: Sequence[Link]) -> set[str]:
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


def _fits(one: Node, look: Look) -> bool:
    return (
        look.collection in ("", one.collection or ROOT)
        and look.type in ("", one.type)
        and (not look.tag or look.tag in one.tags)
    )


def _says(one: Node, wanted: str) -> bool:
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
