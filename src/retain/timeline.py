"""What happened in a bank, from everything that has a time: memories, trash, chats."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank.markdown import parse_file
from retain.bank.trash import CHATS, CONFLICT
from retain.errors import RetainError
from retain.memory import Memory
from retain.records.lifecycle import NO_REASON

if TYPE_CHECKING:
    from retain.index.queries import Dated
    from retain.memory import Trashed
    from retain.sessions.model import Fact, Session

_FROM_CHAT: Final = "session:"  # how the source of what a chat saved begins
_STATES: Final = ("retired", "archived")
# How agents call themselves, through whichever door they come.
_AGENTS: Final = frozenset(
    "agent claude cline codex copilot cursor gemini goose mcp opencode roo windsurf zed".split()
)
_UTC_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")  # as Retain writes times
_WORD: Final = re.compile(r"[a-z]+")
_MAX_TITLED: Final = 1 << 20  # bytes of a deleted memory that is read for its title
_MAX_READ: Final = 500  # memories whose versions are listed, and deleted ones that are read

# A memory's collection and id to its kept versions: the time of the change that each was kept for,
# and its name.
Versions = Callable[[str, str], Sequence[tuple[str, str]]]


class Event(NamedTuple):
    """One thing that happened."""

    when: str  # in UTC
    day: str  # of the person's own calendar
    kind: str  # learned, changed, retired, deleted or chat
    by: str = ""  # agent, chat or person, as far as it is known
    who: str = ""
    title: str = ""
    collection: str = ""
    id: str = ""
    type: str = ""
    summary: str = ""
    source: str = ""
    is_there: bool = True  # whether there is something to open
    older: str = ""  # the versions before and after a change, where the one before was kept
    newer: str = ""


def build_timeline(
    memories: Sequence[Dated],
    trashed: Iterable[Trashed],
    sessions: Iterable[Session],
    facts: Iterable[Fact],
    versions: Versions,
    zone: tzinfo | None = None,
) -> list[Event]:
    """Everything that is known to have happened, the newest first; days are those of the zone."""
    present = {f"{one.collection}/{one.id}" if one.collection else one.id for one in memories}
    events = [*_memory_events(memories, versions), *_trash_events(trashed)]
    for session in sessions:
        count = f"{session.messages} message{'' if session.messages == 1 else 's'}"
        about = (session.model, session.title, "", session.id, "chat", count)
        events.append(Event(session.created_at, "", "chat", "chat", *about))
    for fact in facts:
        if fact.ref not in present:  # its memory is no longer there by that name
            source = f"{_FROM_CHAT}{fact.session_id}" if fact.session_id else ""
            about = ("", fact.fact, "", fact.ref, "fact", "")
            event = Event(fact.created_at, "", "learned", "chat", *about, source, is_there=False)
            events.append(event)
    dated = []
    for event in events:
        when = _to_utc(event.when)
        if when:
            dated.append(event._replace(when=when, day=_local_day(when[:16], zone)))
    return sorted(dated, key=lambda event: (event.when, event.kind, event.id), reverse=True)


def _to_utc(text: str) -> str:
    """A time in UTC; empty for what is no time."""
    try:
        when = datetime.fromisoformat(text)
        if _UTC_TIME.fullmatch(text):
            return text
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return ""


@lru_cache(maxsize=100_000)
def _local_day(minute: str, zone: tzinfo | None) -> str:
    """The day that a minute of UTC was for the person; without a zone, where this machine is."""
    try:
        return datetime.fromisoformat(f"{minute}:00Z").astimezone(zone).date().isoformat()
    except (OverflowError, OSError):
        return minute[:10]


def _memory_events(memories: Iterable[Dated], versions: Versions) -> Iterator[Event]:
    revised = []
    for memory in memories:
        by = _author(memory.created_by, memory.source)
        learned = _event(memory, memory.created, "learned")
        yield learned._replace(by=by, who=memory.created_by, source=memory.source)
        if memory.changes:  # a typed memory has a list of them
            for change in memory.changes:
                is_state = change.get("field") == "record_status"
                is_end = is_state and change.get("new_value") in _STATES
                kind = "retired" if is_end else "changed"
                yield _event(memory, str(change.get("date")), kind, str(change.get("summary", "")))
        elif memory.updated != memory.created:
            revised.append(memory)
        elif memory.ended:
            yield _event(memory, memory.ended, "retired", _reason(memory))
    revised.sort(key=lambda memory: memory.updated, reverse=True)
    for number, memory in enumerate(revised):
        kept = versions(memory.collection, memory.id) if number < _MAX_READ else ()
        yield from _changes(memory, kept)


def _changes(memory: Dated, kept: Sequence[tuple[str, str]]) -> Iterator[Event]:
    """Changes of a memory that keeps no list of them: the last, and those with a version kept.

    A version bears the time of the change that it was kept for, so the last one and the memory
    speak of the same change, as it does of the one by which it was taken out of force.
    """
    names = [name for _, name in kept] or [""]
    times = [*(when for when, _ in kept[:-1]), memory.updated]
    ended = _to_utc(memory.ended)
    for when, older, newer in reversed([*zip(times, names, [*names[1:], "current"], strict=True)]):
        is_end = bool(ended) and _to_utc(when) == ended
        kind, summary = ("retired", _reason(memory)) if is_end else ("changed", "")
        ended = "" if is_end else ended
        event = _event(memory, when, kind, summary)
        yield event._replace(older=older, newer=newer) if older else event
    if ended:
        yield _event(memory, memory.ended, "retired", _reason(memory))


def _event(memory: Dated, when: str, kind: str, summary: str = "") -> Event:
    about = (memory.title, memory.collection, memory.id, memory.type, summary)
    return Event(when, "", kind, "", "", *about)


def _reason(memory: Dated) -> str:
    why = f": {memory.reason}" if memory.reason not in ("", NO_REASON) else ""
    return f"{memory.status.capitalize()}{why}"


def _author(author: str, source: str) -> str:
    """Whether an agent, a chat or a person made a memory, as far as it says who did."""
    if source.startswith(_FROM_CHAT):
        return "chat"
    first = _WORD.match(author.casefold())
    return ("agent" if first and first[0] in _AGENTS else "person") if author else ""


def _trash_events(trashed: Iterable[Trashed]) -> Iterator[Event]:
    for number, entry in enumerate(trashed):
        if entry.id.endswith(CONFLICT):
            continue  # a text that was refused, put aside for its writer
        is_chat = entry.collection == CHATS
        title, kind, collection = entry.id, "", entry.collection
        if is_chat:
            kind, collection = "chat", ""
        elif number < _MAX_READ and (memory := _read_trashed(entry.path, entry.size)):
            title, kind = memory.title, memory.type
        about = (title, collection, entry.id, kind)
        yield Event(entry.deleted_at, "", "deleted", "", "", *about, is_there=False)


@lru_cache(maxsize=2_000)
def _read_trashed(path: str, size: int) -> Memory | None:
    """A file of the trash; its name bears a time, so it is never another one."""
    if not 0 < size <= _MAX_TITLED:
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            text = parse_file(path, file.read(_MAX_TITLED))
    except (OSError, RetainError):
        return None
    return Memory("", "", path, text.meta, text.body)
