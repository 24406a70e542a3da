"""The chunks a query may mean: what each arm proposes, and what is known about them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import RetainError
from retain.index import fulltext, graph
from retain.index.fulltext import Lexicon, Shares, Snapshot
from retain.search.request import ParsedQuery, SearchRequest, allowed_memories

if TYPE_CHECKING:
    from retain.index.index import Index
    from retain.index.vectors import Floats, Matrix, Numbers
    from retain.search.remote import Remote


DENSE: Final = 200  # chunks that the vector arm proposes
# How soon repetitions of a word stop counting, beside vectors and by words alone.
_K1_HYBRID: Final = 1.2
_K1_TEXT: Final = 2.0
_MOST_DATED: Final = 200  # chunks that a speaker or a date alone proposes
_FURTHER: Final = 10  # how much further down to look for memories when one holds every place
_WIDENED: Final = 100  # chunks of the text arm whose neighbours are looked at


class Row(NamedTuple):
    """What is known about a chunk before its text is read."""

    chunk: int
    memory: int
    chunks: int  # of its memory
    who: str
    is_question: bool
    asks: float
    is_heading: bool
    type: str
    status: str
    created: str
    is_superseded: bool
    key: str
    collection: str
    title: str  # that somebody gave the memory, where this chunk stands below it

    @property
    def shown(self) -> int:
        """The chunk that a hit shows: below a mere heading, the first one that says something."""
        return self.chunk + 1 if self.is_heading else self.chunk


class QueryVector(NamedTuple):
    """A query's vector, or why there is none."""

    model: str = ""
    vector: Floats | None = None
    reasons: tuple[str, ...] = ()


NO_VECTOR: Final = QueryVector()


class Near(NamedTuple):
    """How the vector arm sees the bank."""

    matrix: Matrix
    scores: Floats
    order: Sequence[int]  # chunks, nearest first
    best: float  # the highest cosine

    def scores_of(self, chunks: Sequence[int]) -> list[float]:
        """The score of each of these chunks, 0 for one that has no vector."""
        places = self.matrix.at(chunks)
        scores: list[float] = (self.scores[places] * (places >= 0)).tolist()
        return scores


class Candidates(NamedTuple):
    """Everything there is to rank for one query in one bank."""

    query: ParsedQuery
    lexicon: Lexicon
    shares: Mapping[int, Shares]  # how far each chunk has each term
    words: Mapping[int, float]  # how well each chunk fits by its words, the best first
    near: Near | None
    named: Mapping[int, float]  # chunks that link to a file the query names
    wholes: Mapping[int, float]  # how memories fit as a whole
    rows: Mapping[int, Row]

    def shares_beside(self, row: Row, step: int) -> Shares | None:
        """What a chunk has of the query's terms, or the one some steps before or after it."""
        shares = self.shares.get(row.chunk + step) if row.chunks > 1 or not step else None
        other = self.rows.get(row.chunk + step) if shares else None
        return shares if other and other.memory == row.memory else None


def embed_query(index: Index, mode: str, query: ParsedQuery) -> QueryVector:
    """The query's vector; a model far away may take its time, so no index is held meanwhile."""
    if mode == "text":
        return QueryVector()
    try:
        embedder = index.embedder
        if embedder is not None:
            name = embedder.name  # a model that is not there says so here
            vector = index.query_vectors.get(query.embedded)
            if vector is None:
                vector = embedder.query(query.embedded)
                # Who narrows a search down asks it again.
                index.query_vectors = {query.embedded: vector}
            return QueryVector(name, vector)
    except RetainError as error:
        return QueryVector(reasons=(error.message,))
    if mode == "semantic":
        return QueryVector(reasons=("there is no embedding model: recall.embedder is none",))
    return QueryVector()


def gather(
    index: Index | Snapshot,
    connection: sqlite3.Connection,
    request: SearchRequest,
    query: ParsedQuery,
    vector: QueryVector,
    remote: Remote | None = None,
) -> Candidates:
    """Ask each arm for what it would propose; `remote` answers for those that live elsewhere."""
    within = allowed_memories(connection, request.filters)
    by_text, by_vector = (remote.by_text, remote.by_vector) if remote else (None, None)
    near = None
    if by_vector is None:
        near = _nearest(index, connection, vector, within, max(DENSE, request.candidates))
    k1 = _K1_TEXT if near is None and by_vector is None else _K1_HYBRID
    lexicon = fulltext.lexicon(connection, query.terms)
    shares: Mapping[int, Shares] = {}
    wholes: Mapping[int, float] = {}
    if request.mode != "semantic":
        if by_text is None:
            shares = _match_chunks(connection, lexicon, k1, within, request)
        else:
            shares = fulltext.shares_in(connection, lexicon, k1, by_text)
        wholes = fulltext.whole_scores(connection, query.terms, within, request.ranked)
    weights = lexicon.weights
    scores = {chunk: float(sum(map(mul, share, weights))) for chunk, share in shares.items()}
    words = dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
    named = graph.named_files(connection, request.query)
    numbers = {*shares, *(near.order if near else by_vector or ()), *named}
    if request.lists_all and within:
        firsts = (
            "SELECT min(number) FROM chunks WHERE memory IN (SELECT value FROM json_each(?)) "
            "GROUP BY memory"
        )
        numbers.update(row[0] for row in connection.execute(firsts, (json.dumps(within),)))
    if not shares and request.mode != "semantic":
        numbers.update(_by_speaker_or_date(connection, query))
    rows = _rows(connection, numbers, within)
    several = [
        chunk for chunk in list(words)[:_WIDENED] if chunk in rows and rows[chunk].chunks > 1
    ]
    beside = {chunk + step for chunk in several for step in (-1, 1)} - rows.keys()
    rows |= _rows(connection, beside, within)
    if remote and by_vector is not None:
        near = remote.near(connection, rows, by_vector, max(DENSE, request.candidates))
    return Candidates(query, lexicon, shares, words, near, named, wholes, rows)


