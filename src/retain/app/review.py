"""Review the inbox: accept, drop, restore and change proposals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.capture.content import make_content
from retain.capture.edit_plan import Step
from retain.capture.inbox import Inbox, Proposal
from retain.capture.transcript import Excerpt, read_excerpt
from retain.capture.triage import SUMMARY
from retain.errors import Ambiguous, Conflict, NotFound, RetainError, Unreadable, UsageError
from retain.locate import from_home
from retain.memory import Data, Memory
from retain.records import forms
from retain.records.codec import is_record, load_record
from retain.records.normalize import clean_title, slugify
from retain.records.schema import check
from retain.records.service import Outcome

if TYPE_CHECKING:
    from retain.app import App

_MIN_PREFIX: Final = 4  # fewer digits are a number in the list, not the beginning of an id
_MAX_ID: Final = 70  # letters of an id that leave room for a number
_MAX_COMPARED: Final = 2_000  # characters of a text that are compared with existing memories
_TAG: Final = "captured"
_LISTS: Final = "`retain inbox` and `retain inbox list --dropped` show what there is."


class Near(NamedTuple):
    """A memory that a person may want to compare."""

    path: str
    title: str


class Accepted(NamedTuple):
    """A proposal that has become a memory, and another memory that says nearly the same."""

    proposal: Proposal
    outcome: Outcome
    near: Near | None

    def to_dict(self) -> Data:
        near = self.near and self.near._asdict()
        return {**self.outcome.to_dict(), "proposal": self.proposal.id, "near": near}


class Refused(NamedTuple):
    """A proposal that nothing was done with, and why."""

    proposal: Proposal
    error: RetainError


@dataclass
class Reviewed:
    """What became of proposals."""

    accepted: list[Accepted] = field(default_factory=list)
    dropped: list[Proposal] = field(default_factory=list)
    restored: list[Proposal] = field(default_factory=list)
    kept: list[Proposal] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)

    @contextlib.contextmanager
    def refusing(self, proposal: Proposal) -> Iterator[None]:
        """Note that a proposal was refused; the others go on."""
        try:
            yield
        except RetainError as error:
            self.refused.append(Refused(proposal, error))

    def to_dict(self) -> Data:
        return {
            "accepted": [accepted.to_dict() for accepted in self.accepted],
            "dropped": [proposal.id for proposal in self.dropped],
            "restored": [proposal.id for proposal in self.restored],
            "kept": [proposal.id for proposal in self.kept],
            "refused": [{"id": proposal.id, **error.to_dict()} for proposal, error in self.refused],
        }


class Review:
    """The proposals of one bank, and the steps a person can take with them."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.inbox = Inbox(app.bank.root, app.env)

    def proposals(self) -> list[Proposal]:
        """What waits, the oldest first."""
        return self.inbox.proposals()

    def dropped(self) -> list[Proposal]:
        """What was dropped and can be restored."""
        return self.inbox.proposals(dropped=True)

    def find(self, refs: Iterable[str], among: Sequence[Proposal]) -> list[Proposal]:
        """The proposals with these numbers in a list, ids or beginnings of ids."""
        return list(dict.fromkeys(_find(ref, among) for ref in refs))

    def excerpt(self, proposal: Proposal) -> Excerpt:
        """What was said in the session, as far as its transcript is still there."""
        return read_excerpt(proposal.transcript_path, proposal.start, proposal.end, self._app.env)

    def source(self, proposal: Proposal) -> str:
        """Where a proposal is from: the host, the session, and the place in its transcript."""
        session = f" session {proposal.session_id}" if proposal.session_id else ""
        source = f"{proposal.host or 'an agent'}{session}"
        if not proposal.transcript_path:
            return source
        path = from_home(proposal.transcript_path, self._app.env.get("HOME", ""))
        return f"{source}, {path} bytes {proposal.start}-{proposal.end}"

    def accept(self, proposals: Iterable[Proposal]) -> Reviewed:
        """Make memories of proposals."""
        return self._apply(("accept", proposal) for proposal in proposals)

    def drop(self, proposals: Iterable[Proposal]) -> Reviewed:
        """Take proposals out of the inbox."""
        return self._apply(("drop", proposal) for proposal in proposals)

    def restore(self, proposals: Iterable[Proposal]) -> Reviewed:
        """Put dropped proposals back."""
        return self._apply(("restore", proposal) for proposal in proposals)

    def _apply(self, steps: Iterable[tuple[str, Proposal]]) -> Reviewed:
        """Do one thing with each proposal; one that is refused stays, and the others go on."""
        done = Reviewed()
        for action, proposal in steps:
            with done.refusing(proposal):
                match action:
                    case "accept":
                        done.accepted.append(self._accept(proposal))
                    case "drop":
                        self.inbox.drop(proposal.id)
                        done.dropped.append(proposal)
                    case "restore":
                        self.inbox.restore(proposal.id)
                        done.restored.append(proposal)
                    case _:
                        done.kept.append(proposal)
        return done

    def revise(self, old: Proposal, new: Proposal) -> Proposal:
        """Change what a waiting proposal says to something that could be accepted."""
        self._check(new)
        return self.inbox.revise(old, new)

    def take_back(self, name: str, ref: str, expect: str) -> None:
        """Undo an acceptance: the memory goes to the trash, the proposal waits again.

        The proposal comes back first: stopped in between, an `accept` finds the memory there.
        """
        bank = self._app.bank
        memory = bank.find(ref)
        if memory.hash != expect:
            raise Conflict(
                f"{memory.ref} was changed since it was accepted",
                unchanged="It is as it is, and the proposal stays accepted.",
                hint=f"Delete it if you do not want it: retain delete {memory.ref}",
            )
        self.inbox.reopen(name)
        try:
            bank.delete(memory.address, expect=expect)
        except RetainError:
            self.inbox.accept(name)
            raise
        what, gone = f"take back {memory.ref}", {memory.path: None}
        self._app.settle(Outcome("deleted", memory, changes=gone, message=what))

    def check(self, steps: Sequence[Step]) -> None:
        """Raise Unreadable if some step of a plan could not be done."""
        faults: list[str] = []
        taken: dict[str, Step] = {}
        for step in steps:
            is_accepted = step.action == "accept"
            if step.action == "drop" or not (is_accepted or step.is_changed):
                continue
            try:
                folder, slug = self._check(step.after)
                if is_accepted:
                    self._choose_id(step.after, folder, slug)
                    first = taken.setdefault(f"{folder}/{slug}", step)
                    if first is not step and not _may_share(step.after, slug, first.after.title):
                        raise Conflict(f"line {first.line} is to become {folder}/{slug} as well")
            except RetainError as error:
                hint = f" ({error.hint})" if isinstance(error, UsageError) else ""
                lines = f"{error.message}{hint}".split("\n")
                faults += [f"line {step.line}: {line}" for line in lines]
        if faults:
            raise Unreadable(
                "\n".join(faults),
                unchanged="Nothing was done.",
                hint="`retain inbox edit` begins anew.",
            )

    def carry_out(self, steps: Sequence[Step]) -> Reviewed:
        """Carry out a checked plan; edits are saved first, so that no refusal loses them."""
        saving, chosen = Reviewed(), []
        for step in steps:
            with saving.refusing(step.before):
                is_new = step.is_changed and step.action != "drop"
                proposal = self.inbox.revise(step.before, step.after) if is_new else step.before
                chosen.append((step.action, proposal))
        done = self._apply(chosen)
        done.refused[:0] = saving.refused
        return done

    def _accept(self, proposal: Proposal) -> Accepted:
        self.inbox.check_unchanged(proposal)
        name, memory = self._choose_id(proposal, *self._check(proposal))
        near = None
        if memory is not None:
            outcome = Outcome("unchanged", memory)
        else:
            near = self._find_candidate(proposal)
            outcome = self._app.record(
                proposal.category,
                _content_for(proposal),
                id=name,
                source=self.source(proposal),
                title=proposal.title,
                tags=[_TAG, *filter(None, [proposal.host])],
            )
            near = near or self._find_duplicate(proposal, outcome)
        with contextlib.suppress(NotFound):  # another process has accepted it too
            self.inbox.accept(proposal.id)
        return Accepted(proposal, outcome, near)

    def _check(self, proposal: Proposal) -> tuple[str, str]:
        """The collection and id that a proposal asks for, if its category allows what it says."""
        records, title = self._app.records, clean_title(proposal.title)
        folder = forms.known_category(proposal.category, records.rules).folder
        name = slugify(title)
        if not name:
            hint = "Give it a title with letters in it."
            raise UsageError("there is nothing in the title to make an id from", hint=hint)
        fields = {"id": name, "title": title, "tags": [_TAG]}
        check(records.draft(proposal.category, _content_for(proposal), fields), records.rules)
        return folder, name

    def _choose_id(self, proposal: Proposal, folder: str, slug: str) -> tuple[str, Memory | None]:
        """The id to store a proposal under, and its memory if it has become one already.

        That is so after a process that was stopped half way. A title whose memory says something
        else is refused, unless it may share its id.
        """
        content = _content_for(proposal)
        first = self._find_memory(f"{folder}/{slug}")
        names = {slug: first}
        if first and _may_share(proposal, slug, first.title):
            numbered = f"{slug[:_MAX_ID].rstrip('-')}-{proposal.id[:8]}"
            names[numbered] = self._find_memory(f"{folder}/{numbered}")
        for name, memory in names.items():
            if memory and memory.status == "active" and _content_of(memory) == content:
                return name, memory
        for name, memory in names.items():
            # A retired one may give way; whether it is long enough ago, its own rules say.
            is_last = name == list(names)[-1]
            if memory is None or (memory.status == "retired" and is_last):
                return name, None
        raise Conflict(
            f"{folder}/{slug} is there already and says something else",
            hint="Give this one another title with `retain inbox edit`, or change that memory.",
        )

    def _find_memory(self, address: str) -> Memory | None:
        with contextlib.suppress(NotFound):
            return self._app.bank.find(address)
        return None

    def _find_candidate(self, proposal: Proposal) -> Near | None:
        """The memory that a proposal may belong to; not knowing it is no reason to refuse."""
        if proposal.category == SUMMARY:
            return None  # each session has its own
        with contextlib.suppress(RetainError):
            news = f"{proposal.title}\n{proposal.text[:_MAX_COMPARED]}"
            if candidate := self._app.candidate(proposal.category, news)["candidate"]:
                return Near(candidate["path"], candidate["title"])
        return None

    def _find_duplicate(self, proposal: Proposal, outcome: Outcome) -> Near | None:
        """A memory of any type that seems to say the same as the new one."""
        if proposal.category == SUMMARY or outcome.status == "unchanged":
            return None
        with contextlib.suppress(RetainError):
            for alike in self._app.alike(outcome.memory.collection, outcome.memory.id):
                return Near(self._app.records.name(alike.member.path), alike.member.title)
        return None


