"""Numbered versions: `.versions/[collection/]id/v3_2026-11-15T18-00-00Z.md`, the last few texts."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from retain.codec import codec
from retain.errors import NotFound, RetainError
from retain.fsio import VERSIONS, Directory, Workshop, shelf

__all__ = ["Numbered", "follow", "kept", "label", "prune"]

_READABLE: Final = 1 << 26
_NAME = re.compile(r"v([0-9]{1,18})_([0-9]{4}-[0-9]{2}-[0-9]{2}T)([0-9-]{8}Z)\.(?:md|json)")


class Numbered(NamedTuple):
    """One kept text."""

    number: int
    time: str
    name: str


def kept(folder: Directory) -> list[Numbered]:
    """The versions in a shelf, oldest first."""
    found = [
        Numbered(int(match[1]), match[2] + match[3].replace("-", ":"), entry.name)
        for entry in folder.entries()
        if (match := _NAME.fullmatch(entry.name))
    ]
    return sorted(found)


def label(earlier: Sequence[Numbered], suffix: str) -> str:
    """The file name of the next version."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    return f"v{_next(earlier)}_{stamp}{suffix}"


def _next(earlier: Sequence[Numbered]) -> int:
    return earlier[-1].number + 1 if earlier else 1


def prune(shop: Workshop, folder: Directory, limit: int) -> None:
    """Let versions beyond the limit go: first those whose text a later one has, then the oldest."""
    # A disk that refuses this has not refused the write; the next one tries again.
    with contextlib.suppress(OSError, RetainError):
        earlier = kept(folder)
        if len(earlier) > limit:
            for version in _least(folder, earlier, len(earlier) - limit):
                shop.remove(folder, version.name)


def _least(folder: Directory, earlier: Sequence[Numbered], count: int) -> Sequence[Numbered]:
    """The versions nobody misses: ten changes of tags must not push the only text out."""
    bodies = [_body(folder, version) for version in earlier]
    repeated = [
        version
        for version, body, later in zip(earlier, bodies, bodies[1:], strict=False)
        if body == later
    ]
    rest = [version for version in earlier if version not in repeated]
    return (repeated + rest)[:count]


def _body(folder: Directory, version: Numbered) -> str:
    return codec(version.name).parse(folder.read(version.name, _READABLE)).body


def follow(shop: Workshop, old: tuple[str, str], new: tuple[str, str]) -> None:
    """Let the versions of `(collection, id)` go with a memory that moved."""
    with contextlib.suppress(NotFound), shop.root.descend(VERSIONS, old[0]) as source:
        if not source.has(old[1]):
            return
        if "" in (old[0], new[0]):
            # A root memory's shelf may hold a collection's shelves as well: only its own files go.
            shelf(shop.root, *new, create=True).close()
            _join(shop, old, new)
            return
        with shop.root.descend(VERSIONS, new[0], create=True) as target:
            if not target.has(new[1]):
                shop.move(source, old[1], target, new[1])
                return
        _join(shop, old, new)


def _join(shop: Workshop, old: tuple[str, str], new: tuple[str, str]) -> None:
    """Number versions on where another memory of that name has left some."""
    with shelf(shop.root, *old) as source, shelf(shop.root, *new) as target:
        for version in kept(source):
            number = _next(kept(target))
            rest = version.name.partition("_")[2]
            shop.move(source, version.name, target, f"v{number}_{rest}")
