"""Review the inbox: accept, drop, restore and change proposals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank.index_md import clean_title
from retain.capture.edit_plan import Step
from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal
from retain.capture.transcript import Excerpt, read_excerpt
from retain.capture.triage import SUMMARY
from retain.errors import Ambiguous, Conflict, NotFound, RetainError, UsageError
from retain.locate import from_home
from retain.memory import Data, Memory
from retain.records import forms
from retain.records.codec import is_record, load_record
from retain.records.normalize import slugify
from retain.records.schema import check
from retain.records.service import Outcome

if TYPE_CHECKING:
    from retain.app import App

_MIN_PREFIX: Final = 4  # fewer digits are a number in the list, not the beginning of an id
_MAX_ID: Final = 70  # letters of an id that leave room for a number
_TAG: Final = "captured"


class Accepted(NamedTuple):
    """A proposal that has become a memory, and another memory that says nearly the same."""

    proposal: Proposal
    outcome: Outcome
    near: Data | None

    def to_dict(self) -> Data:
        return {**self.outcome.to_dict(), "proposal": self.proposal.id, "near": self.near}


@dataclass
class Reviewed:
    """What became of proposals; those that were refused are as they were."""

    accepted: list[Accepted] = field(default_factory=list)
    dropped: list[Proposal] = field(default_factory=list)
    restored: list[Proposal] = field(default_factory=list)
    kept: list[Proposal] = field(default_factory=list)
    refused: list[tuple[Proposal, RetainError]] = field(default_factory=list)

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
        return self.apply(Step("accept", proposal, proposal) for proposal in proposals)

    def drop(self, proposals: Iterable[Proposal]) -> Reviewed:
        """Take proposals out of the inbox."""
        return self.apply(Step("drop", proposal, proposal) for proposal in proposals)

    def restore(self, proposals: Iterable[Proposal]) -> Reviewed:
        """Put dropped proposals back."""
        return self.apply(Step("restore", proposal, proposal) for proposal in proposals)

    def apply(self, steps: Iterable[Step]) -> Reviewed:
        """Take each step; a proposal that is refused stays, and the others go on."""
        done = Reviewed()
        for step in steps:
            proposal = step.before
            try:
                if step.is_changed and step.action != "drop":
                    proposal = self.revise(proposal, step.after)
                match step.action:
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
            except RetainError as error:
                done.refused.append((proposal, error))
        return done

    def revise(self, old: Proposal, new: Proposal) -> Proposal:
        """Change what a waiting proposal says to something that could be accepted."""
        self._check(new)
        return self.inbox.revise(old, new)

    def take_back(self, name: str, ref: str, expect: str) -> None:
        """Undo an acceptance: the memory goes to the trash, the proposal waits again.

        The proposal comes back first: stopped in between, an `accept` finds the memory there.
        """
        self.inbox.reopen(name)
        try:
            self._app.delete(ref, expect=expect)
        except RetainError:  # it was changed since, and the proposal stays accepted
            self.inbox.accept(name)
            raise

    def _accept(self, proposal: Proposal) -> Accepted:
        self.inbox.check_unchanged(proposal)
        name, memory = self._choose_id(proposal, *self._check(proposal))
        near = None
        if memory is not None:
            outcome = Outcome("unchanged", memory)
        else:
            outcome = self._app.record(
                proposal.category,
                proposal.content(),
                id=name,
                source=self.source(proposal),
                title=proposal.title,
                tags=[_TAG, *filter(None, [proposal.host])],
            )
            near = self._find_near(proposal, outcome.memory)
        with contextlib.suppress(NotFound):  # another process has accepted it too
            self.inbox.accept(proposal.id)
        return Accepted(proposal, outcome, near)

    def _check(self, proposal: Proposal) -> tuple[str, str]:
        """The collection and id that a proposal asks for, if its category allows what it says."""
        records, title = self._app.records, clean_title(proposal.title)
        folder = forms.find_category(proposal.category, records.rules).folder
        name = slugify(title)
        if not name:
            hint = "Give it a title with letters in it."
            raise UsageError("there is nothing in the title to make an id from", hint=hint)
        fields = {"id": name, "title": title, "tags": [_TAG]}
        check(records.make_draft(proposal.category, proposal.content(), fields), records.rules)
        return folder, name

    def _choose_id(self, proposal: Proposal, folder: str, slug: str) -> tuple[str, Memory | None]:
        """The id to store a proposal under, and its memory if it has become one already.

        That is so after a process that was stopped half way. A title whose memory says something
        else is refused, unless it may share its id.
        """
        name, memory = slug, self._find_memory(f"{folder}/{slug}")
        if memory and not _says(memory, proposal) and _may_share(proposal, slug, memory.title):
            name = f"{slug[:_MAX_ID].rstrip('-')}-{proposal.id[:8]}"
            memory = self._find_memory(f"{folder}/{name}")
        # A retired one may give way; whether it is long enough ago, its own rules say.
        if memory is None or memory.status == "retired":
            return name, None
        if _says(memory, proposal):
            return name, memory
        raise Conflict(
            f"{folder}/{slug} is there already and says something else",
            hint="Give this one another title with `retain inbox edit`, or change that memory.",
        )

    def _find_memory(self, address: str) -> Memory | None:
        with contextlib.suppress(NotFound):
            return self._app.bank.find(address)
        return None

    def _find_near(self, proposal: Proposal, memory: Memory) -> Data | None:
        """Path and title of a memory of any type that seems to say the same as the new one."""
        if proposal.category != SUMMARY:  # each session has its own
            with contextlib.suppress(RetainError):  # not knowing it is no reason to refuse
                for alike in self._app.alike(memory.collection, memory.id):
                    path = self._app.records.relative_path(alike.member.path)
                    return {"path": path, "title": alike.member.title}
        return None


def _may_share(proposal: Proposal, slug: str, title: str) -> bool:
    """Whether a proposal whose id is taken gets another one, with a number behind it.

    So do sessions, of which several set out to do the same, and titles that differ only where
    the id has already come to its end.
    """
    is_cut = len(slug) > _MAX_ID and clean_title(proposal.title) != title
    return proposal.category == SUMMARY or is_cut


def _says(memory: Memory, proposal: Proposal) -> bool:
    """Whether a memory is what a proposal would become."""
    content = load_record(memory).get("content") if is_record(memory) else None
    return memory.status == "active" and content == proposal.content()


def _find(ref: str, among: Sequence[Proposal]) -> Proposal:
    is_number = len(ref) < _MIN_PREFIX and ref.isascii() and ref.isdecimal()
    if is_number and 0 < int(ref) <= len(among):
        return among[int(ref) - 1]
    is_prefix = len(ref) >= _MIN_PREFIX
    proposals = [one for one in among if is_prefix and one.id.startswith(ref.lower())]
    if len(proposals) == 1:
        return proposals[0]
    hint = "`retain inbox` and `retain inbox list --dropped` show what there is."
    if proposals:
        names = ", ".join(proposal.id for proposal in proposals)
        raise Ambiguous(f"{ref} begins the ids of several proposals: {names}", hint=hint)
    raise NotFound(
        f"there is no proposal {ref!r}: one is named by its number in the list, or by "
        f"{_MIN_PREFIX} characters of its id at least",
        hint=hint,
    )
