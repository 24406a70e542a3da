"""A record and its file: the same values, whether they stand in Markdown or in JSON.

A record is a plain dictionary with the names of `retain.schema`. In a Markdown memory its fields
stand in the frontmatter, `category` as `type` and `record_status` as `status`; what else stands
there belongs to the person, and no rule of a record speaks of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from retain import markdown, records
from retain.codec import codec
from retain.frontmatter import same
from retain.model import FREE_TYPES, Memory
from retain.typed.fixing import Record

__all__ = ["FIELDS", "data", "is_record", "new", "record"]

FIELDS: Final = (
    "schema_version",
    "category",
    "id",
    "title",
    "record_status",
    "created_at",
    "updated_at",
    "tags",
    "related_files",
    "confidence",
    "content",
    "changes",
    "times_updated",
    "retired_at",
    "retired_reason",
    "archived_at",
    "archived_reason",
)
_FIRST: Final = ("id", "title", "type", "tags", "created_at", "updated_at", "created_by", "source")
_IN_MARKDOWN: Final = {"category": "type", "record_status": "status"}
# What a Markdown memory need not state: there it goes without saying.
_UNSAID: Final[Mapping[str, object]] = {
    "schema_version": "1.0",
    "record_status": "active",
    "times_updated": 0,
}


def is_record(memory: Memory) -> bool:
    """Whether a memory is a typed one, with fields to check."""
    if memory.problem or memory.type in FREE_TYPES:
        return False
    return memory.path.endswith(".json") or isinstance(memory.meta.get("content"), dict)


def record(memory: Memory) -> Record:
    """A memory's fields, by the names they have in a record."""
    if memory.path.endswith(".json"):
        return dict(records.load(memory.data))
    meta = memory.meta
    there = {name: meta.get(_IN_MARKDOWN.get(name, name)) for name in FIELDS}
    stated = {name: value for name, value in there.items() if value is not None}
    # A person may leave out what Retain knows anyway.
    created = memory.text("created_at")
    known = {
        **_UNSAID,
        "id": memory.id,
        "title": memory.title,
        "updated_at": created,
        "tags": ["untagged"],
    }
    return {**known, **stated} | ({"tags": list(memory.tags)} if memory.tags else {})


def data(wanted: Record, before: Memory) -> bytes:
    """A memory's bytes with just the fields rewritten that a record changes."""
    old = record(before)
    changes = {
        name: wanted.get(name)
        for name in dict.fromkeys((*old, *wanted))
        if not _is_alike(name, old.get(name), wanted.get(name))
    }
    if not before.path.endswith(".json"):
        changes = _frontmatter(changes)
    return codec(before.path).edit(before.data, changes)


def _is_alike(name: str, old: object, wanted: object) -> bool:
    """Whether a field says the same; tags have no order, and stay in the one they were given."""
    if name == "tags" and isinstance(old, list) and isinstance(wanted, list):
        return sorted(map(str, old)) == sorted(map(str, wanted))
    return same(old, wanted)


def new(wanted: Record, suffix: str, author: str, source: str = "") -> bytes:
    """The bytes of a record that has no file yet; only Markdown has a place for who and whence."""
    stated = {name: wanted[name] for name in FIELDS if wanted.get(name) is not None}
    if suffix == ".json":
        return (json.dumps(stated, indent=2, ensure_ascii=False) + "\n").encode()
    fields = {
        **_frontmatter(stated),
        "created_by": author,
        **({"source": source} if source else {}),
    }
    ordered = {name: fields[name] for name in (*_FIRST, *fields) if name in fields}
    return markdown.compose(ordered, "")


def _frontmatter(fields: Mapping[str, object]) -> dict[str, object]:
    """Fields under their names in Markdown; None for what goes without saying there."""
    return {
        _IN_MARKDOWN.get(name, name): None if _UNSAID.get(name) == value else value
        for name, value in fields.items()
    }
