"""What a screen says of a conversation that is sent in part, or was stopped."""

from __future__ import annotations

import pytest

from retain.talk.blocks import STOPPED
from tests.chat.stage import Stage, played
from tests.talk.servers import claude

pytestmark = pytest.mark.slow


def test_the_foot_says_how_much_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_CHAT_CONTEXT_TOKENS", "8000")

    async def scene(stage: Stage) -> None:
        for number in range(9):
            async for _ in stage.chat.conversation.send(f"part {number}: " + "words " * 600):
                pass
        await stage.says("and then?")
        assert stage.chat.prompt
        assert stage.chat.prompt.unsent
        await stage.sees(f"{stage.chat.prompt.unsent} older not sent")

    played(scene)


def test_a_reply_that_was_stopped_is_shown_so_when_it_is_resumed() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("The beginning of a long story", ending="hang", keep=9))
        await stage.sends("Tell me")
        await stage.sees("The beginning of")
        await stage.pilot.press("escape")
        await stage.rest()
        session = stage.chat.session
        assert session
        await stage.says("/new")
        await stage.says(f"/resume {session.id}")
        await stage.sees("The beginning of", STOPPED)

    played(scene)
