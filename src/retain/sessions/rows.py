"""Rows of the chat file read into values, and the numbers that new chats get."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from retain.errors import LimitExceeded, NotFound, Unreadable, UsageError
from retain.sessions.model import NEW, ROLES, Block, Chat, Compaction, Message, Said, Session, whole
from retain.text.tokens import bag

MAX_MESSAGE: Final = 8_000_000  # characters, blocks included
MAX_TAGS: Final = 100
MAX_TAG: Final = 100
# Of a chat that is gone on with: someone else's file may hold more than a machine can.
MOST_LOADED: Final = 10_000  # messages, the newest
MOST_LOADED_TEXT: Final = 50_000_000  # characters of them
PREFIX: Final = "session_"

_SESSION: Final = """
SELECT s.id, s.title, s.summary, s.created_at, s.updated_at, s.tags,
  (SELECT count(*) FROM messages m WHERE m.session_id = s.id),
  (SELECT total(m.token_count) FROM messages m WHERE m.session_id = s.id),
  s.model, s.project
FROM sessions s
"""
_MESSAGE: Final = (
    "SELECT id, session_id, role, content, timestamp, token_count, blocks FROM messages"
)


# When a chat was last used, to order by: one that claims to be from the future comes last.
USED: Final = (
    "CASE WHEN {0}updated_at < strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+1 day') "
    "THEN {0}updated_at ELSE '' END"
)


def sessions(
    connection: sqlite3.Connection, condition: str = "", values: Sequence[object] = ()
) -> list[Session]:
    """The chats that meet a condition of ours."""
    return [_session(row) for row in connection.execute(f"{_SESSION} {condition}", values)]


def _session(row: Sequence[object]) -> Session:
    name, title, summary, created, updated, tags, count, tokens, model, project = row
    return Session(
        text(name),
        text(title) or NEW,
        text(summary),
        text(created),
        text(updated),
        _tags(tags),
        whole_number(count),
        whole_number(tokens),
        text(model),
        text(project),
    )


def text(value: object) -> str:
    """A text as it was kept; SQLite lets anything stand in its place."""
    if value is None or isinstance(value, str):
        return value or ""
    raise _strange(value)


def whole_number(value: object) -> int:
    """A number as it was kept; a sum of such numbers has a fraction of nothing."""
    if isinstance(value, int) or (isinstance(value, float) and abs(value) < 1 << 62):
        return int(value)
    raise _strange(value)


def _strange(value: object) -> Unreadable:
    return Unreadable(
        f"a chat holds a {type(value).__name__} where Retain writes none",
        unchanged="Nothing was changed.",
        hint="Something else wrote to that file; moved away, the next chat makes a new one.",
    )


def _tags(packed: object) -> tuple[str, ...]:
    found = _unpacked(packed)
    return tuple(one for one in found if isinstance(one, str))


def _unpacked(packed: object) -> list[object]:
    """A list that was kept as JSON; one that someone else wrote may be anything."""
    try:
        found = json.loads(packed) if isinstance(packed, str) else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def session(connection: sqlite3.Connection, name: str) -> Session:
    """One chat, or NotFound."""
    found = sessions(connection, "WHERE s.id = ?", (whole(name),))
    if not found:
        raise missing(name)
    return found[0]


def missing(name: str) -> NotFound:
    """What to tell a person who names a chat that is not there."""
    return NotFound(f"there is no session {name!r}", hint="`retain sessions list` shows them.")


def require(connection: sqlite3.Connection, name: str) -> None:
    """Refuse to go on without that chat: another process may have deleted it."""
    if not connection.execute("SELECT 1 FROM sessions WHERE id = ?", (whole(name),)).fetchone():
        raise missing(name)


def messages(
    connection: sqlite3.Connection, condition: str, values: Sequence[object]
) -> list[Message]:
    """The messages that meet a condition of ours, oldest first."""
    rows = connection.execute(f"{_MESSAGE} WHERE {condition} ORDER BY id", values)
    return [message(row) for row in rows]


def recent(connection: sqlite3.Connection, name: str, after: int = 0) -> list[Message]:
    """A chat's newest messages after one of them, oldest first: `MOST_LOADED` at most."""
    rows = connection.execute(
        f"{_MESSAGE} WHERE session_id = ? AND id > ? ORDER BY id DESC LIMIT ?",
        (whole(name), after, MOST_LOADED),
    )
    found: list[Message] = []
    room = MOST_LOADED_TEXT
    for row in rows:
        room -= sum(len(one) for one in row if isinstance(one, str))
        if room < 0 and found:
            break
        found.append(message(row))
    return found[::-1]


def message(row: Sequence[object]) -> Message:
    """One row as a message."""
    number, name, role, content, timestamp, tokens, blocks = row
    return Message(
        whole_number(number),
        text(name),
        text(role),
        text(content),
        text(timestamp),
        None if tokens is None else whole_number(tokens),
        tuple(one for one in _unpacked(blocks) if isinstance(one, dict)),
    )


