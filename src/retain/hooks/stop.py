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
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final

from retain.bank.bank import Bank
from retain.capture import stop_message, transcript, triage
from retain.capture.inbox import Inbox
from retain.capture.proposal import MAX_TEXT, Proposal
from retain.capture.transcript import Message
from retain.capture.triage import SUMMARY, Finding
from retain.categories import Rules
from retain.config import rules
from retain.errors import RetainError
from retain.hooks import Answer, Call
from retain.hooks.session_state import SessionState

_FLAG: Final = ".stop_hook_active"
_BLOCK_SECONDS: Final = 300  # for which a stop that was blocked is remembered
_BLOCKED: Final = 2  # the exit code by which a host keeps its agent at work
_MIN_THRESHOLD: Final = 0.01
_MAX_DESCRIPTION: Final = 120  # characters: they may be a stranger's, in what the agent is told
_MAX_TITLE: Final = 100
_MAX_SUMMARY: Final = 40_000
_MAX_REDACTED: Final = 200_000
_MAX_ANSWER: Final = 4_000  # characters of the last answer in a session's summary
_MAX_NEWEST: Final = 20  # memories of a category among which a new one is looked for


def answer(call: Call) -> Answer:
    """Block a stop that would lose something; propose what would be forgotten."""
    if reason := call.off_reason(call.config):
        return Answer(reason=reason)
    session = Session(call)
    match call.event:
        case "stop":
            return _stop(session)
        case "pre-compact":
            return _finish(session, _propose_findings(session), session.explain())
        case "post-compact":
            notes = _propose_host_summary(session)
            return _finish(session, notes, "The payload has no compact_summary.")
        case _:
            notes = [*session.settle(), *_propose_session(session)]
            return _finish(session, notes, session.explain(SUMMARY))


def _finish(session: Session, notes: Iterable[str], reason: str = "") -> Answer:
    """Save the state and answer nothing; errors go to the log of the host."""
    session.state.save()
    text = "".join(f"retain hook: {note}\n" for note in notes if note)
    return Answer(err=text, reason=reason)


def _stop(session: Session) -> Answer:
    call, state = session.call, session.state
    is_active = call.payload.get("stop_hook_active") is True
    # Whether a stop of this session was blocked just now, so that this one must pass. The flag in
    # the project may be another session's: it counts for a session without a name alone.
    is_flagged = _take_flag(call.cwd) and not call.text("session_id")
    is_recent = 0 <= time.time() - state.raised_at < _BLOCK_SECONDS
    is_again = is_flagged or is_recent or is_active
    was_asked = bool(state.raised)
    notes = session.settle()
    if was_asked and is_again and (is_active or not session.has_request()):
        session.close()  # what an agent says about its saving is no news
    elif was_asked or not is_again:
        session.judge()
    if not session.findings:
        again = "The agent was asked at the stop before: a second one passes."
        return _finish(session, notes, again if is_active else session.explain())
    session.close()
    findings = list(map(_to_dict, session.findings))
    if is_again or call.config.text("triage.capture") == "inbox":
        return _finish(session, [*notes, *map(session.propose, findings)])
    state.raised, state.raised_at = findings, time.time()
    state.save()
    message = session.write_message()
    _set_flag(call.cwd)
    return Answer(err=f"{message}\n", code=_BLOCKED)


def _propose_host_summary(session: Session) -> list[str]:
    """Propose the host's own summary; what was shown before it is gone from the conversation."""
    session.state.forget_shown()
    summary = transcript.strip_injected(session.call.text("compact_summary"))
    _, mark, rest = summary.partition("<summary>")  # with the host's thoughts before it
    if mark:
        summary = rest.partition("</summary>")[0]
    else:
        before, mark, rest = summary.partition("<analysis>")
        summary = before + rest.partition("</analysis>")[2] if mark else summary
    summary = _redact(summary.strip())[:_MAX_SUMMARY]
    return [session.propose_summary(session.first_request(), summary, 1.0)] if summary else []


def _propose_findings(session: Session) -> list[str]:
    """Propose what the transcript has, before most of it is forgotten."""
    session.judge()
    # A summary follows in a moment, and a better one.
    findings = [finding for finding in session.findings if finding.category != SUMMARY]
    if findings:
        session.close()
    return [session.propose(_to_dict(finding)) for finding in findings]


