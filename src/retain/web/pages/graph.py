"""The graph, drawn and as a list with the same links in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlencode

import anyio.to_thread
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.errors import NotFound
from retain.web.operation import queried
from retain.web.rendering import page
from retain.web.subjects.graph import Link, Look, Net, Node, network

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

    node: Node
    degree: int
    focus: str  # where its neighbourhood is shown
    out: Sequence[tuple[str, Node]]
    into: Sequence[tuple[str, Node]]
    more: int


async def _graph(request: Request) -> Response:
    look = queried(request, _Listed)
    missing = ""
    try:
        net = await network(request.app.state.office, look)
    except NotFound as error:  # what was focused on is gone; the rest is still there
        missing = error.message
        net = await network(request.app.state.office, look.model_copy(update={"focus": ""}))
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
    net: Net, shown: Sequence[Node], degrees: Mapping[str, int], look: _Listed
) -> list[_Line]:
    nodes = {one.key: one for one in net.nodes}
    out: dict[str, list[tuple[str, Node]]] = defaultdict(list)
    into: dict[str, list[tuple[str, Node]]] = defaultdict(list)
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


ROUTES: Final = (Route("/graph", _graph, methods=["GET"]),)
