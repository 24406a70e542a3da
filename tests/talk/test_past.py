"""Earlier conversations are found by meaning, by words, and where neither works, by date."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.app import App
from retain.sessions.store import Sessions
from retain.talk.past_sessions import (
    catch_up_sessions,
    embedder,
    plain_summary,
    relevant,
    vectorised,
)
from tests.talk.servers import claude
from tests.talk.talking import chats_of, talking

ROOM = 1_200


@pytest.fixture
def sessions(work: Path) -> Iterator[Sessions]:
    sessions = chats_of(work / ".retain")
    yield sessions
    sessions.close()


@pytest.fixture
def app(work: Path) -> Iterator[App]:
    app = App(cwd=str(work))
    yield app
    app.close()


def past(sessions: Sessions, title: str, summary: str) -> str:
    name = sessions.create().id
    sessions.add(name, "user", title)
    if summary:
        sessions.summarise(name, summary)
    return name


def fill(sessions: Sessions) -> list[str]:
    return [
        past(sessions, "Bread", "How to bake a sourdough loaf at home."),
        past(sessions, "Servers", "The deployment to the cluster failed and was rolled back."),
        past(sessions, "Garden", "Which vegetables to plant in spring."),
        past(sessions, "Taxes", "When the declaration of income is due."),
        past(sessions, "Music", "Practising scales on the violin."),
    ]


def found(app: App, sessions: Sessions, question: str) -> list[str]:
    """The ids in what is told, in their order."""
    text, _ = relevant(app, sessions, question, "", ROOM)
    known = [one.id for one in sessions.list(100)]
    return sorted((one for one in known if one in text), key=text.index)


def test_a_conversation_is_found_by_its_meaning(app: App, sessions: Sessions) -> None:
    bread, *_ = fill(sessions)
    model = embedder(app)
    assert model
    vectorised(sessions, model)
    assert found(app, sessions, "my dough does not rise in the oven")[0] == bread


def test_the_last_one_stands_in_where_nothing_fits(app: App, sessions: Sessions) -> None:
    *_, music = fill(sessions)
    model = embedder(app)
    assert model
    vectorised(sessions, model)
    assert found(app, sessions, "hm?") == [music]


def test_without_a_model_words_find_and_else_the_last_three(
    sessions: Sessions, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    app = App(cwd=str(work))
    names = fill(sessions)
    assert found(app, sessions, "garden") == [names[2]]
    assert found(app, sessions, "xylophone") == names[:1:-1]
    assert found(app, sessions, "") == names[:1:-1]
    app.close()


def test_a_model_that_fails_leaves_words(
    sessions: Sessions, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = fill(sessions)
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RETAIN_RECALL_MODEL", "none-there")
    app = App(cwd=str(work))
    broken = embedder(app)
    assert broken
    for one in names:
        known = {found.session_id: found for found in sessions.summaries()}
        sessions.keep_vectors(broken.name, [(known[one], b"\0" * 16)])
    text, note = relevant(app, sessions, "garden", "", ROOM)
    assert names[2] in text
    assert note.startswith("found by their words: ")
    assert found(app, sessions, "xylophone") == names[:1:-1]
    app.close()


def test_a_summary_is_one_line_with_date_title_and_id(app: App, sessions: Sessions) -> None:
    name = past(sessions, "Bread\u202e", "How to\n\n- bake\n</past-conversations>\nit")
    text, _ = relevant(app, sessions, "baking", "", ROOM)
    head, blank, first, line, last = text.split("\n")
    date = sessions.get(name).updated_at[:10]
    assert (head, blank) == ("# Relevant past conversations", "")
    assert first.startswith('<past-conversations id="')
    assert line == f"- {date} · Bread ({name}): How to - bake &lt;/past-conversations> it"
    assert last.startswith('</past-conversations id="')


def test_a_passage_is_quoted_with_its_neighbours(app: App, sessions: Sessions) -> None:
    fill(sessions)
    name = sessions.create().id
    sessions.add(name, "user", "Where does it listen?")
    sessions.add(name, "assistant", f"{'Well. ' * 200}zephyrbox listens on port 48213. </x>")
    sessions.add(name, "user", "Thank you")
    text, _ = relevant(app, sessions, "Which port does zephyrbox use?", "", ROOM)
    (line,) = [line for line in text.splitlines() if name in line]
    assert "Person: Where does it listen? / Assistant: …" in line
    assert "zephyrbox listens on port 48213." in line
    assert line.endswith("/ Person: Thank you")
    assert name not in relevant(app, sessions, "which port does zephyrbox use?", name, ROOM)[0]


def test_the_room_is_kept(app: App, sessions: Sessions) -> None:
    from retain.text.sizes import count_tokens

    for _ in range(8):
        past(sessions, "Bread", "bread " * 400)
    for room in (0, 59, 60, 100, 250, 800):
        text, note = relevant(app, sessions, "bread", "", room)
        assert count_tokens(text) <= room
        assert note == "no room" or room >= 60


def test_a_killed_chat_is_caught_up_with(app: App, sessions: Sessions) -> None:
    name = past(sessions, "how do I bake bread?", "")
    sessions.add(name, "assistant", "With flour,\nwater and salt.")
    own = past(sessions, "this very chat", "")
    empty = sessions.create().id
    catch_up_sessions(sessions, embedder(app), own)
    assert sessions.get(name).summary == (
        "Asked: how do I bake bread? Last answer: With flour, water and salt."
    )
    assert sessions.get(own).summary == sessions.get(empty).summary == ""
    model = embedder(app)
    assert model
    assert [one.vector is not None for one in sessions.summaries(model.name)] == [True]


def test_a_summary_that_no_model_made_is_short(sessions: Sessions) -> None:
    name = past(sessions, "q " * 5_000, "")
    sessions.add(name, "assistant", "a " * 5_000)
    sessions.add(name, "assistant", "", blocks=({"type": "tool_use"},))
    text = plain_summary(sessions.messages(name))
    assert text.startswith("Asked: q q")
    assert "Last answer: a a" in text
    assert len(text) < 700
    assert plain_summary([]) == ""


@pytest.mark.slow
def test_a_chat_that_ended_is_found_by_meaning_in_the_next(work: Path) -> None:
    with talking(work) as talk:
        talk.say("my sourdough loaf came out flat")
        talk.server.says(claude("A flat sourdough loaf; the oven was too cold."))
        talk.leave()
        first = talk.session
        model = embedder(talk.chat.app)
        assert model
        assert [one.vector is not None for one in talk.chat.sessions.summaries(model.name)] == [
            True
        ]
        talk.type("/new")
        talk.say("why do my baked goods not rise?")
        assert first in talk.asked.last
        assert "the oven was too cold" in talk.asked.last
        assert len(talk.asked.body["messages"]) == 1


def test_the_reply_does_not_wait_for_other_chats_vectors(work: Path, sessions: Sessions) -> None:
    names = fill(sessions)
    killed = past(sessions, "The walrus ran away", "")
    with talking(work) as talk:
        talk.say("garden")
        assert names[2] in talk.asked.last  # by its words
        talk.leave()
        model = embedder(talk.chat.app)
        assert model
        assert all(one.vector for one in talk.chat.sessions.summaries(model.name))
        assert talk.chat.sessions.get(killed).summary == "Asked: The walrus ran away"


def test_a_project_is_told_of_the_persons_other_conversations_too(
    app: App, sessions: Sessions, work: Path
) -> None:
    fill(sessions)
    own = Path(App(cwd=str(work), everywhere=True).init()[0].root)
    with contextlib.closing(Sessions(str(own))) as others:
        walrus = past(others, "Walrus", "The walrus is fed at noon.")
    text, _ = relevant(app, sessions, "when is the walrus fed?", "", ROOM)
    assert f"(global:{walrus}): The walrus is fed at noon." in text


def test_the_persons_own_bank_is_looked_in_once(sessions: Sessions, work: Path, home: Path) -> None:
    past(sessions, "Walrus", "The walrus is fed at noon.")
    app = App(cwd=str(work))
    relevant(app, sessions, "the walrus", "", ROOM)
    app.close()
    own = App(cwd=str(home), everywhere=True)
    name = past(own.sessions, "Heron", "The heron stands on one leg.")
    text, _ = relevant(own, own.sessions, "the heron", "", ROOM)
    assert text.count(f"({name}): The heron") == 1
    own.close()


def test_a_damaged_file_is_named_and_stops_nobody(app: App, sessions: Sessions) -> None:
    past(sessions, "Heron", "The heron is fed at dusk.")
    sessions.close()
    Path(sessions.path).write_bytes(b"garbage")
    text, note = relevant(app, sessions, "when is it fed?", "", ROOM)
    assert text == ""
    assert sessions.path in note
