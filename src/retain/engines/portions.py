"""Work in portions: grouped by where it goes, cut to what a request takes, done in lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

from retain.engines.arm import Match

__all__ = ["Lanes", "best", "grouped", "parts"]

T = TypeVar("T")


class Lanes:
    """Does the same for several names, as many at a time as there are lanes."""

    def __init__(self, count: int) -> None:
        self._count = max(1, count)
        self._pool: ThreadPoolExecutor | None = None

    def each(self, act: Callable[[str], T], names: Iterable[str]) -> list[T]:
        names = list(names)
        if len(names) < 2:
            return [act(name) for name in names]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, "engine")
        # Each lane has to know for whom it works: see `wanted`.
        contexts = [copy_context() for _ in names]
        return list(self._pool.map(lambda context, name: context.run(act, name), contexts, names))

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool:
            # A server that has fallen silent keeps its own thread waiting, and nobody else.
            pool.shutdown(wait=False, cancel_futures=True)


def grouped(items: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """The items by what they have in common, in the order they came."""
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def parts(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """The items in lists of at most so many."""
    rest = iter(items)
    while some := list(islice(rest, most)):
        yield some


def best(lists: Iterable[Iterable[Match]], limit: int) -> list[Match]:
    """The best of several answers to one question."""
    found = sorted((match for one in lists for match in one), key=lambda match: -match.score)
    return found[: max(0, limit)]
