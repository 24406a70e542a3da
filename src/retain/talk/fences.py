"""Text of others in a prompt: between marks that it cannot close, and said to be data."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from retain.guard.characters import strip_invisible

__all__ = ["fenced", "harmless"]

# Every fence there is in a prompt: no text in one may look like the end or the start of another.
_NAMES: Final = (
    "recalled-memories|past-conversations|known-facts|project-instructions|project-notes"
    "|earlier-in-this-conversation|conversation|skill"
)
_MARK: Final = re.compile(rf"<(?=[\s/]*(?:{_NAMES})\b)", re.IGNORECASE)


def harmless(text: str) -> str:
    """A text that hides nothing, and can neither open nor close a fence."""
    return _MARK.sub("&lt;", strip_invisible(text))


def fenced(name: str, note: str, text: str) -> str:
    """A text between the marks of a fence; the note says what it is."""
    text = harmless(text).strip("\n")
    # Its own digest is the one mark that no text inside can contain.
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f'<{name} id="{mark}" note="{note}">\n{text}\n</{name} id="{mark}">'
