"""Answers that follow links: what a hit links to, who links to a document, who is related."""

from __future__ import annotations

import posixpath
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import BadName, NotFound, UsageError
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

__all__ = [
    "MOST_AROUND",
    "Document",
    "Graph",
    "Node",
    "Related",
    "Relation",
    "addresses",
    "connections",
    "ghost_of",
    "graph_of",
    "linked",
    "related",
    "successors",
    "with_links",
]

MOST_AROUND: Final = 1_000  # links of one memory that are looked at, and of those to it
_SHARED_TAG: Final = 0.1  # what a shared tag adds, at most three times
_LINK: Final = 0.4
_MOST_LINKS: Final = 20  # files shown with one hit
_SIMILAR: Final = 0.3  # cosine below which two memories have nothing to do with each other
_SHARED_FILE: Final = 0.15
_MOST_MISSING: Final = 200  # linked files that are not there, looked at for one that moved


class Document(NamedTuple):
    """A file or a memory as a person names it, and the directory they stand in."""

    plain: str
    cwd: str

    @classmethod
    def of(cls, target: str, cwd: str) -> Document:
        plain = target.strip().removeprefix("ghost:").removeprefix("memory:")
        # No file has half a character in its name.
        return cls(plain.encode("utf-8", "replace").decode(), cwd)


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


class _Around(NamedTuple):
    """What stands around some hits: the files each links to, and what each is superseded by."""

    edges: Mapping[tuple[str, str], Sequence[Edge]]
    successors: Mapping[tuple[str, str], str]


def with_links(banks: Sequence[Indexed], answer: Answer) -> Answer:
    """Each hit with the files it links to, how they are now, and what it is superseded by."""
    hits = list(answer.hits)
    for bank in banks:
        own = [at for at, hit in enumerate(hits) if bank.owns(hit)]
        if own:
            # In the very index that was brought in step: another may have been put in its place.
            around = bank.read(partial(_around, hits=[hits[at] for at in own]), is_fresh=True)
            project = bank.project
            for at in own:
                name = (hits[at].collection, hits[at].id)
                hits[at] = hits[at]._replace(
                    links=tuple(_how(edge, project) for edge in around.edges.get(name, ())),
                    superseded_by=around.successors.get(name, ""),
                )
    return answer._replace(hits=tuple(hits))


def _around(connection: sqlite3.Connection, hits: Sequence[Hit]) -> _Around:
    found = {
        (hit.collection, hit.id): number
        for hit in hits
        for number in _numbers(connection, hit.collection, hit.id)
    }
    old = {(hit.collection, hit.id) for hit in hits if hit.is_superseded} & found.keys()
    named = successors(connection, [found[name] for name in old])
    return _Around(
        _files_linked(connection, found.values()),
        {name: named[found[name]] for name in old if found[name] in named},
    )


