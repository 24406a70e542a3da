"""Memories that say nearly the same: groups to merge, facts that a newer one replaces.

Everything here proposes; nothing is merged or marked unasked.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index.fulltext import lexicon
from retain.index.graph import successors
from retain.index.index import Index
from retain.memory import Data, parse_time
from retain.text.tokens import words

if TYPE_CHECKING:
    from retain.index.vectors import Floats, Numbers


SAME: Final = 0.95  # cosine from which two texts say the same
NEAR: Final = 0.62  # cosine from which they may be about the same fact, if words agree too

_PREVIEW: Final = 100
_BLOCK: Final = 1_000
_MAX_COMPARED: Final = 20_000  # memories compared with each other
_MAX_EACH: Final = 10  # near memories of each that are looked at
_SHARED: Final = 0.45  # share of the shorter one's rarity that the other one must have
_SHARED_ALONE: Final = 0.6  # the same, where there is no vector to tell besides
_SHARED_OF_BOTH: Final = 0.32  # of the words of both: who merely contains a fact says another one
_SHORT: Final = 600  # characters: a fact, not an essay
_REDACTED: Final = re.compile(r"\[REDACTED:[^\]]*\]")
_NEGATION: Final = re.compile(r"\b(?:no|not|never|without)\b|n['\u2019]t\b")
_TELLING: Final = re.compile(rf"\d+(?:[.,:]\d+)*|{_NEGATION.pattern}")


class Member(NamedTuple):
    """A memory of a group."""

    id: str
    collection: str
    path: str
    title: str
    created_at: str
    preview: str
    modified: int = 0  # of the file, in nanoseconds
    updated_at: str = ""

    @property
    def ref(self) -> str:
        return f"{self.collection}/{self.id}" if self.collection else self.id

    @property
    def address(self) -> str:
        """A reference that names this memory alone, whatever else shares its id."""
        return f"{self.collection}/{self.id}"

    @property
    def age(self) -> tuple[float, int]:
        """When it was last changed, to the second, and when its file was written, much finer."""
        moment = parse_time(self.updated_at) or parse_time(self.created_at)
        return moment.timestamp() if moment else self.modified / 1e9, self.modified

    def to_dict(self) -> Data:
        return {
            "id": self.id,
            "collection": self.collection,
            "title": self.title,
            "created_at": self.created_at or None,
            "file_path": self.path,
            "preview": self.preview,
        }


class Cluster(NamedTuple):
    """Memories that are all near each other, directly or by way of others."""

    score: float
    members: tuple[Member, ...]

    def to_dict(self, number: int, threshold: float) -> Data:
        return {
            "cluster_id": number,
            "score": self.score,
            "reason": f"High vector similarity (> {threshold:g})",
            "memory_count": len(self.members),
            "memories": [
                {"id": member.ref, "file_path": member.path, "preview": member.preview}
                for member in self.members
            ],
        }


class Alike(NamedTuple):
    """A memory that is like another one, and how much."""

    member: Member
    score: float
    is_same: bool

    def to_dict(self) -> Data:
        return {
            "id": self.member.id,
            "collection": self.member.collection,
            "score": self.score,
            "same": self.is_same,
            "preview": self.member.preview,
        }


class Proposal(NamedTuple):
    """What could be done about two memories that are alike."""

    action: str  # merge: neither is the newer fact; supersede: the newer one replaces the older
    older: Member
    newer: Member
    score: float
    reason: str

    def to_dict(self) -> Data:
        return {**self._asdict(), "older": self.older.to_dict(), "newer": self.newer.to_dict()}


# Groups


def clusters(index: Index, *, threshold: float, kind: str, limit: int) -> list[Cluster]:
    """Groups of memories of a type whose vectors are nearer than the threshold, tightest first."""
    found = index.read(partial(_clusters, index=index, threshold=threshold, kind=kind))
    return sorted(found, key=lambda it: (-it.score, it.members[0].ref))[:limit]


def _clusters(
    connection: sqlite3.Connection, index: Index, threshold: float, kind: str
) -> list[Cluster]:
    # Those whose place another has taken are settled, and not to be merged.
    vectors = _memory_vectors(connection, index, kind, "AND NOT is_superseded")
    pairs = _pairs(*vectors, threshold)
    groups: dict[int, set[int]] = {}  # each memory's, the same set for all of its members
    for first, second, _ in pairs:
        one, other = (groups.setdefault(number, {number}) for number in (first, second))
        if one is not other:
            small, large = sorted((one, other), key=len)
            large |= small
            groups |= dict.fromkeys(small, large)
    scores: dict[int, list[float]] = defaultdict(list)
    for first, _, score in pairs:
        scores[id(groups[first])].append(score)
    members = _members(connection, index, groups)
    return [
        Cluster(round(mean(scores[number]), 4), tuple(members[number] for number in sorted(group)))
        for number, group in {id(group): group for group in groups.values()}.items()
    ]


def _memory_vectors(
    connection: sqlite3.Connection, index: Index, kind: str = "", condition: str = ""
) -> tuple[Numbers, Floats]:
    """One unit vector per memory, the mean of its chunks', with the memories' numbers."""
    import numpy as np

    embedder = index.embedder
    row = connection.execute("SELECT length(vector) - 4 FROM vectors LIMIT 1").fetchone()
    # By the dimension that is stored: to ask a remote model for it takes a request.
    matrix = index.vectors.matrix(connection, embedder.name, row[0]) if embedder and row else None
    if matrix is None:
        return np.zeros(0, np.int64), np.zeros((0, 1), np.float32)
    query = (
        "SELECT number FROM memories WHERE NOT is_gone AND status <> 'retired' "  # noqa: S608 - ours
        f"AND (type = ? OR ? = '') {condition}"
    )
    wanted = [number for (number,) in connection.execute(query, (kind, kind))][-_MAX_COMPARED:]
    places = matrix.among(wanted)
    numbers, group = np.unique(matrix.memories[places], return_inverse=True)
    sums = np.zeros((len(numbers), matrix.data.shape[1]), np.float32)
    for start in range(0, len(places), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.add.at(sums, group[part], matrix.vectors(places[part]))
    return numbers, sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-6)


def _pairs(numbers: Numbers, vectors: Floats, threshold: float) -> list[tuple[int, int, float]]:
    """Pairs of memories nearer than the threshold, for each its nearest later ones."""
    import numpy as np

    pairs: list[tuple[int, int, float]] = []
    for start in range(0, len(vectors), _BLOCK):
        scores = np.triu(vectors[start : start + _BLOCK] @ vectors[start:].T, 1)
        for row, near in enumerate(scores):
            # The same text a thousand times is one group all the same.
            places = np.flatnonzero(near > threshold)
            places = places[np.argsort(-near[places], kind="stable")][:_MAX_EACH]
            pairs += [
                (int(numbers[start + row]), int(numbers[start + at]), float(near[at]))
                for at in places
            ]
    return pairs


def _members(
    connection: sqlite3.Connection, index: Index, numbers: Iterable[int]
) -> Mapping[int, Member]:
    query = (
        "SELECT m.number, m.id, m.collection, m.file, m.title, m.created, "
        "(SELECT text FROM chunks c WHERE c.memory = m.number ORDER BY c.number LIMIT 1), "
        "m.modified, json_extract(m.meta, '$.updated_at') FROM memories m "
        "WHERE m.number IN (SELECT value FROM json_each(?))"
    )
    members = {}
    for row in connection.execute(query, (json.dumps(list(numbers)),)):
        number, name, collection, file, title, created, text, modified, updated = row
        preview = " ".join((text or "").split())
        if len(preview) > _PREVIEW:
            preview = f"{preview[:_PREVIEW].rstrip()}..."
        path = "/".join(filter(None, (index.location.root, collection, file)))
        members[number] = Member(
            name, collection, path, title, created, preview, modified, str(updated or "")
        )
    return members


# Facts that are alike

# Facts are short, and have not been replaced or put away.
_FACTS: Final = (
    "SELECT m.number, c.text FROM memories m JOIN chunks c ON c.memory = m.number "  # noqa: S608
    f"WHERE m.chunks = 1 AND length(c.text) <= {_SHORT} AND m.status = 'active' "
    "AND NOT m.is_superseded AND NOT m.is_gone AND "
)


def alike(index: Index, collection: str, name: str) -> list[Alike]:
    """Short memories that seem to state the same fact as this one, the most alike first.

    Words alone decide: whoever puts a memory does not wait for a model to load.
    """
    found = index.look(partial(_alike, index=index, ref=(collection, name)))
    return sorted(found, key=lambda it: (-it.score, it.member.ref))


def _alike(connection: sqlite3.Connection, index: Index, ref: tuple[str, str]) -> list[Alike]:
    fact = connection.execute(f"{_FACTS} m.collection = ? AND m.id = ?", ref).fetchone()
    number, text = fact or (0, "")
    terms = _terms(text)
    known = lexicon(connection, terms)
    rarest = sorted((t for t in known.rarity if known.counts[t] > 1), key=known.counts.__getitem__)
    query = (
        f"{_FACTS} m.number <> ? AND m.number IN (SELECT memory FROM chunks JOIN "  # noqa: S608
        "(SELECT rowid AS found FROM terms WHERE terms MATCH ? ORDER BY rank LIMIT 50) "
        "ON number = found)"
    )
    expression = " OR ".join(f'"{term}"' for term in rarest[:8]) or '""'
    texts = _without_superseded(connection, connection.execute(query, (number, expression)))
    members = _members(connection, index, texts)
    found = []
    for other, theirs in texts.items():
        others = _terms(theirs)
        if score := _share(known.rarity, terms, others, _SHARED_ALONE):
            found.append(Alike(members[other], score, terms == others))
    return found


def _terms(text: str) -> list[str]:
    """The words that two texts can have in common: also negations, not the marks of secrets."""
    plain = _REDACTED.sub(" ", text)
    return words(plain) + _TELLING.findall(plain.casefold())


def _without_superseded(
    connection: sqlite3.Connection, facts: Iterable[tuple[int, str]]
) -> dict[int, str]:
    """Facts by number, without those that another memory says it replaces."""
    texts = dict(facts)
    replaced = successors(connection, texts)
    return {number: text for number, text in texts.items() if number not in replaced}


def _is_same(text: str, other: str, score: float) -> bool:
    """Whether two texts say the same; where their numbers or negations differ, they do not."""
    telling, others = (sorted(_TELLING.findall(one.casefold())) for one in (text, other))
    return score >= SAME and telling == others


def _share(
    rarity: Mapping[str, float], terms: Sequence[str], other: Sequence[str], least: float
) -> float:
    """The share of the words of both that they have in common, by rarity; 0 if too few of them."""
    here, there = set(terms), set(other)
    if here == there:
        return 1.0 if here else 0.0
    both_deny = {term for term in here & there if _NEGATION.fullmatch(term)}
    here, there = here - both_deny, there - both_deny  # "Not stated." twice is no agreement
    if len(here & there) < 2:
        return 0.0  # one word is a subject, not a fact
    # In a bank of two memories what they share is common, and counts all the same.
    shared, every, *sides = (
        sum(1 + rarity.get(term, 1.0) for term in some)
        for some in (here & there, here | there, here, there)
    )
    if shared < least * min(sides) or shared < _SHARED_OF_BOTH * every:
        return 0.0
    return min(round(shared / every, 4), 0.99)


def cosines(index: Index, text: str, others: Sequence[str]) -> list[float] | None:
    """How near texts are to one; None without a model to tell."""
    if index.embedder is None:
        return None
    vectors = index.embedder.embed([text, *others])
    return [float(score) for score in vectors[1:] @ vectors[0]]


def proposals(index: Index) -> list[Proposal]:
    """Every pair of short memories that seems to state one fact twice."""
    found = index.read(partial(_proposals, index=index))
    return sorted(found, key=lambda it: (-it.score, it.older.ref, it.newer.ref))


def _proposals(connection: sqlite3.Connection, index: Index) -> list[Proposal]:
    pairs = _pairs(*_memory_vectors(connection, index), NEAR)
    numbers = json.dumps([number for pair in pairs for number in pair[:2]])
    query = f"{_FACTS} m.number IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own words
    texts = _without_superseded(connection, connection.execute(query, (numbers,)))
    members = _members(connection, index, texts)
    found = []
    for first, second, score in pairs:
        if first not in texts or second not in texts:
            continue
        terms, others = _terms(texts[first]), _terms(texts[second])
        share = _share(lexicon(connection, {*terms, *others}).rarity, terms, others, _SHARED)
        if not share:
            continue
        older, newer = sorted((members[first], members[second]), key=lambda it: (*it.age, it.ref))
        action, reason = "supersede", "they state the same fact, and one is newer"
        if _is_same(texts[first], texts[second], score):
            action, reason = "merge", "they say the same"
        elif older.age == newer.age:
            action = "merge"
            reason = "they state the same fact, and nobody can tell which is newer"
        found.append(Proposal(action, older, newer, share, reason))
    return found


# Nearness for `related`


def nearest(
    index: Index, connection: sqlite3.Connection, number: int, limit: int = 20
) -> dict[int, float]:
    """The memories whose vectors are nearest to this one's, with the cosine."""
    numbers, vectors = _memory_vectors(connection, index)
    if number not in numbers:
        return {}
    scores = (vectors @ vectors[numbers.searchsorted(number)]).tolist()
    found = sorted(zip(numbers.tolist(), scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
    return {other: score for other, score in found[: limit + 1] if other != number}
