"""What a question asks for: terms, names, dates, and the conditions a memory must meet."""

from __future__ import annotations

import json
import operator
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from retain import dates
from retain.errors import UsageError
from retain.filters import Filter, matches, parse
from retain.model import Memory
from retain.paths import check_collection
from retain.words import query as sought

__all__ = ["Asked", "Conditions", "Wanted", "asked", "conditions", "share", "whole"]

MOST_CHARS: Final = 10_000  # of a question; what comes after would only blur it
_MOST_TERMS: Final = 64
_MOST_HITS: Final = 100_000
_NAME_WORDS: Final = 4  # of the longest speaker's name that is looked for
_WORD: Final = re.compile(r"[^\W_][\w.'-]*")
# What stands in a question only because a question needs a verb.
_SAYING: Final = re.compile(
    r"\b(?:sa(?:y|ys|id)|tell|told|talk(?:ed|s)?|sp(?:ea|o)ke?|discuss(?:ed)?|mention(?:ed)?|"
    r"happen(?:ed|s)?)\b",
    re.IGNORECASE,
)
MODES: Final = ("hybrid", "text", "semantic")
PER: Final = ("memory", "chunk")


def whole(name: str, value: int, least: int = 1) -> int:
    """A number of things as a program gives it, or a UsageError that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(f"{name} is a whole number from {least} on, not {value!r}")
    return number


def share(name: str, value: object) -> float:
    """A score or a threshold as a program gives it, or a UsageError that names the argument."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"{name} is a number from 0 to 1, not {value!r}")
    return float(value)


class Conditions(NamedTuple):
    """What a memory must be to be found at all."""

    collection: str | None = None
    type: str = ""
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    months: tuple[str, ...] = ()  # in one of which it was made: 2026-11
    filters: tuple[Filter, ...] = ()
    only: frozenset[tuple[str, str]] | None = None  # collection and id of each

    @property
    def any(self) -> bool:
        return self != Conditions()


def conditions(
    *,
    collection: str | None = None,
    kind: str = "",
    tags: Sequence[str] = (),
    since: str = "",
    until: str = "",
    filters: Sequence[str] = (),
) -> Conditions:
    """Conditions as a person states them."""
    now = datetime.now(UTC).astimezone()  # a person's `today` is not the clock's in Greenwich
    return Conditions(
        None if collection is None else check_collection(collection),
        kind,
        tuple(tag.strip().casefold() for tag in tags),
        dates.moment(since, now) if since else None,
        dates.moment(until, now, end=True) if until else None,
        filters=tuple(map(parse, filters)),
    )


class Wanted(NamedTuple):
    """One call of recall."""

    query: str
    limit: int = 10
    mode: str = "hybrid"
    per: str = "memory"
    conditions: Conditions = Conditions()
    min_score: float = 0.0
    explain: bool = False
    lists_all: bool = False  # also what the question does not fit at all
    breadth: int = 0  # hits that are looked for, whatever the limit, so that pages fit together
    share: float = 0.0  # of the best score, below which only those with a word of it are hits
    best: float = 0.0  # a score that is known to be reached already

    @property
    def sought(self) -> int:
        """For how many hits there have to be candidates."""
        return self.breadth or self.limit

    def checked(self) -> Wanted:
        """The same, or a UsageError that says what is wrong with it."""
        if self.mode not in MODES:
            raise UsageError(f"{self.mode!r} is no mode: {', '.join(MODES)}")
        if self.per not in PER:
            raise UsageError(f"per is {' or '.join(PER)}, not {self.per!r}")
        limit = min(whole("limit", self.limit), _MOST_HITS)
        return self._replace(query=self.query[:MOST_CHARS], limit=limit)


class Asked(NamedTuple):
    """A question taken apart, for one bank."""

    terms: tuple[str, ...]
    names: tuple[str, ...]
    name_terms: frozenset[str]
    whens: Sequence[dates.When]
    meaning: str  # what the vector is made from
    is_of_whom_or_when: bool = False  # it asks for whatever a speaker said, or is of a date

    def closeness(self, created: str) -> float:
        """How well the date of a memory fits those of the question."""
        moment = parsed(created) if self.whens and created else None
        return dates.closeness(self.whens, moment.date()) if moment else 0.0


