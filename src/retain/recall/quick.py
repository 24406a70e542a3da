"""The text arm alone, for a hook that has a few milliseconds and no warm process to ask.

It ranks by the words of single chunks: no vectors, no neighbours, no names and dates, which is
what those cost to load and to look up. Scores and confidence come from the same formulas.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from operator import mul

from retain.index import text
from retain.recall import scoring
from retain.recall.found import Found, lowered, outdated
from retain.recall.scoring import TEXT, Signs
from retain.words import query as sought

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Final

    from retain.index.text import Lexicon, Shares
    from retain.place import Place

__all__ = ["best", "likely", "quick", "terms"]

_WEAK = frozenset("pleas let help need want know think make like use get go see yes".split())
_MOST_TERMS: Final = 64
_MOST_RANKED: Final = 1_000  # rows; FTS5 takes a millisecond for some four hundred
_LOOKED_THROUGH: Final = 60  # best chunks whose memories are looked up


_ROWS: Final = (
    "SELECT c.number, m.number, m.id, m.collection, m.title, m.type, m.status, m.tags, m.created, "
    "m.is_superseded, m.file, m.size, m.modified, "
    "CASE WHEN c.is_heading AND n.memory = c.memory THEN n.text ELSE c.text END "
    "FROM json_each(?) JOIN chunks c ON c.number = json_each.value "
    "JOIN memories m ON m.number = c.memory LEFT JOIN chunks n ON n.number = c.number + 1 "
    "WHERE NOT m.is_gone AND m.status <> 'retired'"
)


def quick(connection: sqlite3.Connection, place: Place, question: str, limit: int) -> list[Found]:
    """The memories of one bank that fit a question best; none where none is likely to answer it."""
    lexicon = text.lexicon(connection, terms(question))
    shares = text.chunk_shares(
        connection, lexicon, TEXT.k1, most=_LOOKED_THROUGH, ranked=_MOST_RANKED
    )
    scores = likely(shares, lexicon)
    kept: dict[int, Found] = {}
    for row in connection.execute(_ROWS, (json.dumps(list(scores)),)):
        if not _is_plain(str(row[3]) or "-") or not _is_plain(str(row[10])):
            continue  # no file of this bank
        found = _found(row, place, scores[row[0]])
        if row[1] not in kept or kept[row[1]].score < found.score:
            kept[row[1]] = found
    return best(kept.values(), limit)


def terms(question: str) -> tuple[str, ...]:
    """The words to look for."""
    found = tuple(dict.fromkeys(sought(question)))
    # What every prompt says tells nothing, unless it is all there is.
    return (tuple(term for term in found if term not in _WEAK) or found)[:_MOST_TERMS]


def likely(shares: Mapping[int, Shares], lexicon: Lexicon) -> dict[int, float]:
    """The best chunks with their scores; none where none is likely to answer the question."""
    weights = lexicon.weights
    scores = {chunk: sum(map(mul, found, weights)) for chunk, found in shares.items()}
    first = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[:_LOOKED_THROUGH]
    if not first or scoring.confidence(_signs(first, shares, lexicon), TEXT) < scoring.ENOUGH:
        return {}
    return {chunk: scores[chunk] for chunk in first}


def best(found: Iterable[Found], limit: int) -> list[Found]:
    """The best of what was found, equals in the order of their names."""
    return sorted(found, key=lambda one: (-one.score, one.ref))[:limit]


def _is_plain(name: str) -> bool:
    """Whether a name leads to a thing in a directory and nowhere else."""
    return "/" not in name and "\0" not in name and name not in ("", ".", "..")


def _found(row: tuple[object, ...], place: Place, score: float) -> Found:
    _, _, name, collection, title, kind, status, tags, created, is_superseded, *rest = row
    file, size, modified, said = rest
    score = lowered(score, bool(is_superseded), str(status))
    return Found(
        str(name),
        str(collection),
        str(title),
        str(kind),
        tuple(json.loads(str(tags))),
        str(created),
        str(said),
        os.path.join(place.root, str(collection), str(file)),
        place.scope,
        round(scoring.shown(score, TEXT, 0.0), 4),
        outdated(bool(is_superseded), "", str(status)),
        max(0, int(str(size))),  # a negative one would say that nobody knows
        int(str(modified)) if int(str(size)) >= 0 else -1,
    )


def _signs(first: list[int], shares: Mapping[int, Shares], lexicon: Lexicon) -> Signs:
    """By what one can tell whether the bank holds an answer at all."""
    weights = lexicon.weights
    window = max(
        sum(weight for weight, share in zip(weights, shares[chunk], strict=True) if share)
        for chunk in first
    )
    return Signs(window=window, terms=sum(map(bool, shares[first[0]])), chunks=lexicon.chunks)
