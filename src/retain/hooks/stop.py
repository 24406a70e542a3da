"""What a session has shown to be worth keeping is saved by its agent, or waits in the inbox.

An agent that stops is asked, once, to save it; what it does not save then is proposed, as is
everything if the person says so. A conversation that is compacted or ends leaves a summary, made by
no model of ours: the host has made one for a compaction, and for a session's end there is what was
asked first and what was answered last.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final

from retain.bank.bank import Bank
from retain.capture import stop_message, transcript, triage
from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal
from retain.capture.transcript import Message
from retain.capture.triage import SUMMARY, Verdict
from retain.config import rules
from retain.errors import RetainError
from retain.hooks import Answer, Call
from retain.hooks.session_state import SessionState

_BLOCK_SECONDS: Final = 300  # for which a stop that was blocked is remembered
_BLOCKED: Final = 2  # the exit code by which a host keeps its agent at work
_MIN_THRESHOLD: Final = 0.01  # a session that says nothing of a kind is never asked for it
_MAX_NEWEST: Final = 20  # memories of a category among which a new one is looked for


def answer(call: Call) -> Answer:
    """Block a stop that would lose something; propose what would be forgotten."""
    if reason := call.find_silence_reason():
        return Answer(reason=reason)
    session = Session(call)
    match call.event:
        case "stop":
            return _stop(session)
        case "pre-compact":
            session.judge()
            # A summary follows in a moment, and a better one.
            findings = [found for found in session.verdict.findings if found.category != SUMMARY]
            if findings:
                session.close()
            for finding in findings:
                session.propose(finding.to_dict())
            return session.finish(session.explain())
        case "post-compact":
            session.state.shown = {}  # what was shown before is gone from the conversation
            _propose_host_summary(session)
            return session.finish("The payload has no compact_summary.")
        case _:
            session.settle()
            _propose_session(session)
            return session.finish(session.explain())


def _stop(session: Session) -> Answer:
    call, state = session.call, session.state
    is_active = call.payload.get("stop_hook_active") is True
    was_asked = bool(state.raised)
    session.settle()
    if _take_flag(call.cwd) or is_active:  # a flag of another session's only puts this one off
        if is_active and was_asked:
            session.close()  # what an agent says about its saving is no news
        return session.finish("The agent was asked at the stop before: a second one passes.")
    session.judge()
    findings = [finding.to_dict() for finding in session.verdict.findings]
    if not findings:
        return session.finish(session.explain())
    session.close()
    if call.config.text("triage.capture") == "inbox":
        for finding in findings:
            session.propose(finding)
        return session.finish()
    state.raised, state.raised_at = findings, time.time()
    state.save()
    message = session.write_message()
    _set_flag(call.cwd)
    return Answer(err=f"{message}\n", code=_BLOCKED)


def _propose_host_summary(session: Session) -> None:
    """Propose the host's own summary of a conversation, without its thoughts before it."""
    summary = transcript.strip_injected(session.call.text("compact_summary"))
    summary = summary.rpartition("</analysis>")[2]
    summary = summary.replace("<summary>", "").replace("</summary>", "").strip()
    if summary:
        end = transcript.size(session.call.text("transcript_path"))
        session.propose_summary({"category": SUMMARY, "text": summary, "score": 1.0, "end": end})


def _propose_session(session: Session) -> None:
    """Propose a summary of a session in which something was done, unless there is one."""
    if session.state.is_summarised:
        return
    session.judge()
    for finding in session.verdict.findings:
        if finding.category == SUMMARY:
            session.propose_summary(finding.to_dict())


