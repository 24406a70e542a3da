"""A bank's chats: begun, added to, resumed, searched, compacted and deleted.

Every call is one transaction, synced before it returns: a process that is killed loses at most
what it had not yet handed in.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from retain.bank import trash
from retain.bank.files import Directory, WriteTransaction
from retain.errors import Ambiguous, Busy, Conflict, LimitExceeded, NotFound, UsageError
from retain.memory import Trashed, now
from retain.sessions import formats, rows, taking
from retain.sessions import search as searching
from retain.sessions.database import Database
from retain.sessions.model import (
    Block,
    Chat,
    Fact,
    Found,
    Message,
    Said,
    Session,
    Summary,
    Taken,
    titled,
    whole,
)
from retain.sessions.redaction import Clean, Redactor
from retain.text.tokens import bag

LATEST: Final = "latest"  # in place of an id
MAX_TEXT: Final = 100_000  # characters of a summary or a fact
MAX_TITLE: Final = 200
_SHOWN: Final = 5  # ids that a message names
_MANY: Final = 1000  # hits among which a listing looks for its chats
_NEWEST: Final = f"ORDER BY {rows.USED.format('s.')} DESC, s.rowid DESC"
# The counts of all chats would be made before they are put in order.
_FIRST: Final = (
    f"WHERE s.rowid IN (SELECT rowid FROM sessions s WHERE s.project = ? {_NEWEST} LIMIT ?)"  # noqa: S608
)
_FACTS: Final = (
    "SELECT id, fact, category, coalesce(source_session, ''), created_at, superseded_by, ref "
    "FROM memories WHERE project = ? ORDER BY id"
)
_SUMMARIES: Final = (
    "SELECT s.id, s.title, s.updated_at, s.summary, v.vector FROM sessions s "
    "LEFT JOIN summary_vectors v ON v.session_id = s.id AND v.model = ? "
    "WHERE s.project = ? AND coalesce(s.summary, '') <> ''"
)
_OUTDATED: Final = (
    "WHERE s.project = ? AND EXISTS "
    "(SELECT 1 FROM messages m WHERE m.session_id = s.id AND m.id > s.summarised)"
)
_EMPTY: Final = (
    "SELECT id, julianday(updated_at) < julianday('now', '-1 day') FROM sessions "
    "WHERE NOT EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id)"
)


class Sessions:
    """The chats that a person held in one project; threads and processes may share them.

    All of a person's chats lie in one file in their own bank. `project` is the bank that a chat was
    held in, empty for the person's own; chats of other projects are not seen.
    """

    def __init__(
        self,
        root: str,
        make: Callable[[], object] | None = None,
        redacts: Callable[[], bool] = lambda: True,
        project: str = "",
    ) -> None:
        """Open nothing yet; `make` is called before the file is first made.

        `redacts` tells whether secrets are left out of what is kept.
        """
        self._root, self._project = root, project
        self._redacts, self._redactor = redacts, Redactor()
        # What was said here with a secret in it: the model of this process is sent it as it was.
        self._spoken: dict[int, tuple[str, tuple[Block, ...]]] = {}
        self._left_out: dict[int, tuple[str, ...]] = {}  # kinds, by message; 0 for other texts
        self._database = Database(root, make)
        self.path = self._database.path

    def close(self) -> None:
        self._database.close()

    # Chats

    def create(self, model: str = "") -> Session:
        """Begin a chat, under an id that none has or had."""
        when = now()
        with self._database.writing() as connection:
            name = rows.next_id(connection, rows.day_of(""))
            connection.execute(
                "INSERT INTO sessions (id, created_at, updated_at, model, project) "
                "VALUES (?, ?, ?, ?, ?)",
                (name, when, when, self._clean(whole(model)), self._project),
            )
            return rows.session(connection, name)

    def get(self, session_id: str) -> Session:
        with self._database.reading() as connection:
            return rows.session(connection, session_id)

    def resolve(self, prefix: str) -> Session:
        """The chat that an id, the beginning of one, or `latest` names."""
        with self._database.reading() as connection:
            found = _named(connection, prefix, self._project)
        if len(found) > 1:
            names = ", ".join(one.id for one in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise Ambiguous(
                f"{prefix!r} stands for several sessions: {names}{more}",
                unchanged="Nothing was changed.",
                hint="Give more of the id.",
            )
        if not found:
            raise rows.missing(prefix)
        return found[0]

    def list(self, limit: int = 15, query: str = "") -> Sequence[Session]:
        """Chats, the one that was used last first; with a query, those that speak of it."""
        with self._database.reading() as connection:
            if not query.strip():
                values = (self._project, max(0, limit))
                return rows.sessions(connection, f"{_FIRST} {_NEWEST}", values)
            hits = searching.search(connection, query, _MANY, self._project)
            names = dict.fromkeys(one.session_id for one in hits if one.session_id)
            wanted = query.strip().casefold()
            return [
                one
                for one in rows.sessions(
                    connection, f"WHERE s.project = ? {_NEWEST}", (self._project,)
                )
                if one.id in names or wanted in f"{one.id} {one.title} {one.tags}".casefold()
            ][: max(0, limit)]

    def retitle(self, session_id: str, title: str) -> None:
        """Give a chat another title, or with none the one its first message makes."""
        title = self._clean(" ".join(whole(title).split()))[:MAX_TITLE]
        if not title:
            asked = (one.content for one in self.messages(session_id) if one.role == "user")
            title = next(filter(None, map(titled, asked)), "")
        self._set(session_id, "title", title or None)

    def tag(self, session_id: str, tags: Sequence[str]) -> None:
        """Give a chat these tags in place of those it has."""
        self._set(session_id, "tags", rows.checked_tags([*map(self._clean, tags)]))

    def set_model(self, session_id: str, model: str) -> None:
        """Note which model answers from now on."""
        self._set(session_id, "model", self._clean(whole(model)))

    def summarise(self, session_id: str, summary: str, *, through: int | None = None) -> None:
        """Keep what a chat was about, up to a message or all of it.

        A vector of an earlier text no longer stands for it.
        """
        text = self._clean(_limited(summary, "a summary")) or None
        with self._database.writing() as connection:
            rows.require(connection, session_id)
            connection.execute(
                "DELETE FROM summary_vectors WHERE session_id = ? AND NOT EXISTS "
                "(SELECT 1 FROM sessions WHERE id = ? AND summary IS ?)",
                (session_id, session_id, text),
            )
            connection.execute("UPDATE sessions SET summary = ? WHERE id = ?", (text, session_id))
            rows.note_summarised(connection, session_id, through)

    def outdated(self, limit: int = 1000) -> Sequence[Session]:
        """Chats that went on since their summary was made, or that have none; newest first."""
        with self._database.reading() as connection:
            values = (self._project, max(0, limit))
            return rows.sessions(connection, f"{_OUTDATED} {_NEWEST} LIMIT ?", values)

    def _set(self, session_id: str, column: str, value: str | None) -> None:
        with self._database.writing() as connection:
            rows.require(connection, session_id)
            query = f"UPDATE sessions SET {column} = ? WHERE id = ?"  # noqa: S608 - our own names
            connection.execute(query, (value, session_id))

    def delete(self, session_id: str) -> Trashed:
        """Write a chat to the bank's trash, from where it can be imported again; then remove it."""
        chat = self.chat(session_id)
        with Directory.open(self._root) as root, WriteTransaction.open(root, self.path) as shop:
            kept = trash.add(shop, f"{chat.id}.json", trash.CHATS, formats.as_json(chat).encode())
            with self._database.writing() as connection:
                if rows.chat(connection, chat.id) != chat:
                    trash.purge(shop, kept)
                    raise _still_used(chat.id)
                _remove(connection, chat.id)
        self._database.purge()
        return kept

    def sweep_empty(self, *own: str) -> int:
        """Remove chats in which nothing was said: one's own, and those abandoned for a day.

        A younger one may be another window's, in which someone is just typing.
        """
        with self._database.reading() as connection:
            if not connection.execute(_EMPTY).fetchone():
                return 0
        with self._database.writing() as connection:
            names = [
                name
                for name, is_old in connection.execute(_EMPTY).fetchall()
                if is_old or name in own
            ]
            for name in names:
                _remove(connection, name)
            return len(names)

    # Messages

    def add(
        self,
        session_id: str,
        role: str,
        content: str,
        *,
        token_count: int | None = None,
        blocks: Sequence[Block] = (),
    ) -> Message:
        """Keep what was said, without its secrets; it is on disk when this returns."""
        clean = self._without_secrets(content, blocks)
        said = Said(role, clean.content, now(), token_count, clean.blocks)
        with self._database.writing() as connection:
            rows.require(connection, session_id)
            number = rows.insert_message(connection, session_id, said)
            rows.touch(connection, session_id, said.timestamp)
            if role == "user" and (title := titled(whole(clean.content))):
                connection.execute(
                    "UPDATE sessions SET title = ? WHERE id = ? AND title IS NULL",
                    (title, session_id),
                )
            added = rows.messages(connection, "id = ?", (number,))[0]
        self._note(number, content, blocks, clean.kinds)
        return added

    def amend(
        self,
        message_id: int,
        content: str,
        *,
        token_count: int | None = None,
        blocks: Sequence[Block] = (),
    ) -> None:
        """Give a message another text: a reply that grows while it is streamed."""
        clean = self._without_secrets(content, blocks)
        text, more, terms = rows.packed(clean.content, clean.blocks)
        with self._database.writing() as connection:
            found = connection.execute(
                "SELECT session_id, content FROM messages WHERE id = ?", (message_id,)
            ).fetchone()
            if found is None:
                raise NotFound(f"there is no message {message_id}")
            connection.execute(
                "UPDATE messages SET content = ?, token_count = ?, blocks = ?, terms = ? "
                "WHERE id = ?",
                (text, token_count, more, terms, message_id),
            )
            rows.touch(connection, found[0], now())
        self._note(message_id, content, blocks, clean.kinds)
        if clean.kinds and not text.startswith(str(found[1])):
            # What was kept while it grew had the beginning of a secret at its end.
            with contextlib.suppress(Busy):
                self._database.purge()

    def _note(
        self, number: int, content: str, blocks: Sequence[Block], kinds: tuple[str, ...]
    ) -> None:
        """Remember what a message was before its secrets were left out, and which those are."""
        if kinds:
            self._spoken[number], self._left_out[number] = (content, tuple(blocks)), kinds
        else:
            self._spoken.pop(number, None)
            self._left_out.pop(number, None)

    def _without_secrets(self, content: str, blocks: Sequence[Block]) -> Clean:
        if not self._redacts():
            return Clean(content, tuple(blocks), ())
        return self._redactor.said(whole(content), blocks)

    def _clean(self, text: str) -> str:
        clean = self._without_secrets(text, ())
        self._left_out[0] = (*self._left_out.get(0, ()), *clean.kinds)
        return clean.content

    def left_out(self) -> Sequence[str]:
        """The kinds of secrets that were not kept since this was last asked, each once."""
        noted, self._left_out = self._left_out, {}
        return list(dict.fromkeys(kind for kinds in noted.values() for kind in kinds))

    def messages(self, session_id: str) -> Sequence[Message]:
        """What was said, oldest first; of a chat with more, the newest `MOST_LOADED` messages."""
        with self._database.reading() as connection:
            rows.require(connection, session_id)
            return rows.recent(connection, session_id)

    def since_compaction(self, session_id: str) -> Sequence[Message]:
        """What a model is sent: the last compaction's summary, then what follows it.

        What was said in this process is given as it was said, also where it is kept without a
        secret.
        """
        return [self._as_said(one) for one in self._since_compaction(session_id)]

    def _as_said(self, one: Message) -> Message:
        spoken = self._spoken.get(one.id)
        return one._replace(content=spoken[0], blocks=spoken[1]) if spoken else one

    def _since_compaction(self, session_id: str) -> Sequence[Message]:
        with self._database.reading() as connection:
            rows.require(connection, session_id)
            last = connection.execute(
                "SELECT last_message, summary, created_at FROM compactions "
                "WHERE session_id = ? ORDER BY id DESC LIMIT 1",
                (session_id,),
            ).fetchone()
            if last is None:
                return rows.recent(connection, session_id)
            number, summary, when = rows.whole_number(last[0]), *map(rows.text, last[1:])
            head = Message(0, session_id, "system", summary, when, None, ())
            return [head, *rows.recent(connection, session_id, number)]

    def compact(self, session_id: str, summary: str, *, through: int | None = None) -> None:
        """Let a summary stand for all messages, or those up to one; every one of them is kept."""
        text = self._clean(_limited(summary, "a summary"))
        if not text.strip():
            raise UsageError("there is no summary to compact with")
        with self._database.writing() as connection:
            rows.require(connection, session_id)
            (last,) = connection.execute(
                "SELECT max(id) FROM messages WHERE session_id = ? AND id <= ?",
                (session_id, 1 << 62 if through is None else through),
            ).fetchone()
            if last is None:
                raise UsageError("nothing was said yet that could be compacted")
            connection.execute(
                "INSERT INTO compactions (session_id, last_message, summary, created_at) "
                "VALUES (?, ?, ?, ?)",
                (session_id, last, text, now()),
            )

    def search(self, query: str, limit: int = 10) -> Sequence[Found]:
        """Messages and facts that speak of something, the best first."""
        with self._database.reading() as connection:
            return searching.search(connection, query, max(0, limit), self._project)

    # What chats have saved

    def remember(self, fact: str, category: str, session_id: str, ref: str) -> int:
        """Note a fact that a chat saved in the memory `ref`; its number."""
        text, ref = self._clean(_limited(fact, "a fact")), whole(ref)
        with self._database.writing() as connection:
            known = connection.execute(
                "SELECT id FROM memories WHERE project = ? AND fact = ? AND ref = ? "
                "AND superseded_by IS NULL",
                (self._project, text, ref),
            ).fetchone()
            if known:
                return int(known[0])
            if session_id:
                rows.require(connection, session_id)
            added = connection.execute(
                "INSERT INTO memories "
                "(fact, category, source_session, created_at, ref, terms, project) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    text,
                    whole(category) or "general",
                    session_id or None,
                    now(),
                    ref,
                    bag(text),
                    self._project,
                ),
            )
            return int(added.lastrowid or 0)

    def supersede(self, old_id: int, new_id: int) -> None:
        """Say that a fact has taken another's place."""
        with self._database.writing() as connection:
            there = connection.execute(
                "SELECT count(*) FROM memories WHERE id IN (?, ?)", (old_id, new_id)
            ).fetchone()
            if old_id == new_id or there[0] != 2:
                raise NotFound(f"there are no two facts {old_id} and {new_id}")
            connection.execute(
                "UPDATE memories SET superseded_by = ? WHERE id = ?", (new_id, old_id)
            )

    def forget(self, ref: str) -> int:
        """Drop what is noted of a memory that is gone; how many facts that were.

        What it had taken the place of does not come back: it stays superseded, by itself.
        """
        those = (self._project, whole(ref))
        with self._database.reading() as connection:
            if not connection.execute(
                "SELECT 1 FROM memories WHERE project = ? AND ref = ?", those
            ).fetchone():
                return 0
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE memories SET superseded_by = id WHERE superseded_by IN "
                "(SELECT id FROM memories WHERE project = ? AND ref = ?)",
                those,
            )
            return connection.execute(
                "DELETE FROM memories WHERE project = ? AND ref = ?", those
            ).rowcount

    def facts(self, *, superseded: bool = False) -> Sequence[Fact]:
        """What chats have saved, oldest first."""
        with self._database.reading() as connection:
            found = [_fact(row) for row in connection.execute(_FACTS, (self._project,))]
        return [one for one in found if superseded or one.superseded_by is None]

    # Summaries

    def summaries(self, model: str = "") -> Sequence[Summary]:
        """What each chat was about, newest first, with the vectors that this model made."""
        with self._database.reading() as connection:
            found = connection.execute(f"{_SUMMARIES} {_NEWEST}", (model, self._project))
            return [
                Summary(
                    rows.text(name),
                    rows.text(title),
                    rows.text(date),
                    rows.text(summary),
                    vector if isinstance(vector, bytes) else None,
                )
                for name, title, date, summary, vector in found
            ]

    def keep_vectors(self, model_name: str, made: Iterable[tuple[Summary, bytes]]) -> None:
        """Keep the vectors that a model made of summaries, where those still are what they were."""
        model = whole(model_name)
        with self._database.writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO summary_vectors "
                "SELECT id, ?, ? FROM sessions WHERE id = ? AND summary = ?",
                [(model, vector, one.session_id, one.summary) for one, vector in made],
            )

    # In and out

    def chat(self, session_id: str) -> Chat:
        """A whole chat, to be written to a file."""
        with self._database.reading() as connection:
            return rows.chat(connection, session_id)

    def take_in(self, chats: Sequence[Chat], *, dry_run: bool = False) -> Sequence[Taken]:
        """Store chats from elsewhere, all of them or none; those that are here are not doubled."""
        change = self._database.trying if dry_run else self._database.writing
        with change() as connection:
            return [taking.take_in(connection, chat, self._project) for chat in chats]


