"""What the chat says besides the model, and what it recalls of what was typed."""

from __future__ import annotations

import pytest

from retain.chat import texts
from retain.chat.entry import InputHistory
from retain.chat.screen import _fitting
from retain.errors import NotFound
from retain.talk.commands import told
from retain.talk.retention import Saved


@pytest.mark.parametrize(
    "saved, line",
    [
        (Saved("Tea", "facts/tea", "saved"), "✦ Memory saved: Tea · /forget tea"),
        (
            Saved("Tea", "global:facts/tea", "saved"),
            "✦ Memory saved: Tea · in your own bank · /forget tea",
        ),
        (Saved("Tea", "global:facts/tea", "known"), "✦ Known already: Tea · in your own bank"),
        (
            Saved("Tea", "facts/tea", "supersedes", "facts/coffee"),
            "✦ Memory saved: Tea · replaces facts/coffee · /forget tea",
        ),
        (Saved("Tea", "facts/tea", "known"), "✦ Known already: Tea"),
        (Saved("Tea", "", "refused", notes=("too long",)), "Not saved: Tea (too long)"),
        (
            Saved("Tea", "facts/tea", "saved", notes=("a secret was taken out",)),
            "✦ Memory saved: Tea (a secret was taken out) · /forget tea",
        ),
        (Saved("T\x1bea\n", "facts/tea", "saved"), "✦ Memory saved: T\\x1bea · /forget tea"),
    ],
)
def test_what_became_of_a_fact(saved: Saved, line: str) -> None:
    assert told(saved) == line


def test_an_error_is_one_line_with_its_hint() -> None:
    error = NotFound("no fact speaks\nof that", hint="`/memories` lists them.")
    assert texts.error(error) == "✗ No fact speaks of that. `/memories` lists them."


@pytest.mark.parametrize(
    "count, shown",
    [(0, "0"), (999, "999"), (3210, "3.2k"), (195_400, "195k"), (1_000_000, "1M")],
)
def test_amounts_are_short(count: int, shown: str) -> None:
    assert texts.amount(count) == shown


@pytest.mark.parametrize(
    "width, shown",
    [
        (40, "model · 3k/195k tokens · a long title"),
        (35, "model · 3k/195k tokens · a long ti…"),
        (25, "model · 3k/195k tokens"),
        (3, "mo…"),
        (0, "…"),
    ],
)
def test_the_status_says_as_much_as_fits(width: int, shown: str) -> None:
    assert _fitting(["model", "3k/195k tokens", "a long title"], width) == shown


def test_what_was_typed_is_gone_through_and_the_draft_is_kept() -> None:
    typed = InputHistory()
    assert typed.back("draft") is None
    typed.add("here")
    typed.add("here")
    typed.load(["earlier", "later"])
    assert [typed.back("draft") for _ in range(4)] == ["here", "later", "earlier", None]
    assert [typed.forward() for _ in range(4)] == ["later", "here", "draft", None]
