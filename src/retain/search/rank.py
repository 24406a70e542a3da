"""A score for every candidate, their order, and how sure it is that any of them is an answer.

Every part of a score is on an absolute scale, so that scores of different questions and of
different banks can be compared, and what a memory lacks (a speaker, a date, neighbours) adds
nothing. How the constants were found, and what each part is worth, is in `docs/benchmarks.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from math import exp, inf, log, sqrt
from typing import Final, NamedTuple

from retain.errors import ConfigError
from retain.memory import Answer, key, parse_time
from retain.search.retrieve import Candidates, Row
from retain.text import tokens

# What a memory's score is multiplied by that another one replaces, or that was put on a shelf.
SUPERSEDED: Final = 0.5
ARCHIVED: Final = 0.7

_GOOD: Final = 0.8
_MOST_JUDGED: Final = 2_000  # characters of a query

_OUTSTANDING: Final = 5  # whole memories that may stand out above the rest
_LOOKED_THROUGH: Final = 50  # best candidates, to see how much of a query is there at all
_DIGITS: Final = 6  # of a score that count
_NAME_TERMS: Final = 2  # terms up to which a title counts fully
_QUESTION_TERMS: Final = 5  # terms from which on it does not count
_FULL_CHUNKS: Final = 4  # neighbours from which on a memory counts fully as a whole
_MEASURED: Final = 500  # chunks of the banks by which the signs of an answer were measured
_SURE_OF_WHO_OR_WHEN: Final = 0.9
# What one standard deviation counts. The cosines of a question with texts that have nothing to do
# with it are spread by 0.07.
_DEVIATION: Final = 0.07 * 12.2


class Weights(NamedTuple):
    """The constants, for one way of searching."""

    text: float
    vector: float
    before: float = 0.6  # how much of a word counts that stands in the chunk before
    after: float = 0.5
    answer: float = 0.3  # for what follows a question that fits
    who: float = 0.15
    date: float = 0.1
    title: float = 0.35  # for the words of a short question that the memory's title has
    question: float = 0.12  # taken off what only asks
    whole: float = 0.3  # for a memory that fits as a whole
    few_terms: float = 2.0  # up to so many, a question says too little for that
    many_terms: float = 5.0
    slope: float = 8.5  # from a score to what is shown, between 0 and 1
    middle: float = 0.4


HYBRID: Final = Weights(text=0.6, vector=0.4)
TEXT: Final = Weights(text=1.0, vector=0.0, few_terms=0.0, many_terms=4.0, title=0.6, slope=6.0)


class Recency(NamedTuple):
    """For how many days a memory counts as recent, and what that multiplies its score by."""

    days: float = 0.0
    factor: float = 1.0
    by_type: Mapping[str, tuple[float, float]] = {}

    @classmethod
    def parse(cls, days: float, factor: float, by_type: str) -> Recency:
        """Recency as settings state it; that of a type is written `plan=14:1.3, fact=0:1`."""
        special = {}
        for part in filter(None, map(str.strip, by_type.split(","))):
            kind, _, numbers = part.partition("=")
            kind_days, _, kind_factor = numbers.partition(":")
            try:
                special[kind.strip()] = (float(kind_days), float(kind_factor or 1))
            except ValueError:
                raise ConfigError(
                    f"memory.recency_by_type is not understood at {part!r}",
                    hint="Write type=days:factor, for example plan=14:1.3, fact=0:1",
                ) from None
        return cls(days, factor, special)


NO_RECENCY: Final = Recency()


class Ranked(NamedTuple):
    """A candidate with its score: the sum of its parts, times every boost."""

    score: float
    row: Row
    parts: Mapping[str, float]
    boosts: Mapping[str, float]


class Ranking:
    """The candidates for one query in one bank, the best first.

    `superseded` are the memories that another one says it replaces, as `collection/key`.
    """

    def __init__(
        self, candidates: Candidates, recency: Recency, superseded: Set[str], now: datetime
    ) -> None:
        self.candidates = candidates
        self.weights = HYBRID if candidates.near else TEXT
        self._recency, self._superseded, self._now = recency, superseded, now
        self._nothing = (0.0,) * len(candidates.lexicon.rarity)
        # By the terms' places, without names: they alone tell nothing about a text.
        self._rarity = [
            0.0 if term in candidates.query.name_terms else rarity
            for term, rarity in candidates.lexicon.rarity.items()
        ]
        self._total = sum(self._rarity) or 1.0
        self._terms = len(list(filter(None, self._rarity)))
        self.ranked = self._rank()
        # What every good hit gets because the query names a speaker or a date.
        self.granted = max((it.parts["date"] for it in self.ranked), default=0.0)
        self.granted += self.weights.who * (len(candidates.query.names) == 1)

    def _rank(self) -> list[Ranked]:
        candidates, query, weights = self.candidates, self.candidates.query, self.weights
        rows = list(candidates.rows.values())
        chunks = [row.chunk for row in rows]
        vectors = candidates.near.scores_of(chunks) if candidates.near else [0.0] * len(rows)
        wholes, titles = self._whole_memories(), self._titles(rows)
        shares = candidates.lexicon.weights
        ranked = []
        for row, vector in zip(rows, vectors, strict=True):
            text = candidates.words.get(row.chunk, 0.0)
            around = self._around(row, shares) if row.chunks > 1 else text
            whole = wholes.get(row.memory, 0.0) * min(1.0, (row.chunks - 1) / _FULL_CHUNKS)
            # Without vectors, what meets none of the words was not found as a question either.
            asks = row.asks if row.is_question and (weights.vector or around) else 0.0
            answers = 0.0
            above = candidates.rows.get(row.chunk - 1)
            if above and above.memory == row.memory:
                answers = above.asks * candidates.words.get(above.chunk, 0.0)
            parts = {
                "text": weights.text * text,
                "neighbours": weights.text * (around - text),
                "vector": weights.vector * vector,
                "answer": weights.answer * answers,
                "memory": weights.whole * whole,
                "speaker": weights.who * (query.names == (row.who,)),
                "date": weights.date * query.closeness(row.created),
                "links": candidates.named.get(row.chunk, 0.0),
                "title": 0.0 if row.is_superseded else weights.title * titles.get(row.title, 0.0),
                "question": -weights.question * asks,
            }
            score, boosts = sum(parts.values()), self._boosts(row)
            for factor in boosts.values():
                score *= factor
            # The last digits depend on the order in which vectors were added up.
            ranked.append(Ranked(round(score, _DIGITS), row, parts, boosts))
        # By name, because numbers say only when something was indexed.
        ranked.sort(key=lambda it: (-it.score, it.row.collection, it.row.key, it.row.chunk))
        return ranked

    def _around(self, row: Row, shares: Sequence[float]) -> float:
        """Each term where it counts most: here, or for less in the chunk before or after."""
        here, before, after = (
            self.candidates.shares_beside(row, step) or self._nothing for step in (0, -1, 1)
        )
        less, least = self.weights.before, self.weights.after
        terms = zip(shares, here, before, after, strict=True)
        return sum([share * max(a, less * b, least * c) for share, a, b, c in terms])

    def _titles(self, rows: Sequence[Row]) -> Mapping[str, float]:
        """How much of a query stands in each memory's title.

        Who types a word or two looks for the memory that is about it. A question says what it wants
        to know, and that seldom stands in a title. What was replaced does not come first for its
        name.
        """
        brevity = (_QUESTION_TERMS - self._terms) / (_QUESTION_TERMS - _NAME_TERMS)
        if brevity <= 0 or not self.candidates.words:
            return {}
        lexicon, names = self.candidates.lexicon, self.candidates.query.name_terms
        shares = dict(zip(lexicon.rarity, lexicon.weights, strict=True))
        titles = {}
        for title in {row.title for row in rows if row.title}:
            words = tokens.words(title)
            there = [shares[term] for term in shares.keys() & {*words} - names]
            # A long title is about much.
            fullness = sqrt(len(there) / max(1, len(words)))
            titles[title] = min(1.0, brevity) * sum(there) * fullness
        return titles

    def _whole_memories(self) -> Mapping[int, float]:
        """How far memories stand out as a whole above what the sixth best of them reaches.

        A query of few words says too little for that.
        """
        few, many = self.weights.few_terms, self.weights.many_terms
        telling = min(1.0, (self._terms - few) / (many - few))
        if telling <= 0:
            return {}
        wholes = self.candidates.wholes
        usual = sorted([*wholes.values(), *[0.0] * (_OUTSTANDING + 1)], reverse=True)[_OUTSTANDING]
        return {
            memory: telling * (score - usual) for memory, score in wholes.items() if score > usual
        }

    def _boosts(self, row: Row) -> Mapping[str, float]:
        """What a memory's age and state multiply its score by."""
        boosts = {}
        if row.is_superseded or (
            self._superseded and f"{key(row.collection)}/{row.key}" in self._superseded
        ):
            boosts["superseded"] = SUPERSEDED
        if row.status == "archived":
            boosts["archived"] = ARCHIVED
        usual = (self._recency.days, self._recency.factor)
        days, factor = self._recency.by_type.get(row.type, usual)
        moment = parse_time(row.created) if factor != 1 else None
        if moment and 0 <= (self._now - moment).days <= days:
            boosts["recent"] = factor
        return boosts

    def shown_score(self, ranked: Ranked) -> float:
        """A score as people see it, between 0 and 1, in the same order."""
        above = ranked.score - self.granted - self.weights.middle
        return round(_logistic(self.weights.slope * above), 4)

    def explain(self, ranked: Ranked) -> dict[str, object]:
        """Each arm's rank and score, what every part added, and every boost."""
        chunk, near = ranked.row.chunk, self.candidates.near
        text_rank, vector_rank = (
            order.index(chunk) + 1 if chunk in order else None
            for order in (list(self.candidates.words), near.order if near else ())
        )
        (vector,) = near.scores_of([chunk]) if near else (0.0,)
        return {
            "text": {
                "rank": text_rank,
                "score": round(self.candidates.words.get(chunk, 0.0), 4),
            },
            "vector": {"rank": vector_rank, "score": round(vector, 4)},
            "parts": {name: round(value, 4) for name, value in ranked.parts.items() if value},
            "boosts": dict(ranked.boosts),
            "sum": round(ranked.score, 4),
            "shown": {
                "granted": round(self.granted, 4),
                "middle": self.weights.middle,
                "slope": self.weights.slope,
            },
            "names": list(self.candidates.query.names),
            "dates": [when.text for when in self.candidates.query.dates],
        }

    # Whether there is an answer at all

    def confidence(self) -> float:
        """How likely it is that anything found answers the query."""
        if not self.ranked:
            return 0.0
        near, chunks = self.candidates.near, self.candidates.lexicon.chunks
        _, _, best = max((self._fit(it), -it.row.chunk, it.row) for it in self.ranked)
        own = self.candidates.shares.get(best.chunk, self._nothing)
        pairs = zip(self._rarity, own, strict=True)
        there = [rarity for rarity, share in pairs if share and rarity]
        if near:
            # How much of a telling question the words make up; each as rare as one can be.
            rarest = log(1 + max(0.0, chunks - 0.5) / 1.5) or inf
            mass = min(1.0, sum(there) / rarest / 2.67)
            sign = 12.2 * near.best + 2.2 * self._window(best) + 3.0 * mass - 7.5
        else:
            window = max(self._window(it.row) for it in self.ranked[:_LOOKED_THROUGH])
            sign = 4.6 * window + 0.9 * min(len(there), 6) - 4.2
        # The luckiest of n texts stands about sqrt(2 ln n) deviations above their mean, so what is
        # luck among hundreds is a sign among ten.
        luck = sqrt(2 * log(max(chunks, 1)))
        sign += _DEVIATION * max(0.0, sqrt(2 * log(_MEASURED)) - luck)
        return max(_logistic(sign), _SURE_OF_WHO_OR_WHEN * self._fit_who_or_when())

    def _fit(self, ranked: Ranked) -> float:
        """How well a candidate fits by its meaning and its words, names left out."""
        parts = ranked.parts
        if not self.candidates.query.name_terms:
            return parts["vector"] + parts["text"] + parts["neighbours"]
        words = self._around(ranked.row, self._rarity) / self._total
        return parts["vector"] + self.weights.text * words

    def _window(self, row: Row) -> float:
        """The share of the query's words that stand in a chunk or beside it."""
        beside = [self.candidates.shares_beside(row, step) or () for step in (-1, 0, 1)]
        there = {at for shares in beside for at, share in enumerate(shares) if share}
        return sum(self._rarity[at] for at in there) / self._total

    def _fit_who_or_when(self) -> float:
        """How well the speaker and the date fit of a query that asks for nothing else."""
        query = self.candidates.query
        if not query.asks_only_who_or_when:
            return 0.0
        theirs = [it.parts for it in self.ranked if it.parts["speaker"] or not query.names]
        dates = [min(1.0, parts["date"] / self.weights.date) for parts in theirs]
        return max(dates if query.dates else [1.0] * len(dates), default=0.0)