def _named(connection: sqlite3.Connection, prefix: str, project: str) -> Sequence[Session]:
    """Return the chats whose id is this or begins with it, with or without `session_`."""
    prefix = whole(prefix)
    if prefix == LATEST:
        return rows.sessions(connection, f"{_FIRST} {_NEWEST}", (project, 1))
    found = rows.sessions(connection, "WHERE s.project = ? AND s.id = ?", (project, prefix))
    for start in (prefix, f"{rows.PREFIX}{prefix}") if prefix else ():
        begins = "WHERE s.project = ? AND substr(s.id, 1, length(?2)) = ?2 ORDER BY s.id"
        found = found or rows.sessions(connection, begins, (project, start))
    return found


def _fact(row: Sequence[object]) -> Fact:
    number, fact, category, session_id, created_at, superseded_by, ref = row
    return Fact(
        rows.whole_number(number),
        rows.text(fact),
        rows.text(category),
        rows.text(session_id),
        rows.text(created_at),
        None if superseded_by is None else rows.whole_number(superseded_by),
        rows.text(ref),
    )


def _remove(connection: sqlite3.Connection, session_id: str) -> None:
    connection.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


def _limited(text: str, what: str) -> str:
    if len(text) > MAX_TEXT:
        raise LimitExceeded(
            f"{what} has {len(text):,} characters, and {MAX_TEXT:,} is the limit",
            hint="Say it shorter.",
        )
    return whole(text)


def _still_used(session_id: str) -> Conflict:
    return Conflict(
        f"{session_id} went on while it was to be deleted",
        unchanged="It was left as it is.",
        hint="Close it first, then delete it.",
    )
