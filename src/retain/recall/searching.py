"""The search itself: every bank asked, the best chunks read, one order over all of them."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property, partial
from typing import Final, NamedTuple

from retain.embed import EmbedderError
from retain.index import embedding, graph
from retain.index.catalogue import Kind, kinds
from retain.indexed import Indexed
from retain.model import Answer, Degraded, Hit
from retain.paths import key
from retain.recall import asking, candidates, scoring, weighing
from retain.recall.asking import Asked, Wanted
from retain.recall.candidates import Candidates, Meaning, Proposed, Row
from retain.recall.weighing import Boosts, Weighed

__all__ = ["Recency", "Tally", "prepared", "search"]

FEW_PENDING: Final = 100  # vectors that a search makes before it answers

Recency = Callable[[str], tuple[float, float]]  # a type's days and factor


def _never(_kind: str) -> tuple[float, float]:
    return 0.0, 1.0


class _Outcome(NamedTuple):
    """What one bank has to say."""

    hits: list[Hit]
    confidence: float
    degraded: Degraded
    best: float = 0.0  # the score that the others were compared with, of this bank or before it
    kinds: Mapping[Kind, int] = {}
    left: int = 0


class Tally:
    """What a search has considered: of which kinds the hits would be if there were no limit."""

    def __init__(self) -> None:
        self.kinds: Counter[Kind] = Counter()
        self.left = 0  # memories that are no hits, because they are only near the question
        self.best = 0.0


def search(
    banks: Sequence[Indexed],
    wanted: Wanted,
    recency: Recency,
    now: datetime,
    tally: Tally | None = None,
) -> Answer:
    """Answer one question from every bank; scores are absolute, so they can be merged.

    `tally` is told what else would be hits without a limit.
    """
    wanted = wanted.checked()
    asked = banks if wanted.query.strip() or wanted.lists_all else ()
    counts = tally is not None
    told: dict[str, Proposed] = {}

    def ask(bank: Indexed, best: float) -> _Outcome:
        return _in_bank(bank, wanted._replace(best=best), recency, now, told, counts=counts)

    outcomes = _in_banks(asked, ask, wanted.best)
    if tally is not None:
        for one in outcomes:
            tally.kinds.update(one.kinds)
            tally.left += one.left
            tally.best = max(tally.best, one.best)
    hits = sorted((hit for one in outcomes for hit in one.hits), key=_order)
    sure = max((one.confidence for one in outcomes if one.hits), default=0.0)
    degraded = Degraded.of(one.degraded for one in outcomes)
    kept = tuple(hit for hit in hits if hit.score >= wanted.min_score)[: wanted.limit]
    is_confident = bool(kept) and sure >= scoring.ENOUGH
    return Answer(kept, round(sure, 4), is_confident, degraded)


def _in_banks(
    banks: Sequence[Indexed], ask: Callable[[Indexed, float], _Outcome], best: float
) -> list[_Outcome]:
    """What all banks say, each compared with the best of all."""
    outcomes: list[_Outcome] = []
    for bank in banks:
        outcomes.append(ask(bank, best))
        best = outcomes[-1].best
    return [
        one if one.best == best else ask(bank, best)  # a later bank had a better one
        for bank, one in zip(banks, outcomes, strict=True)
    ]


def _order(hit: Hit) -> float:
    """By score alone: within a bank the hits are in order already, and sorting keeps it."""
    return -hit.score


def _in_bank(
    bank: Indexed,
    wanted: Wanted,
    recency: Recency,
    now: datetime,
    told: dict[str, Proposed],
    *,
    counts: bool,
) -> _Outcome:
    bank.refresh()
    degraded = bank.mended(lambda: prepared(bank, wanted.mode))
    take_apart = partial(asking.asked, query=wanted.query, today=now.date())
    asked = bank.mended(lambda: bank.look(take_apart))
    meant = candidates.meaning(bank, wanted, asked)
    root = bank.bank.root  # a bank that is weighed again need not ask its engines again
    proposed = told[root] = told.get(root) or _proposed(bank, wanted, asked, meant, told)
    # Who asks for a certain time does not mean the last few days.
    recency = _never if asked.whens else recency

    def answered(connection: sqlite3.Connection) -> _Outcome:
        found = candidates.gather(bank, connection, wanted, asked, meant, proposed)
        boosts = _boosts(connection, recency, now)
        return _ranked(bank, connection, wanted, found, boosts, counts=counts)

    outcome = bank.read(answered, is_fresh=True)
    reasons = (*degraded.reasons, *outcome.degraded.reasons, *bank.shortfalls)
    return outcome._replace(degraded=Degraded(degraded.pending, reasons))


def _proposed(
    bank: Indexed, wanted: Wanted, asked: Asked, meant: Meaning, told: Mapping[str, Proposed]
) -> Proposed:
    if bank.engines is None:
        return Proposed()
    from retain.recall.elsewhere import proposed

    spent = sum(one.seconds for one in told.values())  # nobody waits for each bank anew
    return proposed(bank, wanted, asked, meant, spent)


def prepared(bank: Indexed, mode: str = "hybrid") -> Degraded:
    """Fill a few missing vectors; say how many are missing when they are too many."""
    if mode == "text":
        return Degraded()
    pending = 0
    try:
        embedder = bank.embedder
        if embedder is None:
            return Degraded()
        pending, other = bank.look(partial(_missing, model=embedder.name))
        if other and pending >= FEW_PENDING:
            # A question must not throw away what took hours to make, or money.
            reason = f"the vectors are of another model, {other}; `retain index` makes them anew"
            return Degraded(pending, (reason,))
        embedding.adopt(bank.store, embedder.name)
        if 0 < pending < FEW_PENDING:
            pending = max(0, pending - embedding.fill(bank.store, embedder))
    except EmbedderError as error:  # a model that is missing or silent: words must do
        return Degraded(pending, (error.message,))
    return Degraded(pending)


def _missing(connection: sqlite3.Connection, model: str) -> tuple[int, str]:
    """How many vectors of a model are missing, and whose are there instead."""
    there = embedding.model(connection)
    if there == model:
        return embedding.pending(connection), ""
    (chunks,) = connection.execute("SELECT chunks FROM totals").fetchone()
    return chunks, there


def _ranked(
    bank: Indexed,
    connection: sqlite3.Connection,
    wanted: Wanted,
    found: Candidates,
    boosts: Boosts,
    *,
    counts: bool,
) -> _Outcome:
    weighed = weighing.weigh(found, boosts, partial(graph.connected, connection))
    reading = _Reading(bank, connection, found, weighed, explains=wanted.explain)
    fitting, best = weighed, wanted.best
    if wanted.share and weighed:
        best = max(best, reading.shown(weighed[0]))
        fitting = _fitting(weighed, found, lambda one: reading.shown(one) >= best * wanted.share)
    hits = [reading.hit(one) for one in _best(fitting, wanted)]
    sure = scoring.confidence(weighing.signs(found, weighed), found.weights)
    outcome = _Outcome(hits, sure, Degraded(reasons=found.reasons), best)
    if not counts:
        return outcome
    numbers, every = _numbers(fitting, wanted), _numbers(weighed, wanted)
    counted = kinds(connection, numbers, bank.bank.place.scope)
    return outcome._replace(kinds=counted, left=len(every) - len(numbers))


def _numbers(weighed: Sequence[Weighed], wanted: Wanted) -> set[int]:
    return {one.row.memory for one in weighed if one.score > 0 or wanted.lists_all}


def _fitting(
    weighed: list[Weighed], found: Candidates, is_good: Callable[[Weighed], bool]
) -> list[Weighed]:
    """What is left without memories that only come near: no word of the question is in them.

    Something is always the nearest, so without this nearly every memory of a bank is a hit.
    """
    having = {one.row.memory for one in weighed if one.row.chunk in found.words}
    return [one for one in weighed if one.row.memory in having or is_good(one)]


def _best(weighed: Sequence[Weighed], wanted: Wanted) -> list[Weighed]:
    """The best chunks in order; one per memory unless chunks are asked for."""
    best: dict[int, Weighed] = {}
    for one in weighed:
        if len(best) >= wanted.limit:
            break
        if one.score > 0 or wanted.lists_all:
            best.setdefault(one.row.memory if wanted.per == "memory" else one.row.shown, one)
    return list(best.values())


def _boosts(connection: sqlite3.Connection, recency: Recency, now: datetime) -> Boosts:
    """What a memory's age and state do to its score."""
    replaced = graph.superseded(connection)

    @cache
    def factors(kind: str, status: str, created: str, is_replaced: bool) -> Mapping[str, float]:
        found = {}
        if is_replaced:
            found["superseded"] = scoring.SUPERSEDED
        if status == "archived":
            found["archived"] = scoring.ARCHIVED
        days, factor = recency(kind)
        moment = asking.parsed(created)
        if moment and factor != 1 and 0 <= (now - moment).days <= days:
            found["recent"] = factor
        return found

    def boosts(row: Row) -> Mapping[str, float]:
        is_replaced = bool(replaced) and f"{key(row.collection)}/{row.key}" in replaced
        return factors(row.type, row.status, row.created, is_replaced or bool(row.is_superseded))

    return boosts


