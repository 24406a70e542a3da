"""What a search is asked for: the request, its filters, and the query taken apart."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from retain.bank.filters import Filter, matches, parse
from retain.config import whole
from retain.errors import UsageError
from retain.memory import Memory, check_collection, parse_time
from retain.text import dates, tokens
from retain.text.dates import When

MAX_QUERY_CHARS: Final = 10_000  # what comes after would only blur the query
_MAX_TERMS: Final = 64
_MAX_HITS: Final = 100_000
_RANKED_EACH: Final = 30  # rows for each candidate
_MAX_NAME_WORDS: Final = 4  # of a speaker's name
_MAX_WORDS: Final = 200  # of a query that may be names
_WORD: Final = re.compile(r"[^\W_][\w.'-]*")
# Words that stand in a question only because a question needs a verb.
_SAYING: Final = re.compile(
    r"\b(?:sa(?:y|ys|id)|tell|told|talk(?:ed|s)?|sp(?:ea|o)ke?|discuss(?:ed)?|mention(?:ed)?|"
    r"happen(?:ed|s)?)\b",
    re.IGNORECASE,
)
MODES: Final = ("hybrid", "text", "semantic")
PER: Final = ("memory", "chunk")


class Filters(NamedTuple):
    """What a memory must be to be found at all."""

    collection: str | None = None
    type: str = ""
    tags: tuple[str, ...] = ()  # one of which it has
    since: datetime | None = None
    until: datetime | None = None
    months: tuple[str, ...] = ()  # in one of which it was made: 2026-11
    metadata: tuple[Filter, ...] = ()
    only: frozenset[tuple[str, str]] | None = None  # collection and id of each


def parse_filters(
    *,
    collection: str | None = None,
    kind: str = "",
    tags: Sequence[str] = (),
    since: str = "",
    until: str = "",
    filters: Sequence[str] = (),
) -> Filters:
    """Parse filters as a person writes them."""
    now = datetime.now(UTC).astimezone()  # a person's `today` is not the clock's in Greenwich
    return Filters(
        None if collection is None else check_collection(collection),
        kind,
        tuple(tag.strip().casefold() for tag in tags),
        dates.parse_moment(since, now) if since else None,
        dates.parse_moment(until, now, end=True) if until else None,
        metadata=tuple(map(parse, filters)),
    )


class SearchRequest(NamedTuple):
    """One search, as a door asks for it."""

    query: str
    limit: int = 10
    mode: str = "hybrid"
    per: str = "memory"
    filters: Filters = Filters()
    min_score: float = 0.0
    explain: bool = False
    lists_all: bool = False  # also what does not fit the query at all
    breadth: int = 0  # hits to find candidates for, whatever the limit, so that pages agree
    share: float = 0.0  # of the best score, below which a hit needs a word of the query
    best: float = 0.0  # a score that is known to be reached already
    min_candidates: int = 200  # chunks that words propose at least; fewer take less time

    @property
    def candidates(self) -> int:
        """For how many hits there have to be candidates."""
        return self.breadth or self.limit

    @property
    def ranked(self) -> int:
        """How many rows the full-text index may rank; common words beyond that only count."""
        return _RANKED_EACH * self.min_candidates

    def validate(self) -> SearchRequest:
        """The same request, or a UsageError that says what is wrong with it."""
        if self.mode not in MODES:
            raise UsageError(f"{self.mode!r} is no mode: {', '.join(MODES)}")
        if self.per not in PER:
            raise UsageError(f"per is {' or '.join(PER)}, not {self.per!r}")
        limit = min(whole("limit", self.limit), _MAX_HITS)
        return self._replace(query=self.query[:MAX_QUERY_CHARS], limit=limit)


class ParsedQuery(NamedTuple):
    """A query taken apart, by the speakers that one bank knows."""

    terms: tuple[str, ...]
    names: tuple[str, ...]  # speakers
    name_terms: frozenset[str]
    dates: Sequence[When]
    embedded: str  # the text that the vector is made from
    asks_only_who_or_when: bool = False  # for whatever a speaker said, or is of a date

    def closeness(self, created: str) -> float:
        """How well the date of a memory fits those of the query."""
        moment = parse_time(created) if self.dates and created else None
        return dates.closeness(self.dates, moment.date()) if moment else 0.0


def parse_query(connection: sqlite3.Connection, query: str, today: date) -> ParsedQuery:
    """Take a query apart."""
    whens = dates.find_dates(query, today)
    names = _speakers_in(connection, query)
    plain = dates.remove_relative(query, whens) or query
    name_terms = frozenset(term for name in names for term in tokens.query(name))
    rest = query
    for when in whens:
        rest = rest.replace(when.text, " ")
    without_names = plain
    for name in names:  # which would draw a vector to whatever mentions them
        without_names = re.sub(rf"\b{re.escape(name)}\b(?:['\u2019]s)?", " ", without_names)
    return ParsedQuery(
        tuple(dict.fromkeys(tokens.query(plain)))[:_MAX_TERMS],
        names,
        name_terms,
        whens,
        without_names if re.search(r"\w", without_names) else " ".join(names) or plain,
        bool(names or whens) and name_terms.issuperset(tokens.query(_SAYING.sub(" ", rest))),
    )


def _speakers_in(connection: sqlite3.Connection, query: str) -> tuple[str, ...]:
    """The speakers of this bank whom a query names, as it names them."""
    words = [match.group().rstrip(".'-") for match in _WORD.finditer(query)]
    words = [word.removesuffix("'s") for word in words][:_MAX_WORDS]
    runs = {
        " ".join(words[at : at + length])
        for at in range(len(words))
        for length in range(1, _MAX_NAME_WORDS + 1)
        if words[at][:1].isupper()
    }
    known = (
        "SELECT DISTINCT who FROM chunks WHERE who <> '' "
        "AND who IN (SELECT value FROM json_each(?)) ORDER BY who"
    )
    rows = connection.execute(known, (json.dumps(list(runs)),)) if runs else ()
    return tuple(name for (name,) in rows)


def allowed_memories(connection: sqlite3.Connection, filters: Filters) -> list[int] | None:
    """The numbers of the memories that pass the filters; None where every memory does."""
    hidden = "SELECT 1 FROM memories WHERE is_gone OR status = 'retired' LIMIT 1"
    if filters == Filters() and connection.execute(hidden).fetchone() is None:
        return None
    query = (
        "SELECT number, id, collection, type, status, created, title, tags, meta FROM memories "
        "WHERE NOT is_gone AND (status <> 'retired' OR ?)"
    )
    asks_for_status = any(each.key == "status" for each in filters.metadata)
    rows = connection.execute(query, (asks_for_status,))
    return [number for number, *row in rows if _passes(row, filters)]


def _passes(row: Sequence[str], filters: Filters) -> bool:
    name, collection, kind, status, created, title, tags, meta = row
    if filters.since or filters.until:
        moment = parse_time(created)
        if moment is None or (filters.since and moment < filters.since):
            return False
        if filters.until and moment > filters.until:
            return False
    if (
        (filters.collection is not None and collection != filters.collection)
        or (filters.only is not None and (collection, name) not in filters.only)
        or (filters.type and kind != filters.type)
        or (filters.tags and not set(map(str.casefold, json.loads(tags))) & set(filters.tags))
        or (filters.months and created[:7] not in filters.months)
    ):
        return False
    if not filters.metadata:
        return True
    fields = {"title": title, "type": kind, "status": status, **json.loads(meta)}
    return matches(Memory(name, collection, "", fields, ""), filters.metadata)
