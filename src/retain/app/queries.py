"""The verbs that are answered from the index: search, links, briefs, and the index's own upkeep."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from retain.config import share, whole
from retain.errors import Busy, Conflict, RetainError
from retain.index.database import MEMORY_STATE
from retain.index.graph import predecessors_of, successors_of
from retain.memory import Degraded, Hit, Problem

# `retain.search`, the queries and the inbox are imported by the verbs that need them: `get`,
# `list` and `put` spare 9 of their 50 ms.
if TYPE_CHECKING:
    from datetime import datetime
    from threading import Event

    from retain.app.banks import Banks
    from retain.doctor import Health, Stats
    from retain.index import queries
    from retain.index.index import Index
    from retain.index.sync import Changes, Progress
    from retain.memory import Answer, Memory
    from retain.search import duplicates
    from retain.search.brief import Brief
    from retain.search.rank import Recency
    from retain.search.related import Graph, Related
    from retain.search.request import SearchRequest
    from retain.search.search import Search

_BUSY_SECONDS: Final = 1.0  # until a watch looks again where another process is at work

# Searching


def search(  # noqa: PLR0913 - one keyword for each thing that may be asked
    banks: Banks,
    query: str | SearchRequest,
    limit: int = 10,
    *,
    mode: str = "hybrid",
    per: str = "memory",
    collection: str | None = None,
    type: str = "",  # noqa: A002 - as the flags are called
    tags: Sequence[str] = (),
    since: str = "",
    until: str = "",
    filter: Sequence[str] = (),  # noqa: A002
    min_score: float = 0.0,
    explain: bool = False,
    now: datetime | None = None,
) -> Answer:
    """Rank memories, or chunks, of every bank in force; `mode` is hybrid, text or semantic.

    A ready request may stand for the query and everything that is asked with it.
    """
    from retain.search import search as engine
    from retain.search.request import SearchRequest, parse_filters

    if isinstance(query, str):
        filters = parse_filters(
            collection=collection, kind=type, tags=tags, since=since, until=until, filters=filter
        )
        query = SearchRequest(query, limit, mode, per, filters, min_score, explain)
    indexes = banks.indexes()
    return engine.with_links(indexes, engine.search(indexes, query, _recency(banks), now))


def search_with_tally(
    banks: Banks, request: SearchRequest, scopes: Collection[str] = ()
) -> tuple[Answer, Search]:
    """The same, and the search itself, which knows what it has considered beside the hits.

    `scopes` leaves the other banks out.
    """
    from retain.search.search import Search, with_links

    indexes = banks.indexes()
    chosen = [index for index in indexes if not scopes or index.location.scope in scopes]
    tally = Search(chosen, request, _recency(banks))
    return with_links(indexes, tally.answer()), tally


def _recency(banks: Banks) -> Recency:
    from retain.search.rank import Recency

    values = banks.config.values
    return Recency.parse(
        float(values["memory.recency_boost_days"].value),
        float(values["memory.recency_boost_factor"].value),
        banks.config.text("memory.recency_by_type"),
    )


def brief(
    banks: Banks,
    query: str,
    budget: int = 2000,
    limit: int = 12,
    *,
    shown: Callable[[Hit], Hit | None] | None = None,
) -> Brief:
    """The best hits packed into a token budget, ready for a prompt.

    `shown` gives a hit as it may be shown, or None where it need not be.
    """
    from retain.search import brief as briefs
    from retain.search.request import SearchRequest

    budget = whole("budget", budget)
    answer = search(banks, SearchRequest(query, limit=limit))
    if not answer.is_confident:
        return briefs.pack(answer, budget)
    if shown:
        answer = answer._replace(hits=tuple(filter(None, map(shown, answer.hits))))
    names = (
        briefs.scoped(f"{collection}/{name}" if collection else name, index.location.scope)
        for index in banks.indexes()
        for collection, name in index.bank.names()
    )
    return briefs.pack(answer, budget, names)


def read_body(banks: Banks, hit: Hit) -> str:
    """The whole text of the memory that a hit is from; empty when it is gone by now."""
    for index in banks.indexes():
        if index.owns(hit):
            read = index.bank.read_file(hit.collection, os.path.basename(hit.path))
            return read[0].body if read else ""
    return ""


def shortfalls(banks: Banks) -> Degraded:
    """What answers about the bank in force have to do without, after a try to mend it."""
    from retain.search.search import prepare

    index = banks.index()
    index.refresh()
    degraded = prepare(index)
    return degraded._replace(reasons=(*degraded.reasons, *index.shortfalls))


# Links


def linked(banks: Banks, target: str, query: str = "", limit: int = 5) -> Answer:
    """The memories that link to a document, ranked by a question or the newest first."""
    from retain.search import related as links
    from retain.search.request import SearchRequest

    request = SearchRequest(query, limit=limit)
    return links.linked(banks.indexes(), target, banks.cwd, request, _recency(banks))


def successor(memory: Memory) -> str:
    """What a memory says it is superseded by, in its frontmatter or in its text."""
    if memory.superseded_by or "[[" not in memory.body:
        return memory.superseded_by
    from retain.text.links import find_links

    stated = (link for link in find_links(memory.body) if link.memory_edge == "superseded_by")
    return next((link.target for link in stated if link.kind != "ghost"), "")


def successors(banks: Banks, memories: Sequence[Memory]) -> dict[str, str]:
    """What memories are superseded by, by their own words or another's, by path.

    The index is asked as it is: a command that shows one memory does not look at all files.
    """
    names = {memory.path: name for memory in memories if (name := successor(memory))}
    with contextlib.suppress(RetainError, OSError):  # each still says what it says of itself
        for index in banks.indexes():
            mine = [
                memory for memory in memories if index.owns(memory) and memory.ref.isprintable()
            ]
            if mine:
                names |= index.look(partial(successors_of, memories=mine))
    return names


def predecessors(banks: Banks, memory: Memory) -> list[str]:
    """What a memory supersedes, by its own words or the other's."""
    names = list(memory.supersedes)
    if "[[" in memory.body:
        from retain.text.links import find_links

        links = find_links(memory.body)
        names += [link.target for link in links if link.memory_edge == "supersedes"]
    with contextlib.suppress(RetainError, OSError):
        index = next((index for index in banks.indexes() if index.owns(memory)), None)
        if index:
            names += index.look(partial(predecessors_of, memory=memory))
    return sorted({name.rpartition("/")[2]: name for name in names}.values())


