"""What an update may change in a record, and what it never may.

Fields that say what a record is stay; tags, related files and changes only grow; every change
leaves an entry.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from retain.bank.markdown import parse_file
from retain.categories import Rules
from retain.errors import RecordError
from retain.memory import Memory
from retain.memory import now as utc_now
from retain.records.codec import edit_record, is_record, load_record
from retain.records.lifecycle import (
    STATE_FIELDS,
    add_changes,
    change_entry,
    changes_of,
    stamp_status,
    status_of,
)
from retain.records.normalize import (
    CHANGES_CAP,
    TAG_CAP,
    Fault,
    Record,
    clean_tag,
    invalid,
    latin_slug,
)
from retain.records.schema import check
from retain.text.frontmatter import MAX_DEPTH, is_deep, same
from retain.text.sanitize import shorten, visible, visible_json

_IMMUTABLE: Final = ("created_at", "schema_version", "category")
_BOOKKEEPING: Final = ("id", "updated_at", "changes", "times_updated")
_KEPT: Final = (*_IMMUTABLE, "id", "record_status", *STATE_FIELDS)
_MAX_VALUE: Final = 200


def merge(old: Record, new: Record, *, now: str, project: str) -> Record:
    """Return a record after an update; related files are looked for in the project."""
    if is_deep(new):
        name = next((name for name, value in new.items() if is_deep(value, MAX_DEPTH - 1)), "")
        raise invalid([Fault(name, f"at most {MAX_DEPTH} levels", "deeper nesting")])
    _refuse_restated(old, new)
    _refuse_lost_tags(_tags(old), _tags(new))
    _refuse_lost_files(old, new, project)
    own = _own_entries(old, new)
    kept = {name: old[name] for name in _KEPT if old.get(name) is not None}
    wanted = {**new, **kept, "record_status": old.get("record_status") or "active"}
    wanted = {
        name: wanted[name]
        for name in dict.fromkeys((*old, *wanted))
        if name in wanted and (name in kept or name not in STATE_FIELDS)
    }
    left_out = (*_BOOKKEEPING, *_KEPT)
    entries = [*own, *_automatic_entries(old, wanted, now, left_out, is_explained=bool(own))]
    if not entries:
        count = str(len(changes_of(old)))
        hint = "At least one new change entry is required per UPDATE"
        rule = "append-only (new entry required)"
        raise _refusal("changes", rule, hint, old_count=count, total_count=count)
    return _count_update(old, add_changes(wanted | {"changes": changes_of(old)}, entries), now)


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
        raise invalid([Fault("category", before.type, after.type)], hint)
    record = load_record(after)
    if was_typed:
        is_text_changed = before.body != after.body and before.path.endswith(".md")
        old = load_record(before)
        record = note_edit(old, record, utc_now(), is_text_changed=is_text_changed)
    check(record, rules)
    return edit_record(record, after)


def note_edit(old: Record, new: Record, now: str, *, is_text_changed: bool) -> Record:
    """Return a record as a person made it by hand, with an entry for each field they changed."""
    before, after = changes_of(old), changes_of(new)
    if before and isinstance(new.get("changes") or [], list):
        # An older text has older entries, which the cap may have dropped since: those are no news.
        last = before[-1].get("date") if isinstance(before[-1], dict) else ""
        news = [
            entry
            for entry in after
            if entry not in before
            and isinstance(entry, dict)
            and str(entry.get("date")) >= str(last)
        ]
        new = add_changes(new | {"changes": before}, news)
    bare = list(map(_bare, before))
    is_explained = any(not _is_among(_bare(entry), bare) for entry in changes_of(new))
    left_out = (*_BOOKKEEPING, *STATE_FIELDS)
    entries = list(_automatic_entries(old, new, now, left_out, is_explained=is_explained))
    if not entries and is_text_changed:
        entries = [change_entry(now, "text changed", "text")]
    if entries:
        new = new | {"changes": changes_of(new) or before}
        new = _count_update(old, add_changes(new, entries), now)
    return stamp_status(old, new, now)


def warnings(old: Record, new: Record) -> Iterator[str]:
    """Say what an update states in vain, and which lists of the content it shortens."""
    stated, kept = new.get("id"), old.get("id")
    if stated and kept is not None and stated != kept:
        yield f"id: kept '{kept}'; an update does not change it"
    for field in STATE_FIELDS:
        if new.get(field) is not None and new[field] != old.get(field):
            yield f"{field}: kept as it was; only a step of the lifecycle changes it"
    yield from _shrunk(old.get("content"), new.get("content"))


def new_slug(old_title: str, new_title: str, old_id: str) -> str:
    """Return the id that a title which has become another one asks for; empty if the id may stay.

    One without Latin letters asks for none: its id would say nothing that the old one does not.
    """
    if not old_title or not new_title or word_difference_ratio(old_title, new_title) <= 0.5:
        return ""
    slug = latin_slug(new_title)
    return "" if slug == old_id else slug


def word_difference_ratio(a: str, b: str) -> float:
    """Return the share of two titles' words that are in one of them only, from 0 to 1."""
    words, others = set(a.lower().split()), set(b.lower().split())
    return len(words ^ others) / len(words | others) if words | others else 0.0


# What is refused


def _refusal(field: str, rule: str, hint: str, **facts: str) -> RecordError:
    facts = {"field": field, "rule": rule, **facts}
    return RecordError("MERGE_ERROR", f"{field}: {rule}", facts, hint=hint)


