"""The chunks a question may mean: what each arm proposes, and what is known about them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import RetainError
from retain.index import graph, text
from retain.index.text import Lexicon, Shares, Within
from retain.indexed import Indexed
from retain.recall import asking, scoring
from retain.recall.asking import Asked, Wanted
from retain.recall.scoring import Weights

if TYPE_CHECKING:
    from retain.engines.arm import Match
    from retain.index.vectors import Floats, Matrix

__all__ = ["Candidates", "Meaning", "Near", "Proposed", "Row", "gather", "meaning"]

DENSE: Final = 200  # chunks that the vector arm proposes
_TOLD: Final = 200  # chunks that a speaker or a date alone proposes
_FURTHER: Final = 10  # how much further down to look for memories when one holds every place
_WIDENED: Final = 100  # chunks of the text arm whose neighbours are looked at
AGREEING: Final = 10  # first places of each arm that are compared, at most
_OF_SO_MANY: Final = 20  # chunks for each of them: of few, any two lists have some in common


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


class Meaning(NamedTuple):
    """A question's vector, or why there is none."""

    model: str = ""
    vector: Floats | None = None
    reasons: tuple[str, ...] = ()


class Near(NamedTuple):
    """How the vector arm sees the bank."""

    matrix: Matrix
    scores: Floats
    order: Sequence[int]  # chunks, nearest first
    first: frozenset[int]  # those of the highest cosine
    best: float  # the highest cosine

    def scores_of(self, chunks: Sequence[int]) -> list[float]:
        """The score of each of these chunks, 0 for one that has no vector."""
        places = self.matrix.at(chunks)
        found: list[float] = (self.scores[places] * (places >= 0)).tolist()
        return found


class Proposed(NamedTuple):
    """What engines elsewhere propose for a question; None for an arm that is asked here."""

    words: Sequence[Match] | None = None
    nearest: Sequence[Match] | None = None  # by the score that counts
    first: Sequence[Match] = ()  # by the cosine
    reasons: tuple[str, ...] = ()
    keys: tuple[str, str] = ("", "")  # by which notes about the two arms are known
    seconds: float = 0.0  # that they took


class Candidates(NamedTuple):
    """Everything there is to weigh for one question in one bank."""

    asked: Asked
    weights: Weights
    lexicon: Lexicon
    rarity: tuple[float, ...]  # of each term, as a share of all
    shares: Mapping[int, Shares]
    words: Mapping[int, float]  # how well each chunk fits by its words
    near: Near | None
    named: Mapping[int, float]  # chunks that link to a file the question names
    wholes: Mapping[int, float]  # how memories fit as a whole
    rows: Mapping[int, Row]
    reasons: tuple[str, ...]


def meaning(bank: Indexed, wanted: Wanted, asked: Asked) -> Meaning:
    """The question's vector; a model far away may take its time, so no index is held meanwhile."""
    if wanted.mode == "text":
        return Meaning()
    try:
        embedder = bank.embedder
        if embedder is not None:
            name = embedder.name  # a model that is not there says so here, as everywhere
            vector = bank.meant.get(asked.meaning)
            if vector is None:
                vector = embedder.query(asked.meaning)
                bank.meant = {asked.meaning: vector}  # who narrows a question down asks it again
            return Meaning(name, vector)
    except RetainError as error:
        return Meaning(reasons=(error.message,))
    if wanted.mode == "semantic":
        return Meaning(reasons=("there is no embedding model: recall.embedder is none",))
    return Meaning()