class Session:
    """What was said in a session, and what of it should be remembered."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.location = call.banks[0][0]
        self.state = SessionState(self.location, call.text("session_id"), call.env)
        self.verdict = Verdict([], {})
        self._rules = rules(call.config, self.location.root)
        path = call.text("transcript_path")
        self._path = path if transcript.is_readable(path, call.env) else ""
        # A host may begin to write a transcript only after the first stop: till then its word for
        # what was said last is all there is.
        self._last = call.text("last_assistant_message")
        self._end = transcript.size(self._path)
        self._since = self.state.judged if self.state.judged <= self._end else 0
        self._has_proposed = False
        self._notes: list[str] = []  # what went wrong

    def finish(self, reason: str = "") -> Answer:
        """Save the state and answer nothing, for a reason if nothing was proposed either.

        What went wrong goes to the log of the host.
        """
        self.state.save()
        err = "".join(f"retain hook: {note}\n" for note in self._notes)
        return Answer(err=err, reason="" if self._has_proposed else reason)

    @cached_property
    def thresholds(self) -> dict[str, float]:
        """The score that each captured category must reach."""
        config = self.call.config
        return {
            name: max(_MIN_THRESHOLD, float(config.value(f"triage.thresholds.{name}").value))
            for name, category in self._rules.categories.items()
            if name in triage.CATEGORIES and category.enabled and category.auto_capture
        }

    @cached_property
    def messages(self) -> list[Message]:
        """The messages since something was found last."""
        most = self.call.config.number("triage.max_messages")
        return transcript.last_messages(self._path, most, self._since)

    def judge(self) -> None:
        """Judge what was said since something was found last, as far as there is time."""
        if not self.call.is_late():
            # The last answer may have been judged before its line, or any line, was written.
            judged = self.state.last if self._since == self.state.judged else ""
            last = self._last if _digest(self._last) != judged else ""
            messages = [message for message in self.messages if _digest(message.text) != judged]
            self.verdict = triage.judge(messages, self.thresholds, last, self.call.is_late)

    def close(self) -> None:
        """Record how far the transcript was judged, unless time ran out."""
        if not self.call.is_late():
            self.state.judged = self._end
            self.state.last = _digest(self._last) if self._last else ""

    def explain(self) -> str:
        """Why nothing was found."""
        if not self._path:
            path = self.call.text("transcript_path") or "A transcript"
            return f"{path} cannot be read, or lies where no host keeps transcripts."
        scores = ", ".join(
            f"{name} {score:.2f} of {self.thresholds[name]:g}"
            for name, score in self.verdict.scores.items()
        )
        scores = scores or "nothing was said, or none is captured"
        return f"Too little was found (score and threshold, triage.thresholds): {scores}."

    def write_message(self) -> str:
        """What the agent is told to save; what it drafts from is written to files."""
        config, session = self.call.config, self.call.text("session_id")
        descriptions = {name: each.description for name, each in self._rules.categories.items()}
        files = {
            finding.category: stop_message.write_context(
                finding, session, descriptions.get(finding.category, "")
            )
            for finding in self.verdict.findings
            if not self.call.is_late()
        }
        under = "triage.parallel.category_models."
        parallel = {
            "enabled": config.flag("triage.parallel.enabled"),
            "category_models": {
                key.removeprefix(under): str(value.value)
                for key, value in config.values.items()
                if key.startswith(under)
            },
            "verification_model": config.text("triage.parallel.verification_model"),
            "default_model": config.text("triage.parallel.default_model"),
        }
        return stop_message.compose(self.verdict.findings, files, descriptions, parallel)

    def propose(self, fields: Mapping[str, Any]) -> None:
        """Put a finding into the inbox of the bank in force, or note why that could not be."""
        call, self._has_proposed = self.call, True
        # One host says its name itself, the other gives its plugins a variable.
        is_codex = "PLUGIN_ROOT" in call.env and "CLAUDECODE" not in call.env
        proposal = Proposal(
            id="",
            event=call.event,
            host="codex" if is_codex or "turn_id" in call.payload else "claude-code",
            session_id=call.text("session_id"),
            transcript_path=call.text("transcript_path"),
            cwd=call.cwd,
            **fields,
        )
        try:
            Inbox(self.location.root, call.env).propose(proposal)
        except RetainError as error:
            self._notes.append(error.message)

    def propose_summary(self, found: Mapping[str, Any]) -> None:
        """Propose a summary of this session, under what was asked for first."""
        self.state.is_summarised = True
        request = transcript.first_request(self._path)
        self.propose({**found, "title": triage.make_title(request)})

    def settle(self) -> None:
        """Propose what the agent was asked to save and has not saved; remove its drafts."""
        state = self.state
        for finding in state.raised:
            category = finding["category"]
            stop_message.remove_context(category, self.call.text("session_id"))
            if not self._is_saved(category, state.raised_at):
                self.propose(finding)
            state.is_summarised = state.is_summarised or category == SUMMARY
        state.raised, state.raised_at = [], 0.0

    def _is_saved(self, name: str, since: float) -> bool:
        """Whether a memory of a category was made or changed since a time, by its own word.

        A file may be new only here, with whatever a repository brings. What is proposed once too
        often is seen by a person, and what is not is lost.
        """
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))  # dates are in UTC
        category = self._rules.category(name)
        bank = Bank(self.location, max_bytes=self.call.config.number("memory.max_bytes"))
        with contextlib.suppress(RetainError, OSError):
            for memory in islice(bank.newest(category.folder) if category else (), _MAX_NEWEST):
                if max(memory.text("updated_at"), memory.text("created_at")) >= start:
                    return True
        return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode(errors="replace")).hexdigest()[:16]


# The flag by which claude-memory knows that a stop was blocked


def _flag(cwd: str) -> str:
    """The flag's path; empty where a link leads to somebody else's files."""
    folder = os.path.join(cwd, ".claude")
    return "" if os.path.islink(folder) else os.path.join(folder, ".stop_hook_active")


def _take_flag(cwd: str) -> bool:
    """Whether a stop was blocked just now; the flag is gone afterwards, old or new."""
    try:
        path = _flag(cwd)
        status = os.lstat(path)
        os.unlink(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime < _BLOCK_SECONDS


def _set_flag(cwd: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        path = _flag(cwd)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Only where there is none: what a stranger has put there is neither emptied nor waited for.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            file.write(f"{time.time()}")
