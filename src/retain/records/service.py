"""The typed memories of one bank: every rule applied, every change kept, nothing half done.

A step returns an Outcome with the files it changed; whoever calls it indexes and commits them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from retain.bank import index_md
from retain.bank.bank import Bank
from retain.bank.index_md import Line, clean_title
from retain.bank.markdown import MemoryInput, admit, edit_file
from retain.categories import Category, Rules
from retain.errors import BadName, Conflict, RecordError, RetainError, Unreadable, UsageError
from retain.memory import Memory, Written, key, now
from retain.records import forms, lifecycle, match, merge, report
from retain.records.codec import (
    add_relation,
    dump_record,
    edit_record,
    is_record,
    load_record,
    relations,
    rename_relation,
)
from retain.records.normalize import normalize, slugify
from retain.records.report import Aged
from retain.records.schema import Fault, Record, check, invalid

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Outcome(NamedTuple):
    """What a step did to a record, and which files it changed."""

    status: str  # created, updated, retired, already_retired ...
    memory: Memory
    notes: tuple[str, ...] = ()  # what was mended in what was handed in
    warnings: tuple[str, ...] = ()
    renamed_from: str = ""
    commit: str = ""
    changes: Mapping[str, bytes | None] = {}  # the new bytes of each file; None: it is gone
    message: str = ""  # of the commit

    def to_dict(self) -> dict[str, object]:
        memory = self.memory
        return {
            "status": self.status,
            "id": memory.id,
            "collection": memory.collection,
            "type": memory.type,
            "title": memory.title,
            "file_path": memory.path,
            "hash": memory.hash,
            "renamed_from": self.renamed_from or None,
            "commit": self.commit or None,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


class Change(NamedTuple):
    """One entry of a record's own history."""

    date: str
    memory: Memory
    summary: str
    field: str
    old_value: object
    new_value: object

    def to_dict(self) -> dict[str, object]:
        return {
            "date": self.date,
            "id": self.memory.id,
            "collection": self.memory.collection,
            "type": self.memory.type,
            "summary": self.summary,
            "field": self.field or None,
            "old_value": self.old_value,
            "new_value": self.new_value,
        }


class Collected(NamedTuple):
    """What a collection of old records did, or would do."""

    deleted: Sequence[Aged]
    retired: Sequence[Aged]  # because their category keeps nothing longer
    problems: Sequence[str]
    changes: Mapping[str, bytes | None] = {}
    commit: str = ""
    warnings: tuple[str, ...] = ()