def graph(banks: Banks, ref: str = "", depth: int = 2) -> Graph:
    """The links of the bank in force, or those around one memory or file."""
    from retain.search import related as links

    depth = whole("depth", depth, least=0)
    return links.graph_of(banks.index(), ref, depth, cwd=banks.cwd)


def dangling_links(banks: Banks) -> list[tuple[str, str]]:
    """The links of the bank in force that lead to no memory: who links, and to what."""
    edges = graph(banks).edges
    dangling = [(edge.source, edge.target[1:]) for edge in edges if edge.target[:1] == "?"]
    return list(dict.fromkeys(dangling))


def connections(banks: Banks, ref: str) -> Graph:
    """The links of one memory of the bank in force, and those to it."""
    from retain.search import related as links

    return links.connections(banks.index(), ref)


def resolve_links(
    banks: Banks, targets: Sequence[str], near: str = ""
) -> dict[str, tuple[str, str, str, str]]:
    """Scope, collection, id and title of the memories that links name; the project's own first.

    A bare name means the memory in the collection `near`, where the link stands, if it is there.
    """
    from retain.search import related as links

    resolved: dict[str, tuple[str, str, str, str]] = {}
    for index in banks.indexes() if targets else ():
        left = [target for target in targets if target not in resolved]
        for target, address in links.addresses(index, left, near).items():
            resolved[target] = index.location.scope, *address
    return resolved


def find_ghost(banks: Banks, path: str) -> str:
    """The linked file that a path means, as the graph names it; empty if none does."""
    from retain.search import related as links

    return links.ghost_of(banks.index(), path, banks.cwd)


def related(banks: Banks, ref: str, limit: int = 10) -> list[Related]:
    """Memories connected with one: by links, files, tags or meaning."""
    from retain.search import related as links

    limit = whole("limit", limit)
    shortfalls(banks)  # a few missing vectors are made first, as for a search
    return links.related(banks.index(), ref, limit)


# Duplicates


