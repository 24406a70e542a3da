"""The marks between which a prompt holds the text of others, and text that cannot forge one."""

from __future__ import annotations

import re

from retain.guard.characters import strip_invisible

__all__ = ["harmless"]

# Every fence there is in a prompt: no text in one may look like the end or the start of another.
_NAMES = (
    "recalled-memories|memory-context|past-conversations|known-facts|project-instructions"
    "|project-notes|earlier-in-this-conversation|conversation|available-skills|skill"
)
_MARK = re.compile(rf"<(?=[\s/]*(?:{_NAMES}))", re.IGNORECASE)


def harmless(text: str) -> str:
    """A text that hides nothing, and can neither open nor close a fence."""
    return _MARK.sub("&lt;", strip_invisible(text))
