"""What each step of its life does to a record: created, retired, archived, back in force, replaced.

Every step leaves an entry in the record's `changes`, and a state has only its own fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from retain.errors import RecordError
from retain.guard.characters import visible
from retain.typed.fixing import CHANGES_CAP, Record
from retain.typed.refusing import Block, refusal

__all__ = [
    "NO_REASON",
    "STATE_FIELDS",
    "archived",
    "change_entry",
    "created",
    "dated",
    "grown",
    "may_create_over",
    "restored",
    "retired",
    "shortened",
    "status_of",
    "superseded",
    "superseding",
    "unarchived",
]

STATE_FIELDS: Final = ("retired_at", "retired_reason", "archived_at", "archived_reason")
NO_REASON: Final = "No reason provided"  # what a record says then
_MAX_SUMMARY: Final = 300
_MAX_REASON: Final = 300
_REST: Final = timedelta(hours=24)  # for which a retired name stays free of a new record


def created(record: Record, category: str, name: str, now: str) -> tuple[Record, list[str]]:
    """A record as it begins its life in the file of that name, and notes on what was set."""
    notes: list[str] = []
    new = _stateless(record)
    if new.get("category") != category:
        notes.append(f"category: set to '{category}'")
    if new.get("id") != name:
        notes.append(f"id: set to match filename '{name}'")
    new.update(category=category, id=name, record_status="active", times_updated=0)
    for field in ("created_at", "updated_at"):
        new[field] = new.get(field) or now
    return new, notes


def may_create_over(old: Record, target: str, now: str, force: bool = False) -> None:
    """Refuse a new record in the place of one that is in force, shelved or only just retired.

    Force does not help against the last: what was taken out of force on purpose must not come
    back as if it were new, least of all by a program that always forces.
    """
    status = status_of(old)
    if status == "retired":
        _refuse_fresh(old, target, now)
    elif not force:
        step = "unarchive" if status == "archived" else "update"
        raise _forbidden("CREATE_ERROR", target, status, f"Use --action {step}, or --force")


def _refuse_fresh(old: Record, target: str, now: str) -> None:
    since = _moment(old.get("retired_at"))
    if since is not None and datetime.fromisoformat(now) - since >= _REST:
        return
    fix = (
        "This file was retired less than 24 hours ago. Wait or use a different target path, "
        "or bring it back with --action restore."
    )
    when = _line(old.get("retired_at")) if since else "unreadable, taken for now"
    lines = [("target", target), ("retired_at", when), ("fix", fix)]
    raise refusal(Block("ANTI_RESURRECTION_ERROR", lines))


def _moment(text: object) -> datetime | None:
    """A stored time, in UTC unless it says otherwise; None if it is none."""
    try:
        found = datetime.fromisoformat(str(text).strip())
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def retired(record: Record, target: str, reason: str, now: str) -> Record | None:
    """A record taken out of force; None if it is already."""
    status = status_of(record)
    if status == "retired":
        return None
    if status == "archived":
        fix = "Archived memories must be unarchived before retiring. Use --action unarchive first."
        raise _forbidden("DELETE_ERROR", target, status, fix)
    why = shortened(reason.strip() or NO_REASON, _MAX_REASON)
    fields = {"retired_at": now, "retired_reason": why}
    return _turned(record, "retired", f"Retired: {why}", now, fields)


def archived(record: Record, target: str, reason: str, now: str) -> Record | None:
    """A record put on the shelf; None if it is there already."""
    status = status_of(record)
    if status == "archived":
        return None
    if status != "active":
        fix = "Only active memories can be archived."
        raise _forbidden("ARCHIVE_ERROR", target, status, fix)
    why = shortened(reason.strip() or NO_REASON, _MAX_REASON)
    fields = {"archived_at": now, "archived_reason": why}
    return _turned(record, "archived", f"Archived: {why}", now, fields)


def unarchived(record: Record, target: str, now: str) -> Record:
    """A record taken off the shelf."""
    status = status_of(record)
    if status != "archived":
        fix = "Only archived memories can be unarchived."
        raise _forbidden("UNARCHIVE_ERROR", target, status, fix)
    return _turned(record, "active", "Unarchived: restored to active", now, {})


def restored(record: Record, target: str, now: str) -> Record | None:
    """A retired record in force again; None if it is already."""
    status = status_of(record)
    if status == "active":
        return None
    if status != "retired":
        fix = "Only retired memories can be restored. Use --action unarchive for archived memories."
        raise _forbidden("RESTORE_ERROR", target, status, fix)
    return _turned(record, "active", "Restored: returned to active from retired", now, {})


def dated(old: Record, new: Record, now: str) -> Record:
    """A record whose status someone set by hand, with the fields that go with it."""
    status = status_of(new)
    if status == status_of(old):
        return new
    if status not in ("retired", "archived"):
        return _stateless(new)
    fields = {f"{status}_at": now, f"{status}_reason": new.get(f"{status}_reason") or NO_REASON}
    return {**_stateless(new), **fields}


def superseded(old: Record, new_ref: str, now: str) -> Record:
    """A record that another one has taken the place of; a decision says so in its status."""
    entry = change_entry(now, f"Superseded by {new_ref}", "superseded_by", new_value=new_ref)
    found = {**old, "updated_at": now, "changes": grown(old.get("changes"), [entry])}
    if old.get("category") == "decision" and isinstance(old.get("content"), dict):
        found["content"] = {**old["content"], "status": "superseded"}
    return found


def superseding(new: Record, old_ref: str, now: str) -> Record:
    """A record that has taken another one's place."""
    entry = change_entry(now, f"Supersedes {old_ref}", "supersedes", new_value=old_ref)
    return {**new, "updated_at": now, "changes": grown(new.get("changes"), [entry])}


def change_entry(
    now: str, summary: str, field: str, old_value: object = None, new_value: object = None
) -> dict[str, Any]:
    """One entry of a record's changes; a secret that was taken out does not live on in it."""
    from retain.guard.secrets import redact, redact_value

    return {
        "date": now,
        "summary": shortened(redact(summary)[0], _MAX_SUMMARY),
        "field": field,
        "old_value": redact_value(old_value)[0],
        "new_value": redact_value(new_value)[0],
    }


def grown(changes: object, entries: Iterable[object]) -> list[object]:
    """A record's changes with more of them; beyond the cap the oldest go.

    What a record replaces, and what replaced it, may be said nowhere else: that stays.
    """
    found = [*(changes if isinstance(changes, list) else ()), *entries]
    for _ in range(len(found) - CHANGES_CAP):
        found.pop(next((at for at, one in enumerate(found) if not _relates(one)), 0))
    return found


def _relates(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("field") in ("superseded_by", "supersedes")


def shortened(text: str, length: int) -> str:
    """A text of at most so many characters, the last an ellipsis if more were there."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def status_of(record: Record) -> str:
    """A record's status, on one line; active unless it says otherwise."""
    return _line(record.get("record_status") or "active")


def _turned(record: Record, status: str, summary: str, now: str, fields: Record) -> Record:
    entry = change_entry(now, summary, "record_status", status_of(record), status)
    return {
        **_stateless(record),
        **fields,
        "record_status": status,
        "updated_at": now,
        "changes": grown(record.get("changes"), [entry]),
    }


def _stateless(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in STATE_FIELDS}


def _forbidden(code: str, target: str, status: str, fix: str) -> RecordError:
    return refusal(Block(code, [("target", target), ("record_status", status), ("fix", fix)]))


def _line(value: object) -> str:
    return visible(str(value), keep_newlines=False)
