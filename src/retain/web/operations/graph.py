"""The graph: memories, the files they link to, their tags, and names that nothing answers to."""

from __future__ import annotations

from typing import Any, Final, Literal

import anyio.to_thread

from retain.web.operation import Answer, Call, Gives, Operation
from retain.web.subjects.graph import Look, Net, network


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


async def _graph(call: Call) -> Answer:
    look: Look = call.query
    net = await network(call.office, look)
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
        _graph,
        gives=Drawn,
        query=Look,
        subject="graph",
    ),
)
