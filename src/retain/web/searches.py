"""Searches that a person keeps by name: their own, whatever bank they look at.

They lie in the person's state directory and not in a bank: nothing else could make them anew, and
nobody who shares a project's bank needs them.
"""

from __future__ import annotations

import json
import os
from typing import Final
from urllib.parse import parse_qsl, urlencode

from retain.errors import LimitExceeded, NotFound, UsageError
from retain.fsio import make_folder, write_whole
from retain.machine import key_path

__all__ = ["Searches"]

_FILE: Final = "searches.json"
_MOST: Final = 200
_LONGEST_NAME: Final = 80
_LARGEST: Final = 2_000_000  # bytes of the file


class Searches:
    """The file of one person's searches; used by one call at a time."""

    def __init__(self) -> None:
        self._path = os.path.join(os.path.dirname(key_path()), _FILE)

    def all(self) -> list[dict[str, str]]:
        """Every search, by name; a file that makes no sense counts as none."""
        try:
            with open(self._path, "rb") as file:
                found = json.loads(file.read(_LARGEST))
        except (OSError, ValueError):
            return []
        if not isinstance(found, dict):
            return []
        return [
            {"name": name, "query": query}
            for name, query in sorted(found.items(), key=lambda one: one[0].casefold())
            if isinstance(query, str)
        ]

    def keep(self, name: str, query: str) -> list[dict[str, str]]:
        """Keep a search under a name, in the place of an older one of that name."""
        name = " ".join(name.split())
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"a search's name has 1 to {_LONGEST_NAME} characters that can be seen"
            )
        known = {one["name"]: one["query"] for one in self.all()}
        if name not in known and len(known) >= _MOST:
            raise LimitExceeded(
                f"there are {_MOST} searches already", hint="Forget one that you do not need."
            )
        # Written anew, so that nothing but values of an address can stand there.
        values = parse_qsl(query.removeprefix("?"), max_num_fields=200)
        return self._write(known | {name: urlencode([one for one in values if one[0] != "page"])})

    def forget(self, name: str) -> list[dict[str, str]]:
        """Keep a search no longer."""
        known = {one["name"]: one["query"] for one in self.all()}
        if name not in known:
            raise NotFound(f"no search is called {name[:80]!r}", hint="Look at the list of them.")
        return self._write({one: query for one, query in known.items() if one != name})

    def _write(self, known: dict[str, str]) -> list[dict[str, str]]:
        make_folder(os.path.dirname(self._path))
        write_whole(self._path, json.dumps(known, ensure_ascii=False, indent=2).encode())
        return self.all()