def successors(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """What each of these memories is superseded by, by its own word or the other's."""
    numbers = list(numbers)
    if not numbers:
        return {}
    replaced = graph.superseded(connection)
    found: dict[int, str] = {}
    for number in numbers:
        collection, name = connection.execute(
            "SELECT collection, key FROM memories WHERE number = ?", (number,)
        ).fetchone()
        heir = replaced.get(f"{key(collection)}/{name}")
        if heir is not None:
            found[number] = _ref(connection, heir)
    for edge in graph.edges_from(connection, numbers):
        # What a memory says of itself counts more; a name that nobody has is told as it is.
        if edge.memory_edge == "superseded_by":
            heir = _resolved(connection, key(edge.target))
            found[edge.memory] = edge.target if heir is None else _ref(connection, heir)
    return found


def _files_linked(
    connection: sqlite3.Connection, numbers: Iterable[int]
) -> Mapping[tuple[str, str], list[Edge]]:
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
    found = Linked(
        edge.target, edge.edge, edge.context, edge.line, anchor=edge.anchor, label=edge.label
    )
    if project is None:
        return found
    now = project.check(edge.target, edge.written, edge.seen)
    return found._replace(freshness=now.state, now_at=now.now_at)


# Who links to a document


def linked(
    banks: Sequence[Indexed], document: Document, wanted: Wanted, recency: Recency, now: datetime
) -> Answer:
    """The memories that link to a document: those a question fits best, or the newest first."""
    wanted = wanted.checked()
    hits: list[Hit] = []
    answers = []
    for bank in banks:
        edges = bank.read(partial(_linking_to, document=document, project=bank.project))
        if edges:
            answer = _ranked(bank, edges, wanted, recency, now)
            hits += _with_anchors(bank, answer.hits, edges)
            answers.append(answer)
    if not answers:
        _refuse_outside(document, [bank.project for bank in banks])
    if not wanted.query.strip():  # every link answers a question that asks for nothing more
        hits = [hit._replace(score=1.0) for hit in hits]
    hits.sort(key=lambda hit: (hit.collection, hit.id))
    hits.sort(key=(lambda hit: hit.score) if wanted.query.strip() else _age, reverse=True)
    sure = max((one.confidence for one in answers), default=0.0)
    degraded = Degraded.of(one.degraded for one in answers)
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


def _refuse_outside(document: Document, projects: Sequence[Project | None]) -> None:
    """Say so when a document that nothing links to can be no file of any project."""
    if not document.plain:
        raise UsageError("say which document: a file of the project, or a memory")
    roots = [project.root for project in projects if project]
    if roots and not any(one.meant(document.plain, document.cwd) for one in projects if one):
        raise UsageError(
            f"{document.plain} is outside the project {roots[0]}, and no memory links to it",
            hint=f"Name a file below {roots[0]}, or a memory.",
        )


def _linking_to(
    connection: sqlite3.Connection, document: Document, project: Project | None
) -> list[Edge]:
    """Every link to a document or a memory, however either is spelt."""
    plain = document.plain
    names = set(_file_names(connection, document, project))
    number = _resolved(connection, key(plain))
    if number is not None:
        names |= _names_of(connection, number)
    if number is not None or normal(plain) in names:
        names.add(key(plain))
    edges = [edge for edge in graph.edges_to(connection, names) if edge.edge != "merged_from"]
    return edges if number is None else [it._replace(edge=it.memory_edge) for it in edges]


def _file_names(
    connection: sqlite3.Connection, document: Document, project: Project | None
) -> list[str]:
    """What links call a file: its place in the project, and where it stood before it moved."""
    places = project.meant(document.plain, document.cwd) if project else []
    if project is None or not places:
        return [normal(document.plain)]
    if not project.has(places[0]):
        return places
    known = _written(connection)
    missing = [one for one in known if one not in places and not project.has(one)]
    # What kept its name is likelier to be the same file; a bank may speak of many that are gone.
    name = posixpath.basename(places[0])
    missing.sort(key=lambda one: posixpath.basename(one) != name)
    moved = [
        one for one in missing[:_MOST_MISSING] if project.check(one, *known[one]).now_at in places
    ]
    return [*places, *moved]


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


def graph_of(bank: Indexed, ref: str = "", depth: int = 2, *, cwd: str = "") -> Graph:
    """A bank's whole graph, or what is within some steps of a memory or a file, both ways."""
    return bank.read(lambda connection: _graph(connection, bank.project, ref, depth, cwd))


def ghost_of(bank: Indexed, path: str, cwd: str) -> str:
    """The linked file that a path means, as the graph names it; empty for one nobody links to."""
    document, project = Document.of(path, cwd), bank.project
    return bank.read(lambda connection: _ghost(connection, document, project))


def _ghost(connection: sqlite3.Connection, document: Document, project: Project | None) -> str:
    for name in _file_names(connection, document, project):
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
    written = _written(connection)
    nodes = [_node(name, titles, project, written) for name in sorted(names)]
    return Graph(tuple(nodes), tuple(edges))


def _start(connection: sqlite3.Connection, ref: str) -> str:
    """The memory that a reference names, empty if there is none."""
    try:
        collection, name = split_ref(ref)
    except BadName:  # a path has names that no memory may have
        return ""
    found = _numbers(connection, collection, name)
    return _ref(connection, found[0]) if found else ""


def _ref(connection: sqlite3.Connection, number: int) -> str:
    query = "SELECT collection, id FROM memories WHERE number = ?"
    collection, name = connection.execute(query, (number,)).fetchone()
    return f"{collection}/{name}" if collection else str(name)


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
        """The memory that a target names, as `_resolved` finds it; empty if there is none."""
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
    for edge in graph.edges_from(connection, [number], once=True):
        other = _resolved(connection, key(edge.target))
        if other is not None:
            yield other
    for edge in graph.edges_to(connection, _names_of(connection, number), once=True):
        yield edge.memory


def _sharing_files(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    query = (
        "SELECT memory, count(DISTINCT target) FROM links WHERE kind = 'ghost' AND target IN "
        "(SELECT target FROM links WHERE memory = ? AND kind = 'ghost') GROUP BY memory"
    )
    return list(connection.execute(query, (number,)))


def _sharing_tags(connection: sqlite3.Connection, number: int) -> list[tuple[int, int]]:
    query = (
        "SELECT m.number, count(*) FROM memories m, json_each(m.tags) t WHERE NOT m.is_gone "
        "AND t.value IN (SELECT o.value FROM memories s, json_each(s.tags) o WHERE s.number = ?) "
        "GROUP BY m.number"
    )
    return list(connection.execute(query, (number,)))


# What is around one memory, quickly


def connections(bank: Indexed, ref: str) -> Graph:
    """The links of one memory and those to it, each once; no others are looked at."""
    return bank.read(lambda connection: _connections(connection, bank.project, ref))


def _connections(connection: sqlite3.Connection, project: Project | None, ref: str) -> Graph:
    found = _numbers(connection, *split_ref(ref))
    if not found:
        raise NotFound(f"there is no memory {ref!r}")
    number, name = found[0], _ref(connection, found[0])
    nodes = {name: _memory_node(connection, number)}
    relations = []
    meant = cache(lambda target: _resolved(connection, key(target)))
    for edge in graph.edges_from(connection, [number], once=True, most=MOST_AROUND):
        if edge.edge != "merged_from":
            node, relation = _onward(connection, edge, project, name)
            nodes[relation.target] = node
            relations.append(relation)
    names = _names_of(connection, number)
    for edge in graph.edges_to(connection, names, once=True, most=MOST_AROUND):
        # A bare name may mean another memory, of another collection.
        is_meant = edge.memory != number and meant(edge.target) == number
        if is_meant and edge.edge != "merged_from":
            source = _ref(connection, edge.memory)
            nodes[source] = _memory_node(connection, edge.memory)
            relations.append(Relation(source, name, edge.memory_edge, edge.context, edge.line))
    return Graph(tuple(nodes.values()), tuple(relations))


def _onward(
    connection: sqlite3.Connection, edge: Edge, project: Project | None, source: str
) -> tuple[Node, Relation]:
    """Where a link leads to: a memory, a file as it is now, or nowhere."""
    number = _resolved(connection, key(edge.target))
    if number is not None:
        node, how = _memory_node(connection, number), edge.memory_edge
        return node, Relation(source, node.name, how, edge.context, edge.line)
    if edge.kind != "ghost":
        node = Node(edge.target, "dangling")
        return node, Relation(source, f"?{edge.target}", edge.memory_edge, edge.context, edge.line)
    state = _how(edge, project)
    node = Node(f"ghost:{edge.target}", "ghost", "", state.freshness, state.now_at)
    return node, Relation(source, node.name, edge.edge, edge.context, edge.line)


def _memory_node(connection: sqlite3.Connection, number: int) -> Node:
    (title,) = connection.execute(
        "SELECT title FROM memories WHERE number = ?", (number,)
    ).fetchone()
    return Node(_ref(connection, number), "memory", title)


def addresses(bank: Indexed, targets: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Collection and id of the memories that links name, by what they call them."""
    return bank.read(lambda connection: _addresses(connection, targets))


def _addresses(
    connection: sqlite3.Connection, targets: Sequence[str]
) -> dict[str, tuple[str, str]]:
    numbers = {target: _resolved(connection, key(target)) for target in targets}
    query = "SELECT collection, id FROM memories WHERE number = ?"
    return {
        target: connection.execute(query, (number,)).fetchone()
        for target, number in numbers.items()
        if number is not None
    }
