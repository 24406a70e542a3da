"""A bank examined: what is in it, and what a person may want to mend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from retain import paths
from retain.bank import Bank
from retain.capture import inbox
from retain.categories import Rules
from retain.errors import BadName, RetainError
from retain.model import Memory, Problem
from retain.records import searchable
from retain.sessions import FILE, published
from retain.typed.shape import is_record, record

__all__ = ["Findings", "examine"]

_FEW_LINKS: Final = 10_000  # no need to read them one by one to know that all count


class Findings(NamedTuple):
    """A bank at a glance."""

    memories: int
    size: int
    by_collection: Mapping[str, int]
    by_type: Mapping[str, int]
    by_status: Mapping[str, int]
    trashed: int
    proposals: int
    problems: tuple[Problem, ...]


def examine(bank: Bank, rules: Rules) -> Findings:
    """Read every memory once and count what is there; typed ones are checked by their rules."""
    problems = [Problem(bank.root, reason) for reason in rules.warnings]
    problems += _published(bank)
    by_collection: dict[str, int] = {}
    by_type: dict[str, int] = {}
    by_status: dict[str, int] = {}
    size = 0
    for memory in bank.memories(problems=problems):
        size += len(memory.data)
        _count(by_collection, memory.collection)
        _count(by_type, memory.type)
        _count(by_status, memory.status)
        faults = [*_faults(memory), *_broken_rules(memory, rules)]
        problems += [Problem(memory.path, reason) for reason in faults]
    return Findings(
        sum(by_collection.values()),
        size,
        by_collection,
        by_type,
        by_status,
        _trashed(bank, problems),
        _proposed(bank, problems),
        tuple(problems),
    )


def _published(bank: Bank) -> list[Problem]:
    """Chats that git tracks; in their own bank, a person may have wanted just that."""
    warning = "" if bank.place.scope == "global" else published.warning(bank.root)
    return [Problem(os.path.join(bank.root, FILE), warning)] if warning else []


def _trashed(bank: Bank, problems: list[Problem]) -> int:
    try:
        return len(bank.trashed())
    except RetainError as error:
        problems.append(Problem(bank.root, error.message))
        return 0


def _proposed(bank: Bank, problems: list[Problem]) -> int:
    unread: list[str] = []
    try:
        return len(inbox.proposals(bank.root, problems=unread))
    except RetainError as error:
        unread.append(error.message)
        return 0
    finally:
        problems += [Problem(os.path.join(bank.root, inbox.FOLDER), reason) for reason in unread]


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _faults(memory: Memory) -> list[str]:
    """What a person may want to mend in a memory that can be read."""
    faults = [memory.problem] if memory.problem else []
    try:
        paths.check_id(memory.id)
    except BadName as error:
        faults.append(f"its name cannot be used: {error.message}")
    stated = memory.meta.get("id")
    if stated is not None and paths.key(str(stated)) != paths.key(memory.id):
        faults.append(f"its frontmatter says id: {stated}, but the file's name is the id")
    for key in ("created_at", "updated_at"):
        value = memory.text(key)
        if value and not _is_time(value):
            faults.append(f"{key} is not a date: {value}")
    return [*faults, *_uncounted(memory)]


def _uncounted(memory: Memory) -> list[str]:
    """What the index leaves out of a memory that has more links than it takes."""
    if memory.data.count(b"[[") < _FEW_LINKS:
        return []
    from retain.links import MOST, count  # many patterns, which hardly a bank needs here

    many = count(searchable(memory))
    return [f"read only in part: of its {many:,} links the first {MOST:,} count"] * (many > MOST)


def _broken_rules(memory: Memory, rules: Rules) -> list[str]:
    """In what a typed memory that someone wrote by hand differs from its schema."""
    kind = rules.category(memory.type)
    if not is_record(memory) or kind is None:
        return _nearly_typed(memory, rules)
    from retain.schema import faults

    found = faults(record(memory), kind.schema)
    return [f"{one.field}: expected {one.expected}; got {one.got}" for one in found]


def _nearly_typed(memory: Memory, rules: Rules) -> list[str]:
    """What keeps a memory from being the typed one that it was surely meant to be."""
    if memory.problem or "content" not in memory.meta:
        return []
    if rules.category(memory.type):
        return ["content: expected the fields of its category; got text"]
    import difflib

    near = difflib.get_close_matches(memory.type, rules.categories, 1, 0.8)
    return [f"type {memory.type!r} is no category; did you mean {near[0]}?"] if near else []


def _is_time(text: str) -> bool:
    from datetime import datetime

    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