def asked(connection: sqlite3.Connection, query: str, today: date) -> Asked:
    """Take a question apart, by the names this bank knows."""
    whens = dates.mentioned(query, today)
    names = _names_in(connection, query)
    plain = dates.without(query, whens) or query
    terms = tuple(dict.fromkeys(sought(plain)))[:_MOST_TERMS]
    spoken = frozenset(term for name in names for term in sought(name))
    return Asked(
        terms,
        names,
        spoken,
        whens,
        _without_names(plain, names),
        bool(names or whens) and spoken.issuperset(_besides(query, whens)),
    )


def _besides(query: str, whens: Sequence[dates.When]) -> list[str]:
    """The terms of a question besides its dates, and the verbs that ask for whatever there is."""
    for when in whens:
        query = query.replace(when.text, " ")
    return sought(_SAYING.sub(" ", query))


def _names_in(connection: sqlite3.Connection, query: str) -> tuple[str, ...]:
    """The speakers of this bank whom a question names, as it names them."""
    found = [match.group().rstrip(".'-") for match in _WORD.finditer(query)]
    found = [word.removesuffix("'s") for word in found][:200]
    runs = {
        " ".join(found[at : at + length])
        for at in range(len(found))
        for length in range(1, _NAME_WORDS + 1)
        if found[at][:1].isupper()
    }
    if not runs:
        return ()
    known = (
        "SELECT DISTINCT who FROM chunks WHERE who <> '' "
        "AND who IN (SELECT value FROM json_each(?))"
    )
    rows = connection.execute(known, (json.dumps(sorted(runs)),))
    return tuple(sorted(name for (name,) in rows))


def _without_names(text: str, names: Sequence[str]) -> str:
    """A question without the names, which would draw a vector to whatever mentions them."""
    for name in names:
        text = re.sub(rf"\b{re.escape(name)}\b(?:['\u2019]s)?", " ", text)
    return text if re.search(r"\w", text) else " ".join(names) or text


def hides_any(connection: sqlite3.Connection) -> bool:
    """Whether there are memories that no search shows, and that must not take others' places."""
    query = "SELECT 1 FROM memories WHERE is_gone OR status = 'retired' LIMIT 1"
    return connection.execute(query).fetchone() is not None


def allowed(connection: sqlite3.Connection, conditions: Conditions) -> list[int]:
    """The numbers of the memories that meet every condition."""
    query = (
        "SELECT number, id, collection, type, status, created, title, tags, meta FROM memories "
        "WHERE NOT is_gone AND (status <> 'retired' OR ?)"
    )
    asks_for_status = any(one.key == "status" for one in conditions.filters)
    rows = connection.execute(query, (asks_for_status,))
    return [row[0] for row in rows if _meets(row, conditions)]


def _meets(row: Sequence[object], wanted: Conditions) -> bool:
    _, name, collection, kind, status, created, title, tags, meta = row
    if wanted.collection is not None and collection != wanted.collection:
        return False
    if wanted.only is not None and (collection, name) not in wanted.only:
        return False
    if wanted.type and kind != wanted.type:
        return False
    if wanted.tags and not set(map(str.casefold, json.loads(str(tags)))) & set(wanted.tags):
        return False
    if wanted.months and str(created)[:7] not in wanted.months:
        return False
    if (wanted.since or wanted.until) and not _is_between(str(created), wanted):
        return False
    if not wanted.filters:
        return True
    fields = {"title": title, "type": kind, "status": status, **json.loads(str(meta))}
    memory = Memory(str(name), str(collection), "", fields, "")
    return matches(memory, wanted.filters)


def _is_between(created: str, wanted: Conditions) -> bool:
    moment = parsed(created)
    if moment is None:
        return False
    return (wanted.since is None or moment >= wanted.since) and (
        wanted.until is None or moment <= wanted.until
    )


def parsed(text: str) -> datetime | None:
    """A time as memories state it, in UTC, None for what is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
