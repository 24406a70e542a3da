"""The inbox as a person works through it: looked at, made into memories, dropped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from retain.capture import inbox
from retain.capture.content import content
from retain.capture.inbox import Proposal
from retain.capture.plan import ACTIONS, Step
from retain.capture.span import Span, span
from retain.capture.triage import SUMMARY
from retain.desk import Desk
from retain.errors import Ambiguous, Conflict, NotFound, RetainError, Unreadable, UsageError
from retain.model import Memory
from retain.paths import from_home
from retain.typed import forms
from retain.typed.fixing import clean_title, slugify
from retain.typed.ledger import Outcome, checked
from retain.typed.shape import is_record, record

if TYPE_CHECKING:
    from retain.similar import Alike

__all__ = ["Accepted", "Near", "Refused", "Review", "Reviewed", "source"]

_SHORT: Final = 4  # fewer digits are a number in the list, not the beginning of an id
_CUT: Final = 70  # letters of an id that leave room for a number
_TAG: Final = "captured"
_NEWS: Final = 2_000  # characters of a text that are compared with the memories there are
_LISTS: Final = "`retain inbox` and `retain inbox list --dropped` show what there is."

_Done = TypeVar("_Done")


class Near(NamedTuple):
    """A memory that a person may want to compare."""

    path: str
    title: str


class Accepted(NamedTuple):
    """A proposal that has become a memory, and another one that says nearly the same."""

    proposal: Proposal
    outcome: Outcome
    near: Near | None


class Refused(NamedTuple):
    """A proposal that nothing was done with, and why."""

    proposal: Proposal
    error: RetainError


class Reviewed(NamedTuple):
    """What became of proposals."""

    accepted: Sequence[Accepted] = ()
    dropped: Sequence[Proposal] = ()
    restored: Sequence[Proposal] = ()
    kept: Sequence[Proposal] = ()
    refused: Sequence[Refused] = ()


class Review:
    """The proposals of one bank."""

    def __init__(
        self,
        root: str,
        desk: Desk,
        alike: Callable[[str, str], Sequence[Alike]],
        env: Mapping[str, str],
    ) -> None:
        self._root, self._desk, self._alike, self._env = root, desk, alike, env

    def proposals(self, problems: list[str] | None = None) -> list[Proposal]:
        """What waits, the oldest first; a file that is left alone is named in `problems`."""
        return inbox.proposals(self._root, problems=problems)

    def dropped(self, problems: list[str] | None = None) -> list[Proposal]:
        """What was dropped and can be restored."""
        return inbox.proposals(self._root, dropped=True, problems=problems)

    def find(self, refs: Iterable[str], among: Sequence[Proposal]) -> list[Proposal]:
        """The proposals that are named by their number in a list, their id or its beginning."""
        found = {one.id: one for one in (_found(ref, among) for ref in refs)}
        return list(found.values())

    def span(self, proposal: Proposal) -> Span:
        """What was said in the session, as far as its transcript is still there."""
        return span(proposal, self._env)

    def source(self, proposal: Proposal) -> str:
        """Where a proposal is from."""
        return source(proposal, self._env.get("HOME", ""))

    # Steps

    def accept(self, proposals: Sequence[Proposal]) -> Reviewed:
        """Make memories of proposals; one that is refused stays, and the others go on."""
        accepted, refused = _tried(proposals, self._accept)
        return Reviewed(accepted=accepted, refused=refused)

    def drop(self, proposals: Sequence[Proposal]) -> Reviewed:
        """Take proposals out of the inbox."""
        dropped, refused = _tried(proposals, self._drop)
        return Reviewed(dropped=dropped, refused=refused)

    def restore(self, proposals: Sequence[Proposal]) -> Reviewed:
        """Put dropped proposals back."""
        restored, refused = _tried(proposals, self._restore)
        return Reviewed(restored=restored, refused=refused)

    def revise(self, seen: Proposal, words: Proposal) -> Proposal:
        """Change what a waiting proposal says, once it is something that could be accepted."""
        self._checked(words)
        return inbox.revise(self._root, seen, words)

    def take_back(self, name: str, ref: str, expect: str) -> None:
        """Undo an acceptance: the memory goes to the trash, the proposal waits again.

        The proposal comes back first: stopped in between, an `accept` finds the memory there.
        """
        bank = self._desk.ledger.bank
        memory = bank.find(ref)
        if memory.hash != expect:
            raise Conflict(
                f"{memory.ref} was changed since it was accepted",
                unchanged="It is as it is, and the proposal stays accepted.",
                hint=f"Delete it if you do not want it: retain delete {memory.ref}",
            )
        inbox.reopen(self._root, name)
        try:
            bank.delete(memory.address, expect=expect)
        except RetainError:
            inbox.accepted(self._root, name)
            raise
        self._desk.ledger.settled({memory.path: None}, f"take back {memory.ref}")

    def check(self, steps: Sequence[Step]) -> None:
        """Refuse a plan of which some step could not be taken, before any is."""
        faults: list[str] = []
        taken: dict[str, Step] = {}
        for step in steps:
            is_accepted = step.action == "accept"
            if step.action == "drop" or not (is_accepted or step.is_changed):
                continue
            try:
                folder, slug = self._checked(step.after)
                address = f"{folder}/{slug}"
                if not is_accepted:
                    continue
                self._settled(step.after, folder, slug)
                first = taken.setdefault(address, step)
                if first is not step and not _may_share(step.after, slug, first.after.title):
                    raise Conflict(f"line {first.line} is to become {address} as well")
            except RetainError as error:
                known = f" ({error.hint})" if isinstance(error, UsageError) else ""
                said = f"{error.message}{known}".split("\n")
                faults += [f"line {step.line}: {line}" for line in said]
        if faults:
            raise Unreadable(
                "\n".join(faults),
                unchanged="Nothing was done.",
                hint="`retain inbox edit` begins anew.",
            )

    def carry_out(self, steps: Sequence[Step]) -> Reviewed:
        """Do what a checked plan says; new words are saved first, so that no refusal loses them."""
        by_id = {step.before.id: step for step in steps}
        revised, lost = _tried(
            [step.before for step in steps], lambda it: self._revise(by_id[it.id])
        )
        chosen = {
            action: [one for one in revised if by_id[one.id].action == action] for action in ACTIONS
        }
        accepted, dropped = self.accept(chosen["accept"]), self.drop(chosen["drop"])
        return Reviewed(
            accepted=accepted.accepted,
            dropped=dropped.dropped,
            kept=chosen["keep"],
            refused=[*lost, *accepted.refused, *dropped.refused],
        )

    def _accept(self, seen: Proposal) -> Accepted:
        one = inbox.unchanged(seen, inbox.read(self._root, seen.id))
        name, there = self._settled(one, *self._checked(one))
        near = None if there else self._candidate(one)
        outcome = Outcome("unchanged", there) if there else self._record(one, name)
        with contextlib.suppress(NotFound):  # another has accepted it too, and it is one memory
            inbox.accepted(self._root, one.id)
        return Accepted(one, outcome, near or self._twin(one, outcome))

    def _record(self, one: Proposal, name: str) -> Outcome:
        return self._desk.record(
            one.category,
            content(one.category, one.title, one.text),
            name=name,
            source=self.source(one),
            title=one.title,
            tags=[_TAG, *filter(None, [one.host])],
        )

    def _drop(self, one: Proposal) -> Proposal:
        inbox.drop(self._root, one.id)
        return one

    def _restore(self, one: Proposal) -> Proposal:
        inbox.restore(self._root, one.id)
        return one

    def _revise(self, step: Step) -> Proposal:
        if step.action == "drop" or not step.is_changed:
            return step.before
        return inbox.revise(self._root, step.before, step.after)

    # What a proposal would become

    def _checked(self, one: Proposal) -> tuple[str, str]:
        """The collection and id that a proposal asks for, if its category allows what it says."""
        ledger, title = self._desk.ledger, clean_title(one.title)
        form = forms.form(one.category, ledger.rules)
        name = slugify(title)
        if not name:
            hint = "Give it a title with letters in it."
            raise UsageError("there is nothing in the title to make an id from", hint=hint)
        checked(
            {
                "schema_version": "1.0",
                "category": one.category,
                "id": name,
                "title": title,
                "created_at": one.created_at,
                "updated_at": one.created_at,
                "tags": [_TAG],
                "content": content(one.category, one.title, one.text),
            },
            ledger.rules,
        )
        return form.folder, name

    def _settled(self, one: Proposal, folder: str, slug: str) -> tuple[str, Memory | None]:
        """The id to store a proposal under, and its memory if it has become one already.

        That is so after a process that did not get further. A title that has a memory with other
        words is refused, unless it may share its id.
        """
        made = content(one.category, one.title, one.text)
        names, first = [slug], self._there(f"{folder}/{slug}")
        if first and _may_share(one, slug, first.title):
            names.append(f"{slug[:_CUT].rstrip('-')}-{one.id[:8]}")
        found = [(slug, first), *((name, self._there(f"{folder}/{name}")) for name in names[1:])]
        for name, there in found:
            if there and there.status == "active" and _content(there) == made:
                return name, there
        for name, there in found:
            # A retired one may give way; whether it is long enough ago, its own rules say.
            if there is None or (there.status == "retired" and name == names[-1]):
                return name, None
        raise Conflict(
            f"{folder}/{slug} is there already and says something else",
            hint="Give this one another title with `retain inbox edit`, or change that memory.",
        )

    def _there(self, address: str) -> Memory | None:
        with contextlib.suppress(NotFound):
            return self._desk.ledger.bank.find(address)
        return None

    def _candidate(self, one: Proposal) -> Near | None:
        """The memory that a proposal may belong to; not knowing it is no reason to refuse."""
        if one.category == SUMMARY:
            return None  # each session has its own
        with contextlib.suppress(RetainError):
            news = f"{one.title}\n{one.text[:_NEWS]}"
            found = self._desk.candidate(one.category, news)["candidate"]
            return Near(found["path"], found["title"]) if found else None
        return None

    def _twin(self, one: Proposal, outcome: Outcome) -> Near | None:
        """A memory of whatever kind that says what the new one says."""
        if one.category == SUMMARY or outcome.status == "unchanged":
            return None
        with contextlib.suppress(RetainError):
            for alike in self._alike(outcome.memory.collection, outcome.memory.id):
                return Near(self._desk.ledger.named(alike.member.path), alike.member.title)
        return None


def _may_share(one: Proposal, slug: str, title: str) -> bool:
    """Whether a proposal whose id is taken gets another one, with a number behind it.

    So do sessions, of which several set out to do the same, and titles that differ only where
    the id has already come to its end.
    """
    return one.category == SUMMARY or (len(slug) > _CUT and clean_title(one.title) != title)


def _content(memory: Memory) -> object:
    return record(memory).get("content") if is_record(memory) else None


def _tried(
    proposals: Sequence[Proposal], step: Callable[[Proposal], _Done]
) -> tuple[list[_Done], list[Refused]]:
    """A step taken with each proposal; what is refused stands in nobody else's way."""
    done: list[_Done] = []
    refused: list[Refused] = []
    for one in proposals:
        try:
            done.append(step(one))
        except RetainError as error:
            refused.append(Refused(one, error))
    return done, refused