def _propose_session(session: Session) -> list[str]:
    """Propose a summary of a session in which something was done, unless there is one."""
    if session.state.is_summarised:
        return []
    session.judge()
    activity = next((finding for finding in session.findings if finding.category == SUMMARY), None)
    if activity is None:
        return []
    replies = (message.text for message in session.messages[::-1] if message.role == "assistant")
    request, last = session.first_request(), _redact(next(filter(None, replies), ""))
    text = (
        f"Asked for: {request[:_MAX_ANSWER]}\n\nLast answer: {last[:_MAX_ANSWER]}\n\n"
        f"{activity.context}"
    )
    return [session.propose_summary(request, text, activity.score, activity.start, activity.end)]


class Session:
    """What was said in a session, and what of it should be remembered."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.state = SessionState(call.locator.location, call.text("session_id"), call.env)
        path = call.text("transcript_path")
        self.path = path if path and transcript.is_readable(path, call.env) else ""
        self.findings: list[Finding] = []
        # A host may begin to write a transcript only after the first stop: till then its word for
        # what was said last is all there is.
        self._last = call.text("last_assistant_message")
        self._scores: Mapping[str, float] = {}
        self._end = transcript.size(self.path)
        self._is_cut = False

    @cached_property
    def thresholds(self) -> dict[str, float]:
        """The score that each captured category must reach."""
        config = self.call.config
        return {
            # A session that says nothing of a kind is never asked for it, whatever a project says.
            name: max(_MIN_THRESHOLD, float(config.value(f"triage.thresholds.{name}").value))
            for name, category in self._rules.categories.items()
            if name in triage.CATEGORIES and category.enabled and category.auto_capture
        }

    @cached_property
    def _rules(self) -> Rules:
        return rules(self.call.config, self.call.locator.location.root)

    @cached_property
    def messages(self) -> list[Message]:
        """The messages since something was found last."""
        most = self.call.config.number("triage.max_messages")
        return transcript.last_messages(self.path, most, self._since)

    @property
    def _since(self) -> int:
        return self.state.judged if self.state.judged <= self._end else 0

    def has_request(self) -> bool:
        """Whether the person has said anything since something was found last."""
        return any(message.role == "user" and message.text for message in self.messages)

    def first_request(self) -> str:
        """What the session was for, without secrets, if there is time to look."""
        is_known = self.path and not self.call.is_late()
        return _redact(transcript.first_request(self.path)) if is_known else ""

    def judge(self) -> None:
        """Judge what was said since something was found last, as far as there is time."""
        self._is_cut = self.call.is_late()
        if self._is_cut or not (self.path or self._last):
            return
        # The last answer may have been judged before its line, or any line, was written.
        judged = self.state.last if self._since == self.state.judged else ""
        last = self._last if _digest(self._last) != judged else ""
        messages = [message for message in self.messages if _digest(message.text) != judged]
        verdict = triage.judge(messages, self.thresholds, last, self.call.is_late)
        self.findings, self._scores = verdict.findings, verdict.scores
        self._is_cut = self.call.is_late()

    def close(self) -> None:
        """Record how far the transcript was judged, unless time ran out."""
        if (self.path or self._last) and not self._is_cut:
            self.state.judged = self._end
            self.state.last = _digest(self._last)

    def explain(self, category: str = "") -> str:
        """Why nothing was found, of any category or of one."""
        if not self.path:
            path = self.call.text("transcript_path") or "A transcript"
            return f"{path} cannot be read, or lies where no host keeps transcripts."
        scores = ", ".join(
            f"{name} {score:.2f} of {self.thresholds[name]:g}"
            for name, score in self._scores.items()
            if category in ("", name)
        )
        if not scores:
            return "Nothing was said in the transcript, or no category is captured."
        return f"No category reaches its threshold (triage.thresholds): {scores}."

    def write_message(self) -> str:
        """What the agent is told to save; what it drafts from is written to files."""
        config, session = self.call.config, self.call.text("session_id")
        descriptions = {
            name: category.description[:_MAX_DESCRIPTION]
            for name, category in self._rules.categories.items()
        }
        files = {
            finding.category: stop_message.write_context(
                finding, session, descriptions.get(finding.category, "")
            )
            for finding in self.findings
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
        return stop_message.compose(self.findings, files, descriptions, parallel)

    def propose(self, finding: Mapping[str, Any]) -> str:
        """Put a finding into the inbox of the bank in force; return why that could not be."""
        call, location = self.call, self.call.locator.location
        if not location.exists:
            return "there is no bank to propose a memory to"
        # One host says its name itself, the other gives its plugins a variable.
        is_codex = "PLUGIN_ROOT" in call.env and "CLAUDECODE" not in call.env
        proposal = Proposal(
            id="",
            event=call.event,
            host="codex" if is_codex or "turn_id" in call.payload else "claude-code",
            session_id=call.text("session_id"),
            transcript_path=call.text("transcript_path"),
            cwd=call.cwd,
            **finding,
        )
        try:
            Inbox(location.root, call.env).propose(proposal)
        except RetainError as error:
            return error.message
        return ""

    def propose_summary(
        self, request: str, text: str, score: float, start: int = 0, end: int = 0
    ) -> str:
        """Propose a summary of this session, under the first line of what was asked for."""
        self.state.is_summarised = True
        first = next(filter(None, map(str.strip, request.splitlines())), "")
        return self.propose(
            {
                "category": SUMMARY,
                "title": first[:_MAX_TITLE] or "A session",
                "text": text,
                "score": score,
                "start": start,
                "end": end or transcript.size(self.call.text("transcript_path")),
            }
        )

    def settle(self) -> list[str]:
        """Propose what the agent was asked to save and has not saved; return what went wrong.

        The files it was to draft from are removed.
        """
        notes, state = [], self.state
        for finding in state.raised:
            category = finding["category"]
            stop_message.remove_context(category, self.call.text("session_id"))
            if not self._is_saved(category, state.raised_at):
                notes.append(self.propose(finding))
            state.is_summarised = state.is_summarised or category == SUMMARY
        state.raised, state.raised_at = [], 0.0
        return notes

    def _is_saved(self, name: str, since: float) -> bool:
        """Whether a memory of a category was made or changed since a time, by its own word.

        A file may be new only here, with whatever a repository brings. What is proposed once too
        often is seen by a person, and what is not is lost.
        """
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))  # dates are in UTC
        limit = self.call.config.number("memory.max_bytes")
        bank, category = (
            Bank(self.call.locator.location, max_bytes=limit),
            self._rules.category(name),
        )
        with contextlib.suppress(RetainError, OSError):
            memories = bank.newest(category.folder) if category else ()
            return any(
                max(memory.text("updated_at"), memory.text("created_at")) >= start
                for memory in islice(memories, _MAX_NEWEST)
            )
        return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode(errors="replace")).hexdigest()[:16]


def _to_dict(finding: Finding) -> dict[str, Any]:
    """A finding as the session state stores it, and a proposal takes it."""
    return {
        "category": finding.category,
        "score": round(finding.score, 4),
        "title": finding.title,
        "text": finding.text[:MAX_TEXT],
        "start": finding.start,
        "end": finding.end,
    }


def _redact(text: str) -> str:
    """A text without secrets; half of one, after a cut, would not be known for what it is."""
    from retain.text.secrets import redact  # its patterns cost 10 ms, and most stops find nothing

    return redact(text[:_MAX_REDACTED]).text


def _take_flag(cwd: str) -> bool:
    """Whether a stop was blocked just now; the flag is gone afterwards, old or new."""
    path = os.path.join(cwd, ".claude", _FLAG)
    try:
        if os.path.islink(os.path.dirname(path)):
            return False
        status = os.lstat(path)
        os.unlink(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime < _BLOCK_SECONDS


def _set_flag(cwd: str) -> None:
    folder = os.path.join(cwd, ".claude")
    # Only where there is none: what a stranger has put there is neither emptied nor waited for.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError, ValueError):
        if os.path.islink(folder):  # it leads to somebody else's files
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        fd = os.open(os.path.join(folder, _FLAG), flags, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            file.write(f"{time.time()}")
