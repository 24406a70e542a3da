"""A secret that is said in a chat reaches the model and not the disk, and the person is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.talk.servers import Use, claude
from tests.talk.talking import chats_of, notices, talking

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TOLD = "A secret was not kept in the chat's history: github-token."


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


def test_a_secret_is_sent_and_not_kept(work: Path) -> None:
    with talking(work) as talk:
        talk.server.says(claude("Noted."), claude(f"It is {KEY}."), claude("Still."))
        assert notices(talk.say(f"My token is {KEY}")) == [TOLD]
        assert KEY in str(talk.asked.body["messages"])
        assert notices(talk.say("What is it?")) == [TOLD]
        assert notices(talk.say("And now?")) == []
        assert str(talk.asked.body["messages"]).count(KEY) == 2
        assert [KEY in text for _, text in talk.kept] == [False] * 6
        talk.server.says(claude(f"They spoke of {KEY}."))
        talk.leave()
        (one,) = talk.chat.sessions.list()
        assert one.summary == "They spoke of [REDACTED:github-token]."
    for path in work.rglob("sessions.db*"):
        assert KEY.encode() not in path.read_bytes()


def test_a_secret_in_a_call_is_not_kept(work: Path) -> None:
    with talking(work) as talk:
        use = Use("search_memory", {"query": f"token {KEY}"}, "toolu_1")
        talk.server.says(claude("Let me see.", use), claude("Nothing."))
        assert notices(talk.say("Is it known?")) == [TOLD]
        assert KEY in str(talk.asked.body["messages"])
        name = talk.session
        talk.leave()
    for path in work.rglob("sessions.db*"):
        assert KEY.encode() not in path.read_bytes()
    sessions = chats_of(work / ".retain")
    assert sessions.messages(name)[1].blocks[1]["id"] == "toolu_1"
    sessions.close()


def test_what_is_sent_again_with_its_secret_is_not_doubled(work: Path) -> None:
    with talking(work) as talk:
        talk.server.says(claude("Yes."))
        talk.run(talk.chat.away(lambda: talk.chat.conversation._begin(f"My token is {KEY}")))
        talk.say(f"My token is {KEY}")
        assert [role for role, _ in talk.kept] == ["user", "assistant"]


def test_secrets_are_kept_if_that_is_set(work: Path) -> None:
    with talking(work, RETAIN_GUARD_REDACT_SECRETS="false") as talk:
        talk.server.says(claude("Noted."))
        assert notices(talk.say(f"My token is {KEY}")) == []
        assert talk.kept[0] == ("user", f"My token is {KEY}")
