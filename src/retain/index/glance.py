"""A look at a bank's index by a process that may neither wait, nor write, nor make anything.

A hook must not bring the index in step with the files, nor repair it, nor be in the way of those
who do. It reads what the last of them left, or nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from retain.index.schema import LATEST, is_ours
from retain.index.seal import Seal, facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Final, TypeVar

    _Result = TypeVar("_Result")
else:
    import _sqlite3 as sqlite3  # without what `sqlite3` adds: dates, which load a module each

__all__ = ["glance"]

_STEPS: Final = 2000  # of SQLite's machine between two looks at the clock
_LENGTH: Final = 0  # SQLITE_LIMIT_LENGTH: of a text, a blob or a row
_LONGEST: Final = 4_000_000  # bytes; the longest that an index holds is one chunk's text


def glance(root: str, work: Callable[[sqlite3.Connection], _Result], end: float) -> _Result | None:
    """What `work` finds in a bank's index by a time of the monotonic clock; None if it cannot."""
    seal = Seal(root)
    try:
        if seal.version() != LATEST or not seal.holds():
            return None
        before = facts(seal.path)
        # At rest there is no log, and SQLite would make one. Then the file alone is read, and
        # what was read counts only if nobody has written to the file meanwhile.
        is_at_rest = facts(f"{seal.path}-wal") is None
        with contextlib.closing(_opened(seal.path, is_at_rest)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
            if not is_ours(connection):
                return None
            found = work(connection)
        return None if is_at_rest and facts(seal.path) != before else found
    except (OSError, sqlite3.Error):
        return None


def _opened(path: str, is_at_rest: bool) -> sqlite3.Connection:
    for char, code in (("%", "%25"), ("?", "%3f"), ("#", "%23")):
        path = path.replace(char, code)
    address = f"file:{path}?mode=ro{'&immutable=1' * is_at_rest}"
    connection = sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)
    connection.setlimit(_LENGTH, _LONGEST)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    return connection
