"""Engines asked for what they would propose, before the local index is looked at."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from retain.engines import locating, looking, outbox
from retain.engines.arm import EngineDown, EngineError, Sieve
from retain.engines.delivery import mistrust
from retain.engines.wire import said
from retain.errors import RetainError
from retain.index import text
from retain.recall.candidates import AGREEING, DENSE, Proposed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from retain.engines.arm import Match, TextArm, VectorArm
    from retain.engines.wire import Wire
    from retain.index.vectors import Mean
    from retain.indexed import Indexed
    from retain.recall.asking import Asked, Conditions, Wanted
    from retain.recall.candidates import Meaning

__all__ = ["proposed"]

_RETIRED: Final = "retired"
_LEAST: Final = 0.05  # seconds that a second question has


class _Time:
    """What the engines of one bank may take, of the time that there is for a whole search."""

    def __init__(self, wires: Iterable[Wire[Any]], spent: float) -> None:
        self._wires, self._spent, self._started = list(wires), spent, time.monotonic()

    def taken(self) -> float:
        """The seconds so far, without the loading of clients, which is no server's fault."""
        loading = max((wire.loading(self._started) for wire in self._wires), default=0.0)
        return max(0.0, time.monotonic() - self._started - loading)

    def left(self, wire: Wire[Any]) -> float:
        return wire.patience - self._spent - self.taken()

    def to_ask(self, wire: Wire[Any]) -> float | None:
        """The seconds for a question, None for all there are; EngineDown where they are too few."""
        if not self._spent:
            return None
        if self.left(wire) < _LEAST:
            raise EngineDown(
                f"{wire.kind} at {wire.address} was not asked about this bank: for the others it "
                "took what time a search has (engine.patience_ms)."
            )
        return self.left(wire)


def proposed(
    bank: Indexed, wanted: Wanted, asked: Asked, meant: Meaning, spent: float = 0.0
) -> Proposed:
    """What the engines of a bank propose; an arm that cannot say is asked here, and why is told.

    `spent` are the seconds that those of other banks took for the same search.
    """
    engines = bank.engines
    sieve = sieve_of(wanted.conditions)
    if engines is None or sieve is None:
        return Proposed()
    bank.has_searched = True
    reasons: list[str] = []
    clock = _Time(engines.wires.values(), spent)
    words = asks_words = nearest = asks_nearest = None
    first: list[Match] = []
    with _told(reasons):
        if engines.text and wanted.mode != "semantic" and _knows(bank, engines.text):
            asks_words = _matching(bank, engines.text, wanted, asked, sieve, clock)
    with _told(reasons):
        if engines.vector and meant.vector is not None and _knows(bank, engines.vector):
            asks_nearest = _nearest(bank, engines.vector, wanted, meant, sieve, clock)
    # Both are under way: who waits for one waits for the other as well.
    with _told(reasons):
        words = _believed(bank, engines.text, asks_words(), clock) if asks_words else None
    with _told(reasons):
        found = asks_nearest() if asks_nearest else None
        if found:
            nearest, first = _believed(bank, engines.vector, found[0], clock), found[1]
    keys = _key(engines.text), _key(engines.vector)
    took = clock.taken() if asks_words or asks_nearest else 0.0
    return Proposed(words, nearest, first, tuple(dict.fromkeys(reasons)), keys, took)


def _key(wire: Wire[Any] | None) -> str:
    return wire.key if wire else ""


@contextlib.contextmanager
def _told(reasons: list[str]) -> Iterator[None]:
    """What an engine fails to do is a reason of its own, and nothing else stops for it."""
    try:
        yield
    except EngineError as error:
        reasons.append(_instead(error))


