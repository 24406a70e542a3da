"""What an update may change in a record, and what it never may.

| field | an update of a program |
|---|---|
| created_at, schema_version, category, record_status | is refused if it states another value |
| id, and the fields of a state | leaves them as they are |
| tags, related_files, changes | may only add |
| updated_at, times_updated | has them set |
| title, confidence, content | is free within the schema |

Whoever changes something, a program or a person by hand, leaves an entry in `changes`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from typing import Any, Final

from retain.bank.markdown import parse_file
from retain.categories import Rules
from retain.errors import RecordError
from retain.memory import Memory
from retain.memory import now as utc_now
from retain.records.codec import comparable, edit_record, is_record, load_record
from retain.records.lifecycle import (
    STATE_FIELDS,
    add_changes,
    change_entry,
    changes_of,
    stamp_status,
)
from retain.records.normalize import CHANGES_CAP, TAG_CAP, clean_tag, latin_slug
from retain.records.schema import Fault, Record, check, validation_error
from retain.text.frontmatter import same
from retain.text.sanitize import shorten, visible_json

_IMMUTABLE: Final = {
    "created_at": "immutable",
    "schema_version": "immutable",
    "category": "immutable",
    "record_status": "immutable via UPDATE",
}
_KEPT: Final = (*_IMMUTABLE, "id", *STATE_FIELDS)
_SET: Final = ("id", "updated_at", "changes", "times_updated")  # which are no change of their own
_MAX_VALUE: Final = 200


def merge(old: Record, new: Record, *, now: str, project: str) -> Record:
    """Return a record after an update; related files are looked for in the project."""
    for field, rule in _IMMUTABLE.items():
        # What it leaves out, it does not state.
        if old.get(field) and new.get(field) and not same(old[field], new[field]):
            values = {"old": _json(old[field]), "new": _json(new[field])}
            raise _refusal(field, rule, f"Do not change '{field}' during UPDATE", **values)
    _refuse_lost(old, new, project)
    own = _own_entries(old, new)
    wanted = {name: value for name, value in new.items() if name not in STATE_FIELDS}
    wanted |= {name: old[name] for name in _KEPT if old.get(name) is not None}
    wanted["record_status"] = old.get("record_status") or "active"
    entries = [*own, *_automatic_entries(old, wanted, now, _KEPT, is_explained=bool(own))]
    if not entries:
        hint = "At least one new change entry is required per UPDATE"
        count = str(len(changes_of(old)))
        counts = {"old_count": count, "total_count": count}
        raise _refusal("changes", "append-only (new entry required)", hint, **counts)
    return _count_update(old, add_changes(wanted | {"changes": changes_of(old)}, entries), now)


def warnings(old: Record, new: Record) -> Iterator[str]:
    """Say that an update states another id in vain, and which lists of the content it shortens."""
    if old.get("id") and new.get("id") not in (None, "", old["id"]):
        yield f"id: kept '{old['id']}'; an update does not change it"
    before, after = (record.get("content") for record in (old, new))
    if not isinstance(before, dict) or not isinstance(after, dict):
        return
    for name, items in before.items():
        left = after.get(name) or []
        if isinstance(items, list) and isinstance(left, list) and len(left) < len(items):
            gone = [shorten(_json(item), 60) for item in items if item not in left]
            removed = f"; removed: {shorten(', '.join(gone), _MAX_VALUE)}" if gone else ""
            yield f"content.{name}: list shrank from {len(items)} to {len(left)} items{removed}"


def new_slug(old_title: str, new_title: str, old_id: str) -> str:
    """Return the id that a title which has become another one asks for; empty if the id may stay.

    One without Latin letters asks for none: its id would say nothing that the old one does not.
    """
    words, others = (set(title.lower().split()) for title in (old_title, new_title))
    if not words or not others or len(words ^ others) / len(words | others) <= 0.5:
        return ""
    slug = latin_slug(new_title)
    return "" if slug == old_id else slug


def check_edit(before: Memory, data: bytes, rules: Rules) -> bytes:
    """Check a memory's new bytes; those of a typed one get an entry for what a person changed."""
    is_plain = not before.path.endswith(".json") and "content" not in before.meta
    if data == before.data or (is_plain and b"content:" not in data):
        return data
    document = parse_file(before.path, data)
    after = before._replace(
        meta=document.meta, body=document.body, data=data, problem=document.problem
    )
    was_typed, is_typed = (
        is_record(memory) and rules.category(memory.type) is not None for memory in (before, after)
    )
    if not (was_typed or is_typed):
        return data
    if was_typed and after.type != before.type:
        hint = "Retire it, and make a new one of the other type."
        raise validation_error([Fault("category", before.type, after.type)], hint)
    record = load_record(after)
    if was_typed:
        is_text_changed = before.body != after.body and before.path.endswith(".md")
        record = note_edit(load_record(before), record, utc_now(), is_text_changed=is_text_changed)
    check(record, rules)
    return edit_record(record, after)