def _logistic(value: float) -> float:
    return 1 / (1 + exp(-max(-60.0, min(60.0, value))))


# The same in words, wherever people read an answer


def query_terms(query: str) -> frozenset[str]:
    """What is looked for in the answers to a query: its terms, as the index knows them."""
    return frozenset(tokens.query(query[:_MOST_JUDGED]))


def fits(answer: Answer, terms: Set[str]) -> bool:
    """Whether the best of an answer fits: by all that speaks for it, or by every word alone."""
    # Whoever looks for a number or a name has found it, whatever it may mean.
    return answer.is_confident or bool(terms and _terms_found(answer, terms) == terms)


def describe_fit(answer: Answer, terms: Set[str]) -> str:
    """How well the best of an answer fits a query of these terms; empty if there is none."""
    if not answer.hits:
        return ""
    if answer.is_confident:
        return "A good fit." if answer.confidence >= _GOOD else "A likely fit."
    if fits(answer, terms):
        return "The words fit."
    if _terms_found(answer, terms):
        return "Nothing fits well, only some of the words."
    return "Nothing fits well. These come nearest."


def _terms_found(answer: Answer, terms: Set[str]) -> Set[str]:
    """The terms that stand in the best of an answer."""
    if not answer.hits:
        return frozenset()
    first = answer.hits[0]
    return terms & set(tokens.words(f"{first.title} {first.header_path} {first.text}"))
