"""What was written into a bank past Retain: a memory it can be, or it is put aside."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from retain import paths
from retain.codec import codec
from retain.errors import Conflict, RetainError
from retain.fsio import Directory
from retain.guard.characters import escaped
from retain.hooks.call import Answer, Call
from retain.model import Memory

if TYPE_CHECKING:
    from retain.config import Config
    from retain.place import Place

__all__ = ["answer"]


def answer(call: Call, path: str, place: Place, config: Config) -> Answer:
    """Say nothing of a memory that is in order; put aside what is none, and say so."""
    note = f"WARNING: Write to memory file bypassed PreToolUse guard: {path}\n"
    if not os.path.lexists(path) or os.path.isdir(path):  # a bank is no file that was written
        return Answer()
    if call.is_late():
        return Answer(err=f"{note}WARNING: There was no time to look at it.\n")
    problem = _problem(path, place, config)
    if not problem:
        valid = f"WARNING: File is valid but was written directly (bypassed guard): {path}\n"
        return Answer(err=note + valid)
    where, trouble = _put_aside(path, place)
    note += trouble
    reason = (
        f"{problem} {where} Use `retain record write`, `retain put` or `retain update` instead."
    )
    return Answer.of({"decision": "block", "reason": reason}, f"{note}ERROR: {reason}\n")


def _put_aside(path: str, place: Place) -> tuple[str, str]:
    """Where a file is now, and what kept it from being moved.

    What is never read as a memory stays: without its settings a bank would be another one.
    """
    still = f"It is still at {path}."
    is_own = os.path.dirname(path) == place.root and paths.KINDS[place.kind].keeps(
        os.path.basename(path)
    )
    if is_own or not path.endswith(paths.SUFFIXES):
        return still, ""
    try:
        return f"File quarantined to {_renamed(path)}.", ""
    except (RetainError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return still, f"WARNING: {path} could not be put aside: {reason}\n"


def _renamed(path: str) -> str:
    """Give a file a name that says what is wrong, and when; one put aside before keeps its own."""
    folder, name = os.path.split(path)
    second = int(time.time())
    with Directory.open(folder) as parent:
        while True:
            aside = f"{name}.invalid.{second}"
            try:
                parent.rename(name, aside)
            except Conflict:
                second += 1
            else:
                return aside


def _problem(path: str, place: Place, config: Config) -> str:
    """What keeps a file from being a memory of its bank; empty if nothing does."""
    name, most = os.path.basename(path), config.number("memory.max_bytes")
    if not path.endswith(".json" if place.kind == "claude" else paths.SUFFIXES):
        return f"Direct write to a file that is no memory blocked: {name}."
    try:
        with Directory.open(os.path.dirname(path)) as folder:
            data = folder.read(name, most)
        _check(_memory(path, place, data), place, config)
    except (RetainError, OSError) as error:
        return f"Schema validation failed: {escaped(' '.join(str(error).split())[:500])}."
    return ""


def _memory(path: str, place: Place, data: bytes) -> Memory:
    document = codec(path).parse(data)
    if document.problem:
        raise RetainError(document.problem)
    inside = os.path.relpath(path, place.root)
    stem = os.path.basename(path).rpartition(".")[0]
    return Memory(
        id=stem,
        collection=os.path.dirname(inside),
        path=path,
        meta=document.meta,
        body=document.body,
        data=data,
    )


def _check(memory: Memory, place: Place, config: Config) -> None:
    """Raise for a typed memory that breaks its category's rules, or stands in another's folder."""
    from retain.config import rules
    from retain.typed.ledger import checked
    from retain.typed.shape import is_record, record

    paths.check_collection(memory.collection)
    kept = rules(config, place.root)
    category = kept.of_folder(memory.collection)
    if category is None and not is_record(memory):
        if place.kind == "claude":
            raise RetainError("cannot determine category")
        return
    if place.kind != "claude" and not is_record(memory):
        return  # a plain memory beside the typed ones
    wanted = record(memory)
    if category is not None and wanted.get("category") != category.name:
        raise RetainError(
            f"category {wanted.get('category')!r} does not match the folder {category.folder}"
        )
    checked(wanted, kept)
