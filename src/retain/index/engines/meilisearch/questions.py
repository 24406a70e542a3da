"""Terms as questions to Meilisearch, and what they bring back weighed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from retain.index.engines.arm import Match
from retain.index.engines.spelling import meant

PARTING: Final = ". "  # Meilisearch never takes words on both sides of a full stop together
_WORDS: Final = 10  # of a question that Meilisearch reads
_LEADERS: Final = 24  # terms that lead a question of their own
_K1: Final = 1.2


def queries_of(
    index: str, weights: Mapping[str, float], condition: str
) -> Iterator[dict[str, Any]]:
    """A question for each term and those that are more common, so that one without it is found.

    A question is worth what all its terms are, so that the server's own merging comes near to
    how the pieces will be weighed.
    """
    words = list(weights)
    for at in range(min(len(words), _LEADERS)):
        some = words[at : at + _WORDS]
        yield {
            "indexUid": index,
            "q": PARTING.join(some),
            "filter": condition,
            "matchingStrategy": "last",
            "locales": ["eng"],
            "attributesToRetrieve": ["memory", "place", "digest", "terms"],
            "federationOptions": {"weight": sum(weights[term] for term in some)},
        }


def weighed(
    hits: Iterable[Mapping[str, Any]], weights: Mapping[str, float], limit: int
) -> list[Match]:
    """What was found by how far each has the terms: BM25, with the rarities of the whole bank."""
    from retain.index.fulltext import shares_of

    found = {
        (meant(hit["memory"]), int(hit["place"]), str(hit["digest"])): str(hit["terms"]).replace(
            PARTING, " "
        )
        for hit in hits
    }
    average = sum(bag.count(" ") + 1 for bag in found.values()) / (len(found) or 1)
    spaced = [f" {term} " for term in weights]
    matches = [
        Match(*piece, sum(map(float.__mul__, weights.values(), shares)))
        for piece, bag in found.items()
        if any(shares := shares_of(spaced, bag, _K1, average))
    ]
    return sorted(matches, key=lambda match: (-match.score, match.memory, match.place))[:limit]
