"""A chat from elsewhere taken in: once, and where it grew, only what is new of it."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Sequence
from typing import Final

from retain.sessions import rows
from retain.sessions.model import NEW, Chat, Message, Said, Taken, titled, whole

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def take_in(connection: sqlite3.Connection, chat: Chat, project: str = "") -> Taken:
    """Store a chat that is not here yet, or what was said since it was.

    One that began as a chat here did and went another way is a chat of its own.
    """
    known = _known(connection, chat, project)
    there = rows.messages(connection, "session_id = ?", (known,)) if known else []
    at = _parting(there, chat.said)
    if at is not None:
        chat = chat._replace(origin=f"{chat.origin}:{_digest(chat.said[: at + 1])}")
        known = _from(connection, chat.origin, project)
        there = rows.messages(connection, "session_id = ?", (known,)) if known else []
    if not known:
        return _new(connection, chat, project)
    title = rows.session(connection, known).title
    if _parting(there, chat.said) is not None:
        return Taken(known, title, "differs", 0)
    rest = chat.said[len(there) :]
    for said in rest:
        rows.insert_message(connection, known, said)
    if rest:
        rows.touch(connection, known, chat.updated_at)
    return Taken(known, title, "grown" if rest else "unchanged", len(rest))


def _parting(there: Sequence[Message], said: Sequence[Said]) -> int | None:
    """The first place in which two chats differ, as far as both go."""
    for at, (one, other) in enumerate(zip(there, said, strict=False)):
        if (one.role, one.content) != (other.role, whole(other.content)):
            return at
    return None


def _digest(said: Sequence[Said]) -> str:
    text = json.dumps([(one.role, whole(one.content)) for one in said])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _from(connection: sqlite3.Connection, origin: str, project: str) -> str:
    """The id of the chat that came from there, or nothing."""
    query = "SELECT id FROM sessions WHERE project = ? AND origin = ? AND origin <> ''"
    found = connection.execute(query, (project, whole(origin))).fetchone()
    return str(found[0]) if found else ""


def _known(connection: sqlite3.Connection, chat: Chat, project: str) -> str:
    """The id under which a chat is here already, or nothing.

    An id alone says little: two people have a first session of the same day.
    """
    if found := _from(connection, chat.origin, project):
        return found
    first = connection.execute(
        "SELECT m.role, m.content FROM messages m JOIN sessions s ON s.id = m.session_id "
        "WHERE s.id = ? AND s.project = ? ORDER BY m.id LIMIT 1",
        (chat.id, project),
    ).fetchone()
    begins = (chat.said[0].role, whole(chat.said[0].content)) if chat.said else None
    return chat.id if first is not None and tuple(first) == begins else ""


def _new(connection: sqlite3.Connection, chat: Chat, project: str) -> Taken:
    name = _free_id(connection, chat)
    title = chat.title if chat.title != NEW else ""
    title = title or next((titled(one.content) for one in chat.said if one.role == "user"), "")
    connection.execute(
        "INSERT INTO sessions (id, title, summary, created_at, updated_at, tags, model, origin, "
        "project) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            whole(title) or None,
            whole(chat.summary) or None,
            chat.created_at,
            chat.updated_at,
            rows.checked_tags(chat.tags),
            whole(chat.model),
            whole(chat.origin),
            project,
        ),
    )
    numbers = [rows.insert_message(connection, name, said) for said in chat.said]
    rows.note_summarised(connection, name)
    for one in chat.compactions:
        if 0 < one.messages <= len(numbers):
            connection.execute(
                "INSERT INTO compactions (session_id, last_message, summary, created_at) "
                "VALUES (?, ?, ?, ?)",
                (name, numbers[one.messages - 1], whole(one.summary), one.created_at),
            )
    return Taken(name, title or NEW, "new", len(numbers))


def _free_id(connection: sqlite3.Connection, chat: Chat) -> str:
    """The chat's own id where that is one of ours and free, else the next of its day."""
    taken = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (chat.id,)).fetchone()
    if _ID.fullmatch(chat.id) and not taken:
        rows.note_number(connection, chat.id)
        return chat.id
    return rows.next_id(connection, rows.day_of(chat.created_at))
