"""What a conversation leaves behind: a summary of all that was said, and nobody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from retain.talk import past_sessions
from tests.talk.servers import claude, claude_error
from tests.talk.talking import Talk, chats_of, talking


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


def summary(talk: Talk, name: str) -> str:
    return talk.chat.sessions.get(name).summary


async def until_asked(talk: Talk, count: int) -> None:
    """Until the server has had so many requests."""
    async with asyncio.timeout(60):
        while len(talk.server.asked) < count:
            await asyncio.sleep(0.02)


# Which summary stands


def test_a_summary_stands_until_something_is_said(work: Path) -> None:
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        talk.server.says(claude("Sharpening chisels was explained."))
        talk.leave()
        name = talk.session
    with talking(work) as talk:
        talk.run(talk.chat.resume(name))
        assert talk.chat.conversation.session  # begun, as /compact and the status line do
        talk.server.says(*[claude_error(529, "overloaded_error", "busy")] * 3)
        talk.leave()
        assert summary(talk, name) == "Sharpening chisels was explained."
        assert talk.server.asked == []


def test_a_summary_of_less_than_all_does_not_stand(work: Path) -> None:
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        talk.server.says(claude("Sharpening chisels was explained."))
        talk.leave()
        talk.server.says(claude("On a leather strop."))
        talk.say("and a razor?")
        talk.server.says(claude_error(401, "authentication_error", "no"))
        talk.leave()
        assert "Last answer: On a leather strop." in summary(talk, talk.session)


def test_a_resumed_chat_that_was_killed_gets_a_summary_from_the_next(work: Path) -> None:
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        talk.server.says(claude("Sharpening chisels was explained."))
        talk.leave()
        name = talk.session
    with talking(work) as talk:
        talk.run(talk.chat.resume(name))
        talk.server.says(claude("On a leather strop."))
        talk.say("and a razor?")
        # It is killed here: nothing is left behind.
    with talking(work) as talk:
        talk.say("something else")
        talk.leave()
        assert "Last answer: On a leather strop." in summary(talk, name)


# Made behind


@pytest.mark.parametrize("line", ["/new", "/resume {other}"])
def test_another_conversation_is_there_before_the_summary(work: Path, line: str) -> None:
    with contextlib.closing(chats_of(work / ".retain")) as sessions:
        other = sessions.create().id
        sessions.add(other, "user", "an old question")
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        name = talk.session
        talk.server.says(claude("Sharpening", ending="hang", keep=4))

        async def swap() -> None:
            shown = await talk.commands.run(line.format(other=other))
            assert not shown.is_error
            assert talk.chat.session is None or talk.chat.session.id == other
            await until_asked(talk, 2)
            assert not talk.server.gone.is_set()  # it is being made, and nobody waits
            async for _ in talk.chat.conversation.send("the next one"):
                pass

        talk.run(swap())
        assert talk.kept[-1] == ("assistant", "Done.")
        talk.run(asyncio.wait_for(talk.chat.leave(0), 60))
        assert talk.server.gone.wait(60)
        assert summary(talk, name).startswith("Asked: how do I sharpen a chisel?")


def test_a_summary_made_behind_is_waited_for_when_leaving(work: Path) -> None:
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        name = talk.session
        talk.server.says(claude("Sharpening chisels was explained."))
        talk.type("/new")
        talk.leave()
        assert summary(talk, name) == "Sharpening chisels was explained."


def test_a_summary_made_behind_is_of_what_was_said_before_it(work: Path) -> None:
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        name = talk.session
        answered = threading.Event()
        explained = claude("Sharpening chisels was explained.")
        talk.server.says(explained._replace(after=answered))

        async def go_back() -> None:
            await talk.chat.new()
            await until_asked(talk, 2)
            await talk.chat.resume(name)
            async for _ in talk.chat.conversation.send("and a razor?"):
                pass
            answered.set()
            async with asyncio.timeout(60):
                while not summary(talk, name).startswith("Sharpening"):
                    await asyncio.sleep(0.02)

        talk.run(go_back())
        assert [one.id for one in talk.chat.sessions.outdated()] == [name]


def test_a_summary_that_fails_behind_is_nobodys_concern(work: Path) -> None:
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        name = talk.session
        talk.server.says(claude_error(401, "authentication_error", "no"))
        assert not talk.type("/new").is_error
        talk.leave()
        assert summary(talk, name).startswith("Asked: how do I")


def test_stopping_during_it_stops_nothing_that_is_made_behind(work: Path) -> None:
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        name = talk.session
        talk.server.says(claude("Sharpening", ending="hang", keep=4))

        async def stopped() -> None:
            await talk.commands.run("/new")
            await until_asked(talk, 2)
            talk.server.says(claude("A long st", ending="hang", keep=4))
            task = asyncio.create_task(consume())
            await until_asked(talk, 3)
            task.cancel()  # as Esc does
            with contextlib.suppress(asyncio.CancelledError):
                await task

        async def consume() -> None:
            conversation = talk.chat.conversation
            async with contextlib.aclosing(conversation.send("a story")) as happenings:
                async for _ in happenings:
                    pass

        talk.run(stopped())
        talk.run(talk.chat.leave(0))
        assert summary(talk, name).startswith("Asked: how do I")
        assert talk.kept[0] == ("user", "a story")


@pytest.mark.parametrize("name", ["catch_up_sessions", "vectorised"])
def test_vectors_that_hang_keep_nobody_from_leaving(
    work: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    begun, enough, over = threading.Event(), threading.Event(), threading.Event()

    def hang(*_: object) -> None:  # as a server does that never answers
        begun.set()
        enough.wait(60)
        over.set()

    async def leave(talk: Talk) -> None:
        task = asyncio.create_task(talk.chat.leave(60))
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        await asyncio.wait([task])

    monkeypatch.setattr(past_sessions, name, hang)
    with talking(work) as talk:
        talk.say("how do I sharpen a chisel?")
        monkeypatch.setattr(past_sessions, "embedder", lambda _: object())
        try:
            talk.run(leave(talk))
            talk.runner.close()
            assert not over.is_set()
        finally:
            enough.set()
