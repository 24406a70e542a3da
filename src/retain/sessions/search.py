"""Words looked for in what was said and in what chats have saved.

A question is cut into the same terms as the texts, and each is handed to FTS5 as a quoted string,
so nothing a person types is ever syntax. Both kinds of texts are scored by one formula with one
set of counts, as in the index: what FTS5 says of two tables cannot be compared.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from retain.errors import LimitExceeded
from retain.index.fulltext import rarity_of, shares_of
from retain.sessions.model import NEW, SessionHit, clean_unicode
from retain.text.tokens import query as query_terms

MAX_QUERY: Final = 10_000  # characters
_CANDIDATES: Final = 200
_MAX_TERMS: Final = 64  # more make no question
_K1: Final = 1.2
_AVERAGE: Final = 60.0  # terms; a fact, which is shorter, is denser than a message
_MIN_SHARE: Final = 0.3  # of the best score: what has less shares but a common word

# Only chats of one project are searched: what was said in another never shows.
_MESSAGES: Final = """
SELECT 'message', m.session_id, s.title, m.role, m.content, m.timestamp, m.id, m.terms
FROM messages m JOIN sessions s ON s.id = m.session_id {join} WHERE s.project = ? AND {match}
"""
_MEMORIES: Final = """
SELECT 'memory', coalesce(m.source_session, ''), s.title, '', m.fact, m.created_at, 0, m.terms
FROM memories m LEFT JOIN sessions s ON s.id = m.source_session {join}
WHERE m.project = ? AND m.superseded_by IS NULL AND {match}
"""


def search(
    connection: sqlite3.Connection, query: str, limit: int, project: str
) -> list[SessionHit]:
    """Find what answers a question best in a project's chats, superseded facts left out."""
    if len(query) > MAX_QUERY:
        raise LimitExceeded(
            f"the question has {len(query):,} characters, and {MAX_QUERY:,} is the limit",
            hint="Ask for fewer words.",
        )
    query = clean_unicode(query).strip()
    terms = list(dict.fromkeys(query_terms(query)))[:_MAX_TERMS]
    if not terms:
        return _search_characters(connection, query, limit, project) if query else []
    rarity = [_rarity(connection, term) for term in terms]
    spaced = [f" {term} " for term in terms]
    expression = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
    hits = []
    for table, select in (("messages_fts", _MESSAGES), ("memories_fts", _MEMORIES)):
        statement = select.format(
            join=f"JOIN {table} f ON f.rowid = m.id",
            match=f"{table} MATCH ? ORDER BY f.rank LIMIT ?",
        )
        for row in connection.execute(statement, (project, expression, _CANDIDATES)):
            shares = shares_of(spaced, row[7], _K1, _AVERAGE)
            score = sum(a * b for a, b in zip(rarity, shares, strict=True)) / sum(rarity)
            hits.append(_make_hit(row, score))
    hits.sort(key=lambda hit: (hit.score, hit.timestamp), reverse=True)
    return [hit for hit in hits if hit.score >= _MIN_SHARE * hits[0].score][:limit]


def _rarity(connection: sqlite3.Connection, term: str) -> float:
    """How rare a term is among messages and facts together."""
    texts, documents = connection.execute(
        "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM memories), "
        "(SELECT total(doc) FROM messages_terms WHERE term = ?1) "
        "+ (SELECT total(doc) FROM memories_terms WHERE term = ?1)",
        (term,),
    ).fetchone()
    return rarity_of(texts, int(documents))


def _search_characters(
    connection: sqlite3.Connection, text: str, limit: int, project: str
) -> list[SessionHit]:
    """Find what holds just these characters, newest first: `->` and `to be` are no terms."""
    pattern = "".join(f"\\{char}" if char in "\\%_" else char for char in text)
    hits = []
    for column, select in (("content", _MESSAGES), ("fact", _MEMORIES)):
        match = rf"m.{column} LIKE ? ESCAPE '\' ORDER BY m.id DESC LIMIT ?"
        statement = select.format(join="", match=match)
        rows = connection.execute(statement, (project, f"%{pattern}%", limit))
        hits += [_make_hit(row, 1.0) for row in rows]
    return sorted(hits, key=lambda hit: hit.timestamp, reverse=True)[:limit]


def _make_hit(row: tuple[Any, ...], score: float) -> SessionHit:
    kind, session_id, title, role, text, timestamp, message, _ = row
    title = title or (NEW if session_id else "")
    return SessionHit(kind, session_id, title, role, text, timestamp, round(score, 4), message)
