"""What a person types is looked for, whatever it is, and is never syntax."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.errors import LimitExceeded
from retain.sessions.store import Sessions

SAID = (
    "We use foo-bar for the build",
    "C++ is faster than C# here",
    "it's a matter of taste",
    'The quote " and the NEAR operator AND the NOT one',
    "東京の天気は晴れです",
    "arrows look like -> this",
    "100% sure about snake_case",
    "The deployments were migrated to Postgres",
)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    root: Path = tmp_path_factory.mktemp("bank")
    opened = Sessions(str(root))
    begun = opened.create()
    for text in SAID:
        opened.add(begun.id, "user", text)
    opened.remember("Deploys with Postgres 17", "general", begun.id, "facts/pg")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "query, number",
    [
        ("foo-bar", 0),
        ("c++", 1),
        ("it's a matter", 2),
        ('quote "', 3),
        ("天気", 4),
        ("->", 5),
        ("100%", 6),
        ("snake_case", 6),
        ("to", 7),
        ("deploying", 7),
    ],
)
def test_a_message_is_found_by_its_words(sessions: Sessions, query: str, number: int) -> None:
    found = [one.text for one in sessions.search(query) if one.kind == "message"]
    assert SAID[number] in found


@pytest.mark.parametrize(
    "query",
    ['" OR 1=1', "content:x", "foo*", "NEAR(a b)", "^a", "a AND", "(", "{a}", "-", "'; DROP TABLE"],
)
def test_no_query_is_syntax(sessions: Sessions, query: str) -> None:
    sessions.search(query)
    sessions.list(query=query)


@given(st.text(max_size=60))
def test_any_text_can_be_asked_for(sessions: Sessions, query: str) -> None:
    assert len(sessions.search(query, 5)) <= 5


def test_percent_and_underscore_are_characters(sessions: Sessions) -> None:
    assert [one.text for one in sessions.search("%")] == [SAID[6]]
    assert [one.text for one in sessions.search("_")] == [SAID[6]]


def test_facts_and_messages_are_ranked_together(sessions: Sessions) -> None:
    found = sessions.search("postgres deploys")
    assert {one.kind for one in found} == {"memory", "message"}
    assert all(0 < one.score <= 1 for one in found)
    assert {one.title for one in found} == {SAID[0]}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_text_with_all_the_words_comes_before_one_with_some(tmp_path: Path) -> None:
    sessions = Sessions(str(tmp_path))
    begun = sessions.create()
    for text in ("red red red", "a red boat", "a boat", "the house", "a green tree"):
        sessions.add(begun.id, "user", text)
    assert sessions.search("red boat")[0].text == "a red boat"
    sessions.close()


def test_an_endless_question_is_refused(sessions: Sessions) -> None:
    with pytest.raises(LimitExceeded):
        sessions.search("a" * 100_000)
