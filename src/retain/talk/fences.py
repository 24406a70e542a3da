"""Text of others in a prompt: between marks that it cannot close, and said to be data."""

from __future__ import annotations

import hashlib

from retain.guard.fences import harmless

__all__ = ["fenced"]


def fenced(mark: str, note: str, text: str, /, **facts: str) -> str:
    """A text between the marks of a fence; the note says what it is, as do further facts."""
    text = harmless(text).strip("\n")
    # Its own digest is the one mark that no text inside can contain.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    about = "".join(f' {key}="{_quoted(value)}"' for key, value in facts.items())
    return f'<{mark} id="{digest}"{about} note="{note}">\n{text}\n</{mark} id="{digest}">'


def _quoted(text: str) -> str:
    return " ".join(harmless(text).split()).translate({34: "'", 60: "&lt;", 62: "&gt;"})
