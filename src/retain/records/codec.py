"""Read and write records: the same values, whether they stand in Markdown or in JSON.

A record is a plain dictionary with the names of the schemas. In a Markdown memory its fields stand
in the frontmatter, `category` as `type` and `record_status` as `status`; what else stands there
belongs to the person, and no rule of a record speaks of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from retain.bank import markdown, records_json
from retain.bank.markdown import edit_file
from retain.memory import FREE_TYPES, Memory, now
from retain.records.lifecycle import RELATIONS, relate
from retain.records.schema import Record
from retain.text.frontmatter import same

FIELDS: Final = tuple(
    "schema_version category id title record_status created_at updated_at tags related_files "
    "confidence content changes times_updated retired_at retired_reason archived_at "
    "archived_reason".split()
)
_FIRST: Final = ("id", "title", "type", "tags", "created_at", "updated_at", "created_by", "source")
_IN_MARKDOWN: Final = {"category": "type", "record_status": "status"}
# What a Markdown memory need not state: there it goes without saying.
_UNSAID: Final = {"schema_version": "1.0", "record_status": "active", "times_updated": 0}


def is_record(memory: Memory) -> bool:
    """Say whether a memory is a typed one, with fields to check."""
    if memory.problem or memory.type in FREE_TYPES:
        return False
    return memory.path.endswith(".json") or isinstance(memory.meta.get("content"), dict)


def load_record(memory: Memory) -> Record:
    """Return a memory's fields by the names they have in a record."""
    if memory.path.endswith(".json"):
        return dict(records_json.load(memory.data))
    # A person may leave out what Retain knows anyway.
    record: Record = {
        **_UNSAID,
        "id": memory.id,
        "title": memory.title,
        "updated_at": memory.text("created_at"),
        "tags": ["untagged"],
    }
    for name in FIELDS:
        value = memory.meta.get(_IN_MARKDOWN.get(name, name))
        if value is not None:
            record[name] = value
    return record | ({"tags": list(memory.tags)} if memory.tags else {})


def edit_record(record: Record, before: Memory) -> bytes:
    """Return a memory's bytes with only the fields rewritten that the record changes."""
    old = load_record(before)
    changes = {
        name: record.get(name)
        for name in dict.fromkeys((*old, *record))
        if not same(comparable(name, old.get(name)), comparable(name, record.get(name)))
    }
    if not before.path.endswith(".json"):
        changes = _frontmatter(changes)
    return edit_file(before.path, before.data, changes)


def comparable(name: str, value: object) -> object:
    """Return a value to compare: no list is an empty list, and tags have no order."""
    if name == "tags" and isinstance(value, list):
        return sorted(map(str, value))
    return None if value == [] else value


def dump_record(record: Record, suffix: str, author: str, source: str = "") -> bytes:
    """Return the bytes of a new record's file; only Markdown has a place for author and source."""
    stated = {name: record[name] for name in FIELDS if record.get(name) is not None}
    if suffix == ".json":
        return (json.dumps(stated, indent=2, ensure_ascii=False) + "\n").encode()
    fields = _frontmatter(stated) | {"created_by": author}
    if source:
        fields["source"] = source
    ordered = {name: fields[name] for name in (*_FIRST, *fields) if name in fields}
    return markdown.compose(ordered, "")


def _frontmatter(fields: Mapping[str, object]) -> dict[str, object]:
    """Return fields under their names in Markdown; None for what goes without saying there."""
    return {
        _IN_MARKDOWN.get(name, name): None if _UNSAID.get(name) == value else value
        for name, value in fields.items()
    }


# Which memory replaces which: in the frontmatter of Markdown, in the changes of a JSON record


def relations(memory: Memory, name: str) -> list[str]:
    """Return the memories that one says it replaces, or that it is replaced by now."""
    if name == "supersedes":
        return list(memory.supersedes)
    return [memory.superseded_by] if memory.superseded_by else []


def add_relation(memory: Memory, name: str, ref: str) -> bytes:
    """Return a memory's bytes with a memory that it replaces, or that replaces it."""
    known = relations(memory, name)
    if ref in known:
        return memory.data
    data = memory.data
    if is_record(memory):
        data = edit_record(relate(load_record(memory), name, ref, now()), memory)
    if memory.path.endswith(".json"):
        return data  # its schema knows no such field: its changes say it
    value: object = [*known, ref] if name == "supersedes" and known else ref
    return edit_file(memory.path, data, {name: value, "updated_at": now()})


def rename_relation(memory: Memory, old_ref: str, new_ref: str) -> bytes:
    """Return a memory's bytes in which another one's new name stands for its old one."""
    for name in RELATIONS:
        known = relations(memory, name)
        if old_ref not in known or new_ref in known:
            continue
        if memory.path.endswith(".json"):
            return edit_record(relate(load_record(memory), name, new_ref, now()), memory)
        renamed = [new_ref if ref == old_ref else ref for ref in known]
        value = renamed if isinstance(memory.meta.get(name), list) else renamed[0]
        return edit_file(memory.path, memory.data, {name: value})
    return memory.data
