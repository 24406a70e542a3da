"""What a bank's links connect: its graph, who links to a document, what is related to a memory."""

from __future__ import annotations

import json
import posixpath
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import BadName, NotFound, UsageError
from retain.index.graph import Edge, edges_from, edges_to, numbers_of, ref_of, resolve_link
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

    def to_dict(self) -> Data:
        return {name: value or None for name, value in self._asdict().items()}


class Relation(NamedTuple):
    """One edge of the graph; the target of a dangling one begins with a question mark."""

    source: str
    target: str
    edge: str
    context: str
    line: int

    def to_dict(self) -> Data:
        return {
            "source": self.source,
            "target": self.target.removeprefix("?"),
            "edge_type": self.edge,
            "anchor_context": self.context,
            "line": self.line,
        }


class Graph(NamedTuple):
    """A piece of a bank's graph."""

    nodes: tuple[Node, ...]
    edges: tuple[Relation, ...]

    def to_dict(self) -> Data:
        return {
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [edge.to_dict() for edge in self.edges],
        }


class Related(NamedTuple):
    """A memory that is connected with another, and by what."""

    id: str
    collection: str
    title: str
    score: float
    reasons: Mapping[str, float]

    def to_dict(self) -> Data:
        return {**self._asdict(), "reasons": dict(self.reasons)}


# What the doors ask


def graph_of(index: Index, ref: str = "", depth: int = 2, *, cwd: str = "") -> Graph:
    """A bank's whole graph, or what is within some steps of a memory or a file, both ways."""
    return index.read(lambda connection: _Links(connection, index).graph(ref, depth, cwd))


def connections(index: Index, ref: str) -> Graph:
    """The links of one memory and those to it, each once; no others are looked at."""
    return index.read(lambda connection: _Links(connection, index).connections(ref))


def ghost_of(index: Index, path: str, cwd: str) -> str:
    """The linked file that a path means, as the graph names it; empty for one nobody links to."""
    return index.read(lambda connection: _Links(connection, index).ghost(path, cwd))


def related(index: Index, ref: str, limit: int) -> list[Related]:
    """Memories connected with one: by links, files, tags or meaning, the strongest first."""
    return index.read(lambda connection: _Links(connection, index).related(ref))[:limit]


def addresses(index: Index, targets: Sequence[str], near: str) -> dict[str, tuple[str, str, str]]:
    """Collection, id and title of the memories that links from the collection `near` name."""

    def read(connection: sqlite3.Connection) -> dict[str, tuple[str, str, str]]:
        query = "SELECT collection, id, title FROM memories WHERE number = ?"
        numbers = {target: resolve_link(connection, target, near) for target in targets}
        rows = {name: connection.execute(query, (it,)).fetchone() for name, it in numbers.items()}
        return {name: row for name, row in rows.items() if row}

    return index.read(read)


def linked(
    indexes: Sequence[Index], target: str, cwd: str, request: SearchRequest, recency: Recency
) -> Answer:
    """The memories that link to a document: those a question fits best, or the newest first."""
    request = request.validate()
    is_question = bool(request.query.strip())
    hits: list[Hit] = []
    answers = []
    for index in indexes:
        edges: dict[tuple[str, str], list[Edge]] = defaultdict(list)
        for edge in _edges_to(index, target, cwd):
            edges[edge.collection, edge.id].append(edge)
        if not edges:
            continue
        # A link is reason enough to be listed, whether or not the question fits.
        filters = request.filters._replace(only=frozenset(edges))
        every = request._replace(filters=filters, limit=len(edges), lists_all=True)
        answers.append(search([index], every, recency))
        project = index.project
        for hit in answers[-1].hits:
            links = [link_state(edge, project) for edge in edges[hit.collection, hit.id]]
            score = hit.score if is_question else 1.0  # every link answers what asks for no more
            hits.append(hit._replace(links=tuple(links), score=score))
    if not answers:
        _refuse_outside(_plain(target), cwd, [index.project for index in indexes])
    hits.sort(key=lambda hit: (hit.collection, hit.id))
    hits.sort(key=lambda hit: hit.score if is_question else hit.created_at, reverse=True)
    confidence = max((answer.confidence for answer in answers), default=0.0)
    degraded = Degraded.of(answer.degraded for answer in answers)
    return Answer(tuple(hits[: request.limit]), confidence, bool(hits), degraded)


