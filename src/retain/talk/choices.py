"""The answers there are to a tool's question: the same on the screen and in lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from retain.talk.approval import Question


class Choice(NamedTuple):
    """One answer, the key for it, and what a yes that lasts will allow."""

    key: str
    label: str
    choice: str
    pattern: str = ""
    allows: str = ""


def choices(question: Question) -> list[Choice]:
    """The answers in their order; the last is no, which is also what no answer means."""
    found = [Choice("y", "Yes, this once", "once")]
    if "session" in question.choices:
        allows = "exactly this, again and again, until you leave"
        found.append(Choice("s", "Yes, and again in this session", "session", allows=allows))
    if "always" in question.choices:
        found += [
            Choice("a", f"Always in this project: {one}", "always", one, _allows(question, one))
            for one in question.patterns
        ]
    return [*found, Choice("n", "No", "no")]


def _allows(question: Question, pattern: str) -> str:
    if question.tool == "run_command":
        if not pattern.endswith("*"):
            return "exactly this command, in every session"
        start = pattern.removesuffix("*")
        return f"{start} with any words behind it, and options that only change what is shown"
    verb = {"write_file": "any change to", "read_file": "reading"}.get(question.tool, "all about")
    if pattern.endswith("/**"):
        return f"{verb} every file below {pattern.removesuffix('**')}, hidden ones excepted"
    return f"{verb} this file, in every session"
