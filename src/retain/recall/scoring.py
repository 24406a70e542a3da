"""The one formula: what each part of the evidence adds to a chunk's score.

Every part is on an absolute scale, so that scores of different questions and of different banks
can be compared, and what a memory lacks (a speaker, a date, neighbours) adds nothing. How the
constants were found, and what each part is worth, is in `docs/benchmarks.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log, sqrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = [
    "HYBRID",
    "TEXT",
    "Evidence",
    "Signs",
    "Weights",
    "confidence",
    "mass",
    "parts",
    "shown",
    "total",
]

# What a memory's score is multiplied by that another one replaces, or that was put on a shelf.
SUPERSEDED: Final = 0.5
ARCHIVED: Final = 0.7

FIRST: Final = 5  # hits that stand as they are; the others gain by their nearness to these
ENOUGH: Final = 0.5  # confidence from which on an answer counts as found
_MEASURED: Final = 500  # chunks of the banks by which the signs of an answer were weighed
_SURE_OF_WHOM_OR_WHEN: Final = 0.9
# What one standard deviation counts. The cosines of a question with texts that have nothing to do
# with it are spread by 0.07.
_DEVIATION: Final = 0.07 * 12.2


class Weights(NamedTuple):
    """The constants, for one way of searching."""

    text: float
    vector: float
    k1: float  # how soon repetitions of a word stop counting
    before: float = 0.6  # how much of a word counts that stands in the chunk before
    after: float = 0.4
    answer: float = 0.3  # for what follows a question that fits
    who: float = 0.2
    date: float = 0.1
    title: float = 0.35  # for the words of a short question that the memory's title has
    question: float = 0.12  # taken off what only asks
    whole: float = 0.25  # for a memory that fits as a whole
    few_terms: float = 2.0  # up to so many, a question says too little for that
    many_terms: float = 5.0
    like_the_best: float = 0.1
    beside_the_first: float = 0.05
    linked_with_the_first: float = 0.05
    slope: float = 8.5  # from a score to what is shown, between 0 and 1
    middle: float = 0.4


HYBRID: Final = Weights(text=0.6, vector=0.4, k1=1.2)
TEXT: Final = Weights(
    text=1.0,
    vector=0.0,
    k1=2.0,
    few_terms=0.0,
    many_terms=4.0,
    like_the_best=0.0,
    title=0.6,
    slope=6.0,
)


class Evidence(NamedTuple):
    """What speaks for one chunk."""

    text: float  # its own words
    around: float  # its words with those of its neighbours, where they have more
    vector: float
    answers: float  # how well the question before it fits
    whole: float
    is_who: bool
    date: float
    asks: float  # the share of it that is a question, if it ends in one
    links: float
    title: float  # the share of a short question that the memory's title has


def parts(evidence: Evidence, weights: Weights) -> Mapping[str, float]:
    """What each kind of evidence adds."""
    # Without vectors, what meets none of the words was not found as a question either.
    is_found = weights.vector or evidence.around
    return {
        "text": weights.text * evidence.text,
        "neighbours": weights.text * (evidence.around - evidence.text),
        "vector": weights.vector * evidence.vector,
        "answer": weights.answer * evidence.answers,
        "memory": weights.whole * evidence.whole,
        "speaker": weights.who * evidence.is_who,
        "date": weights.date * evidence.date,
        "links": evidence.links,
        "title": weights.title * evidence.title,
        "question": -weights.question * evidence.asks if is_found else 0.0,
    }


def total(evidence: Evidence, weights: Weights) -> float:
    """The sum of the parts, without naming each: this runs for every candidate."""
    score = (
        weights.text * evidence.around
        + weights.vector * evidence.vector
        + weights.answer * evidence.answers
        + weights.whole * evidence.whole
        + weights.who * evidence.is_who
        + weights.date * evidence.date
        + evidence.links
        + weights.title * evidence.title
    )
    if evidence.asks and (weights.vector or evidence.around):
        score -= weights.question * evidence.asks
    return score


def shown(score: float, weights: Weights, taken_for_granted: float) -> float:
    """A score as it is shown, between 0 and 1, in the same order.

    What every good hit has anyway, because the question names a speaker or a date, is taken off.
    """
    return _logistic(weights.slope * (score - taken_for_granted - weights.middle))


class Signs(NamedTuple):
    """By what one can tell whether a bank holds an answer at all."""

    cosine: float = 0.0  # of the nearest chunk
    window: float = 0.0  # the share of the question's words that the best chunk's surroundings have
    agreement: float = 0.0  # of the first ten by words and by vector
    mass: float = 0.0  # how much of a question the best chunk's own words make up
    terms: int = 0  # how many of the question's words it has
    chunks: int = _MEASURED  # of the bank
    told: float = 0.0  # how well the speaker or the date fits, where nothing else is asked for


def confidence(signs: Signs, weights: Weights) -> float:
    """How likely it is that anything found answers the question."""
    if weights.vector:
        sign = 12.2 * signs.cosine + 1.9 * signs.window + 1.1 * signs.agreement + 3.0 * signs.mass
        sign -= 7.7
    else:
        sign = 4.6 * signs.window + 0.9 * min(signs.terms, 6) - 4.2
    sign += _DEVIATION * _missing_luck(signs.chunks)
    return max(_logistic(sign), _SURE_OF_WHOM_OR_WHEN * signs.told)


def _missing_luck(chunks: int) -> float:
    """By how many standard deviations less something in a small bank fits any question by luck.

    The luckiest of n texts stands about sqrt(2 ln n) deviations above their mean, so what is luck
    among hundreds is a sign among ten.
    """
    return max(0.0, sqrt(2 * log(_MEASURED)) - sqrt(2 * log(max(chunks, 1))))


def mass(rarity: float, chunks: int) -> float:
    """The rarity of the words found, as a share of what a telling question has."""
    once = log(1 + max(0.0, chunks - 0.5) / 1.5)  # the rarity of a word that stands in one chunk
    return min(1.0, rarity / once / 2.67) if once else 0.0


def _logistic(value: float) -> float:
    return 1 / (1 + exp(-max(-60.0, min(60.0, value))))
