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

from retain.bank.index_md import HEADER, Line, clean_title, render
from retain.records.lifecycle import parse_time, status_of
from retain.text.tokens import words

NO_INDEX: Final = "ERROR: index.md does not exist. Run --rebuild first."

_RULE: Final = "=" * 50
_HEAVILY: Final = 5
_RECENT_DAYS: Final = 7
_DAY: Final = timedelta(days=1)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)

_Record = Mapping[str, Any]
_Filed = tuple[str, _Record]  # a record and the path of its file
_Differences = tuple[Sequence[str], Sequence[str]]  # files missing from index.md, stale entries


class Aged(NamedTuple):
    """A record that has had its time, and how many whole days ago that began."""

    path: str
    record: _Record
    days: int


# Texts


def report_rebuild(n: int, path: str) -> str:
    """Return the report of a rebuilt index."""
    report = f"Rebuilt index.md with {n} entries at {path}"
    return report if n else f"No active memory files found. Nothing to index.\n{report}"


def report_validation(n_entries: int, n_files: int, differences: _Differences) -> tuple[str, bool]:
    """Return the report of how an index and the files agree, and whether they do."""
    if not any(differences):
        return f"Index is valid. {n_entries} entries match {n_files} files.", True
    headings = "Files NOT in index.md:", "Index entries with NO matching file:"
    lines = _list_differences(headings, differences)
    return "\n".join([*lines, "", "Index has mismatches. Run --rebuild to fix."]), False


def _list_differences(headings: tuple[str, str], differences: _Differences) -> Iterator[str]:
    for heading, sign, paths in zip(headings, "+-", differences, strict=True):
        if paths:
            yield from (heading, *(f"  {sign} {path}" for path in paths))


def report_matches(keyword: str, lines: Iterable[Line]) -> str:
    """Return the lines of an index that hold a keyword anywhere, in any case."""
    entries = render(lines).removeprefix(HEADER).split("\n")[:-1]
    matches = [text for text in entries if keyword.lower() in text.lower()]
    if not matches:
        return f"No matches found for '{keyword}'."
    return "\n".join([f"Found {len(matches)} match(es) for '{keyword}':", *_indent(matches)])


def report_health(
    records: Sequence[tuple[str, _Record]],
    differences: _Differences | None,
    now: datetime,
    noun: str = "memories",
) -> tuple[str, bool]:
    """Return the report of a store's records, each with its category in capitals, and its health.

    The differences are those between index and files, None where there is no index.
    """
    statuses = Counter(status_of(record) for _, record in records)
    active = Counter(display for display, record in records if status_of(record) == "active")
    counts = [f"{display}: {count}" for display, count in sorted(active.items())]
    counts.append(f"TOTAL (active): {active.total()}" if active else f"No active {noun} found.")
    counts += [
        f"{status.capitalize()}: {statuses[status]}"
        for status in ("retired", "archived")
        if statuses[status]
    ]
    heavy = sorted(
        (-count, f"[{display}] {_title(record)} (updated {count} times)")
        for display, record in records
        if isinstance(count := record.get("times_updated"), int) and count > _HEAVILY
    )
    retired = sorted(
        (days, f"[{display}] {_title(record)} ({max(days, 0)} day(s) ago)")
        for display, record in records
        if status_of(record) == "retired"
        and (at := parse_time(record.get("retired_at")))
        # A clock may be ahead by hours; it is not by years.
        and -1 <= (days := (now - at).days) <= _RECENT_DAYS
    )
    issues = []
    if differences is None:
        sync = ["WARNING: index.md does not exist!"]
    elif any(differences):
        missing, stale = map(len, differences)
        headings = f"FILES MISSING FROM INDEX ({missing}):", f"STALE INDEX ENTRIES ({stale}):"
        sync = [*_list_differences(headings, differences), "Run --rebuild to fix."]
    else:
        sync = [f"Index is in sync ({active.total()} entries)."]
    if differences is None or any(differences):
        issues.append("  - Index out of sync or missing")
    if heavy:
        issues.append(f"  - {len(heavy)} heavily-updated memories (consider reviewing)")
    sections = {
        "Entries by Category": counts,
        f"Heavily Updated (times_updated > {_HEAVILY})": [line for _, line in heavy] or ["None."],
        f"Recent Retirements (last {_RECENT_DAYS} days)": [line for _, line in retired]
        or ["None."],
        "Index Sync Status": sync,
        "Summary": ["Health: NEEDS ATTENTION", *issues] if issues else ["Health: GOOD"],
    }
    report = ["Memory Health Report", _RULE]
    for heading, lines in sections.items():
        report += ["", f"--- {heading} ---", *_indent(lines)]
    return "\n".join(report), not issues


