"""A proposal's words as the content of its category, without a model to rewrite them.

Nothing is made up: what the words do not say is "Not stated.", and a person can change it.
"""

from __future__ import annotations

import re
from typing import Final

UNSTATED: Final = "Not stated."

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
