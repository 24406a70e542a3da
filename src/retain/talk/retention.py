"""What a reply flags with `[MEMORY]` becomes facts: new, known already, or in an older one's place.

The facts are memory files; what the chat's database notes of them is a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from retain.app import App
from retain.errors import RetainError
from retain.facts.compare import same_key
from retain.facts.known import Known
from retain.facts.store import Added
from retain.talk.provenance import Provenance
from retain.text.memory_tags import find_facts, split_replaced
from retain.text.tokens import words

MOST: Final = 20  # facts of one reply; more is a model gone wild, and a bank full of noise

_CATEGORY: Final = "general"


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


class Retention:
    """Keeps what one conversation flags; blocking, so called in a thread."""

    def __init__(self, app: App, sessions: Mirror | None = None) -> None:
        self.facts = Known(app)
        self.provenance = Provenance()
        self._sessions = sessions
        self._seen: set[str] = set()  # the facts of one reply, as keys
        self._unsaid: list[Saved] = []

    def begin(self, said: str = "", quoted: str = "") -> None:
        """Another reply begins, to what the person said and quoted, with facts of its own."""
        self._seen.clear()
        self.provenance.say(said)
        if quoted:
            self.provenance.distrust()

    def heard(self, reply: str) -> tuple[list[str], list[str]]:
        """The facts to keep that a reply flags, and what the person is told about the others.

        Each comes once, however often it is flagged in the rounds of one reply.
        """
        new = [one for one in find_facts(reply) if same_key(one) not in self._seen]
        heard, rest = new[: self._room], new[self._room :]
        self._seen.update(map(same_key, heard))
        unsaid = [one for one in heard if self.provenance.is_doubtful(*split_replaced(one))]
        strange = [one for one in heard if one not in unsaid and _is_strange(*split_replaced(one))]
        notes = [
            f"Not remembered, because you did not say so; /remember keeps it: {one}"
            for one in unsaid
        ]
        notes += [
            f"Not remembered, it has nothing to do with what it replaces: {one}" for one in strange
        ]
        if rest:
            notes.append(f"Not remembered: {len(rest)} more facts. {MOST} of a reply are kept.")
        left = {*unsaid, *strange}
        return [one for one in heard if one not in left], notes

    def is_doubtful(self, fact: str, replaces: str) -> bool:
        """Whether the person must agree before a tool keeps a fact, in another's place perhaps."""
        return self.provenance.is_doubtful(fact, replaces) or _is_strange(fact, replaces)

    @property
    def _room(self) -> int:
        return max(MOST - len(self._seen), 0)

    def save(self, facts: Iterable[str], session_id: str, *, by: str = "") -> list[Saved]:
        """Keep facts in the name of the model that flagged them, and list them in MEMORY.md."""
        saved = [self.keep(fact, session_id, by=by) for fact in facts]
        if any(one.ref and one.status != "known" for one in saved):
            self.facts.sync()
        return saved

    def asked(self, fact: str, replaces: str, session_id: str, *, by: str = "") -> str:
        """Keep a fact that a tool was called with; what the model is told.

        The person is told by whoever takes it up with `unsaid`.
        """
        if same_key(fact) not in self._seen and not self._room:
            return f"Not saved: {MOST} facts of a reply are kept."
        self._seen.add(same_key(fact))
        saved = self._save(fact, replaces, session_id, by)
        self._unsaid.append(saved)
        self.facts.sync()
        took = f", in place of {saved.replaced}" if saved.replaced else ""
        return "; ".join((f"{saved.status}: {saved.fact}{took}", *saved.notes))

    def unsaid(self) -> list[Saved]:
        """What tools have kept and nobody has been told of; the next time, nothing of that."""
        taken, self._unsaid = self._unsaid, []
        return taken

    def keep(self, fact: str, session_id: str, *, by: str = "") -> Saved:
        """Keep one fact, which may name another that it replaces; MEMORY.md follows later."""
        return self._save(*split_replaced(fact), session_id, by)

    def _save(self, fact: str, replaces: str, session_id: str, by: str) -> Saved:
        source = f"session:{session_id}" if session_id else ""
        try:
            added = self.facts.add(fact, by=by, source=source, replaces=replaces)
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


def _is_strange(fact: str, replaces: str) -> bool:
    """Whether a fact is to take the place of one that it shares no word with.

    Nobody changes their mind that way, and it is how a fact would be got rid of.
    """
    return bool(replaces) and set(words(fact)).isdisjoint(words(replaces))
