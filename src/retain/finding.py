"""Which memories a door means: by a name, by a brief's handle, or by what they are like."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from retain import filters, paths
from retain.bank import Bank
from retain.errors import Ambiguous, NotFound
from retain.model import Memory, Problem
from retain.workspace import Opened, Workspace

__all__ = ["SORTS", "found", "listed", "ours", "writable"]

SORTS: Final = ("collection", "id", "title", "type", "status", "created", "updated")

_HANDLE: Final = re.compile(r"m:[0-9a-f]{4,64}")  # as a brief calls a memory
_SCOPES: Final = {"project": "0", "bank": "0", "global": "1"}  # the project's own come first


def found(workspace: Workspace, ref: str, collection: str | None) -> tuple[Memory, Opened]:
    """A memory and the bank it is in, or NotFound with the names that are like it."""
    readable = workspace.banks()
    if _HANDLE.fullmatch(ref):
        ref = _named(ref, readable)
    if ref.startswith(paths.GLOBAL):
        ref = ref.removeprefix(paths.GLOBAL)
        readable = [one for one in readable if one.bank.place.scope == "global"] or readable
    for opened in readable:
        with contextlib.suppress(NotFound):
            return opened.bank.find(ref, collection), opened
    _refuse_merged(ref, collection, readable)
    return readable[0].bank.find_or_suggest(ref, collection), readable[0]


def ours(workspace: Workspace, ref: str, collection: str | None = None) -> Memory:
    """A memory of the bank in force, which alone is changed and drawn."""
    if _HANDLE.fullmatch(ref):
        ref = _named(ref, [workspace.writable])
    return writable(workspace, ref, collection)[1]


def writable(workspace: Workspace, ref: str, collection: str | None) -> tuple[Bank, Memory]:
    """The bank in force and the memory in it; a better answer for one that is in the other."""
    bank = workspace.writable.bank
    if ref.startswith(paths.GLOBAL):
        ref = ref.removeprefix(paths.GLOBAL)
        if workspace.place.scope != "global":
            raise NotFound(
                f"{ref!r} is in your global bank, and writes go to {bank.root}",
                unchanged="Nothing was changed.",
                hint="Change it with --global.",
            )
    try:
        return bank, bank.find(ref, collection)
    except NotFound:
        for other in workspace.banks()[1:]:
            if other.bank.holds(ref, collection):
                raise NotFound(
                    f"{ref!r} is not in {bank.root}",
                    unchanged="Nothing was changed.",
                    hint=f"It is in your global bank ({other.bank.root}): add --global.",
                ) from None
        _refuse_merged(ref, collection, [workspace.writable])
        return bank, bank.find_or_suggest(ref, collection)


def _named(handle: str, banks: Sequence[Opened]) -> str:
    """The memory that a brief called by a handle."""
    from retain import brief

    length = len(handle) - len("m:")
    found = dict.fromkeys(
        brief.scoped(f"{collection}/{name}", opened.bank.place.scope)
        for opened in banks
        for collection, name in opened.bank.names()
        if handle
        == brief.handle(f"{collection}/{name}".removeprefix("/"), length, opened.bank.place.scope)
    )
    if not found:
        raise NotFound(
            f"no memory has the handle {handle}",
            hint="It may be moved or deleted by now; `retain search` finds it by its text.",
        )
    if len(found) > 1:
        raise Ambiguous(
            f"{handle} stands for several memories: {', '.join(found)}",
            unchanged="Nothing was changed.",
            hint="Name the one you mean by its id.",
        )
    return next(iter(found))


def _refuse_merged(ref: str, collection: str | None, banks: Iterable[Opened]) -> None:
    """Say where a memory went that is gone because it was merged."""
    for opened in banks:
        if heir := opened.bank.merged_into(ref, collection):
            raise NotFound(
                f"{ref} was merged into {heir}",
                hint=f"See: retain get {heir}",
                details={"merged_into": heir},
            )


def listed(
    workspace: Workspace,
    *,
    collection: str | None = None,
    conditions: Iterable[str] = (),
    kind: str = "",
    status: str = "",
    sort: str = "collection",
    reverse: bool = False,
    problems: list[Problem] | None = None,
) -> list[Memory]:
    """Memories that meet every condition; retired ones only when asked for."""
    wanted = [filters.parse(one) for one in conditions]
    collection = None if collection is None else paths.check_collection(collection)
    found = [
        memory
        for opened in workspace.banks()
        for memory in opened.bank.memories(collection, problems)
        if (not kind or memory.type == kind)
        and _has_status(memory, status)
        and filters.matches(memory, wanted)
    ]
    return sorted(found, key=_sort_key(sort), reverse=reverse)


def _has_status(memory: Memory, wanted: str) -> bool:
    if wanted:
        return wanted in ("all", memory.status)
    return memory.status != "retired"


def _sort_key(sort: str) -> Callable[[Memory], tuple[str, ...]]:
    if sort in ("created", "updated"):
        field = f"{sort}_at"
        return lambda memory: (
            memory.text(field) or memory.text("created_at"),
            memory.collection,
            memory.id,
        )
    if sort == "collection":
        return lambda memory: (_SCOPES[memory.scope], memory.collection, memory.id)
    return lambda memory: (str(getattr(memory, sort)).casefold(), memory.collection, memory.id)
