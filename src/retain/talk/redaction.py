"""Texts of files and earlier conversations as a model may be sent them: without secrets."""

from __future__ import annotations

from functools import lru_cache

from retain.guard.fences import harmless

__all__ = ["on_one_line", "without_secrets"]


@lru_cache(maxsize=128)  # the same files are sent with every message
def without_secrets(text: str) -> tuple[str, str]:
    """A text with its secrets replaced, and a word about it where there were any."""
    from retain.guard.secrets import redact

    text, kinds = redact(text)
    what = "1 secret is" if len(kinds) == 1 else f"{len(kinds)} secrets are"
    return text, f"{what} not sent: {', '.join(sorted(set(kinds)))}" if kinds else ""


def on_one_line(text: str) -> str:
    """A text without secrets, on a line of its own."""
    return " ".join(harmless(without_secrets(text)[0]).split())
