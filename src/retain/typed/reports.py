"""What is said about a store, and which of its records have had their time.

The texts are those of the tool whose stores are read here, word for word, for scripts that look
for them. In doubt nothing is due: a time that cannot be read makes no record old.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from retain.listing import HEADER, Line, harmless, render
from retain.words import words

__all__ = [
    "NO_INDEX",
    "Aged",
    "beyond_window",
    "collected",
    "due",
    "health",
    "outlived",
    "queried",
    "rebuilt",
    "undeleted",
    "unique_content",
    "validated",
]

NO_INDEX: Final = "ERROR: index.md does not exist. Run --rebuild first."

_RULE: Final = "=" * 50
_HEAVILY: Final = 5
_RECENT_DAYS: Final = 7
_DAY: Final = timedelta(days=1)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
# One of four words, which every other session has too.
_NO_STATEMENTS: Final = frozenset({"outcome"})

_Record = Mapping[str, Any]
_Filed = tuple[str, _Record]  # a record and the path of its file


class Aged(NamedTuple):
    """A record that has had its time, and how many whole days ago that began."""

    path: str
    record: _Record
    days: int


def rebuilt(n: int, path: str) -> str:
    """The report of a rebuilt index."""
    said = f"Rebuilt index.md with {n} entries at {path}"
    return said if n else f"No active memory files found. Nothing to index.\n{said}"


def validated(
    n_entries: int, n_files: int, missing: Sequence[str], stale: Sequence[str]
) -> tuple[str, bool]:
    """The report of how an index and the files agree, and whether they do."""
    if not missing and not stale:
        return f"Index is valid. {n_entries} entries match {n_files} files.", True
    said: list[str] = []
    if missing:
        said += ["Files NOT in index.md:", *(f"  + {path}" for path in missing)]
    if stale:
        said += ["Index entries with NO matching file:", *(f"  - {path}" for path in stale)]
    return "\n".join([*said, "", "Index has mismatches. Run --rebuild to fix."]), False


def queried(keyword: str, lines: Iterable[Line]) -> str:
    """The lines of an index that hold a keyword anywhere, in any case."""
    entries = render(lines).removeprefix(HEADER).split("\n")[:-1]
    found = [text for text in entries if keyword.lower() in text.lower()]
    if not found:
        return f"No matches found for '{keyword}'."
    return "\n".join([f"Found {len(found)} match(es) for '{keyword}':", *_indented(found)])


def health(
    records: Iterable[tuple[str, _Record]],
    differences: tuple[Sequence[str], Sequence[str]] | None,
    now: datetime,
) -> tuple[str, bool]:
    """The report of a store's records, each with its category in capitals, and if all is well.

    The differences are those between index and files, None where there is no index.
    """
    records = list(records)
    active = [display for display, record in records if _status(record) == "active"]
    heavy = _heavy(records)
    is_in_sync = differences is not None and not any(differences)
    issues = [] if is_in_sync else ["Index out of sync or missing"]
    if heavy:
        issues.append(f"{len(heavy)} heavily-updated memories (consider reviewing)")
    summary = ["Health: NEEDS ATTENTION", *(f"  - {issue}" for issue in issues)]
    sections = {
        "Entries by Category": _counted(active, records),
        f"Heavily Updated (times_updated > {_HEAVILY})": heavy or ["None."],
        f"Recent Retirements (last {_RECENT_DAYS} days)": _retirements(records, now) or ["None."],
        "Index Sync Status": _sync(differences, len(active)),
        "Summary": summary if issues else ["Health: GOOD"],
    }
    said = ["Memory Health Report", _RULE]
    for heading, lines in sections.items():
        said += ["", f"--- {heading} ---", *_indented(lines)]
    return "\n".join(said), not issues


def _counted(active: Sequence[str], records: Sequence[tuple[str, _Record]]) -> list[str]:
    said = [f"{display}: {count}" for display, count in sorted(Counter(active).items())]
    said.append(f"TOTAL (active): {len(active)}" if active else "No active memories found.")
    statuses = Counter(_status(record) for _, record in records)
    return said + [
        f"{status.capitalize()}: {statuses[status]}"
        for status in ("retired", "archived")
        if statuses[status]
    ]


def _heavy(records: Sequence[tuple[str, _Record]]) -> list[str]:
    counted = [
        (count, display, record)
        for display, record in records
        if isinstance(count := record.get("times_updated"), int) and count > _HEAVILY
    ]
    counted.sort(key=lambda one: -one[0])
    return [f"[{display}] {_title(it)} (updated {count} times)" for count, display, it in counted]


def _retirements(records: Sequence[tuple[str, _Record]], now: datetime) -> list[str]:
    recent = [
        ((now - at).days, display, record)
        for display, record in records
        if _status(record) == "retired" and (at := _moment(record.get("retired_at")))
    ]
    recent.sort(key=lambda one: one[0])
    return [
        f"[{display}] {_title(record)} ({max(days, 0)} day(s) ago)"
        for days, display, record in recent
        if -1 <= days <= _RECENT_DAYS  # a clock may be ahead by hours; it is not by years
    ]


def _sync(differences: tuple[Sequence[str], Sequence[str]] | None, n: int) -> list[str]:
    if differences is None:
        return ["WARNING: index.md does not exist!"]
    missing, stale = differences
    if not missing and not stale:
        return [f"Index is in sync ({n} entries)."]
    said: list[str] = []
    if missing:
        said += [f"FILES MISSING FROM INDEX ({len(missing)}):", *(f"  + {it}" for it in missing)]
    if stale:
        said += [f"STALE INDEX ENTRIES ({len(stale)}):", *(f"  - {it}" for it in stale)]
    return [*said, "Run --rebuild to fix."]


def due(records: Iterable[_Filed], now: datetime, grace_days: int) -> tuple[list[Aged], list[str]]:
    """Retired records past their days of grace, and what kept others from being judged."""
    doomed: list[Aged] = []
    problems: list[str] = []
    for path, record in records:
        if _status(record) != "retired":
            continue
        at = _moment(record.get("retired_at"))
        if at is None:
            fault = "invalid" if record.get("retired_at") else "missing"
            problems.append(f"SKIP {_name(path)}: {fault} retired_at timestamp")
        elif (now - at).days >= max(grace_days, 0):
            doomed.append(Aged(path, record, (now - at).days))
    return doomed, problems


def undeleted(path: str, error: object) -> str:
    """The problem of a file that is due but could not be deleted."""
    return f"ERROR deleting {_name(path)}: {error}"


def collected(
    days: int, deleted: Sequence[Aged], problems: Sequence[str], *, needs_rebuild: bool = True
) -> str:
    """The report of retired records that were deleted for good."""
    said = [f"Garbage Collection (grace period: {days} days)", _RULE, ""]
    if deleted:
        said.append(f"Deleted {len(deleted)} file(s):")
        said += [f"  DELETED {_name(it.path)} (retired {it.days} days ago)" for it in deleted]
    else:
        said.append("No retired memories past grace period.")
    if problems:
        said += ["", f"Warnings/errors ({len(problems)}):", *_indented(problems)]
    if deleted and needs_rebuild:
        said += ["", "Run --rebuild to update index.md."]
    return "\n".join(said)


def outlived(
    records: Iterable[_Filed], now: datetime, retention_days: Mapping[str, int]
) -> list[Aged]:
    """Active records last updated longer ago than their category is kept; 0 keeps it for good."""
    found: list[Aged] = []
    for path, record in records:
        limit = retention_days.get(str(record.get("category")), 0)
        at = _moment(record.get("updated_at"))
        if limit > 0 and at and _status(record) == "active" and (now - at) / _DAY > limit:
            found.append(Aged(path, record, (now - at).days))
    return found


def beyond_window(records: Iterable[_Filed], max_retained: int) -> list[_Filed]:
    """The active records of a category beyond its newest few, oldest first; 0 keeps all."""
    active = [filed for filed in records if _status(filed[1]) == "active"]
    active.sort(key=_creation)
    return active[: max(len(active) - max_retained, 0)] if max_retained > 0 else []


def _creation(filed: _Filed) -> tuple[datetime, str]:
    record = filed[1]
    return _moment(record.get("created_at")) or _LATEST, str(record.get("id", ""))


def unique_content(record: _Record, others: Iterable[_Record]) -> list[str]:
    """The statements of a record that no other active one holds.

    One is held elsewhere when three in five of its words stand in a single other record.
    """
    known = [
        set(words("\n".join(_strings([it.get("title"), it.get("tags"), it.get("content")]))))
        for it in others
        if _status(it) == "active" and _identity(it) != _identity(record)
    ]
    return [
        statement
        for statement in _statements(record)
        if (told := set(words(statement)))
        and not any(5 * len(told & known_words) >= 3 * len(told) for known_words in known)
    ]


def _statements(record: _Record) -> list[str]:
    content = record.get("content")
    if not isinstance(content, dict):
        return []
    values = [value for name, value in content.items() if name not in _NO_STATEMENTS]
    return list(dict.fromkeys(_strings(values)))


def _strings(value: object) -> Iterator[str]:
    """All strings in a value, in its order; without recursion, as a file may nest deeply."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += reversed(one.values())
        elif isinstance(one, list | tuple):
            waiting += reversed(one)


def _identity(record: _Record) -> tuple[object, object]:
    return record.get("category"), record.get("id")


def _status(record: _Record) -> str:
    return str(record.get("record_status") or "active")


def _title(record: _Record) -> str:
    return harmless(str(record.get("title") or record.get("id") or "untitled"))


def _name(path: str) -> str:
    return posixpath.basename(path)


def _moment(value: object) -> datetime | None:
    """The time that a record states, in UTC unless it says otherwise; None if it is none."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
