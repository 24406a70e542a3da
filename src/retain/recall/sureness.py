"""How sure a search is that anything fits, in the same words wherever people read its answer."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from retain import words
from retain.model import Answer

__all__ = ["sureness", "terms"]

_MOST: Final = 2_000  # characters of a question
_GOOD: Final = 0.8


def terms(question: str) -> frozenset[str]:
    """What is looked for in the answers to a question: its terms, as the index knows them."""
    return frozenset(words.query(question[:_MOST]))


def sureness(answer: Answer, wanted: Set[str]) -> str:
    """How well the best of an answer fits a question of these terms; empty if there is none."""
    if not answer.hits:
        return ""
    if answer.is_confident:
        return "A good fit." if answer.confidence >= _GOOD else "A likely fit."
    first = answer.hits[0]
    has = wanted & set(words.words(f"{first.title} {first.header_path} {first.text}"))
    if not has:
        return "Nothing fits well. These come nearest."
    # Whoever looks for a number or a name has found it, whatever it may mean.
    return "The words fit." if has == wanted else "Nothing fits well, only some of the words."
