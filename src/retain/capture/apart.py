"""Memories that are alike and are meant to be: a person has said so, and is not asked again.

Each such word is one private file beside the proposals, whose name is a digest of the memories'
names: said twice, or by two at once, it is one file. A memory that is renamed is another one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from retain.capture import inbox
from retain.errors import LimitExceeded, NotFound, RetainError

__all__ = ["forget", "keep", "known"]

_FOLDER: Final = "apart"
_MOST: Final = 2_000
_FILE: Final = 200_000

Refs = frozenset[str]


def keep(root: str, refs: Iterable[str]) -> None:
    """Note that these memories stay as they are."""
    wanted = frozenset(refs)
    with (
        inbox.opened(root, create=True) as folder,
        folder.child(_FOLDER, create=True) as apart,
    ):
        if len(apart.entries()) >= _MOST:
            raise LimitExceeded(
                f"{_MOST} suggestions are ignored already", unchanged="This one was not added."
            )
        apart.place(_file(wanted), (json.dumps(sorted(wanted), ensure_ascii=False) + "\n").encode())


def forget(root: str, refs: Iterable[str]) -> None:
    """Let these memories be spoken of again."""
    with (
        suppress(NotFound, FileNotFoundError),
        inbox.opened(root) as folder,
        folder.child(_FOLDER) as apart,
    ):
        os.unlink(_file(frozenset(refs)), dir_fd=apart.fd)


def known(root: str) -> list[Refs]:
    """All that was said so; a file that is no such word counts for nothing."""
    found: list[Refs] = []
    with suppress(NotFound), inbox.opened(root) as folder, folder.child(_FOLDER) as apart:
        for entry in apart.entries()[:_MOST]:
            with suppress(RetainError, ValueError, TypeError, RecursionError):
                data, facts = apart.read_with_facts(entry.name, _FILE)
                refs = frozenset(map(str, json.loads(data)))
                if inbox.is_private(facts) and entry.name == _file(refs):
                    found.append(refs)
    return found


def _file(refs: Refs) -> str:
    told = "\0".join(sorted(refs)).encode("utf-8", "surrogateescape")
    return f"{hashlib.sha256(told).hexdigest()[:32]}.json"
