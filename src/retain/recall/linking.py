"""Answers that follow links: what a hit links to, who links to a document, who is related."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import NotFound
from retain.index import graph
from retain.index.graph import Edge
from retain.indexed import Indexed
from retain.links import normal
from retain.model import Answer, Degraded, Hit, Linked
from retain.paths import key, split_ref
from retain.recall.asking import Wanted
from retain.recall.searching import Recency, search
from retain.similar import nearest

if TYPE_CHECKING:
    from retain.freshness import Project

__all__ = ["Graph", "Node", "Related", "Relation", "graph_of", "linked", "related", "with_links"]

_SHARED_TAG: Final = 0.1  # what a shared tag adds, at most three times
_LINK: Final = 0.4
_MOST_LINKS: Final = 20  # files shown with one hit
_SIMILAR: Final = 0.3  # cosine below which two memories have nothing to do with each other
_SHARED_FILE: Final = 0.15


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


def with_links(banks: Sequence[Indexed], answer: Answer) -> Answer:
    """Each hit with the files it links to, and how they are now."""
    hits = list(answer.hits)
    for bank in banks:
        own = [at for at, hit in enumerate(hits) if hit.path.startswith(f"{bank.bank.root}/")]
        if own:
            found = bank.look(partial(_linked, hits=[hits[at] for at in own]))
            project = bank.project
            for at in own:
                edges = found.get((hits[at].collection, hits[at].id), ())
                hits[at] = hits[at]._replace(links=tuple(_how(edge, project) for edge in edges))
    return answer._replace(hits=tuple(hits))


def _linked(
    connection: sqlite3.Connection, hits: Sequence[Hit]
) -> Mapping[tuple[str, str], list[Edge]]:
    numbers = [number for hit in hits for number in _numbers(connection, hit.collection, hit.id)]
    edges: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for edge in graph.edges_from(connection, numbers):
        # `collection/id` looks like a path too, until one asks whether there is such a memory.
        here = edges[edge.collection, edge.id]
        if (
            edge.kind == "ghost"
            and len(here) < _MOST_LINKS
            and _resolved(connection, key(edge.target)) is None
        ):
            here.append(edge)
    return edges


def _numbers(connection: sqlite3.Connection, collection: str | None, name: str) -> list[int]:
    """The memories of that name, in any spelling, in that collection or in any."""
    query = "SELECT number, collection FROM memories WHERE key = ? AND NOT is_gone ORDER BY number"
    return [
        number
        for number, where in connection.execute(query, (key(name),))
        if collection is None or key(where) == key(collection)
    ]


def _how(edge: Edge, project: Project | None) -> Linked:
    if project is None:
        return Linked(edge.target, edge.edge, edge.context, edge.line)
    state = project.check(edge.target, edge.written, edge.seen)
    return Linked(edge.target, edge.edge, edge.context, edge.line, state.state, state.now_at)


# Who links to a document


def linked(
    banks: Sequence[Indexed], target: str, wanted: Wanted, recency: Recency, now: datetime
) -> Answer:
    """The memories that link to a document: those a question fits best, or the newest first."""
    hits: list[Hit] = []
    answers = []
    for bank in banks:
        edges = bank.read(lambda connection: _linking_to(connection, target))
        if edges:
            answer = _ranked(bank, edges, wanted, recency, now)
            hits += _with_anchors(bank, answer.hits, edges)
            answers.append(answer)
    if not wanted.query.strip():  # every link answers a question that asks for nothing more
        hits = [hit._replace(score=1.0) for hit in hits]
    hits.sort(key=lambda hit: (hit.collection, hit.id))
    hits.sort(key=(lambda hit: hit.score) if wanted.query.strip() else _age, reverse=True)
    reasons = dict.fromkeys(reason for one in answers for reason in one.degraded.reasons)
    pending = sum(one.degraded.pending for one in answers)
    sure = max((one.confidence for one in answers), default=0.0)
    degraded = Degraded(pending, tuple(reasons))
    return Answer(tuple(hits[: wanted.limit]), sure, bool(hits), degraded)


def _age(hit: Hit) -> str:
    return hit.created_at


def _ranked(
    bank: Indexed, edges: Sequence[Edge], wanted: Wanted, recency: Recency, now: datetime
) -> Answer:
    names = {(edge.collection, edge.id) for edge in edges}
    conditions = wanted.conditions._replace(only=frozenset(names))
    # A link is reason enough to be listed, whether or not the question fits.
    every = wanted._replace(conditions=conditions, limit=len(names), lists_all=True)
    return search([bank], every, recency, now)


def _with_anchors(bank: Indexed, hits: Sequence[Hit], edges: Sequence[Edge]) -> Iterable[Hit]:
    project = bank.project
    for hit in hits:
        own = [edge for edge in edges if (edge.collection, edge.id) == (hit.collection, hit.id)]
        yield hit._replace(links=tuple(_how(edge, project) for edge in own))


def _linking_to(connection: sqlite3.Connection, target: str) -> list[Edge]:
    """Every link to a document or a memory, however either is spelt."""
    plain = target.strip().removeprefix("ghost:").removeprefix("memory:")
    plain = plain.encode("utf-8", "replace").decode()  # no file has half a character in its name
    names = {normal(plain), key(plain)}
    number = _resolved(connection, key(plain))
    if number is not None:
        names |= _names_of(connection, number)
    edges = [edge for edge in graph.edges_to(connection, names) if edge.edge != "merged_from"]
    return edges if number is None else [it._replace(edge=it.memory_edge) for it in edges]


def _names_of(connection: sqlite3.Connection, number: int) -> set[str]:
    """Every name a link may call a memory by, those of the memories merged into it as well."""
    collection, name = connection.execute(
        "SELECT collection, key FROM memories WHERE number = ?", (number,)
    ).fetchone()
    merged = connection.execute(
        "SELECT target FROM links WHERE memory = ? AND edge = 'merged_from'", (number,)
    )
    return {name, f"{key(collection)}/{name}", *(target for (target,) in merged)}


def _resolved(connection: sqlite3.Connection, name: str) -> int | None:
    """The memory that a link's target names, if there is one; merged memories live on in one."""
    collection, _, last = name.rpartition("/")
    found = _numbers(connection, collection if "/" in name else None, last)
    if found:
        return found[0]
    row = connection.execute(
        "SELECT memory FROM links WHERE target = ? AND edge = 'merged_from' LIMIT 1", (name,)
    ).fetchone()
    return row[0] if row else None


