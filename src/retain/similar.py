"""Memories that say nearly the same: groups to merge, facts that a newer one replaces.

Everything here proposes; nothing is merged or marked unasked.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.index.text import lexicon
from retain.indexed import Indexed
from retain.words import words

if TYPE_CHECKING:
    from retain.index.vectors import Floats, Matrix, Numbers

__all__ = [
    "NEAR",
    "SAME",
    "Alike",
    "Cluster",
    "Member",
    "Proposal",
    "alike",
    "clusters",
    "cosines",
    "nearest",
    "proposals",
]

SAME: Final = 0.95  # cosine from which two texts say the same
NEAR: Final = 0.62  # cosine from which they may be about the same fact, if words agree too

_PREVIEW: Final = 100
_BLOCK: Final = 1_000
_MOST: Final = 20_000  # memories compared with each other
_MOST_EACH: Final = 10  # near memories of each that are looked at
_SHARED: Final = 0.45  # share of the shorter one's rarity that the other one must have
_SHORT: Final = 600  # characters: a fact, not an essay
_TELLING: Final = re.compile(r"\d+(?:[.,:]\d+)*|\b(?:no|not|never|without)\b|n['\u2019]t\b")


class Member(NamedTuple):
    """A memory of a group."""

    number: int
    id: str
    collection: str
    path: str
    title: str
    created_at: str
    preview: str
    modified: int = 0  # of the file, in nanoseconds

    @property
    def ref(self) -> str:
        return f"{self.collection}/{self.id}" if self.collection else self.id


class Cluster(NamedTuple):
    """Memories that are all near each other, directly or by way of others."""

    score: float
    members: tuple[Member, ...]


class Alike(NamedTuple):
    """A memory that is like another one, and how much."""

    member: Member
    score: float
    is_same: bool


class Proposal(NamedTuple):
    """What could be done about two memories that are alike."""

    action: str  # merge: neither is the newer fact; supersede: the newer one replaces the older
    older: Member
    newer: Member
    score: float
    reason: str


def clusters(bank: Indexed, *, threshold: float, kind: str, limit: int) -> list[Cluster]:
    """Groups of memories of a type whose vectors are nearer than the threshold, tightest first."""
    return bank.read(lambda connection: _clusters(bank, connection, threshold, kind, limit))


def _clusters(
    bank: Indexed, connection: sqlite3.Connection, threshold: float, kind: str, limit: int
) -> list[Cluster]:
    found = _whole_vectors(bank, connection, kind)
    if found is None:
        return []
    numbers, vectors = _in_force(connection, *found)
    pairs = _pairs(vectors, threshold)
    groups = _connected(pairs)
    members = _members(bank, connection, [int(numbers[at]) for group in groups for at in group])
    made = [
        Cluster(
            round(sum(scores) / len(scores), 4),
            tuple(members[int(numbers[at])] for at in sorted(group)),
        )
        for group, scores in groups.items()
    ]
    return sorted(made, key=lambda one: (-one.score, one.members[0].ref))[:limit]


def _in_force(
    connection: sqlite3.Connection, numbers: Numbers, vectors: Floats
) -> tuple[Numbers, Floats]:
    """Those whose place no other has taken: what was settled that way is not to be merged."""
    import numpy as np

    gone = [one for (one,) in connection.execute("SELECT number FROM memories WHERE is_superseded")]
    is_left = np.isin(numbers, gone, invert=True)
    return numbers[is_left], vectors[is_left]


def _whole_vectors(
    bank: Indexed, connection: sqlite3.Connection, kind: str = ""
) -> tuple[Numbers, Floats] | None:
    """One unit vector per memory: the mean of its chunks'."""
    import numpy as np

    matrix = _matrix(bank, connection)
    if matrix is None:
        return None
    query = "SELECT number FROM memories WHERE NOT is_gone AND status <> 'retired'"
    values: tuple[str, ...] = ()
    if kind:
        query, values = f"{query} AND type = ?", (kind,)
    wanted = [number for (number,) in connection.execute(query, values)][-_MOST:]
    places = matrix.among(wanted)
    numbers, group = np.unique(matrix.memories[places], return_inverse=True)
    sums = np.zeros((len(numbers), matrix.dimension), np.float32)
    for start in range(0, len(places), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.add.at(sums, group[part], matrix.vectors(places[part]))
    return numbers, sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)


def _matrix(bank: Indexed, connection: sqlite3.Connection) -> Matrix | None:
    embedder = bank.embedder
    row = connection.execute("SELECT length(vector) - 4 FROM vectors LIMIT 1").fetchone()
    if embedder is None or row is None:
        return None
    # By what is stored: to ask a remote model for its dimension takes a request.
    return bank.vectors.matrix(connection, embedder.name, row[0])