def note_edit(old: Record, new: Record, now: str, *, is_text_changed: bool) -> Record:
    """Return a record as a person made it by hand, with an entry for each field they changed."""
    own = _news(old, changes_of(new))
    entries = list(_automatic_entries(old, new, now, STATE_FIELDS, is_explained=bool(own)))
    if not entries and is_text_changed:
        entries = [change_entry(now, "text changed", "text")]
    if changes_of(old) and isinstance(new.get("changes") or [], list):
        # An older text that is brought back has fewer: none of those there are goes with it.
        new = add_changes(new | {"changes": changes_of(old)}, own)
    if entries:
        new = _count_update(old, add_changes(new, entries), now)
    return stamp_status(old, new, now)


# What is refused


def _refusal(field: str, rule: str, hint: str, **facts: str) -> RecordError:
    facts = {"field": field, "rule": rule, **facts}
    return RecordError("MERGE_ERROR", f"{field}: {rule}", facts, hint=hint)


def _refuse_lost(old: Record, new: Record, project: str) -> None:
    """Refuse to lose a tag, or a file that is there."""
    before, after = _tags(old), _tags(new)
    rule, hint = "", ""
    if len(before) < TAG_CAP:
        rule = f"grow-only (below cap of {TAG_CAP})"
        hint = f"Tags can only be added, not removed (current count {len(before)} < cap {TAG_CAP})"
    elif not after - before and len(after) < TAG_CAP:
        # A file edited by hand may have more than the cap; what is cut to it is no loss of ours.
        rule = "no net shrink without addition"
        hint = f"Can only evict tags when adding new ones at cap ({TAG_CAP})"
    if rule and (removed := sorted(before - after)):
        raise _refusal("tags", rule, hint, removed=_json(removed))
    files = set(_texts(old.get("related_files"))) - set(_texts(new.get("related_files")))
    if lost := [path for path in sorted(files) if os.path.exists(os.path.join(project, path))]:
        rule = "grow-only (cannot remove existing file reference)"
        hint = "Only non-existent (dangling) file references can be removed"
        raise _refusal("related_files", rule, hint, removed=_json(lost))


def _own_entries(old: Record, new: Record) -> list[Any]:
    """Return the entries that an input adds to the stored ones, which it must repeat.

    A writer at the cap may have dropped the oldest, as we shall, or send what is new alone.
    """
    if new.get("changes") is None:
        return []
    stored, stated = changes_of(old), changes_of(new)
    own = _news(old, stated)
    is_full = len(stored) >= CHANGES_CAP and own
    if (len(stated) < len(stored) and not is_full) or not isinstance(new["changes"], list):
        hint = "changes[] must grow; do not remove entries"
        counts = {"old_count": str(len(stored)), "new_count": str(len(stated))}
        raise _refusal("changes", "append-only", hint, **counts)
    return own


def _news(old: Record, entries: list[Any]) -> list[Any]:
    """Return the entries that a record does not have yet."""
    stored = changes_of(old)
    return [entry for entry in entries if entry not in stored]


# What an update makes of the record and its changes


def _count_update(old: Record, new: Record, now: str) -> Record:
    count = old.get("times_updated")
    times = max(count, 0) + 1 if isinstance(count, int) else 1
    return new | {"times_updated": times, "updated_at": now}


def _automatic_entries(
    old: Record, new: Record, now: str, left_out: Collection[str], *, is_explained: bool
) -> Iterator[dict[str, Any]]:
    """Make an entry for each changed field; the writer's own entries explain all but scalars."""
    for field, before, after in _differences(old, new, (*_SET, *left_out)):
        is_scalar = field.startswith("content.") and isinstance(before, str | int | float | None)
        if is_scalar or not is_explained:
            yield change_entry(now, f"{field} changed", field, _short(before), _short(after))


def _differences(
    old: Record, new: Record, left_out: Collection[str]
) -> Iterator[tuple[str, object, object]]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if name in left_out:
            continue
        if name == "content" and isinstance(before, dict) and isinstance(after, dict):
            for field, was, value in _differences(before, after, ()):
                yield f"content.{field}", was, value
        elif not same(comparable(name, before), comparable(name, after)):
            yield name, before, after


# Values


def _tags(record: Record) -> set[str]:
    """Return a record's tags as they would be stored; the one that stands for none is no loss."""
    return {clean_tag(tag) for tag in _texts(record.get("tags"))} - {"", "untagged"}


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _short(value: object) -> object:
    """Return a value as an entry keeps it: whole if it is short, else the start of its text."""
    if not isinstance(value, str | list | dict):
        return value
    text = value if isinstance(value, str) else _json(value)
    return value if len(text) <= _MAX_VALUE else shorten(text, _MAX_VALUE)


def _json(value: object) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False, default=str))
