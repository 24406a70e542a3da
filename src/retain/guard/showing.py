"""Text of files and commands as a person and a model may see it: inert, and without secrets."""

from __future__ import annotations

from retain.guard.characters import strip_invisible, visible
from retain.guard.secrets import Redacted, redact

__all__ = ["shown"]


def shown(text: str) -> Redacted:
    """A text in which nothing acts, hides or is a secret, with the kinds of secrets it had.

    What cannot be seen is taken out first: it could part a secret, which nobody would find then.
    """
    bare = redact(strip_invisible(text))
    inert = visible(text)
    if bare.kinds or inert == text:
        return bare
    # Shown only where there is no secret: the escape would part one as its character does.
    return redact(strip_invisible(inert))
