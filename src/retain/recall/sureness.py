"""How sure a search is that anything fits, in the same words wherever people read its answer."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from retain import words
from retain.model import Answer

__all__ = ["fits", "sureness", "terms"]

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
    if fits(answer, wanted):
        return "The words fit."
    if _found(answer, wanted):
        return "Nothing fits well, only some of the words."
    return "Nothing fits well. These come nearest."


def fits(answer: Answer, wanted: Set[str]) -> bool:
    """Whether the best of an answer fits: by all that speaks for it, or by every word alone."""
    # Whoever looks for a number or a name has found it, whatever it may mean.
    return answer.is_confident or bool(answer.hits and wanted and _found(answer, wanted) == wanted)


def _found(answer: Answer, wanted: Set[str]) -> Set[str]:
    """The terms that stand in the best of an answer."""
    first = answer.hits[0]
    return wanted & set(words.words(f"{first.title} {first.header_path} {first.text}"))
