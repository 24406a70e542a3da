"""Where a bank is: a value of its own, because a hook has no time to load all the others."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from retain.tuples import NamedTuple


__all__ = ["Place"]


class Place(NamedTuple):
    """A bank's location, and why it is the one in force."""

    root: str
    kind: str
    scope: str
    reason: str
    exists: bool
