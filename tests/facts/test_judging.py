"""What a new fact is to one that is known: nothing new, a replacement, or another fact."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.embed.local import MINILM
from retain.facts.judging import KNOWN, REPLACES, judged, same_key

OTHER = ""

# What is known, what is new, the verdict, and the verdict without a model where it differs.
PAIRS: dict[tuple[str, str], tuple[str, ...]] = {
    ("JR loves skiing", "JR enjoys skiing"): (KNOWN,),
    ("JR enjoys skiing at Taos", "JR loves skiing"): (KNOWN,),
    ("JR loves skiing", "JR enjoys skiing at Taos"): (REPLACES,),
    ("JR loves skiing", "JR hates skiing"): (REPLACES,),
    ("JR loves skiing", "JR loves climbing"): (OTHER,),
    ("JR likes tea if it is green", "JR likes tea"): (OTHER,),
    ("User prefers dark mode", "Prefers dark mode."): (KNOWN,),
    ("JR does not like tea", "JR doesn't like tea"): (KNOWN,),
    ("Anna likes tea", "Anna doesn't like tea"): (REPLACES,),
    ("Anna prefers tea", "Anna prefers coffee"): (REPLACES, OTHER),
    ("Prefers tea", "Prefers sushi"): (OTHER,),
    ("Prefers dark mode", "Prefers light mode"): (REPLACES, OTHER),
    ("Prefers TypeScript over JavaScript", "Prefers concise responses"): (OTHER,),
    ("Prefers tabs over spaces", "Prefers spaces over tabs"): (REPLACES,),
    ("Jamie prefers Go over Rust", "Jamie prefers Go to Rust"): (KNOWN, OTHER),
    ("Uses npm", "Uses Bun instead of npm"): (REPLACES,),
    ("Uses npm", "No longer uses npm"): (REPLACES,),
    ("Uses npm as the JS package manager", "Uses Bun as the JS package manager"): (REPLACES,),
    # Nobody can tell from the words that these exclude each other, so both are kept.
    ("Uses npm", "Uses Bun as the JS runtime"): (OTHER,),
    ("Uses Bun as the JS runtime", "Uses Bun as JavaScript runtime"): (KNOWN,),
    ("The API uses Postgres", "The API uses Postgres test containers"): (OTHER,),
    ("The project uses Postgres", "The project uses Redis"): (OTHER,),
    ("Anna reports to Ben", "Ben reports to Anna"): (OTHER,),
    ("Maria is Tom's manager", "Tom is Maria's manager"): (OTHER,),
    ("Anna's brother lives in Rome", "Anna's sister lives in Rome"): (OTHER,),
    ("Lives in Denver", "Lives in Boulder"): (REPLACES,),
    ("Lives in Denver", "Moved from Denver to Boulder"): (REPLACES,),
    ("Birthday is in May", "Birthday is in June"): (REPLACES,),
    ("The default branch is main", "The default branch is trunk"): (REPLACES,),
    ("Speaks French", "Speaks German"): (OTHER,),
    ("Allergic to peanuts", "Allergic to penicillin"): (OTHER,),
    ("The build needs Node 18.", "The build needs Node 20."): (REPLACES,),
    ("The database listens on port 5432.", "The database listens on port 5433."): (REPLACES,),
    ("Server 1 is in Berlin", "Server 2 is in Berlin"): (OTHER,),
    ("Has met Bob on 2026-01-03", "Has met Bob on 2026-02-05"): (OTHER,),
    ("Flags are enabled in production.", "Flags are not enabled in production."): (REPLACES,),
    ("Flags are enabled in production", "Flags are disabled in production"): (REPLACES,),
    ("Uses C", "Uses C++"): (OTHER,),
    ("他喜欢茶", "他喜欢咖啡"): (OTHER,),
}


def near(text: str, others: Sequence[str]) -> list[float]:
    vectors = MINILM.embed([text, *others])
    return [float(score) for score in vectors[1:] @ vectors[0]]


def nobody(_text: str, _others: Sequence[str]) -> None:
    return None


@pytest.mark.parametrize("pair", PAIRS, ids="; ".join)
def test_facts_are_judged(pair: tuple[str, str]) -> None:
    known, new = pair
    assert judged(new, [known], near).status == PAIRS[pair][0]
    assert judged(new, [known], nobody).status == PAIRS[pair][-1]


def test_a_known_fact_is_named_among_many() -> None:
    known = [old for old, _ in PAIRS]
    verdict = judged("JR adores skiing", known, near)
    assert (verdict.status, known[verdict.numbers[0]]) == (KNOWN, "JR loves skiing")


def test_all_facts_that_are_replaced_are_named() -> None:
    known = ["The build needs Node 18", "Kettles boil water", "The build needs Node 16"]
    assert judged("The build needs Node 20", known, near).numbers == (0, 2)


def test_a_comparison_that_wanted_a_model_says_so() -> None:
    assert judged("Anna prefers coffee", ["Anna prefers tea"], nobody).is_by_words
    assert not judged("Anna prefers coffee", ["Anna prefers tea"], near).is_by_words
    assert not judged("Kettles boil", ["Anna prefers tea"], nobody).is_by_words


@pytest.mark.parametrize(
    "one, other, is_same",
    [
        ("Uses Bun", " uses  BUN. ", True),
        ("Uses «Bun»", "Uses Bun", True),
        ("Straße", "STRASSE", True),
        ("Uses C", "Uses C++", False),
        ("Costs $5", "Costs €5", False),
        ("3.11", "3 11", True),
        ("I ♥ NY", "I NY", False),
        ("...", "", True),
    ],
)
def test_case_space_and_punctuation_do_not_part_facts(one: str, other: str, is_same: bool) -> None:
    assert (same_key(one) == same_key(other)) is is_same


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=3))
def test_any_texts_can_be_compared(new: str, known: list[str]) -> None:
    assert judged(new, known, nobody).status in ("", KNOWN, REPLACES)
    assert judged(new, [new], nobody).status == KNOWN
