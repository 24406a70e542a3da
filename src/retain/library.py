"""Everything that is answered from the index: search, links, briefs, and the index's own upkeep."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.embed import NONE
from retain.errors import ConfigError, Conflict, NotFound, RetainError
from retain.index.store import Damaged
from retain.indexed import Indexed
from retain.model import Degraded, Hit, Problem
from retain.paths import global_root
from retain.recall.asking import Wanted, share, whole
from retain.sync import Changes, Progress
from retain.workspace import Opened, Workspace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from threading import Event

    from retain.brief import Brief
    from retain.config import Config
    from retain.embed import Embedder
    from retain.engines.choosing import Engines
    from retain.index.calendar import Dated
    from retain.index.catalogue import Chosen, Listed, Shelf, Survey
    from retain.index.checking import Facts
    from retain.model import Answer
    from retain.recall.graph import Graph
    from retain.recall.related import Related
    from retain.recall.searching import Tally
    from retain.similar import Alike, Cluster, Member, Proposal

__all__ = ["Health", "Library", "Stats", "project_of"]

# Where a project's bank stands in the project, by which the project is found.
_IN_PROJECT: Final = ("/.retain", "/.memories", "/.claude/memory")


class Stats(NamedTuple):
    """A bank and its index in numbers."""

    facts: Facts
    tags: Mapping[str, int]
    types: Mapping[str, int]
    index_size: int
    problems: tuple[Problem, ...]


class Health(NamedTuple):
    """How an index is: what it holds, what is wrong with it, what was done about that."""

    facts: Facts
    faults: tuple[str, ...]
    notes: tuple[str, ...] = ()
    is_rebuilt: bool = False


class Library:
    """The banks of one working directory, searchable."""

    def __init__(self, workspace: Workspace, *, stays: bool = False) -> None:
        self._workspace = workspace
        self._stays = stays
        self._indexed: dict[str, Indexed] = {}
        # An index is sealed when it is closed, so it is closed also where nobody thinks of it.
        self._finalizer = weakref.finalize(self, _close_all, self._indexed)

    # Asking

    def search(self, wanted: Wanted, *, now: datetime | None = None) -> Answer:
        """Rank the memories of every bank in force for a question."""
        from retain.recall.searching import search

        answer = search(self.banks(), wanted, self._recency, now or datetime.now(UTC))
        return self._with_links(answer)

    def considered(self, wanted: Wanted, scopes: Collection[str] = ()) -> tuple[Answer, Tally]:
        """The same, and what the search has considered beside the hits.

        `scopes` leaves the other banks out.
        """
        from retain.recall.searching import Tally, search

        tally = Tally()
        banks = [one for one in self.banks() if not scopes or one.bank.place.scope in scopes]
        answer = search(banks, wanted, self._recency, datetime.now(UTC), tally)
        return self._with_links(answer), tally

    def linked(self, target: str, query: str = "", limit: int = 5) -> Answer:
        """The memories that link to a document, ranked by a question or the newest first."""
        from retain.recall.linking import linked
        from retain.recall.targets import Document

        wanted = Wanted(query, limit=limit)
        document = Document.of(target, self._workspace.cwd)
        return linked(self.banks(), document, wanted, self._recency, datetime.now(UTC))

    def body(self, hit: Hit) -> str:
        """The whole text of the memory that a hit is from; empty when it is gone by now."""
        for bank in self.banks():
            if bank.owns(hit):
                with bank.bank.opened() as opened:
                    read = opened.read(hit.collection, os.path.basename(hit.path))
                return read[0].body if read else ""
        return ""

    def graph(self, ref: str = "", depth: int = 2) -> Graph:
        """The links of the bank in force, or those around one memory or file."""
        from retain.recall.graph import graph_of

        depth = whole("depth", depth, least=0)
        return graph_of(self.in_force(), ref, depth, cwd=self._workspace.cwd)

    def connections(self, ref: str) -> Graph:
        """The links of one memory of the bank in force, and those to it."""
        from retain.recall.graph import connections

        return connections(self.in_force(), ref)

    def addresses(self, targets: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Scope, collection and id of the memories that links name; the project's own first."""
        from retain.recall.linking import addresses

        found: dict[str, tuple[str, str, str]] = {}
        for bank in self.banks() if targets else ():
            left = [target for target in targets if target not in found]
            scope = bank.bank.place.scope
            found |= {name: (scope, *one) for name, one in addresses(bank, left).items()}
        return found

    def ghost(self, path: str) -> str:
        """The linked file that a path means, as the graph names it; empty if none does."""
        from retain.recall.graph import ghost_of

        return ghost_of(self.in_force(), path, self._workspace.cwd)

    def related(self, ref: str, limit: int = 10) -> list[Related]:
        """Memories connected with one: by links, files, tags or meaning."""
        from retain.recall.related import related

        limit = whole("limit", limit)
        self.shortfalls()  # a few missing vectors are made first, as for a search
        return related(self.in_force(), ref, limit)

    def brief(
        self,
        query: str,
        budget: int = 2000,
        limit: int = 12,
        *,
        shown: Callable[[Hit], Hit | None] | None = None,
    ) -> Brief:
        """The best hits packed into a token budget, ready for a prompt.

        `shown` gives a hit as it may be shown, or None where it need not be.
        """
        from retain.brief import pack, scoped

        budget = whole("budget", budget)
        answer = self.search(Wanted(query, limit=limit))
        if shown and answer.is_confident:
            answer = answer._replace(hits=tuple(filter(None, map(shown, answer.hits))))
        names = (
            scoped(f"{collection}/{name}" if collection else name, bank.bank.place.scope)
            for bank in self.banks()
            for collection, name in bank.bank.names()
        )
        return pack(answer, budget, names if answer.is_confident else ())

    def suggest_merges(
        self, threshold: float, kind: str, limit: int, *, ignored: bool = False
    ) -> list[Cluster]:
        """Groups of memories that could be one; those that a person ignores only if asked for."""
        from retain.similar import clusters

        threshold, limit = share("threshold", threshold), whole("limit", limit)
        bank = self._ready()
        apart = () if ignored else self.apart()
        # As many more are asked for as may be left out.
        found = clusters(bank, threshold=threshold, kind=kind, limit=limit + len(apart))
        return [one for one in found if not _is_apart(one.members, apart)][:limit]

    def dedupe(self, *, ignored: bool = False) -> list[Proposal]:
        """Pairs of memories that state one fact twice, as proposals; see `suggest_merges`."""
        from retain.similar import proposals

        apart = () if ignored else self.apart()
        found = proposals(self._ready())
        return [one for one in found if not _is_apart((one.older, one.newer), apart)]

    def apart(self) -> Sequence[frozenset[str]]:
        """The memories of the bank in force that are alike, and a person says they may be."""
        from retain.capture import apart

        return apart.known(self._workspace.writable.bank.root)

    def set_apart(self, refs: Sequence[str], *, again: bool = False) -> None:
        """Ignore from now on that these memories are alike, or speak of it again."""
        from retain.capture import apart

        act = apart.forget if again else apart.keep
        act(self._workspace.writable.bank.root, refs)

    def alike(self, collection: str, name: str) -> list[Alike]:
        """Memories that seem to state the same fact as one that was just written."""
        from retain.similar import alike

        return alike(self._of(self._workspace.writable), collection, name)

    def nearness(self, text: str, others: Sequence[str]) -> list[float] | None:
        """How near texts are to one, as cosines; None without a model to tell."""
        from retain.similar import cosines

        return cosines(self._of(self._workspace.writable), text, others)

    def _ready(self) -> Indexed:
        """The bank in force with every vector made."""
        bank = self.in_force()
        bank.refresh()
        self.fill()
        return bank

    def shortfalls(self) -> Degraded:
        """What answers about the bank in force have to do without, after a try to mend it."""
        from retain.recall.searching import prepared

        bank = self.in_force()
        bank.refresh()
        found = bank.mended(lambda: prepared(bank))
        return found._replace(reasons=(*found.reasons, *bank.shortfalls))

    def shelf(self, chosen: Chosen, order: str, limit: int, offset: int) -> Shelf:
        """One page of the memories of every bank in force that were chosen, from the index."""
        from collections import Counter

        from retain.index.catalogue import FACETS, Shelf

        surveys = self._surveys(chosen, order)
        total = sum(len(one.found) for _, one in surveys)
        facets = {
            name: sum((one.facets[name] for _, one in surveys), Counter[str]()) for name in FACETS
        }
        page = _page(surveys, order, limit, offset)
        return Shelf(total, tuple(page), facets)

    def called(self, words: str, limit: int) -> list[Listed]:
        """Memories of the bank in force by their title and their name, as a person begins them."""
        from retain.index.catalogue import called, listed

        bank = self.in_force()
        numbers = bank.read(partial(called, words=words.split(), limit=limit))
        found = bank.read(partial(listed, numbers=numbers, scope=bank.bank.place.scope))
        return [found[number] for number in numbers if number in found]

    def _surveys(self, chosen: Chosen, order: str) -> list[tuple[Indexed, Survey]]:
        from retain.index.catalogue import survey

        return [
            (bank, bank.read(partial(survey, chosen=chosen, order=order, scope=scope)))
            for bank in self.banks()
            for scope in [bank.bank.place.scope]
        ]

    def dated(self) -> list[Dated]:
        """Every memory of the bank in force with its times and its author, from the index."""
        from retain.index.calendar import dated

        return self.in_force().read(dated)

    def types(self) -> Mapping[str, int]:
        """How many memories there are of each type, in every bank in force."""
        from collections import Counter

        from retain.index import checking

        return sum((Counter(bank.read(checking.types)) for bank in self.banks()), Counter())

    def in_force(self) -> Indexed:
        bank = self._of(self._workspace.writable)
        if not bank.bank.place.exists:
            raise NotFound(
                f"there is no bank at {bank.bank.root} yet",
                hint="It is made with the first memory: echo '# Title' | retain put -",
            )
        return bank

    def _with_links(self, answer: Answer) -> Answer:
        """Each hit with the files it links to, and how they are now."""
        from retain.recall.linking import with_links

        return with_links(self.banks(), answer)

    def _recency(self, kind: str) -> tuple[float, float]:
        """For how many days a memory of a type counts as recent, and what that multiplies."""
        values = self._workspace.config.values
        special = _by_type(self._workspace.config.text("memory.recency_by_type"))
        usual = (
            values["memory.recency_boost_days"].value,
            values["memory.recency_boost_factor"].value,
        )
        days, factor = special.get(kind, usual)
        return float(days), float(factor)

    # The index

    def take_in(self, paths: Iterable[str], progress: Progress | None = None) -> tuple[str, ...]:
        """Index what was just written; a refusal is a note, because the memory itself is safe."""
        try:
            self._of(self._workspace.writable).update(paths, progress)
        except RetainError as error:
            return (f"saved, and not yet searchable: {error.message}",)
        return ()

    def sync(self, *, force: bool = False, progress: Progress | None = None) -> Changes:
        """Bring the index of the bank in force in step with its files."""
        return self.in_force().refresh(force=force, force_look=True, progress=progress)

    def refresh(self, progress: Progress) -> None:
        """Bring the index of every bank in force in step with its files, with someone watching."""
        for bank in self.banks():
            bank.refresh(progress=progress)

    def watch(
        self,
        ended: Event,
        turn: AbstractContextManager[object] | None = None,
        *,
        all_events: bool = False,
    ) -> Iterator[Changes]:
        """Keep the bank in force in step with its files until `ended` is set.

        Where other threads use the index, `turn` is the lock under which they do.
        """
        from retain import watch

        bank = self.in_force().bank
        root = bank.root

        def look() -> Changes:
            with turn or contextlib.nullcontext():
                return self.sync()

        return watch.changes(
            look,
            lambda: [root, *(os.path.join(root, name) for name in bank.collections() if name)],
            ended,
            all_events=all_events,
        )

    def rebuild(self, progress: Progress | None = None) -> Changes:
        """Set the index aside and make it anew; vectors that still fit are kept."""
        bank = self.in_force()
        held = bank.refresh(force_look=True).held
        if held:
            raise Conflict(
                f"{held} memories are missing from disk at once; a new index would forget them",
                unchanged="The index was left as it is.",
                hint="Bring the files back, or say that it is meant: retain sync --force",
            )
        from retain.engines import outbox

        told: outbox.Kept = ((), ())
        with contextlib.suppress(Damaged):  # as much as can be saved, from a damaged one too
            bank.store.checkpoint()
            told = bank.look(outbox.kept)
        bank.store.set_aside("it was asked for")
        changes = bank.refresh(force_look=True, progress=progress)
        with bank.store.writing() as connection:
            outbox.keep(connection, told)
        return changes

    def fill(
        self,
        *,
        progress: Progress | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> int:
        """Make the vectors that are missing in the bank in force."""
        from retain.index import embedding

        bank = self.in_force()
        if bank.embedder is None:
            return 0
        return embedding.fill(bank.store, bank.embedder, progress=progress, is_stopped=is_stopped)

    @property
    def has_engines(self) -> bool:
        """Whether a person has chosen that parts of the index live elsewhere."""
        return _has_engines(self._workspace)

    @property
    def has_news(self) -> bool:
        """Whether something was taken in that nobody has told engines of yet."""
        return any(bank.has_news for bank in list(self._indexed.values()))

    def deliver(self, *, is_stopped: Callable[[], bool] = lambda: False) -> bool:
        """Tell engines what they lack, except those that are down; whether something still waits.

        It is for the bank in force and for those that were looked in. Nobody waits for this: what
        cannot be delivered now is told later, by whoever comes next.
        """
        if not self.has_engines:
            return False
        with contextlib.suppress(NotFound):  # a bank that is not made yet has nothing to tell
            self.in_force()
        waits = False
        for bank in list(self._indexed.values()):
            waits = (bank.bank.place.exists and _deliver(bank, is_stopped)) or waits
        return waits

    def leave(self) -> None:
        """Have nobody wait for an engine any longer: the program ends."""
        for bank in list(self._indexed.values()):
            bank.leave()

    def _send_off(self, bank: Indexed) -> None:
        """Have engines told by a process of its own: nobody should wait for a client to load.

        After a search as well: what could not be told before may be told by now, and it may be
        time to ask what other machines have told.
        """
        if not (bank.has_news or bank.has_searched):
            return
        has_news, bank.has_news, bank.has_searched = bank.has_news, False, False
        engines = bank.engines
        if engines is None:
            return
        for part, wire in engines.wires.items():
            trouble, sender = wire.delivery() or wire.trouble(), engines.senders[part]
            if trouble is not None and not trouble.is_over:
                continue
            if sender.waits(for_vectors=has_news):
                from retain.engines.sending import send_off

                send_off(bank.bank.root, self._workspace.env)
                return

    def pending(self) -> int:
        """How many chunks of the bank in force have no vector yet."""
        from retain.index import embedding

        bank = self.in_force()
        return 0 if bank.embedder is None else bank.read(embedding.pending)

    def has_model(self) -> bool:
        """Whether there is a model to make vectors with; it is not loaded."""
        return self._workspace.config.text("recall.embedder") != NONE

    def facts(self) -> Facts:
        """What the index of the bank in force holds, brought in step with the files."""
        from retain.index import checking

        found = self.in_force().read(checking.facts)
        return found if self.has_model() else found._replace(pending=0)

    def stats(self) -> Stats:
        """The bank in force in numbers."""
        from retain.index import checking

        if not self._workspace.writable.bank.place.exists:
            return Stats(checking.Facts(), {}, {}, 0, ())
        bank = self.in_force()
        self.sync()
        problems: list[Problem] = []
        for _ in bank.bank.memories(problems=problems):
            pass  # read once more: the index does not remember what it left out
        size = 0 if bank.store.is_temporary else os.path.getsize(bank.store.path)
        return Stats(
            self.facts(),
            bank.look(checking.tags),
            bank.look(checking.types),
            size,
            tuple(problem for problem in problems if not problem.is_minor),
        )

    def health(self, *, repair: bool = False, progress: Progress | None = None) -> Health:
        """Compare the index of the bank in force with the files; a wrong one can be made anew."""
        from retain.index import checking

        bank = self.in_force()
        is_rebuilt = False
        faults: list[str] = []
        for _ in range(2):  # what someone wrote meanwhile is no fault
            held = self.sync().held
            faults = checking.faults(bank.bank, bank.store)
            if not faults:
                break
        if faults and repair and not held:
            self.rebuild(progress)
            faults, is_rebuilt = checking.faults(bank.bank, bank.store), True
        return Health(self.facts(), tuple(faults), tuple(bank.store.notes), is_rebuilt)

    def banks(self) -> list[Indexed]:
        """The banks a read looks in, the project's own first."""
        readable = self._workspace.banks()
        return [self._of(opened) for opened in readable if opened.bank.place.exists]

    def _of(self, opened: Opened) -> Indexed:
        root = opened.bank.root
        if root in self._indexed and self._indexed[root].bank.place != opened.bank.place:
            self._indexed.pop(root).close()  # it was looked for before it was made
        if root not in self._indexed:
            project = "" if opened.bank.place.scope == "global" else project_of(root)
            make = partial(_embedder, self._workspace)
            if not self._stays:  # who comes and goes asks someone who has the model loaded
                make = partial(make, warm=_warm_banks(self._workspace))
            self._indexed[root] = Indexed(
                opened.bank,
                make,
                partial(_engines, self._workspace),
                settings=partial(_latest, self._workspace),
                project=project,
                stays=self._stays,
            )
        return self._indexed[root]

    def close(self) -> None:
        """Let go of every index; the next question opens them again."""
        for bank in self._indexed.values():
            with contextlib.suppress(RetainError):
                self._send_off(bank)
        _close_all(self._indexed)


def _is_apart(members: Iterable[Member], apart: Iterable[frozenset[str]]) -> bool:
    refs = {one.ref for one in members}
    return any(refs <= one for one in apart)


def _page(
    surveys: Sequence[tuple[Indexed, Survey]], order: str, limit: int, offset: int
) -> Iterator[Listed]:
    """One page of what several banks have, in one order over all of them."""
    from heapq import merge
    from itertools import islice
    from operator import itemgetter

    from retain.index.catalogue import ORDERS, listed

    several = [
        [(key, at, number) for key, number in one.found] for at, (_, one) in enumerate(surveys)
    ]
    merged = merge(*several, key=itemgetter(0), reverse=ORDERS[order].is_descending)
    wanted = [(at, number) for _, at, number in islice(merged, offset, offset + limit)]
    shown: dict[tuple[int, int], Listed] = {}
    for at, (bank, _) in enumerate(surveys):
        own = [number for where, number in wanted if where == at]
        read = partial(listed, numbers=own, scope=bank.bank.place.scope)
        found = bank.read(read, is_fresh=True) if own else {}
        shown |= {(at, number): one for number, one in found.items()}
    # What was deleted in between is left out.
    return (shown[one] for one in wanted if one in shown)


def _embedder(workspace: Workspace, warm: Sequence[str] = ()) -> Embedder | None:
    """The model a person chose; no method, because a bank must not keep its library alive."""
    wanted = workspace.config.text("recall.embedder")
    if wanted == NONE:
        return None
    from retain.embed import embedder

    return embedder(
        wanted,
        model=workspace.config.text("recall.model"),
        api_key=workspace.env.get("RETAIN_RECALL_API_KEY", ""),
        warm=warm,
    )


def _engines(workspace: Workspace, bank: Indexed) -> Engines | None:
    """The engines a person chose; what loads them is imported where any was."""
    if not _has_engines(workspace):
        return None
    from retain.engines.choosing import chosen

    model = None
    with contextlib.suppress(RetainError):  # a model that cannot be had makes no vectors to send
        model = bank.embedder
    return chosen(workspace.latest, workspace.env, bank.bank.root, bank.store, model)


def _has_engines(workspace: Workspace) -> bool:
    config = workspace.latest
    return any(config.text(f"engine.{part}") != "sqlite" for part in ("text", "vector"))


def _latest(workspace: Workspace) -> Config:
    """The settings for engines as they are by now."""
    return workspace.latest


def _deliver(bank: Indexed, is_stopped: Callable[[], bool]) -> bool:
    """Tell the engines of one bank what they lack; whether something still waits."""
    engines, bank.has_news = bank.engines, False
    if engines is None:
        return False

    def is_over() -> bool:  # also where the person has chosen others meanwhile
        return is_stopped() or bank.engines is not engines

    waits = False
    for part, sender in engines.senders.items():
        try:
            trouble = engines.wires[part].delivery() or engines.wires[part].trouble()
            if is_over() or (trouble and not trouble.is_over):
                waits = True
            else:
                waits = bool(sender.push(is_stopped=is_over).left) or waits
        except RetainError:  # `retain engine status` tells
            waits = True
    if waits and is_stopped():
        bank.has_news = True  # which is sent off when the bank is closed
    return waits


def _warm_banks(workspace: Workspace) -> tuple[str, ...]:
    """The banks whose warm processes may be asked: any of them has the same model."""
    return workspace.place.root, global_root(workspace.env)


def _close_all(banks: dict[str, Indexed]) -> None:
    while banks:
        banks.popitem()[1].close()


def project_of(root: str) -> str:
    """The project that a bank's links are about: the directory the bank stands in."""
    for ending in _IN_PROJECT:
        if root.endswith(ending):
            return root.removesuffix(ending)
    return os.path.dirname(root)


def _by_type(text: str) -> dict[str, tuple[float, float]]:
    """Recency per type from `plan=14:1.3, fact=0:1`."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        kind, _, numbers = part.partition("=")
        days, _, factor = numbers.partition(":")
        try:
            found[kind.strip()] = (float(days), float(factor or 1))
        except ValueError:
            raise ConfigError(
                f"memory.recency_by_type is not understood at {part!r}",
                hint="Write type=days:factor, for example plan=14:1.3, fact=0:1",
            ) from None
    return found
