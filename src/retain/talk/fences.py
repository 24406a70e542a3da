"""Text of others in a prompt: between marks that it cannot close, and said to be data."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from retain.guard.characters import strip_invisible

__all__ = ["fenced", "harmless", "on_one_line", "without_secrets"]

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


def on_one_line(text: str) -> str:
    """A text without secrets, on a line of its own."""
    return " ".join(harmless(without_secrets(text)[0]).split())


@lru_cache(maxsize=128)  # the same files are sent with every message
def without_secrets(text: str) -> tuple[str, str]:
    """A text with its secrets replaced, and a word about it where there were any."""
    from retain.guard.secrets import redact

    text, kinds = redact(text)
    what = "1 secret is" if len(kinds) == 1 else f"{len(kinds)} secrets are"
    return text, f"{what} not sent: {', '.join(sorted(set(kinds)))}" if kinds else ""
