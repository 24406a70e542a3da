"""A conversation that outgrows its model: what is left out is said, and what is refused shrinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from retain.app import App
from retain.talk.events import Assembled, Finished
from retain.talk.models import ModelError
from tests.talk.models.sides import SIDES
from tests.talk.servers import claude
from tests.talk.talking import Talk, notices, talking, text_of


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


def chatter(talk: Talk, count: int) -> list[list[str]]:
    return [notices(talk.say(f"part {number}: " + "words " * 600)) for number in range(count)]


def test_that_older_messages_are_left_out_is_said_once(work: Path) -> None:
    with talking(work, RETAIN_CHAT_CONTEXT_TOKENS="8000") as talk:
        said = chatter(talk, 9)
        told = [lines for lines in said if lines]
        assert len(told) == 1
        assert "oldest messages are not sent" in told[0][0]
        assert "/compact" in told[0][0]
        assert said[0] == []
        prompt = talk.chat.prompt
        assert prompt
        assert prompt.unsent > 0
        assert "part 0" not in talk.asked.text
        shown = talk.type("/context").text
        assert f"- {prompt.unsent} older messages: no room; /compact summarises them" in shown


def test_a_conversation_that_fits_leaves_nothing_out(work: Path) -> None:
    with talking(work) as talk:
        assert chatter(talk, 2) == [[], []]
        assert talk.chat.prompt
        assert talk.chat.prompt.unsent == 0


@pytest.mark.parametrize("provider", sorted(SIDES))
def test_what_is_too_long_is_sent_again_with_less(work: Path, provider: str) -> None:
    with talking(work, provider) as talk:
        chatter(talk, 4)
        talk.server.says(talk.side.too_long, talk.side.says("It fits now."))
        count = len(talk.server.asked)
        happenings = talk.say("and then?")
        assert text_of(happenings) == "It fits now."
        assert isinstance(happenings[-1], Finished)
        assert len(talk.server.asked) == count + 2
        refused, taken = talk.server.asked[-2:]
        assert "part 0" in refused.text
        assert "part 0" not in taken.text
        assert taken.last.endswith("and then?")
        first, second = (one.prompt for one in happenings if isinstance(one, Assembled))
        assert second.tokens < first.tokens
        assert talk.kept[-2:] == [("user", "and then?"), ("assistant", "It fits now.")]
        talk.say("more?")  # what was learned of its room holds for the next as well
        assert len(talk.server.asked) == count + 3
        assert "part 0" not in talk.asked.text


def test_what_is_too_long_twice_says_what_to_do(work: Path) -> None:
    with talking(work) as talk:
        chatter(talk, 4)
        talk.server.says(talk.side.too_long, talk.side.too_long)
        count = len(talk.server.asked)
        with pytest.raises(ModelError) as failed:
            talk.say("and then?")
        assert failed.value.kind == "too_long"
        assert "/compact" in failed.value.hint
        assert len(talk.server.asked) == count + 2
        assert talk.kept[-1] == ("user", "and then?")


def test_less_is_recalled_where_a_model_has_less_room(work: Path) -> None:
    app = App(cwd=str(work))
    for number in range(12):
        app.put(f"The walrus number {number} eats fish. " * 20, id=f"w{number}")
    with talking(work) as talk:
        talk.server.says(talk.side.too_long, claude("Fish."))
        talk.say("what does the walrus eat?")
        refused, taken = talk.server.asked
        assert len(taken.last) < len(refused.last)


def test_a_conversation_too_long_to_compact_is_compacted_from_its_ends(work: Path) -> None:
    with talking(work) as talk:
        chatter(talk, 14)
        talk.server.says(talk.side.too_long, claude("Fourteen parts."))
        assert talk.run(talk.chat.conversation.compact()) == "Fourteen parts."
        refused, taken = talk.server.asked[-2:]
        assert len(taken.last) < len(refused.last)
        assert "[...]" in taken.last
        assert "part 0" in taken.last
        assert "[...]" not in refused.last
