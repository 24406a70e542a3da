"""The one search: every index is asked, the scores are compared, and the best become hits."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index import graph
from retain.index.fulltext import Snapshot
from retain.memory import ENOUGH, Answer, Degraded, Hit, Linked
from retain.search.rank import NO_RECENCY, Ranked, Ranking, Recency
from retain.search.request import ParsedQuery, SearchRequest, parse_query
from retain.search.retrieve import NO_VECTOR, QueryVector, embed_query, gather

# The rest of the index takes 60 ms to load, and a hook that only looks does without it.
if TYPE_CHECKING:
    from retain.index.freshness import Project
    from retain.index.graph import Edge
    from retain.index.index import Index
    from retain.index.queries import Chosen
    from retain.locate import BankLocation
    from retain.search.remote import Remote


FEW_PENDING: Final = 100  # vectors that a search makes before it answers
_MOST_LINKS: Final = 20  # files shown with one hit


def search(
    indexes: Sequence[Index | Snapshot],
    request: SearchRequest,
    recency: Recency = NO_RECENCY,
    now: datetime | None = None,
) -> Answer:
    """Answer a request from every index; scores are absolute, so they can be merged."""
    return Search(indexes, request, recency, now).answer()


class _Found(NamedTuple):
    """The best candidate of a memory, or of a chunk."""

    ranked: Ranked
    score: float
    has_words: bool  # of the query, wherever in the memory; or nobody asked for them


class _Result(NamedTuple):
    """What one index has to say."""

    hits: list[tuple[Hit, bool]]  # each with whether it has words
    best: float
    confidence: float
    considered: list[_Found]  # the best of every place
    degraded: Degraded


class Search:
    """One request to several indexes, and what was considered to answer it."""

    def __init__(
        self,
        indexes: Sequence[Index | Snapshot],
        request: SearchRequest,
        recency: Recency = NO_RECENCY,
        now: datetime | None = None,
    ) -> None:
        self.request = request.validate()
        self._indexes = indexes if request.query.strip() or request.lists_all else ()
        self._recency, self._now = recency, now or datetime.now(UTC)
        self._remote_seconds = 0.0  # that engines took; nobody waits for each index anew
        self.best = request.best  # the score that others are compared with
        self.memories: list[list[int]] = []  # of each index, that hits are from without a limit
        self.left = 0  # memories that are no hits, because they are only near the query

    def answer(self) -> Answer:
        """Ask every index, cut what is far below the best of all, and merge the rest."""
        request = self.request
        results = [self._ask(index) for index in self._indexes]
        self.best = max([self.best, *(result.best for result in results)])
        least = self.best * request.share
        hits: list[Hit] = []
        confidence = 0.0
        for result in results:
            own = [hit for hit, has_words in result.hits if has_words or hit.score >= least]
            hits += own[: request.limit]
            confidence = max(confidence, result.confidence if own else 0.0)
            near = [it for it in result.considered if it.has_words or it.score >= least]
            self.memories.append([found.ranked.row.memory for found in near])
            self.left += len(result.considered) - len(near)
        hits = _without_copies(hit for hit in hits if hit.score >= request.min_score)
        hits.sort(key=lambda hit: -hit.score)  # within an index they are in order already
        hits = hits[: request.limit]
        is_confident = bool(hits) and confidence >= ENOUGH
        degraded = Degraded.of(result.degraded for result in results)
        return Answer(tuple(hits), round(confidence, 4), is_confident, degraded)

    def _ask(self, index: Index | Snapshot) -> _Result:
        parse = partial(parse_query, query=self.request.query, today=self._now.date())
        if isinstance(index, Snapshot):
            return index.read(lambda connection: self._look(connection, index, parse(connection)))
        index.refresh()
        degraded = prepare(index, self.request.mode)
        query = index.read(parse, is_fresh=True)
        vector = embed_query(index, self.request.mode, query)
        reasons = [*degraded.reasons, *vector.reasons]
        remote: Remote | None = None
        if index.stays and index.engines is not None:
            from retain.search.remote import propose  # engines are loaded where there are any

            remote = propose(index, self.request, query, vector, self._remote_seconds)
            self._remote_seconds += remote.seconds
            reasons += remote.reasons
        look = partial(self._look, index=index, query=query, vector=vector, remote=remote)
        degraded = Degraded(degraded.pending, (*reasons, *index.shortfalls))
        return index.read(look, is_fresh=True)._replace(degraded=degraded)

    def _look(
        self,
        connection: sqlite3.Connection,
        index: Index | Snapshot,
        query: ParsedQuery,
        vector: QueryVector = NO_VECTOR,
        remote: Remote | None = None,
    ) -> _Result:
        """The best of one index; how far below the best of all is too far is not known yet."""
        request = self.request
        candidates = gather(index, connection, request, query, vector, remote)
        # Who asks for a certain time does not mean the last few days.
        recency = NO_RECENCY if query.dates else self._recency
        ranking = Ranking(candidates, recency, graph.find_superseded(connection).keys(), self._now)
        rows = candidates.rows
        with_words = {rows[chunk].memory for chunk in candidates.words if chunk in rows}
        places: dict[int, _Found] = {}
        for ranked in ranking.ranked:
            place = ranked.row.memory if request.per == "memory" else ranked.row.shown
            if place not in places and (ranked.score > 0 or request.lists_all):
                has_words = not request.share or ranked.row.memory in with_words
                places[place] = _Found(ranked, ranking.shown_score(ranked), has_words)
        best = max((found.score for found in places.values()), default=0.0)
        least = max(self.best, best) * request.share
        fitting = [it for it in places.values() if it.has_words or it.score >= least]
        # As many as will be hits whatever other indexes have.
        certain = [at for at, found in enumerate(fitting, 1) if found.has_words][: request.limit]
        end = certain[-1] if len(certain) == request.limit else len(fitting)
        hits = [
            (
                _read_hit(connection, index.location, ranking, found, request.explain),
                found.has_words,
            )
            for found in fitting[:end]
        ]
        return _Result(hits, best, ranking.confidence(), list(places.values()), Degraded())

    def count_facets(self, chosen: Chosen) -> dict[str, Counter[str]]:
        """How many of the memories that were considered have each value of each facet."""
        from retain.index.queries import FACETS, count_facets

        counts: dict[str, Counter[str]] = {facet: Counter() for facet in FACETS}
        for index, numbers in zip(self._indexes, self.memories, strict=True):
            count = partial(count_facets, chosen=chosen, scope=index.location.scope, among=numbers)
            for facet, found in index.read(count, is_fresh=True).items():
                counts[facet] += found
        return counts


def _without_copies(hits: Iterable[Hit]) -> list[Hit]:
    """Hits without those whose text another bank has too, which was asked before."""
    first: dict[str, str] = {}  # the bank that has a text
    return [hit for hit in hits if first.setdefault(hit.text or hit.path, hit.scope) == hit.scope]


def prepare(index: Index, mode: str = "hybrid") -> Degraded:
    """Fill a few missing vectors; say how many are missing when they are too many."""
    if mode == "text":
        return Degraded()
    from retain.index.embed import EmbedderError

    pending = 0
    try:
        embedder = index.embedder
        if embedder is None:
            return Degraded()
        pending, other = index.missing_vectors(embedder.name)
        if other and pending >= FEW_PENDING:
            # A question must not throw away what took hours to make, or money.
            reason = f"the vectors are of another model, {other}; `retain index` makes them anew"
            return Degraded(pending, (reason,))
        if 0 < pending < FEW_PENDING:
            pending = max(0, pending - index.make_vectors())
    except EmbedderError as error:  # a model that is missing or silent: words must do
        return Degraded(pending, (error.message,))
    return Degraded(pending)


_HIT: Final = (  # columns by the names that a Hit's fields have
    "SELECT m.id, m.collection, c.text, c.header_path, c.line, m.title, m.type, m.status, "
    "m.tags, m.created AS created_at, c.who, m.file AS path, ifnull(q.text, '') AS question, "
    "m.written AS changed, m.size || ':' || m.modified AS stamp "
    "FROM chunks c JOIN memories m ON m.number = c.memory "
    "LEFT JOIN chunks q ON q.number = c.number - 1 "
    "AND q.memory = c.memory AND q.header_path = c.header_path AND q.is_question AND c.who <> '' "
    "WHERE c.number = ?"
)


def _read_hit(
    connection: sqlite3.Connection,
    location: BankLocation,
    ranking: Ranking,
    found: _Found,
    explain: bool,
) -> Hit:
    """A candidate with everything a person or an agent wants to know about it."""
    cursor = connection.execute(_HIT, (found.ranked.row.shown,))
    names = [column[0] for column in cursor.description]
    fields = dict(zip(names, cursor.fetchone(), strict=True))
    fields["tags"] = tuple(json.loads(fields["tags"]))
    fields["path"] = os.path.join(location.root, fields["collection"], fields["path"])
    return Hit(
        **fields,
        score=found.score,
        scope=location.scope,
        is_superseded="superseded" in found.ranked.boosts,
        explanation=ranking.explain(found.ranked) if explain else None,
    )


# What hits link to


def with_links(indexes: Sequence[Index], answer: Answer) -> Answer:
    """Each hit with the files it links to, how they are now, and what it is superseded by."""
    hits = {(hit.path, hit.line): hit for hit in answer.hits}
    for index in indexes:
        own = [hit for hit in answer.hits if index.owns(hit)]
        # In the very index that was brought in step: another may have been put in its place.
        found = index.read(partial(_links_of, hits=own), is_fresh=True) if own else {}
        # One for all of them: it asks git once.
        project = index.project if any(edges for edges, _ in found.values()) else None
        for hit in own:
            edges, successor = found.get(hit.path, ([], ""))
            links = tuple(link_state(edge, project) for edge in edges)
            hits[hit.path, hit.line] = hit._replace(links=links, superseded_by=successor)
    return answer._replace(hits=tuple(hits.values()))


def _links_of(
    connection: sqlite3.Connection, hits: Sequence[Hit]
) -> dict[str, tuple[list[Edge], str]]:
    """The files that memories link to, and what replaces them, by the paths of their files."""
    numbers = {
        number: hit
        for hit in hits
        for number in graph.numbers_of(connection, hit.collection, hit.id)
    }
    old = [number for number, hit in numbers.items() if hit.is_superseded]
    successors = graph.successors(connection, old)
    found: dict[str, tuple[list[Edge], str]] = {
        hit.path: ([], successors.get(number, "")) for number, hit in numbers.items()
    }
    for edge in graph.edges_from(connection, numbers):
        here, _ = found[numbers[edge.memory].path]
        # `collection/id` looks like a path too, until one asks whether there is such a memory.
        if (
            edge.kind == "ghost"
            and len(here) < _MOST_LINKS
            and graph.resolve_link(connection, edge.target, edge.collection) is None
        ):
            here.append(edge)
    return found


def link_state(edge: Edge, project: Project | None) -> Linked:
    """A link, and how the file that it leads to is now."""
    link = Linked(
        edge.target, edge.edge, edge.context, edge.line, anchor=edge.anchor, label=edge.label
    )
    if project is None:
        return link
    now = project.check(edge.target, edge.written, edge.seen)
    return link._replace(freshness=now.state, now_at=now.now_at)
