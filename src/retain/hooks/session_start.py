"""Brief a new session: who the person is, which rules hold, open work, the last sessions.

It is read from the files themselves, because no process is warm yet and an index may be missing.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from retain.bank.bank import Bank
from retain.capture.inbox import Inbox
from retain.config import rules
from retain.errors import RetainError
from retain.hooks import Answer, Call
from retain.hooks.context import Entry, Part, build_context, short_path
from retain.hooks.session_state import SessionState
from retain.memory import KINDS, PROFILES, Memory
from retain.records.codec import is_record, load_record

# Each profile, and how many of its characters are shown.
_PROFILES: Final = dict(zip(PROFILES, (2_000, 2_000, 1_000), strict=True))
_MAX_READ: Final = 300  # memories of a category
_BRIEF: Final = "the brief"  # its name among what a session was shown
# Under which heading a category is told, by which of its fields, and how many at most.
_KINDS: Final = (
    ("Preferences", "preference", ("value", "reason"), 10),
    ("Constraints", "constraint", ("rule", "impact"), 10),
    ("Open work", "tech_debt", ("description",), 10),
    ("Last sessions", "session_summary", ("goal", "outcome", "completed", "next_actions"), 3),
)
_OVER: Final = ("resolved", "wont_fix")
_ANEW: Final = ("startup", "clear", "compact")  # sources whose conversation is empty
_NOTHING: Final = (
    "The bank has no preference, constraint, open work or session summary in force yet."
)


def answer(call: Call) -> Answer:
    """A brief for a session, within the same budget as a prompt's."""
    if reason := call.find_silence_reason():
        return Answer(reason=reason)
    place = call.banks[0][0]
    state = SessionState(place, call.text("session_id"), call.env)
    if call.text("source") in _ANEW:
        state.shown = {}
    text, _ = build_context(call, _parts(call))
    stamp = str(zlib.crc32(text.encode()))
    # A session that is resumed has the brief already.
    fields = {"additionalContext": text} if text and state.is_new(_BRIEF, stamp) else {}
    state.show({_BRIEF: stamp})
    state.save()
    if not call.is_late():
        state.sweep()
    reply = call.reply(fields, **_waiting(call))
    return reply._replace(reason="" if reply.out else _NOTHING)


def _waiting(call: Call) -> dict[str, str]:
    """A message to the person that counts the proposals in the inbox."""
    count = Inbox(call.banks[0][0].root, call.env).count()
    verb = "proposal waits" if count == 1 else "proposals wait"
    text = f"Retain: {count} {verb} for you; see `retain inbox`."
    return {"systemMessage": text} if count else {}


def _parts(call: Call) -> Iterator[Part]:
    """The parts of the brief, the most important first; each kind from every bank."""
    for name, most in _PROFILES.items():
        for place, _ in call.banks:
            if name in KINDS[place.kind].not_memories:
                path = os.path.join(place.root, name)
                whose = "yours everywhere" if place.scope == "global" else "of this repository"
                where = short_path(path, place, call.env)
                yield Part(f"{name}, {whose} ({where}):", text=_read_start(path, most))
    for heading, category, fields, most in _KINDS:
        for place, config in call.banks:
            bank = Bank(place, max_bytes=config.number("memory.max_bytes"))
            folder = rules(config, place.root).categories[category].folder
            entries = [
                Entry(
                    memory.type,
                    memory.title,
                    short_path(memory.path, place, call.env),
                    memory.tags,
                    _summary(memory, fields),
                    (_date(memory)[:10],),
                )
                for memory in _newest(call, bank, folder)[:most]
            ]
            whose = ", yours everywhere" if place.scope == "global" else ""
            yield Part(f"{heading}{whose}:", entries)


def _newest(call: Call, bank: Bank, folder: str) -> list[Memory]:
    """The memories of a collection that are in force, the newest first."""
    memories: list[Memory] = []
    with contextlib.suppress(RetainError, OSError):  # what was read until then must do
        for memory in bank.newest(folder):
            content = _content(memory)
            is_over = content.get("active") is False or content.get("status") in _OVER
            if memory.status == "active" and not (memory.problem or is_over):
                memories.append(memory)
            if call.is_late() or len(memories) == _MAX_READ:
                break
    return sorted(memories, key=_date, reverse=True)


def _date(memory: Memory) -> str:
    return memory.text("updated_at") or memory.text("created_at")


def _content(memory: Memory) -> Mapping[str, object]:
    """The fields of a typed memory."""
    content = load_record(memory).get("content") if is_record(memory) else None
    return content if isinstance(content, dict) else {}


def _read_start(path: str, most: int) -> str:
    """The beginning of what a person wrote about themselves."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, encoding="utf-8", errors="replace") as file:
            return file.read(most).strip()
    except OSError:
        return ""


def _summary(memory: Memory, fields: Sequence[str]) -> str:
    """What a typed memory says, in the fields that matter at a session's beginning."""
    content, texts = _content(memory), []
    for name in fields:
        if value := content.get(name):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            texts.append(f"{name.replace('_', ' ')}: {text}")
    return "; ".join(texts) or memory.body
