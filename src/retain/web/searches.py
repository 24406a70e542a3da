"""Searches that a person keeps by name: their own, whatever bank they look at.

They lie in the person's state directory and not in a bank: nothing else could make them anew, and
nobody who shares a project's bank needs them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from retain.bank.files import lock_state, write_whole
from retain.errors import LimitExceeded, NotFound, RetainError, Unreadable, UsageError
from retain.locate import state_home

_FILE: Final = "searches.json"
_MOST: Final = 200
_LONGEST_NAME: Final = 80
_LARGEST: Final = 2_000_000  # bytes of the file


class Searches:
    """The file of one person's searches; several servers of theirs may use it."""

    def __init__(self) -> None:
        self._path = os.path.join(state_home(os.environ), _FILE)

    def all(self) -> list[dict[str, str]]:
        """Every search, by name; of a file that cannot be read none, as pages go on without."""
        try:
            return _listed(self._read())
        except (RetainError, OSError):
            return []

    def keep(self, name: str, query: str) -> tuple[list[dict[str, str]], str | None]:
        """Keep a search under a name; also says what was kept under it until now."""
        name = " ".join(name.split())
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"a search's name has 1 to {_LONGEST_NAME} characters that can be seen"
            )
        # Written anew, so that nothing but values of an address can stand there.
        values = parse_qsl(query.removeprefix("?"), max_num_fields=200)
        wanted = urlencode([one for one in values if one[0] != "page"])
        with self._turn():
            known = self._read()
            if name not in known and len(known) >= _MOST:
                raise LimitExceeded(
                    f"there are {_MOST} searches already", hint="Forget one that you do not need."
                )
            return self._write(known | {name: wanted}), known.get(name)

    def forget(self, name: str) -> tuple[list[dict[str, str]], str]:
        """Keep a search no longer; also says what it was."""
        with self._turn():
            known = self._read()
            if name not in known:
                raise NotFound(
                    f"no search is called {name[:80]!r}", hint="Look at the list of them."
                )
            query = known.pop(name)
            return self._write(known), query

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Between reading the file and writing it nobody else may do either."""
        with lock_state(os.path.dirname(self._path)):
            yield

    def _read(self) -> dict[str, str]:
        """What the file says; one that makes no sense is refused, so that nothing replaces it."""
        try:
            with open(self._path, "rb") as file:
                found = json.loads(file.read(_LARGEST))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and all(isinstance(one, str) for one in found.values()):
            return found
        raise Unreadable(
            f"the kept searches in {_FILE} make no sense",
            unchanged="The file was left as it is.",
            hint="Mend it, or move it away, in the directory `retain` in your state directory.",
        )

    def _write(self, known: dict[str, str]) -> list[dict[str, str]]:
        write_whole(self._path, json.dumps(known, ensure_ascii=False, indent=2).encode())
        return _listed(known)


def _listed(known: Mapping[str, str]) -> list[dict[str, str]]:
    found = sorted(known.items(), key=lambda one: one[0].casefold())
    return [{"name": name, "query": query} for name, query in found]
