"""What a bank's links connect: its graph, who links to a document, what is related to a memory."""

from __future__ import annotations

import json
import posixpath
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import BadName, NotFound, UsageError
from retain.index.graph import Edge, edges_from, edges_to, memory_of, numbers_of, ref_of
from retain.index.index import Index
from retain.memory import Answer, Data, Degraded, Hit, key, split_ref
from retain.search.duplicates import nearest
from retain.search.rank import Recency
from retain.search.request import SearchRequest
from retain.search.search import link_state, search
from retain.text.links import normalize_target

if TYPE_CHECKING:
    from retain.index.freshness import Project


MOST_AROUND: Final = 1_000  # links of one memory that are looked at, and of those to it
_MOST_MISSING: Final = 200  # linked files that are not there, looked at for one that moved
# What connects two memories adds so much; files and tags that they share at most three times.
_LINK: Final = 0.4
_SHARED_FILE: Final = 0.15
_SHARED_TAG: Final = 0.1
_SIMILAR: Final = 0.3  # cosine below which two memories have nothing to do with each other


class Node(NamedTuple):
    """A memory, a ghost (a file outside the bank) or a name that nothing answers to."""

    name: str
    kind: str  # memory, ghost, dangling
    title: str = ""
    freshness: str = ""
    now_at: str = ""


class Relation(NamedTuple):
    """One edge of the graph; the target of a dangling one begins with a question mark."""

    source: str
    target: str
    edge: str
    context: str
    line: int


class Graph(NamedTuple):
    """A piece of a bank's graph."""

    nodes: tuple[Node, ...]
    edges: tuple[Relation, ...]

    def to_dict(self) -> Data:
        return {
            "nodes": [
                {name: value or None for name, value in node._asdict().items()}
                for node in self.nodes
            ],
            "edges": [
                {
                    "source": edge.source,
                    "target": edge.target.removeprefix("?"),
                    "edge_type": edge.edge,
                    "anchor_context": edge.context,
                    "line": edge.line,
                }
                for edge in self.edges
            ],
        }


# Documents: files and memories, as people and links name them


class Document(NamedTuple):
    """A file or a memory as a person names it, and the directory they stand in."""

    plain: str
    cwd: str

    @classmethod
    def of(cls, target: str, cwd: str) -> Document:
        plain = target.strip().removeprefix("ghost:").removeprefix("memory:")
        # No file has half a character in its name.
        return cls(plain.encode("utf-8", "replace").decode(), cwd)


def _file_names(
    connection: sqlite3.Connection, document: Document, project: Project | None
) -> list[str]:
    """What links call a file: its place in the project, and where it stood before it moved."""
    places = project.targets_of(document.plain, document.cwd) if project else []
    if project is None or not places:
        return [normalize_target(document.plain)]
    if not project.has(places[0]):
        return places
    seen = _last_seen(connection)
    missing = [path for path in seen if path not in places and not project.has(path)]
    # What kept its name is likelier to be the same file; a bank may speak of many that are gone.
    name = posixpath.basename(places[0])
    missing.sort(key=lambda path: posixpath.basename(path) != name)
    missing = missing[:_MOST_MISSING]
    return [
        *places,
        *(path for path in missing if project.check(path, *seen[path]).now_at in places),
    ]


def _last_seen(connection: sqlite3.Connection) -> dict[str, tuple[float, str]]:
    """For each ghost, when the memory that saw it last was written, and what it saw."""
    query = (
        "SELECT l.target, m.written, l.seen FROM links l JOIN memories m ON m.number = l.memory "
        "WHERE l.kind = 'ghost' ORDER BY m.written"
    )
    return {target: (written, seen) for target, written, seen in connection.execute(query)}


def _memory_names(connection: sqlite3.Connection, number: int) -> set[str]:
    """Every name a link may call a memory by, those of the memories merged into it as well."""
    collection, name = connection.execute(
        "SELECT collection, key FROM memories WHERE number = ?", (number,)
    ).fetchone()
    merged = connection.execute(
        "SELECT target FROM links WHERE memory = ? AND edge = 'merged_from'", (number,)
    )
    return {name, f"{key(collection)}/{name}", *(target for (target,) in merged)}


def _find(connection: sqlite3.Connection, ref: str) -> int:
    numbers = numbers_of(connection, *split_ref(ref))
    if not numbers:
        raise NotFound(f"there is no memory {ref!r}")
    return numbers[0]


