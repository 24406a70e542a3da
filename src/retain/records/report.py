"""What is said about a store of records.

The texts are those of the tool whose stores are read here, word for word, for scripts that look
for them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from retain.bank.index_md import HEADER, Line, clean_title, render
from retain.memory import Memory, parse_time
from retain.records.codec import load_record
from retain.text.tokens import words

NO_INDEX: Final = "ERROR: index.md does not exist. Run --rebuild first."

_NONE_DUE: Final = "No retired memories past grace period."
_RULE: Final = "=" * 50
_HEAVILY: Final = 5
_RECENT_DAYS: Final = 7

Differences = tuple[Sequence[str], Sequence[str]]  # files missing from index.md, stale entries


class Aged(NamedTuple):
    """A memory that has had its time, and how many whole days ago that began."""

    memory: Memory
    days: int


# Texts


def report_rebuild(n: int, path: str) -> str:
    """Return the report of a rebuilt index."""
    report = f"Rebuilt index.md with {n} entries at {path}"
    return report if n else f"No active memory files found. Nothing to index.\n{report}"


def report_validation(n_entries: int, n_files: int, differences: Differences) -> tuple[str, bool]:
    """Return the report of how an index and the files agree, and whether they do."""
    if not any(differences):
        return f"Index is valid. {n_entries} entries match {n_files} files.", True
    headings = "Files NOT in index.md:", "Index entries with NO matching file:"
    lines = _list_differences(headings, differences)
    return "\n".join([*lines, "", "Index has mismatches. Run --rebuild to fix."]), False


def _list_differences(headings: tuple[str, str], differences: Differences) -> Iterator[str]:
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
    memories: Sequence[Memory], differences: Differences | None, noun: str = "memories"
) -> tuple[str, bool]:
    """Return the report of a store's records and whether all is well.

    The differences are those between index and files, None where there is no index.
    """
    statuses = Counter(memory.status for memory in memories)
    active = Counter(memory.type.upper() for memory in memories if memory.status == "active")
    counts = [f"{display}: {count}" for display, count in sorted(active.items())]
    counts.append(f"TOTAL (active): {active.total()}" if active else f"No active {noun} found.")
    shelved = [status for status in ("retired", "archived") if statuses[status]]
    counts += [f"{status.capitalize()}: {statuses[status]}" for status in shelved]
    heavy, retired = [], []
    for memory in memories:
        name = f"[{memory.type.upper()}] {clean_title(memory.title)}"
        count, days = memory.meta.get("times_updated"), days_since(memory, "retired_at")
        if isinstance(count, int) and count > _HEAVILY:
            heavy.append(f"{name} (updated {count} times)")
        # A clock may be ahead by hours; it is not by years.
        if memory.status == "retired" and days is not None and -1 <= days <= _RECENT_DAYS:
            retired.append(f"{name} ({max(days, 0)} day(s) ago)")
    issues = []
    if differences is None or any(differences):
        issues.append("  - Index out of sync or missing")
    if heavy:
        issues.append(f"  - {len(heavy)} heavily-updated memories (consider reviewing)")
    sections = {
        "Entries by Category": counts,
        f"Heavily Updated (times_updated > {_HEAVILY})": heavy or ["None."],
        f"Recent Retirements (last {_RECENT_DAYS} days)": retired or ["None."],
        "Index Sync Status": _report_sync(active.total(), differences),
        "Summary": ["Health: NEEDS ATTENTION", *issues] if issues else ["Health: GOOD"],
    }
    report = ["Memory Health Report", _RULE]
    for heading, lines in sections.items():
        report += ["", f"--- {heading} ---", *_indent(lines)]
    return "\n".join(report), not issues


def _report_sync(count: int, differences: Differences | None) -> list[str]:
    if differences is None:
        return ["WARNING: index.md does not exist!"]
    if not any(differences):
        return [f"Index is in sync ({count} entries)."]
    missing, stale = map(len, differences)
    headings = f"FILES MISSING FROM INDEX ({missing}):", f"STALE INDEX ENTRIES ({stale}):"
    return [*_list_differences(headings, differences), "Run --rebuild to fix."]


def report_gc(days: int, deleted: Sequence[Aged], problems: Sequence[str]) -> str:
    """Return the report of retired records that were deleted for good."""
    lines = [f"Garbage Collection (grace period: {days} days)", _RULE, ""]
    lines.append(f"Deleted {len(deleted)} file(s):" if deleted else _NONE_DUE)
    for memory, age in deleted:
        lines.append(f"  DELETED {os.path.basename(memory.path)} (retired {age} days ago)")
    if problems:
        lines += ["", f"Warnings/errors ({len(problems)}):", *_indent(problems)]
    return "\n".join(lines)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def days_since(memory: Memory, field: str) -> int | None:
    """Return how many whole days ago a time of a memory was; None if it cannot be read."""
    at = parse_time(memory.text(field))
    return None if at is None else (datetime.now(UTC) - at).days


def find_unique_content(memory: Memory, others: Iterable[Memory]) -> list[str]:
    """Return the statements of a record whose words no other active one has all of."""
    known = [
        set(words(other.data.decode("utf-8", "replace")))
        for other in others
        if other.path != memory.path and other.status == "active"
    ]
    content = load_record(memory).get("content")
    content = content if isinstance(content, dict) else {}
    # An outcome is one of four words, which every other session has too.
    values = [value for name, value in content.items() if name != "outcome"]
    return [
        statement
        for statement in dict.fromkeys(_strings(values))
        if (stated := set(words(statement))) and not any(stated <= found for found in known)
    ]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