def _may_share(proposal: Proposal, slug: str, title: str) -> bool:
    """Whether a proposal whose id is taken gets another one, with a number behind it.

    So do sessions, of which several set out to do the same, and titles that differ only where
    the id has already come to its end.
    """
    is_cut = len(slug) > _MAX_ID and clean_title(proposal.title) != title
    return proposal.category == SUMMARY or is_cut


def _content_for(proposal: Proposal) -> dict[str, object]:
    return make_content(proposal.category, proposal.title, proposal.text)


def _content_of(memory: Memory) -> object:
    return load_record(memory).get("content") if is_record(memory) else None


def _find(ref: str, among: Sequence[Proposal]) -> Proposal:
    if len(ref) < _MIN_PREFIX:
        if not (ref.isascii() and ref.isdecimal()):
            raise NotFound(
                f"there is no proposal {ref!r}: one is named by its number, or by {_MIN_PREFIX} "
                "characters of its id at least",
                hint=_LISTS,
            )
        if not 0 < int(ref) <= len(among):
            raise NotFound(f"there is no proposal number {ref}", hint=_LISTS)
        return among[int(ref) - 1]
    proposals = [proposal for proposal in among if proposal.id.startswith(ref.lower())]
    if len(proposals) > 1:
        names = ", ".join(proposal.id for proposal in proposals)
        raise Ambiguous(f"{ref} begins the ids of several proposals: {names}", hint=_LISTS)
    if not proposals:
        raise NotFound(f"there is no proposal {ref!r}", hint=_LISTS)
    return proposals[0]
