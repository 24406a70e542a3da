"""Facts that a conversation saved, taken back: now or later, from whatever page shows them.

A fact goes to the trash, and what it replaced is in force again. Which ones a chat has saved stands
in the chats' database, so that neither an open conversation nor a running server is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retain.errors import NotFound, RetainError
from retain.facts.carrying import COLLECTION
from retain.facts.known import Known
from retain.guard.characters import flat
from retain.paths import GLOBAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retain.app import App
    from retain.model import Memory
    from retain.sessions.model import Fact

__all__ = ["Kept", "home_of", "kept", "retract"]


class Kept(NamedTuple):
    """A fact that a chat saved and that is in force."""

    fact: str
    ref: str
    created_at: str
    replaced: tuple[str, ...]


def home_of(app: App, ref: str) -> tuple[App, str]:
    """The bank that a reference leads to, and what it is called there."""
    return (app.own if ref.startswith(GLOBAL) else app), ref.removeprefix(GLOBAL)


def kept(app: App, session: str) -> list[Kept]:
    """The facts that a chat saved, oldest first; those gone or replaced since are left out."""
    noted = app.sessions.facts(superseded=True)
    mine = [one for one in noted if one.session_id == session and one.superseded_by is None]
    return [
        Kept(one.fact, one.ref, one.created_at, _replaced(noted, one))
        for one in mine
        if _is_in_force(app, one.ref)
    ]


def _is_in_force(app: App, ref: str) -> bool:
    memory = _memory(app, ref)
    return memory is not None and not memory.superseded_by and memory.status != "retired"


def _memory(app: App, ref: str) -> Memory | None:
    try:
        home, name = home_of(app, ref)
        return home.ours(name)
    except RetainError:
        return None


def _replaced(noted: Sequence[Fact], fact: Fact) -> tuple[str, ...]:
    found = (one.ref for one in noted if one.superseded_by == fact.id != one.id and one.ref)
    return tuple(dict.fromkeys(found))


def retract(app: App, session: str, ref: str) -> list[str]:
    """Move a fact to the trash and put those it replaced in force again; blocking."""
    wanted = next((one for one in kept(app, session) if one.ref == ref), None)
    if wanted is None:
        raise NotFound(
            f"no fact {flat(ref, 80)!r} of this chat is in force", unchanged="Nothing changed."
        )
    whose = {one.ref: one.session_id for one in app.sessions.facts(superseded=True)}
    back = [one for one in wanted.replaced if _revived(app, one)]
    home, name = home_of(app, ref)
    home.delete(name)
    app.sessions.forget(ref)
    for one in back:
        owner, name = home_of(app, one)
        app.sessions.remember(owner.ours(name).body.strip(), COLLECTION, whose[one], one)
    Known(app).sync()
    return back


def _revived(app: App, ref: str) -> bool:
    """Bring back the last text of a fact in which nothing has taken its place yet."""
    home, name = home_of(app, ref)
    try:
        for version in home.versions(name):
            if not home.get(name, version=version.version).superseded_by:
                home.restore(name, version.version)
                return True
    except NotFound:  # somebody has deleted it meanwhile
        pass
    return False
