"""A chat file that somebody else has filled: nothing hangs, nothing breaks, nothing is believed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retain.errors import Unreadable
from retain.sessions import rows
from retain.sessions.model import Chat, Said
from retain.sessions.store import Sessions


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    opened = Sessions(str(tmp_path))
    yield opened
    opened.close()


def planted(root: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(root / "sessions.db")) as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def used(sessions: Sessions, name: str) -> dict[str, Callable[[], object]]:
    return {
        "list": sessions.list,
        "get": lambda: sessions.get(name),
        "messages": lambda: sessions.messages(name),
        "since": lambda: sessions.since_compaction(name),
        "chat": lambda: sessions.chat(name),
        "search": lambda: sessions.search("otter"),
        "literal": lambda: sessions.search("->"),
        "facts": sessions.facts,
        "summaries": lambda: sessions.summaries("m"),
        "create": sessions.create,
    }


@pytest.mark.parametrize("value", ["x'ff'", "1e999", "'abc'", "2.5"])
@pytest.mark.parametrize(
    "table, column",
    [
        *(("sessions", one) for one in "title summary created_at updated_at tags model".split()),
        *(("messages", one) for one in "content timestamp token_count blocks terms".split()),
        *(("memories", one) for one in "fact category created_at superseded_by ref".split()),
        *(("compactions", one) for one in "last_message summary created_at".split()),
        ("summary_vectors", "vector"),
        ("days", "last"),
    ],
)
def test_a_value_of_a_wrong_kind_is_named_or_does_no_harm(
    tmp_path: Path, sessions: Sessions, table: str, column: str, value: str
) -> None:
    name = sessions.create().id
    sessions.add(name, "user", "an otter ->", token_count=1)
    sessions.remember("An otter ->", "general", name, "facts/x")
    sessions.summarise(name, "About an otter.")
    sessions.keep_vectors("m", [(sessions.summaries()[0], b"1234")])
    sessions.compact(name, "They spoke.")
    planted(tmp_path, f"UPDATE {table} SET {column} = {value}")  # noqa: S608 - our own words
    for call in used(sessions, name).values():
        with contextlib.suppress(Unreadable):
            call()


@pytest.mark.slow
def test_only_the_newest_messages_of_a_huge_chat_are_loaded(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = sessions.create().id
    number = sessions.add(name, "user", "first").id
    planted(
        tmp_path,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000) "
        "INSERT INTO messages (session_id, role, content, timestamp) "
        "SELECT sessions.id, 'user', 'message ' || i, '' FROM n, sessions",
    )
    for found in (sessions.messages(name), sessions.since_compaction(name)):
        assert len(found) == rows.MOST_LOADED
        assert found[-1].content == "message 12000"
    assert sessions.get(name).messages == len(sessions.chat(name).said) == 12_001
    sessions.compact(name, "They counted.", through=number)
    assert len(sessions.since_compaction(name)) == rows.MOST_LOADED + 1
    monkeypatch.setattr(rows, "MOST_LOADED_TEXT", 1_000)
    assert 5 < len(sessions.messages(name)) < 50
    monkeypatch.setattr(rows, "MOST_LOADED_TEXT", 1)
    assert [one.content for one in sessions.messages(name)] == ["message 12000"]


@pytest.mark.parametrize("when", ["2999-01-01T00:00:00Z", "9", "zzz"])
def test_a_chat_from_the_future_is_not_the_latest(
    tmp_path: Path, sessions: Sessions, when: str
) -> None:
    old, forged, new = (sessions.create().id for _ in range(3))
    planted(
        tmp_path,
        f"UPDATE sessions SET updated_at = '{when}', summary = 'x' "  # noqa: S608
        f"WHERE id = '{forged}'",
        f"UPDATE sessions SET updated_at = '2020-01-01T00:00:00Z' WHERE id = '{old}'",  # noqa: S608
    )
    sessions.summarise(old, "y")
    assert sessions.resolve("latest").id == new
    assert [one.id for one in sessions.list()] == [new, old, forged]
    assert [one.session_id for one in sessions.summaries()] == [old, forged]
    sessions.add(forged, "user", "It is used now.")
    assert sessions.resolve("latest").id in (new, forged)
    assert sessions.get(forged).updated_at < "2900"


def test_an_imported_chat_from_the_future_is_not_the_latest(sessions: Sessions) -> None:
    mine = sessions.create().id
    when = "2999-01-01T00:00:00Z"
    sessions.take_in([Chat("theirs", "", when, when, (), (Said("user", "hi", when),))])
    assert [one.id for one in sessions.list()] == [mine, "theirs"]
