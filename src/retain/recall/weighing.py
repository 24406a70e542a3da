"""Evidence weighed: a score for every candidate, their order, and how sure it all is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from math import sqrt
from typing import Final, NamedTuple

from retain.index.text import Shares
from retain.recall import scoring
from retain.recall.asking import Asked
from retain.recall.candidates import Candidates, Near, Row
from retain.recall.scoring import Evidence, Signs, Weights
from retain.words import bag

__all__ = ["Boosts", "Linked", "Weighed", "granted", "signs", "weigh"]

Boosts = Callable[[Row], Mapping[str, float]]  # what a memory's score is multiplied by
Linked = Callable[[Collection[int]], Collection[int]]  # the memories that links connect with some

_AGAIN: Final = 100  # candidates that are looked at a second time
_OUTSTANDING: Final = 5  # whole memories that may stand out above the rest
_LOOKED_THROUGH: Final = 50  # best candidates, to see how much of a question is there at all
_DIGITS: Final = 6  # of a score that count
_A_NAME: Final = 2  # terms up to which a title counts fully
_A_QUESTION: Final = 5  # terms from which on it does not count
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
    rows = list(found.rows.values())
    weighed = [
        _weighed(found.weights, row, evidence, boosts(row))
        for row, evidence in zip(rows, _evidence(found, rows), strict=True)
    ]
    weighed.sort(key=_order)
    return _second_look(weighed, found, linked)


def _order(one: Weighed) -> tuple[float, str, str, int]:
    # By name, because numbers say only when something was indexed.
    row = one.row
    return (-one.score, row.collection, row.key, row.chunk)


def _weighed(
    weights: Weights, row: Row, evidence: Evidence, boosts: Mapping[str, float]
) -> Weighed:
    score = scoring.total(evidence, weights)
    for boost in boosts.values():
        score *= boost
    # The last digits depend on the order in which vectors were added up.
    return Weighed(round(score, _DIGITS), row, evidence, boosts)


def _evidence(found: Candidates, rows: Sequence[Row]) -> Iterable[Evidence]:
    """What speaks for each candidate, column by column, because most questions leave some empty."""
    asked, wholes = found.asked, _outstanding(found)
    nothing = [0.0] * len(rows)
    chunks = [row.chunk for row in rows]
    texts = [found.words.get(chunk, 0.0) for chunk in chunks]
    closeness = cache(asked.closeness)
    return map(
        Evidence,
        texts,
        [_surrounded(found, row, text) for row, text in zip(rows, texts, strict=True)],
        found.near.scores_of(chunks) if found.near else nothing,
        [_answers(found, row) for row in rows],
        [_whole(row, wholes) for row in rows] if wholes else nothing,
        [asked.names == (row.who,) for row in rows],
        [closeness(row.created) for row in rows] if asked.whens else nothing,
        [row.asks if row.is_question else 0.0 for row in rows],
        [found.named.get(chunk, 0.0) for chunk in chunks] if found.named else nothing,
        _titles(found, rows),
    )


def _beside(found: Candidates, row: Row, step: int) -> Shares | None:
    """What the chunk before or after has of the question's terms, if it is the same memory's."""
    if row.chunks == 1:
        return None
    shares = found.shares.get(row.chunk + step)
    other = found.rows.get(row.chunk + step) if shares else None
    return shares if other and other.memory == row.memory else None


def _surrounded(found: Candidates, row: Row, text: float) -> float:
    """How well a chunk fits by its words and its neighbours'."""
    if row.chunks == 1:
        return text
    before, after = _beside(found, row, -1), _beside(found, row, 1)
    return _around(found, row, before, after, found.rarity) if before or after else text


def _around(
    found: Candidates,
    row: Row,
    before: Shares | None,
    after: Shares | None,
    weights: Sequence[float],
) -> float:
    """Each term where it counts most: here, or for less in the chunk before or after."""
    nothing = (0.0,) * len(weights)
    here = found.shares.get(row.chunk, nothing)
    share_before, share_after = found.weights.before, found.weights.after
    return sum(
        [
            weight * max(a, share_before * b, share_after * c)
            for weight, a, b, c in zip(
                weights, here, before or nothing, after or nothing, strict=True
            )
        ]
    )


def _answers(found: Candidates, row: Row) -> float:
    """How well the question fits that a chunk follows, if it follows one."""
    if row.chunks == 1 or not _beside(found, row, -1):
        return 0.0
    return found.rows[row.chunk - 1].asks * found.words[row.chunk - 1]


def _whole(row: Row, wholes: Mapping[int, float]) -> float:
    return wholes.get(row.memory, 0.0) * min(1.0, (row.chunks - 1) / _FULL_CHUNKS)


def _titles(found: Candidates, rows: Sequence[Row]) -> Sequence[float]:
    """How much of a question stands in each memory's title; names say nothing about a whole.

    Who types a word or two looks for the memory that is about it. A question says what it wants to
    know, and that seldom stands in a title. What was replaced does not come first for its name.
    """
    weights = [
        (f" {term} ", weight)
        for term, weight in zip(found.lexicon.rarity, found.rarity, strict=True)
        if term not in found.asked.name_terms
    ]
    brevity = min(1.0, max(0.0, (_A_QUESTION - len(weights)) / (_A_QUESTION - _A_NAME)))
    if not brevity or not found.words:
        return [0.0] * len(rows)

    @cache
    def share(title: str) -> float:
        its = f" {bag(title)} "
        there = [weight for term, weight in weights if term in its]
        # A long title is about much.
        return brevity * sum(there) * sqrt(len(there) / (its.count(" ") - 1)) if there else 0.0

    return [0.0 if row.is_superseded else share(row.title) for row in rows]


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


