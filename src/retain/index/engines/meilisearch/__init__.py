"""Meilisearch as a text arm: one index for each collection, terms matched as whole tokens.

Meilisearch is made for people who type: it forgives typos, completes words, joins and splits
them. All of that is switched off, and what cannot be is kept out by how terms are written: each
is one ASCII word, parted from the next by a full stop, so that neither side ever reads two of
them as one. Its ranking drops words from the end of a question until enough is found, so every
term leads a question of its own, the rarest first. What these bring back is weighed here, by the
terms that it has.
"""

from __future__ import annotations

from retain.index.engines.meilisearch.text import MeilisearchText

__all__ = ["MeilisearchText"]
