"""What a new fact is to one that is known: nothing new, a replacement, or another fact."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.facts.compare import KNOWN, REPLACES, compare, same_key
from retain.index.embed import MINILM

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

# More of them, which words alone decide.
PLAIN: dict[tuple[str, str], str] = {
    ("Works at Acme", "Works at Globex"): REPLACES,
    ("Jamie works at Acme", "Jamie works at Globex now"): REPLACES,
    ("Jamie works for Acme", "Jamie works for Globex"): REPLACES,
    ("Jamie works at Acme", "Jamie now works at Globex"): REPLACES,
    ("Manager is Bob", "Manager is Ana"): REPLACES,
    ("Jamie's manager is Bob", "Jamie's manager is Ana"): REPLACES,
    ("Jamie's manager is Bob", "Jamie's manager is now Ana"): REPLACES,
    ("The manager of Jamie is Bob", "The manager of Jamie is Ana Lopez"): REPLACES,
    ("Editor is Vim", "Editor is Helix"): REPLACES,
    ("Jamie's editor is Vim", "Jamie's editor is VS Code"): REPLACES,
    ("Lives in Berlin", "Lives in Lisbon"): REPLACES,
    ("Jamie lives in Berlin", "Jamie lives in Lisbon"): REPLACES,
    ("Jamie lives in Berlin", "Jamie now lives in Lisbon"): REPLACES,
    ("Jamie lives in Berlin", "Jamie moved to Lisbon"): REPLACES,
    ("Jamie lives in Berlin", "Jamie moved from Berlin to Lisbon"): REPLACES,
    ("Uses npm", "Uses pnpm instead of npm"): REPLACES,
    ("Jamie uses npm", "Uses pnpm instead of npm"): REPLACES,
    ("Jamie uses npm", "Jamie uses pnpm instead of npm"): REPLACES,
    ("Jamie uses npm", "Jamie switched from npm to pnpm"): REPLACES,
    ("Jamie uses npm", "Jamie replaced npm with pnpm"): REPLACES,
    ("Jamie uses npm", "Jamie stopped using npm"): REPLACES,
    ("Jamie uses npm", "Jamie does not use npm any more"): REPLACES,
    ("Jamie uses npm", "Jamie no longer uses npm"): REPLACES,
    ("Uses Python 3.11", "Uses Python 3.12"): REPLACES,
    ("Has two cats", "Has three cats"): REPLACES,
    ("Favourite language is Python", "Favourite language is Rust"): REPLACES,
    ("Favorite color is blue", "Favourite color is green"): REPLACES,
    ("The favourite editor of Jamie is Vim", "The favourite editor of Jamie is Helix"): REPLACES,
    ("Default branch is main", "Default branch is trunk"): REPLACES,
    ("Timezone is Europe/Berlin", "Timezone is Europe/Lisbon"): REPLACES,
    ("Jamie's shell is zsh", "Jamie's shell is fish"): REPLACES,
    ("Jamie's job title is engineer", "Jamie's job title is manager"): REPLACES,
    ("Jamie is 30 years old", "Jamie is 31 years old"): REPLACES,
    ("Name is Jamie", "Name is James"): REPLACES,
    ("Email is a@b.org", "Email is c@d.org"): REPLACES,
    ("The API listens on port 8080", "The API listens on port 9090"): REPLACES,
    ("The API is hosted on Fly", "The API is hosted on Render"): REPLACES,
    ("The database is Postgres", "The database is SQLite"): REPLACES,
    ("The test runner is pytest", "The test runner is unittest"): REPLACES,
    ("Package manager is npm", "Package manager is pnpm"): REPLACES,
    ("Uses Vim as the editor", "Uses Helix as the editor"): REPLACES,
    ("Jamie's wife is Ann", "Jamie's wife is Eve"): REPLACES,
    ("Jamie studies at MIT", "Jamie studies at ETH"): REPLACES,
    ("Jamie reports to Bob", "Jamie reports to Ana"): REPLACES,
    ("Jamie works at Acme", "Jamie works at Acme as an engineer"): REPLACES,
    ("Jamie has a Volvo", "Jamie replaced the Volvo with a Saab"): REPLACES,
    ("Jamie lives in Berlin", "Jamie used to live in Berlin"): REPLACES,
    ("The team moved to Slack", "The team moved to Teams"): REPLACES,
    ("Employer is Acme", "Employer is Globex"): REPLACES,
    ("Jamie works at Acme", "Ann works at Globex"): OTHER,
    ("Works on the billing service", "Works on the search service"): OTHER,
    ("Works with Ana", "Works with Bob"): OTHER,
    ("Works as a nurse", "Works as a teacher"): OTHER,
    ("Jamie's manager is Bob", "Ann's manager is Ana"): OTHER,
    ("Jamie lives in Berlin", "Ann lives in Lisbon"): OTHER,
    ("Jamie lives in Berlin", "Jamie lives with Ann"): OTHER,
    ("Jamie uses npm", "Ann uses pnpm instead of npm"): OTHER,
    ("Jamie uses npm", "Jamie uses pnpm"): OTHER,
    ("Uses Python", "Uses Rust"): OTHER,
    ("Uses Python", "Uses Python 3.12"): OTHER,
    ("Knows Python", "Knows Rust"): OTHER,
    ("Speaks English", "Speaks Portuguese"): OTHER,
    ("Likes tea", "Likes coffee"): OTHER,
    ("Has a cat", "Has a dog"): OTHER,
    ("Jamie is a nurse", "Jamie is a pilot"): OTHER,
    ("Jamie is vegetarian", "Jamie is tall"): OTHER,
    ("The API is deployed to Fly", "The API is deployed to Render"): OTHER,
    ("The package manager is npm", "Uses pnpm as the package manager"): OTHER,
    ("Jamie drives a Volvo", "Jamie drives a Saab"): OTHER,
    ("Jamie has a meeting on Monday", "Jamie has a meeting on Tuesday"): OTHER,
    ("Jamie's sister is Ann", "Jamie's sister is Eve"): OTHER,
    ("Jamie's friend is Bob", "Jamie's friend is Ana"): OTHER,
    ("Is on the platform team", "Is on the data team"): OTHER,
    ("Prefers tabs", "Prefers spaces"): OTHER,
    ("Jamie works at Acme", "Works at Acme"): OTHER,
    ("The office is in Berlin", "The office is in Lisbon"): OTHER,
    ("The staging server is in Berlin", "The production server is in Berlin"): OTHER,
    ("Deploys on Fridays", "Deploys on Mondays"): OTHER,
    ("Jamie works remotely", "Jamie works at the office"): OTHER,
    ("Jamie works at Acme on Mondays", "Jamie works at Globex on Tuesdays"): OTHER,
    ("Lives in Berlin in summer", "Lives in Lisbon in winter"): OTHER,
    ("Jamie's first editor is Vim", "Jamie's second editor is Helix"): OTHER,
    ("Jamie's old manager is Bob", "Jamie's manager is Ana"): OTHER,
    ("Jamie's manager is Bob", "Jamie's manager is nice"): OTHER,
    ("Acme employs Bob", "Acme employs Ana"): OTHER,
    ("The trick works for lists", "The trick works for tuples"): OTHER,
    ("The database is slow", "The database is large"): OTHER,
    ("The database is Postgres", "The database is slow"): OTHER,
    ("Jamie has a Volvo", "Jamie replaced the battery of the Volvo"): OTHER,
    ("Jamie's manager is Bob", "The manager of Ann is Eve"): OTHER,
    ("Uses Ruff as linter", "Uses ESLint as linter"): OTHER,
    ("Jamie lives in Berlin", "Jamie resides in Berlin"): KNOWN,
    ("Jamie works at Acme as an engineer", "Jamie works at Acme"): KNOWN,
    ("Jamie has two cats", "Jamie has 2 cats"): KNOWN,
    ("Jamie now works at Acme", "Jamie works at Acme"): KNOWN,
}


def near(text: str, others: Sequence[str]) -> list[float]:
    vectors = MINILM.embed([text, *others])
    return [float(score) for score in vectors[1:] @ vectors[0]]


def nobody(_text: str, _others: Sequence[str]) -> None:
    return None


@pytest.mark.parametrize("pair", PAIRS, ids="; ".join)
def test_facts_are_judged(pair: tuple[str, str]) -> None:
    known, new = pair
    assert compare(new, [known], near).status == PAIRS[pair][0]
    assert compare(new, [known], nobody).status == PAIRS[pair][-1]


@pytest.mark.parametrize("pair", PLAIN, ids="; ".join)
def test_words_tell_what_changed(pair: tuple[str, str]) -> None:
    known, new = pair
    assert compare(new, [known], nobody).status == PLAIN[pair]


def test_a_known_fact_is_named_among_many() -> None:
    known = [old for old, _ in PAIRS]
    verdict = compare("JR adores skiing", known, near)
    assert (verdict.status, known[verdict.numbers[0]]) == (KNOWN, "JR loves skiing")


def test_all_facts_that_are_replaced_are_named() -> None:
    known = ["The build needs Node 18", "Kettles boil water", "The build needs Node 16"]
    assert compare("The build needs Node 20", known, near).numbers == (0, 2)


def test_a_comparison_that_wanted_a_model_says_so() -> None:
    assert compare("Anna prefers coffee", ["Anna prefers tea"], nobody).is_by_words
    assert not compare("Anna prefers coffee", ["Anna prefers tea"], near).is_by_words
    assert not compare("Kettles boil", ["Anna prefers tea"], nobody).is_by_words


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
    assert compare(new, known, nobody).status in ("", KNOWN, REPLACES)
    assert compare(new, [new], nobody).status == KNOWN
