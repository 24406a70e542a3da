"""How sure an answer is, where a bank is little and every question could be answered by luck."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import retain
from retain.app import App
from tests.conftest import own_world

BANKS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("little_banks.toml").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, App]]:
    """Each little bank with every vector made, to be read only."""
    home = tmp_path_factory.mktemp("little")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own_world(home).items():
            patch.setenv(name, value)
        patch.delenv("RETAIN_RECALL_EMBEDDER", raising=False)
        opened = {}
        for number, (name, bank) in enumerate(BANKS.items()):
            opened[name] = retain.open(str(home / str(number)), background=False)
            for note, text in bank["notes"].items():
                opened[name].put(text, id=note)
            opened[name].make_vectors()
        yield opened
        for one in opened.values():
            one.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode, kept_at_least", [("hybrid", 0.85), ("text", 0.7)])
def test_little_banks_are_sure_of_what_they_know_and_not_of_what_they_do_not(
    mode: str, kept_at_least: float, little: Mapping[str, App]
) -> None:
    def is_sure(name: str, question: str) -> bool:
        return little[name].search(question, mode=mode).is_confident

    kept = [is_sure(name, one) for name, bank in BANKS.items() for one in bank["answered"]]
    others = [
        is_sure(name, one)
        for name, bank in BANKS.items()
        for one in bank["unanswered"]["questions"]
    ]
    assert sum(kept) >= kept_at_least * len(kept)
    assert sum(others) <= 0.15 * len(others)


@pytest.mark.slow
def test_little_banks_put_the_answer_first(little: Mapping[str, App]) -> None:
    wrong = {
        question
        for name, bank in BANKS.items()
        for question, note in bank["answered"].items()
        if little[name].search(question).hits[0].id != note
    }
    assert not wrong


# Questions of nothing but a speaker or a date


@pytest.fixture
def talks(thinking: App) -> App:
    thinking.put(
        "Ada: The pilot starts with forty users.\nBen: And we charge nothing at first.",
        id="pilot",
        metadata={"created_at": "2026-05-04T10:00:00Z"},
    )
    thinking.put(
        "Cleo: Our warehouse scans pallets.\nAda: Then the importer has to change.",
        id="pallets",
        metadata={"created_at": "2026-06-20T10:00:00Z"},
    )
    thinking.make_vectors()
    return thinking


@pytest.mark.parametrize("mode", ["hybrid", "text"])
@pytest.mark.parametrize(
    "question, first",
    [
        ("Cleo", "pallets"), ("What did Cleo say?", "pallets"),
        ("what did Ben talk about?", "pilot"), ("what happened in May 2026?", "pilot"),
        ("20 June 2026", "pallets"), ("What did Ada say in June 2026?", "pallets"),
    ],
)  # fmt: skip
def test_question_of_nothing_but_a_speaker_or_a_date_is_answered_by_what_they_said_or_is_of_it(
    question: str, first: str, mode: str, talks: App
) -> None:
    answer = talks.search(question, mode=mode)
    assert (answer.hits[0].id, answer.is_confident) == (first, True)


@pytest.mark.parametrize("mode", ["hybrid", "text"])
@pytest.mark.parametrize(
    "question",
    [
        "What did Zoe say?", "what happened in March 2021?", "What did Cleo say about penguins?",
        "what happened to the volcano in May 2026?",
    ],
)  # fmt: skip
def test_a_speaker_or_a_date_alone_answers_no_other_question(
    question: str, mode: str, talks: App
) -> None:
    assert not talks.search(question, mode=mode).is_confident