def suggest_merges(
    banks: Banks,
    threshold: float = 0.85,
    type: str = "journal",  # noqa: A002 - as the flags are called
    limit: int = 5,
    *,
    ignored: bool = False,
) -> list[duplicates.Cluster]:
    """Groups of memories that could be one; those that a person ignores only if asked for."""
    from retain.search import duplicates

    threshold, limit = share("threshold", threshold), whole("limit", limit)
    index = _filled_index(banks)
    apart = () if ignored else ignored_pairs(banks)
    # As many more are asked for as may be left out.
    most = limit + len(apart)
    clusters = duplicates.clusters(index, threshold=threshold, kind=type, limit=most)
    others = (cluster for cluster in clusters if not _is_ignored(cluster.members, apart))
    return list(islice(others, limit))


def dedupe(banks: Banks, *, ignored: bool = False) -> list[duplicates.Proposal]:
    """Pairs of memories that state one fact twice, as proposals; see `suggest_merges`."""
    from retain.search import duplicates

    apart = () if ignored else ignored_pairs(banks)
    proposals = duplicates.proposals(_filled_index(banks))
    return [pair for pair in proposals if not _is_ignored((pair.older, pair.newer), apart)]


def ignored_pairs(banks: Banks) -> Sequence[frozenset[str]]:
    """The memories of the bank in force that are alike, and a person says they may be."""
    from retain.capture.inbox import Inbox

    return Inbox(banks.location.root, banks.env).ignored()


def ignore_pair(banks: Banks, refs: Sequence[str], *, again: bool = False) -> None:
    """Ignore from now on that these memories are alike, or speak of it again."""
    from retain.capture.inbox import Inbox

    inbox = Inbox(banks.location.root, banks.env)
    (inbox.unignore if again else inbox.ignore)(refs)


def alike(banks: Banks, collection: str, name: str) -> list[duplicates.Alike]:
    """Memories that seem to state the same fact as one that was just written."""
    from retain.search import duplicates

    return duplicates.alike(banks.index_of(banks.bank), collection, name)


def cosines(banks: Banks, text: str, others: Sequence[str]) -> list[float] | None:
    """How near texts are to one, as cosines; None without a model to tell."""
    from retain.search import duplicates

    return duplicates.cosines(banks.index_of(banks.bank), text, others)


def _filled_index(banks: Banks) -> Index:
    """The index of the bank in force with every vector made."""
    index = banks.index()
    index.refresh()
    index.make_vectors()
    return index


# Listings


def browse(
    banks: Banks, chosen: queries.Chosen, order: str, limit: int, offset: int
) -> queries.Page:
    """One page of the memories of every bank in force that were chosen, from the index."""
    from retain.index import queries

    surveys = []
    for index in banks.indexes():
        read = partial(queries.survey, chosen=chosen, order=order, scope=index.location.scope)
        surveys.append((index, index.read(read)))
    facets = {
        name: sum((survey.facets[name] for _, survey in surveys), Counter[str]())
        for name in queries.FACETS
    }
    total = sum(len(survey.found) for _, survey in surveys)
    # One page in one order over all banks.
    rows = [(key, at, row) for at, (_, survey) in enumerate(surveys) for key, row in survey.found]
    rows.sort(key=itemgetter(0), reverse=queries.ORDERS[order][1])
    page = [(at, number) for _, at, number in rows[offset : offset + limit]]
    shown: dict[tuple[int, int], queries.Listed] = {}
    for at, (index, _) in enumerate(surveys):
        numbers = [number for where, number in page if where == at]
        listed = _list_numbers(index, numbers, is_fresh=True)
        shown |= {(at, number): memory for number, memory in listed.items()}
    # What was deleted in between is left out.
    return queries.Page(total, tuple(shown[row] for row in page if row in shown), facets)


def find_by_name(banks: Banks, words: str, limit: int) -> list[queries.Listed]:
    """Memories of the bank in force by their title and their name, as a person begins them."""
    from retain.index import queries

    index = banks.index()
    numbers = index.read(partial(queries.find_titles, words=words.split(), limit=limit))
    listed = _list_numbers(index, numbers)
    return [listed[number] for number in numbers if number in listed]


def _list_numbers(
    index: Index, numbers: Sequence[int], *, is_fresh: bool = False
) -> Mapping[int, queries.Listed]:
    from retain.index import queries

    read = partial(queries.list_memories, numbers=numbers, scope=index.location.scope)
    return index.read(read, is_fresh=is_fresh) if numbers else {}


