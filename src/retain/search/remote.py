"""What engines propose for a query, as chunks of the local index.

`propose` asks them before the local index is looked at; what they answered joins the other
candidates in `retrieve.gather`. An arm whose engine does not answer, or finds nothing, is asked of
the local index, which is always complete.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index import fulltext
from retain.index.engines import sync
from retain.index.engines.client import Client, describe
from retain.index.engines.engine import EngineDown, EngineError, Filter, Match
from retain.search.retrieve import DENSE, Near, QueryVector, Row, compare

if TYPE_CHECKING:
    from retain.index.index import Index
    from retain.search.request import Filters, ParsedQuery, SearchRequest

_FEW: Final = 500  # memories that are looked through here because the engine lacks them yet


class Remote(NamedTuple):
    """The local chunks that the engines of a bank propose; None for an arm that is asked here."""

    vector: QueryVector = QueryVector()
    by_text: list[int] | None = None
    by_vector: list[int] | None = None
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0  # that they took

    def near(
        self,
        connection: sqlite3.Connection,
        rows: Mapping[int, Row],
        proposed: Sequence[int],
        most: int,
    ) -> Near | None:
        """The vector arm over what was proposed alone: the engine has looked at the rest."""
        from retain.index.vectors import of_chunks  # numpy takes 60 ms

        mean = sync.mean(connection, self.vector.model)
        if self.vector.vector is None or mean is None:
            return None
        around = {chunk + step for chunk in rows for step in (-1, 0, 1)}
        matrix = of_chunks(connection, self.vector.model, around, mean)
        if matrix is None:
            return None
        among = matrix.at([chunk for chunk in proposed if chunk in rows])
        return compare(matrix, self.vector.vector, among[among >= 0], most)


def _locate(connection: sqlite3.Connection, client: Client, matches: list[Match]) -> list[int]:
    """The chunks that an engine proposes, and those that it was not given yet."""
    chunks = sync.locate(connection, client.key, [match.id for match in matches])
    unsent = json.dumps(sync.waiting(connection, client.key, _FEW))
    query = "SELECT number FROM chunks JOIN json_each(?) ON memory = json_each.value"
    return list(dict.fromkeys([*chunks, *(row[0] for row in connection.execute(query, (unsent,)))]))


def propose(
    index: Index,
    request: SearchRequest,
    query: ParsedQuery,
    vector: QueryVector,
    spent: float = 0.0,
) -> Remote:
    """Ask the engines of a bank; `spent` are the seconds that other banks' took for this search."""
    engines, where = index.engines, make_filter(request.filters)
    if engines is None or where is None:
        return Remote()
    question = _Question(index, request, query, vector, where, spent)
    started, reasons = time.monotonic(), list[str]()
    asked: list[tuple[Client, Callable[[], list[Match]]]] = []
    for delivery in engines.deliveries.values():
        try:
            if answer := question.ask(delivery.client):
                asked.append((delivery.client, answer))
        except EngineError as error:
            reasons.append(f"answered from the local index: {describe(error)}")
    chunks: dict[str, list[int]] = {}
    for client, answer in asked:  # all are under way: who waits, waits once
        try:
            if matches := answer():
                chunks[client.part] = index.look(partial(_locate, client=client, matches=matches))
        except EngineError as error:
            reasons.append(f"answered from the local index: {describe(error)}")
    seconds = time.monotonic() - started if asked else 0.0
    unique = tuple(dict.fromkeys(reasons))
    return Remote(vector, chunks.get("text"), chunks.get("vector"), unique, seconds)


@dataclass(frozen=True)
class _Question:
    """What the engines of one bank are asked."""

    index: Index
    request: SearchRequest
    query: ParsedQuery
    vector: QueryVector
    where: Filter
    spent: float

    def ask(self, client: Client) -> Callable[[], list[Match]] | None:
        """Begin to ask an engine; None where there is nothing to ask it."""
        if not self.index.look(partial(_is_filled, client=client)):
            return None
        return self._ask_words(client) if client.part == "text" else self._ask_nearest(client)

    def _ask_words(self, client: Client) -> Callable[[], list[Match]] | None:
        """Ask for what has the words of the query, of those that any memory here has."""
        look_up = partial(fulltext.lexicon, terms=self.query.terms)
        lexicon = self.index.look(look_up)
        terms = {term: rarity for term, rarity in lexicon.rarity.items() if lexicon.counts[term]}
        if not terms or self.request.mode == "semantic":
            return None
        most = max(self.request.min_candidates, self.request.candidates)
        return client.ask(lambda engine: list(engine.matching(terms, self.where, most)), self.spent)

    def _ask_nearest(self, client: Client) -> Callable[[], list[Match]] | None:
        """Ask for the nearest by the score that counts.

        What all vectors have in common is taken off the query: the products with what is left are
        what the embedded arm has as its scores.
        """
        mean = self.index.look(partial(sync.mean, model=self.vector.model))
        vector = self.vector.vector
        if mean is None or vector is None or len(mean.vector) != len(vector):
            return None
        probe, most = vector - mean.hub, max(DENSE, self.request.candidates)
        return client.ask(lambda engine: list(engine.nearest(probe, self.where, most)), self.spent)


def _is_filled(connection: sqlite3.Connection, client: Client) -> bool:
    """Whether an engine was given all but a few memories; raises what keeps it from that."""
    unsent = len(sync.waiting(connection, client.key, _FEW + 1))
    if unsent <= _FEW and sync.is_filled(connection, client.key):
        return True
    if why := sync.failure(connection, client.key):
        raise EngineDown(why)
    return False  # it is being filled; the local index answers as well


def make_filter(filters: Filters) -> Filter | None:
    """The filters as an engine takes them; None where only the index can tell."""
    statuses: tuple[str, ...] = ()
    for condition in filters.metadata:
        if condition.key != "status" or condition.operator != "=" or statuses:
            return None
        statuses = condition.values
    if filters.months or filters.only is not None:
        return None
    return Filter(
        collections=() if filters.collection is None else (filters.collection,),
        types=(filters.type,) if filters.type else (),
        tags=filters.tags,
        statuses=statuses,
        without_statuses=() if statuses else ("retired",),
        since=filters.since.timestamp() if filters.since else None,
        until=filters.until.timestamp() if filters.until else None,
    )
