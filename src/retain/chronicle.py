"""What happened in a bank, from everything that remembers a time: memories, trash, chats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.trash import CHATS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retain.index.calendar import Dated
    from retain.model import Trashed
    from retain.sessions.model import Fact, Session

__all__ = ["BY", "KINDS", "Event", "chronicle"]

KINDS: Final = ("learned", "changed", "retired", "deleted", "chat")
BY: Final = ("agent", "chat", "person")

_FROM_CHAT: Final = "session:"  # how the source of what a chat saved begins
_STATES: Final = ("retired", "archived")
# How agents call themselves, through whichever door they come.
_AGENTS: Final = frozenset(
    "agent claude cline codex copilot cursor gemini goose mcp opencode roo windsurf zed".split()
)
_USUAL: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")  # as Retain writes times
_WORD: Final = re.compile(r"[a-z]+")
_MOST_SHELVES: Final = 500  # memories whose kept versions are looked up: each is a folder to list

Shelf = Callable[[str, str], Sequence[str]]  # a memory's collection and id to times of its changes


class Event(NamedTuple):
    """One thing that happened."""

    when: str  # in UTC
    day: str  # of the person's own calendar
    kind: str
    by: str
    who: str
    title: str
    collection: str
    id: str
    type: str
    summary: str = ""
    source: str = ""
    is_there: bool = True  # whether there is something to open


class _Clock:
    """Times as they are stored, in words that can be compared."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone  # None: where this machine is
        self._hours: dict[str, str] = {}

    def read(self, text: str) -> tuple[str, str]:
        """A time in UTC, and the day it was for the person; nothing for what is no time."""
        try:
            return self._read(text)
        except (ValueError, OverflowError, OSError):
            return "", ""

    def _read(self, text: str) -> tuple[str, str]:
        if not _USUAL.fullmatch(text):
            at = datetime.fromisoformat(text)
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
            text = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return text, self._day(text)

    def _day(self, text: str) -> str:
        """The day of a time; that of its hour, where the hour does not belong to two days."""
        hour = text[:13]
        if hour not in self._hours:
            first, last = self._local(f"{hour}:00:00Z"), self._local(f"{hour}:59:59Z")
            self._hours[hour] = first if first == last else ""
        return self._hours[hour] or self._local(text)

    def _local(self, text: str) -> str:
        return datetime.fromisoformat(text).astimezone(self._zone).date().isoformat()


def chronicle(
    memories: Sequence[Dated],
    trashed: Iterable[Trashed],
    sessions: Iterable[Session],
    facts: Iterable[Fact],
    shelf: Shelf,
    zone: tzinfo | None = None,
) -> list[Event]:
    """Everything that is known to have happened, the newest first."""
    clock = _Clock(zone)
    found: list[Event] = []
    revised: list[Dated] = []
    for one in memories:
        found.append(_learned(one, clock))
        if one.changes:
            found += _changed(one, clock)
        elif one.updated != one.created:
            revised.append(one)
    found += _revised(revised, shelf, clock)
    found += (_deleted(one, clock) for one in trashed)
    found += (_begun(one, clock) for one in sessions)
    saved = list(facts)
    there = {_ref(one) for one in memories} if saved else set()
    found += (_saved(one, clock) for one in saved if one.ref not in there)
    dated = [event for event in found if event.when]
    return sorted(dated, key=itemgetter(0, 2, 7), reverse=True)  # when, kind, id


def _ref(one: Dated) -> str:
    return f"{one.collection}/{one.id}" if one.collection else one.id


def _event(one: Dated, clock: _Clock, when: str, kind: str, summary: str = "") -> Event:
    named = (one.title, one.collection, one.id, one.type)
    return Event(*clock.read(when), kind, "", "", *named, summary)


def _learned(one: Dated, clock: _Clock) -> Event:
    when, day = clock.read(one.created)
    author, source = one.created_by, one.source
    by = _author(author, source) if author or source else ""
    named = (one.title, one.collection, one.id, one.type)
    return Event(when, day, "learned", by, author, *named, "", source)


@lru_cache(maxsize=1_000)
def _author(author: str, source: str) -> str:
    """Whether an agent, a chat or a person made a memory, as far as it says who did."""
    if source.startswith(_FROM_CHAT):
        return "chat"
    if not author:
        return ""
    first = _WORD.match(author.casefold())
    return "agent" if first and first[0] in _AGENTS else "person"


def _changed(one: Dated, clock: _Clock) -> Iterator[Event]:
    """What a typed memory tells of itself."""
    for entry in one.changes:
        summary = str(entry.get("summary") or "")
        yield _event(one, clock, str(entry.get("date")), _step(entry), summary)


def _step(entry: Mapping[str, Any]) -> str:
    is_state = entry.get("field") == "record_status" and entry.get("new_value") in _STATES
    return "retired" if is_state else "changed"


def _revised(changed: list[Dated], shelf: Shelf, clock: _Clock) -> Iterator[Event]:
    """Changes of memories that keep no list of them: the last, and those with a version kept.

    A version bears the time of the change that it was kept for, so the last one and the memory
    speak of the same change.
    """
    changed.sort(key=lambda one: one.updated, reverse=True)
    for number, one in enumerate(changed):
        kept = shelf(one.collection, one.id) if number < _MOST_SHELVES else ()
        for when in [*kept[:-1], one.updated]:
            yield _event(one, clock, when, "changed")


def _deleted(one: Trashed, clock: _Clock) -> Event:
    kind = "chat" if one.collection == CHATS else ""
    where = "" if kind else one.collection
    times = clock.read(one.deleted_at)
    return Event(*times, "deleted", "", "", one.id, where, one.id, kind, is_there=False)


def _begun(one: Session, clock: _Clock) -> Event:
    count = f"{one.messages} message{'' if one.messages == 1 else 's'}"
    times = clock.read(one.created_at)
    return Event(*times, "chat", "chat", one.model, one.title, "", one.id, "chat", count)


def _saved(one: Fact, clock: _Clock) -> Event:
    """A fact whose memory is no longer there by that name."""
    named = (one.fact, "", one.ref, "fact")
    source = f"{_FROM_CHAT}{one.session_id}" if one.session_id else ""
    times = clock.read(one.created_at)
    return Event(*times, "learned", "chat", "", *named, source=source, is_there=False)
