"""The typed memories of one bank: every rule applied, every change kept, nothing half done.

A step returns an Outcome with the files it changed; whoever calls it indexes and commits them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from retain.bank import index_md
from retain.bank.bank import Bank, LockedMemory
from retain.bank.index_md import clean_title
from retain.bank.markdown import MemoryInput, admit, edit_file, refuse_secret_names
from retain.categories import Category, Rules
from retain.errors import BadName, Conflict, RecordError, RetainError, Unreadable, UsageError
from retain.locate import project_of
from retain.memory import Memory, Written, now, parse_time
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
from retain.records.schema import Fault, Record, check, validation_error

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
    kept: str = ""  # the version that the text before has become

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
            "previous_version": self.kept or None,
            "commit": self.commit or None,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


class Change(NamedTuple):
    """One entry of a record's own history."""

    date: str
    id: str
    collection: str
    type: str
    summary: str
    field: str | None
    old_value: object
    new_value: object

    @property
    def ref(self) -> str:
        return f"{self.collection}/{self.id}".removeprefix("/")


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

    def make_draft(
        self, category: str, content: Mapping[str, object], fields: Mapping[str, object]
    ) -> Record:
        """Return a record to store, with a title and tags even where none are given."""
        form, created_at = forms.make_form(category, self.rules), now()
        stated = {name: value for name, value in fields.items() if value not in (None, "", [])}
        return {
            "schema_version": "1.0",
            "category": category,
            "created_at": created_at,
            "updated_at": created_at,
            "title": forms.make_title(form, content),
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
        origin, _ = self._redact({"created_by": author or self._author, "source": source})
        if self._redact_secrets and not allow_secret:
            refuse_secret_names(name)
        if not name:
            name = clean["id"] = slugify(clean_title(str(clean.get("title") or ""))) or "untitled"
        collection = kind.folder if collection is None else collection
        suffix = suffix or (".json" if self.bank.kind.listing else ".md")
        record, more = lifecycle.create(clean, category, name)
        if source and suffix == ".json":  # which has no other place for it
            summary = f"Captured from {origin['source']}"
            entry = lifecycle.change_entry(now(), summary, "source", new_value=origin["source"])
            record["changes"] = [*lifecycle.changes_of(record), entry]
        check(record, self.rules)
        if not force:
            self._refuse_full(kind)
        with self.bank.lock_name(collection, name, suffix) as change:
            if change.is_new:
                data = dump_record(record, suffix, origin["created_by"], origin["source"])
                written = change.create(data)
            else:
                written = self._replace(change, record, suffix, origin["source"], force=force)
        verb = "create" if written.status == "created" else "update"
        outcome = _outcome("created", written.memory, verb, [*notes, *more], warnings)
        return self._close_window(kind, outcome._replace(kept=written.kept))

    def _replace(
        self, taken: LockedMemory, record: Record, suffix: str, source: str, *, force: bool
    ) -> Written:
        """Put a record in the place of an earlier one, whose history and text below it goes on."""
        memory = taken.memory
        if not is_record(memory) or not memory.path.endswith(suffix):
            hint = "Choose another name; a memory of another kind has this one."
            raise lifecycle.taken_error(memory.ref, memory.status, hint)
        old = load_record(memory)
        lifecycle.refuse_overwrite(old, memory.ref, now(), force=force)
        entry = lifecycle.change_entry(now(), "Replaced by a new record", "record")
        entries = [*lifecycle.changes_of(record), entry]
        history = {"changes": lifecycle.changes_of(old)}
        wanted = lifecycle.add_changes({**record, **history}, entries)
        wanted["created_at"] = old.get("created_at") or record["created_at"]
        data = edit_record(wanted, memory)
        if source and memory.path.endswith(".md"):
            data = edit_file(memory.path, data, {"source": source})
        return taken.write(data, status="replaced")

    def update(
        self, before: Memory, draft: Record, *, expect: str = "", allow_secret: bool = False
    ) -> Outcome:
        """Change a record within the rules; the file's hash, if given, must be the one read."""
        clean, notes, warnings = self._admit(draft, allow_secret=allow_secret)
        with self.bank.lock_memory(before.address) as change:
            memory = change.memory
            old = _load(memory)
            expected = expect.lower().removeprefix("sha256:").removeprefix("md5:")
            is_md5 = len(expected) == 32
            current = hashlib.md5(memory.data).hexdigest() if is_md5 else memory.hash  # noqa: S324 - names a text, guards nothing
            if expected not in ("", current):
                raise Conflict(
                    f"{memory.ref} was changed by someone else since it was read",
                    unchanged="It is as they left it.",
                    hint="Re-read the file and retry with its current hash.",
                    details={"expected_hash": expect, "current_hash": current},
                )
            wanted = merge.merge(old, clean, now=now(), project=self.project)
            check(wanted, self.rules)
            written = change.write(edit_record(wanted, memory))
        warnings += merge.warnings(old, clean)
        outcome = _outcome("updated", written.memory, "update", notes, warnings)
        slug = merge.new_slug(str(old.get("title") or ""), str(wanted["title"]), memory.id)
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
            changes={before.path: None, **self.follow_move(before.ref, moved)},
            message=f"rename {before.ref} to {moved.ref}",
        )

    def follow_move(self, old_ref: str, moved: Memory) -> dict[str, bytes | None]:
        """Note that a memory has another name now, there and where others name it."""
        if is_record(moved):
            entry = lifecycle.change_entry(now(), f"Moved from {old_ref}", "id", old_ref, moved.ref)
            with self.bank.lock_memory(moved.address) as change:
                noted = lifecycle.add_changes(load_record(change.memory), [entry])
                moved = change.write(edit_record(noted, change.memory)).memory
        changes: dict[str, bytes | None] = {moved.path: moved.data}
        # Who replaces another one is named by it, and names it in turn.
        for ref in (*relations(moved, "superseded_by"), *relations(moved, "supersedes")):
            with contextlib.suppress(RetainError):  # it names a memory that is not there
                rename = partial(rename_relation, old_ref=old_ref, new_ref=moved.ref)
                other = self.bank.change(ref, rename).memory
                changes[other.path] = other.data
        return changes

    def revise(
        self, before: Memory, content: Mapping[str, object], fields: Record, expect: str = ""
    ) -> Outcome:
        """Change some fields as a person does; None takes one out of the content."""
        clean, notes, warnings = self._admit({**fields, "content": dict(content)})
        stated = {name: clean[name] or None for name in fields}  # an empty title is no title
        with self.bank.lock_memory(before.address) as change:
            memory, old = change.memory, _load(change.memory)
            if not is_record(memory) or not isinstance(old.get("content"), dict):
                raise UsageError(
                    f"{memory.ref} is no typed memory, and has no fields",
                    hint="Change its text, or rewrite its file.",
                )
            forms.find_category(memory.type, self.rules)
            stated["content"] = forms.revise(old["content"], clean["content"])
            data = merge.check_edit(memory, edit_record({**old, **stated}, memory), self.rules)
            written = change.write(data, expect=expect)
        notes = [note for note in notes if note.partition(":")[0] in fields]
        if written.status == "unchanged":
            return Outcome("unchanged", written.memory, tuple(notes), tuple(warnings))
        return _outcome("updated", written.memory, "update", notes, warnings)

    def step(self, action: str, before: Memory, reason: str = "") -> Outcome:
        """Retire, archive, unarchive or restore a memory; one that is so already is left alone."""
        clean, warnings = self._redact({"reason": reason})
        with self.bank.lock_memory(before.address) as change:
            memory = change.memory
            old = _load(memory)
            wanted = lifecycle.take_step(old, action, memory.ref, now(), clean["reason"])
            if wanted is None:
                return Outcome(f"already_{memory.status}", memory, warnings=tuple(warnings))
            if not is_record(memory):  # only typed memories keep a list of their changes
                wanted["changes"] = old.get("changes")
            written = change.write(edit_record(wanted, memory))
        return _outcome(f"{action}d", written.memory, f"{action}d", (), warnings)

    def supersede(self, old: Memory, new: Memory) -> tuple[Outcome, Outcome]:
        """Say that one memory has taken another's place; both remember it."""
        for memory in (old, new):
            _load(memory)
            if memory.path.endswith(".json") and not is_record(memory):
                raise Unreadable(f"{memory.ref} is JSON, and no record of a category")
        if old.path == new.path or new.superseded_by:
            message = f"{new.ref} cannot take the place of {old.ref}"
            raise UsageError(message, hint="Name the memory that holds now.")
        texts = [
            (old, add_relation(old, "superseded_by", new.ref)),
            (new, add_relation(new, "supersedes", old.ref)),
        ]
        if all(memory.data == data for memory, data in texts):
            return Outcome("already_superseded", old), Outcome("unchanged", new)
        # Both or neither: a reader never meets one that names a successor unaware of it.
        replaced, successor = self.bank.write_all((), texts)
        changes = {memory.path: memory.data for memory in (replaced, successor)}
        message = f"supersede {old.ref} by {new.ref}"
        return (
            Outcome("superseded", replaced, changes=changes, message=message),
            Outcome("updated", successor),
        )

    # Upkeep

    def gc(self, *, dry_run: bool = False) -> Collected:
        """Remove what has been retired for longer than the grace period.

        What a category keeps only for a while is retired first, so that it too can be brought back
        for as long. Files go to the trash, unless the rules say that they are not kept.
        """
        due, outlived, problems = self._find_aged()
        if dry_run:
            return Collected(due, outlived, problems)
        retired, deleted = [], []
        changes: dict[str, bytes | None] = {}
        for aged in outlived:
            kept_for = self.rules.categories[aged.memory.type].retention_days
            with _note_failure(problems, f"ERROR retiring {aged.memory.ref}"):
                reason = f"older than retention_days ({kept_for})"
                changes.update(self.step("retire", aged.memory, reason).changes)
                retired.append(aged)
        for aged in due:
            memory = aged.memory
            with _note_failure(problems, f"ERROR deleting {os.path.basename(memory.path)}"):
                trashed = self.bank.delete(memory.address, expect=memory.hash)
                changes[memory.path] = None
                deleted.append(aged)
                if not self.rules.archive_retired:
                    self.bank.trash.purge(trashed)
        return Collected(deleted, retired, problems, changes)

    def _find_aged(self) -> tuple[list[Aged], list[Aged], list[str]]:
        """Return memories retired long ago, those kept too long, and times that make no sense."""
        due, outlived, problems = [], [], []
        for memory in self.bank.memories():
            kind = self.rules.category(memory.type)
            if memory.status == "retired" and not memory.problem:
                days = report.days_since(memory, "retired_at")
                if days is None:
                    fault = "invalid" if memory.meta.get("retired_at") else "missing"
                    name = os.path.basename(memory.path)
                    problems.append(f"SKIP {name}: {fault} retired_at timestamp")
                elif days >= max(self.rules.grace_period_days, 0):
                    due.append(Aged(memory, days))
            elif memory.status == "active" and kind and kind.retention_days and is_record(memory):
                days = report.days_since(memory, "updated_at")
                if days is not None and days >= kind.retention_days:
                    outlived.append(Aged(memory, days))
        return due, outlived, problems

    def history(self, memory: Memory | None = None, since: str = "") -> list[Change]:
        """List what happened to typed memories, the newest first."""
        start = parse_time(since) or _LONG_AGO
        dated = []
        for source in [memory] if memory else self.bank.memories():
            entries = lifecycle.changes_of(source.meta) if is_record(source) else []
            written = 0
            with contextlib.suppress(OSError):  # it is gone by now
                written = os.stat(source.path).st_mtime_ns if entries else 0
            for entry in (entry for entry in entries if isinstance(entry, dict)):
                change = Change(
                    str(entry.get("date", "")),
                    source.id,
                    source.collection,
                    source.type,
                    str(entry.get("summary", "")),
                    *(entry.get(name) for name in ("field", "old_value", "new_value")),
                )
                at = parse_time(change.date) or _LONG_AGO
                dated.append((at, written, change))
        # Reversed afterwards: of two entries of one second the one written last comes first.
        dated.sort(key=lambda item: item[:2])
        return [change for at, _, change in reversed(dated) if at >= start]

    def health(self, noun: str = "typed memories") -> tuple[str, bool]:
        """Report on the typed memories, and whether all is well."""
        text = self.read_list()
        differences = (
            None if text is None else index_md.differences(text, index_md.list_records(self.bank))
        )
        return report.report_health(list(self._typed_memories()), differences, noun)

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
        kind = forms.find_category(category, self.rules)
        memories = [it for it in self._typed_memories() if _is_active(it, category)]
        if self.rules.match_strategy == "hybrid":
            best = match.select_hit(memories, hits)
        else:
            best = match.select(memories, news, self.rules.match_strategy)
        return match.decide(kind, best, event, self.project)

    def read_list(self) -> str | None:
        """Return index.md as it stands, None without one; what it would be where none is kept."""
        if self.bank.kind.listing:
            return index_md.read(self.bank)
        return index_md.render(index_md.list_records(self.bank))

    def relative_path(self, path: str) -> str:
        """Return a file's path as the project calls it."""
        return os.path.relpath(path, self.project).replace(os.sep, "/")

    @property
    def project(self) -> str:
        """The directory that files are named relative to."""
        return project_of(self.bank.root)

    # What holds before and after each step

    def _typed_memories(self) -> Iterator[Memory]:
        return filter(is_record, self.bank.memories())

    def _admit(
        self, draft: Record, *, is_new: bool = False, allow_secret: bool = False
    ) -> tuple[Record, list[str], list[str]]:
        """Return a draft as it may be stored, notes on what was mended, and warnings."""
        mended, notes = normalize(draft, is_new=is_new, now=now())
        clean, warnings = self._redact({"record": mended}, allow_secret)
        return clean["record"], notes, warnings

    def _redact(
        self, fields: Mapping[str, object], allow_secret: bool = False
    ) -> tuple[Record, list[str]]:
        """Return fields without secrets, and warnings of those that were there."""
        memory_input = MemoryInput(fields=fields, allow_secret=allow_secret)
        admitted, warnings = admit(memory_input, redact_secrets=self._redact_secrets)
        return dict(admitted.fields), [*warnings]

    def _find_enabled(self, category: str, force: bool) -> Category:
        """Return a category that may have new records."""
        kinds = {name: it for name, it in self.rules.categories.items() if it.enabled or force}
        if category not in kinds:
            hint = f"Set categories.{category}.enabled to true, or use --force."
            fault = Fault("category", f"one of {', '.join(kinds)}", category)
            raise validation_error([fault], hint if self.rules.category(category) else "")
        return kinds[category]

    def _refuse_full(self, kind: Category) -> None:
        limit = self.rules.max_per_category
        if not limit or kind.max_retained:
            return
        records = filter(is_record, self.bank.memories(kind.folder))
        count = sum(_is_active(memory, kind.name) for memory in records)
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
        memories = list(self._typed_memories())
        active = [memory for memory in memories if _is_active(memory, kind.name)]
        # What was asked for stays, even one that is dated back.
        others = [memory for memory in active if memory.path != created.memory.path]
        others.sort(key=lambda memory: (memory.text("created_at"), memory.id))
        changes, warnings = dict(created.changes), [*created.warnings]
        for memory in others[: max(len(others) - kind.max_retained + 1, 0)]:
            unique = report.find_unique_content(memory, memories)
            # What was asked for is stored already; this is tried again with the next one.
            with _note_failure(warnings, f"{memory.ref} could not be retired"):
                reason = f"rolling window: max_retained is {kind.max_retained}"
                changes.update(self.step("retire", memory, reason).changes)
                warnings.append(f"retired {memory.ref}, the oldest beyond max_retained")
                if unique:
                    only = "; ".join(unique)
                    warnings.append(f"{memory.ref} has content found nowhere else: {only}")
        return created._replace(changes=changes, warnings=tuple(warnings))


def _outcome(
    status: str, memory: Memory, verb: str, notes: Sequence[str], warnings: Sequence[str]
) -> Outcome:
    """Return what a step did that wrote one memory."""
    changes, message = {memory.path: memory.data}, f"{verb} {memory.ref}"
    return Outcome(status, memory, tuple(notes), tuple(warnings), changes=changes, message=message)


@contextlib.contextmanager
def _note_failure(problems: list[str], what: str) -> Iterator[None]:
    """Note that something failed; the rest goes on."""
    try:
        yield
    except RetainError as error:
        problems.append(f"{what}: {error.message}")


def _is_active(memory: Memory, category: str) -> bool:
    return memory.type == category and memory.status == "active"


def _load(memory: Memory) -> Record:
    if memory.problem:
        raise Unreadable(f"{memory.ref} cannot be read: {memory.problem}")
    return load_record(memory)
