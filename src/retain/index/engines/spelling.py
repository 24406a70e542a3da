"""How texts are spelt for servers that would not take every text, or not leave it as it is."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Final

# A NUL and half of a surrogate pair are in no text that Postgres or a JSON reader takes.
_UNTAKEN: Final = re.compile("[\x00\ud800-\udfff]")
_WORD: Final = re.compile("[a-z0-9]{1,64}")
_MARK: Final = "zq"


def kept(text: str) -> str:
    """A text as any server keeps it; `meant` reads it again."""
    return json.dumps(text) if text.startswith('"') or _UNTAKEN.search(text) else text


def meant(text: str) -> str:
    """What `kept` was given."""
    return str(json.loads(text)) if text.startswith('"') else text


def word(text: str) -> str:
    """A word of ASCII letters and digits that stands for this text and for no other.

    No tokenizer parts it, no normaliser changes it, and no filter can be broken out of by it.
    """
    # What looks like one that stands for another gets a digest too, or it could be guessed.
    plain = _WORD.fullmatch(text) is not None and not text.startswith(_MARK)
    return text if plain else _MARK + digest(text)


def digest(text: str) -> str:
    """A few characters that no other text has."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
