"""A session begins with what holds in this project: the person, rules, open work, what was last.

It is read from the files themselves, because no process is warm yet and an index may be missing.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from retain import paths, records
from retain.config import rules
from retain.errors import RetainError
from retain.hooks import context
from retain.hooks.call import Answer, Call
from retain.hooks.context import Entry, Part
from retain.hooks.memo import Memo
from retain.reading import Reader

if TYPE_CHECKING:
    from retain.config import Config
    from retain.model import Memory
    from retain.place import Place

__all__ = ["answer"]

_PROFILES: Final = ("USER.md", "PREFERENCES.md")
_PROFILE_CHARS: Final = 2_000
_MOST_READ: Final = 300  # memories of a category
_MOST_SESSIONS: Final = 3
_MOST_OTHERS: Final = 10
_BRIEF: Final = "the brief"  # what a memo calls it
_OF_SESSIONS: Final = ("goal", "outcome", "completed", "next_actions")
_OVER: Final = ("resolved", "wont_fix")
_ANEW: Final = ("startup", "clear", "compact")  # sources whose conversation is empty


def answer(call: Call) -> Answer:
    """A brief for a session, within the same budget as a prompt's."""
    if not call.is_on:
        return Answer()
    places = [(place, config) for place, config in call.places.readable() if place.exists]
    if not places:
        return Answer()
    memo = Memo.of(call.places.place, call.text("session_id"))
    if call.text("source") in _ANEW:
        memo.forget_shown()
        memo.sweep()
    found = [_parts(call, place, config) for place, config in places]
    # The same kind from every bank together, in the order of what matters.
    parts = [part for several in zip(*found, strict=True) for part in several]
    first = places[0][0]
    source = context.located(f"{first.root}/", first, call.env).rstrip("/")
    budget = call.config.number("retrieval.budget")
    text, _ = context.fenced(parts, f"{source}/", budget)
    stamp = str(zlib.crc32(text.encode()))
    if not memo.is_new(_BRIEF, stamp):
        text = ""  # a session that is resumed has it already
    memo.show({_BRIEF: stamp})
    memo.save()
    return _said(text, _waiting(first.root))


def _said(text: str, waiting: int) -> Answer:
    data: dict[str, object] = {}
    if text:
        said = {"hookEventName": "SessionStart", "additionalContext": text}
        data["hookSpecificOutput"] = said
    if waiting:
        verb = "proposal waits" if waiting == 1 else "proposals wait"
        data["systemMessage"] = f"Retain: {waiting} {verb} for you; see `retain inbox`."
    return Answer.of(data) if data else Answer()


def _waiting(root: str) -> int:
    """How many proposals nobody has looked at."""
    from retain.capture import inbox

    try:
        return inbox.count(root)
    except (RetainError, OSError):
        return 0


def _parts(call: Call, place: Place, config: Config) -> list[Part]:
    """What one bank has to say, part by part."""
    reader = Reader(place, max_bytes=config.number("memory.max_bytes"))
    folders = {one.name: one.folder for one in rules(config, place.root).categories.values()}

    def newest(category: str) -> list[Memory]:
        return _newest(call, reader, folders[category])

    whose = "" if place.scope != "global" else ", yours everywhere"
    sessions = newest("session_summary")[:_MOST_SESSIONS]
    return [
        *_profiles(place),
        _part(f"Preferences{whose}:", newest("preference"), ("value", "reason"), call, place),
        _part(f"Constraints{whose}:", newest("constraint"), ("rule", "impact"), call, place),
        _part(f"Open work{whose}:", newest("tech_debt"), ("description",), call, place),
        _part(
            f"Last sessions{whose}:",
            sessions,
            _OF_SESSIONS,
            call,
            place,
        ),
    ]


def _newest(call: Call, reader: Reader, folder: str) -> list[Memory]:
    """The memories of a collection that are in force, the newest first."""
    found: list[Memory] = []
    try:
        for memory in islice(reader.memories(folder), _MOST_READ):
            if memory.status == "active" and not memory.problem and _is_open(memory):
                found.append(memory)
            if call.left < 0:
                break
    except (RetainError, OSError):
        return found
    found.sort(key=lambda one: one.text("updated_at") or one.text("created_at"), reverse=True)
    return found


def _is_open(memory: Memory) -> bool:
    content = _content(memory)
    return content.get("active") is not False and content.get("status") not in _OVER


def _content(memory: Memory) -> Mapping[str, object]:
    """The fields of a typed memory; those of a JSON file are no part of its metadata."""
    found = records.load(memory.data) if memory.path.endswith(".json") else memory.meta
    content = found.get("content")
    return content if isinstance(content, dict) else {}


def _profiles(place: Place) -> list[Part]:
    """What the person wrote about themselves; the same number of parts for every bank."""
    wanted = [name for name in _PROFILES if name in paths.KINDS[place.kind].not_memories]
    texts = [_text(os.path.join(place.root, name)) for name in wanted]
    return [
        Part(f"{name}:", text=text) if text else Part("")
        for name, text in zip(_PROFILES, texts or [""] * len(_PROFILES), strict=True)
    ]


def _text(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return file.read(_PROFILE_CHARS).strip()
    except OSError:
        return ""


def _part(
    heading: str, memories: Iterable[Memory], fields: tuple[str, ...], call: Call, place: Place
) -> Part:
    entries = [
        Entry(
            memory.type,
            memory.title,
            context.located(memory.path, place, call.env),
            memory.tags,
            _said_in(memory, fields),
            ((memory.text("updated_at") or memory.text("created_at"))[:10],),
        )
        for memory in islice(memories, _MOST_OTHERS)
    ]
    return Part(heading, entries)


def _said_in(memory: Memory, fields: tuple[str, ...]) -> str:
    """What a typed memory says, in the fields that matter at a session's beginning."""
    content = _content(memory)
    said = [
        f"{name.replace('_', ' ')}: {_flat(content[name])}" for name in fields if content.get(name)
    ]
    return "; ".join(said) or memory.body


def _flat(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
