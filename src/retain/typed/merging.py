"""What an update may change in a record, and what it never may.

Fields that say what a record is stay; tags, related files and changes only grow; every change
leaves an entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from retain.errors import RecordError
from retain.frontmatter import MAX_DEPTH, is_deep, same
from retain.guard.characters import visible, visible_json
from retain.typed.fixing import CHANGES_CAP, TAG_CAP, Record, clean_tag, latin_slug
from retain.typed.lifecycle import STATE_FIELDS, change_entry, grown, shortened, status_of
from retain.typed.refusing import Block, refusal

__all__ = ["merged", "new_slug", "noted", "word_difference_ratio"]

_IMMUTABLE: Final = ("created_at", "schema_version", "category")
_BOOKKEEPING: Final = frozenset(("id", "updated_at", "changes", "times_updated"))
_KEPT: Final = (*_IMMUTABLE, "id", "record_status", *STATE_FIELDS)
_MAX_VALUE: Final = 200

_Entry = dict[str, Any]


def merged(
    old: Record, new: Record, *, now: str, exists: Callable[[str], bool]
) -> tuple[Record, list[str]]:
    """The record after an update, and warnings; `exists` says whether a related file is there."""
    _refuse_deep(new)
    _refuse_restated(old, new)
    _refuse_lost_tags(_tags(old), _tags(new))
    _refuse_lost_files(old, new, exists)
    own = _own_entries(old.get("changes"), new.get("changes"))
    wanted = _with_kept(old, new)
    entries = [*own, *_automatic(old, wanted, now, {*_BOOKKEEPING, *_KEPT}, bool(own))]
    if not entries:
        count = str(len(_listed(old.get("changes"))))
        fix = "At least one new change entry is required per UPDATE"
        lines = [("old_count", count), ("total_count", count), ("fix", fix)]
        raise _broken("changes", "append-only (new entry required)", *lines)
    wanted["changes"] = grown(old.get("changes"), entries)
    wanted["times_updated"] = _count(old) + 1
    wanted["updated_at"] = now
    return wanted, [*_overruled(old, new), *_shrunk(old.get("content"), new.get("content"))]


def noted(old: Record, new: Record, now: str) -> Record:
    """A record as a person made it by hand, with an entry for each field they changed."""
    before = list(map(_bare, _listed(old.get("changes"))))
    after = list(map(_bare, _listed(new.get("changes"))))
    is_explained = any(not _is_among(entry, before) for entry in after)
    entries = list(_automatic(old, new, now, {*_BOOKKEEPING, *STATE_FIELDS}, is_explained))
    if not entries:
        return new
    return {
        **new,
        "changes": grown(new.get("changes"), entries),
        "times_updated": _count(old) + 1,
        "updated_at": now,
    }


def new_slug(old_title: str, new_title: str, old_id: str) -> str:
    """The id that a title which has become another one asks for; empty if the id may stay.

    One without Latin letters asks for none: its id would say nothing that the old one does not.
    """
    if not old_title or not new_title or word_difference_ratio(old_title, new_title) <= 0.5:
        return ""
    slug = latin_slug(new_title)
    return "" if slug == old_id else slug


def word_difference_ratio(a: str, b: str) -> float:
    """How many of two titles' words are in one of them only, from 0 to 1."""
    one, other = set(a.lower().split()), set(b.lower().split())
    return len(one ^ other) / len(one | other) if one | other else 0.0


def _refuse_deep(new: Record) -> None:
    if is_deep(new):
        wanted = f"at most {MAX_DEPTH} levels"
        name = next((name for name, value in new.items() if is_deep(value, MAX_DEPTH - 1)), "")
        lines = [("field", name), ("expected", wanted), ("got", "deeper nesting")]
        fix = f"Correct the value for '{name}'"
        raise refusal(Block("VALIDATION_ERROR", [*lines, ("fix", fix)]))


