"""Text of files and commands as a person and a model may see it: inert, and without secrets."""

from __future__ import annotations

import re

from retain.guard.characters import strip_invisible, visible
from retain.guard.secrets import Redacted, redact

__all__ = ["shown"]

# What acts on a screen, in the middle of a word.
_INSIDE = re.compile(
    r"(?<=[!-~])[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
    r"\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]+(?=[!-~])"
)


def shown(text: str) -> Redacted:
    """A text in which nothing acts, hides or is a secret, with the kinds of secrets it had.

    What cannot be seen is taken out first: it could part a secret, which nobody would find then.
    """
    bare = redact(strip_invisible(text))
    if bare.kinds:
        # An escape that is shown parts a secret as the character does that it stands for.
        text = _INSIDE.sub("", text)
    clean = redact(strip_invisible(visible(text)))
    return clean if len(clean.kinds) >= len(bare.kinds) else bare