def _edges_to(index: Index, target: str, cwd: str) -> list[Edge]:
    return index.read(lambda connection: _Links(connection, index).edges_to(target, cwd))


def _refuse_outside(path: str, cwd: str, projects: Sequence[Project | None]) -> None:
    """Say so when a document that nothing links to can be no file of any project."""
    if not path:
        raise UsageError("say which document: a file of the project, or a memory")
    there = [project for project in projects if project]
    if there and not any(project.targets_of(path, cwd) for project in there):
        raise UsageError(
            f"{path} is outside the project {there[0].root}, and no memory links to it",
            hint=f"Name a file below {there[0].root}, or a memory.",
        )


def _plain(target: str) -> str:
    """A file or a memory as a person names it, without the mark of its kind."""
    plain = target.strip().removeprefix("ghost:").removeprefix("memory:")
    return plain.encode("utf-8", "replace").decode()  # no file has half a character in its name


class _Links:
    """The links of one bank, in one read of its index."""

    def __init__(self, connection: sqlite3.Connection, index: Index) -> None:
        self._connection, self._index, self._project = connection, index, index.project

    def graph(self, ref: str, depth: int, cwd: str) -> Graph:
        numbers = [number for (number,) in self._connection.execute("SELECT number FROM memories")]
        edges = self._relations(edges_from(self._connection, numbers))
        titles = self._titles()
        names = set() if ref else set(titles)
        if ref:
            start = self._start(ref) or self.ghost(ref, cwd)
            if not start:
                raise NotFound(f"there is no memory {ref!r}, and none links to such a file")
            edges = _within(edges, start, depth)
            names = {start}
        names.update(name for edge in edges for name in (edge.source, edge.target))
        seen = self._last_seen()
        return Graph(tuple(self._node(name, titles, seen) for name in sorted(names)), tuple(edges))

    def connections(self, ref: str) -> Graph:
        number = self._find(ref)
        name = ref_of(self._connection, number)
        outward = edges_from(self._connection, [number], once=True, most=MOST_AROUND)
        names = self._memory_names(number)
        inward = self._relations(edges_to(self._connection, names, once=True, most=MOST_AROUND))
        # A bare name may mean another memory, of another collection.
        inward = [edge for edge in inward if edge.target == name != edge.source]
        edges = [*self._relations(outward), *inward]
        around = [name, *(edge.target for edge in edges), *(edge.source for edge in inward)]
        titles, seen = self._titles(), {edge.target: (edge.written, edge.seen) for edge in outward}
        nodes = [self._node(other, titles, seen) for other in dict.fromkeys(around)]
        return Graph(tuple(nodes), tuple(edges))

    def ghost(self, path: str, cwd: str) -> str:
        for name in self._file_names(_plain(path), cwd):
            if any(edge.kind == "ghost" for edge in edges_to(self._connection, [name])):
                return f"ghost:{name}"
        return ""

    def edges_to(self, target: str, cwd: str) -> list[Edge]:
        """Every link to a document or a memory, however either is spelt."""
        plain = _plain(target)
        names = set(self._file_names(plain, cwd))
        number = resolve_link(self._connection, plain, near="")
        if number is not None:
            names |= self._memory_names(number)
        if number is not None or normalize_target(plain) in names:
            names.add(key(plain))
        edges = [it for it in edges_to(self._connection, names) if it.edge != "merged_from"]
        return edges if number is None else [it._replace(edge=it.memory_edge) for it in edges]

    def related(self, ref: str) -> list[Related]:
        connection, number = self._connection, self._find(ref)
        reasons: dict[int, dict[str, float]] = defaultdict(dict)
        for other, score in nearest(self._index, connection, number).items():
            if score >= _SIMILAR:
                reasons[other]["similar"] = score
        for edge in edges_from(connection, [number], once=True):
            target = resolve_link(connection, edge.target, edge.collection)
            if target is not None:
                reasons[target]["linked"] = _LINK
        for edge in edges_to(connection, self._memory_names(number), once=True):
            if resolve_link(connection, edge.target, edge.collection) == number:
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

    # Names

    def _find(self, ref: str) -> int:
        numbers = numbers_of(self._connection, *split_ref(ref))
        if not numbers:
            raise NotFound(f"there is no memory {ref!r}")
        return numbers[0]

    def _start(self, ref: str) -> str:
        """The memory that a reference names, empty if there is none."""
        try:
            return ref_of(self._connection, self._find(ref))
        except (BadName, NotFound):  # a path has names that no memory may have
            return ""

    def _memory_names(self, number: int) -> set[str]:
        """Every name a link may call a memory by, those of the memories merged into it as well."""
        query = "SELECT collection, key FROM memories WHERE number = ?"
        collection, name = self._connection.execute(query, (number,)).fetchone()
        query = "SELECT target FROM links WHERE memory = ? AND edge = 'merged_from'"
        merged = [target for (target,) in self._connection.execute(query, (number,))]
        return {name, f"{key(collection)}/{name}", *merged}

    def _file_names(self, path: str, cwd: str) -> list[str]:
        """What links call a file: its place in the project, and where it stood before it moved."""
        project = self._project
        places = project.targets_of(path, cwd) if project else []
        if project is None or not places:
            return [normalize_target(path)]
        if not project.has(places[0]):
            return places
        seen = self._last_seen()
        missing = [other for other in seen if other not in places and not project.has(other)]
        # What kept its name is likelier to be the same file, where many are gone.
        name = posixpath.basename(places[0])
        missing.sort(key=lambda other: posixpath.basename(other) != name)
        missing = missing[:_MOST_MISSING]
        return [*places, *(it for it in missing if project.check(it, *seen[it]).now_at in places)]

    def _last_seen(self) -> dict[str, tuple[float, str]]:
        """For each ghost, when the memory that saw it last was written, and what it saw."""
        query = (
            "SELECT l.target, m.written, l.seen FROM links l "
            "JOIN memories m ON m.number = l.memory WHERE l.kind = 'ghost' ORDER BY m.written"
        )
        rows = self._connection.execute(query)
        return {target: (written, seen) for target, written, seen in rows}

    # Nodes and edges

    def _titles(self) -> dict[str, str]:
        """The title of every memory, by its reference."""
        query = "SELECT collection, id, title FROM memories WHERE NOT is_gone"
        rows = self._connection.execute(query)
        return {f"{where}/{name}" if where else name: title for where, name, title in rows}

    def _node(
        self, name: str, titles: Mapping[str, str], seen: Mapping[str, tuple[float, str]]
    ) -> Node:
        if name in titles:
            return Node(name, "memory", titles[name])
        if name.startswith("?"):
            return Node(name[1:], "dangling")
        if self._project is None:
            return Node(name, "ghost")
        target = name.removeprefix("ghost:")
        now = self._project.check(target, *seen.get(target, (0.0, "")))
        return Node(name, "ghost", "", now.state, now.now_at)

    def _relations(self, edges: Iterable[Edge]) -> list[Relation]:
        """Links as edges between what they name, each once."""

        @cache
        def resolve(target: str, near: str) -> str:
            number = resolve_link(self._connection, target, near)
            return "" if number is None else ref_of(self._connection, number)

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


_SHARING_FILES: Final = (
    "SELECT memory, count(DISTINCT target) FROM links WHERE kind = 'ghost' AND target IN "
    "(SELECT target FROM links WHERE memory = ? AND kind = 'ghost') GROUP BY memory"
)
_SHARING_TAGS: Final = (
    "SELECT m.number, count(*) FROM memories m, json_each(m.tags) t WHERE NOT m.is_gone "
    "AND t.value IN (SELECT o.value FROM memories s, json_each(s.tags) o WHERE s.number = ?) "
    "GROUP BY m.number"
)
