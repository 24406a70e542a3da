"""A reply that the person stops: that it was stopped is kept, and so is what it had flagged."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from retain.errors import Busy
from retain.talk import blocks, chat, skills, threads
from retain.talk.events import ChatEvent, TextDelta, ToolStarted
from tests.talk.models.sides import SIDES
from tests.talk.servers import Use, claude
from tests.talk.talking import Talk, saved, talking

LONG = "It is a long story, and I have only begun it"


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


async def stopped_after(talk: Talk, said: str, until: str) -> list[ChatEvent]:
    """What had happened when the person pressed Esc, some words into the reply."""
    heard: list[ChatEvent] = []

    async def listen() -> None:
        text = ""
        async with contextlib.aclosing(talk.chat.conversation.send(said)) as happenings:
            async for one in happenings:
                heard.append(one)
                text += one.text if isinstance(one, TextDelta) else ""
                if until in text:
                    enough.set()

    enough = asyncio.Event()
    task = asyncio.create_task(listen())
    await asyncio.wait_for(enough.wait(), 60)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return heard


def hang(talk: Talk, text: str) -> None:
    """Have the server say so much, and then nothing."""
    said = talk.side.says(text)
    talk.server.says(said._replace(parts=said.parts[:-3], ending="hang"))


@pytest.mark.parametrize("provider", sorted(SIDES))
def test_that_a_reply_was_stopped_is_kept_and_the_model_is_told(work: Path, provider: str) -> None:
    with talking(work, provider) as talk:
        hang(talk, LONG)
        talk.run(stopped_after(talk, "tell me", "a long story"))
        *_, kept = talk.chat.sessions.messages(talk.session)
        assert kept.content.startswith("It is a long story")
        assert blocks.STOPPED not in kept.content
        assert [one["type"] for one in kept.blocks] == ["text", "stopped"]
        name = talk.session
        talk.run(talk.chat.new())
        talk.run(talk.chat.resume(name))
        *_, again = talk.chat.sessions.messages(name)
        *_, last = blocks.turn(again).blocks  # as a screen shows it
        assert getattr(last, "text", "") == blocks.STOPPED
        talk.say("go on")
        assert blocks.STOPPED in talk.asked.text


def test_a_reply_that_came_to_its_end_has_no_mark(work: Path) -> None:
    with talking(work) as talk:
        talk.say("hello")
        assert [one.blocks for one in talk.chat.sessions.messages(talk.session)] == [(), ()]


def test_tools_that_were_stopped_say_so_themselves(work: Path) -> None:
    with talking(work) as talk:
        talk.server.says(claude("I look.", Use("run_command", {"command": "sleep 600"})))

        async def stop() -> None:
            async with contextlib.aclosing(talk.chat.conversation.send("look")) as happenings:
                async for one in happenings:
                    if type(one).__name__ == "ToolStarted":
                        break

        talk.run(stop())
        talk.say("go on")
        assert blocks.STOPPED not in talk.asked.text
        assert "This was stopped before it was done." in talk.asked.text


def test_a_tool_that_hangs_locks_nobody_in(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, enough, over = threading.Event(), threading.Event(), threading.Event()

    def hang(*_: object) -> str:  # as a disk does that is gone
        begun.set()
        enough.wait(60)
        over.set()
        return ""

    async def stop(talk: Talk) -> None:
        task = asyncio.create_task(listen(talk))
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()  # as Esc does
        await asyncio.wait([task])

    async def listen(talk: Talk) -> None:
        async with contextlib.aclosing(talk.chat.conversation.send("look")) as happenings:
            async for one in happenings:
                assert not isinstance(one, ToolStarted) or one.call.name == "read_skill"

    monkeypatch.setattr(skills, "skill", hang)
    monkeypatch.setattr(threads, "_TURN_SECONDS", 0.2)
    monkeypatch.setattr(chat, "_CLOSE_SECONDS", 0.2)
    with talking(work) as talk:
        talk.server.says(claude("I look.", Use("read_skill", {"name": "gone"})))
        try:
            talk.run(stop(talk))
            assert "This was stopped before it was done." in str(
                talk.chat.sessions.messages(talk.session)[-1].blocks
            )
            with pytest.raises(Busy, match="still uses the memory"):
                talk.say("and now?")
            assert talk.kept[-1] == ("user", "and now?")
            talk.leave()
            assert talk.chat.sessions.get(talk.session).summary
            talk.close()
            assert not over.is_set()
        finally:
            enough.set()
        assert over.wait(60)


def test_facts_that_had_come_are_saved_and_told_with_the_next_message(work: Path) -> None:
    with talking(work) as talk:
        hang(talk, "[MEMORY] Jo has a red car\n\nSo: [MEMORY] Jo has a blue bicycle in the ce")
        heard = talk.run(stopped_after(talk, "cars", "So:"))
        assert saved(heard) == []
        assert [text for _, text in talk.chat.facts()] == ["Jo has a red car"]
        assert saved(talk.say("go on")) == [("saved", "Jo has a red car")]
        assert saved(talk.say("and on")) == []


def test_a_flagged_line_that_was_not_complete_is_no_fact(work: Path) -> None:
    with talking(work) as talk:
        hang(talk, "Well.\nSo: [MEMORY] Jo has a blue bicycle in the ce")
        talk.run(stopped_after(talk, "cars", "So:"))
        assert talk.chat.facts() == []


def test_a_fact_of_a_tool_that_was_stopped_is_told_with_the_next_message(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, enough, over = threading.Event(), threading.Event(), threading.Event()

    with talking(work) as talk:
        retention = talk.chat.conversation.retention
        keep = retention.asked

        def slow(fact: str, replaces: str, session: str, *, by: str) -> str:
            begun.set()
            enough.wait(60)
            done = keep(fact, replaces, session, by=by)
            over.set()
            return done

        async def stop() -> None:
            task = asyncio.create_task(listen())
            assert await asyncio.to_thread(begun.wait, 60)
            task.cancel()
            await asyncio.wait([task])

        async def listen() -> None:
            async with contextlib.aclosing(talk.chat.conversation.send("cars")) as happenings:
                async for _ in happenings:
                    pass

        monkeypatch.setattr(retention, "asked", slow)
        talk.server.says(claude(Use("save_memory", {"fact": "Jo has a red car"})))
        talk.run(stop())
        enough.set()
        assert over.wait(60)
        assert saved(talk.say("go on")) == [("saved", "Jo has a red car")]
        assert saved(talk.say("and on")) == []
