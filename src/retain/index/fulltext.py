"""The text arm: BM25 over chunks, and over whole memories, on an absolute scale from 0 to 1.

FTS5 finds the candidates and our own formula scores them: the built-in one has fixed constants
and no fixed end, and a score that is divided by the highest one any text could reach means the
same for every query.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from retain.errors import Busy
from retain.index.database import VERSION
from retain.locate import state_directory

if TYPE_CHECKING:
    from retain.locate import BankLocation

_Result = TypeVar("_Result")

# How far a chunk has each term of a query, from 0 to 1, in the lexicon's order.
Shares = tuple[float, ...]

_WHOLES: Final = 60
_B: Final = 0.4  # how much a text's length counts against it
_STEPS: Final = 2000  # of SQLite's machine between two looks at the clock


class Lexicon(NamedTuple):
    """A query's terms with how rare each is."""

    rarity: Mapping[str, float]  # idf
    counts: Mapping[str, int]  # in how many chunks it stands
    chunks: int
    average: float  # length of a chunk

    @property
    def weights(self) -> tuple[float, ...]:
        """Each term's share of the highest score a text could reach, seen terms or not."""
        total = sum(self.rarity.values())
        return tuple(rarity / total for rarity in self.rarity.values()) if total else ()


class Snapshot:
    """An index as the last process left it, searched by words: neither synced nor repaired.

    A hook must not wait for those who bring the index in step, nor be in their way.
    """

    def __init__(
        self, place: BankLocation, end: float, env: Mapping[str, str] = os.environ
    ) -> None:
        self.location = place
        self._path = os.path.join(state_directory(place.root, env), "index.db")
        self._end = end  # of the time to look, by the monotonic clock

    def read(
        self,
        work: Callable[[sqlite3.Connection], _Result],
        *,
        is_fresh: bool = True,  # noqa: ARG002 - it never is
    ) -> _Result:
        """Look something up; Busy where there is no index to look at, or no time."""
        # At rest there is no log, and SQLite would make one.
        is_at_rest = not os.path.exists(f"{self._path}-wal")
        path = self._path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        address = f"file:{path}?mode=ro{'&immutable=1' * is_at_rest}"
        try:
            with contextlib.closing(
                sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)
            ) as connection:
                connection.set_progress_handler(lambda: time.monotonic() > self._end, _STEPS)
                if connection.execute("PRAGMA user_version").fetchone() == (VERSION,):
                    return work(connection)
        except sqlite3.Error as error:
            raise Busy(f"the index of {self.location.root} cannot be looked at: {error}") from error
        raise Busy(f"there is no index of {self.location.root} to look at")


def lexicon(connection: sqlite3.Connection, terms: Iterable[str]) -> Lexicon:
    """How rare a query's terms are in this bank."""
    chunks, length = connection.execute("SELECT chunks, length FROM totals").fetchone()
    counts = _count(connection, "vocabulary", terms)
    rarity = {term: rarity_of(chunks, count) for term, count in counts.items()}
    return Lexicon(rarity, counts, chunks, length / chunks if chunks else 1.0)


def _count(connection: sqlite3.Connection, table: str, terms: Iterable[str]) -> dict[str, int]:
    """In how many chunks, or in how many memories, each term stands."""
    query = (
        "SELECT json_each.value, coalesce(doc, 0) FROM json_each(?) "  # noqa: S608 - one of our two names
        f"LEFT JOIN {table} ON term = json_each.value"
    )
    return dict(connection.execute(query, (json.dumps(list(terms)),)))


def rarity_of(chunks: int, count: int) -> float:
    """How rare a term is that stands in so many of all chunks."""
    return log(1 + max(0.0, chunks - count + 0.5) / (count + 0.5))


