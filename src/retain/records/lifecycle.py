"""What each step of its life does to a record: created, retired, archived, restored, replaced.

Every step leaves an entry in the record's `changes`, and a state has only its own fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from retain.errors import RecordError
from retain.memory import parse_time
from retain.records.normalize import CHANGES_CAP
from retain.records.schema import Record
from retain.text.sanitize import shorten, visible

STATE_FIELDS: Final = ("retired_at", "retired_reason", "archived_at", "archived_reason")
RELATIONS: Final = ("superseded_by", "supersedes")
NO_REASON: Final = "No reason provided"  # what a record says then
_MAX_TEXT: Final = 300  # characters of a reason, and of a summary
_REST: Final = timedelta(hours=24)  # for which a retired name stays free of a new record


class Step(NamedTuple):
    """A step from one status to another, and why it is refused to others."""

    start: str
    status: str
    hint: str
    summary: str = ""  # else the status and the reason


STEPS: Final[Mapping[str, Step]] = {
    "retire": Step("active", "retired", "Archived memories must be unarchived before retiring."),
    "archive": Step("active", "archived", "Only active memories can be archived."),
    "unarchive": Step(
        "archived",
        "active",
        "Only archived memories can be unarchived.",
        "Unarchived: restored to active",
    ),
    "restore": Step(
        "retired",
        "active",
        "Only retired memories can be restored; archived ones are unarchived.",
        "Restored: returned to active from retired",
    ),
}


def create(record: Record, category: str, name: str) -> tuple[Record, list[str]]:
    """Begin a record's life in the file of that name; return it with notes on what was set."""
    notes: list[str] = []
    if record.get("category") != category:
        notes.append(f"category: set to '{category}'")
    if record.get("id") != name:
        notes.append(f"id: set to match filename '{name}'")
    born = {"category": category, "id": name, "record_status": "active", "times_updated": 0}
    return _without_state(record) | born, notes


def refuse_overwrite(old: Record, ref: str, now: str, *, force: bool) -> None:
    """Refuse a new record in the place of one that is active, archived or only just retired.

    Force does not help against the last: what was retired on purpose must not come back as if it
    were new, least of all by a program that always forces.
    """
    status = status_of(old)
    if status != "retired":
        if not force:
            step = f"Unarchive that one with `retain unarchive {ref}`"
            if status != "archived":
                change = """--metadata '{"content.FIELD": "VALUE"}'"""
                step = f"Update that one with `retain update {ref} {change}`"
            raise taken_error(ref, status, f"{step}, or use --force.")
        return
    since = parse_time(str(old.get("retired_at")))
    if since is None or datetime.fromisoformat(now) - since < _REST:
        when = _line(old.get("retired_at")) if since else "unreadable, taken for now"
        raise RecordError(
            "ANTI_RESURRECTION_ERROR",
            f"{ref} was retired only at {when}",
            {"target": ref, "retired_at": when},
            hint="This file was retired less than 24 hours ago. Wait or use a different target "
            "path, or restore that one.",
            exit_code=4,
        )


def taken_error(ref: str, status: str, hint: str) -> RecordError:
    """Make the error of a new record whose name is in use."""
    message = f"{ref} exists already and is {status}"
    facts = {"target": ref, "record_status": status}
    return RecordError("CREATE_ERROR", message, facts, hint=hint, exit_code=4)


def take_step(record: Record, action: str, ref: str, now: str, reason: str = "") -> Record | None:
    """Return a record after a step; None if it has taken that already."""
    step, status = STEPS[action], status_of(record)
    if status == step.status and action != "unarchive":
        return None
    # A status that somebody made up keeps a record from all but being retired.
    if status != step.start and (action != "retire" or status == "archived"):
        kind = "DELETE_ERROR" if action == "retire" else f"{action.upper()}_ERROR"
        facts = {"target": ref, "record_status": status}
        raise RecordError(kind, f"{ref} is {status}", facts, hint=step.hint)
    changed = _without_state(record)
    summary = step.summary
    if not summary:
        reason = shorten(reason.strip() or NO_REASON, _MAX_TEXT)
        changed |= {f"{step.status}_at": now, f"{step.status}_reason": reason}
        summary = f"{step.status.capitalize()}: {reason}"
    entry = change_entry(now, summary, "record_status", status, step.status)
    return add_changes(changed | {"record_status": step.status, "updated_at": now}, [entry])


def stamp_status(old: Record, new: Record, now: str) -> Record:
    """Give a record whose status someone set by hand the fields that go with it."""
    status = status_of(new)
    if status == status_of(old):
        return new
    stamped = _without_state(new)
    if status in ("retired", "archived"):
        stamped[f"{status}_at"] = now
        stamped[f"{status}_reason"] = new.get(f"{status}_reason") or NO_REASON
    return stamped


def relate(record: Record, relation: str, ref: str, now: str) -> Record:
    """Say in a record that another one replaces it (`superseded_by`), or that it replaces it."""
    is_old = relation == "superseded_by"
    summary = f"Superseded by {ref}" if is_old else f"Supersedes {ref}"
    entry = change_entry(now, summary, relation, new_value=ref)
    related = add_changes(record | {"updated_at": now}, [entry])
    content = record.get("content")
    if is_old and record.get("category") == "decision" and isinstance(content, dict):
        related["content"] = {**content, "status": "superseded"}
    return related


def change_entry(
    now: str, summary: str, field: str, old_value: object = None, new_value: object = None
) -> dict[str, Any]:
    """Return one entry of a record's changes; a secret taken out does not live on in it."""
    from retain.text.secrets import redact, redact_value  # large, and reads never need it

    return {
        "date": now,
        "summary": shorten(redact(summary)[0], _MAX_TEXT),
        "field": field,
        "old_value": redact_value(old_value)[0],
        "new_value": redact_value(new_value)[0],
    }


def changes_of(record: Mapping[str, Any]) -> list[Any]:
    """Return a record's own history, the oldest entry first."""
    changes = record.get("changes")
    return changes if isinstance(changes, list) else []


def add_changes(record: Record, entries: Iterable[object]) -> Record:
    """Add entries to a record's changes; beyond the cap the oldest go.

    What a record replaces, and what replaced it, may be said nowhere else: that stays.
    """
    kept = [*changes_of(record), *entries]
    is_plain = [not isinstance(it, dict) or it.get("field") not in RELATIONS for it in kept]
    for _ in range(len(kept) - CHANGES_CAP):
        oldest = is_plain.index(True) if True in is_plain else 0
        del kept[oldest], is_plain[oldest]
    return record | {"changes": kept}


def status_of(record: Mapping[str, Any]) -> str:
    """Return a record's status on one line; active unless it says otherwise."""
    return _line(record.get("record_status") or "active")


def _without_state(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in STATE_FIELDS}


def _line(value: object) -> str:
    return visible(str(value), keep_newlines=False)