def gather(
    bank: Indexed,
    connection: sqlite3.Connection,
    wanted: Wanted,
    asked: Asked,
    meant: Meaning,
    proposed: Proposed,
) -> Candidates:
    """Ask each arm for what it would propose, unless an engine has been asked already."""
    within = None
    if wanted.conditions.any or asking.hides_any(connection):
        within = Within(asking.allowed(connection, wanted.conditions))
    near, dense = None, _located(connection, proposed.keys[1], proposed.nearest, proposed.first)
    if dense is None:
        near = _nearest(bank, connection, meant, within, max(DENSE, wanted.sought))
    weights = scoring.TEXT if near is None and dense is None else scoring.HYBRID
    lexicon = text.lexicon(connection, asked.terms, bank.counts)
    shares: Mapping[int, Shares] = {}
    wholes: Mapping[int, float] = {}
    if wanted.mode != "semantic":
        known = _located(connection, proposed.keys[0], proposed.words)
        if known is None:
            shares = _by_words(connection, lexicon, weights, within, wanted)
        else:
            shares = text.shares_in(connection, lexicon, weights.k1, known)
        wholes = text.whole_scores(connection, asked.terms, within, bank.counts)
    rarity = lexicon.weights
    words = {chunk: float(sum(map(mul, found, rarity))) for chunk, found in shares.items()}
    named = graph.named_files(connection, wanted.query)
    numbers = {*shares, *(near.order if near else dense or ()), *named}
    if wanted.lists_all:
        numbers |= set(_first_chunks(connection, within))
    if not shares and wanted.mode != "semantic":
        numbers |= set(_told(connection, asked))
    rows = _rows(connection, numbers, within)
    rows |= _rows(connection, _beside(rows, words), within)
    if dense is not None:
        near = _near_among(connection, meant, rows, dense, max(DENSE, wanted.sought))
    reasons = (*meant.reasons, *proposed.reasons)
    return Candidates(
        asked, weights, lexicon, rarity, shares, words, near, named, wholes, rows, reasons
    )


def _located(
    connection: sqlite3.Connection, arm: str, *found: Sequence[Match] | None
) -> list[int] | None:
    """What an engine proposes, as chunks, and those it was not told of yet; None if it is mute."""
    if found[0] is None:
        return None
    from retain.engines import locating

    chunks = [number for one in found for number in locating.located(connection, one or ())]
    unknown = locating.unknown(connection, arm)
    if unknown:
        chunks += locating.chunks_of(connection, unknown)
    return list(dict.fromkeys(chunks))


