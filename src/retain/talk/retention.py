"""What a reply flags with `[MEMORY]` becomes facts: new, known already, or in an older one's place.

The facts are memory files; what the chat's database notes of them is a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from retain.app import App
from retain.errors import RetainError
from retain.facts.carrying import Synced
from retain.facts.keeping import Added
from retain.facts.known import Known
from retain.talk import flagged

__all__ = ["Mirror", "Mirrored", "Retention", "Saved", "found"]

_CATEGORY = "general"


class Mirrored(Protocol):
    """A fact as the chat's database has it."""

    @property
    def id(self) -> int: ...

    @property
    def ref(self) -> str: ...


class Mirror(Protocol):
    """The part of the chat's database that notes what chats saved."""

    def remember(self, fact: str, category: str, session_id: str, ref: str) -> int:
        """Note a fact and the memory that it is, and return its number."""
        ...

    def supersede(self, old_id: int, new_id: int) -> None:
        """Note that a fact has taken another one's place."""
        ...

    def facts(self) -> Sequence[Mirrored]:
        """The facts noted so far."""
        ...


class Saved(NamedTuple):
    """What became of one fact of a reply."""

    fact: str
    ref: str  # empty when it could not be saved
    status: str  # saved, known, supersedes, refused
    replaced: str = ""  # the facts whose place it took, with commas
    notes: tuple[str, ...] = ()


def found(reply: str) -> list[str]:
    """The facts that a reply flags, each once, in their order."""
    return flagged.found(reply)


class Retention:
    """Keeps what conversations flag; blocking, so called in a thread."""

    def __init__(self, app: App, sessions: Mirror | None = None) -> None:
        self.facts = Known(app)
        self._sessions = sessions
        self.synced = Synced()  # what the last look at the list brought

    def save(self, facts: Iterable[str], session_id: str, *, by: str = "") -> list[Saved]:
        """Keep facts in the name of the model that flagged them, and list them in MEMORY.md."""
        saved = [self._save(fact, session_id, by) for fact in facts]
        if any(one.ref and one.status != "known" for one in saved):
            self.synced = self.facts.sync()
        return saved

    def _save(self, fact: str, session_id: str, by: str) -> Saved:
        source = f"session:{session_id}" if session_id else ""
        try:
            added = self.facts.add(fact, by=by, source=source)
        except RetainError as error:  # one that is refused stands in nobody else's way
            return Saved(fact, "", "refused", notes=(error.message,))
        notes = added.notes
        if added.status != "known":
            notes += self._mirrored(added, session_id)
        return Saved(added.text, added.ref, added.status, ", ".join(added.replaced), notes)

    def _mirrored(self, added: Added, session_id: str) -> tuple[str, ...]:
        if self._sessions is None:
            return ()
        try:
            number = self._sessions.remember(added.text, _CATEGORY, session_id, added.ref)
            if added.replaced:
                for old in self._sessions.facts():
                    if old.ref in added.replaced:
                        self._sessions.supersede(old.id, number)
        except RetainError as error:
            return (f"saved, and not noted with the session: {error.message}",)
        return ()
