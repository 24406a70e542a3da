"""Facts that a conversation saved, taken back: now or later, from whatever shows them.

A fact goes to the trash, and what it replaced is in force again. Which ones a chat has saved stands
in the chats' database, so that neither an open conversation nor a running server is needed.

The database may have come with a repository, and what it names may be anything. So its word alone
takes nothing away: the memory itself must be a fact and say that this very chat made it, and its
text must still be what was saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retain.errors import Conflict, NotFound, RetainError
from retain.facts.known import Known, source_of
from retain.facts.store import COLLECTION, TYPE, plain
from retain.memory import GLOBAL
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retain.app import App
    from retain.memory import Memory
    from retain.sessions.model import Fact


class Kept(NamedTuple):
    """A fact that a chat saved and that is in force."""

    fact: str
    ref: str
    created_at: str
    replaced: tuple[str, ...]


class _Old(NamedTuple):
    """A fact that another took the place of, and the version in which none had yet."""

    ref: str
    memory: Memory
    version: str


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
        if _made(app, session, one.ref) is not None
    ]


def _made(app: App, session: str, ref: str) -> Memory | None:
    """The memory of that name, if it is a fact in force that says this chat made it."""
    memory = _fact(app, ref)
    if memory is None or memory.superseded_by or memory.status == "retired":
        return None
    is_theirs = memory.meta.get("source") == source_of(app, session, is_own=_is_own(ref))
    return memory if is_theirs else None


def _is_own(ref: str) -> bool:
    return ref.startswith(GLOBAL)


def _fact(app: App, ref: str) -> Memory | None:
    home, name = home_of(app, ref)
    if not name.startswith(f"{COLLECTION}/"):
        return None
    try:
        memory = home.find_own(name)
    except RetainError:
        return None
    return memory if (memory.type, memory.ref) == (TYPE, name) else None


def _replaced(noted: Sequence[Fact], fact: Fact) -> tuple[str, ...]:
    found = (one.ref for one in noted if one.superseded_by == fact.id != one.id and one.ref)
    return tuple(dict.fromkeys(found))


def retract(app: App, session: str, ref: str) -> list[str]:
    """Move a fact to the trash and put those it replaced in force again; blocking."""
    wanted = next((one for one in kept(app, session) if one.ref == ref), None)
    memory = _made(app, session, ref)
    if wanted is None or memory is None:
        raise NotFound(
            f"no fact {flat(ref, 80)!r} of this chat is in force", unchanged="Nothing changed."
        )
    if plain(memory.body) != plain(wanted.fact):
        raise _edited(memory)
    whose = {one.ref: one.session_id for one in app.sessions.facts(superseded=True)}
    old = [found for one in wanted.replaced if (found := _old(app, memory, one))]
    home, name = home_of(app, ref)
    home.delete(name, expect=memory.hash)
    back = [one for one in old if _revived(app, one)]
    app.sessions.forget(ref)
    for one in back:
        app.sessions.remember(plain(one.memory.body), COLLECTION, whose[one.ref], one.ref)
    Known(app).sync()
    return [one.ref for one in back]


def _edited(memory: Memory) -> Conflict:
    return Conflict(
        f"{memory.ref} was edited since the chat saved it",
        unchanged="Nothing was taken back.",
        hint="Open it, and delete it there if nothing in it is worth keeping.",
    )


def _old(app: App, new: Memory, ref: str) -> _Old | None:
    """What a fact took the place of, by its own word; refused if it was edited since."""
    memory = _fact(app, ref)
    if memory is None or memory.superseded_by not in (new.ref, new.id):
        return None
    home, name = home_of(app, ref)
    for version in home.versions(name):
        before = home.get(name, version=version.version)
        if before.superseded_by:
            continue
        if before.body.strip() != memory.body.strip():
            raise _edited(memory)
        return _Old(ref, memory, version.version)
    return None


def _revived(app: App, old: _Old) -> bool:
    """Bring back the last text of a fact in which nothing had taken its place yet."""
    home, name = home_of(app, old.ref)
    try:
        if home.find_own(name).hash == old.memory.hash:
            home.restore(name, old.version)
            return True
    except (NotFound, Conflict):  # somebody has deleted or edited it this very moment
        pass
    return False
