"""A memory that a session proposes, and the content it would have, without a model to write it.

Nothing is made up: what the words do not say is "Not stated.", and a person can change it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, NamedTuple

from retain.memory import now
from retain.text.sanitize import shorten

UNSTATED: Final = "Not stated."
MAX_TEXT: Final = 50_000  # characters

_MAX_LINE: Final = 120  # characters of a title, and of every other short field
_MAX_REDACTED: Final = 1_000_000  # characters that are searched for secrets
# Colours and cursor movements, from a terminal that somebody quoted.
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_REASON: Final = r"because|due to|since|so that|in order to|reason|rationale|therefore|to avoid"
_DEFERRED: Final = (
    "because|due to|for now|later|defer(?:red|ring)?|postponed?|workaround|out of scope"
)
_VERIFIED: Final = (
    "verif(?:y|ied|ies)|confirm(?:ed|s)?|check(?:ed|s)?|pass(?:es|ed)?|works?|resolved|fixed"
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


class Proposal(NamedTuple):
    """A memory that a hook proposes, and where it was found."""

    id: str
    category: str
    title: str
    text: str
    score: float = 0.0
    created_at: str = ""
    event: str = ""
    host: str = ""
    session_id: str = ""
    transcript_path: str = ""
    start: int = 0
    end: int = 0
    cwd: str = ""

    def to_dict(self) -> dict[str, Any]:
        """All fields but the text."""
        fields = self._asdict()
        del fields["text"]
        return fields

    def clean(self) -> Proposal:
        """The same without secrets or anything that acts on a terminal, short, and with its id."""
        # Broken JSON may bring half a character, which UTF-8 cannot hold.
        texts: dict[str, Any] = {
            name: value.encode(errors="replace").decode()
            for name, value in self._asdict().items()
            if isinstance(value, str)
        }
        texts["text"] = shorten(_redact(texts["text"]), MAX_TEXT)
        texts["title"] = _redact(texts["title"]) or texts["text"].partition("\n")[0]
        texts["created_at"] = texts["created_at"] or now()
        for name in ("category", "title", "created_at", "event", "host", "session_id"):
            texts[name] = shorten(" ".join(texts[name].split()), _MAX_LINE)
        words = "\0".join(texts[name] for name in ("session_id", "category", "text"))
        texts["id"] = hashlib.sha256(words.encode()).hexdigest()[:16]
        return self._replace(**texts)

    def content(self) -> dict[str, object]:
        """The content of a memory of the proposal's category."""
        title, text = self.title, self.text.strip() or self.title
        match self.category:
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


def _redact(text: str) -> str:
    """A text without secrets; colours go first, since one may stand in the middle of a secret."""
    from retain.text.sanitize import strip_invisible
    from retain.text.secrets import redact  # its patterns cost a hook 10 ms

    text = _ANSI.sub("", text[:_MAX_REDACTED]).replace("\r\n", "\n")
    return redact(strip_invisible(text)).text.strip()


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


def _sentence_with(words: str, text: str) -> str:
    """The first sentence that has one of some words."""
    for sentence in re.split(r"\n|(?<=[.!?])\s+", text):
        if re.search(rf"\b({words})\b", sentence, re.I):
            return _strip_bullet(sentence)
    return ""


def _strip_bullet(line: str) -> str:
    return _BULLET.sub("", line, count=1).strip()
