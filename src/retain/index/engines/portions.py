"""Work in portions: grouped by where it goes, cut to what a request takes, done in lanes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from itertools import islice
from threading import Thread
from typing import TypeVar

from retain.index.engines.arm import Match

T = TypeVar("T")


class Lanes:
    """Does the same for several names, as many at a time as there are lanes."""

    def __init__(self, count: int) -> None:
        self._count = max(1, count)

    def each(self, act: Callable[[str], T], names: Iterable[str]) -> list[T]:
        """What comes of each, in their order; after a failure no other is begun."""
        names = list(names)
        if len(names) < 2:
            return [act(name) for name in names]
        waiting = deque(enumerate(names))
        found: dict[int, T] = {}
        failures: list[BaseException] = []

        def work() -> None:
            while not failures:
                try:
                    at, name = waiting.popleft()
                except IndexError:
                    return
                try:
                    found[at] = act(name)
                except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                    failures.append(error)

        # No pool of the library's: a program waits for its threads when it ends, and a server that
        # has fallen silent would keep it. Each has to know for whom it works: see `wanted`.
        threads = [
            Thread(target=copy_context().run, args=(work,), name="engine", daemon=True)
            for _ in range(min(self._count, len(names)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return [found[at] for at in range(len(names))]


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