def dated_memories(banks: Banks) -> list[queries.Dated]:
    """Every memory of the bank in force with its times and its author, from the index."""
    from retain.index import queries

    return banks.index().read(queries.list_dates)


def count_types(banks: Banks) -> Mapping[str, int]:
    """How many memories there are of each type, in every bank in force."""
    from retain.index import queries

    return sum((Counter(index.read(queries.count_types)) for index in banks.indexes()), Counter())


# The index


def sync(banks: Banks, *, force: bool = False, progress: Progress | None = None) -> Changes:
    """Bring the index of the bank in force in step with its files."""
    return banks.index().refresh(force=force, force_look=True, progress=progress)


def refresh(banks: Banks, progress: Progress) -> None:
    """Bring the index of every bank in force in step with its files, with someone watching."""
    for index in banks.indexes():
        index.refresh(progress=progress)


def watch(banks: Banks, ended: Event, *, all_events: bool = False) -> Iterator[Changes]:
    """Keep the bank in force in step with its files until `ended` is set.

    With `all_events` also looks that took in nothing: another process may have indexed a
    change already, and whoever shows it has not heard of that.
    """
    held, heard, state = 0, 0, None
    while not ended.is_set():
        try:
            with banks.turn():
                index = banks.index()
                count = index.watcher.count
                changes = sync(banks)
                now = index.look(lambda connection: connection.execute(MEMORY_STATE).fetchone())
        except Busy:  # another process is at work: there will be something to see later
            ended.wait(_BUSY_SECONDS)
            continue
        is_news = now != state or 0 < heard != count
        if changes.any or changes.held != held or (all_events and is_news):
            yield changes
        held, heard, state = changes.held, count, now
        index.watcher.wait(heard, ended)


def rebuild(banks: Banks, progress: Progress | None = None) -> Changes:
    """Set the index aside and make it anew; vectors that still fit are kept."""
    index = banks.index()
    held = index.refresh(force_look=True).held
    if held:
        raise Conflict(
            f"{held} memories are missing from disk at once; a new index would forget them",
            unchanged="The index was left as it is.",
            hint="Bring the files back, or say that it is meant: retain sync --force",
        )
    index.database.replace("it was asked for")
    return index.refresh(force_look=True, progress=progress)


def has_model(banks: Banks) -> bool:
    """Whether there is a model to make vectors with; it is not loaded."""
    return banks.config.text("recall.embedder") != "none"


def index_facts(banks: Banks, *, is_fresh: bool = False) -> queries.Facts:
    """What the index of the bank in force holds; `is_fresh` if it was just brought in step."""
    from retain.index import queries

    facts = banks.index().read(queries.facts, is_fresh=is_fresh)
    return facts if has_model(banks) else facts._replace(pending=0)


def stats(banks: Banks) -> Stats:
    """The bank in force in numbers."""
    from retain.doctor import Stats, read_unless
    from retain.index import queries

    if not banks.bank.location.exists:
        return Stats(queries.Facts(), {}, {}, 0, ())
    index = banks.index()
    sync(banks)
    problems: list[Problem] = []
    # The index does not remember what it left out.
    for _ in read_unless(index.bank, index.look(queries.files), problems):
        pass
    return Stats(
        index_facts(banks, is_fresh=True),
        index.look(queries.count_tags),
        index.look(queries.count_types),
        0 if index.database.is_temporary else os.path.getsize(index.database.path),
        tuple(problem for problem in problems if not problem.is_minor),
    )


def health(banks: Banks, *, repair: bool = False, progress: Progress | None = None) -> Health:
    """Compare the index of the bank in force with the files; a wrong one can be made anew."""
    from retain.doctor import Health, index_faults

    index = banks.index()
    is_rebuilt = False
    for _ in range(2):  # what someone wrote meanwhile is no fault
        held = sync(banks).held
        faults = index_faults(index.bank, index.database)
        if not faults:
            break
    if faults and repair and not held:
        rebuild(banks, progress)
        faults, is_rebuilt = index_faults(index.bank, index.database), True
    return Health(index_facts(banks), tuple(faults), tuple(index.database.notes), is_rebuilt)


def _is_ignored(members: Iterable[duplicates.Member], apart: Iterable[frozenset[str]]) -> bool:
    refs = {member.ref for member in members}
    return any(refs <= pair for pair in apart)