# The graph


def graph_of(bank: Indexed, ref: str = "", depth: int = 2) -> Graph:
    """The whole graph of a bank, or what is within some steps of a memory, in both directions."""
    return bank.read(lambda connection: _graph(connection, bank.project, ref, depth))


def _graph(connection: sqlite3.Connection, project: Project | None, ref: str, depth: int) -> Graph:
    edges = _all_edges(connection)
    if ref:
        start = _start(connection, ref)
        edges = _within(edges, start, depth)
        names = {start} | {name for edge in edges for name in (edge.source, edge.target)}
    else:
        names = {name for edge in edges for name in (edge.source, edge.target)}
        names |= set(_titles(connection))
    titles = _titles(connection)
    written = _written(connection)
    nodes = [_node(name, titles, project, written) for name in sorted(names)]
    return Graph(tuple(nodes), tuple(edges))


def _start(connection: sqlite3.Connection, ref: str) -> str:
    collection, name = split_ref(ref)
    found = _numbers(connection, collection, name)
    if not found:
        raise NotFound(f"there is no memory {ref!r}")
    return _ref(connection, found[0])


def _ref(connection: sqlite3.Connection, number: int) -> str:
    query = "SELECT collection, id FROM memories WHERE number = ?"
    collection, name = connection.execute(query, (number,)).fetchone()
    return f"{collection}/{name}" if collection else str(name)