def _match_chunks(
    connection: sqlite3.Connection,
    lexicon: Lexicon,
    k1: float,
    within: Sequence[int] | None,
    request: SearchRequest,
) -> Mapping[int, Shares]:
    """The text arm; where one long talk holds every place, what comes after it as well."""
    most = max(request.min_candidates, request.candidates)
    shares = fulltext.chunk_shares(connection, lexicon, k1, within, most, request.ranked)
    if len(shares) < most or request.per == "chunk":
        return shares
    query = (
        "SELECT DISTINCT memory FROM json_each(?) "
        "JOIN chunks ON number = json_each.value LIMIT ?"  # ends with the first few, as a rule
    )
    values = (json.dumps(list(shares)), request.candidates)
    if len(connection.execute(query, values).fetchall()) == request.candidates:
        return shares
    return fulltext.chunk_shares(connection, lexicon, k1, within, _FURTHER * most, request.ranked)


def _nearest(
    index: Index | Snapshot,
    connection: sqlite3.Connection,
    query: QueryVector,
    within: Sequence[int] | None,
    most: int,
) -> Near | None:
    """The vector arm, or None when there is nothing to compare, or nothing to compare it with."""
    if query.vector is None or isinstance(index, Snapshot):
        return None
    matrix = index.vectors.matrix(connection, query.model, len(query.vector))
    if matrix is None:
        return None
    among = None if within is None else matrix.among(within)
    return compare(matrix, query.vector, among, most)


def compare(matrix: Matrix, vector: Floats, among: Numbers | None, most: int) -> Near:
    """The nearest chunks of a matrix, of those in the places `among`."""
    from retain.index.vectors import nearest  # numpy takes 60 ms, and a hook searches without

    cosines, scores = matrix.compare(vector)
    order = nearest(scores, most, among)
    first = nearest(cosines, 1, among)
    best = float(cosines[first[0]]) if len(first) else 0.0
    return Near(matrix, scores, matrix.chunks[order].tolist(), best)


def _by_speaker_or_date(connection: sqlite3.Connection, query: ParsedQuery) -> Iterable[int]:
    """For a query of nothing but a speaker or a date: what was said by them, or then."""
    if len(query.names) == 1:
        columns, condition = "c.number", "WHERE c.who <> '' AND c.who = ?"
    elif query.dates:
        columns, condition = "min(c.number)", "GROUP BY m.number"
    else:
        return ()
    rows = connection.execute(
        f"SELECT {columns}, m.created FROM chunks c "  # noqa: S608 - our own words
        f"JOIN memories m ON m.number = c.memory {condition}",
        query.names[:1] if len(query.names) == 1 else (),
    ).fetchall()
    fits = {created: query.closeness(created) for created in {created for _, created in rows}}
    rows = [row for row in rows if fits[row[1]] or query.names]
    rows.sort(key=lambda row: (-fits[row[1]], -row[0]))
    return [number for number, _ in rows[:_MOST_DATED]]


_ROWS: Final = (
    "SELECT c.number, c.memory, m.chunks, c.who, c.is_question, c.asks, c.is_heading, m.type, "
    "m.status, m.created, m.is_superseded, m.key, m.collection, "
    # Without one, a memory is called by its first line, which counts as text already.
    "iif(c.lead <> '' OR substr(c.header_path, 1, length(m.title)) = m.title, m.title, '') "
    "FROM json_each(?) "
    "JOIN chunks c ON c.number = json_each.value JOIN memories m ON m.number = c.memory"
)


def _rows(
    connection: sqlite3.Connection, numbers: Collection[int], within: Sequence[int] | None
) -> dict[int, Row]:
    """What is known about these chunks, of those that may be found."""
    if not numbers:
        return {}
    rows = map(Row._make, connection.execute(_ROWS, (json.dumps(sorted(numbers)),)))
    if within is None:
        return {row.chunk: row for row in rows}
    allowed = frozenset(within)
    return {row.chunk: row for row in rows if row.memory in allowed}