def _pairs(vectors: Floats, threshold: float) -> list[tuple[int, int, float]]:
    """Pairs nearer than the threshold, for each memory its nearest later ones."""
    import numpy as np

    pairs: list[tuple[int, int, float]] = []
    for start in range(0, len(vectors), _BLOCK):
        scores = vectors[start : start + _BLOCK] @ vectors[start:].T
        for row in range(len(scores)):
            later = scores[row, row + 1 :]
            near = np.flatnonzero(later > threshold)
            if len(near) > _MOST_EACH:  # the same text a thousand times is one group all the same
                near = near[np.argsort(-later[near], kind="stable")[:_MOST_EACH]]
            one = start + row
            pairs += [(one, one + 1 + int(at), float(later[at])) for at in near]
    return pairs


def _connected(pairs: Sequence[tuple[int, int, float]]) -> dict[tuple[int, ...], list[float]]:
    """Connected groups, each with the scores of its edges."""
    leader: dict[int, int] = {}

    def find(one: int) -> int:
        while leader.setdefault(one, one) != one:
            leader[one] = leader[leader[one]]
            one = leader[one]
        return one

    for one, other, _ in pairs:
        leader[max(find(one), find(other))] = min(find(one), find(other))
    groups: dict[int, set[int]] = defaultdict(set)
    scores: dict[int, list[float]] = defaultdict(list)
    for one, other, score in pairs:
        groups[find(one)] |= {one, other}
        scores[find(one)].append(score)
    return {tuple(sorted(group)): scores[name] for name, group in groups.items()}


def _members(
    bank: Indexed, connection: sqlite3.Connection, numbers: Sequence[int]
) -> Mapping[int, Member]:
    query = (
        "SELECT m.number, m.id, m.collection, m.file, m.title, m.created, "
        "(SELECT text FROM chunks c WHERE c.memory = m.number ORDER BY c.number LIMIT 1), "
        "m.modified FROM memories m WHERE m.number IN (SELECT value FROM json_each(?))"
    )
    rows = connection.execute(query, (json.dumps(list(numbers)),))
    return {row[0]: _member(bank.bank.root, *row) for row in rows}


def _member(root: str, *row: Any) -> Member:
    number, name, collection, file, title, created, text, modified = row
    preview = " ".join((text or "").split())
    preview = preview if len(preview) <= _PREVIEW else f"{preview[:_PREVIEW].rstrip()}..."
    path = f"{root}/{collection}/{file}" if collection else f"{root}/{file}"
    return Member(number, name, collection, path, title, created, preview, modified)


# Facts that are alike


def alike(bank: Indexed, collection: str, name: str) -> list[Alike]:
    """Memories that seem to state the same fact as this one, the most alike first.

    Words are compared first, because that is nearly free; only where they agree is it worth to
    make a vector.
    """
    text, others, members = bank.look(
        lambda connection: _candidates(bank, connection, collection, name)
    )
    if not others:
        return []
    # A model far away may take its time, so no index is held meanwhile.
    scores = _cosines(bank, text, others)
    found = [
        Alike(
            members[other],
            round(score, 4),
            score >= SAME and _telling(text) == _telling(others[other]),
        )
        for other, score in scores.items()
        if score >= NEAR
    ]
    return sorted(found, key=lambda one: (-one.score, one.member.ref))


def _candidates(
    bank: Indexed, connection: sqlite3.Connection, collection: str, name: str
) -> tuple[str, Mapping[int, str], Mapping[int, Member]]:
    """The text of a short memory, and those that share its words."""
    query = (
        "SELECT m.number, c.text FROM memories m JOIN chunks c ON c.memory = m.number "
        "WHERE m.collection = ? AND m.id = ? AND m.chunks = 1"
    )
    row = connection.execute(query, (collection, name)).fetchone()
    if not row or not row[1].strip() or len(row[1]) > _SHORT:
        return "", {}, {}
    number, text = row
    others = _sharing(connection, number, words(text))
    return text, others, _members(bank, connection, list(others))


def _sharing(connection: sqlite3.Connection, number: int, terms: Sequence[str]) -> dict[int, str]:
    """Short memories that share most of the rarer words, with their texts."""
    known = lexicon(connection, terms)
    chosen = sorted((t for t in known.rarity if known.counts[t] > 1), key=known.counts.__getitem__)
    if not chosen:
        return {}
    expression = " OR ".join(f'"{term}"' for term in chosen[:8])
    query = (
        "SELECT c.memory, c.text FROM terms t JOIN chunks c ON c.number = t.rowid "
        "JOIN memories m ON m.number = c.memory WHERE t.terms MATCH ? AND m.chunks = 1 "
        "AND NOT m.is_gone AND m.status = 'active' AND NOT m.is_superseded AND c.memory <> ? "
        "ORDER BY t.rank LIMIT 20"
    )
    return {
        memory: text
        for memory, text in connection.execute(query, (expression, number))
        if len(text) <= _SHORT and _overlap(known.rarity, terms, words(text)) >= _SHARED
    }


