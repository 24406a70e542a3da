"""A person's chats: begun, added to, resumed, searched, compacted, imported and deleted.

Every call is one transaction, synced before it returns: a process that is killed loses at most
what it had not yet handed in.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from retain.bank import trash
from retain.bank.files import Directory, WriteTransaction
from retain.errors import Ambiguous, Busy, Conflict, LimitExceeded, NotFound, UsageError
from retain.memory import Trashed, now
from retain.sessions import database, formats
from retain.sessions.database import Database
from retain.sessions.model import (
    NEW,
    Block,
    Chat,
    ChatMessage,
    Fact,
    ImportedChat,
    Message,
    Session,
    SessionHit,
    Summary,
    clean_unicode,
    make_title,
)
from retain.sessions.redaction import Redacted, redact_message
from retain.sessions.search import search
from retain.text.tokens import bag

LATEST: Final = "latest"  # in place of an id
MAX_TEXT: Final = 100_000  # characters of a summary or a fact
MAX_TITLE: Final = 200
_MAX_NAMED: Final = 5  # ids that an error names
_MAX_HITS: Final = 1000  # among which a listing looks for its chats
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NEWEST: Final = "ORDER BY s.updated_at DESC, s.rowid DESC"


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
        self._root, self._project, self._redacts = root, project, redacts
        # Messages with a secret as they were said: the model of this process is sent them so.
        self._originals: dict[int, tuple[str, tuple[Block, ...]]] = {}
        self._left_out: dict[int, tuple[str, ...]] = {}  # kinds, by message; 0 for other texts
        self._database = Database(root, make)
        self.path = self._database.path

    def close(self) -> None:
        self._database.close()

    # Chats

    def create(self, model: str = "", *, is_question: bool = False) -> Session:
        """Begin a chat, under an id that none has or had; a single question is listed apart."""
        when = now()
        with self._database.writing() as connection:
            name = database.next_id(connection, time.strftime("%Y%m%d"))
            connection.execute(
                "INSERT INTO sessions (id, created_at, updated_at, model, project, is_question) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (name, when, when, self._clean(model), self._project, is_question),
            )
            return database.get_session(connection, name)

    def get(self, session_id: str) -> Session:
        with self._database.reading() as connection:
            return database.get_session(connection, session_id)

    def resolve(self, prefix: str) -> Session:
        """The chat that an id, the beginning of one, or `latest` names."""
        found: Sequence[Session] = self.list(1) if prefix == LATEST else ()
        name = clean_unicode(prefix)
        with self._database.reading() as connection:
            for start in (name, f"{database.PREFIX}{name}") if name else ():
                found = found or database.select_sessions(
                    connection,
                    "WHERE s.project = ?1 AND substr(s.id, 1, length(?2)) = ?2 "
                    "ORDER BY s.id <> ?2, s.id",
                    (self._project, start),
                )
        if not found:
            raise database.missing(prefix)
        if len(found) > 1 and found[0].id != name:
            names = ", ".join(session.id for session in found[:_MAX_NAMED])
            more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
            raise Ambiguous(
                f"{prefix!r} stands for several sessions: {names}{more}",
                unchanged="Nothing was changed.",
                hint="Give more of the id.",
            )
        return found[0]

    def list(
        self, limit: int = 15, query: str = "", *, is_question: bool | None = None
    ) -> Sequence[Session]:
        """Chats, the one that was used last first; with a query, those that speak of it."""
        condition, values = "s.project = ?", [self._project]
        if is_question is not None:
            condition += f" AND s.is_question = {int(is_question)}"
        with self._database.reading() as connection:
            if not query.strip():
                # The counts of all chats would be made before they are put in order.
                newest = f"SELECT rowid FROM sessions s WHERE {condition} {_NEWEST} LIMIT ?"  # noqa: S608
                return database.select_sessions(
                    connection, f"WHERE s.rowid IN ({newest}) {_NEWEST}", (*values, max(0, limit))
                )
            hits = search(connection, query, _MAX_HITS, self._project)
            names = {hit.session_id for hit in hits}
            wanted = query.strip().casefold()
            chats = database.select_sessions(connection, f"WHERE {condition} {_NEWEST}", values)
        found = [
            chat
            for chat in chats
            if chat.id in names or wanted in f"{chat.id} {chat.title} {chat.tags}".casefold()
        ]
        return found[: max(0, limit)]

    def retitle(self, session_id: str, title: str) -> None:
        """Give a chat another title, or with none the one its first message makes."""
        title = self._clean(" ".join(title.split()))[:MAX_TITLE]
        if not title:
            asked = (one.content for one in self.messages(session_id) if one.role == "user")
            title = next(filter(None, map(make_title, asked)), "")
        self._set(session_id, "title", title or None)

    def tag(self, session_id: str, tags: Sequence[str]) -> None:
        """Give a chat these tags in place of those it has."""
        self._set(session_id, "tags", _pack_tags([self._clean(tag) for tag in tags]))

    def set_model(self, session_id: str, model: str) -> None:
        """Note which model answers from now on."""
        self._set(session_id, "model", self._clean(model))

    def _set(self, session_id: str, column: str, value: str | None) -> None:
        with self._database.writing() as connection:
            database.require(connection, session_id)
            query = f"UPDATE sessions SET {column} = ? WHERE id = ?"  # noqa: S608 - our own names
            connection.execute(query, (value, session_id))

    def delete(self, session_id: str) -> Trashed:
        """Write a chat to the bank's trash, from where it can be imported again; then remove it."""
        chat = self.chat(session_id)
        data = formats.as_json(chat).encode()
        with (
            Directory.open(self._root) as root,
            WriteTransaction.open(root, self.path) as transaction,
        ):
            trashed = trash.add(transaction, f"{chat.id}.json", trash.CHATS, data)
            with self._database.writing() as connection:
                if database.get_chat(connection, chat.id) != chat:
                    trash.purge(transaction, trashed)
                    raise Conflict(
                        f"{session_id} went on while it was to be deleted",
                        unchanged="It was left as it is.",
                        hint="Close it first, then delete it.",
                    )
                connection.execute("DELETE FROM sessions WHERE id = ?", (chat.id,))
        self._database.purge()
        return trashed

    def sweep_empty(self, *own: str) -> int:
        """Remove chats in which nothing was said: one's own, and those abandoned for a day.

        A younger one may be another window's, in which someone is just typing.
        """
        query = (
            "SELECT id, julianday(updated_at) < julianday('now', '-1 day') FROM sessions "
            "WHERE NOT EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id)"
        )
        with self._database.reading() as connection:
            if not connection.execute(query).fetchone():
                return 0
        with self._database.writing() as connection:
            empty = connection.execute(query).fetchall()
            names = [(name,) for name, is_old in empty if is_old or name in own]
            connection.executemany("DELETE FROM sessions WHERE id = ?", names)
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
        clean = self._redact(content, blocks)
        message = ChatMessage(role, clean.content, now(), token_count, clean.blocks)
        with self._database.writing() as connection:
            database.require(connection, session_id)
            number = database.insert_message(connection, session_id, message)
            database.touch(connection, session_id, message.timestamp)
            if role == "user" and (title := make_title(clean.content)):
                connection.execute(
                    "UPDATE sessions SET title = ? WHERE id = ? AND title IS NULL",
                    (title, session_id),
                )
            added = database.select_messages(connection, "id = ?", (number,))[0]
        self._remember_original(number, content, blocks, clean.kinds)
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
        clean = self._redact(content, blocks)
        text, packed, terms = database.pack_message(clean.content, clean.blocks)
        with self._database.writing() as connection:
            query = "SELECT session_id, content FROM messages WHERE id = ?"
            row = connection.execute(query, (message_id,)).fetchone()
            if row is None:
                raise NotFound(f"there is no message {message_id}")
            connection.execute(
                "UPDATE messages SET content = ?, token_count = ?, blocks = ?, terms = ? "
                "WHERE id = ?",
                (text, token_count, packed, terms, message_id),
            )
            database.touch(connection, row[0], now())
        self._remember_original(message_id, content, blocks, clean.kinds)
        if clean.kinds and not text.startswith(row[1]):
            # What was kept while it grew had the beginning of a secret at its end.
            with contextlib.suppress(Busy):
                self._database.purge()

    def _remember_original(
        self, number: int, content: str, blocks: Sequence[Block], kinds: tuple[str, ...]
    ) -> None:
        if kinds:
            self._originals[number], self._left_out[number] = (content, tuple(blocks)), kinds
        else:
            self._originals.pop(number, None)
            self._left_out.pop(number, None)

    def _redact(self, content: str, blocks: Sequence[Block] = ()) -> Redacted:
        text = clean_unicode(content)
        return redact_message(text, blocks) if self._redacts() else Redacted(text, (*blocks,), ())

    def _clean(self, text: str) -> str:
        clean = self._redact(text)
        self._left_out[0] = (*self._left_out.get(0, ()), *clean.kinds)
        return clean.content

    def left_out(self) -> Sequence[str]:
        """The kinds of secrets that were not kept since this was last asked, each once."""
        noted, self._left_out = self._left_out, {}
        return list(dict.fromkeys(kind for kinds in noted.values() for kind in kinds))

    def messages(self, session_id: str) -> Sequence[Message]:
        """What was said, oldest first; of a chat with more, the newest `MAX_LOADED` messages."""
        with self._database.reading() as connection:
            database.require(connection, session_id)
            return database.load_messages(connection, session_id)

    def neighbours(self, message_id: int, count: int = 1) -> Sequence[Message]:
        """A message with those before and after it in its chat, oldest first."""
        with self._database.reading() as connection:
            same = "session_id = (SELECT session_id FROM messages WHERE id = ?1)"
            before = f"{same} AND id <= ?1 ORDER BY id DESC LIMIT ?2 + 1"
            after = f"{same} AND id > ?1 ORDER BY id LIMIT ?2"
            values = (message_id, count)
            return [
                *database.select_messages(connection, before, values),
                *database.select_messages(connection, after, values),
            ]

    def since_compaction(self, session_id: str) -> Sequence[Message]:
        """What a model is sent: the last compaction's summary, then what follows it.

        What was said in this process is given as it was said, also where it is kept without a
        secret.
        """
        with self._database.reading() as connection:
            database.require(connection, session_id)
            last = connection.execute(
                "SELECT last_message, summary, created_at FROM compactions "
                "WHERE session_id = ? ORDER BY id DESC LIMIT 1",
                (session_id,),
            ).fetchone()
            messages = database.load_messages(connection, session_id, last[0] if last else 0)
        for at, message in enumerate(messages):
            if original := self._originals.get(message.id):
                messages[at] = message._replace(content=original[0], blocks=original[1])
        if last is None:
            return messages
        return [Message(0, session_id, "system", last[1], last[2], None, ()), *messages]

    def compact(self, session_id: str, summary: str, *, through: int | None = None) -> None:
        """Let a summary stand for all messages, or those up to one; every one of them is kept."""
        text = self._clean(_limit_text(summary, "a summary"))
        if not text.strip():
            raise UsageError("there is no summary to compact with")
        with self._database.writing() as connection:
            database.require(connection, session_id)
            (last,) = connection.execute(
                "SELECT max(id) FROM messages WHERE session_id = ? AND id <= ?",
                (session_id, 1 << 62 if through is None else through),
            ).fetchone()
            if last is None:
                raise UsageError("nothing was said yet that could be compacted")
            _insert_compaction(connection, session_id, last, text, now())

    def search(self, query: str, limit: int = 10) -> Sequence[SessionHit]:
        """Messages and facts that speak of something, the best first."""
        with self._database.reading() as connection:
            return search(connection, query, max(0, limit), self._project)

    # Facts that chats have saved

    def remember(self, fact: str, category: str, session_id: str, ref: str) -> int:
        """Note a fact that a chat saved in the memory `ref`; its number."""
        text, ref = self._clean(_limit_text(fact, "a fact")), clean_unicode(ref)
        with self._database.writing() as connection:
            known = connection.execute(
                "SELECT id FROM memories WHERE project = ? AND fact = ? AND ref = ? "
                "AND superseded_by IS NULL",
                (self._project, text, ref),
            ).fetchone()
            if known:
                return int(known[0])
            if session_id:
                database.require(connection, session_id)
            category = clean_unicode(category) or "general"
            added = connection.execute(
                "INSERT INTO memories "
                "(fact, category, source_session, created_at, ref, terms, project) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (text, category, session_id or None, now(), ref, bag(text), self._project),
            )
            return int(added.lastrowid or 0)

    def supersede(self, old_id: int, new_id: int) -> None:
        """Say that a fact has taken another's place."""
        with self._database.writing() as connection:
            query = "SELECT count(*) FROM memories WHERE id IN (?, ?)"
            if connection.execute(query, (old_id, new_id)).fetchone()[0] != 2:
                raise NotFound(f"there are no two facts {old_id} and {new_id}")
            query = "UPDATE memories SET superseded_by = ? WHERE id = ?"
            connection.execute(query, (new_id, old_id))

    def forget(self, ref: str) -> int:
        """Drop what is noted of a memory that is gone; how many facts that were.

        What it had taken the place of does not come back: it stays superseded, by itself.
        """
        facts = "SELECT id FROM memories WHERE project = ? AND ref = ?"
        values = (self._project, clean_unicode(ref))
        with self._database.reading() as connection:
            if not connection.execute(facts, values).fetchone():
                return 0
        with self._database.writing() as connection:
            update = f"UPDATE memories SET superseded_by = id WHERE superseded_by IN ({facts})"  # noqa: S608
            connection.execute(update, values)
            return connection.execute(
                "DELETE FROM memories WHERE project = ? AND ref = ?", values
            ).rowcount

    def facts(self, *, superseded: bool = False) -> Sequence[Fact]:
        """What chats have saved, oldest first."""
        query = (
            "SELECT id, fact, category, coalesce(source_session, ''), created_at, superseded_by, "
            "ref FROM memories WHERE project = ? ORDER BY id"
        )
        with self._database.reading() as connection:
            facts = [Fact(*row) for row in connection.execute(query, (self._project,))]
        return [fact for fact in facts if superseded or fact.superseded_by is None]

    # Summaries

    def summarise(self, session_id: str, summary: str, *, through: int | None = None) -> None:
        """Keep what a chat was about, up to a message or all of it.

        A vector of an earlier text no longer stands for it.
        """
        text = self._clean(_limit_text(summary, "a summary")) or None
        with self._database.writing() as connection:
            database.require(connection, session_id)
            connection.execute(
                "DELETE FROM summary_vectors WHERE session_id = ? AND NOT EXISTS "
                "(SELECT 1 FROM sessions WHERE id = ? AND summary IS ?)",
                (session_id, session_id, text),
            )
            connection.execute("UPDATE sessions SET summary = ? WHERE id = ?", (text, session_id))
            database.note_summarised(connection, session_id, through)

    def outdated(self, limit: int = 1000) -> Sequence[Session]:
        """Chats that went on since their summary was made, or that have none; newest first."""
        condition = (
            "WHERE s.project = ? AND EXISTS "
            "(SELECT 1 FROM messages m WHERE m.session_id = s.id AND m.id > s.summarised)"
        )
        with self._database.reading() as connection:
            values = (self._project, max(0, limit))
            return database.select_sessions(connection, f"{condition} {_NEWEST} LIMIT ?", values)

    def summaries(self, model: str = "") -> Sequence[Summary]:
        """What each chat was about, newest first, with the vectors that this model made."""
        query = (
            "SELECT s.id, coalesce(s.title, ''), s.updated_at, s.summary, v.vector FROM sessions s "
            "LEFT JOIN summary_vectors v ON v.session_id = s.id AND v.model = ? "
            "WHERE s.project = ? AND coalesce(s.summary, '') <> '' "
        )
        with self._database.reading() as connection:
            rows = connection.execute(query + _NEWEST, (model, self._project))
            return [Summary(*row) for row in rows]

    def keep_vectors(self, model_name: str, made: Iterable[tuple[Summary, bytes]]) -> None:
        """Keep the vectors that a model made of summaries, where those still are what they were."""
        model = clean_unicode(model_name)
        with self._database.writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO summary_vectors "
                "SELECT id, ?, ? FROM sessions WHERE id = ? AND summary = ?",
                [(model, vector, about.session_id, about.summary) for about, vector in made],
            )

    # In and out

    def chat(self, session_id: str) -> Chat:
        """A whole chat, to be written to a file."""
        with self._database.reading() as connection:
            return database.get_chat(connection, session_id)

    def import_chats(
        self, chats: Sequence[Chat], *, dry_run: bool = False
    ) -> Sequence[ImportedChat]:
        """Store chats from elsewhere, all of them or none; those that are here are not doubled."""
        with self._database.writing(dry_run=dry_run) as connection:
            return [_import_chat(connection, chat, self._project) for chat in chats]


