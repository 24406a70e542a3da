"""A graph as a tree to read, and as DOT for Graphviz."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from retain.recall.graph import Graph, Node

__all__ = ["dot", "tree"]

_SHAPES = {"memory": "box", "ghost": "note", "dangling": "ellipse"}
_STYLES = {"memory": "solid", "ghost": "dashed", "dangling": "dotted"}


class _Branch(NamedTuple):
    """A step from one node to another, along a link or against it."""

    label: str
    other: str
    edge: tuple[str, str, str]


class _Place(NamedTuple):
    """Where a node is to be drawn."""

    name: str
    lead: str  # what stands before it
    below: str  # what stands before everything below it
    label: str
    depth: int = 0


def tree(graph: Graph, start: str = "") -> str:
    """The graph as an indented tree: from one memory outwards, or every memory with its links."""
    return _Tree(graph, start).text()


class _Tree:
    def __init__(self, graph: Graph, start: str) -> None:
        self._nodes = {_end(node): node for node in graph.nodes}
        self._start = start
        self._branches = _branches(graph, is_both_ways=bool(start))
        self._distances = _distances(self._branches, start) if start else {}
        self._linked = {edge.target for edge in graph.edges if edge.target != edge.source}
        self._drawn: set[str] = set()
        self._used: set[tuple[str, str, str]] = set()

    def text(self) -> str:
        if self._start:
            lines = self._lines(self._start)
        else:
            memories = [name for name, node in self._nodes.items() if node.kind == "memory"]
            # Where nothing leads is where to begin; what is left then leads round in circles.
            memories.sort(key=lambda name: name in self._linked)
            lines = [
                line for name in memories if name not in self._drawn for line in self._lines(name)
            ]
        return "".join(f"{line}\n" for line in lines)

    def _lines(self, root: str) -> list[str]:
        lines = []
        stack = [_Place(root, "", "", "")]
        while stack:
            place = stack.pop()
            branches = self._branches.get(place.name, ())
            again = place.name in self._drawn or not self._belongs(place)
            mark = " ↑" if again and branches else ""
            lines.append(f"{place.lead}{place.label}{_shown(self._nodes[place.name])}{mark}")
            if not again:
                self._drawn.add(place.name)
                stack += reversed(self._below(place, branches))
        return lines

    def _belongs(self, place: _Place) -> bool:
        """Whether a node is drawn here, and not where there are fewer steps to it."""
        return not self._distances or self._distances[place.name] == place.depth

    def _below(self, place: _Place, branches: Sequence[_Branch]) -> list[_Place]:
        new = [one for one in branches if one.edge not in self._used]
        self._used.update(one.edge for one in new)
        return [
            _Place(
                one.other,
                place.below + ("└── " if one is new[-1] else "├── "),
                place.below + ("    " if one is new[-1] else "│   "),
                one.label,
                place.depth + 1,
            )
            for one in new
        ]


def _branches(graph: Graph, *, is_both_ways: bool) -> Mapping[str, list[_Branch]]:
    times = Counter((edge.source, edge.target, edge.edge) for edge in graph.edges)
    branches: dict[str, list[_Branch]] = defaultdict(list)
    for edge, count in times.items():
        source, target, kind = edge
        often = f" x{count}" if count > 1 else ""
        branches[source].append(_Branch(f"{kind}{often} → ", target, edge))
        if is_both_ways and source != target:
            branches[target].append(_Branch(f"{kind}{often} ← ", source, edge))
    return branches


def _distances(branches: Mapping[str, Sequence[_Branch]], start: str) -> Mapping[str, int]:
    steps = {start: 0}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        for branch in branches.get(name, ()):
            if branch.other not in steps:
                steps[branch.other] = steps[name] + 1
                queue.append(branch.other)
    return steps


def _end(node: Node) -> str:
    """A node as edges name it."""
    return f"?{node.name}" if node.kind == "dangling" else node.name


def _shown(node: Node) -> str:
    if node.kind == "dangling":
        return f"{node.name} (nothing has this name)"
    if node.kind == "ghost":
        state = f"moved to {node.now_at}" if node.freshness == "moved" else node.freshness
        return f"{node.name.removeprefix('ghost:')} ({', '.join(filter(None, ('file', state)))})"
    title = " ".join(node.title.split())
    return f"{node.name}  {title}" if title else node.name


def dot(graph: Graph) -> str:
    """The graph in the language of Graphviz."""
    lines = ["digraph retain {", "  rankdir=LR;"]
    for node in graph.nodes:
        label = _quoted(_shown(node))
        shape, style = _SHAPES[node.kind], _STYLES[node.kind]
        lines.append(f"  {_quoted(_end(node))} [label={label}, shape={shape}, style={style}];")
    lines += [
        f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={_quoted(edge.edge)}];"
        for edge in graph.edges
    ]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """A string that DOT takes for nothing but its characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