def _near_among(
    connection: sqlite3.Connection,
    meant: Meaning,
    rows: Mapping[int, Row],
    dense: Sequence[int],
    most: int,
) -> Near | None:
    """The vector arm over what was proposed alone: an engine far away has looked at the rest."""
    if meant.vector is None:
        return None
    from retain.engines.locating import mean
    from retain.index.vectors import nearest, of_chunks

    whole = mean(connection, meant.model)
    if whole is None:
        return None
    around = {chunk + step for chunk in rows for step in (-1, 0, 1)}
    matrix = of_chunks(connection, meant.model, around, whole)
    if matrix is None:
        return None
    cosines, scores = matrix.compared(meant.vector)
    among = matrix.at([chunk for chunk in dense if chunk in rows])
    among = among[among >= 0]
    order = nearest(scores, most, among)
    agreeing = min(AGREEING, whole.chunks // _OF_SO_MANY)
    first = nearest(cosines, max(1, agreeing), among)
    best = float(cosines[first[0]]) if len(first) else 0.0
    chunks = matrix.chunks
    return Near(matrix, scores, chunks[order].tolist(), frozenset(chunks[first].tolist()), best)


def _by_words(
    connection: sqlite3.Connection,
    lexicon: Lexicon,
    weights: Weights,
    within: Within | None,
    wanted: Wanted,
) -> Mapping[int, Shares]:
    """The text arm; where one long talk holds every place, what comes after it as well."""
    most = max(text.CANDIDATES, wanted.sought)
    shares = text.chunk_shares(connection, lexicon, weights.k1, within, most)
    if len(shares) < most or wanted.per == "chunk":
        return shares
    query = (
        "SELECT DISTINCT memory FROM json_each(?) "
        "JOIN chunks ON number = json_each.value LIMIT ?"  # ends with the first few, as a rule
    )
    values = (json.dumps(list(shares)), wanted.sought)
    if len(connection.execute(query, values).fetchall()) == wanted.sought:
        return shares
    return text.chunk_shares(connection, lexicon, weights.k1, within, _FURTHER * most)


def _nearest(
    bank: Indexed,
    connection: sqlite3.Connection,
    meant: Meaning,
    within: Within | None,
    most: int,
) -> Near | None:
    """The vector arm, or None when there is nothing to compare, or nothing to compare it with."""
    if meant.vector is None:
        return None
    from retain.index.vectors import nearest

    matrix = bank.vectors.matrix(connection, meant.model, len(meant.vector))
    if matrix is None:
        return None
    cosines, scores = matrix.compared(meant.vector)
    among = None if within is None else matrix.among(within.numbers)
    order = nearest(scores, most, among)
    agreeing = min(AGREEING, (len(matrix) if among is None else len(among)) // _OF_SO_MANY)
    first = nearest(cosines, max(1, agreeing), among)
    best = float(cosines[first[0]]) if len(first) else 0.0
    chunks = matrix.chunks
    return Near(matrix, scores, chunks[order].tolist(), frozenset(chunks[first].tolist()), best)


def _beside(rows: Mapping[int, Row], words: Mapping[int, float]) -> set[int]:
    """The neighbours of what fits best by its words, where there are any."""
    best = sorted(words, key=lambda chunk: (-words[chunk], chunk))[:_WIDENED]
    several = [chunk for chunk in best if chunk in rows and rows[chunk].chunks > 1]
    return {chunk + step for chunk in several for step in (-1, 1)} - rows.keys()


def _told(connection: sqlite3.Connection, asked: Asked) -> Iterable[int]:
    """For a question of nothing but a speaker or a date: what was said by them, or then."""
    if len(asked.names) == 1:
        query = (
            "SELECT c.number, m.created FROM chunks c JOIN memories m ON m.number = c.memory "
            "WHERE c.who <> '' AND c.who = ?"
        )
    elif asked.whens:
        query = (
            "SELECT min(c.number), m.created FROM chunks c JOIN memories m ON m.number = c.memory "
            "GROUP BY m.number"
        )
    else:
        return ()
    rows = connection.execute(query, asked.names if len(asked.names) == 1 else ()).fetchall()
    fits = {created: asked.closeness(created) for created in {created for _, created in rows}}
    told = [row for row in rows if fits[row[1]] or asked.names]
    told.sort(key=lambda row: (-fits[row[1]], -row[0]))
    return [number for number, _ in told[:_TOLD]]


def _first_chunks(connection: sqlite3.Connection, within: Within | None) -> Iterable[int]:
    if within is None:
        return ()
    query = (
        "SELECT min(number) FROM chunks WHERE memory IN (SELECT value FROM json_each(?)) "
        "GROUP BY memory"
    )
    return [number for (number,) in connection.execute(query, (within.encoded,))]


_ROWS: Final = (
    "SELECT c.number, c.memory, m.chunks, c.who, c.is_question, c.asks, c.is_heading, m.type, "
    "m.status, m.created, m.is_superseded, m.key, m.collection, "
    # Without one, a memory is called by its first line, which counts as text already.
    "iif(c.lead <> '' OR substr(c.header_path, 1, length(m.title)) = m.title, m.title, '') "
    "FROM json_each(?) "
    "JOIN chunks c ON c.number = json_each.value JOIN memories m ON m.number = c.memory"
)


def _rows(
    connection: sqlite3.Connection, numbers: Collection[int], within: Within | None
) -> dict[int, Row]:
    """What is known about these chunks, of those that may be found."""
    if not numbers:
        return {}
    rows = connection.execute(_ROWS, (json.dumps(sorted(numbers)),))
    found = {row[0]: row for row in map(Row._make, rows)}
    if within is None:  # then no memory is hidden
        return found
    allowed = frozenset(within.numbers)
    return {chunk: row for chunk, row in found.items() if row.memory in allowed}
