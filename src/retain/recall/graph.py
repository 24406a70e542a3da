"""A bank's graph: all of it, what is within some steps of a memory or a file, or around one memory.

That of a whole bank is read at once; what is around one memory is looked up link by link.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import BadName, NotFound
from retain.index import graph
from retain.index.graph import Edge
from retain.indexed import Indexed
from retain.paths import key, split_ref
from retain.recall.targets import (
    Document,
    file_names,
    last_seen,
    memory_of,
    names_of,
    numbers_of,
    ref_of,
    state_of,
)

if TYPE_CHECKING:
    from retain.freshness import Project

__all__ = ["MOST_AROUND", "Graph", "Node", "Relation", "connections", "ghost_of", "graph_of"]

MOST_AROUND: Final = 1_000  # links of one memory that are looked at, and of those to it


class Node(NamedTuple):
    """A memory, a ghost (a file outside the bank) or a name that nothing answers to."""

    name: str
    kind: str  # memory, ghost, dangling
    title: str = ""
    freshness: str = ""
    now_at: str = ""


class Relation(NamedTuple):
    """One edge of the graph."""

    source: str
    target: str
    edge: str
    context: str
    line: int


class Graph(NamedTuple):
    """A piece of a bank's graph."""

    nodes: tuple[Node, ...]
    edges: tuple[Relation, ...]


def graph_of(bank: Indexed, ref: str = "", depth: int = 2, *, cwd: str = "") -> Graph:
    """A bank's whole graph, or what is within some steps of a memory or a file, both ways."""
    return bank.read(lambda connection: _graph(connection, bank.project, ref, depth, cwd))


def ghost_of(bank: Indexed, path: str, cwd: str) -> str:
    """The linked file that a path means, as the graph names it; empty for one nobody links to."""
    document, project = Document.of(path, cwd), bank.project
    return bank.read(lambda connection: _ghost(connection, document, project))


def _ghost(connection: sqlite3.Connection, document: Document, project: Project | None) -> str:
    for name in file_names(connection, document, project):
        if any(edge.kind == "ghost" for edge in graph.edges_to(connection, [name])):
            return f"ghost:{name}"
    return ""


def _graph(
    connection: sqlite3.Connection, project: Project | None, ref: str, depth: int, cwd: str
) -> Graph:
    edges, titles = _all_edges(connection), _titles(connection)
    if ref:
        start = _start(connection, ref)
        start = start or _ghost(connection, Document.of(ref, cwd), project)
        if not start:
            raise NotFound(f"there is no memory {ref!r}, and none links to such a file")
        edges = _within(edges, start, depth)
        names = {start} | {name for edge in edges for name in (edge.source, edge.target)}
    else:
        names = {name for edge in edges for name in (edge.source, edge.target)}
        names |= titles.keys()
    written = last_seen(connection)
    nodes = [_node(name, titles, project, written) for name in sorted(names)]
    return Graph(tuple(nodes), tuple(edges))


def _start(connection: sqlite3.Connection, ref: str) -> str:
    """The memory that a reference names, empty if there is none."""
    try:
        collection, name = split_ref(ref)
    except BadName:  # a path has names that no memory may have
        return ""
    found = numbers_of(connection, collection, name)
    return ref_of(connection, found[0]) if found else ""


def _all_edges(connection: sqlite3.Connection) -> list[Relation]:
    named = _Named(connection)
    resolved: dict[str, str] = {}
    relations: dict[tuple[str, str, str], Relation] = {}
    for edge in graph.edges_from(connection, named.refs):
        source = f"{edge.collection}/{edge.id}" if edge.collection else edge.id
        if edge.edge == "merged_from":
            continue
        if edge.target not in resolved:
            resolved[edge.target] = named.meant(key(edge.target))
        if resolved[edge.target]:
            relation = (resolved[edge.target], edge.memory_edge)
        else:
            prefix = "ghost:" if edge.kind == "ghost" else "?"
            meant = edge.edge if edge.kind == "ghost" else edge.memory_edge
            relation = (f"{prefix}{edge.target}", meant)
        made = Relation(source, *relation, edge.context, edge.line)
        relations.setdefault((source, *relation), made)
    return list(relations.values())


