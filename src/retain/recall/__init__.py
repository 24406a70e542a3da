"""From a question to ranked memories: text, vector and graph arms, one absolute score."""

from retain.recall.asking import Wanted
from retain.recall.searching import search

__all__ = ["Wanted", "search"]