def _import_chat(connection: sqlite3.Connection, chat: Chat, project: str) -> ImportedChat:
    """Store a chat that is not here yet, or what was said since it was; one that differs stays."""
    known = _find_known(connection, chat, project)
    if not known:
        return _insert_chat(connection, chat, project)
    title = database.get_session(connection, known).title
    present = database.select_messages(connection, "session_id = ?", (known,))
    for old, new in zip(present, chat.messages, strict=False):
        if (old.role, old.content) != (new.role, clean_unicode(new.content)):
            return ImportedChat(known, title, "differs", 0)
    rest = chat.messages[len(present) :]
    for message in rest:
        database.insert_message(connection, known, message)
    if rest:
        database.touch(connection, known, min(chat.updated_at, now()))
    return ImportedChat(known, title, "grown" if rest else "unchanged", len(rest))


def _find_known(connection: sqlite3.Connection, chat: Chat, project: str) -> str:
    """The id under which a chat is here already, or nothing.

    An id alone says little: two people have a first session of the same day.
    """
    found = connection.execute(
        "SELECT id FROM sessions WHERE project = ? AND origin = ? AND origin <> ''",
        (project, clean_unicode(chat.origin)),
    ).fetchone()
    if found:
        return str(found[0])
    first = connection.execute(
        "SELECT m.role, m.content FROM messages m JOIN sessions s ON s.id = m.session_id "
        "WHERE s.id = ? AND s.project = ? ORDER BY m.id LIMIT 1",
        (chat.id, project),
    ).fetchone()
    begins = [(one.role, clean_unicode(one.content)) for one in chat.messages[:1]]
    return chat.id if first in begins else ""


