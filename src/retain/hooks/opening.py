"""A session begins with what holds in this project: the person, rules, open work, what was last.

It is read from the files themselves, because no process is warm yet and an index may be missing.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

# Each profile, and how many of its characters are shown.
_PROFILES: Final = dict(zip(paths.PROFILES, (2_000, 2_000, 1_000), strict=True))
_MOST_READ: Final = 300  # memories of a category
_BRIEF: Final = "the brief"  # what a memo calls it
# Under which heading a category is told, by which of its fields, and how many at most.
_KINDS: Final = (
    ("Preferences", "preference", ("value", "reason"), 10),
    ("Constraints", "constraint", ("rule", "impact"), 10),
    ("Open work", "tech_debt", ("description",), 10),
    ("Last sessions", "session_summary", ("goal", "outcome", "completed", "next_actions"), 3),
)
_OVER: Final = ("resolved", "wont_fix")
_ANEW: Final = ("startup", "clear", "compact")  # sources whose conversation is empty


def answer(call: Call) -> Answer:
    """A brief for a session, within the same budget as a prompt's."""
    if not call.is_on:
        return Answer()
    places = [(place, config) for place, config in call.places.readable() if place.exists]
    if not places:  # a session without a bank has a memo all the same
        Memo.sweep(call.places.place.root, call.env)
        return Answer()
    memo = Memo.of(call.places.place, call.text("session_id"), call.env)
    if call.text("source") in _ANEW:
        memo.forget_shown()
    first = places[0][0]
    source = context.located(f"{first.root}/", first, call.env).rstrip("/")
    budget = call.config.number("retrieval.budget")
    text, _ = context.fenced(_parts(call, places), f"{source}/", budget)
    stamp = str(zlib.crc32(text.encode()))
    if not memo.is_new(_BRIEF, stamp):
        text = ""  # a session that is resumed has it already
    memo.show({_BRIEF: stamp})
    memo.save()
    if not call.is_late():
        Memo.sweep(call.places.place.root, call.env)
    said = {"additionalContext": text} if text else {}
    return Answer.special(call, said, **_waiting(first.root))


def _waiting(root: str) -> dict[str, str]:
    """How many proposals nobody has looked at, for the person."""
    from retain.capture import inbox

    try:
        count = inbox.count(root)
    except (RetainError, OSError):
        return {}
    verb = "proposal waits" if count == 1 else "proposals wait"
    text = f"Retain: {count} {verb} for you; see `retain inbox`."
    return {"systemMessage": text} if count else {}


def _parts(call: Call, places: Sequence[tuple[Place, Config]]) -> Iterator[Part]:
    """What the banks have to say: the same kind from each together, as it matters."""
    for name, most in _PROFILES.items():
        for place, _ in places:
            if name in paths.KINDS[place.kind].not_memories:
                path = os.path.join(place.root, name)
                whose = "yours everywhere" if place.scope == "global" else "of this repository"
                where = context.located(path, place, call.env)
                yield Part(f"{name}, {whose} ({where}):", text=_text(path, most))
    shelves = [
        (
            Reader(place, max_bytes=config.number("memory.max_bytes")),
            rules(config, place.root).categories,
        )
        for place, config in places
    ]
    for heading, category, fields, most in _KINDS:
        for reader, categories in shelves:
            whose = ", yours everywhere" if reader.place.scope == "global" else ""
            memories = _newest(call, reader, categories[category].folder)[:most]
            yield _part(f"{heading}{whose}:", memories, fields, call, reader.place)


def _newest(call: Call, reader: Reader, folder: str) -> list[Memory]:
    """The memories of a collection that are in force, the newest first."""
    found: list[Memory] = []
    try:
        for memory in reader.newest(folder):
            if memory.status == "active" and not memory.problem and _is_open(memory):
                found.append(memory)
            if call.is_late() or len(found) == _MOST_READ:
                break
    except (RetainError, OSError):
        pass  # what was read until then must do
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


def _text(path: str, most: int) -> str:
    """The beginning of what a person wrote about themselves."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return file.read(most).strip()
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
        for memory in memories
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
