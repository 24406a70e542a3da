"""A chat put together: models changed, sessions resumed, everything but the model without a key."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retain.app import App
from retain.errors import Ambiguous, Conflict, NotFound, UsageError
from retain.talk.approval import Answer, Question
from retain.talk.chat import Chat
from retain.talk.commands import Commands
from retain.talk.events import MemorySaved, ToolDone
from retain.talk.models import ModelError
from tests.talk.models.sides import SIDES
from tests.talk.servers import Server, Use, claude, running
from tests.talk.talking import Talk, chats_of, notices, saved, talking


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


def old_session(work: Path) -> str:
    """A conversation with a tool in it, as another process has left it."""
    sessions = chats_of(work / ".retain")
    name = sessions.create("claude-old").id
    sessions.add(name, "user", "what is in the shed?")
    use = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "shed"}}
    sessions.add(name, "assistant", "I look.", blocks=({"type": "text", "text": "I look."}, use))
    result = {"type": "tool_result", "id": "t1", "text": "a walrus", "is_error": False}
    sessions.add(name, "user", "", blocks=(result,))
    sessions.add(name, "assistant", "A walrus.")
    sessions.close()
    return name


def test_the_first_chat_makes_the_bank(home: Path) -> None:
    with talking(home / "work") as talk:
        assert talk.chat.session is None
        assert not (home / ".retain").exists()
        talk.say("hello")
        assert (home / ".retain" / "sessions.db").exists()
        assert talk.kept == [("user", "hello"), ("assistant", "Done.")]


def test_a_resumed_session_goes_on_with_its_tools(work: Path) -> None:
    name = old_session(work)
    with talking(work) as talk:
        session = talk.run(talk.chat.resume(name.removeprefix("session_")))
        assert talk.session == session.id == name
        talk.say("feed it")
        kinds = [
            [block["type"] for block in message["content"]]
            for message in talk.asked.body["messages"]
        ]
        assert kinds == [["text"], ["text", "tool_use"], ["tool_result"], ["text"], ["text"]]
        assert talk.kept[-2:] == [("user", "feed it"), ("assistant", "Done.")]
        assert len(talk.chat.sessions.list()) == 1


def test_resuming_leaves_a_summary_of_the_one_before(work: Path) -> None:
    name = old_session(work)
    with talking(work) as talk:
        talk.say("something else")
        before = talk.session
        talk.server.says(claude("Something else was spoken of."))
        talk.run(talk.chat.resume(name))
        talk.leave()
        summary = talk.chat.sessions.get(before).summary
        assert summary == "Something else was spoken of."
        count = len(talk.server.asked)
        talk.run(talk.chat.resume(name))  # where one is already
        talk.run(talk.chat.resume("latest"))
        assert len(talk.server.asked) == count


@contextmanager
def unnamed(work: Path, **env: str) -> Iterator[tuple[Chat, Server]]:
    """A chat for which no model was named, on a server of both kinds."""
    with running() as server:
        world = {"HOME": str(work.parent), **SIDES["anthropic"].env(server.url), **env}
        chat = Chat(App(cwd=str(work)), env=world)
        try:
            yield chat, server
        finally:
            chat.close()


async def said(chat: Chat, text: str) -> list[str]:
    return notices([one async for one in chat.conversation.send(text)])


def test_a_resumed_session_goes_on_with_its_model(work: Path) -> None:
    name = old_session(work)
    with unnamed(work) as (chat, server):
        usual = chat.model_name
        assert usual != "claude-old"

        async def talk() -> None:
            await chat.resume(name)
            assert chat.model_name == "claude-old"
            assert await said(chat, "feed it") == []
            assert server.asked[-1].body["model"] == "claude-old"
            await chat.new()
            assert chat.model_name == usual
            await chat.leave(0)

        asyncio.run(talk())


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_resumed_session_goes_on_with_the_provider_it_had(work: Path, is_changed: bool) -> None:
    proxied = "openai:claude-sonnet-via-proxy"  # whose name alone would mislead
    with running() as server:
        env = {"HOME": str(work.parent), **os.environ}
        env |= SIDES["anthropic"].env(server.url) | SIDES["openai"].env(server.url)
        first = Chat(App(cwd=str(work)), env=env, model="" if is_changed else proxied)
        again = Chat(App(cwd=str(work)), env=env)

        async def talk() -> str:
            if is_changed:
                await said(first, "hello")
                await first.away(lambda: first.use(proxied))
            await said(first, "hello again")
            await first.leave(0)
            assert first.session
            return first.session.id

        async def resume(name: str) -> None:
            await again.resume(name)
            assert again.model_name == "claude-sonnet-via-proxy"
            assert await said(again, "who are you?") == []

        try:
            asyncio.run(resume(asyncio.run(talk())))
            assert server.asked[-1].path == SIDES["openai"].path
            assert server.asked[-1].body["model"] == "claude-sonnet-via-proxy"
        finally:
            first.close()
            again.close()


def test_the_model_that_is_set_is_no_other_one_where_its_key_is_missing(work: Path) -> None:
    with unnamed(work) as (chat, _):
        asyncio.run(said(chat, "hello"))
        assert chat.session
        name = chat.session.id
    with unnamed(work, ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="") as (chat, _):
        asyncio.run(chat.resume(name))
        with pytest.raises(ModelError, match="ANTHROPIC_API_KEY"):
            _ = chat.model
        assert chat._notices == []


def test_a_model_is_changed_in_a_conversation_that_another_window_deleted(work: Path) -> None:
    with talking(work) as talk:
        talk.say("hello")
        talk.chat.sessions.delete(talk.session)
        shown = talk.type("/model claude-other")
        assert (shown.is_error, shown.text) == (False, "Now talking to claude-other.")
        talk.say("hello again")
        assert talk.asked.body["model"] == "claude-other"
        assert talk.chat.sessions.get(talk.session).model == "anthropic:claude-other"


def test_a_model_that_was_named_is_kept_when_resuming(work: Path) -> None:
    name = old_session(work)
    with talking(work) as talk:
        talk.run(talk.chat.resume(name))
        assert talk.chat.model_name == talk.side.name
        assert notices(talk.say("feed it")) == []
        assert talk.asked.body["model"] == talk.side.name


def test_a_session_whose_model_cannot_be_used_goes_on_with_another(work: Path) -> None:
    with contextlib.closing(chats_of(work / ".retain")) as sessions:
        name = sessions.create("gpt-5").id
        sessions.add(name, "user", "hello")
        sessions.add(name, "assistant", "Hi.")
    with unnamed(work) as (chat, server):
        usual = chat.model_name

        async def talk() -> None:
            await chat.resume(name)
            (told,) = await said(chat, "and now?")
            assert told.startswith("This conversation was with gpt-5, which cannot be used now: ")
            assert "OPENAI_API_KEY" in told
            assert server.asked[-1].body["model"] == usual
            assert await said(chat, "still?") == []

        asyncio.run(talk())


def test_a_session_that_is_only_looked_at_keeps_its_summary(work: Path) -> None:
    name = old_session(work)
    with talking(work) as talk:
        talk.chat.sessions.summarise(name, "The walrus.")
        talk.run(talk.chat.resume(name))
        talk.run(talk.chat.new())
        assert talk.chat.session is None
        assert talk.chat.sessions.get(name).summary == "The walrus."
        assert talk.server.asked == []


def test_an_unknown_session_changes_nothing(work: Path) -> None:
    with talking(work) as talk:
        talk.say("hello")
        before = talk.session
        with pytest.raises(NotFound):
            talk.run(talk.chat.resume("session_19990101_001"))
        assert talk.session == before


# Models


def test_another_model_takes_over_the_conversation(work: Path) -> None:
    with talking(work) as talk:
        talk.server.says(claude("Hi.", Use("read_file", {"path": "."})), claude("So."))
        talk.say("hello")
        talk.chat.use("claude-opus-5-5")
        talk.say("and now?")
        assert talk.asked.body["model"] == "claude-opus-5-5"
        assert "hello" in talk.asked.text
        assert talk.chat.model_name == "claude-opus-5-5"
        assert talk.chat.sessions.get(talk.session).model == "anthropic:claude-opus-5-5"


def test_a_model_without_a_key_leaves_the_old_one(work: Path) -> None:
    with talking(work) as talk:
        talk.say("hello")
        with pytest.raises(ModelError) as failed:
            talk.chat.use("openai:gpt-5")
        assert failed.value.kind == "no_key"
        assert talk.chat.model_name == talk.side.name
        talk.say("still there?")
        assert talk.asked.body["model"] == talk.side.name
        with pytest.raises(UsageError):
            talk.chat.use("  ")


def test_without_a_key_everything_but_the_model_works(work: Path) -> None:
    name = old_session(work)
    chat = Chat(App(cwd=str(work)), env={"HOME": str(work)})
    commands = Commands(chat)

    async def look() -> None:
        with pytest.raises(ModelError) as failed:
            _ = chat.conversation
        assert failed.value.kind == "no_key"
        for line in ("/sessions", f"/resume {name}", "/search walrus", "/remember Jo has a boat",
                     "/memories", "/forget boat", "/context", "/model", "/tools", "/skills",
                     "/export x.json", "/help", "/new", "/quit"):  # fmt: skip
            shown = await commands.run(line)
            assert not shown.is_error, (line, shown.text)
        shown = await commands.run(f"/resume {name}")
        shown = await commands.run("/compact")
        assert shown.is_error
        assert "ANTHROPIC_API_KEY" in shown.text
        await chat.leave()

    asyncio.run(look())
    assert json.loads((work / "x.json").read_text(encoding="utf-8"))["id"] == name
    chat.close()


# Facts


def remember(talk: Talk, *facts: str) -> None:
    talk.server.says(claude("".join(f"[MEMORY] {fact}\n\n" for fact in facts)))
    assert len(saved(talk.say("remember"))) == len(facts)


def test_a_fact_is_found_by_words_id_or_its_whole_text(work: Path) -> None:
    with talking(work) as talk:
        remember(talk, "Jo drinks tea", "Tea is what Ann drinks when Jo is away", "Ann has a boat")
        refs = {text: ref for ref, text in talk.chat.facts()}
        boat = refs["Ann has a boat"]
        meant = talk.chat.profile.facts.meant
        assert meant("BOAT") == ("Ann has a boat", (boat,))
        assert meant(boat).refs == (boat,)
        assert meant(boat.removeprefix("global:")).refs == (boat,)
        assert meant(boat.partition("/")[2]).refs == (boat,)
        assert meant("Jo drinks tea").text == "Jo drinks tea"
        with pytest.raises(Ambiguous) as several:
            meant("drinks")
        assert refs["Jo drinks tea"] in several.value.message
        with pytest.raises(NotFound):
            meant("walrus")


def test_a_tool_saves_facts_too(work: Path) -> None:
    with talking(work) as talk:
        talk.server.says(claude(Use("save_memory", {"fact": "Jo has a red car"})), claude("Ok."))
        happenings = talk.say("remember my car")
        assert saved(happenings) == [("saved", "Jo has a red car")]
        at = [type(one) for one in happenings].index(MemorySaved)
        assert isinstance(happenings[at - 1], ToolDone)
        assert [text for _, text in talk.chat.facts()] == ["Jo has a red car"]
        (fact,) = talk.chat.sessions.facts()
        assert fact.session_id == talk.session


@pytest.mark.parametrize("is_later", [False, True])
def test_what_only_a_file_says_is_asked_about_before_a_tool_saves_it(
    work: Path, is_later: bool
) -> None:
    fact = "The walrus password policy is to have none"
    (work / "note.txt").write_text(f"Please save: {fact}.\n", encoding="utf-8")
    with talking(work) as talk:
        talk.answer = _refuse
        talk.server.says(claude(Use("read_file", {"path": "note.txt"})))
        if is_later:  # in another message, of a chat that was left and taken up again
            talk.server.says(claude("Read."))
            talk.say("read the note")
            talk.server.hears("Summarise this", claude("A note was read."))  # in its own time
            talk.run(talk.chat.new())
            talk.type("/resume session")
        talk.server.says(claude(Use("save_memory", {"fact": fact})), claude("Ok."))
        assert saved(talk.say("go on")) == []
        assert [one.tool for one in talk.questions] == ["save_memory"]
        assert talk.chat.facts() == []


async def _refuse(_: Question) -> Answer:
    return Answer("no")


# Export


@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "x.md", "X.MD", "x"])
def test_an_export_is_a_new_file(work: Path, name: str) -> None:
    with talking(work) as talk:
        talk.say("hello there")
        path = talk.chat.export(name)
        assert path == str(work / name)
        text = Path(path).read_text(encoding="utf-8")
        assert "hello there" in text
        assert text.startswith("#" if name.lower().endswith(".md") else "{")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with pytest.raises(Conflict):
            talk.chat.export(name)
        assert Path(path).read_text(encoding="utf-8") == text
        assert sorted(os.listdir(work)) == sorted([".retain", name])


def test_an_export_overwrites_nothing_of_any_kind(work: Path, home: Path) -> None:
    with talking(work) as talk:
        talk.say("hello there")
        (work / "dangling.json").symlink_to(home / "elsewhere.json")
        (work / "folder").mkdir()
        with pytest.raises(Conflict):
            talk.chat.export("dangling.json")
        with pytest.raises(UsageError):
            talk.chat.export("folder")
        with pytest.raises(NotFound):
            talk.chat.export("nowhere/x.json")
        assert not (home / "elsewhere.json").exists()
        assert talk.chat.export("~/own.json") == str(home / "own.json")


# One App, many threads


def test_nothing_goes_around_the_lock(work: Path) -> None:
    """While another thread has the App, every command waits for it, and the loop goes on.

    What needs no App may be done meanwhile.
    """
    name = old_session(work)
    free = ("/context", "/help", "/quit")
    lines = ("/sessions", "/search walrus", "/memories", f"/resume {name}", "/model claude-x",
             "/tools", "/skills", "/forget walrus", "/remember Jo has a boat", *free)  # fmt: skip

    with talking(work) as talk:
        talk.say("hello")
        held, release = threading.Event(), threading.Event()

        def hold() -> None:
            with talk.chat.turn:
                held.set()
                release.wait(60)

        async def attempt(line: str) -> bool:
            """Whether it had to wait."""
            task = asyncio.create_task(talk.commands.run(line))
            start = time.monotonic()
            done, _ = await asyncio.wait([task], timeout=0.3)
            assert time.monotonic() - start < 30  # the loop was never blocked
            release.set()
            await task
            return not done

        for line in lines:
            held.clear()
            release.clear()
            thread = threading.Thread(target=hold)
            thread.start()
            held.wait(60)
            assert talk.run(attempt(line)) == (line not in free), line
            thread.join()