def chunk_shares(
    connection: sqlite3.Connection,
    terms: Lexicon,
    k1: float,
    within: Sequence[int] | None,
    most: int,
    ranked: int,
) -> dict[int, Shares]:
    """The chunks that meet a query best, and how far each has its terms.

    FTS5 ranks as many rows as `ranked` allows: common words beyond that choose no candidates.
    """
    there = sorted((count, term) for term, count in terms.counts.items() if count)
    if not there:
        return {}
    chosen = " OR ".join(_rarest(there, ranked if within is None else None))
    order, condition, values = "rank", "", []
    if within is not None:
        # The plus keeps SQLite from asking FTS5 once per allowed row.
        condition = (
            "AND +rowid IN (SELECT chunks.number FROM json_each(?) "
            "JOIN chunks ON chunks.memory = json_each.value)"
        )
        values = [json.dumps(within)]
    elif there[0][0] > ranked:
        # Nothing but common words: where they meet, and there the newest.
        chosen, order = " AND ".join(_rarest(there[:3], None)), "rowid DESC"
    query = (
        f"SELECT rowid FROM terms WHERE terms MATCH ? {condition} "  # noqa: S608 - our own words
        f"ORDER BY {order} LIMIT ?"
    )
    found = connection.execute(query, (chosen, *values, most))
    return shares_in(connection, terms, k1, [number for (number,) in found])


def _rarest(there: Sequence[tuple[int, str]], most: int | None) -> list[str]:
    """The rarest terms, quoted for FTS5, as many as may be ranked; at least one."""
    chosen: list[str] = []
    ranked = 0
    for count, term in there:
        ranked += count
        if chosen and most is not None and ranked > most:
            break
        # Ours hold no quotes, strangers' might.
        chosen.append('"' + term.replace('"', '""') + '"')
    return chosen


def shares_in(
    connection: sqlite3.Connection, terms: Lexicon, k1: float, chunks: Sequence[int]
) -> dict[int, Shares]:
    """How far each of these chunks has the terms of a query."""
    # FTS5's own table of what was put in: asking FTS5 for each row takes three times as long.
    query = "SELECT t.id, t.c0 FROM json_each(?) JOIN terms_content t ON t.id = json_each.value"
    spaced = [f" {term} " for term in terms.rarity]
    return {
        number: shares_of(spaced, bag, k1, terms.average)
        for number, bag in connection.execute(query, (json.dumps(chunks),))
    }


def shares_of(spaced: Sequence[str], bag: str, k1: float, average: float) -> Shares:
    """BM25's saturation of each term: how much its repetitions and the text's length let count."""
    weight = k1 * (1 - _B + _B * (bag.count(" ") + 1) / average)
    bag = f" {bag} "
    return tuple([n / (n + weight) if (n := _times(term, bag)) else 0.0 for term in spaced])


def _times(spaced: str, bag: str) -> int:
    """How often a term stands in a bag; parting every bag into words took longer than FTS5."""
    found = bag.count(spaced)
    if found and f"{spaced}{spaced[1:]}" in bag:
        # Two side by side share a space, and were counted as one.
        return bag.split().count(spaced.strip())
    return found


def whole_scores(
    connection: sqlite3.Connection,
    terms: Iterable[str],
    within: Sequence[int] | None,
    ranked: int,
) -> dict[int, float]:
    """How well memories of several chunks meet a query as a whole, by their numbers."""
    (wholes,) = connection.execute("SELECT wholes FROM totals").fetchone()
    counts = _count(connection, "whole_vocabulary", terms) if wholes else {}
    # The rarity as FTS5's bm25 counts it.
    rarities = [max(1e-6, log((wholes - n + 0.5) / (n + 0.5))) for n in counts.values()]
    there = sorted((count, term) for term, count in counts.items() if count)
    if not there:
        return {}
    condition, values = "", []
    if within is not None:
        condition, values = "AND +rowid IN (SELECT value FROM json_each(?))", [json.dumps(within)]
    query = (
        f"SELECT rowid, -bm25(wholes) FROM wholes WHERE wholes MATCH ? {condition} "  # noqa: S608 - our own words
        f"ORDER BY rank LIMIT {_WHOLES}"
    )
    most = 2.2 * sum(rarities)  # k1 + 1, with FTS5's k1
    found = connection.execute(query, (" OR ".join(_rarest(there, ranked)), *values))
    return {number: score / most for number, score in found}