def _second_look(weighed: list[Weighed], found: Candidates, linked: Linked) -> list[Weighed]:
    """Let what follows the first hits gain by its nearness to them: answers come in groups."""
    first, rest = weighed[: scoring.FIRST], weighed[scoring.FIRST : _AGAIN]
    if not rest:
        return weighed
    limit = first[-1].score
    beside = {one.row.chunk + step for one in first for step in (-1, 1)}
    memories = {one.row.memory for one in first}
    connected = linked(memories)
    like = _like_the_best(found.near, [one.row.chunk for one in (first[0], *rest)])
    again = []
    for one, likeness in zip(rest, like, strict=True):
        is_beside = one.row.chunk in beside and one.row.memory in memories
        gained = (
            found.weights.like_the_best * likeness
            + found.weights.beside_the_first * is_beside
            + found.weights.linked_with_the_first * (one.row.memory in connected)
        )
        again.append(
            Weighed(round(one.score + gained, _DIGITS), one.row, one.evidence, one.boosts, gained)
        )
    again.sort(key=_order)
    # What gained so much that it would overtake the first may come right after them.
    capped = [_capped(one, limit) if one.score > limit else one for one in again]
    return [*first, *capped, *weighed[_AGAIN:]]


def _capped(one: Weighed, limit: float) -> Weighed:
    over = one.score - limit
    return one._replace(score=one.score - over, gained=one.gained - over)


def _like_the_best(near: Near | None, chunks: Sequence[int]) -> list[float]:
    """How near all but the first of these chunks are to it, beyond what all have in common."""
    nothing = [0.0] * (len(chunks) - 1)
    if near is None:
        return nothing
    import numpy as np

    places = near.matrix.at(chunks)
    if places[0] < 0:
        return nothing
    vectors = near.matrix.around(places)
    likeness = np.maximum(vectors @ vectors[0] - near.matrix.hub(places), 0) * (places >= 0)
    found: list[float] = likeness[1:].tolist()
    return found


def granted(found: Candidates, weighed: Sequence[Weighed]) -> float:
    """What every good hit gets because the question names a speaker or a date."""
    closest = max((one.evidence.date for one in weighed), default=0.0)
    return found.weights.who * (len(found.asked.names) == 1) + found.weights.date * closest


# Whether there is an answer at all


def signs(found: Candidates, weighed: Sequence[Weighed]) -> Signs:
    """What tells whether the bank holds an answer; names alone tell nothing."""
    if not weighed:
        return Signs()
    rarity = {
        at: value
        for at, (term, value) in enumerate(found.lexicon.rarity.items())
        if term not in found.asked.name_terms
    }
    total = sum(rarity.values())
    words = _words_without_names(found, weighed, rarity, total)
    plain = [
        found.weights.vector * one.evidence.vector + found.weights.text * by_words
        for one, by_words in zip(weighed, words, strict=True)
    ]
    best = max(zip(plain, weighed, strict=True), key=lambda it: (it[0], -it[1].row.chunk))[1].row
    own = found.shares.get(best.chunk, ())
    there = [at for at, share in enumerate(own) if share and at in rarity]
    return Signs(
        cosine=found.near.best if found.near else 0.0,
        window=_window(found, best, rarity, total)
        if found.near
        else max(_window(found, one.row, rarity, total) for one in weighed[:_LOOKED_THROUGH]),
        agreement=_agreement(found.near, zip(words, weighed, strict=True)),
        mass=scoring.mass(sum(rarity[at] for at in there), found.lexicon.chunks),
        terms=len(there),
        chunks=found.lexicon.chunks,
        told=max(_told(found.asked, one.evidence) for one in weighed),
    )


def _told(asked: Asked, evidence: Evidence) -> float:
    """How well the speaker and the date fit of a question that asks for nothing else."""
    if not asked.is_of_whom_or_when:
        return 0.0
    date = min(1.0, evidence.date) if asked.whens else 1.0
    return date if evidence.is_who or not asked.names else 0.0


def _words_without_names(
    found: Candidates, weighed: Sequence[Weighed], rarity: Mapping[int, float], total: float
) -> list[float]:
    """How well each candidate fits by its words and its neighbours', names left out."""
    if not found.asked.name_terms:  # then it is known already
        return [one.evidence.around for one in weighed]
    weights = [
        rarity.get(at, 0.0) / total if total else 0.0 for at in range(len(found.lexicon.rarity))
    ]
    rows = [one.row for one in weighed]
    return [
        _around(found, row, _beside(found, row, -1), _beside(found, row, 1), weights)
        for row in rows
    ]


def _window(found: Candidates, row: Row, rarity: Mapping[int, float], total: float) -> float:
    """The share of the question's words that stand in a chunk or beside it."""
    sides = (found.shares.get(row.chunk), _beside(found, row, -1), _beside(found, row, 1))
    there = {at for one in sides if one for at, share in enumerate(one) if share}
    return sum(rarity.get(at, 0.0) for at in there) / total if total else 0.0


def _agreement(near: Near | None, by_words: Iterable[tuple[float, Weighed]]) -> float:
    """How many of the first by vector are among the first by words."""
    if near is None or not near.first:
        return 0.0
    ranked = sorted(((words, -one.row.chunk) for words, one in by_words if words), reverse=True)
    return sum(-chunk in near.first for _, chunk in ranked[: len(near.first)]) / len(near.first)