_HIT: Final = (
    "SELECT m.id, m.collection, c.text, c.header_path, c.line, m.title, m.type, m.status, "
    "m.tags, m.created, c.who, m.file, q.text, m.written FROM chunks c JOIN memories m "
    "ON m.number = c.memory LEFT JOIN chunks q ON q.number = c.number - 1 "
    "AND q.memory = c.memory AND q.header_path = c.header_path AND q.is_question AND c.who <> '' "
    "WHERE c.number = ?"
)


class _Reading:
    """Turns what was weighed into hits."""

    def __init__(
        self,
        bank: Indexed,
        connection: sqlite3.Connection,
        found: Candidates,
        weighed: Sequence[Weighed],
        *,
        explains: bool,
    ) -> None:
        self._bank, self._connection, self._found = bank, connection, found
        self._explains = explains
        self._granted = weighing.granted(found, weighed)

    def shown(self, one: Weighed) -> float:
        """A candidate's score as people see it."""
        return round(scoring.shown(one.score, self._found.weights, self._granted), 4)

    def hit(self, one: Weighed) -> Hit:
        """A candidate with everything a person or an agent wants to know about it."""
        found = self._connection.execute(_HIT, (one.row.shown,)).fetchone()
        name, collection, text, path, line, title, kind, status, tags, created, *rest = found
        who, file, question, changed = rest
        return Hit(
            id=name,
            collection=collection,
            score=self.shown(one),
            text=text,
            header_path=path,
            line=line,
            title=title,
            type=kind,
            status=status,
            tags=tuple(json.loads(tags)),
            created_at=created,
            who=who,
            scope=self._bank.bank.place.scope,
            path=os.path.join(self._bank.bank.root, collection, file),
            is_superseded="superseded" in one.boosts,
            explanation=self._explained(one) if self._explains else None,
            question=question or "",
            changed=changed,
        )

    def _explained(self, one: Weighed) -> dict[str, object]:
        """Each arm's rank and score, what every part added, and every boost."""
        added = dict(scoring.parts(one.evidence, self._found.weights))
        added["first hits"] = one.gained
        return {
            "text": _place(self._by_words, one.row.chunk, one.evidence.text),
            "vector": _place(self._by_meaning, one.row.chunk, one.evidence.vector),
            "parts": {name: round(value, 4) for name, value in added.items() if value},
            "boosts": dict(one.boosts),
            "sum": round(one.score, 4),
            "shown": {
                "granted": round(self._granted, 4),
                "middle": self._found.weights.middle,
                "slope": self._found.weights.slope,
            },
            "names": list(self._found.asked.names),
            "dates": [when.text for when in self._found.asked.whens],
        }

    @cached_property
    def _by_words(self) -> Mapping[int, int]:
        """Each chunk's place by words; sorted once, however many hits are explained."""
        words = self._found.words
        return _places(sorted(words, key=lambda chunk: (-words[chunk], chunk)))

    @cached_property
    def _by_meaning(self) -> Mapping[int, int]:
        return _places(self._found.near.order if self._found.near else ())


def _places(order: Sequence[int]) -> dict[int, int]:
    return {chunk: place for place, chunk in enumerate(order, 1)}


def _place(places: Mapping[int, int], chunk: int, score: float) -> dict[str, object]:
    return {"rank": places.get(chunk), "score": round(score, 4)}