def _all_edges(connection: sqlite3.Connection) -> list[Relation]:
    numbers = [number for (number,) in connection.execute("SELECT number FROM memories")]
    resolved: dict[str, int | None] = {}
    relations = []
    for edge in graph.edges_from(connection, numbers):
        source = f"{edge.collection}/{edge.id}" if edge.collection else edge.id
        if edge.edge == "merged_from":
            continue
        if edge.target not in resolved:
            resolved[edge.target] = _resolved(connection, key(edge.target))
        number = resolved[edge.target]
        if number is not None:
            relation = (_ref(connection, number), edge.memory_edge)
        else:
            prefix = "ghost:" if edge.kind == "ghost" else "?"
            meant = edge.edge if edge.kind == "ghost" else edge.memory_edge
            relation = (f"{prefix}{edge.target}", meant)
        relations.append(Relation(source, *relation, edge.context, edge.line))
    return relations


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


def _written(connection: sqlite3.Connection) -> dict[str, tuple[float, str]]:
    """For each ghost, when the memory that saw it last was written, and what it saw."""
    query = (
        "SELECT l.target, m.written, l.seen FROM links l JOIN memories m ON m.number = l.memory "
        "WHERE l.kind = 'ghost' ORDER BY m.written"
    )
    return {target: (written, seen) for target, written, seen in connection.execute(query)}


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


# Who is related


class Related(NamedTuple):
    """A memory that is connected with another, and by what."""

    id: str
    collection: str
    title: str
    score: float
    reasons: Mapping[str, float]


def related(bank: Indexed, ref: str, limit: int) -> list[Related]:
    """Memories connected with one: by links, files, tags or meaning, the strongest first."""
    return bank.read(lambda connection: _related(bank, connection, ref, limit))


def _related(bank: Indexed, connection: sqlite3.Connection, ref: str, limit: int) -> list[Related]:
    collection, name = split_ref(ref)
    found = _numbers(connection, collection, name)
    if not found:
        raise NotFound(f"there is no memory {ref!r}")
    reasons = _reasons(connection, found[0], nearest(bank, connection, found[0]))
    names = {
        number: (collection, name, title)
        for number, collection, name, title in connection.execute(
            "SELECT number, collection, id, title FROM memories WHERE NOT is_gone "
            "AND status <> 'retired'"
        )
    }
    made = [
        Related(names[n][1], names[n][0], names[n][2], round(min(1.0, sum(why.values())), 4), why)
        for n, why in reasons.items()
        if n in names
    ]
    return sorted(made, key=lambda one: (-one.score, one.collection, one.id))[:limit]


def _reasons(
    connection: sqlite3.Connection, number: int, near: Mapping[int, float]
) -> dict[int, dict[str, float]]:
    """Other memories by what connects them: links, shared files, shared tags, nearness."""
    reasons: dict[int, dict[str, float]] = defaultdict(dict)
    for other, score in near.items():
        if score >= _SIMILAR:
            reasons[other]["similar"] = score
    for other in _neighbours(connection, number):
        reasons[other]["linked"] = _LINK
    for other, count in _sharing_files(connection, number):
        reasons[other]["shared files"] = _SHARED_FILE * min(count, 3)
    for other, count in _sharing_tags(connection, number):
        reasons[other]["shared tags"] = _SHARED_TAG * min(count, 3)
    reasons.pop(number, None)
    return reasons


def _neighbours(connection: sqlite3.Connection, number: int) -> Iterable[int]:
    for edge in graph.edges_from(connection, [number]):
        other = _resolved(connection, key(edge.target))
        if other is not None:
            yield other
    for edge in graph.edges_to(connection, _names_of(connection, number)):
        yield edge.memory


def _sharing_files(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    query = (
        "SELECT b.memory, count(DISTINCT b.target) FROM links a "
        "JOIN links b ON a.target = b.target "
        "WHERE a.memory = ? AND a.kind = 'ghost' AND b.kind = 'ghost' GROUP BY b.memory"
    )
    return list(connection.execute(query, (number,)))


def _sharing_tags(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    query = (
        "SELECT m.number, count(*) FROM memories m, json_each(m.tags) t WHERE NOT m.is_gone "
        "AND t.value IN (SELECT o.value FROM memories s, json_each(s.tags) o WHERE s.number = ?) "
        "GROUP BY m.number"
    )
    return list(connection.execute(query, (number,)))
