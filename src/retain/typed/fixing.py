"""What is mended in a record that is handed in, and what is said about it.

Only what has one right answer is mended. A value of a wrong type is left for validation to name.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from typing import Any, Final

from retain.guard.characters import visible
from retain.paths import nfc

__all__ = [
    "CHANGES_CAP",
    "ID_PATTERN",
    "TAG_CAP",
    "Record",
    "clean_tag",
    "clean_title",
    "fixed",
    "latin_slug",
    "slugify",
]

Record = dict[str, Any]

TAG_CAP: Final = 12
CHANGES_CAP: Final = 50
ID_PATTERN: Final = re.compile(r"^[a-z0-9]([a-z0-9-]{0,78}[a-z0-9])?\Z")

# Controls, zero-width and bidi characters, line separators, TAG characters: an entry of the
# index is one line, and a reader sees all of it.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_MARKER: Final = "#tags:"
_ARROW: Final = r"(?<!\S)->(?!\S)"  # between any white space: the index is parsed with \s


def fixed(record: Record, *, is_new: bool, now: str) -> tuple[Record, list[str]]:
    """A mended copy of a record, and a note on each thing that was mended."""
    mended = dict(record)
    notes: list[str] = []
    _fix_absent(mended, notes, is_new, now)
    if isinstance(mended.get("tags"), str):
        mended["tags"] = [mended["tags"]]
        notes.append("tags: wrapped string in array")
    _fix_id(mended, notes)
    _fix_confidence(mended, notes)
    _fix_title(mended, notes)
    _fix_tags(mended, notes)
    return mended, notes


def _fix_absent(mended: Record, notes: list[str], is_new: bool, now: str) -> None:
    version = mended.get("schema_version")
    # YAML and JSON read an unquoted 1.0 as a number.
    if not version or (type(version) in (int, float) and version == 1):
        mended["schema_version"] = "1.0"
        notes.append("schema_version: set to '1.0'")
    for field in ("updated_at", "created_at") if is_new else ("updated_at",):
        if not mended.get(field):
            mended[field] = now
            notes.append(f"{field}: set to current UTC")


def _fix_id(mended: Record, notes: list[str]) -> None:
    stated = mended.get("id")
    if not isinstance(stated, str):
        return
    slug = slugify(stated)
    if slug != stated:
        mended["id"] = slug
        notes.append(f"id: slugified '{visible(stated, keep_newlines=False)}' -> '{slug}'")


def _fix_confidence(mended: Record, notes: list[str]) -> None:
    value = stated = mended.get("confidence")
    if isinstance(stated, str):
        try:
            value = float(stated)
        except ValueError:
            return
    if not isinstance(value, int | float):
        return
    if isinstance(value, float) and not math.isfinite(value):
        return
    if value < 0 or value > 1:
        mended["confidence"] = 0.0 if value < 0 else 1.0
        notes.append(f"confidence: clamped to {mended['confidence']}")
    elif isinstance(stated, str):
        mended["confidence"] = value
        notes.append(f"confidence: converted to {value}")


def _fix_title(mended: Record, notes: list[str]) -> None:
    stated = mended.get("title")
    if not isinstance(stated, str):
        return
    stripped = stated.strip()
    if stripped != stated:
        notes.append("title: stripped whitespace")
    mended["title"] = clean_title(stripped)
    if mended["title"] != stripped:
        notes.append("title: stripped control chars/index-injection markers")


def _fix_tags(mended: Record, notes: list[str]) -> None:
    stated = mended.get("tags")
    if not isinstance(stated, list) or not all(isinstance(tag, str) for tag in stated):
        return
    tags = sorted({clean_tag(tag) for tag in stated} - {""})
    if not tags:
        tags = ["untagged"]
        notes.append("tags: empty after dedup, set to ['untagged']")
    if len(tags) > TAG_CAP:
        tags = tags[:TAG_CAP]
        notes.append(f"tags: truncated to TAG_CAP ({TAG_CAP})")
    mended["tags"] = tags


def clean_title(text: str) -> str:
    """A title that stays one line of the index and cannot pose as its other parts."""
    return re.sub(_ARROW, "-", _without_marker(_UNSEEN.sub("", text))).strip()


def clean_tag(text: str) -> str:
    """A tag as it is stored: lower case, without what parts tags in the index."""
    plain = _UNSEEN.sub("", text.lower().strip()).replace(",", " ")
    return re.sub(rf"\s?{_ARROW}\s?", " ", _without_marker(plain)).strip()


def _without_marker(text: str) -> str:
    """A text without `#tags:`, also where taking one out would make another."""
    if _MARKER not in text:
        return text
    kept: list[str] = []
    for char in text:
        kept.append(char)
        if char == ":" and "".join(kept[-len(_MARKER) :]) == _MARKER:
            del kept[-len(_MARKER) :]
    return "".join(kept)


def slugify(text: str) -> str:
    """An id for a text; what is written in other letters gets one that is only its own."""
    slug = latin_slug(text)
    if slug or not text.strip():
        return slug
    return f"m-{hashlib.sha256(nfc(text.strip()).encode(errors='surrogatepass')).hexdigest()[:12]}"


def latin_slug(text: str) -> str:
    """The Latin letters and digits of a text in kebab-case; empty if it has none.

    The digits of a text in other letters are not enough: `Релиз 2` and `Бюджет 2` are not both `2`.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii").lower()
    if not any(map(str.isalpha, plain)) and any(map(str.isalpha, text)):
        return ""
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80].rstrip("-")
