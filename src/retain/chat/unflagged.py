"""A reply without the lines that flag facts: the screen says of each fact what became of it."""

from __future__ import annotations

import re
from typing import Final

from retain.facts.memory_md import fence_after
from retain.talk.flagged import TAG, found

_FLAG: Final = re.compile(rf" {{0,3}}(?:[-*+>] {{0,3}})?[*_]{{0,3}}{re.escape(TAG)}(?![(\[])")
_BULLET: Final = re.compile(r"[ \t>]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+")
_FENCE: Final = re.compile(r" {0,3}(?:> ?)*[ \t]*(`{3,}|~{3,})(.*)")
_MARKS: Final = " \t-*+>_"  # what may stand before a tag
_ENDS: Final = " \t*_.!?"


def unflagged(text: str) -> str:
    """All of a reply that is for the person."""
    lines = Unflagged()
    return lines.fed(text) + lines.rest()


class Unflagged:
    """The same for a reply that comes in pieces: a line waits while it may turn out to be a flag.

    A line that says more than the fact stays, and so does one in code.
    """

    def __init__(self) -> None:
        self._line = ""
        self._shown = 0  # characters of the line that were given out
        self._fence = ""
        self._below = ""  # what the line before was: a tag, a heading of bullets, a bullet

    def fed(self, text: str) -> str:
        """What can be shown, now that this has come."""
        *whole, last = (self._line + text).split("\n")
        given = []
        for line in whole:
            given.append(self._ended(line, "\n"))
            self._shown = 0
        self._line = last
        if not self._may_be_flag(last):
            given.append(last[self._shown :])
            self._shown = len(last)
        return "".join(given)

    def rest(self) -> str:
        """What is left at the end."""
        line, self._line = self._line, ""
        return self._ended(line, "")

    def _ended(self, line: str, end: str) -> str:
        is_flag = self._is_flag(line)
        # The end of the line stays, so that what stands around it does not become one paragraph.
        return end if is_flag and not self._shown else line[self._shown :] + end

    def _may_be_flag(self, start: str) -> bool:
        if self._fence:
            return False
        words = start.lstrip(_MARKS)
        return bool(self._below) or words.startswith(TAG) or TAG.startswith(words)

    def _is_flag(self, line: str) -> bool:
        fence = _FENCE.match(line)
        if self._fence or fence:
            self._fence = fence_after(self._fence, fence)
            self._below = ""
            return False
        flag = _FLAG.match(line)
        self._below = _after_flag(line, flag.end()) if flag else self._after(line)
        return bool(self._below)

    def _after(self, line: str) -> str:
        """What a line without a tag is, below one."""
        if not self._below:
            return ""
        if _BULLET.match(line):
            return "bullet" if self._below != "fact in a list" else ""
        if not line.strip():
            return "awaited" if self._below == "heading" else ""
        return "bullet" if self._below == "bullet" and line[0] in " \t" else ""


def _after_flag(line: str, end: int) -> str:
    facts = found(line)
    if not facts:
        return "heading"
    says = " ".join(line[end:].split()).rstrip(_ENDS)
    if len(facts) > 1 or not says.endswith(facts[0].rstrip(_ENDS)):
        return ""
    return "fact in a list" if _BULLET.match(line) else "fact"
