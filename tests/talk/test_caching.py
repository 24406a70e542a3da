"""A provider that kept what it has read finds it again, to the byte, in the next request."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from retain.app import App
from tests.talk.models.sides import SIDES
from tests.talk.servers import Asked, Use, claude
from tests.talk.talking import talking

FOUR = 4  # marks that the API takes


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


def remember(work: Path) -> None:
    app = App(cwd=str(work))
    app.put("The walrus eats fish.", id="food")
    app.put("The heron stands on one leg.", id="heron")
    app.close()


def pieces(asked: Asked) -> list[tuple[str, bool]]:
    """All that is read, in its order, and whether it is kept up to there."""
    body = asked.body
    read: list[Any] = [*body.get("tools", ()), *body["system"]]
    for message in body["messages"]:
        read += [{"role": message["role"], **block} for block in message["content"]]
    return [
        (json.dumps({k: v for k, v in one.items() if k != "cache_control"}), "cache_control" in one)
        for one in read
    ]


def kept(asked: Asked) -> list[list[str]]:
    """What a provider keeps: everything up to each of the marks."""
    read = pieces(asked)
    return [[text for text, _ in read[: at + 1]] for at, (_, marked) in enumerate(read) if marked]


def shared(one: Asked, other: Asked) -> int:
    """How many pieces the second need not read again, of what the first has left with marks."""
    later = [text for text, _ in pieces(other)]
    ends = [len(start) for start in kept(one) if later[: len(start)] == start]
    # A provider looks for what it kept at the marks of the new request, and some way before.
    return max((end for end in ends if any(end <= len(start) for start in kept(other))), default=0)


@pytest.mark.parametrize("provider", sorted(SIDES))
def test_the_system_prompt_is_the_same_whatever_is_recalled(work: Path, provider: str) -> None:
    remember(work)
    with talking(work, provider) as talk:
        talk.say("what does the walrus eat?")
        first = talk.system
        assert "eats fish" in talk.asked.last
        assert talk.asked.last.endswith("what does the walrus eat?")
        talk.say("how does the heron stand?")
        assert talk.system == first
        assert "one leg" in talk.asked.last
        assert "eats fish" not in talk.asked.text  # it was for the other message
        assert talk.kept[0] == ("user", "what does the walrus eat?")
        assert talk.kept[2] == ("user", "how does the heron stand?")


def test_two_requests_share_all_that_was_said_before_the_first(work: Path) -> None:
    remember(work)
    with talking(work) as talk:
        for text in ("hello", "what does the walrus eat?", "how does the heron stand?", "so?"):
            talk.say(text)
        asked = talk.server.asked
        for one in asked:
            assert len(kept(one)) <= FOUR
        assert [one.body["system"] for one in asked] == [asked[0].body["system"]] * 4
        system = len(asked[0].body["system"]) + len(asked[0].body["tools"])
        # Of each conversation all but its newest message is found again: one message is one piece.
        assert shared(asked[1], asked[2]) == system + 2
        assert shared(asked[2], asked[3]) == system + 4


def test_rounds_of_tools_share_the_whole_request_before(work: Path) -> None:
    remember(work)
    with talking(work) as talk:
        talk.say("hello")
        use = claude(Use("read_file", {"path": "."}))
        talk.server.says(*[use] * 9, claude("Fish."))
        talk.say("what does the walrus eat?")
        rounds = talk.server.asked[1:]
        for one, other in itertools.pairwise(rounds):
            assert shared(one, other) == len(pieces(one))
        talk.say("and the heron?")
        before = len(pieces(rounds[0])) - 2  # what was recalled, and the words
        # However many tools were used since, there is a mark right at what was kept.
        assert before in [len(start) for start in kept(talk.asked)]
        assert shared(rounds[0], talk.asked) == before


def test_a_profile_that_changes_is_sent_as_it_is(work: Path) -> None:
    with talking(work) as talk:
        talk.say("hello")
        (work / ".retain" / "MEMORY.md").write_text("- Jo has a walrus\n", encoding="utf-8")
        talk.say("and now?")
        first, second = (one.body["system"] for one in talk.server.asked)
        assert "Jo has a walrus" in second[-1]["text"]
        assert first[0] == second[0]  # the instructions, and the rules, stay as they were
