"""What engines elsewhere propose for a query, as chunks of the local index.

This is the one place where a search meets engines: `propose` asks them before the local index is
looked at, and what they answered joins the other candidates in `retrieve.gather`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.errors import RetainError
from retain.index import fulltext
from retain.index.engines import locating, looking, outbox
from retain.index.engines.arm import EngineDown, EngineError, Match, Sieve
from retain.index.engines.delivery import mistrust
from retain.index.engines.wire import said
from retain.search.retrieve import DENSE, Near, QueryVector, Row, compare

if TYPE_CHECKING:
    import sqlite3

    from retain.index.engines.arm import TextArm, VectorArm
    from retain.index.engines.wire import Wire
    from retain.index.index import Index
    from retain.search.request import Filters, ParsedQuery, SearchRequest


_RETIRED: Final = "retired"
_LEAST_SECONDS: Final = 0.05  # that a second question has


class Remote(NamedTuple):
    """What the engines of one bank propose; None for an arm that is asked here."""

    vector: QueryVector = QueryVector()
    words: Sequence[Match] | None = None
    nearest: Sequence[Match] | None = None
    reasons: tuple[str, ...] = ()
    keys: tuple[str, str] = ("", "")  # by which notes about the two arms are known
    seconds: float = 0.0  # that they took

    def chunks(self, connection: sqlite3.Connection) -> tuple[list[int] | None, list[int] | None]:
        """The local chunks that the text and the vector engine propose."""
        text, vector = self.keys
        return _locate(connection, text, self.words), _locate(connection, vector, self.nearest)

    def near(
        self,
        connection: sqlite3.Connection,
        rows: Mapping[int, Row],
        proposed: Sequence[int],
        most: int,
    ) -> Near | None:
        """The vector arm over what was proposed alone: the engine has looked at the rest."""
        from retain.index.vectors import of_chunks

        mean = locating.mean(connection, self.vector.model)
        if self.vector.vector is None or mean is None:
            return None
        around = {chunk + step for chunk in rows for step in (-1, 0, 1)}
        matrix = of_chunks(connection, self.vector.model, around, mean)
        if matrix is None:
            return None
        among = matrix.at([chunk for chunk in proposed if chunk in rows])
        return compare(matrix, self.vector.vector, among[among >= 0], most)


def _locate(
    connection: sqlite3.Connection, arm: str, matches: Sequence[Match] | None
) -> list[int] | None:
    """What an engine proposes, as chunks, and those it was not told of yet; None if it is mute."""
    if matches is None:
        return None
    chunks = locating.located(connection, matches)
    unknown = locating.unknown(connection, arm)
    if unknown:
        chunks += locating.chunks_of(connection, unknown)
    return list(dict.fromkeys(chunks))


class _Clock:
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
        if self.left(wire) < _LEAST_SECONDS:
            raise EngineDown(
                f"{wire.kind} at {wire.address} was not asked about this bank: for the others it "
                "took what time a search has (engine.patience_ms)."
            )
        return self.left(wire)


def propose(
    index: Index,
    request: SearchRequest,
    query: ParsedQuery,
    vector: QueryVector,
    spent: float = 0.0,
) -> Remote:
    """Ask the engines of a bank; an arm that cannot say is asked here, and why is told.

    `spent` are the seconds that those of other banks took for the same search.
    """
    engines = index.engines
    sieve = sieve_of(request.filters)
    if engines is None or sieve is None:
        return Remote()
    index.has_searched = True
    reasons: list[str] = []
    clock = _Clock(engines.wires.values(), spent)
    words = ask_words = nearest = ask_nearest = None
    with _told(reasons):
        if engines.text and request.mode != "semantic" and _knows(index, engines.text):
            ask_words = _matching(index, engines.text, request, query, sieve, clock)
    with _told(reasons):
        if engines.vector and vector.vector is not None and _knows(index, engines.vector):
            ask_nearest = _nearest(index, engines.vector, request, vector, sieve, clock)
    # Both are under way: who waits for one waits for the other as well.
    with _told(reasons):
        words = _believed(index, engines.text, ask_words(), clock) if ask_words else None
    with _told(reasons):
        nearest = _believed(index, engines.vector, ask_nearest(), clock) if ask_nearest else None
    keys = tuple(wire.key if wire else "" for wire in (engines.text, engines.vector))
    seconds = clock.taken() if ask_words or ask_nearest else 0.0
    unique = tuple(dict.fromkeys(reasons))
    return Remote(vector, words, nearest, unique, (keys[0], keys[1]), seconds)


@contextlib.contextmanager
def _told(reasons: list[str]) -> Iterator[None]:
    """What an engine fails to do is a reason of its own, and nothing else stops for it."""
    try:
        yield
    except EngineError as error:
        reasons.append(f"answered from the local index: {said(error)}")


def _believed(
    index: Index, wire: Wire[Any] | None, matches: list[Match], clock: _Clock
) -> list[Match]:
    """What an engine found; where that is nothing, only if it still has anything at all.

    It may have been emptied by another machine, or have lost its disk.
    """
    if matches or wire is None:
        return matches
    some = index.look(partial(looking.witnesses, arm=wire.key))
    if not some:
        return matches
    # Nobody waits twice: it has what is left of the time that the answer was given.
    held = wire.ask(lambda arm: arm.held(list(some)), max(_LEAST_SECONDS, clock.left(wire)))()
    if not looking.differs(some, held):
        return matches
    # Whoever cannot write the index finds out again next time; nobody waits for their turn here.
    with (
        contextlib.suppress(RetainError),
        index.database.writing(wait=_LEAST_SECONDS) as connection,
    ):
        mistrust(connection, wire.key)
    index.has_news = True
    why = "has lost what it was told, and is told again"
    if not looking.has_lost(some, held):
        why = "holds what another machine has changed, and is asked what that is"
    raise EngineDown(f"{wire.kind} at {wire.address} {why}.")


def _knows(index: Index, wire: Wire[Any]) -> bool:
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

    if index.look(knows):
        return True
    trouble = wire.trouble() or undelivered
    if trouble:  # that is why it knows so little
        raise EngineDown(trouble.why)
    if (many := index.look(partial(outbox.ahead, arm=wire.key))) > locating.FEW:
        raise EngineDown(
            f"{wire.kind} at {wire.address} holds something newer of {many} memories than is here."
        )
    return False


def sieve_of(filters: Filters) -> Sieve | None:
    """The filters as an engine takes them; None where only the index can tell."""
    statuses: tuple[str, ...] = ()
    for one in filters.metadata:
        if one.key != "status" or one.operator != "=" or statuses:
            return None
        statuses = one.values
    if filters.months or filters.only is not None:
        return None
    return Sieve(
        collections=() if filters.collection is None else (filters.collection,),
        types=(filters.type,) if filters.type else (),
        tags=filters.tags,
        statuses=statuses,
        without_statuses=() if statuses else (_RETIRED,),
        since=filters.since.timestamp() if filters.since else None,
        until=filters.until.timestamp() if filters.until else None,
    )


def _matching(
    index: Index,
    wire: Wire[TextArm],
    request: SearchRequest,
    query: ParsedQuery,
    sieve: Sieve,
    clock: _Clock,
) -> Callable[[], list[Match]] | None:
    """What has the words of a query; None where no memory here has any of them."""
    lexicon = index.look(partial(fulltext.lexicon, terms=query.terms, counted=index.counts))
    terms = {term: rarity for term, rarity in lexicon.rarity.items() if lexicon.counts[term]}
    if not terms:
        return None
    most = max(request.min_candidates, request.candidates)
    return wire.ask(lambda arm: arm.matching(terms, sieve, most), clock.to_ask(wire))


def _nearest(
    index: Index,
    wire: Wire[VectorArm],
    request: SearchRequest,
    query: QueryVector,
    sieve: Sieve,
    clock: _Clock,
) -> Callable[[], list[Match]] | None:
    """The nearest by the score that counts; None where nothing is here.

    What all vectors have in common is taken off the query: the products with what is left are
    what the embedded arm has as its scores.
    """
    mean = index.look(partial(locating.mean, model=query.model))
    vector = query.vector
    if mean is None or vector is None or len(mean.vector) != len(vector):
        return None
    most = max(DENSE, request.candidates)
    asking = wire.ask(
        lambda arm: arm.nearest([vector - mean.hub], query.model, sieve, [most]), clock.to_ask(wire)
    )
    return lambda: asking()[0]