def addresses(index: Index, targets: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Collection and id of the memories that links name, by what they call them."""
    return index.read(partial(_addresses, targets=targets))


def _addresses(
    connection: sqlite3.Connection, targets: Sequence[str]
) -> dict[str, tuple[str, str]]:
    query = "SELECT collection, id FROM memories WHERE number = ?"
    numbers = {target: memory_of(connection, key(target)) for target in targets}
    rows = {name: connection.execute(query, (it,)).fetchone() for name, it in numbers.items()}
    return {name: row for name, row in rows.items() if row}


# The graph


def graph_of(index: Index, ref: str = "", depth: int = 2, *, cwd: str = "") -> Graph:
    """A bank's whole graph, or what is within some steps of a memory or a file, both ways."""
    return index.read(partial(_graph, project=index.project, ref=ref, depth=depth, cwd=cwd))


def _graph(
    connection: sqlite3.Connection, project: Project | None, ref: str, depth: int, cwd: str
) -> Graph:
    numbers = [number for (number,) in connection.execute("SELECT number FROM memories")]
    edges = _relations(connection, edges_from(connection, numbers))
    titles = _titles(connection)
    names = set() if ref else set(titles)
    if ref:
        start = _start(connection, ref) or _ghost(connection, Document.of(ref, cwd), project)
        if not start:
            raise NotFound(f"there is no memory {ref!r}, and none links to such a file")
        edges = _within(edges, start, depth)
        names = {start}
    names.update(name for edge in edges for name in (edge.source, edge.target))
    seen = _last_seen(connection)
    nodes = tuple(_node(name, titles, project, seen) for name in sorted(names))
    return Graph(nodes, tuple(edges))


def _titles(connection: sqlite3.Connection) -> dict[str, str]:
    """The title of every memory, by its reference."""
    query = "SELECT collection, id, title FROM memories WHERE NOT is_gone"
    return {
        f"{collection}/{name}" if collection else name: title
        for collection, name, title in connection.execute(query)
    }


def _relations(connection: sqlite3.Connection, edges: Iterable[Edge]) -> list[Relation]:
    """Links as edges between what they name, each once."""

    @cache
    def resolve(target: str, near: str) -> str:
        number = memory_of(connection, key(target), near)
        return "" if number is None else ref_of(connection, number)

    relations: dict[tuple[str, str, str], Relation] = {}
    for edge in edges:
        if edge.edge == "merged_from":
            continue
        source = f"{edge.collection}/{edge.id}" if edge.collection else edge.id
        target, meaning = resolve(edge.target, edge.collection), edge.memory_edge
        if not target and edge.kind == "ghost":
            target, meaning = f"ghost:{edge.target}", edge.edge
        target = target or f"?{edge.target}"
        relation = Relation(source, target, meaning, edge.context, edge.line)
        relations.setdefault((source, target, meaning), relation)
    return list(relations.values())


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


def _node(
    name: str,
    titles: Mapping[str, str],
    project: Project | None,
    seen: Mapping[str, tuple[float, str]],
) -> Node:
    if name in titles:
        return Node(name, "memory", titles[name])
    if name.startswith("?"):
        return Node(name[1:], "dangling")
    if project is None:
        return Node(name, "ghost")
    target = name.removeprefix("ghost:")
    now = project.check(target, *seen.get(target, (0.0, "")))
    return Node(name, "ghost", "", now.state, now.now_at)


def _start(connection: sqlite3.Connection, ref: str) -> str:
    """The memory that a reference names, empty if there is none."""
    try:
        return ref_of(connection, _find(connection, ref))
    except (BadName, NotFound):  # a path has names that no memory may have
        return ""


def ghost_of(index: Index, path: str, cwd: str) -> str:
    """The linked file that a path means, as the graph names it; empty for one nobody links to."""
    return index.read(partial(_ghost, document=Document.of(path, cwd), project=index.project))


def _ghost(connection: sqlite3.Connection, document: Document, project: Project | None) -> str:
    for name in _file_names(connection, document, project):
        if any(edge.kind == "ghost" for edge in edges_to(connection, [name])):
            return f"ghost:{name}"
    return ""


def connections(index: Index, ref: str) -> Graph:
    """The links of one memory and those to it, each once; no others are looked at."""
    return index.read(partial(_connections, project=index.project, ref=ref))


def _connections(connection: sqlite3.Connection, project: Project | None, ref: str) -> Graph:
    number = _find(connection, ref)
    name = ref_of(connection, number)
    outward = edges_from(connection, [number], once=True, most=MOST_AROUND)
    names = _memory_names(connection, number)
    inward = _relations(connection, edges_to(connection, names, once=True, most=MOST_AROUND))
    # A bare name may mean another memory, of another collection.
    inward = [edge for edge in inward if edge.target == name != edge.source]
    edges = [*_relations(connection, outward), *inward]
    around = dict.fromkeys([name, *(edge.target for edge in edges), *(it.source for it in inward)])
    titles, seen = _titles(connection), {it.target: (it.written, it.seen) for it in outward}
    return Graph(tuple(_node(other, titles, project, seen) for other in around), tuple(edges))


# Who links to a document


def linked(
    indexes: Sequence[Index], document: Document, request: SearchRequest, recency: Recency
) -> Answer:
    """The memories that link to a document: those a question fits best, or the newest first."""
    request = request.checked()
    is_question = bool(request.query.strip())
    hits: list[Hit] = []
    answers = []
    for index in indexes:
        project = index.project
        edges: dict[tuple[str, str], list[Edge]] = defaultdict(list)
        for edge in index.read(partial(_linking_to, document=document, project=project)):
            edges[edge.collection, edge.id].append(edge)
        if not edges:
            continue
        # A link is reason enough to be listed, whether or not the question fits.
        filters = request.filters._replace(only=frozenset(edges))
        every = request._replace(filters=filters, limit=len(edges), lists_all=True)
        answers.append(search([index], every, recency))
        for hit in answers[-1].hits:
            links = [link_state(edge, project) for edge in edges[hit.collection, hit.id]]
            score = hit.score if is_question else 1.0  # every link answers what asks for no more
            hits.append(hit._replace(links=tuple(links), score=score))
    if not answers:
        _refuse_outside(document, [index.project for index in indexes])
    hits.sort(key=lambda hit: (hit.collection, hit.id))
    hits.sort(key=lambda hit: hit.score if is_question else hit.created_at, reverse=True)
    confidence = max((answer.confidence for answer in answers), default=0.0)
    degraded = Degraded.of(answer.degraded for answer in answers)
    return Answer(tuple(hits[: request.limit]), confidence, bool(hits), degraded)


def _refuse_outside(document: Document, projects: Sequence[Project | None]) -> None:
    """Say so when a document that nothing links to can be no file of any project."""
    if not document.plain:
        raise UsageError("say which document: a file of the project, or a memory")
    there = [project for project in projects if project]
    if there and not any(project.targets_of(document.plain, document.cwd) for project in there):
        raise UsageError(
            f"{document.plain} is outside the project {there[0].root}, and no memory links to it",
            hint=f"Name a file below {there[0].root}, or a memory.",
        )


def _linking_to(
    connection: sqlite3.Connection, document: Document, project: Project | None
) -> list[Edge]:
    """Every link to a document or a memory, however either is spelt."""
    plain = document.plain
    names = set(_file_names(connection, document, project))
    number = memory_of(connection, key(plain))
    if number is not None:
        names |= _memory_names(connection, number)
    if number is not None or normalize_target(plain) in names:
        names.add(key(plain))
    edges = [edge for edge in edges_to(connection, names) if edge.edge != "merged_from"]
    return edges if number is None else [edge._replace(edge=edge.memory_edge) for edge in edges]


# Memories connected with one


class Related(NamedTuple):
    """A memory that is connected with another, and by what."""

    id: str
    collection: str
    title: str
    score: float
    reasons: Mapping[str, float]

    def to_dict(self) -> Data:
        return {**self._asdict(), "reasons": dict(self.reasons)}


def related(index: Index, ref: str, limit: int) -> list[Related]:
    """Memories connected with one: by links, files, tags or meaning, the strongest first."""
    return index.read(partial(_related, index=index, ref=ref))[:limit]


def _related(connection: sqlite3.Connection, index: Index, ref: str) -> list[Related]:
    number = _find(connection, ref)
    reasons: dict[int, dict[str, float]] = defaultdict(dict)
    for other, score in nearest(index, connection, number).items():
        if score >= _SIMILAR:
            reasons[other]["similar"] = score
    for edge in edges_from(connection, [number], once=True):
        target = memory_of(connection, key(edge.target), edge.collection)
        if target is not None:
            reasons[target]["linked"] = _LINK
    for edge in edges_to(connection, _memory_names(connection, number), once=True):
        if memory_of(connection, key(edge.target), edge.collection) == number:
            reasons[edge.memory]["linked"] = _LINK
    for other, count in connection.execute(_SHARING_FILES, (number,)):
        reasons[other]["shared files"] = _SHARED_FILE * min(count, 3)
    for other, count in connection.execute(_SHARING_TAGS, (number,)):
        reasons[other]["shared tags"] = _SHARED_TAG * min(count, 3)
    reasons.pop(number, None)
    query = (
        "SELECT number, id, collection, title FROM memories WHERE NOT is_gone "
        "AND status <> 'retired' AND number IN (SELECT value FROM json_each(?))"
    )
    found = []
    for other, name, collection, title in connection.execute(query, (json.dumps([*reasons]),)):
        score = round(min(1.0, sum(reasons[other].values())), 4)
        found.append(Related(name, collection, title, score, reasons[other]))
    return sorted(found, key=lambda one: (-one.score, one.collection, one.id))


_SHARING_FILES: Final = (
    "SELECT memory, count(DISTINCT target) FROM links WHERE kind = 'ghost' AND target IN "
    "(SELECT target FROM links WHERE memory = ? AND kind = 'ghost') GROUP BY memory"
)
_SHARING_TAGS: Final = (
    "SELECT m.number, count(*) FROM memories m, json_each(m.tags) t WHERE NOT m.is_gone "
    "AND t.value IN (SELECT o.value FROM memories s, json_each(s.tags) o WHERE s.number = ?) "
    "GROUP BY m.number"
)
