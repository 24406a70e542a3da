"""Words looked for in what was said and in what chats have saved.

A question is cut into the same terms as the texts, and each is handed to FTS5 as a quoted string,
so nothing a person types is ever syntax. Both kinds of texts are scored by one formula with one
set of counts, as in the index: what FTS5 says of two tables cannot be compared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from retain.errors import LimitExceeded
from retain.index.fulltext import rarity_of, shares_of
from retain.sessions.model import NEW, Found, whole
from retain.sessions.rows import text as text_of
from retain.sessions.rows import whole_number
from retain.text.tokens import query

MAX_QUERY: Final = 10_000  # characters
_CANDIDATES: Final = 200
_TERMS: Final = 64  # more make no question
_K1: Final = 1.2
_AVERAGE: Final = 60.0  # terms; a fact, which is shorter, is denser than a message
_WORTH: Final = 0.3  # of the best score: what has less shares but a common word with the question

_MESSAGES: Final = """
SELECT 'message', m.session_id, s.title, m.role, m.content, m.timestamp, m.terms, m.id
FROM messages m JOIN sessions s ON s.id = m.session_id
"""
_MEMORIES: Final = """
SELECT 'memory', m.source_session, s.title, '', m.fact, m.created_at, m.terms, 0
FROM memories m LEFT JOIN sessions s ON s.id = m.source_session
"""
# Only chats of one project are looked at: what was said in another never shows.
_BEST_MESSAGES: Final = """
JOIN messages_fts f ON f.rowid = m.id
WHERE messages_fts MATCH ? AND s.project = ? ORDER BY f.rank LIMIT ?
"""
_BEST_MEMORIES: Final = """
JOIN memories_fts f ON f.rowid = m.id
WHERE memories_fts MATCH ? AND m.project = ? AND m.superseded_by IS NULL ORDER BY f.rank LIMIT ?
"""
_Row = tuple[object, ...]


def search(connection: sqlite3.Connection, text: str, limit: int, project: str) -> list[Found]:
    """Find what answers a question best in a project's chats, superseded facts left out."""
    if len(text) > MAX_QUERY:
        raise LimitExceeded(
            f"the question has {len(text):,} characters, and {MAX_QUERY:,} is the limit",
            hint="Ask for fewer words.",
        )
    text = whole(text)
    terms = list(dict.fromkeys(query(text)))[:_TERMS]
    if not terms:
        return _literally(connection, text.strip(), limit, project)
    rarity = _rarity(connection, terms)
    highest = sum(rarity.values())
    spaced = [f" {term} " for term in rarity]
    found = []
    for row in _candidates(connection, terms, project):
        shares = shares_of(spaced, text_of(row[6]), _K1, _AVERAGE)
        score = sum(a * b for a, b in zip(rarity.values(), shares, strict=True)) / highest
        found.append(_found(row, score))
    found.sort(key=lambda one: (one.score, one.timestamp), reverse=True)
    return [one for one in found if one.score >= _WORTH * found[0].score][:limit]


def _rarity(connection: sqlite3.Connection, terms: Iterable[str]) -> dict[str, float]:
    """How rare each term is among messages and facts together."""
    counted = "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM memories)"
    (texts,) = connection.execute(counted).fetchone()
    return {term: rarity_of(texts, _count(connection, term)) for term in terms}


def _count(connection: sqlite3.Connection, term: str) -> int:
    query = (
        "SELECT sum(doc) FROM (SELECT doc FROM messages_terms WHERE term = ?1 "
        "UNION ALL SELECT doc FROM memories_terms WHERE term = ?1)"
    )
    return int(connection.execute(query, (term,)).fetchone()[0] or 0)


def _candidates(connection: sqlite3.Connection, terms: Iterable[str], project: str) -> list[_Row]:
    expression = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
    rows: list[_Row] = []
    for wanted in (f"{_MESSAGES}{_BEST_MESSAGES}", f"{_MEMORIES}{_BEST_MEMORIES}"):
        rows += connection.execute(wanted, (expression, project, _CANDIDATES)).fetchall()
    return rows


def _literally(connection: sqlite3.Connection, text: str, limit: int, project: str) -> list[Found]:
    """What holds just these characters, newest first: `->` and `to be` are no terms."""
    if not text:
        return []
    escaped = "".join(f"\\{char}" if char in "\\%_" else char for char in text)
    like = r" LIKE ? ESCAPE '\'"
    rows: list[_Row] = []
    for head, condition in (
        (_MESSAGES, f"s.project = ? AND m.content{like}"),
        (_MEMORIES, f"m.project = ? AND m.superseded_by IS NULL AND m.fact{like}"),
    ):
        wanted = f"{head} WHERE {condition} ORDER BY m.id DESC LIMIT ?"
        rows += connection.execute(wanted, (project, f"%{escaped}%", limit)).fetchall()
    found = [_found(row, 1.0) for row in rows]
    return sorted(found, key=lambda one: one.timestamp, reverse=True)[:limit]


def _found(row: _Row, score: float) -> Found:
    kind, session, title, role, said, timestamp, _ = map(text_of, row[:7])
    title = title or (NEW if session else "")
    number = whole_number(row[7])
    return Found(kind, session, title, role, said, timestamp, round(score, 4), number)
