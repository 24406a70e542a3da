"""Check a file that a tool wrote into a bank directly; rename it if it is no valid memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import time

from retain.bank.bank import Bank
from retain.bank.files import Directory
from retain.config import Config, rules
from retain.errors import Conflict, RetainError
from retain.hooks import Answer, Call
from retain.locate import BankLocation
from retain.memory import KINDS, SUFFIXES, Memory, check_collection
from retain.records.codec import is_record, load_record
from retain.records.schema import check
from retain.text.sanitize import escape_markup


def answer(call: Call, path: str, place: BankLocation, config: Config) -> Answer:
    """Warn about a valid memory; rename an invalid one and tell the agent."""
    if not os.path.lexists(path) or os.path.isdir(path):  # a bank is no file that was written
        return Answer(reason=f"There is no file {path}.")
    note = f"WARNING: Write to memory file bypassed PreToolUse guard: {path}\n"
    if call.is_late():
        return Answer(err=f"{note}WARNING: There was no time to look at it.\n")
    problem = _find_problem(path, place, config)
    if not problem:
        valid = f"WARNING: File is valid but was written directly (bypassed guard): {path}\n"
        return Answer(err=note + valid)
    result = f"It is still at {path}."
    is_own = os.path.dirname(path) == place.root and KINDS[place.kind].keeps(os.path.basename(path))
    # What is never read as a memory stays: without its settings a bank would be another one.
    if path.endswith(SUFFIXES) and not is_own:
        try:
            result = f"File quarantined to {_put_aside(path, call.is_trial)}."
        except (RetainError, OSError) as error:
            note += f"WARNING: {path} could not be put aside: {error}\n"
    advice = "Use `retain record write`, `retain put` or `retain update` instead."
    reason = f"{problem} {result} {advice}"
    reply = call.reply({}, decision="block", reason=reason)
    return reply._replace(err=f"{note}ERROR: {reason}\n")


def _put_aside(path: str, is_trial: bool) -> str:
    """Rename a file to NAME.invalid.SECONDS and return the new name; a trial only says it."""
    folder, name = os.path.split(path)
    with Directory.open(folder) as parent:
        for second in itertools.count(int(time.time())):
            aside = f"{name}.invalid.{second}"
            with contextlib.suppress(Conflict):
                if not is_trial:
                    parent.rename(name, aside)
                break
    return aside


def _find_problem(path: str, place: BankLocation, config: Config) -> str:
    """Say why a file is no valid memory of its bank; empty if it is one."""
    name = os.path.basename(path)
    if not path.endswith(".json" if place.kind == "claude" else SUFFIXES):
        return f"Direct write to a file that is no memory blocked: {name}."
    try:
        bank = Bank(place, max_bytes=config.number("memory.max_bytes"))
        collection = os.path.dirname(os.path.relpath(path, place.root))
        if read := bank.read_file(collection, name):
            _check(read[0], place, config)
    except (RetainError, OSError) as error:
        return f"Schema validation failed: {escape_markup(' '.join(str(error).split())[:500])}."
    return ""


def _check(memory: Memory, place: BankLocation, config: Config) -> None:
    """Raise for a typed memory that breaks its category's rules, or stands in another's folder."""
    if memory.problem:
        raise RetainError(memory.problem)
    check_collection(memory.collection)
    if not is_record(memory) and place.kind != "claude":
        return  # a plain memory, maybe beside the typed ones
    record, bank_rules = load_record(memory), rules(config, place.root)
    category = bank_rules.of_folder(memory.collection)
    if category is not None and record.get("category") != category.name:
        raise RetainError(
            f"category {record.get('category')!r} does not match the folder {category.folder}"
        )
    check(record, bank_rules)
