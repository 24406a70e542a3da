"""Answers that follow links: what a hit links to, who links to a document."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import UsageError
from retain.index import graph
from retain.index.graph import Edge
from retain.indexed import Indexed
from retain.links import normal
from retain.model import Answer, Degraded, Hit
from retain.paths import key
from retain.recall.asking import Wanted
from retain.recall.searching import Recency, search
from retain.recall.targets import (
    Document,
    file_names,
    memory_of,
    names_of,
    numbers_of,
    ref_of,
    state_of,
)

if TYPE_CHECKING:
    from retain.freshness import Project

__all__ = ["addresses", "linked", "successors", "with_links"]

_MOST_LINKS: Final = 20  # files shown with one hit


class _Around(NamedTuple):
    """What stands around some hits: the files each links to, and what each is superseded by."""

    edges: Mapping[tuple[str, str], Sequence[Edge]]
    successors: Mapping[tuple[str, str], str]


def with_links(banks: Sequence[Indexed], answer: Answer) -> Answer:
    """Each hit with the files it links to, how they are now, and what it is superseded by."""
    hits = list(answer.hits)
    for bank in banks:
        own = [at for at, hit in enumerate(hits) if bank.owns(hit)]
        if own:
            # In the very index that was brought in step: another may have been put in its place.
            around = bank.read(partial(_around, hits=[hits[at] for at in own]), is_fresh=True)
            project = bank.project
            for at in own:
                name = (hits[at].collection, hits[at].id)
                hits[at] = hits[at]._replace(
                    links=tuple(state_of(edge, project) for edge in around.edges.get(name, ())),
                    superseded_by=around.successors.get(name, ""),
                )
    return answer._replace(hits=tuple(hits))


def _around(connection: sqlite3.Connection, hits: Sequence[Hit]) -> _Around:
    found = {
        (hit.collection, hit.id): number
        for hit in hits
        for number in numbers_of(connection, hit.collection, hit.id)
    }
    old = {(hit.collection, hit.id) for hit in hits if hit.is_superseded} & found.keys()
    named = successors(connection, [found[name] for name in old])
    return _Around(
        _files_linked(connection, found.values()),
        {name: named[found[name]] for name in old if found[name] in named},
    )


def successors(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """What each of these memories is superseded by, by its own word or the other's."""
    numbers = list(numbers)
    if not numbers:
        return {}
    replaced = graph.superseded(connection)
    found: dict[int, str] = {}
    for number in numbers:
        collection, name = connection.execute(
            "SELECT collection, key FROM memories WHERE number = ?", (number,)
        ).fetchone()
        heir = replaced.get(f"{key(collection)}/{name}")
        if heir is not None:
            found[number] = ref_of(connection, heir)
    for edge in graph.edges_from(connection, numbers):
        # What a memory says of itself counts more; a name that nobody has is told as it is.
        if edge.memory_edge == "superseded_by":
            heir = memory_of(connection, key(edge.target))
            found[edge.memory] = edge.target if heir is None else ref_of(connection, heir)
    return found


def _files_linked(
    connection: sqlite3.Connection, numbers: Iterable[int]
) -> Mapping[tuple[str, str], list[Edge]]:
    edges: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for edge in graph.edges_from(connection, numbers):
        # `collection/id` looks like a path too, until one asks whether there is such a memory.
        here = edges[edge.collection, edge.id]
        if (
            edge.kind == "ghost"
            and len(here) < _MOST_LINKS
            and memory_of(connection, key(edge.target)) is None
        ):
            here.append(edge)
    return edges


def linked(
    banks: Sequence[Indexed], document: Document, wanted: Wanted, recency: Recency, now: datetime
) -> Answer:
    """The memories that link to a document: those a question fits best, or the newest first."""
    wanted = wanted.checked()
    hits: list[Hit] = []
    answers = []
    for bank in banks:
        edges = bank.read(partial(_linking_to, document=document, project=bank.project))
        if edges:
            answer = _ranked(bank, edges, wanted, recency, now)
            hits += _with_anchors(bank, answer.hits, edges)
            answers.append(answer)
    if not answers:
        _refuse_outside(document, [bank.project for bank in banks])
    if not wanted.query.strip():  # every link answers a question that asks for nothing more
        hits = [hit._replace(score=1.0) for hit in hits]
    hits.sort(key=lambda hit: (hit.collection, hit.id))
    hits.sort(key=(lambda hit: hit.score) if wanted.query.strip() else _age, reverse=True)
    sure = max((one.confidence for one in answers), default=0.0)
    degraded = Degraded.of(one.degraded for one in answers)
    return Answer(tuple(hits[: wanted.limit]), sure, bool(hits), degraded)


def _age(hit: Hit) -> str:
    return hit.created_at


def _ranked(
    bank: Indexed, edges: Sequence[Edge], wanted: Wanted, recency: Recency, now: datetime
) -> Answer:
    names = {(edge.collection, edge.id) for edge in edges}
    conditions = wanted.conditions._replace(only=frozenset(names))
    # A link is reason enough to be listed, whether or not the question fits.
    every = wanted._replace(conditions=conditions, limit=len(names), lists_all=True)
    return search([bank], every, recency, now)


def _with_anchors(bank: Indexed, hits: Sequence[Hit], edges: Sequence[Edge]) -> Iterable[Hit]:
    project = bank.project
    for hit in hits:
        own = [edge for edge in edges if (edge.collection, edge.id) == (hit.collection, hit.id)]
        yield hit._replace(links=tuple(state_of(edge, project) for edge in own))


def _refuse_outside(document: Document, projects: Sequence[Project | None]) -> None:
    """Say so when a document that nothing links to can be no file of any project."""
    if not document.plain:
        raise UsageError("say which document: a file of the project, or a memory")
    roots = [project.root for project in projects if project]
    if roots and not any(one.meant(document.plain, document.cwd) for one in projects if one):
        raise UsageError(
            f"{document.plain} is outside the project {roots[0]}, and no memory links to it",
            hint=f"Name a file below {roots[0]}, or a memory.",
        )


def _linking_to(
    connection: sqlite3.Connection, document: Document, project: Project | None
) -> list[Edge]:
    """Every link to a document or a memory, however either is spelt."""
    plain = document.plain
    names = set(file_names(connection, document, project))
    number = memory_of(connection, key(plain))
    if number is not None:
        names |= names_of(connection, number)
    if number is not None or normal(plain) in names:
        names.add(key(plain))
    edges = [edge for edge in graph.edges_to(connection, names) if edge.edge != "merged_from"]
    return edges if number is None else [it._replace(edge=it.memory_edge) for it in edges]


def addresses(bank: Indexed, targets: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Collection and id of the memories that links name, by what they call them."""
    return bank.read(lambda connection: _addresses(connection, targets))


def _addresses(
    connection: sqlite3.Connection, targets: Sequence[str]
) -> dict[str, tuple[str, str]]:
    numbers = {target: memory_of(connection, key(target)) for target in targets}
    query = "SELECT collection, id FROM memories WHERE number = ?"
    return {
        target: connection.execute(query, (number,)).fetchone()
        for target, number in numbers.items()
        if number is not None
    }
