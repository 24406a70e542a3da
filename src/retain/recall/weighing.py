"""Evidence weighed: a score for every candidate, their order, and how sure it all is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from retain.index.text import Shares
from retain.recall import scoring
from retain.recall.candidates import Candidates, Near, Row
from retain.recall.scoring import Evidence, Signs

__all__ = ["Boosts", "Linked", "Weighed", "granted", "signs", "weigh"]

Boosts = Callable[[Row], Mapping[str, float]]  # what a memory's score is multiplied by
Linked = Callable[[Collection[int]], Collection[int]]  # the memories that links connect with some

_AGAIN: Final = 100  # candidates that are looked at a second time
_OUTSTANDING: Final = 5  # whole memories that may stand out above the rest
_LOOKED_THROUGH: Final = 50  # best candidates, to see how much of a question is there at all
_DIGITS: Final = 6  # of a score that count
_FULL_CHUNKS: Final = 4  # neighbours from which on a memory counts fully as a whole


class Weighed(NamedTuple):
    """A candidate with its score."""

    score: float
    row: Row
    evidence: Evidence
    boosts: Mapping[str, float]
    gained: float = 0.0  # by its nearness to the first hits


def weigh(found: Candidates, boosts: Boosts, linked: Linked) -> list[Weighed]:
    """Every candidate with its score, the best first, equals in the order of their names."""
    scores = found.near.scores_of(list(found.rows)) if found.near else {}
    wholes = _outstanding(found)
    closeness: dict[str, float] = {}
    weighed = [
        _weighed(found, row, _evidence(found, row, scores, wholes, closeness), boosts(row))
        for row in found.rows.values()
    ]
    weighed.sort(key=_order)
    return _second_look(weighed, found, linked)


def _order(one: Weighed) -> tuple[float, str, str, int]:
    # By name, because numbers say only when something was indexed.
    return (-one.score, one.row.collection, one.row.key, one.row.chunk)


def _weighed(
    found: Candidates, row: Row, evidence: Evidence, boosts: Mapping[str, float]
) -> Weighed:
    score = scoring.total(evidence, found.weights)
    for boost in boosts.values():
        score *= boost
    # The last digits depend on the order in which vectors were added up.
    return Weighed(round(score, _DIGITS), row, evidence, boosts)


def _evidence(
    found: Candidates,
    row: Row,
    scores: Mapping[int, float],
    wholes: Mapping[int, float],
    closeness: dict[str, float],
) -> Evidence:
    before, after = _beside(found, row, -1), _beside(found, row, 1)
    text = found.words.get(row.chunk, 0.0)
    around, answers = text, 0.0
    if before or after:
        own = found.shares.get(row.chunk)
        around = _around(found, own, before, after, found.rarity)
    if before:
        answers = found.rows[row.chunk - 1].asks * found.words[row.chunk - 1]
    return Evidence(
        text=text,
        around=around,
        vector=scores.get(row.chunk, 0.0),
        answers=answers,
        whole=wholes.get(row.memory, 0.0) * min(1.0, (row.chunks - 1) / _FULL_CHUNKS),
        is_who=found.asked.names == (row.who,),
        date=_closeness(found, row.created, closeness),
        asks=row.asks if row.is_question else 0.0,
        links=found.named.get(row.chunk, 0.0),
    )


def _beside(found: Candidates, row: Row, step: int) -> Shares | None:
    """What the chunk before or after has of the question's terms, if it is the same memory's."""
    if row.chunks == 1:
        return None
    shares = found.shares.get(row.chunk + step)
    other = found.rows.get(row.chunk + step)
    return shares if other and other.memory == row.memory else None


_NONE: Final = Shares(())


def _around(
    found: Candidates,
    own: Shares | None,
    before: Shares | None,
    after: Shares | None,
    weights: Sequence[float],
) -> float:
    """Each term where it counts most: here, or for less in the chunk before or after."""
    nothing = (0.0,) * len(weights)
    here, there, then = ((one or _NONE).of_terms or nothing for one in (own, before, after))
    share_before, share_after = found.weights.before, found.weights.after
    return sum(
        weight * max(a, share_before * b, share_after * c)
        for weight, a, b, c in zip(weights, here, there, then, strict=True)
    )


def _outstanding(found: Candidates) -> Mapping[int, float]:
    """How far memories stand out as a whole above what the sixth best of them reaches.

    A question of few words says too little for that; names say nothing about a whole.
    """
    terms = sum(term not in found.asked.name_terms for term in found.lexicon.rarity)
    few, many = found.weights.few_terms, found.weights.many_terms
    telling = min(1.0, max(0.0, (terms - few) / (many - few)))
    if not telling:
        return {}
    ranked = sorted(found.wholes.values(), reverse=True)
    usual = ranked[_OUTSTANDING] if len(ranked) > _OUTSTANDING else 0.0
    return {
        memory: telling * (score - usual) for memory, score in found.wholes.items() if score > usual
    }


def _closeness(found: Candidates, created: str, known: dict[str, float]) -> float:
    if not found.asked.whens:
        return 0.0
    if created not in known:
        known[created] = found.asked.closeness(created)
    return known[created]


def _second_look(weighed: list[Weighed], found: Candidates, linked: Linked) -> list[Weighed]:
    """Let what follows the first hits gain by its nearness to them: answers come in groups."""
    first, rest = weighed[: scoring.FIRST], weighed[scoring.FIRST : _AGAIN]
    if not rest:
        return weighed
    limit = first[-1].score
    beside = {one.row.chunk + step for one in first for step in (-1, 1)}
    memories = {one.row.memory for one in first}
    connected = linked(memories)
    like = _like_the_best(found.near, first[0].row.chunk, [one.row.chunk for one in rest])
    again = []
    for one in rest:
        is_beside = one.row.chunk in beside and one.row.memory in memories
        gained = (
            found.weights.like_the_best * like.get(one.row.chunk, 0.0)
            + found.weights.beside_the_first * is_beside
            + found.weights.linked_with_the_first * (one.row.memory in connected)
        )
        again.append(one._replace(score=round(one.score + gained, _DIGITS), gained=gained))
    again.sort(key=_order)
    # What gained so much that it would overtake the first may come right after them.
    capped = [_capped(one, limit) for one in again]
    return [*first, *capped, *weighed[_AGAIN:]]


def _capped(one: Weighed, limit: float) -> Weighed:
    over = max(0.0, one.score - limit)
    return one._replace(score=one.score - over, gained=one.gained - over)


def _like_the_best(near: Near | None, best: int, chunks: Sequence[int]) -> dict[int, float]:
    """How near these chunks are to the best one, beyond what all have in common."""
    if near is None:
        return {}
    import numpy as np

    places = near.matrix.at([best, *chunks])
    if places[0] < 0:
        return {}
    known = places >= 0
    vectors = near.matrix.around(places[known])
    likeness = np.maximum(vectors @ vectors[0] - near.matrix.hub(places[known]), 0)
    numbers = near.matrix.chunks[places[known]]
    return dict(zip(numbers.tolist(), likeness.tolist(), strict=True))


def granted(found: Candidates, weighed: Sequence[Weighed]) -> float:
    """What every good hit gets because the question names a speaker or a date."""
    closest = max((one.evidence.date for one in weighed), default=0.0)
    return found.weights.who * (len(found.asked.names) == 1) + found.weights.date * closest


# Whether there is an answer at all


def signs(found: Candidates, weighed: Sequence[Weighed]) -> Signs:
    """What tells whether the bank holds an answer; names alone tell nothing."""
    rarity = {
        at: value
        for at, (term, value) in enumerate(found.lexicon.rarity.items())
        if term not in found.asked.name_terms
    }
    total = sum(rarity.values())
    weights = [
        rarity.get(at, 0.0) / total if total else 0.0 for at in range(len(found.lexicon.rarity))
    ]
    ranked = [(_plain_score(found, one, weights), one.row) for one in weighed]
    if not ranked:
        return Signs()
    best = max(ranked, key=lambda one: (one[0][0], -one[1].chunk))[1]
    own = found.shares.get(best.chunk, _NONE).of_terms
    there = [at for at, share in enumerate(own) if share and at in rarity]
    return Signs(
        cosine=found.near.best if found.near else 0.0,
        window=_window(found, best, rarity, total)
        if found.near
        else max(_window(found, row, rarity, total) for _, row in ranked[:_LOOKED_THROUGH]),
        agreement=_agreement(found, ranked),
        mass=scoring.mass(sum(rarity[at] for at in there), found.lexicon.chunks),
        terms=len(there),
    )


def _plain_score(found: Candidates, one: Weighed, weights: Sequence[float]) -> tuple[float, float]:
    """A candidate's score by words and vector alone, and by words alone."""
    row = one.row
    if not found.asked.name_terms:  # nothing is left out, so it is known already
        words = one.evidence.around
        return found.weights.vector * one.evidence.vector + found.weights.text * words, words
    own = found.shares.get(row.chunk)
    before, after = _beside(found, row, -1), _beside(found, row, 1)
    words = _around(found, own, before, after, weights) if own or before or after else 0.0
    return found.weights.vector * one.evidence.vector + found.weights.text * words, words


def _window(found: Candidates, row: Row, rarity: Mapping[int, float], total: float) -> float:
    """The share of the question's words that stand in a chunk or beside it."""
    sides = (found.shares.get(row.chunk), _beside(found, row, -1), _beside(found, row, 1))
    there = {at for one in sides if one for at, share in enumerate(one.of_terms) if share}
    return sum(rarity.get(at, 0.0) for at in there) / total if total else 0.0


def _agreement(found: Candidates, ranked: Sequence[tuple[tuple[float, float], Row]]) -> float:
    if found.near is None:
        return 0.0
    by_words = sorted(((words, -row.chunk) for (_, words), row in ranked if words), reverse=True)[
        : len(found.near.first)
    ]
    both = sum(-chunk in found.near.first for _, chunk in by_words)
    return both / len(found.near.first) if found.near.first else 0.0
