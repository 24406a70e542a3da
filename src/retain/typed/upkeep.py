"""The typed memories of a bank as a whole: what is due to go, what changed, how they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from retain.categories import Category, Rules
from retain.errors import RetainError, UsageError
from retain.listing import Line, differences, parse
from retain.model import Memory
from retain.typed import candidate, reports
from retain.typed.ledger import Ledger, at_memory
from retain.typed.reports import Aged
from retain.typed.shape import is_record, record

__all__ = [
    "Change",
    "Collected",
    "changes",
    "chosen",
    "gc",
    "health",
    "lines",
    "listed",
    "unfiled",
    "unlisted",
]

_ENOUGH, _MOST = 3, 10  # the points that a hit of a search is given for its score of 0 to 1

Search = Callable[[str, str], Sequence[tuple[str, float]]]  # category and words to refs and scores


class Change(NamedTuple):
    """One entry of a record's own history."""

    date: str
    memory: Memory
    summary: str
    field: str
    old_value: object
    new_value: object


class Collected(NamedTuple):
    """What a collection of the outlived did, or would do."""

    deleted: Sequence[Aged]
    retired: Sequence[Aged]  # because their category keeps nothing longer
    problems: Sequence[str]
    commit: str = ""
    warnings: tuple[str, ...] = ()


def gc(ledger: Ledger, *, dry_run: bool = False) -> Collected:
    """Remove what has been retired for longer than the grace period.

    What a category keeps only for a while is retired first, so that it too can be brought back
    for as long. Files go to the trash, unless the rules say that they are not kept.
    """
    rules, found = ledger.rules, {memory.path: (memory, it) for memory, it in ledger.everything()}
    filed = [(path, it) for path, (_, it) in found.items()]
    typed = [(path, it) for path, (memory, it) in found.items() if is_record(memory)]
    kept_for = {name: kind.retention_days for name, kind in rules.categories.items()}
    outlived = reports.outlived(typed, _now(), kept_for)
    doomed, problems = reports.due(filed, _now(), rules.grace_period_days)
    if dry_run:
        return Collected(doomed, outlived, problems)
    retired, deleted = [], []
    for one in outlived:
        memory = found[one.path][0]
        try:
            ledger.retire(at_memory(memory), f"older than retention_days ({kept_for[memory.type]})")
            retired.append(one)
        except RetainError as error:
            problems.append(f"ERROR retiring {memory.ref}: {error.message}")
    for one in doomed:
        try:
            _remove(ledger, found[one.path][0])
            deleted.append(one)
        except RetainError as error:
            problems.append(reports.undeleted(one.path, error.message))
    commit = ""
    warnings: tuple[str, ...] = ()
    if deleted:
        gone = dict.fromkeys((one.path for one in deleted), None)
        commit, warnings = ledger.settled(gone, f"gc {len(deleted)} retired memories")
    return Collected(deleted, retired, problems, commit, warnings)


def _remove(ledger: Ledger, memory: Memory) -> None:
    trashed = ledger.bank.delete(memory.address, expect=memory.hash)
    if not ledger.rules.archive_retired:
        ledger.bank.discard(trashed)


def changes(ledger: Ledger, ref: str = "", since: str = "") -> list[Change]:
    """What happened to typed memories, the newest first."""
    memories = [ledger.bank.find(ref)] if ref else [memory for memory, _ in ledger.everything()]
    found = [
        change
        for memory in memories
        if is_record(memory)
        for change in _history(memory)
        if not since or _moment(change.date) >= _moment(since)
    ]
    # Reversed afterwards: of two entries of one second the later one comes first.
    found.sort(key=lambda one: _moment(one.date))
    return found[::-1]


def _moment(text: str) -> datetime:
    """When an entry was made, in UTC unless it says otherwise; long ago if it does not say."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _history(memory: Memory) -> Iterator[Change]:
    entries = record(memory).get("changes")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield Change(
                str(entry.get("date", "")),
                memory,
                str(entry.get("summary", "")),
                str(entry.get("field") or ""),
                entry.get("old_value"),
                entry.get("new_value"),
            )


def lines(ledger: Ledger) -> list[Line]:
    """The typed memories in force, as lines of a listing."""
    if ledger.bank.kind.listing:
        return ledger.bank.lines()
    return [
        Line(memory.type.upper(), memory.title, ledger.named(memory.path), memory.tags)
        for memory, _ in ledger.everything()
        if is_record(memory) and memory.status == "active"
    ]


def unlisted(ledger: Ledger) -> tuple[list[str], list[str]] | None:
    """Files that the store's own list lacks and entries without a file; None without a list."""
    if not ledger.bank.kind.listing:
        return [], []  # the bank's index is brought up to date by whoever reads it
    text = ledger.bank.listed()
    return None if text is None else differences(text, lines(ledger))


def listed(ledger: Ledger) -> list[Line] | None:
    """The entries of the store's own list, as they stand there; None without a list."""
    if not ledger.bank.kind.listing:
        return lines(ledger)
    text = ledger.bank.listed()
    return None if text is None else parse(text)


def health(ledger: Ledger) -> tuple[str, bool]:
    """A report on the typed memories, and whether all is well."""
    found = [(memory.type.upper(), it) for memory, it in ledger.everything() if is_record(memory)]
    return reports.health(found, unlisted(ledger), _now())


def chosen(
    ledger: Ledger, category: str, news: str, event: str | None, search: Search
) -> dict[str, Any]:
    """Which record new information belongs to, and what may be done with it."""
    kind = _kind(ledger.rules, category)
    found = {
        ledger.named(memory.path): (memory, it)
        for memory, it in ledger.everything()
        if is_record(memory) and memory.type == category and memory.status == "active"
    }
    entries = [
        candidate.Entry(path, memory.title, memory.tags, category)
        for path, (memory, _) in found.items()
    ]
    best = _best(ledger, entries, category, news, search)
    excerpt = candidate.excerpt(found[best[0].path][1]) if best else None
    return _verdict(kind, event, best, excerpt)


def unfiled(rules: Rules, category: str, event: str | None) -> dict[str, Any]:
    """The same of a store that is not there yet."""
    return _verdict(_kind(rules, category), event)


def _kind(rules: Rules, category: str) -> Category:
    kind = rules.category(category)
    if kind is None:
        known = ", ".join(rules.categories)
        raise UsageError(f"there is no category {category!r}", hint=f"There are: {known}.")
    return kind


def _verdict(
    kind: Category,
    event: str | None,
    best: tuple[candidate.Entry, int] | None = None,
    excerpt: dict[str, Any] | None = None,
) -> dict[str, Any]:
    entry, points = best or (None, 0)
    verdict = candidate.verdict(kind.name, entry, event, points, excerpt)
    if not kind.auto_capture:
        hint = f"auto_capture is off for {kind.name}; save only what was asked for"
        verdict["hints"].append(hint)
    return verdict


def _best(
    ledger: Ledger,
    entries: Sequence[candidate.Entry],
    category: str,
    news: str,
    search: Search,
) -> tuple[candidate.Entry, int] | None:
    strategy = ledger.rules.match_strategy
    if strategy != "hybrid":
        return candidate.select(entries, category, news, strategy)
    by_path = {entry.path: entry for entry in entries}
    found = search(category, news)
    for path, score in found:
        entry = by_path.get(ledger.named(path))
        # That an answer is a sure one says nothing of what stands far below its best.
        if entry and score >= found[0][1] / 2:
            return entry, _ENOUGH + round(score * (_MOST - _ENOUGH))
    return None


def _now() -> datetime:
    return datetime.now(UTC)