def _found(ref: str, among: Sequence[Proposal]) -> Proposal:
    if ref.isdecimal() and ref.isascii() and len(ref) < _SHORT:
        if 0 < int(ref) <= len(among):
            return among[int(ref) - 1]
        raise NotFound(f"there is no proposal number {ref}", hint=_LISTS)
    found = [one for one in among if one.id.startswith(ref.lower()) and len(ref) >= _SHORT]
    if len(found) > 1:
        names = ", ".join(one.id for one in found)
        raise Ambiguous(f"{ref} begins the ids of several proposals: {names}", hint=_LISTS)
    if not found and len(ref) < _SHORT:
        raise NotFound(
            f"there is no proposal {ref!r}: one is named by its number, or by {_SHORT} characters "
            "of its id at least",
            hint=_LISTS,
        )
    if not found:
        raise NotFound(f"there is no proposal {ref!r}", hint=_LISTS)
    return found[0]


def source(one: Proposal, home: str = "") -> str:
    """Where a proposal is from: the host, the session, and the place in its transcript."""
    session = f" session {one.session_id}" if one.session_id else ""
    told = f"{one.host or 'an agent'}{session}"
    if not one.transcript_path:
        return told
    return f"{told}, {from_home(one.transcript_path, home)} bytes {one.start}-{one.end}"