def report_gc(days: int, deleted: Sequence[Aged], problems: Sequence[str]) -> str:
    """Return the report of retired records that were deleted for good."""
    lines = [f"Garbage Collection (grace period: {days} days)", _RULE, ""]
    if deleted:
        lines.append(f"Deleted {len(deleted)} file(s):")
        lines += [
            f"  DELETED {posixpath.basename(aged.path)} (retired {aged.days} days ago)"
            for aged in deleted
        ]
    else:
        lines.append("No retired memories past grace period.")
    if problems:
        lines += ["", f"Warnings/errors ({len(problems)}):", *_indent(problems)]
    return "\n".join(lines)


def _title(record: _Record) -> str:
    return clean_title(str(record.get("title") or record.get("id") or "untitled"))


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


# Records that have had their time


def find_due(
    records: Iterable[_Filed], now: datetime, grace_days: int
) -> tuple[list[Aged], list[str]]:
    """Return retired records past their days of grace, and what kept others from being judged."""
    aged: list[Aged] = []
    problems: list[str] = []
    for path, record in records:
        if status_of(record) != "retired":
            continue
        at = parse_time(record.get("retired_at"))
        if at is None:
            fault = "invalid" if record.get("retired_at") else "missing"
            problems.append(f"SKIP {posixpath.basename(path)}: {fault} retired_at timestamp")
        elif (now - at).days >= max(grace_days, 0):
            aged.append(Aged(path, record, (now - at).days))
    return aged, problems


def find_outlived(
    records: Iterable[_Filed], now: datetime, retention_days: Mapping[str, int]
) -> list[Aged]:
    """Return active records older than their category's retention; 0 keeps them for good."""
    aged: list[Aged] = []
    for path, record in records:
        limit = retention_days.get(str(record.get("category")), 0)
        at = parse_time(record.get("updated_at"))
        if limit > 0 and at and status_of(record) == "active" and (now - at) / _DAY > limit:
            aged.append(Aged(path, record, (now - at).days))
    return aged


def find_beyond_window(records: Iterable[_Filed], keep: int) -> list[_Filed]:
    """Return the active records beyond the newest few, oldest first."""

    def creation(filed: _Filed) -> tuple[datetime, str]:
        return parse_time(filed[1].get("created_at")) or _LATEST, str(filed[1].get("id", ""))

    active = sorted((it for it in records if status_of(it[1]) == "active"), key=creation)
    return active[: max(len(active) - keep, 0)]


def find_unique_content(record: _Record, others: Iterable[_Record]) -> list[str]:
    """Return the statements of a record that no other active one holds.

    One is held elsewhere when three in five of its words stand in a single other record.
    """
    known = [
        set(words("\n".join(_strings([it.get("title"), it.get("tags"), it.get("content")]))))
        for it in others
        if status_of(it) == "active"
        and (it.get("category"), it.get("id")) != (record.get("category"), record.get("id"))
    ]
    content = record.get("content")
    content = content if isinstance(content, dict) else {}
    # An outcome is one of four words, which every other session has too.
    values = [value for name, value in content.items() if name != "outcome"]
    return [
        statement
        for statement in dict.fromkeys(_strings(values))
        if (stated := set(words(statement)))
        and not any(5 * len(stated & known_words) >= 3 * len(stated) for known_words in known)
    ]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