class Records:
    """The typed memories of one bank."""

    def __init__(self, bank: Bank, rules: Rules, author: str, *, redact_secrets: bool) -> None:
        self.bank, self.rules, self._author = bank, rules, author
        self._redact_secrets = redact_secrets

    # Steps of a record's life

    def draft(
        self, category: str, content: Mapping[str, object], fields: Mapping[str, object]
    ) -> Record:
        """Return a record to store, with a title and tags even where none are given."""
        form, created_at = forms.form(category, self.rules), now()
        stated = {name: value for name, value in fields.items() if value not in (None, "", [])}
        return {
            "schema_version": "1.0",
            "category": category,
            "created_at": created_at,
            "updated_at": created_at,
            "title": forms.title(form, content),
            "tags": ["untagged"],
            "content": dict(content),
            **stated,
        }

    def create(  # noqa: PLR0913 - what a caller may leave to the category and the bank
        self,
        category: str,
        draft: Record,
        *,
        collection: str | None = None,
        name: str = "",
        suffix: str = "",
        force: bool = False,
        allow_secret: bool = False,
        author: str = "",
        source: str = "",
    ) -> Outcome:
        """Store a new record; an active one of that name is never written over unasked.

        It is stored in its category's folder under a name made from its title, unless told
        otherwise, and in the format that the bank has for records.
        """
        kind = self._find_enabled(category, force)
        clean, notes, warnings = self._admit(draft, is_new=True, allow_secret=allow_secret)
        origin, _ = self._redact({"created_by": author, "source": source})
        author, source = origin["created_by"] or self._author, origin["source"]
        if self._redact({"id": name}, allow_secret)[0]["id"] != name:
            raise BadName("the id looks like a secret", hint="Choose another id.")
        if not name:
            name = clean["id"] = slugify(clean_title(str(clean.get("title") or "")))
        collection = kind.folder if collection is None else collection
        suffix = suffix or (".json" if self.bank.kind.listing else ".md")
        record, more = lifecycle.create(clean, category, name or "untitled")
        if source and suffix == ".json":  # which has no other place for it
            entry = lifecycle.change_entry(
                now(), f"Captured from {source}", "source", new_value=source
            )
            record["changes"] = [*(record.get("changes") or ()), entry]
        check(record, self.rules)
        if not name:  # said last: which fields are missing says more
            hint = "Give it a title or an id."
            raise UsageError("there is no text to make a title from", hint=hint)
        if not force:
            self._refuse_full(kind)
        data = dump_record(record, suffix, author, source)
        try:
            written = self.bank.create(collection, name, data, suffix=suffix)
        except Conflict:
            before = self.bank.find(f"{collection}/{name}")
            written = self._replace(before, record, suffix, source, force=force)
        if key(collection) != key(kind.folder):
            warnings.append(
                f"a {kind.name} belongs in {kind.folder}/; it was stored elsewhere, as asked for"
            )
        outcome = _outcome("created", written.memory, "create", [*notes, *more], warnings)
        return self._close_window(kind, outcome)

    def _replace(
        self, before: Memory, record: Record, suffix: str, source: str, *, force: bool
    ) -> Written:
        """Put a record in the place of an earlier one, whose history and text below it goes on."""
        old = _load(before)
        if not is_record(before) or not before.path.endswith(suffix):
            hint = "Choose another name; a memory of another kind has this one."
            raise lifecycle.taken_error(before.ref, before.status, hint)
        lifecycle.refuse_overwrite(old, before.ref, now(), force=force)

        def edit(memory: Memory) -> bytes:
            old = load_record(memory)
            entry = lifecycle.change_entry(now(), "Replaced by a new record", "record")
            entries = [*(record.get("changes") or ()), entry]
            history = lifecycle.changes_of(old)
            wanted = lifecycle.add_changes({**record, "changes": history}, entries)
            if old.get("created_at"):
                wanted["created_at"] = old["created_at"]
            data = edit_record(wanted, memory)
            if source and memory.path.endswith(".md"):
                return edit_file(memory.path, data, {"source": source})
            return data

        # Another may have written since: over that one nobody has said a word.
        return self._write(before, edit, "replaced", expect=before.hash)

    def update(
        self,
        before: Memory,
        draft: Record,
        *,
        expect: str = "",
        allow_secret: bool = False,
        keeps_late: bool = False,
    ) -> Outcome:
        """Change a record within the rules; the file's hash, if given, must be the one read.

        A draft that comes too late is put into the trash if its caller has no other copy.
        """
        clean, notes, warnings = self._admit(draft, allow_secret=allow_secret)

        def edit(memory: Memory) -> bytes:
            old = _load(memory)
            wanted_hash = expect.lower().removeprefix("sha256:").removeprefix("md5:")
            is_md5 = len(wanted_hash) == 32
            current = hashlib.md5(memory.data).hexdigest() if is_md5 else memory.hash  # noqa: S324 - names a text, guards nothing
            if wanted_hash and wanted_hash != current:
                hint = "Re-read the file and retry with its current hash."
                raise _conflict_error(before.ref, expect, current, hint)
            wanted = merge.merge(old, clean, now=now(), project=self.project)
            check(wanted, self.rules)
            return edit_record(_with_file_id(memory, wanted), memory)

        try:
            written = self._write(before, edit, "updated")
        except RecordError as error:
            if keeps_late and error.kind == "OCC_CONFLICT":
                text = json.dumps(draft, ensure_ascii=False, indent=2)
                try:
                    aside = self.bank.put_aside(before, text).name
                    error.hint += f" Your record is in the trash as {aside}."
                except RetainError as failure:
                    error.hint += f" Your record could not be kept: {failure.message}."
            raise
        memory, old = written.memory, load_record(before)
        warnings += merge.warnings(old, clean)
        outcome = _outcome("updated", memory, "update", notes, warnings)
        title = load_record(memory).get("title")
        slug = merge.new_slug(str(old.get("title") or ""), str(title or ""), memory.id)
        return self._rename(outcome, slug) if slug else outcome

    def _rename(self, outcome: Outcome, slug: str) -> Outcome:
        """Give a record the name that its new title asks for, if it may have that."""
        before = outcome.memory
        try:
            moved = self.bank.move(before.address, to_id=slug).memory
        except (Conflict, BadName) as error:
            why = "is taken" if isinstance(error, Conflict) else "no file may have"
            note = f"the new title suggests the id {slug!r}, which {why}; kept {before.id!r}"
            return outcome._replace(warnings=(*outcome.warnings, note))
        return outcome._replace(
            memory=self.bank.find(moved.address),
            renamed_from=before.id,
            changes={before.path: None, **self.follow(before.ref, moved)},
            message=f"rename {before.ref} to {moved.ref}",
        )

    def follow(self, old_ref: str, moved: Memory) -> dict[str, bytes | None]:
        """Note that a memory has another name now, there and where others name it."""
        if is_record(moved):
            entry = lifecycle.change_entry(now(), f"Moved from {old_ref}", "id", old_ref, moved.ref)

            def note(memory: Memory) -> bytes:
                return edit_record(lifecycle.add_changes(load_record(memory), [entry]), memory)

            moved = self.bank.change(moved.address, note).memory
        changes: dict[str, bytes | None] = {moved.path: moved.data}
        for name in ("superseded_by", "supersedes"):
            # Who replaces another one is named by it, and names it in turn.
            for ref in relations(moved, name):
                with contextlib.suppress(RetainError):  # it names a memory that is not there
                    rename = partial(rename_relation, old_ref=old_ref, new_ref=moved.ref)
                    other = self.bank.change(ref, rename).memory
                    changes[other.path] = other.data
        return changes

    def revise(
        self, before: Memory, content: Mapping[str, object], fields: Record, expect: str = ""
    ) -> Outcome:
        """Change some fields as a person does; None takes one out of the content."""
        if before.problem:
            raise Unreadable(f"{before.ref} cannot be read: {before.problem}")
        if not is_record(before):
            raise UsageError(
                f"{before.ref} is no typed memory, and has no fields",
                hint="Change its text, or rewrite its file.",
            )
        forms.known_category(before.type, self.rules)
        clean, notes, warnings = self._admit({**fields, "content": dict(content)})
        stated = {name: clean[name] or None for name in fields}  # an empty title is no title

        def edit(memory: Memory) -> bytes:
            old = _load(memory)
            present = old.get("content")
            wanted = forms.revise(present if isinstance(present, dict) else {}, clean["content"])
            data = edit_record({**old, **stated, "content": wanted}, memory)
            return merge.check_edit(memory, data, self.rules)

        written = self.bank.change(before.address, edit, expect=expect, status="updated")
        notes = [note for note in notes if note.partition(":")[0] in fields]
        if written.status == "unchanged":
            return Outcome("unchanged", written.memory, tuple(notes), tuple(warnings))
        return _outcome("updated", written.memory, "update", notes, warnings)

    def step(self, action: str, before: Memory, reason: str = "") -> Outcome:
        """Retire, archive, unarchive or restore a memory; one that is so already is left alone."""
        clean, warnings = self._redact({"reason": reason})

        def edit(memory: Memory) -> bytes:
            old = _load(memory)
            wanted = lifecycle.take_step(old, action, before.ref, now(), clean["reason"])
            if wanted is None:
                return memory.data
            if not is_record(memory):  # only typed memories keep a list of their changes
                wanted = {**wanted, "changes": old.get("changes")}
            return edit_record(_with_file_id(memory, wanted), memory)

        status = f"{action}d"
        written = self._write(before, edit, status)
        if written.status == "unchanged":
            already = f"already_{written.memory.status}"
            return Outcome(already, written.memory, warnings=tuple(warnings))
        return _outcome(status, written.memory, status, (), warnings)

    def supersede(self, old: Memory, new: Memory) -> tuple[Outcome, Outcome]:
        """Say that one memory has taken another's place; both remember it."""
        if old.path == new.path:
            raise UsageError("a memory cannot take its own place", hint="Name two memories.")
        for memory in (old, new):
            _load(memory)
            if memory.path.endswith(".json") and not is_record(memory):
                raise _read_error(memory.ref, "it is JSON, and no record of a category")
        self._refuse_circle(old, new)
        texts = [
            (old, add_relation(old, "superseded_by", new.ref)),
            (new, add_relation(new, "supersedes", old.ref)),
        ]
        if all(memory.data == data for memory, data in texts):
            return Outcome("already_superseded", old), Outcome("unchanged", new)
        # Both or neither: a reader never meets one that names a successor unaware of it.
        replaced, successor = self.bank.place_all((), texts)
        changes = {memory.path: memory.data for memory in (replaced, successor)}
        message = f"supersede {old.ref} by {new.ref}"
        return (
            Outcome("superseded", replaced, changes=changes, message=message),
            Outcome("updated", successor),
        )

    def _refuse_circle(self, old: Memory, new: Memory) -> None:
        """Refuse a successor that the memory itself has taken the place of, however far back."""
        seen, memory = {old.ref}, new
        while (ref := memory.superseded_by) and ref not in seen:
            seen.add(ref)
            try:
                memory = self.bank.find(ref)
            except RetainError:
                return
        if ref == old.ref:
            raise UsageError(
                f"{new.ref} has been superseded by {old.ref} itself",
                hint="Name the memory that holds now.",
            )

    # Upkeep

    def gc(self, *, dry_run: bool = False) -> Collected:
        """Remove what has been retired for longer than the grace period.

        What a category keeps only for a while is retired first, so that it too can be brought back
        for as long. Files go to the trash, unless the rules say that they are not kept.
        """
        memories = {memory.path: memory for memory in self._readable_memories()}
        filed = [(path, load_record(memory)) for path, memory in memories.items()]
        typed = [(path, record) for path, record in filed if is_record(memories[path])]
        kept_for = {name: kind.retention_days for name, kind in self.rules.categories.items()}
        outlived = report.find_outlived(typed, datetime.now(UTC), kept_for)
        due, problems = report.find_due(filed, datetime.now(UTC), self.rules.grace_period_days)
        if dry_run:
            return Collected(due, outlived, problems)
        retired, deleted = [], []
        changes: dict[str, bytes | None] = {}
        for aged in outlived:
            memory = memories[aged.path]
            reason = f"older than retention_days ({kept_for[memory.type]})"
            try:
                changes.update(self.step("retire", memory, reason).changes)
                retired.append(aged)
            except RetainError as error:
                problems.append(f"ERROR retiring {memory.ref}: {error.message}")
        for aged in due:
            memory = memories[aged.path]
            try:
                trashed = self.bank.delete(memory.address, expect=memory.hash)
                changes[aged.path] = None
                deleted.append(aged)
                if not self.rules.archive_retired:
                    self.bank.discard(trashed)
            except RetainError as error:
                name = os.path.basename(aged.path)
                problems.append(f"ERROR deleting {name}: {error.message}")
        return Collected(deleted, retired, problems, changes)

    def history(self, memory: Memory | None = None, since: str = "") -> list[Change]:
        """List what happened to typed memories, the newest first."""
        memories = [memory] if memory else self._readable_memories()
        changes = [
            Change(
                str(entry.get("date", "")),
                memory,
                str(entry.get("summary", "")),
                str(entry.get("field") or ""),
                entry.get("old_value"),
                entry.get("new_value"),
            )
            for memory in memories
            if is_record(memory)
            for entry in lifecycle.changes_of(load_record(memory))
            if isinstance(entry, dict)
        ]
        dated = [(lifecycle.parse_time(change.date) or _LONG_AGO, change) for change in changes]
        # Reversed afterwards: of two entries of one second the later one comes first.
        dated.sort(key=lambda item: item[0])
        start = lifecycle.parse_time(since) or _LONG_AGO
        return [change for at, change in reversed(dated) if at >= start]

    def health(self, noun: str = "typed memories") -> tuple[str, bool]:
        """Report on the typed memories, and whether all is well."""
        typed = [(memory.type.upper(), load_record(memory)) for memory in self._typed_memories()]
        return report.report_health(typed, self.list_differences(), datetime.now(UTC), noun)

    def candidate(
        self,
        category: str,
        news: str,
        event: str | None = None,
        hits: Sequence[tuple[str, float]] = (),
    ) -> dict[str, Any]:
        """Say which record new information belongs to, and what may be done with it.

        `hits` are the paths and scores that a search found, for rules that match by search.
        """
        kind = forms.known_category(category, self.rules)
        memories = {
            self.name(memory.path): memory
            for memory in self._typed_memories()
            if memory.type == category and memory.status == "active"
        }
        entries = {
            path: match.Entry(path, memory.title, memory.tags) for path, memory in memories.items()
        }
        if self.rules.match_strategy == "hybrid":
            best = match.select_hit(entries, [(self.name(path), score) for path, score in hits])
        else:
            best = match.select(entries.values(), news, self.rules.match_strategy)
        excerpt = match.excerpt(load_record(memories[best[0].path])) if best else None
        return match.verdict(kind, best, event, excerpt)

    def _readable_memories(self) -> Iterator[Memory]:
        return (memory for memory in self.bank.memories() if not memory.problem)

    def _typed_memories(self) -> Iterator[Memory]:
        return filter(is_record, self.bank.memories())

    # The list of its records that a store keeps

    def lines(self) -> list[Line]:
        """Return the active typed memories as lines of index.md."""
        if self.bank.kind.listing:
            return index_md.list_records(self.bank)
        return [
            Line(memory.type.upper(), memory.title, self.name(memory.path), memory.tags)
            for memory in self._typed_memories()
            if memory.status == "active"
        ]

    def read_list(self) -> list[Line] | None:
        """Return the entries of index.md as they stand there; None without such a file."""
        if not self.bank.kind.listing:
            return self.lines()
        text = index_md.read(self.bank)
        return None if text is None else index_md.parse(text)

    def list_differences(self) -> tuple[list[str], list[str]] | None:
        """Return files that index.md lacks and entries without a file; None without such a file."""
        if not self.bank.kind.listing:
            return [], []  # the bank's index is brought up to date by whoever reads it
        text = index_md.read(self.bank)
        return None if text is None else index_md.differences(text, self.lines())

    # Where things are

    def name(self, path: str) -> str:
        """Return a file's path as the project calls it."""
        return os.path.relpath(path, self.project).replace(os.sep, "/")

    @property
    def project(self) -> str:
        """The directory that files are named relative to."""
        above = os.path.dirname(self.bank.root)
        return os.path.dirname(above) if self.bank.kind.name == "claude" else above

    # What holds before and after each step

    def _admit(
        self, draft: Record, *, is_new: bool = False, allow_secret: bool = False
    ) -> tuple[Record, list[str], list[str]]:
        """Return a draft as it may be stored, notes on what was mended, and warnings."""
        mended, notes = normalize(draft, is_new=is_new, now=now())
        clean, warnings = self._redact({"record": mended}, allow_secret)
        # What stands for a secret may itself need mending, as in a tag.
        record, more = normalize(clean["record"], is_new=is_new, now=now())
        return record, [*notes, *more], warnings

    def _redact(
        self, fields: Mapping[str, object], allow_secret: bool = False
    ) -> tuple[Record, list[str]]:
        """Return fields without secrets, and warnings of those that were there."""
        memory_input = MemoryInput(fields=fields, allow_secret=allow_secret)
        admitted, warnings = admit(memory_input, redact_secrets=self._redact_secrets)
        return dict(admitted.fields), [*warnings]

    def _write(
        self, before: Memory, edit: Callable[[Memory], bytes], status: str, expect: str = ""
    ) -> Written:
        """Change a record's file; whoever was faster is named by the hash that is there now."""
        try:
            return self.bank.change(before.address, edit, expect=expect, status=status)
        except Conflict as error:
            current = self.bank.find(before.address).hash
            hint = f"{error.unchanged} {error.hint}"
            raise _conflict_error(before.ref, before.hash, current, hint) from error

    def _find_enabled(self, category: str, force: bool) -> Category:
        kind = self.rules.category(category)
        if kind is None:
            known = ", ".join(self.rules.categories)
            raise invalid([Fault("category", f"one of {known}", category)])
        if not kind.enabled and not force:
            expected, got = "a category that is switched on", f"{category}, which is switched off"
            hint = f"Set categories.{category}.enabled to true, or use --force."
            raise invalid([Fault("category", expected, got)], hint)
        return kind

    def _refuse_full(self, kind: Category) -> None:
        limit = self.rules.max_per_category
        if not limit or kind.max_retained:
            return
        count = sum(
            memory.type == kind.name and memory.status == "active"
            for memory in self._typed_memories()
        )
        if count >= limit:
            raise RecordError(
                "LIMIT_ERROR",
                f"there are {count} active memories of {kind.name}, {limit} at most",
                {"category": kind.name, "active": str(count), "limit": str(limit)},
                hint="Retire, archive or merge some of them, raise the limit, or use --force.",
            )

    def _close_window(self, kind: Category, created: Outcome) -> Outcome:
        """Retire what a category with a rolling window keeps no longer after a creation."""
        if not kind.max_retained:
            return created
        memories = {memory.path: memory for memory in self._readable_memories()}
        records = {path: load_record(memory) for path, memory in memories.items()}
        # What was asked for stays, even one that is dated back.
        others = [
            (path, records[path])
            for path, memory in memories.items()
            if memory.type == kind.name and path != created.memory.path and is_record(memory)
        ]
        changes, warnings = dict(created.changes), [*created.warnings]
        for path, record in report.find_beyond_window(others, kind.max_retained - 1):
            memory = memories[path]
            unique = report.find_unique_content(record, records.values())
            try:
                reason = f"rolling window: max_retained is {kind.max_retained}"
                changes.update(self.step("retire", memory, reason).changes)
            except RetainError as error:
                # What was asked for is stored already; this is tried again with the next one.
                warnings.append(f"{memory.ref} could not be retired: {error.message}")
                continue
            warnings.append(f"retired {memory.ref}, the oldest beyond max_retained")
            if unique:
                warnings.append(f"{memory.ref} has content found nowhere else: {'; '.join(unique)}")
        return created._replace(changes=changes, warnings=tuple(warnings))


def _outcome(
    status: str, memory: Memory, verb: str, notes: Sequence[str], warnings: Sequence[str]
) -> Outcome:
    """Return what a step did that wrote one memory."""
    changes, message = {memory.path: memory.data}, f"{verb} {memory.ref}"
    return Outcome(status, memory, tuple(notes), tuple(warnings), changes=changes, message=message)


def _load(memory: Memory) -> Record:
    if memory.problem:
        raise _read_error(memory.ref, memory.problem)
    return load_record(memory)


def _read_error(ref: str, problem: str) -> RecordError:
    message = f"{ref} cannot be read: {problem}"
    return RecordError("READ_ERROR", message, {"target": ref, "error": problem})


def _conflict_error(ref: str, expected: str, current: str, hint: str) -> RecordError:
    message = f"{ref} was changed by someone else since it was read"
    facts = {"target": ref, "expected_hash": expected, "current_hash": current}
    return RecordError("OCC_CONFLICT", message, facts, hint=hint, exit_code=4)


def _with_file_id(memory: Memory, record: Record) -> Record:
    """Set a record's id to its file's name; a rename that was killed may have left another."""
    return {**record, "id": memory.id} if "id" in record and is_record(memory) else record
