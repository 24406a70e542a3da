"""Mend a record that is handed in, and note what was mended.

Only what has one right answer is mended. A value of a wrong type is left for the schema to name.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from retain.bank.index_md import remove_marks
from retain.errors import RecordError
from retain.names import nfc
from retain.text.frontmatter import is_deep
from retain.text.sanitize import visible

Record = dict[str, Any]

TAG_CAP: Final = 12
CHANGES_CAP: Final = 50

# Controls, zero-width and bidi characters, line separators, TAG characters: an entry of the
# index is one line, and a reader sees all of it.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_ARROW: Final = r"(?<!\S)->(?!\S)"  # between any white space: the index is parsed with \s


class Fault(NamedTuple):
    """One rule a record breaks: where (`content.steps.0`), what belongs there, what is there."""

    field: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.field}: expected {self.expected}; got {self.got}"


def invalid(faults: Sequence[Fault], hint: str = "") -> RecordError:
    """Make the error of a record with fields that its category does not allow."""
    message = "\n".join(map(str, faults))
    facts = (fault._asdict() for fault in faults)
    return RecordError("VALIDATION_ERROR", message, *facts, hint=hint)


def normalize(record: Record, *, is_new: bool, now: str) -> tuple[Record, list[str]]:
    """Return a mended copy of a record and a note on each thing that was mended."""
    mended = dict(record)
    notes: list[str] = []
    version = mended.get("schema_version")
    # YAML and JSON read an unquoted 1.0 as a number.
    if not version or (type(version) in (int, float) and version == 1):
        mended["schema_version"] = "1.0"
        notes.append("schema_version: set to '1.0'")
    for field in ("updated_at", "created_at") if is_new else ("updated_at",):
        if not mended.get(field):
            mended[field] = now
            notes.append(f"{field}: set to current UTC")
    stated_id = mended.get("id")
    if isinstance(stated_id, str) and (slug := slugify(stated_id)) != stated_id:
        mended["id"] = slug
        notes.append(f"id: slugified '{visible(stated_id, keep_newlines=False)}' -> '{slug}'")
    _mend_confidence(mended, notes)
    title = mended.get("title")
    if isinstance(title, str):
        stripped = title.strip()
        if stripped != title:
            notes.append("title: stripped whitespace")
        mended["title"] = clean_title(stripped)
        if mended["title"] != stripped:
            notes.append("title: stripped control chars/index-injection markers")
    _mend_tags(mended, notes)
    if not is_deep(mended) and (path := _find_nul(mended)):
        raise invalid([Fault(path, "text without NUL characters", "a NUL character")])
    return mended, notes


def _mend_confidence(mended: Record, notes: list[str]) -> None:
    stated = mended.get("confidence")
    try:
        value = float(stated) if isinstance(stated, str) else stated
    except ValueError:
        return
    if not isinstance(value, int | float) or not -math.inf < value < math.inf:
        return
    if value < 0 or value > 1:
        mended["confidence"] = 0.0 if value < 0 else 1.0
        notes.append(f"confidence: clamped to {mended['confidence']}")
    elif isinstance(stated, str):
        mended["confidence"] = value
        notes.append(f"confidence: converted to {value}")


def _mend_tags(mended: Record, notes: list[str]) -> None:
    stated = mended.get("tags")
    if isinstance(stated, str):
        stated = mended["tags"] = [stated]
        notes.append("tags: wrapped string in array")
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


def _find_nul(value: object, path: str = "") -> str:
    """Return the dotted path of the first text with a NUL character; empty if there is none."""
    if isinstance(value, str):
        return path if "\0" in value else ""
    items = value.items() if isinstance(value, dict) else ()
    for name, item in enumerate(value) if isinstance(value, list) else items:
        inner = visible(f"{path}.{name}" if path else str(name), keep_newlines=False)
        if place := _find_nul(item, inner) or _find_nul(name, inner):
            return place
    return ""


def clean_title(text: str) -> str:
    """Make a title one line of the index that cannot pose as the line's other parts."""
    return re.sub(_ARROW, "-", remove_marks(_UNSEEN.sub("", text))).strip()


def clean_tag(text: str) -> str:
    """Spell a tag as it is stored: lower case, without what separates tags in the index."""
    plain = _UNSEEN.sub("", text.lower().strip()).replace(",", " ")
    return re.sub(rf"\s?{_ARROW}\s?", " ", remove_marks(plain)).strip()


def slugify(text: str) -> str:
    """Make an id of a text; one in other letters gets a digest of its own."""
    slug = latin_slug(text)
    if slug or not text.strip():
        return slug
    return f"m-{hashlib.sha256(nfc(text.strip()).encode(errors='surrogatepass')).hexdigest()[:12]}"


def latin_slug(text: str) -> str:
    """Return the Latin letters and digits of a text in kebab-case; empty if it has none.

    The digits of a text in other letters are not enough: `Релиз 2` and `Бюджет 2` are not both `2`.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii").lower()
    if not any(map(str.isalpha, plain)) and any(map(str.isalpha, text)):
        return ""
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:80].rstrip("-")
