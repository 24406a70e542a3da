"""Mend a record that is handed in, and note what was mended.

Only what has one right answer is mended. A value of a wrong type is left for the schema to name.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from typing import Final

from retain.bank.index_md import clean_title
from retain.memory import nfc
from retain.records.schema import Record
from retain.text.sanitize import visible

TAG_CAP: Final = 12
CHANGES_CAP: Final = 50


def normalize(record: Record, *, is_new: bool, now: str) -> tuple[Record, list[str]]:
    """Return a mended copy of a record and a note on each thing that was mended."""
    mended = dict(record)
    notes: list[str] = []
    # YAML and JSON read an unquoted 1.0 as a number.
    if mended.get("schema_version") in (None, "", 1):
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
    title = mended.get("title")
    if isinstance(title, str):
        mended["title"] = clean_title(title)
        if title != title.strip():
            notes.append("title: stripped whitespace")
        if mended["title"] != title.strip():
            notes.append("title: stripped control chars/index-injection markers")
    _mend_confidence(mended, notes)
    _mend_tags(mended, notes)
    return mended, notes


def _mend_confidence(mended: Record, notes: list[str]) -> None:
    stated = mended.get("confidence")
    try:
        value = float(stated) if isinstance(stated, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return
    if math.isfinite(value) and not 0 <= value <= 1:
        mended["confidence"] = 0.0 if value < 0 else 1.0
        notes.append(f"confidence: clamped to {mended['confidence']}")
    elif math.isfinite(value) and isinstance(stated, str):
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
        notes.append(f"tags: truncated to TAG_CAP ({TAG_CAP})")
    mended["tags"] = tags[:TAG_CAP]


def clean_tag(text: str) -> str:
    """Spell a tag as it is stored: lower case, without what separates tags in the index."""
    return clean_title(text.lower().replace(",", " ").replace(" -> ", " "))


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