def packed(content: str, blocks: Sequence[Block]) -> tuple[str, str, str]:
    """A message's text, blocks and terms, as they are kept."""
    said = whole(content)
    try:
        more = whole(json.dumps([dict(one) for one in blocks], ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the blocks of a message are no JSON: {error}") from error
    if len(said) + len(more) > MAX_MESSAGE:
        raise LimitExceeded(
            f"the message has {len(said) + len(more):,} characters, and {MAX_MESSAGE:,} is the "
            "limit",
            hint="Say it in parts, or put it into a file.",
        )
    return said, more, bag(said)


def insert_message(connection: sqlite3.Connection, name: str, said: Said) -> int:
    """Add a message to a chat; its number."""
    if said.role not in ROLES:
        raise UsageError(f"{said.role!r} is not a role", hint=f"There are {', '.join(ROLES)}.")
    content, blocks, terms = packed(said.content, said.blocks)
    values = (name, said.role, content, said.timestamp, said.token_count, blocks, terms)
    added = connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp, token_count, blocks, terms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    return int(added.lastrowid or 0)


def touch(connection: sqlite3.Connection, name: str, when: str) -> None:
    """Move a chat to the top of the list; the clock may have been set back.

    A time beyond tomorrow is none that a clock has shown, and gives way.
    """
    query = f"UPDATE sessions SET updated_at = max({USED.format('')}, ?)"  # noqa: S608 - our own
    connection.execute(f"{query} WHERE id = ?", (when, name))


def note_summarised(connection: sqlite3.Connection, name: str, through: int | None = None) -> None:
    """Note that a chat's summary speaks of its messages up to one, or up to the last."""
    connection.execute(
        "UPDATE sessions SET summarised = CASE WHEN coalesce(summary, '') = '' THEN 0 ELSE "
        "coalesce(?, (SELECT max(id) FROM messages WHERE session_id = ?), 0) END WHERE id = ?",
        (through, name, name),
    )


def checked_tags(tags: Sequence[str]) -> str:
    """Tags as they are kept, each of them once."""
    unique = list(dict.fromkeys(filter(None, (" ".join(whole(tag).split()) for tag in tags))))
    if len(unique) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in unique):
        raise LimitExceeded(
            f"a session has at most {MAX_TAGS} tags of {MAX_TAG} characters each",
            hint="Give it fewer or shorter tags.",
        )
    return json.dumps(unique, ensure_ascii=False)


# Numbers


def day_of(timestamp: str) -> str:
    """The day of a time where the person is, as ids write it; today for no time at all."""
    if timestamp:
        try:
            when = datetime.fromisoformat(timestamp)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            return when.astimezone().strftime("%Y%m%d")
        except (ValueError, OverflowError):
            pass
    return time.strftime("%Y%m%d")


def next_id(connection: sqlite3.Connection, day: str) -> str:
    """An id that no chat has or had; the caller holds the right to write."""
    row = connection.execute("SELECT last FROM days WHERE day = ?", (day,)).fetchone()
    number = whole_number(row[0]) if row else 0
    while True:
        number += 1
        name = f"{PREFIX}{day}_{number:03}"
        if not connection.execute("SELECT 1 FROM sessions WHERE id = ?", (name,)).fetchone():
            break
    _note(connection, day, number)
    return name


def note_number(connection: sqlite3.Connection, name: str) -> None:
    """Remember an id that came from elsewhere, so that it is not given out later."""
    day, _, number = name.removeprefix(PREFIX).partition("_")
    if len(day) == 8 and number.isdecimal() and number.isascii() and len(number) < 10:
        _note(connection, day, int(number))


def _note(connection: sqlite3.Connection, day: str, number: int) -> None:
    connection.execute(
        "INSERT INTO days VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET last = max(last, "
        "excluded.last)",
        (day, number),
    )


# Out


def chat(connection: sqlite3.Connection, name: str) -> Chat:
    """A whole chat, ready to be written to a file."""
    one = session(connection, name)
    said = messages(connection, "session_id = ?", (name,))
    places = {message.id: at for at, message in enumerate(said, 1)}
    (origin,) = connection.execute("SELECT origin FROM sessions WHERE id = ?", (name,)).fetchone()
    rows = connection.execute(
        "SELECT last_message, summary, created_at FROM compactions WHERE session_id = ? "
        "ORDER BY id",
        (name,),
    )
    return Chat(
        one.id,
        one.title,
        one.created_at,
        one.updated_at,
        one.tags,
        tuple(Said(m.role, m.content, m.timestamp, m.token_count, m.blocks) for m in said),
        origin=text(origin),
        summary=one.summary,
        model=one.model,
        compactions=tuple(
            Compaction(places.get(last, 0), text(summary), text(created))
            for last, summary, created in rows
        ),
    )