def _refuse_restated(old: Record, new: Record) -> None:
    """Refuse another value of what an update cannot change; leaving it out is no statement."""
    for field in _IMMUTABLE:
        before, after = old.get(field), new.get(field)
        if before is not None and after not in (None, "") and not same(before, after):
            fix = f"Do not change '{field}' during UPDATE"
            raise _broken(
                field, "immutable", ("old", _json(before)), ("new", _json(after)), ("fix", fix)
            )
    if new.get("record_status") and status_of(new) != status_of(old):
        fix = "Use --action delete to retire, or --action archive to archive"
        raise _broken("record_status", "immutable via UPDATE", ("fix", fix))


def _refuse_lost_tags(old: set[str], new: set[str]) -> None:
    removed, added = sorted(old - new), new - old
    if removed and len(old) < TAG_CAP:
        fix = f"Tags can only be added, not removed (current count {len(old)} < cap {TAG_CAP})"
        rule = f"grow-only (below cap of {TAG_CAP})"
        raise _broken("tags", rule, ("removed", _json(removed)), ("fix", fix))
    # A file edited by hand may have more than the cap; what is cut to it is no loss of ours.
    if removed and not added and len(new) < TAG_CAP:
        fix = f"Can only evict tags when adding new ones at cap ({TAG_CAP})"
        rule = "no net shrink without addition"
        raise _broken("tags", rule, ("removed", _json(removed)), ("fix", fix))
    if len(new) > TAG_CAP:
        fix = f"Keep tags at or below {TAG_CAP}"
        raise _broken("tags", "cap exceeded", ("count", str(len(new))), ("fix", fix))


def _refuse_lost_files(old: Record, new: Record, exists: Callable[[str], bool]) -> None:
    stated = set(_texts(new.get("related_files")))
    removed = dict.fromkeys(path for path in _texts(old.get("related_files")) if path not in stated)
    lost = [path for path in removed if exists(path)]
    if lost:
        fix = "Only non-existent (dangling) file references can be removed"
        named = visible(", ".join(lost), keep_newlines=False)
        rule = "grow-only (cannot remove existing file reference)"
        raise _broken("related_files", rule, ("removed", named), ("fix", fix))


def _own_entries(stored: object, stated: object) -> list[object]:
    """The entries that an input adds: after the stored ones, or instead of repeating them."""
    if stated is None:
        return []
    old, new = list(map(_bare, _listed(stored))), list(map(_bare, _listed(stated)))
    known = _repeated(old, new)
    if known is None or not isinstance(stated, list):
        lines = [("old_count", str(len(old))), ("new_count", str(len(new)))]
        fix = "changes[] must grow; do not remove entries"
        raise _broken("changes", "append-only", *lines, ("fix", fix))
    return stated[known:]


def _repeated(old: Sequence[object], new: Sequence[object]) -> int | None:
    """How many entries at the start of an input are stored ones; None if it loses some.

    A writer at the cap may have dropped the oldest, as we shall, or send what is new alone.
    """
    for dropped in range(len(old) if len(new) >= CHANGES_CAP else 1):
        left = len(old) - dropped
        if same(old[dropped:], new[:left]):
            return left
    is_all_new = bool(new) and not any(_is_among(entry, old) for entry in new)
    return 0 if is_all_new and (len(new) >= len(old) or len(old) >= CHANGES_CAP) else None


def _is_among(item: object, items: Sequence[object]) -> bool:
    return any(same(item, other) for other in items)


def _bare(entry: object) -> object:
    """An entry without the fields that say nothing, which one format writes and another omits."""
    if not isinstance(entry, dict):
        return entry
    return {name: value for name, value in entry.items() if value is not None}


def _with_kept(old: Record, new: Record) -> Record:
    """The input, with what an update cannot change as it was and the fields in their old order."""
    kept = {name: old[name] for name in _KEPT if old.get(name) is not None}
    wanted = {**new, **kept, "record_status": old.get("record_status") or "active"}
    return {
        name: wanted[name]
        for name in dict.fromkeys((*old, *wanted))
        if name in wanted and (name in kept or name not in STATE_FIELDS)
    }


