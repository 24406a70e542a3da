"""The excerpt of a hit: the few lines of its text that answer the question."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from retain.memory import Hit
from retain.text.tokens import words

_MAX_LINES: Final = 6
_MAX_CHARS: Final = 240  # of a line
_WORD: Final = re.compile(r"\w[\w.'+#-]{0,39}")


def cut_excerpt(hit: Hit, terms: Set[str]) -> str:
    """Cut the lines around the first one that has a term of the question."""
    lines = [line.rstrip() for line in hit.text.splitlines() if line.strip()]
    if hit.header_path and len(lines) > 1 and lines[0].startswith("#"):
        del lines[0]  # the heading, which stands in the line above
    meets = [number for number, line in enumerate(lines) if terms & set(words(line))]
    first = max(0, min(meets[0] - 1, len(lines) - _MAX_LINES)) if meets else 0
    excerpt = ["…"] if first else []
    for line in lines[first : first + _MAX_LINES]:
        if len(line) > _MAX_CHARS:  # what stands around the first word that was asked for
            places = (at.start() for at in _WORD.finditer(line) if terms & set(words(at[0])))
            start = max(0, min(next(places, 0) - _MAX_CHARS // 3, len(line) - _MAX_CHARS))
            end = start + _MAX_CHARS
            cut = line[start:end].strip()
            line = f"{'…' * (start > 0)}{cut}{'…' * (end < len(line))}"  # noqa: PLW2901
        excerpt.append(line)
    if first + _MAX_LINES < len(lines):
        excerpt.append("…")
    return "\n".join(excerpt)