def _believed(
    bank: Indexed, wire: Wire[Any] | None, found: list[Match], clock: _Time
) -> list[Match]:
    """What an engine found; where that is nothing, only if it still has anything at all.

    It may have been emptied by another machine, or have lost its disk.
    """
    if found or wire is None:
        return found
    some = bank.look(partial(looking.witnesses, arm=wire.key))
    if not some:
        return found
    # Nobody waits twice: it has what is left of the time that the answer was given.
    held = wire.ask(lambda arm: arm.held(list(some)), max(_LEAST, clock.left(wire)))()
    if not looking.differs(some, held):
        return found
    # Whoever cannot write the index finds out again next time; nobody waits for their turn here.
    with contextlib.suppress(RetainError), bank.store.writing(wait=_LEAST) as connection:
        mistrust(connection, wire.key)
    bank.has_news = True
    why = "has lost what it was told, and is told again"
    if not looking.has_lost(some, held):
        why = "holds what another machine has changed, and is asked what that is"
    raise EngineDown(f"{wire.kind} at {wire.address} {why}.")


def _instead(error: EngineError) -> str:
    return f"answered from the local index: {said(error)}"


def _knows(bank: Indexed, wire: Wire[Any]) -> bool:
    """Whether this very engine was told of all but a few memories; those are looked through here.

    What is noted may be about another server, which a person had before.
    """

    undelivered = wire.delivery()

    def knows(connection: sqlite3.Connection) -> bool:
        return (
            outbox.is_met(connection, wire.key)
            and locating.unknown(connection, wire.key) is not None
            and (undelivered is None or outbox.told(connection, wire.key) > 0)
        )

    if bank.look(knows):
        return True
    trouble = wire.trouble() or undelivered
    if trouble:  # that is why it knows so little
        raise EngineDown(trouble.why)
    if (many := bank.look(partial(outbox.ahead, arm=wire.key))) > locating.FEW:
        raise EngineDown(
            f"{wire.kind} at {wire.address} holds something newer of {many} memories than is here."
        )
    return False


def sieve_of(conditions: Conditions) -> Sieve | None:
    """The conditions as an engine takes them; None where only the index can tell."""
    statuses: tuple[str, ...] = ()
    for one in conditions.filters:
        if one.key != "status" or one.operator != "=" or statuses:
            return None
        statuses = one.values
    if conditions.months or conditions.only is not None:
        return None
    return Sieve(
        collections=() if conditions.collection is None else (conditions.collection,),
        types=(conditions.type,) if conditions.type else (),
        tags=conditions.tags,
        statuses=statuses,
        without_statuses=() if statuses else (_RETIRED,),
        since=conditions.since.timestamp() if conditions.since else None,
        until=conditions.until.timestamp() if conditions.until else None,
    )


def _matching(
    bank: Indexed,
    wire: Wire[TextArm],
    wanted: Wanted,
    asked: Asked,
    sieve: Sieve,
    clock: _Time,
) -> Callable[[], list[Match]] | None:
    """What has the words of a question; None where no memory here has any of them."""
    lexicon = bank.look(partial(text.lexicon, terms=asked.terms, counted=bank.counts))
    terms: Mapping[str, float] = {
        term: rarity for term, rarity in lexicon.rarity.items() if lexicon.counts[term]
    }
    if not terms:
        return None
    most = max(text.CANDIDATES, wanted.sought)
    return wire.ask(lambda arm: arm.matching(terms, sieve, most), clock.to_ask(wire))


def _nearest(
    bank: Indexed,
    wire: Wire[VectorArm],
    wanted: Wanted,
    meant: Meaning,
    sieve: Sieve,
    clock: _Time,
) -> Callable[[], tuple[list[Match], list[Match]]] | None:
    """The nearest by the score that counts and by the cosine alone; None where nothing is here.

    What all vectors have in common is taken off the question: the products with what is left are
    what the embedded arm has as its scores.
    """
    mean: Mean | None = bank.look(partial(locating.mean, model=meant.model))
    vector = meant.vector
    if mean is None or vector is None or len(mean.vector) != len(vector):
        return None
    limits = (max(DENSE, wanted.sought), AGREEING)
    asking = wire.ask(
        lambda arm: arm.nearest((vector - mean.hub, vector), meant.model, sieve, limits),
        clock.to_ask(wire),
    )

    def answer() -> tuple[list[Match], list[Match]]:
        found = asking()
        return found[0], found[1]

    return answer