def _automatic(
    old: Record, new: Record, now: str, left_out: frozenset[str] | set[str], is_explained: bool
) -> Iterator[_Entry]:
    """An entry for each changed field; the writer's own explain all but what must be on record."""
    for field, before, after in _differences(old, new, left_out):
        if field == "tags" and len(_texts(before)) >= TAG_CAP:
            yield _eviction(before, after, now)
        elif not is_explained or (field.startswith("content.") and _is_scalar(before)):
            yield change_entry(now, f"{field} changed", field, _short(before), _short(after))


def _differences(
    old: Record, new: Record, left_out: frozenset[str] | set[str]
) -> Iterator[tuple[str, object, object]]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if name in left_out:
            continue
        if name == "content" and isinstance(before, dict) and isinstance(after, dict):
            for field, one, other in _differences(before, after, frozenset()):
                yield f"content.{field}", one, other
        elif not same(_said(name, before), _said(name, after)):
            yield name, before, after


def _said(name: str, value: object) -> object:
    """What a field says: no list is an empty list, and tags have no order."""
    if name == "tags" and isinstance(value, list):
        return sorted(map(str, value))
    return None if value == [] else value


def _eviction(before: object, after: object, now: str) -> _Entry:
    old, new = set(_texts(before)), set(_texts(after))
    removed, added = sorted(old - new), sorted(new - old)
    summary = f"Tags evicted at cap: removed {removed}, added {added}"
    return change_entry(now, summary, "tags", _short(removed), _short(added))


def _overruled(old: Record, new: Record) -> Iterator[str]:
    """Notes on what the input states of itself in vain."""
    stated, kept = new.get("id"), old.get("id")
    if stated and kept is not None and stated != kept:
        yield f"id: kept '{kept}'; an update does not change it"
    for field in STATE_FIELDS:
        if new.get(field) is not None and new[field] != old.get(field):
            yield f"{field}: kept as it was; only a step of the lifecycle changes it"


def _shrunk(old: object, new: object, path: str = "content") -> Iterator[str]:
    """Warnings on lists that have fewer items than before."""
    if isinstance(old, dict) and (new is None or isinstance(new, dict)):
        for name, before in old.items():
            yield from _shrunk(before, (new or {}).get(name), f"{path}.{name}")
    elif isinstance(old, list) and (new is None or isinstance(new, list)):
        left = new or []
        if len(left) < len(old):
            gone = [shortened(_json(item), 60) for item in old if not _is_among(item, left)]
            removed = f"; removed: {shortened(', '.join(gone), _MAX_VALUE)}" if gone else ""
            yield f"{path}: list shrank from {len(old)} to {len(left)} items{removed}"


def _tags(record: Record) -> set[str]:
    """A record's tags as they would be stored: a file edited by hand may spell them otherwise.

    The one that stands for none is no loss.
    """
    return {clean_tag(tag) for tag in _texts(record.get("tags"))} - {"", "untagged"}


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [item for item in _listed(value) if isinstance(item, str)]


def _count(record: Record) -> int:
    stored = record.get("times_updated")
    if isinstance(stored, float) and stored.is_integer():
        stored = int(stored)
    return max(stored, 0) if isinstance(stored, int) else 0


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _short(value: object) -> object:
    if isinstance(value, str):
        return shortened(value, _MAX_VALUE)
    if not isinstance(value, list | dict):
        return value
    text = _json(value)
    return value if len(text) <= _MAX_VALUE else shortened(text, _MAX_VALUE)


def _json(value: object) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False, default=str))


def _broken(field: str, rule: str, *lines: tuple[str, str]) -> RecordError:
    return refusal(Block("MERGE_ERROR", [("field", field), ("rule", rule), *lines]))