def _telling(text: str) -> list[str]:
    """The numbers and negations of a text: where they differ, two facts are not the same one."""
    return sorted(_TELLING.findall(text.casefold()))


def _overlap(rarity: Mapping[str, float], terms: Sequence[str], other: Sequence[str]) -> float:
    """The share of the words in common, by rarity, in the text that has less to say."""
    here, there = set(terms), set(other)
    if len(here & there) < 2 and here != there:
        return 0.0  # one word is a subject, not a fact
    # In a bank of two memories what they share is common, and counts all the same.
    both, *sides = (
        sum(1 + rarity.get(term, 1.0) for term in some) for some in (here & there, here, there)
    )
    return both / min(sides) if min(sides) else 0.0


def _cosines(bank: Indexed, text: str, others: Mapping[int, str]) -> dict[int, float]:
    scores = cosines(bank, text, [*others.values()])
    if scores is None:
        return {number: float(SAME) for number, other in others.items() if other == text}
    return dict(zip(others, scores, strict=True))


def cosines(bank: Indexed, text: str, others: Sequence[str]) -> list[float] | None:
    """How near texts are to one; None without a model to tell."""
    embedder = bank.embedder
    if embedder is None:
        return None
    vectors = embedder.embed([text, *others])
    return [float(score) for score in vectors[1:] @ vectors[0]]


def proposals(bank: Indexed) -> list[Proposal]:
    """Every pair of short memories that seems to state one fact twice."""
    return bank.read(lambda connection: _proposals(bank, connection))


def _proposals(bank: Indexed, connection: sqlite3.Connection) -> list[Proposal]:
    found = _whole_vectors(bank, connection)
    if found is None:
        return []
    numbers, vectors = found
    pairs = [
        (int(numbers[one]), int(numbers[other]), score)
        for one, other, score in _pairs(vectors, NEAR)
    ]
    texts = _short_texts(connection, {number for pair in pairs for number in pair[:2]})
    members = _members(bank, connection, list(texts))
    made = []
    for one, other, score in pairs:
        if one not in texts or other not in texts:
            continue
        is_same = score >= SAME and _telling(texts[one]) == _telling(texts[other])
        if score < SAME and not _agree(connection, texts[one], texts[other]):
            continue
        made.append(_proposal(members[one], members[other], score, is_same))
    return sorted(made, key=lambda one: (-one.score, one.older.ref, one.newer.ref))


def _short_texts(connection: sqlite3.Connection, numbers: set[int]) -> dict[int, str]:
    query = (
        "SELECT m.number, c.text FROM memories m JOIN chunks c ON c.memory = m.number "
        "WHERE m.chunks = 1 AND m.status = 'active' AND NOT m.is_superseded AND NOT m.is_gone "
        "AND length(c.text) <= ? AND m.number IN (SELECT value FROM json_each(?))"
    )
    return dict(connection.execute(query, (_SHORT, json.dumps(sorted(numbers)))))


def _agree(connection: sqlite3.Connection, one: str, other: str) -> bool:
    terms, others = words(one), words(other)
    known = lexicon(connection, [*terms, *others])
    return _overlap(known.rarity, terms, others) >= _SHARED


def _proposal(one: Member, other: Member, score: float, is_same: bool) -> Proposal:
    older, newer = sorted((one, other), key=lambda it: (*_age(it), it.ref))
    if is_same:
        return Proposal("merge", older, newer, round(score, 4), "they say the same")
    if _age(older) == _age(newer):
        reason = "they state the same fact, and nobody can tell which is newer"
        return Proposal("merge", older, newer, round(score, 4), reason)
    reason = "they state the same fact, and one is newer"
    return Proposal("supersede", older, newer, round(score, 4), reason)


def _age(member: Member) -> tuple[float, int]:
    """When a memory was created, to the second, and when its file was written, much finer."""
    try:
        moment = datetime.fromisoformat(member.created_at)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.timestamp(), member.modified
    except (ValueError, OverflowError):
        return member.modified / 1e9, member.modified


# Nearness for `related`


def nearest(
    bank: Indexed, connection: sqlite3.Connection, number: int, limit: int = 20
) -> dict[int, float]:
    """The memories whose vectors are nearest to this one's, with the cosine."""
    import numpy as np

    found = _whole_vectors(bank, connection)
    if found is None:
        return {}
    numbers, vectors = found
    place = np.flatnonzero(numbers == number)
    if not len(place):
        return {}
    scores = vectors @ vectors[place[0]]
    order = np.lexsort((numbers, -scores))[: limit + 1]
    return {int(numbers[at]): float(scores[at]) for at in order if numbers[at] != number}
