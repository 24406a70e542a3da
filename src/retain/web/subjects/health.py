"""How a bank is, as far as that can be said at once; `checkup` finds out the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from retain.index.queries import Facts

if TYPE_CHECKING:
    from retain.app import App
    from retain.memory import Trashed


class Now(NamedTuple):
    """What can be said at once."""

    facts: Facts = Facts()
    trashed: Sequence[Trashed] = ()
    apart: Sequence[frozenset[str]] = ()


def now(app: App) -> Now:
    """How a bank is; one that is not there yet is empty."""
    if not app.location.exists:
        return Now()
    return Now(app.index_facts(), app.trashed(), app.ignored_pairs())
