"""The text arm over the files themselves, for a hook in a bank that has no index to look at.

A bank may be fresh from a repository, or another process may be building its index just now. Few
banks are so large that their words cannot be read in the time a hook has; of those that are, as
much is looked at as there is time for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from retain.errors import RetainError
from retain.index.text import Lexicon, rarity_of, shares_of
from retain.reading import Reader
from retain.recall.found import Found, lowered, outdated
from retain.recall.quick import best, likely, terms
from retain.recall.scoring import TEXT, shown
from retain.records import searchable
from retain.words import bag

if TYPE_CHECKING:
    from retain.model import Memory
    from retain.place import Place

__all__ = ["unindexed"]

_MOST_CHARS: Final = 4_000  # of a memory


def unindexed(
    place: Place, question: str, limit: int, is_late: Callable[[], bool], max_bytes: int
) -> list[Found]:
    """The memories that fit a question best, of those that could be read in time."""
    memories: list[Memory] = []
    bags: list[str] = []
    try:
        for memory in Reader(place, max_bytes=max_bytes).memories():
            if is_late():
                break
            if memory.status != "retired":
                memories.append(memory)
                bags.append(bag(_words(memory)))
    except (RetainError, OSError):
        pass  # what was read until then must do
    lexicon = _lexicon(terms(question), bags)
    spaced = [f" {term} " for term in lexicon.rarity]
    shares = {
        number: shares_of(spaced, one, TEXT.k1, lexicon.average) for number, one in enumerate(bags)
    }
    scores = likely({number: one for number, one in shares.items() if any(one)}, lexicon)
    found = (_found(memories[number], place, score) for number, score in scores.items())
    return best(found, limit)


def _words(memory: Memory) -> str:
    tags = " ".join(memory.tags)
    return f"{memory.title} {memory.id} {tags} {searchable(memory)[:_MOST_CHARS]}"


def _lexicon(wanted: tuple[str, ...], bags: list[str]) -> Lexicon:
    counts = {term: sum(f" {term} " in f" {one} " for one in bags) for term in wanted}
    length = sum(one.count(" ") + 1 for one in bags)
    rarity = {term: rarity_of(len(bags), count) for term, count in counts.items()}
    return Lexicon(rarity, counts, len(bags), length / len(bags) if bags else 1.0)


def _found(memory: Memory, place: Place, score: float) -> Found:
    by = memory.superseded_by
    score = lowered(score, bool(by), memory.status)
    return Found(
        memory.id,
        memory.collection,
        memory.title,
        memory.type,
        memory.tags,
        memory.text("created_at"),
        searchable(memory)[:_MOST_CHARS],
        memory.path,
        place.scope,
        round(shown(score, TEXT, 0.0), 4),
        outdated(bool(by), by, memory.status),
    )
