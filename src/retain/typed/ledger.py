"""Typed memories in a bank: every rule applied, every change kept, nothing half done."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from retain.bank import Bank, now
from retain.categories import Category, Rules
from retain.codec import codec
from retain.errors import BadName, Conflict, NotFound, RecordError, RetainError, UsageError
from retain.model import Memory, Written
from retain.paths import key
from retain.typed import lifecycle, merging, reports, sheets
from retain.typed.fixing import Record, fixed
from retain.typed.refusing import Block, refusal
from retain.typed.shape import data, is_record, new, record

__all__ = ["Ledger", "Outcome", "Target", "at_memory", "checked", "in_step"]

Notes = tuple[str, ...]
Settle = Callable[[Mapping[str, bytes | None], str], tuple[str, Notes]]


class Target(NamedTuple):
    """Where a record is or shall be, and what the caller calls it."""

    collection: str
    name: str
    suffix: str
    called: str

    @property
    def address(self) -> str:
        return f"{self.collection}/{self.name}"


class Outcome(NamedTuple):
    """What a step did to a record."""

    status: str  # created, updated, retired, already_retired ...
    memory: Memory
    notes: tuple[str, ...] = ()  # what was mended in what was handed in
    warnings: tuple[str, ...] = ()
    renamed_from: str = ""
    commit: str = ""


class Ledger:
    """The typed memories of one bank."""

    def __init__(self, bank: Bank, rules: Rules, author: str, settle: Settle) -> None:
        self.bank, self.rules, self._author, self._settle = bank, rules, author, settle

    # Steps of a record's life

    def create(
        self,
        category: str,
        at: Target,
        given: Record,
        *,
        force: bool = False,
        author: str = "",
        source: str = "",
    ) -> Outcome:
        """Store a new record; what is in force under that name is never written over unasked."""
        kind = self._enabled(category, force)
        mended, notes = fixed(given, is_new=True, now=now())
        wanted, more = lifecycle.created(mended, category, at.name or "untitled", now())
        if source and at.suffix == ".json":  # which has no other place for it
            wanted["changes"] = [*(wanted.get("changes") or ()), _captured(source)]
        self._check(wanted)
        if not at.name:  # said last: which fields are missing says more
            hint = "Give it a title or an id."
            raise UsageError("there is no text to make a title from", hint=hint)
        if not force:
            self._refuse_full(kind)
        text = new(wanted, at.suffix, author or self._author, source)
        written = self._placed(at, wanted, text, force, source)
        done = self._done("created", written, f"create {written.memory.ref}", [*notes, *more])
        odd = [] if key(at.collection) == key(kind.folder) else [_astray(kind)]
        windowed = self._windowed(kind, written.memory)
        return done._replace(warnings=(*done.warnings, *odd, *windowed))

    def _placed(self, at: Target, wanted: Record, text: bytes, force: bool, source: str) -> Written:
        try:
            return self.bank.create(at.collection, at.name, text, suffix=at.suffix)
        except Conflict:
            old = self.bank.find(at.address)
            self._readable(old, at)
            if not is_record(old) or not old.path.endswith(at.suffix):
                fix = "Choose another name; a memory of another kind has this one."
                lines = [("target", at.called), ("record_status", old.status), ("fix", fix)]
                raise refusal(Block("CREATE_ERROR", lines)) from None
            lifecycle.may_create_over(record(old), at.called, now(), force=force)
            # Another may have written since: over that one nobody has said a word.
            return self._changed(
                at, lambda it: _replacing(it, wanted, source), "replaced", old.hash
            )

    def update(
        self, at: Target, given: Record, *, expect: str = "", puts_aside: bool = False
    ) -> Outcome:
        """Change a record within the rules; the file's hash, if given, must be the one read.

        What comes too late is lost to a caller who has no other copy, unless it is put aside.
        """
        newer: list[str] = []
        notes: list[str] = []
        warnings: list[str] = []
        titles: list[str] = []

        def edit(memory: Memory) -> bytes:
            old = self._readable(memory, at)
            newer[:] = _newer(memory, expect)
            if newer:
                return memory.data
            mended, fixes = fixed(given, is_new=False, now=now())
            wanted, odd = merging.merged(old, mended, now=now(), exists=self._exists)
            self._check(wanted)
            notes[:], warnings[:] = fixes, odd
            titles[:] = [str(one.get("title") or "") for one in (old, wanted)]
            return data(_named(memory, wanted), memory)

        self._found(at, "UPDATE_ERROR", "Use --action create instead.")
        written = self._changed(at, edit, "updated")
        after = written.memory
        if newer:
            raise self._outdated(at, after, expect, newer[0], given if puts_aside else None)
        slug = merging.new_slug(titles[0], titles[1], after.id)
        done = self._done("updated", written, f"update {after.ref}", notes, warnings)
        return self._renamed(done, slug) if slug else done

    def revise(self, at: Target, content: Record, heads: Record, *, expect: str = "") -> Outcome:
        """Change some fields of a record as a person does; all that is not named stays as it is."""
        notes: list[str] = []

        def edit(memory: Memory) -> bytes:
            old = self._readable(memory, at)
            there = old.get("content")
            wanted = sheets.revised(there if isinstance(there, dict) else {}, content)
            mended, fixes = fixed({**old, **heads}, is_new=False, now=now())
            notes[:] = [note for note in fixes if note.partition(":")[0] in heads]
            given = {name: mended[name] or None for name in heads}  # without a title: no line of it
            return in_step(memory, data({**old, **given, "content": wanted}, memory), self.rules)

        written = self.bank.change(at.address, edit, expect=expect, status="updated")
        if written.status == "unchanged":
            return Outcome("unchanged", written.memory)
        return self._done("updated", written, f"update {written.memory.ref}", notes)

    def _renamed(self, done: Outcome, slug: str) -> Outcome:
        """The record under the name its new title asks for, if it may have that."""
        before = done.memory
        try:
            moved = self.bank.move(before.address, to_id=slug).memory
        except (Conflict, BadName) as error:
            why = "is taken" if isinstance(error, Conflict) else "no file may have"
            note = f"the new title suggests the id {slug!r}, which {why}; kept {before.id!r}"
            return done._replace(warnings=(*done.warnings, note))
        changes = {before.path: None, **self.follow(before.ref, moved)}
        commit, notes = self._settle(changes, f"rename {before.ref} to {moved.ref}")
        return done._replace(
            memory=self.bank.find(moved.address),
            renamed_from=before.id,
            commit=commit or done.commit,
            warnings=(*done.warnings, *notes),
        )

    def follow(self, old_ref: str, moved: Memory) -> dict[str, bytes | None]:
        """Note that a memory has another name now, there and where others name it."""
        if is_record(moved):
            entry = lifecycle.change_entry(now(), f"Moved from {old_ref}", "id", old_ref, moved.ref)
            moved = self.bank.change(moved.address, lambda it: _with_entry(it, entry)).memory
        changes: dict[str, bytes | None] = {moved.path: moved.data}
        for name in ("superseded_by", "supersedes"):
            # Who replaces another one is named by it, and names it in turn.
            for ref in _relations(moved, name):
                with contextlib.suppress(RetainError):
                    rename = partial(_renaming, old_ref=old_ref, new_ref=moved.ref)
                    after = self.bank.change(ref, rename).memory
                    changes[after.path] = after.data
        return changes

    def retire(self, at: Target, reason: str = "") -> Outcome:
        """Take a record out of force; `restore` brings it back until it is collected."""
        return self._step(at, "retired", "DELETE_ERROR", lifecycle.retired, reason)

    def archive(self, at: Target, reason: str = "") -> Outcome:
        """Put a record on a shelf: kept for good, out of the way."""
        return self._step(at, "archived", "ARCHIVE_ERROR", lifecycle.archived, reason)

    def unarchive(self, at: Target) -> Outcome:
        """Take a record off the shelf."""
        return self._step(at, "unarchived", "UNARCHIVE_ERROR", lifecycle.unarchived)

    def restore(self, at: Target) -> Outcome:
        """Put a retired record in force again."""
        return self._step(at, "restored", "RESTORE_ERROR", lifecycle.restored)

    def _step(
        self, at: Target, status: str, code: str, step: Callable[..., Record | None], *rest: str
    ) -> Outcome:
        """One step of the lifecycle; a record that has taken it already is left as it is."""

        def edit(memory: Memory) -> bytes:
            old = self._readable(memory, at)
            wanted = step(old, at.called, *rest, now())
            if wanted is None:
                return memory.data
            return data(_named(memory, _own(memory, old, wanted)), memory)

        self._found(at, code, "Check the name: `retain list --status all` shows what there is.")
        written = self._changed(at, edit, status)
        if written.status == "unchanged":
            return Outcome(f"already_{written.memory.status}", written.memory)
        return self._done(status, written, f"{status} {written.memory.ref}")

    def supersede(self, old: Target, by: Target) -> tuple[Outcome, Outcome]:
        """Say that one memory has taken another's place; both remember it."""
        before = self._found(old, "UPDATE_ERROR", "Name the memory that is replaced.")
        after = self._found(by, "UPDATE_ERROR", "Store the one that replaces it first.")
        if before.path == after.path:
            raise UsageError("a memory cannot take its own place", hint="Name two memories.")
        for at, memory in ((old, before), (by, after)):
            self._refuse_mute(at, memory)
        self._refuse_circle(before, after)
        texts = [
            (before, _related(before, "superseded_by", after.ref, lifecycle.superseded)),
            (after, _related(after, "supersedes", before.ref, lifecycle.superseding)),
        ]
        if all(memory.data == text for memory, text in texts):
            return Outcome("already_superseded", before), Outcome("unchanged", after)
        # Both or neither: a reader never meets one that names a successor unaware of it.
        one, other = self.bank.place_all((), texts)
        what = f"supersede {before.ref} by {after.ref}"
        changes = {one.path: one.data, other.path: other.data}
        commit, warnings = self._settle(changes, what)
        return (
            Outcome("superseded", one, warnings=warnings, commit=commit),
            Outcome("updated", other, commit=commit),
        )

    def _refuse_circle(self, before: Memory, after: Memory) -> None:
        """Refuse a successor that the memory itself has taken the place of, however far back."""
        seen, one = {before.ref}, after
        while (ref := one.superseded_by) and ref not in seen:
            seen.add(ref)
            try:
                one = self.bank.find(ref)
            except RetainError:
                return
        if ref == before.ref:
            raise UsageError(
                f"{after.ref} has been superseded by {before.ref} itself",
                hint="Name the memory that holds now.",
            )

    def _refuse_mute(self, at: Target, memory: Memory) -> None:
        """Refuse a file that has no place to say what it has to do with another."""
        self._readable(memory, at)
        if memory.path.endswith(".json") and not is_record(memory):
            lines = [("target", at.called), ("error", "it is JSON, and no record of a category")]
            raise refusal(Block("READ_ERROR", lines))

    def everything(self) -> Iterator[tuple[Memory, Record]]:
        """Each memory with the fields it has as a record; what cannot be read is left out."""
        for memory in self.bank.memories():
            if not memory.problem:
                yield memory, record(memory)

    def settled(self, changes: Mapping[str, bytes | None], what: str) -> tuple[str, Notes]:
        """What follows a write: the index takes it in, and git if the bank says so."""
        return self._settle(changes, what)

    # What holds before and after each step

    def _enabled(self, category: str, force: bool) -> Category:
        kind = self.rules.category(category)
        known = ", ".join(self.rules.categories)
        if kind is None:
            raise _validation("category", f"one of {known}", category)
        if not kind.enabled and not force:
            raise _validation(
                "category",
                "a category that is switched on",
                f"{category}, which is switched off",
                f"Set categories.{category}.enabled to true, or use --force.",
            )
        return kind

    def _refuse_full(self, kind: Category) -> None:
        most = self.rules.max_per_category
        if not most or kind.max_retained:
            return
        count = sum(
            memory.type == kind.name and memory.status == "active"
            for memory in self.bank.memories()
            if is_record(memory)
        )
        if count >= most:
            fix = "Retire, archive or merge some of them, raise the limit, or use --force."
            lines = [("category", kind.name), ("active", str(count)), ("limit", str(most))]
            raise refusal(Block("LIMIT_ERROR", [*lines, ("fix", fix)]))

    def _windowed(self, kind: Category, newest: Memory) -> list[str]:
        """Retire what a category with a rolling window keeps no longer; what to say about it."""
        if not kind.max_retained:
            return []
        found = {memory.path: (memory, fields) for memory, fields in self.everything()}
        # What was asked for stays, even one that is dated back.
        others = [
            (path, fields)
            for path, (memory, fields) in found.items()
            if memory.type == kind.name and memory.status == "active" and path != newest.path
            if is_record(memory)
        ]
        left = kind.max_retained - 1
        said = []
        for path, fields in reports.beyond_window(others, left) if left else others:
            memory = found[path][0]
            only_here = reports.unique_content(fields, [it[1] for it in found.values()])
            try:
                self.retire(
                    at_memory(memory), f"rolling window: max_retained is {kind.max_retained}"
                )
            except RetainError as error:
                # What was asked for is stored already; this is tried again with the next one.
                said.append(f"{memory.ref} could not be retired: {error.message}")
                continue
            said.append(f"retired {memory.ref}, the oldest beyond max_retained")
            if only_here:
                said.append(f"{memory.ref} has content found nowhere else: {'; '.join(only_here)}")
        return said

    def _found(self, at: Target, code: str, fix: str) -> Memory:
        with contextlib.suppress(NotFound):
            found = self.bank.find(at.address)
            if found.path.endswith(at.suffix):
                return found
            name = os.path.basename(found.path)
            fix = f"There is no such file; {name} has that name."
        raise refusal(Block(code, [("target", at.called), ("fix", fix)]))

    def _readable(self, memory: Memory, at: Target) -> Record:
        if memory.problem:
            lines = [("target", at.called), ("error", memory.problem)]
            raise refusal(Block("READ_ERROR", lines))
        return record(memory)

    def _changed(
        self, at: Target, edit: Callable[[Memory], bytes], status: str, expect: str = ""
    ) -> Written:
        read: list[str] = [expect]

        def noted(memory: Memory) -> bytes:
            read[0] = expect or memory.hash
            return edit(memory)

        try:
            return self.bank.change(at.address, noted, expect=expect, status=status)
        except Conflict as error:
            current = self._found(at, "OCC_CONFLICT", error.hint).hash
            raise _conflict(at, read[0], current, f"{error.unchanged} {error.hint}") from error

    def _outdated(
        self, at: Target, memory: Memory, expect: str, current: str, lost: Record | None
    ) -> RecordError:
        fix = "Re-read the file and retry with its current hash."
        if lost is not None:
            try:
                aside = self.bank.put_aside(memory, json.dumps(lost, ensure_ascii=False, indent=2))
                fix = f"{fix} Your record is in the trash as {aside.name}."
            except RetainError as error:
                fix = f"{fix} Your record could not be kept: {error.message}."
        return _conflict(at, expect, current, fix)

    def _check(self, wanted: Record) -> None:
        checked(wanted, self.rules)

    def _exists(self, path: str) -> bool:
        return os.path.exists(os.path.join(self.project, path))

    def named(self, path: str) -> str:
        """A file's path as the project calls it."""
        return os.path.relpath(path, self.project).replace(os.sep, "/")

    @property
    def project(self) -> str:
        """The directory that files are named relative to."""
        above = os.path.dirname(self.bank.root)
        return os.path.dirname(above) if self.bank.kind.name == "claude" else above

    def _done(
        self,
        status: str,
        written: Written,
        what: str,
        notes: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> Outcome:
        if written.status == "unchanged":
            return Outcome(status, written.memory, tuple(notes), tuple(warnings))
        memory = written.memory
        commit, more = self._settle({memory.path: memory.data}, what)
        return Outcome(status, memory, tuple(notes), (*warnings, *more), commit=commit)


def at_memory(memory: Memory) -> Target:
    """The place of a memory that is there."""
    return Target(memory.collection, memory.id, os.path.splitext(memory.path)[1], memory.ref)


def checked(wanted: Record, rules: Rules) -> None:
    """Refuse a record that its schema does not allow, with every fault named."""
    from retain.schema import faults

    kind = rules.category(str(wanted.get("category")))
    if kind is None:
        known = ", ".join(rules.categories)
        raise _validation("category", f"one of {known}", str(wanted.get("category")))
    found = faults(wanted, kind.schema)
    if found:
        raise refusal(
            *(
                Block(
                    "VALIDATION_ERROR",
                    [
                        ("field", fault.field),
                        ("expected", fault.expected),
                        ("got", fault.got),
                        ("fix", f"Correct the value for '{fault.field}'"),
                    ],
                )
                for fault in found
            )
        )


def in_step(before: Memory, text: bytes, rules: Rules) -> bytes:
    """What a person made of a typed memory, checked, with an entry for what they changed."""
    document = codec(before.path).parse(text)
    after = before._replace(
        meta=document.meta, body=document.body, data=text, problem=document.problem
    )
    was, is_now = (_is_known(one, rules) for one in (before, after))
    if text == before.data or not (was or is_now):
        return text
    if was and after.type != before.type:
        raise _validation(
            "category", before.type, after.type, "Retire it, and make a new one of the other type."
        )
    old, wanted = record(before), record(after)
    if was:
        kept = _remembering(old, wanted)
        wanted = merging.noted(old, kept, now())
        if wanted is kept and before.body != after.body and before.path.endswith(".md"):
            wanted = _retold(kept, now())
        wanted = lifecycle.dated(old, wanted, now())
    checked(wanted, rules)
    return data(wanted, after)


def _is_known(memory: Memory, rules: Rules) -> bool:
    return is_record(memory) and rules.category(memory.type) is not None


def _retold(kept: Record, at_once: str) -> Record:
    """A record below whose fields a person has written something else."""
    entry, count = lifecycle.change_entry(at_once, "text changed", "text"), kept["times_updated"]
    return {
        **kept,
        "changes": lifecycle.grown(kept.get("changes"), [entry]),
        "times_updated": count + 1 if isinstance(count, int) else 1,
        "updated_at": at_once,
    }


def _remembering(old: Record, wanted: Record) -> Record:
    """A record whose history has grown, whatever text was put in its place."""
    before, after = old.get("changes") or [], wanted.get("changes") or []
    if not isinstance(before, list) or not isinstance(after, list) or not before:
        return wanted
    # An older text has older entries, which the cap may have dropped since: those are no news.
    last = before[-1].get("date") if isinstance(before[-1], dict) else ""
    news = [
        entry
        for entry in after
        if entry not in before and isinstance(entry, dict) and str(entry.get("date")) >= str(last)
    ]
    return {**wanted, "changes": lifecycle.grown(before, news)}


def _captured(source: str) -> dict[str, object]:
    """The entry that says where a record was found."""
    return lifecycle.change_entry(now(), f"Captured from {source}", "source", new_value=source)


def _replacing(memory: Memory, wanted: Record, source: str) -> bytes:
    """A record put in the place of an earlier one, whose history and text below it goes on."""
    old = record(memory)
    entry = lifecycle.change_entry(now(), "Replaced by a new record", "record")
    history = lifecycle.grown(old.get("changes"), [*(wanted.get("changes") or ()), entry])
    born = {"created_at": old["created_at"]} if old.get("created_at") else {}
    text = data({**wanted, **born, "changes": history}, memory)
    is_told = source and memory.path.endswith(".md")
    return codec(memory.path).edit(text, {"source": source}) if is_told else text


def _with_entry(memory: Memory, entry: dict[str, object]) -> bytes:
    wanted = record(memory)
    return data({**wanted, "changes": lifecycle.grown(wanted.get("changes"), [entry])}, memory)


def _renaming(memory: Memory, old_ref: str, new_ref: str) -> bytes:
    """A memory's bytes in which another one's new name stands for its old one."""
    steps = {"superseded_by": lifecycle.superseded, "supersedes": lifecycle.superseding}
    for name, step in steps.items():
        known = _relations(memory, name)
        if old_ref not in known or new_ref in known:
            continue
        if memory.path.endswith(".json"):
            return data(step(record(memory), new_ref, now()), memory)
        renamed = [new_ref if one == old_ref else one for one in known]
        value = renamed if isinstance(memory.meta.get(name), list) else renamed[0]
        return codec(memory.path).edit(memory.data, {name: value})
    return memory.data


def _astray(kind: Category) -> str:
    return f"a {kind.name} belongs in {kind.folder}/; it was stored elsewhere, as asked for"


def _named(memory: Memory, wanted: Record) -> Record:
    """A record with its file's name as its id; a rename that was killed may have left another."""
    return {**wanted, "id": memory.id} if "id" in wanted and is_record(memory) else wanted


def _own(memory: Memory, old: Record, wanted: Record) -> Record:
    """A step's result; only typed memories keep a list of their changes."""
    return wanted if is_record(memory) else {**wanted, "changes": old.get("changes")}


def _newer(memory: Memory, expect: str) -> list[str]:
    """The hash of a text that is no longer the one its writer read; none if it is."""
    wanted = expect.lower().removeprefix("sha256:").removeprefix("md5:")
    is_md5 = len(wanted) == 32
    current = hashlib.md5(memory.data).hexdigest() if is_md5 else memory.hash  # noqa: S324 - names a text, guards nothing
    return [current] if wanted and wanted != current else []


def _conflict(at: Target, expected: str, current: str, fix: str) -> RecordError:
    lines = [("target", at.called), ("expected_hash", expected), ("current_hash", current)]
    return refusal(Block("OCC_CONFLICT", [*lines, ("fix", fix)]))


def _related(
    memory: Memory, name: str, other: str, step: Callable[[Record, str, str], Record]
) -> bytes:
    """A memory's bytes with what it has to do with another one."""
    known = _relations(memory, name)
    if other in known:
        return memory.data
    text = memory.data
    if is_record(memory):
        text = data(step(record(memory), other, now()), memory)
    if memory.path.endswith(".json"):
        return text  # its schema knows no such field: its changes say it
    value: object = [*known, other] if name == "supersedes" and known else other
    return codec(memory.path).edit(text, {name: value, "updated_at": now()})


def _relations(memory: Memory, name: str) -> list[str]:
    """The memories that one says it replaces, or that it is replaced by now."""
    if memory.path.endswith(".json"):
        entries = record(memory).get("changes")
        said = [
            str(entry.get("new_value"))
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict) and entry.get("field") == name
        ]
        return said if name == "supersedes" else said[-1:]
    stated = memory.meta.get(name)
    return [str(one) for one in (stated if isinstance(stated, list) else [stated]) if one]


def _validation(field: str, expected: str, got: str, fix: str = "") -> RecordError:
    lines = [("field", field), ("expected", expected), ("got", got)]
    fix = fix or f"Correct the value for '{field}'"
    return refusal(Block("VALIDATION_ERROR", [*lines, ("fix", fix)]))
