"""A session's transcript judged: what in it should be remembered, by the settings in force."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from retain.capture import transcript, triage
from retain.capture.transcript import Message
from retain.capture.triage import Hit, Settings
from retain.config import rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from retain.hooks.call import Call
    from retain.hooks.memo import Memo

_LEAST = 0.01
_DESCRIBED = 120  # characters: they may be a stranger's, in what the agent is told

__all__ = ["Judged", "judge", "stated"]


class Judged:
    """What was found in a transcript, and the settings it was looked for by."""

    def __init__(self, call: Call, path: str) -> None:
        self.settings = _settings(call)
        self.hits: list[Hit] = []
        self.said: list[Message] = []
        self._call, self.path = call, path
        self._end = transcript.size(path)
        self._is_read = self._is_cut = False

    def is_asked(self, memo: Memo) -> bool:
        """Whether the person has said anything since something was found last."""
        self._read(memo)
        return any(one.role == "user" and one.text for one in self.said)

    def look(self, memo: Memo) -> None:
        """Look at what was said since something was found last, as far as there is time."""
        self._is_cut = self._call.is_late()
        if self._is_cut:
            return
        since = self._read(memo)
        # The last answer may have been judged before its line, or any line, was written.
        judged = memo.last if since == memo.judged else ""
        last = self._call.text("last_assistant_message")
        last = last if _digest(last) != judged else ""
        said = [one for one in self.said if _digest(one.text) != judged]
        if said or last:
            self.hits = triage.judged(said, self.settings, last, self._call.is_late)
            self._is_cut = self._call.is_late()

    def _read(self, memo: Memo) -> int:
        """Read what was said since a byte of the transcript, once; the byte."""
        since = memo.judged if memo.judged <= self._end else 0
        if not self._is_read:
            self.said = transcript.tail(self.path, self.settings.max_messages, since)
            self._is_read = True
        return since

    def close(self, memo: Memo) -> None:
        """Note that it was looked at, if all of it was; from now on only what is new counts."""
        if self._is_cut:
            return
        memo.judged = self._end
        memo.last = _digest(self._call.text("last_assistant_message"))


def judge(call: Call) -> Judged | None:
    """What was said in a call's session, ready to be looked at; None where nothing can be known.

    A host may begin to write a transcript only after the first stop: till then its word for what
    was said last is all there is.
    """
    path = call.text("transcript_path")
    path = path if path and transcript.is_readable(path, call.env) else ""
    return Judged(call, path) if path or call.text("last_assistant_message") else None


def _settings(call: Call) -> Settings:
    config = call.config
    kept = rules(config, call.places.place.root).categories.values()
    under = "triage.parallel.category_models."
    models = {
        key.removeprefix(under): str(value.value)
        for key, value in config.values.items()
        if key.startswith(under)
    }
    return Settings(
        max_messages=config.number("triage.max_messages"),
        thresholds={
            # A session that says nothing of a kind is never asked for it, whatever a project says.
            name: max(_LEAST, float(config.value(f"triage.thresholds.{name}").value))
            for name in triage.CATEGORIES
        },
        parallel={
            "enabled": config.flag("triage.parallel.enabled"),
            "category_models": models,
            "verification_model": config.text("triage.parallel.verification_model"),
            "default_model": config.text("triage.parallel.default_model"),
        },
        descriptions={one.name: one.description[:_DESCRIBED] for one in kept if one.description},
        captured=tuple(one.name for one in kept if one.enabled and one.auto_capture),
    )


def stated(hit: Hit) -> Mapping[str, Any]:
    """A hit as a memo keeps it until it is known what became of it, without secrets."""
    from retain.capture.inbox import LONGEST
    from retain.guard.secrets import redact

    return {
        "category": hit.category,
        "score": round(hit.score, 4),
        "title": hit.title or next(iter(hit.snippets), ""),
        "text": redact(hit.passage or hit.context).text[:LONGEST],
        "start": hit.start,
        "end": hit.end,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode(errors="replace")).hexdigest()[:16]