def _insert_chat(connection: sqlite3.Connection, chat: Chat, project: str) -> ImportedChat:
    taken = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (chat.id,)).fetchone()
    name = chat.id
    if taken or not _ID.fullmatch(chat.id):
        name = database.next_id(connection, chat.created_at[:10].replace("-", ""))
    asked = (make_title(one.content) for one in chat.messages if one.role == "user")
    title = chat.title if chat.title not in ("", NEW) else next(asked, "")
    connection.execute(
        "INSERT INTO sessions (id, title, summary, created_at, updated_at, tags, model, origin, "
        "project) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            clean_unicode(title) or None,
            clean_unicode(chat.summary) or None,
            chat.created_at,
            min(chat.updated_at, now()),  # else a time to come would be the latest for ever
            _pack_tags(chat.tags),
            clean_unicode(chat.model),
            clean_unicode(chat.origin),
            project,
        ),
    )
    numbers = [database.insert_message(connection, name, message) for message in chat.messages]
    database.note_summarised(connection, name)
    for count, summary, when in chat.compactions:
        if 0 < count <= len(numbers):
            _insert_compaction(connection, name, numbers[count - 1], clean_unicode(summary), when)
    return ImportedChat(name, title or NEW, "new", len(numbers))


def _insert_compaction(
    connection: sqlite3.Connection, session_id: str, last_message: int, summary: str, when: str
) -> None:
    connection.execute(
        "INSERT INTO compactions (session_id, last_message, summary, created_at) "
        "VALUES (?, ?, ?, ?)",
        (session_id, last_message, summary, when),
    )


def _pack_tags(tags: Sequence[str]) -> str:
    """Tags as they are kept, each of them once."""
    unique = list(dict.fromkeys(filter(None, (" ".join(tag.split()) for tag in tags))))
    if len(unique) > formats.MAX_TAGS or any(len(tag) > formats.MAX_TAG for tag in unique):
        raise LimitExceeded(
            f"a session has at most {formats.MAX_TAGS} tags of {formats.MAX_TAG} characters each",
            hint="Give it fewer or shorter tags.",
        )
    return clean_unicode(json.dumps(unique, ensure_ascii=False))


def _limit_text(text: str, what: str) -> str:
    if len(text) > MAX_TEXT:
        raise LimitExceeded(
            f"{what} has {len(text):,} characters, and {MAX_TEXT:,} is the limit",
            hint="Say it shorter.",
        )
    return text
