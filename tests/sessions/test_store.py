"""Chats are kept, found again and never lost, whoever writes at the same time."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from retain.errors import (
    Ambiguous,
    LimitExceeded,
    NewerFormat,
    NotFound,
    Unreadable,
    Unsafe,
    UsageError,
)
from retain.sessions import database
from retain.sessions.model import NEW, Chat, ChatMessage
from retain.sessions.store import Sessions
from tests import crash


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "bank"
    made.mkdir()
    return made


@pytest.fixture
def sessions(root: Path) -> Iterator[Sessions]:
    opened = Sessions(str(root))
    yield opened
    opened.close()


def rows(root: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(root / "sessions.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


# Chats and messages


def test_a_chat_has_the_day_in_its_id_and_a_title_from_its_first_message(
    sessions: Sessions,
) -> None:
    begun = sessions.create("claude-haiku")
    assert re.fullmatch(r"session_\d{8}_001", begun.id)
    assert (begun.title, begun.model, begun.messages) == (NEW, "claude-haiku", 0)
    sessions.add(begun.id, "assistant", "Hello!")
    assert sessions.get(begun.id).title == NEW
    said = sessions.add(begun.id, "user", "  How do I\nsharpen " + "a chisel " * 20, token_count=7)
    sessions.add(begun.id, "user", "Another question", token_count=5)
    now = sessions.get(begun.id)
    assert now.title == "How do I sharpen a chisel a chisel a chisel a chisel a…"
    assert (now.messages, now.tokens) == (3, 12)
    assert sessions.messages(begun.id)[0].content == "Hello!"
    assert sessions.messages(begun.id)[1] == said
    sessions.retitle(begun.id, "Chisels")
    assert sessions.get(begun.id).title == "Chisels"
    sessions.retitle(begun.id, "")
    assert sessions.get(begun.id).title == now.title


def test_nothing_is_made_by_reading(root: Path, sessions: Sessions) -> None:
    assert sessions.list() == []
    assert sessions.search("anything") == []
    assert sessions.facts() == []
    assert sessions.sweep_empty() == 0
    assert sessions.forget("facts/x") == 0
    with pytest.raises(NotFound):
        sessions.get("session_20260218_001")
    assert list(root.iterdir()) == []


def test_an_id_is_not_given_out_again_after_a_deletion(sessions: Sessions) -> None:
    first, second = sessions.create(), sessions.create()
    sessions.add(second.id, "user", "hi")
    sessions.delete(second.id)
    sessions.sweep_empty(first.id)
    third = sessions.create()
    assert third.id.endswith("_003")


def test_blocks_and_odd_characters_come_back_as_they_were(sessions: Sessions) -> None:
    begun = sessions.create()
    blocks = ({"type": "tool_use", "name": "read_file", "input": {"path": "ä.txt"}},)
    text = "nul \0, bell \a, line\u2028separator, 漢字, 🧪"
    sessions.add(begun.id, "assistant", text, blocks=blocks)
    sessions.add(begun.id, "user", "half \ud83d of a character")
    first, second = sessions.messages(begun.id)
    assert (first.content, first.blocks) == (text, blocks)
    assert second.content == "half \ufffd of a character"


def test_a_reply_that_grows_is_amended_and_found_by_its_last_text(sessions: Sessions) -> None:
    begun = sessions.create()
    reply = sessions.add(begun.id, "assistant", "The walrus")
    sessions.amend(reply.id, "The penguin swims", token_count=3)
    assert [one.text for one in sessions.search("penguin")] == ["The penguin swims"]
    assert sessions.search("walrus") == []
    assert sessions.get(begun.id).tokens == 3
    with pytest.raises(NotFound):
        sessions.amend(reply.id + 99, "x")


@pytest.mark.slow
def test_what_is_wrong_with_a_message_is_said_and_nothing_is_kept(sessions: Sessions) -> None:
    begun = sessions.create()
    with pytest.raises(UsageError):
        sessions.add(begun.id, "tool", "x")
    with pytest.raises(LimitExceeded):
        sessions.add(begun.id, "user", "x" * 8_000_001)
    with pytest.raises(UsageError):
        sessions.add(begun.id, "user", "x", blocks=({"a": object()},))
    with pytest.raises(NotFound):
        sessions.add("session_19990101_001", "user", "x")
    assert sessions.messages(begun.id) == []


def test_a_compacted_chat_keeps_every_message(sessions: Sessions) -> None:
    begun = sessions.create()
    numbers = [sessions.add(begun.id, "user", f"message {n}").id for n in range(4)]
    assert sessions.since_compaction(begun.id) == sessions.messages(begun.id)
    sessions.compact(begun.id, "They counted.", through=numbers[1])
    sent = sessions.since_compaction(begun.id)
    assert [(one.role, one.content) for one in sent] == [
        ("system", "They counted."),
        ("user", "message 2"),
        ("user", "message 3"),
    ]
    sessions.compact(begun.id, "They counted to three.")
    sessions.add(begun.id, "user", "and on")
    assert [one.content for one in sessions.since_compaction(begun.id)] == [
        "They counted to three.",
        "and on",
    ]
    assert len(sessions.messages(begun.id)) == 5
    with pytest.raises(UsageError):
        sessions.compact(sessions.create().id, "nothing")


def test_a_chat_is_named_by_the_beginning_of_its_id(sessions: Sessions) -> None:
    one, two = sessions.create(), sessions.create()
    sessions.add(one.id, "user", "newest")
    assert sessions.resolve(two.id).id == two.id
    assert sessions.resolve(two.id.removeprefix("session_")).id == two.id
    assert sessions.resolve("latest").id in (one.id, two.id)
    with pytest.raises(Ambiguous):
        sessions.resolve("session_")
    for wrong in ("", "session_%", "no"):
        with pytest.raises(NotFound):
            sessions.resolve(wrong)


def test_a_listing_has_the_newest_first_and_can_be_asked_for_words(sessions: Sessions) -> None:
    names = [sessions.create().id for _ in range(3)]
    sessions.add(names[0], "user", "about otters")
    sessions.tag(names[1], ["River", "river ", "fish"])
    sessions.retitle(names[2], "Otter pictures")
    assert sessions.get(names[1]).tags == ("River", "river", "fish")
    assert len(sessions.list(2)) == 2
    assert {one.id for one in sessions.list(query="otter")} == {names[0], names[2]}
    assert [one.id for one in sessions.list(query="fish")] == [names[1]]
    assert sessions.list(0) == []


def test_single_questions_are_listed_apart(sessions: Sessions) -> None:
    question, chat = sessions.create(is_question=True), sessions.create()
    assert [one.id for one in sessions.list(is_question=True)] == [question.id]
    assert [one.id for one in sessions.list(is_question=False)] == [chat.id]
    assert len(sessions.list()) == 2


def test_a_message_is_given_with_its_neighbours(sessions: Sessions) -> None:
    chat, other = sessions.create(), sessions.create()
    numbers = []
    for text in "abcde":
        numbers.append(sessions.add(chat.id, "user", text).id)
        sessions.add(other.id, "user", "elsewhere")
    around = [one.content for one in sessions.neighbours(numbers[2])]
    assert around == ["b", "c", "d"]
    assert [one.content for one in sessions.neighbours(numbers[0], 2)] == ["a", "b", "c"]
    assert sessions.neighbours(999) == []


def test_only_empty_chats_that_nobody_uses_are_swept(root: Path, sessions: Sessions) -> None:
    mine, theirs, old, full = (sessions.create().id for _ in range(4))
    sessions.add(full, "user", "hi")
    connection = sqlite3.connect(root / "sessions.db")
    with connection:
        connection.execute(
            "UPDATE sessions SET updated_at = '2020-01-01T00:00:00Z' WHERE id IN (?, ?)",
            (old, full),
        )
    connection.close()
    assert sessions.sweep_empty(mine, full) == 2
    assert {one.id for one in sessions.list()} == {theirs, full}


# Facts and summaries


def test_facts_are_noted_superseded_and_forgotten(sessions: Sessions) -> None:
    begun = sessions.create()
    old = sessions.remember("Uses Node", "general", begun.id, "facts/uses-node")
    assert sessions.remember("Uses Node", "general", begun.id, "facts/uses-node") == old
    new = sessions.remember("Uses Bun", "", begun.id, "facts/uses-bun")
    sessions.supersede(old, new)
    assert [one.fact for one in sessions.facts()] == ["Uses Bun"]
    assert [one.superseded_by for one in sessions.facts(superseded=True)] == [new, None]
    assert sessions.search("node") == []
    assert sessions.facts()[0].category == "general"
    with pytest.raises(NotFound):
        sessions.supersede(new, 99)
    assert sessions.forget("facts/uses-bun") == 1
    assert sessions.facts() == []
    sessions.add(begun.id, "user", "bye")
    sessions.delete(begun.id)
    assert [(one.fact, one.session_id) for one in sessions.facts(superseded=True)] == [
        ("Uses Node", "")
    ]


def test_halves_of_characters_do_no_harm_anywhere(sessions: Sessions) -> None:
    begun, half = sessions.create("\ud83d"), "\ud83d x"
    sessions.add(begun.id, "user", half)
    sessions.retitle(begun.id, half)
    sessions.tag(begun.id, [half])
    sessions.summarise(begun.id, half)
    sessions.compact(begun.id, half)
    sessions.keep_vectors(half, [(sessions.summaries()[0], b"")])
    number = sessions.remember(half, half, begun.id, half)
    assert sessions.remember(half, half, begun.id, half) == number
    assert len(sessions.search(half)) == 2
    assert sessions.list(query=half)
    assert sessions.forget(half) == 1
    for call in (sessions.get, sessions.resolve, sessions.messages, sessions.delete):
        with pytest.raises(NotFound):
            call(half)


def test_a_vector_is_given_back_for_its_model_and_its_text_alone(sessions: Sessions) -> None:
    one, other = sessions.create().id, sessions.create().id
    sessions.summarise(one, "About boats.")
    sessions.keep_vectors("minilm", [(sessions.summaries()[0], b"1234")])
    (summary,) = sessions.summaries("minilm")
    assert (summary.session_id, summary.summary, summary.vector) == (one, "About boats.", b"1234")
    assert [found.vector for found in sessions.summaries("another")] == [None]
    sessions.summarise(one, "About boats.")
    assert sessions.summaries("minilm")[0].vector == b"1234"
    sessions.summarise(one, "About ships.")
    assert sessions.summaries("minilm")[0].vector is None
    # Made of a text that was replaced meanwhile, or of a chat that was deleted.
    gone = summary._replace(session_id=f"{other}9")
    sessions.keep_vectors("minilm", [(summary, b"1234"), (gone, b"1234")])
    assert [found.vector for found in sessions.summaries("minilm")] == [None]


def test_a_chat_that_went_on_is_known_to_need_another_summary(sessions: Sessions) -> None:
    one, other, empty = (sessions.create().id for _ in range(3))

    def lacking() -> set[str]:
        return {found.id for found in sessions.outdated()}

    assert lacking() == set()
    first = sessions.add(one, "user", "About boats.").id
    sessions.add(other, "user", "About cats.")
    assert lacking() == {one, other}
    assert len(sessions.outdated(1)) == 1
    sessions.summarise(one, "Boats.")
    sessions.summarise(empty, "Nothing.")
    assert lacking() == {other}
    sessions.add(one, "assistant", "And ships.")
    assert lacking() == {one, other}
    sessions.summarise(one, "Boats and ships.", through=first)
    assert lacking() == {one, other}
    sessions.summarise(one, "Boats and ships.")
    sessions.summarise(other, "Cats.")
    assert lacking() == set()
    sessions.summarise(other, "")
    assert lacking() == {other}
    when = "2026-01-01T00:00:00Z"
    said = tuple(ChatMessage("user", text, when) for text in ("one", "two"))
    chat = Chat("a", "", when, when, (), said[:1], summary="One.")
    sessions.import_chats([chat])
    assert lacking() == {other}
    sessions.import_chats([chat._replace(messages=said)])
    assert lacking() == {other, "a"}


# The file


@pytest.mark.parametrize("umask", [0, 0o777])
def test_the_file_is_private_synced_and_of_the_right_kind(root: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        sessions = Sessions(str(root))
        sessions.add(sessions.create().id, "user", "hi")
    finally:
        os.umask(before)
    for name in ("sessions.db", "sessions.db-wal", "sessions.db-shm"):
        assert stat.S_IMODE((root / name).stat().st_mode) == 0o600
    with sessions._database.reading() as connection:
        facts = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode", "synchronous")
        ]
    assert facts == [database.APPLICATION, database.VERSION, "wal", 2]
    assert (root / ".gitignore").read_text(encoding="utf-8") == "sessions.db*\n"
    sessions.close()


def test_on_a_network_disk_there_is_no_log(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "is_network", lambda _: True)
    sessions = Sessions(str(root))
    sessions.create()
    with sessions._database.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 3
    assert not (root / "sessions.db-wal").exists()
    sessions.close()


@pytest.mark.parametrize("ending", ["", "-wal", "-journal"])
def test_a_link_is_not_followed(root: Path, tmp_path: Path, ending: str) -> None:
    if ending:
        Sessions(str(root)).create()
        for beside in ("-wal", "-shm"):
            (root / f"sessions.db{beside}").unlink(missing_ok=True)
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    (root / f"sessions.db{ending}").symlink_to(target)
    with pytest.raises(Unsafe):
        Sessions(str(root)).create()
    assert target.read_bytes() == b""


def _other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("kind", ["text", "database", "empty"])
def test_a_file_that_is_not_ours_is_left_as_it_is(root: Path, kind: str) -> None:
    path = root / "sessions.db"
    if kind == "database":
        _other_database(path)
    else:
        path.write_bytes(b"my notes" if kind == "text" else b"")
    before = path.read_bytes()
    with pytest.raises(Unreadable):
        Sessions(str(root)).create()
    with pytest.raises(Unreadable):
        Sessions(str(root)).list()
    assert path.read_bytes() == before


def test_a_newer_file_is_left_untouched(root: Path) -> None:
    sessions = Sessions(str(root))
    sessions.create()
    sessions.close()
    path = root / "sessions.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {database.VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NewerFormat):
        Sessions(str(root)).list()
    assert path.read_bytes() == before
    assert not (root / "sessions.db-wal").exists()


def test_a_damaged_file_is_reported_and_kept(root: Path) -> None:
    sessions = Sessions(str(root))
    begun = sessions.create()
    for number in range(50):
        sessions.add(begun.id, "user", f"{number} " * 500)
    sessions.close()
    path = root / "sessions.db"
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    with pytest.raises(Unreadable, match="damaged"):
        Sessions(str(root)).messages(begun.id)
    assert len(path.read_bytes()) == len(data)


def test_chats_of_another_project_are_not_seen(root: Path) -> None:
    here, there = Sessions(str(root), project="/here"), Sessions(str(root), project="/there")
    mine, other = here.create(), there.create()
    here.add(mine.id, "user", "the walrus of this project")
    there.add(other.id, "user", "the walrus of that project")
    here.remember("A walrus swims.", "general", mine.id, "facts/walrus")
    here.summarise(mine.id, "About a walrus.")
    assert [one.id for one in there.list()] == [other.id] != [mine.id]
    assert [one.id for one in there.list(query="walrus")] == [other.id]
    assert [one.text for one in there.search("walrus")] == ["the walrus of that project"]
    assert (there.facts(), there.summaries(), there.forget("facts/walrus")) == ([], [], 0)
    assert there.resolve("latest").id == other.id
    with pytest.raises(NotFound):
        there.resolve(mine.id)
    assert here.get(mine.id).project == "/here"


def test_a_file_that_was_swapped_or_removed_is_noticed(root: Path, sessions: Sessions) -> None:
    begun = sessions.create()
    for name in list(root.iterdir()):
        name.unlink()
    assert sessions.list() == []
    with pytest.raises(NotFound):
        sessions.add(begun.id, "user", "x")
    assert sessions.create().id == begun.id


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_chats_on_a_disk_that_cannot_be_written_to_are_still_read(root: Path) -> None:
    sessions = Sessions(str(root))
    sessions.add(sessions.create().id, "user", "still here")
    sessions.close()
    root.chmod(0o500)
    try:
        assert [one.text for one in Sessions(str(root)).search("here")] == ["still here"]
    finally:
        root.chmod(0o700)


def test_a_deleted_chat_lies_in_the_trash_and_nowhere_else(root: Path, sessions: Sessions) -> None:
    begun = sessions.create()
    sessions.add(begun.id, "user", "xyzzyplugh is the word")
    sessions.add(sessions.create().id, "user", "another one")
    kept = sessions.delete(begun.id)
    assert kept.path.startswith(f"{root}/.trash/.sessions/{begun.id}_")
    assert "xyzzyplugh" in Path(kept.path).read_text(encoding="utf-8")
    assert sessions.search("xyzzyplugh") == []
    sessions.close()
    assert b"xyzzyplugh" not in (root / "sessions.db").read_bytes()
    with pytest.raises(NotFound):
        sessions.delete(begun.id)


# Many at once


def _chat_for_a_while(root: Path, who: int) -> None:
    sessions = Sessions(str(root))
    for number in range(5):
        begun = sessions.create()
        for turn in range(8):
            sessions.add(begun.id, "user", f"{who} {number} {turn}")
    sessions.close()


@pytest.mark.slow
def test_eight_processes_begin_chats_and_talk_at_once(root: Path) -> None:
    works = [partial(_chat_for_a_while, root, who) for who in range(8)]
    assert [outcome.message for outcome in crash.together(works)] == [""] * 8
    sessions = Sessions(str(root))
    found = sessions.list(1000)
    assert len({one.id for one in found}) == 40
    assert {one.messages for one in found} == {8}
    said = {one.content for each in found for one in sessions.messages(each.id)}
    assert len(said) == 8 * 5 * 8
    sessions.close()
    assert rows(root, "PRAGMA integrity_check") == [("ok",)]
    assert rows(root, "INSERT INTO messages_fts (messages_fts) VALUES ('integrity-check')") == []


def test_a_killed_process_loses_nothing_that_was_handed_in(root: Path) -> None:
    script = (
        "import sys\n"
        "from retain.sessions.store import Sessions\n"
        "sessions = Sessions(sys.argv[1])\n"
        "begun = sessions.create()\n"
        "number = 0\n"
        "while True:\n"
        "    sessions.add(begun.id, 'user', f'message {number}')\n"
        "    print(number, flush=True)\n"
        "    number += 1\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for _ in range(30):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
    last = int(rest[-1]) if rest else last
    sessions = Sessions(str(root))
    said = [one.content for one in sessions.messages(sessions.resolve("latest").id)]
    assert said[: last + 1] == [f"message {number}" for number in range(last + 1)]
    assert len(said) - last <= 2
    assert sessions.search(f"message {last}", 1)[0].text == f"message {last}"