def _refuse_restated(old: Record, new: Record) -> None:
    """Refuse another value of what an update cannot change; leaving it out is no statement."""
    for field in _IMMUTABLE:
        before, after = old.get(field), new.get(field)
        if before is not None and after not in (None, "") and not same(before, after):
            hint = f"Do not change '{field}' during UPDATE"
            raise _refusal(field, "immutable", hint, old=_json(before), new=_json(after))
    if new.get("record_status") and status_of(new) != status_of(old):
        hint = "Use `retain retire` to retire, or `retain archive` to archive"
        raise _refusal("record_status", "immutable via UPDATE", hint)


def _refuse_lost_tags(old: set[str], new: set[str]) -> None:
    removed = sorted(old - new)
    if removed and len(old) < TAG_CAP:
        hint = f"Tags can only be added, not removed (current count {len(old)} < cap {TAG_CAP})"
        rule = f"grow-only (below cap of {TAG_CAP})"
        raise _refusal("tags", rule, hint, removed=_json(removed))
    # A file edited by hand may have more than the cap; what is cut to it is no loss of ours.
    if removed and not new - old and len(new) < TAG_CAP:
        hint = f"Can only evict tags when adding new ones at cap ({TAG_CAP})"
        raise _refusal("tags", "no net shrink without addition", hint, removed=_json(removed))
    if len(new) > TAG_CAP:
        hint = f"Keep tags at or below {TAG_CAP}"
        raise _refusal("tags", "cap exceeded", hint, count=str(len(new)))


def _refuse_lost_files(old: Record, new: Record, project: str) -> None:
    stated = set(_texts(new.get("related_files")))
    removed = [path for path in _texts(old.get("related_files")) if path not in stated]
    lost = [path for path in removed if os.path.exists(os.path.join(project, path))]
    if lost:
        hint = "Only non-existent (dangling) file references can be removed"
        rule = "grow-only (cannot remove existing file reference)"
        names = visible(", ".join(dict.fromkeys(lost)), keep_newlines=False)
        raise _refusal("related_files", rule, hint, removed=names)


def _own_entries(stored: Record, stated: Record) -> list[Any]:
    """Return the entries that an input adds: after the stored ones, or without repeating them.

    A writer at the cap may have dropped the oldest, as we shall, or send what is new alone.
    """
    if stated.get("changes") is None:
        return []
    old, new = list(map(_bare, changes_of(stored))), list(map(_bare, changes_of(stated)))
    for dropped in range(len(old) if len(new) >= CHANGES_CAP else 1):
        left = len(old) - dropped
        if same(old[dropped:], new[:left]) and isinstance(stated["changes"], list):
            return changes_of(stated)[left:]
    is_all_new = bool(new) and not any(_is_among(entry, old) for entry in new)
    if is_all_new and (len(new) >= len(old) or len(old) >= CHANGES_CAP):
        return changes_of(stated)
    hint = "changes[] must grow; do not remove entries"
    counts = {"old_count": str(len(old)), "new_count": str(len(new))}
    raise _refusal("changes", "append-only", hint, **counts)


# What an update makes of the record and its changes


def _count_update(old: Record, new: Record, now: str) -> Record:
    count = old.get("times_updated")
    count = int(count) if isinstance(count, float) and count.is_integer() else count
    times = (max(count, 0) if isinstance(count, int) else 0) + 1
    return new | {"times_updated": times, "updated_at": now}


def _automatic_entries(
    old: Record, new: Record, now: str, left_out: Collection[str], *, is_explained: bool
) -> Iterator[dict[str, Any]]:
    """Make an entry for each changed field; the writer's own entries explain all but scalars."""
    for field, before, after in _differences(old, new, left_out):
        if field == "tags" and len(_texts(before)) >= TAG_CAP:
            tags, kept = set(_texts(before)), set(_texts(after))
            removed, added = sorted(tags - kept), sorted(kept - tags)
            summary = f"Tags evicted at cap: removed {removed}, added {added}"
            yield change_entry(now, summary, "tags", _short(removed), _short(added))
        elif not is_explained or (
            field.startswith("content.") and isinstance(before, str | int | float | None)
        ):
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
        elif not same(_comparable(name, before), _comparable(name, after)):
            yield name, before, after


def _comparable(name: str, value: object) -> object:
    """Return a value to compare: no list is an empty list, and tags have no order."""
    if name == "tags" and isinstance(value, list):
        return sorted(map(str, value))
    return None if value == [] else value


def _shrunk(old: object, new: object, path: str = "content") -> Iterator[str]:
    """Warn of lists that have fewer items than before."""
    if isinstance(old, dict) and (new is None or isinstance(new, dict)):
        for name, before in old.items():
            yield from _shrunk(before, (new or {}).get(name), f"{path}.{name}")
    elif isinstance(old, list) and (new is None or isinstance(new, list)):
        left = new or []
        if len(left) < len(old):
            gone = [shorten(_json(item), 60) for item in old if not _is_among(item, left)]
            removed = f"; removed: {shorten(', '.join(gone), _MAX_VALUE)}" if gone else ""
            yield f"{path}: list shrank from {len(old)} to {len(left)} items{removed}"


# Values


def _tags(record: Record) -> set[str]:
    """Return a record's tags as they would be stored; the one that stands for none is no loss."""
    return {clean_tag(tag) for tag in _texts(record.get("tags"))} - {"", "untagged"}


def _is_among(item: object, items: Sequence[object]) -> bool:
    return any(same(item, other) for other in items)


def _bare(entry: object) -> object:
    """Return an entry without its empty fields, which one format writes and another omits."""
    if not isinstance(entry, dict):
        return entry
    return {name: value for name, value in entry.items() if value is not None}


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