class _Named:
    """Every memory by its names, read once: for a whole graph, one look for each link is slow."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.refs: dict[int, str] = {}
        self._there: dict[str, list[tuple[str, int]]] = defaultdict(list)
        spelt = cache(key)  # collections are few
        query = "SELECT number, collection, id, key, is_gone FROM memories ORDER BY number"
        for number, where, name, known, is_gone in connection.execute(query):
            self.refs[number] = f"{where}/{name}" if where else name
            if not is_gone:
                self._there[known].append((spelt(where), number))
        merged = "SELECT target, memory FROM links WHERE edge = 'merged_from' ORDER BY rowid DESC"
        self._merged: dict[str, int] = dict(connection.execute(merged).fetchall())

    def meant(self, name: str) -> str:
        """The memory that a target names, as `memory_of` finds it; empty if there is none."""
        collection, slash, last = name.rpartition("/")
        for where, number in self._there.get(last, ()):
            if not slash or where == collection:
                return self.refs[number]
        return self.refs.get(self._merged.get(name, 0), "")


def _within(edges: Sequence[Relation], start: str, depth: int) -> list[Relation]:
    reached = {start}
    for _ in range(depth):
        before = len(reached)
        reached |= {edge.target for edge in edges if edge.source in reached} | {
            edge.source for edge in edges if edge.target in reached
        }
        if len(reached) == before:
            break
    return [edge for edge in edges if edge.source in reached and edge.target in reached]


def _titles(connection: sqlite3.Connection) -> dict[str, str]:
    query = "SELECT collection, id, title FROM memories WHERE NOT is_gone"
    return {
        f"{collection}/{name}" if collection else name: title
        for collection, name, title in connection.execute(query)
    }


def _node(
    name: str,
    titles: Mapping[str, str],
    project: Project | None,
    written: Mapping[str, tuple[float, str]],
) -> Node:
    if name in titles:
        return Node(name, "memory", titles[name])
    if name.startswith("?"):
        return Node(name[1:], "dangling")
    target = name.removeprefix("ghost:")
    if project is None:
        return Node(name, "ghost")
    state = project.check(target, *written.get(target, (0.0, "")))
    return Node(name, "ghost", "", state.state, state.now_at)


def connections(bank: Indexed, ref: str) -> Graph:
    """The links of one memory and those to it, each once; no others are looked at."""
    return bank.read(lambda connection: _connections(connection, bank.project, ref))


def _connections(connection: sqlite3.Connection, project: Project | None, ref: str) -> Graph:
    found = numbers_of(connection, *split_ref(ref))
    if not found:
        raise NotFound(f"there is no memory {ref!r}")
    number, name = found[0], ref_of(connection, found[0])
    nodes = {name: _memory_node(connection, number)}
    relations = []
    meant = cache(lambda target: memory_of(connection, key(target)))
    for edge in graph.edges_from(connection, [number], once=True, most=MOST_AROUND):
        if edge.edge != "merged_from":
            node, relation = _onward(connection, edge, project, name)
            nodes[relation.target] = node
            relations.append(relation)
    names = names_of(connection, number)
    for edge in graph.edges_to(connection, names, once=True, most=MOST_AROUND):
        # A bare name may mean another memory, of another collection.
        is_meant = edge.memory != number and meant(edge.target) == number
        if is_meant and edge.edge != "merged_from":
            source = ref_of(connection, edge.memory)
            nodes[source] = _memory_node(connection, edge.memory)
            relations.append(Relation(source, name, edge.memory_edge, edge.context, edge.line))
    return Graph(tuple(nodes.values()), tuple(relations))


def _onward(
    connection: sqlite3.Connection, edge: Edge, project: Project | None, source: str
) -> tuple[Node, Relation]:
    """Where a link leads to: a memory, a file as it is now, or nowhere."""
    number = memory_of(connection, key(edge.target))
    if number is not None:
        node, how = _memory_node(connection, number), edge.memory_edge
        return node, Relation(source, node.name, how, edge.context, edge.line)
    if edge.kind != "ghost":
        node = Node(edge.target, "dangling")
        return node, Relation(source, f"?{edge.target}", edge.memory_edge, edge.context, edge.line)
    state = state_of(edge, project)
    node = Node(f"ghost:{edge.target}", "ghost", "", state.freshness, state.now_at)
    return node, Relation(source, node.name, edge.edge, edge.context, edge.line)


def _memory_node(connection: sqlite3.Connection, number: int) -> Node:
    (title,) = connection.execute(
        "SELECT title FROM memories WHERE number = ?", (number,)
    ).fetchone()
    return Node(ref_of(connection, number), "memory", title)
