"""A proposal's words as the content of its category, without a model to rewrite them.

Nothing is made up: what the words do not say is said to be not stated, and a person can change it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["UNSTATED", "content"]

UNSTATED: Final = "Not stated."

_WHY: Final = re.compile(
    r"\b(because|due to|since|so that|in order to|reason|rationale|therefore|to avoid)\b", re.I
)
_PUT_OFF: Final = re.compile(
    r"\b(because|due to|for now|later|defer(?:red|ring)?|postponed?|workaround|out of scope)\b",
    re.I,
)
_PROOF: Final = re.compile(
    r"\b(verif(?:y|ied|ies)|confirm(?:ed|s)?|check(?:ed|s)?|pass(?:es|ed)?|works?|resolved|fixed)\b",
    re.I,
)
_BULLET: Final = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
# What a heading of a summary may speak of, by the field that has a place for it.
_ABOUT: Final = (
    ("next_actions", ("next", "pending", "todo", "to do", "remaining", "follow-up")),
    ("in_progress", ("in progress", "current work", "ongoing", "under way")),
    ("blockers", ("blocker", "blocked", "error", "problem", "open question")),
    ("key_changes", ("key change", "changes", "files", "technical concept")),
    ("completed", ("completed", "done", "accomplished", "what was", "summary", "result")),
)
_GOAL: Final = re.compile(r"\W*(?:goal|task|objective)[^\w:]*:(.*)", re.I)


def content(category: str, title: str, text: str) -> dict[str, object]:
    """The content of a memory of a category, from a title and a text."""
    text = text.strip() or title
    return _MADE.get(category, _other)(title, text)


def _decision(title: str, text: str) -> dict[str, object]:
    why = _line_with(_WHY, text) or title
    return {"status": "accepted", "context": text, "decision": title, "rationale": [why]}


def _runbook(title: str, text: str) -> dict[str, object]:
    """The steps are what is listed and what follows; what comes before is how it showed."""
    lines = [line for line in text.split("\n") if line.strip()]
    first = next((at for at, line in enumerate(lines) if _BULLET.match(line)), 0)
    symptoms = {"symptoms": lines[:first]} if first else {}
    steps = [_BULLET.sub("", line, count=1).strip() for line in lines[first:]]
    proof = _line_with(_PROOF, text) or UNSTATED
    return {"trigger": title, **symptoms, "steps": steps, "verification": proof}


def _constraint(title: str, text: str) -> dict[str, object]:
    return {
        "kind": "limitation",
        "rule": title,
        "impact": [text],
        "severity": "medium",
        "active": True,
    }


def _tech_debt(title: str, text: str) -> dict[str, object]:
    description = text if title in text else f"{title}\n\n{text}"
    why = _line_with(_PUT_OFF, text) or UNSTATED
    return {
        "status": "open",
        "priority": "medium",
        "description": description,
        "reason_deferred": why,
    }


def _preference(title: str, text: str) -> dict[str, object]:
    why = _line_with(_WHY, text) or UNSTATED
    return {"topic": title, "value": text, "reason": why, "strength": "default"}


def _session_summary(title: str, text: str) -> dict[str, object]:
    """A summary by its headings; what stands under none, or one nobody knows, was done."""
    fields: dict[str, list[str]] = {"completed": [], "next_actions": []}
    goal, field = "", "completed"
    for line in filter(str.strip, text.split("\n")):
        stated = None if goal else _GOAL.match(line)
        if stated and (goal := stated[1].strip(" \t*")):
            continue
        if _is_heading(line):
            field = _about(line)
            if field:
                continue
            field = "completed"
        fields.setdefault(field, []).append(_BULLET.sub("", line, count=1).strip())
    return {"goal": goal or title, "outcome": "partial", **fields}


def _other(title: str, text: str) -> dict[str, object]:
    """For a category of one's own, which alone knows its fields."""
    return {"title": title, "text": text}


_MADE: Final[Mapping[str, Callable[[str, str], dict[str, object]]]] = {
    "decision": _decision,
    "runbook": _runbook,
    "constraint": _constraint,
    "tech_debt": _tech_debt,
    "preference": _preference,
    "session_summary": _session_summary,
}


def _is_heading(line: str) -> bool:
    plain = line.strip()
    is_item = plain.startswith(("- ", "* ", "+ ", "• "))
    return not is_item and len(plain) <= 80 and (plain[0] == "#" or plain.rstrip("*")[-1:] == ":")


def _about(line: str) -> str:
    """The field that a heading opens; empty for one that nobody knows."""
    said = line.lower()
    return next((field for field, words in _ABOUT if any(word in said for word in words)), "")


def _line_with(pattern: re.Pattern[str], text: str) -> str:
    """The first sentence that a pattern is found in."""
    for line in text.split("\n"):
        for sentence in re.split(r"(?<=[.!?])\s+", line):
            if pattern.search(sentence):
                return _BULLET.sub("", sentence, count=1).strip()
    return ""
