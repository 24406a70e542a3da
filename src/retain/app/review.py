"""Review the inbox: accept, drop, restore and change proposals."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

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

UNSTATED: Final = "Not stated."

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

    def accept(self, proposals: Sequence[Proposal]) -> Reviewed:
        """Make memories of proposals; one that is refused stays, and the others go on."""
        done = Reviewed()
        for proposal in proposals:
            with done.refusing(proposal):
                done.accepted.append(self._accept(proposal))
        return done

    def drop(self, proposals: Sequence[Proposal]) -> Reviewed:
        """Take proposals out of the inbox."""
        done = Reviewed()
        for proposal in proposals:
            with done.refusing(proposal):
                self.inbox.drop(proposal.id)
                done.dropped.append(proposal)
        return done

    def restore(self, proposals: Sequence[Proposal]) -> Reviewed:
        """Put dropped proposals back."""
        done = Reviewed()
        for proposal in proposals:
            with done.refusing(proposal):
                self.inbox.restore(proposal.id)
                done.restored.append(proposal)
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
        done = Reviewed()
        proposals: dict[str, list[Proposal]] = {"keep": done.kept, "accept": [], "drop": []}
        for action, before, after, _ in steps:
            with done.refusing(before):
                is_new = before != after and action != "drop"
                proposals[action].append(self.inbox.revise(before, after) if is_new else before)
        accepted, dropped = self.accept(proposals["accept"]), self.drop(proposals["drop"])
        done.accepted, done.dropped = accepted.accepted, dropped.dropped
        done.refused += [*accepted.refused, *dropped.refused]
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
        rules, title = self._app.records.rules, clean_title(proposal.title)
        form = forms.form(proposal.category, rules)
        name = slugify(title)
        if not name:
            hint = "Give it a title with letters in it."
            raise UsageError("there is nothing in the title to make an id from", hint=hint)
        check(
            {
                "schema_version": "1.0",
                "category": proposal.category,
                "id": name,
                "title": title,
                "created_at": proposal.created_at,
                "updated_at": proposal.created_at,
                "tags": [_TAG],
                "content": _content_for(proposal),
            },
            rules,
        )
        return form.folder, name

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


# A proposal's words as the content of its category, without a model to rewrite them. Nothing is
# made up: what the words do not say is "Not stated.", and a person can change it.

_REASON: Final = re.compile(
    r"\b(because|due to|since|so that|in order to|reason|rationale|therefore|to avoid)\b", re.I
)
_DEFERRED: Final = re.compile(
    r"\b(because|due to|for now|later|defer(?:red|ring)?|postponed?|workaround|out of scope)\b",
    re.I,
)
_VERIFIED: Final = re.compile(
    r"\b(verif(?:y|ied|ies)|confirm(?:ed|s)?|check(?:ed|s)?|pass(?:es|ed)?|works?|resolved|fixed)\b",
    re.I,
)
_BULLET: Final = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_GOAL: Final = re.compile(r"\W*(?:goal|task|objective)[^\w:]*:(.*)", re.I)
# The words by which a heading of a summary opens one of its fields.
_HEADINGS: Final = (
    ("next_actions", ("next", "pending", "todo", "to do", "remaining", "follow-up")),
    ("in_progress", ("in progress", "current work", "ongoing", "under way")),
    ("blockers", ("blocker", "blocked", "error", "problem", "open question")),
    ("key_changes", ("key change", "changes", "files", "technical concept")),
    ("completed", ("completed", "done", "accomplished", "what was", "summary", "result")),
)


def make_content(category: str, title: str, text: str) -> dict[str, object]:
    """The content of a memory of a category, from a title and a text alone."""
    text = text.strip() or title
    match category:
        case "decision":
            reason = _sentence_with(_REASON, text) or title
            content = {"context": text, "decision": title, "rationale": [reason]}
            return {"status": "accepted", **content}
        case "runbook":
            # The steps are what is listed and what follows; what comes before is how it showed.
            lines = [line for line in text.split("\n") if line.strip()]
            first = next((at for at, line in enumerate(lines) if _BULLET.match(line)), 0)
            symptoms = {"symptoms": lines[:first]} if first else {}
            steps = [_strip_bullet(line) for line in lines[first:]]
            verification = _sentence_with(_VERIFIED, text) or UNSTATED
            return {"trigger": title, **symptoms, "steps": steps, "verification": verification}
        case "constraint":
            content = {"kind": "limitation", "rule": title, "impact": [text]}
            return {**content, "severity": "medium", "active": True}
        case "tech_debt":
            description = text if title in text else f"{title}\n\n{text}"
            reason = _sentence_with(_DEFERRED, text) or UNSTATED
            content = {"description": description, "reason_deferred": reason}
            return {"status": "open", "priority": "medium", **content}
        case "preference":
            reason = _sentence_with(_REASON, text) or UNSTATED
            return {"topic": title, "value": text, "reason": reason, "strength": "default"}
        case "session_summary":
            return _summarise(title, text)
        case _:  # a category of the person's own, which alone knows its fields
            return {"title": title, "text": text}


def _summarise(title: str, text: str) -> dict[str, object]:
    """A summary by its headings; what stands under none, or an unknown one, was completed."""
    fields: dict[str, list[str]] = {"completed": [], "next_actions": []}
    goal, name = "", "completed"
    for line in filter(str.strip, text.split("\n")):
        stated = None if goal else _GOAL.match(line)
        if stated and (goal := stated[1].strip(" \t*")):
            continue
        if _is_heading(line.strip()):
            words = line.lower()
            opened = (name for name, marks in _HEADINGS if any(mark in words for mark in marks))
            if name := next(opened, ""):
                continue
            name = "completed"
        fields.setdefault(name, []).append(_strip_bullet(line))
    return {"goal": goal or title, "outcome": "partial", **fields}


def _is_heading(line: str) -> bool:
    is_item = line.startswith(("- ", "* ", "+ ", "• "))
    return not is_item and len(line) <= 80 and (line[0] == "#" or line.rstrip("*")[-1:] == ":")


def _sentence_with(pattern: re.Pattern[str], text: str) -> str:
    """The first sentence that a pattern is found in."""
    for line in text.split("\n"):
        for sentence in re.split(r"(?<=[.!?])\s+", line):
            if pattern.search(sentence):
                return _strip_bullet(sentence)
    return ""


def _strip_bullet(line: str) -> str:
    return _BULLET.sub("", line, count=1).strip()
