"""A conversation that is compacted or ends leaves a summary in the inbox, made by no model of ours.

The host has made one for a compaction. For a session's end there is what was asked first and what
was answered last, which is what a person wants to be reminded of.
"""

from __future__ import annotations

from typing import Final

from retain.capture import transcript
from retain.hooks.call import Answer, Call
from retain.hooks.judging import judge, stated
from retain.hooks.memo import Memo
from retain.hooks.proposing import SUMMARY, propose, settle

__all__ = ["answer"]

_TITLE: Final = 100
_MOST_CHARS: Final = 40_000
_MOST_LOOKED_AT: Final = 200_000
_LAST: Final = 4_000  # characters of the last answer in a session's summary


def answer(call: Call) -> Answer:
    """Propose what would otherwise be forgotten; the host is told nothing."""
    if not (call.is_on and call.config.flag("triage.enabled")):
        return Answer()
    memo = Memo.of(call.places.place, call.text("session_id"), call.env)
    if call.event == "post-compact":
        notes = _compacted(call, memo)
    elif call.event == "pre-compact":
        notes = _before(call, memo)
    else:
        notes = [*settle(call, memo), *_ended(call, memo)]
    memo.save()
    return Answer.noting(notes)


def _compacted(call: Call, memo: Memo) -> list[str]:
    """Propose the host's own summary; what was shown before it is gone from the conversation."""
    memo.forget_shown()
    summary = _clean(_unwrapped(transcript.said(call.text("compact_summary"))))[:_MOST_CHARS]
    if not summary:
        return []
    memo.is_summarised = True
    return [propose(call, _summary(call, _asked(call), summary, 1.0))]


def _before(call: Call, memo: Memo) -> list[str]:
    """Propose what the transcript has, before most of it is forgotten."""
    found = judge(call)
    if found is None:
        return []
    found.look(memo)
    # A summary follows in a moment, and a better one.
    hits = [hit for hit in found.hits if hit.category != SUMMARY]
    if hits:
        found.close(memo)
    return [propose(call, stated(hit)) for hit in hits]


def _ended(call: Call, memo: Memo) -> list[str]:
    """Propose a summary of a session in which something was done, unless there is one."""
    found = None if memo.is_summarised else judge(call)
    if found is None:
        return []
    found.look(memo)
    done = next((hit for hit in found.hits if hit.category == SUMMARY), None)
    if done is None:
        return []
    memo.is_summarised = True
    answers = (one.text for one in reversed(found.said) if one.role == "assistant")
    asked, last = _asked(call), _clean(next(filter(None, answers), ""))
    text = f"Asked for: {asked[:_LAST]}\n\nLast answer: {last[:_LAST]}\n\n{done.context}"
    summary = _summary(call, asked, text, done.score)
    return [propose(call, {**summary, "start": done.start, "end": done.end})]


def _asked(call: Call) -> str:
    """What the session was for, if there is time to look."""
    path = call.text("transcript_path")
    if call.is_late() or not transcript.is_readable(path, call.env):
        return ""
    return _clean(transcript.opening(path))


def _clean(text: str) -> str:
    """A text without secrets; half of one, after a cut, would not be known for what it is."""
    from retain.guard.secrets import redact

    return redact(text[:_MOST_LOOKED_AT]).text


def _unwrapped(summary: str) -> str:
    """A host's summary without the thoughts before it and the marks around it."""
    _, mark, rest = summary.partition("<summary>")
    if mark:
        return rest.partition("</summary>")[0].strip()
    before, mark, rest = summary.partition("<analysis>")
    return (before + rest.partition("</analysis>")[2]).strip() if mark else summary


def _summary(call: Call, asked: str, text: str, score: float) -> dict[str, object]:
    first = next(filter(None, (line.strip() for line in asked.splitlines())), "")
    return {
        "category": SUMMARY,
        "title": first[:_TITLE] or "A session",
        "text": text,
        "score": score,
        "end": transcript.size(call.text("transcript_path")),
    }
