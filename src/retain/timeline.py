"""What happened in a bank, from everything that remembers a time: memories, trash, chats."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.bank.markdown import parse_file
from retain.bank.trash import CHATS, CONFLICT
from retain.errors import RetainError
from retain.memory import Memory
from retain.records.lifecycle import NO_REASON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retain.index.queries import Dated
    from retain.memory import Trashed
    from retain.sessions.model import Fact, Session


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
_READABLE: Final = 1 << 20  # bytes of a deleted memory that is looked into for its title
_MOST_SHELVES: Final = 500  # memories whose kept versions are looked up: each is a folder to list

# A memory's collection and id to its kept texts: the time of the change that each was kept for,
# and what it is called.
Shelf = Callable[[str, str], Sequence[tuple[str, str]]]


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
    older: str = ""  # the versions before and after a change, where the one before was kept
    newer: str = ""


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
        elif one.ended:
            found.append(_ended(one, clock, one.ended))
    found += _revised(revised, shelf, clock)
    there = {_ref(one) for one in memories}
    found += _all_deleted(trashed, there, clock)
    found += (_begun(one, clock) for one in sessions)
    found += (_saved(one, clock) for one in facts if one.ref not in there)
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
    speak of the same change, as it does of the one by which it was taken out of force.
    """
    changed.sort(key=lambda one: one.updated, reverse=True)
    for number, one in enumerate(changed):
        kept = shelf(one.collection, one.id) if number < _MOST_SHELVES else ()
        texts = [version for _, version in kept] or [""]
        times = [*(when for when, _ in kept[:-1]), one.updated]
        steps = list(zip(times, texts, [*texts[1:], "current"], strict=True))
        ended, _ = clock.read(one.ended)
        for when, older, newer in reversed(steps):  # of one second, the last is the newest, too
            is_end = bool(ended) and clock.read(when)[0] == ended
            ended = "" if is_end else ended
            event = _ended(one, clock, when) if is_end else _event(one, clock, when, "changed")
            yield event._replace(older=older, newer=newer) if older else event
        if ended:
            yield _ended(one, clock, one.ended)


def _ended(one: Dated, clock: _Clock, when: str) -> Event:
    """How a memory was taken out of force that keeps no list of its changes."""
    why = f": {one.reason}" if one.reason and one.reason != NO_REASON else ""
    return _event(one, clock, when, "retired", f"{one.status.capitalize()}{why}")


def _all_deleted(
    trashed: Iterable[Trashed], there: Collection[str], clock: _Clock
) -> Iterator[Event]:
    """What people have deleted, and not what lies in the trash for another reason."""
    for number, one in enumerate(trashed):
        if one.id.endswith(CONFLICT):
            continue  # a text that was refused, put aside for its writer
        if one.collection == CHATS:
            yield _deleted(one, clock)._replace(collection="", type="chat")
            continue
        memory = _laid_out(one.path, one.size) if number < _MOST_SHELVES else None
        parts = memory.merged_from if memory else ()
        if parts and all(_is_there(part, one.collection, there) for part in parts):
            continue  # a merge that was taken back: what it was made of is there
        event = _deleted(one, clock)
        yield event._replace(title=memory.title, type=memory.type) if memory else event


def _is_there(name: str, collection: str, there: Collection[str]) -> bool:
    name = name.removeprefix("memory:")
    return name in there or f"{collection}/{name}" in there


@lru_cache(maxsize=2_000)
def _laid_out(path: str, size: int) -> Memory | None:
    """A file of the trash; its name bears a time, so it is never another one."""
    if not 0 < size <= _READABLE:
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(_READABLE)
        text = parse_file(path, data)
    except (OSError, RetainError):
        return None
    return Memory("", "", path, text.meta, text.body)


def _deleted(one: Trashed, clock: _Clock) -> Event:
    times = clock.read(one.deleted_at)
    return Event(*times, "deleted", "", "", one.id, one.collection, one.id, "", is_there=False)


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
