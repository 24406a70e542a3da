"""Every verb on memories: found, stored, changed, moved, merged, deleted and brought back.

A write is one way down: the input is cleaned of secrets, the bank writes the file under its lock,
then the index takes it in and git commits it, if the bank does that.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

from retain.app.banks import Banks
from retain.bank import filters, index_md
from retain.bank.bank import LockedMemory, changed_error, has_hash, restate_id
from retain.bank.markdown import edit_file, parse_file
from retain.bank.memory_input import (
    MemoryInput,
    ParsedText,
    admit,
    append_text,
    compose_merged,
    compose_new,
    find_author,
    parse_text,
    refuse_secret_names,
    replace_text,
    revise,
    touch,
)
from retain.config import rules, whole
from retain.errors import Conflict, NotFound, RetainError, Unreadable, UsageError
from retain.memory import Deleted, Memory, Merged, Problem, Trashed, Version, Written, now
from retain.names import check_collection, check_id, memory_id, nfc, split_ref

if TYPE_CHECKING:
    from retain.bank.history import History
    from retain.categories import Rules
    from retain.records.service import Records

SORTS: Final = ("collection", "id", "title", "type", "status", "created", "updated")

_REPEATS: Final = 5  # how often an append may find a text that was changed without the lock


class Memories(Banks):
    """The memories of the banks around one working directory."""

    @property
    def author(self) -> str:
        """In whose name this app writes."""
        return find_author(self.config, self.env)

    @cached_property
    def _rules(self) -> Rules:
        return rules(self.config, self.bank.root)

    @cached_property
    def records(self) -> Records:
        """The typed memories of the bank in force; what changes them goes through the app."""
        from retain.records.service import Records

        redact_secrets = self.config.flag("guard.redact_secrets")
        return Records(self.bank, self._rules, self.author, redact_secrets=redact_secrets)

    # Reading

    def get(self, ref: str, *, collection: str | None = None, version: str = "") -> Memory:
        """A memory as it is, or as it was; the project's before the person's own."""
        memory, bank = self.find_memory(ref, collection)
        return self.history(bank).at(memory, version) if version else memory

    def list(
        self,
        *,
        collection: str | None = None,
        filter: Iterable[str] = (),  # noqa: A002 - as the flags are called
        type: str = "",  # noqa: A002
        status: str = "",
        sort: str = "collection",
        reverse: bool = False,
        limit: int | None = None,
        problems: list[Problem] | None = None,
    ) -> list[Memory]:
        """Memories that meet every condition; retired ones only when asked for."""
        limit = None if limit is None else whole("limit", limit)
        conditions = [filters.parse(condition) for condition in filter]
        collection = None if collection is None else check_collection(collection)
        banks = self.readable()  # the project's own first
        if reverse:
            banks.reverse()
        memories = (
            memory
            for bank in banks
            for memory in bank.memories(collection, problems, reverse=reverse)
            if (not type or memory.type == type)
            and (status in ("all", memory.status) if status else memory.status != "retired")
            and filters.matches(memory, conditions)
        )
        if sort == "collection":  # the order they come in: no more is read than is asked for
            return list(islice(memories, limit))
        ordered = sorted(memories, key=lambda memory: _sort_key(memory, sort), reverse=reverse)
        return ordered[:limit]

    def names(self, collection: str | None = None) -> Sequence[tuple[str, str]]:
        """Collection and id of every memory that can be read; no file is opened."""
        return [name for bank in self.readable() for name in bank.names(collection)]

    def collections(self) -> Sequence[tuple[str, str, int]]:
        """Name, scope and number of memories of each collection."""
        return [
            (name, bank.location.scope, count)
            for bank in self.readable()
            for name, count in bank.counts().items()
            if name or count
        ]

    def _find_all(self, refs: Sequence[str]) -> Sequence[Memory]:
        """Several memories of the bank in force, each of them once."""
        memories = [self.find_own(ref) for ref in refs]
        return tuple({memory.address: memory for memory in memories}.values())

    # Writing

    def admit(self, memory_input: MemoryInput) -> tuple[MemoryInput, tuple[str, ...]]:
        """The input as it may be stored here, and what has to be said about secrets in it."""
        return admit(memory_input, redact_secrets=self.config.flag("guard.redact_secrets"))

    def put(
        self,
        memory_input: MemoryInput,
        *,
        collection: str | None = None,
        name: str = "",
        created_by: str = "",
        replace: bool = False,
        is_new: bool = False,
    ) -> Written:
        """Store a memory: a new one, or a new text for the id given unless it must be new."""
        self.ensure_bank()
        memory_input, warnings = self.admit(memory_input.signed(created_by))
        if not memory_input.allow_secret:
            self._refuse_secret_names(name, collection)
        parsed = parse_text(memory_input.text)
        collection, id_ = self._address(name, collection, memory_input.title, parsed)
        data = compose_new(memory_input, parsed, id_, self.author)
        data = self._check_record(Memory(id_, collection, f"{id_}.md", {}, ""), data)
        with self.bank.lock_name(collection, id_) as slot:
            if slot.taken and not is_new:
                may_replace = bool(name or replace)
                change = slot.open_taken(slot.taken)
                written = self._put_again(change, id_, memory_input, parsed, may_replace)
            else:
                written = slot.create(data)
        return self._finish(written, f"put {written.memory.ref}", warnings + parsed.warnings)

    def _address(
        self, name: str, collection: str | None, title: str, parsed: ParsedText
    ) -> tuple[str, str]:
        """The collection and id to store under: those given, else made from the text."""
        if name:
            collection, id_ = split_ref(name, collection)
        else:
            title = title or str(parsed.meta.get("title") or "")
            stated = str(parsed.meta.get("id") or "")
            id_ = check_id(stated or memory_id(title, parsed.body))
        if collection is None:
            collection = self.config.text("memory.default_collection")
            collection = collection or self.bank.kind.default_collection
        return collection, id_

    def _put_again(
        self,
        change: LockedMemory,
        id_: str,
        memory_input: MemoryInput,
        parsed: ParsedText,
        may_replace: bool,
    ) -> Written:
        """Make a text the new one of a memory; metadata that nobody names stays.

        An id that was made from the text is never another memory's, unless nothing changes.
        """
        old = change.memory
        if not old.path.endswith(".md"):
            raise Conflict(
                f"{old.ref} is a JSON record",
                unchanged="It was left as it is, and nothing was stored.",
                hint=f"Change it with `retain update {old.address}`.",
            )
        data = replace_text(old, memory_input.for_existing(), parsed)
        is_same_id = nfc(old.id) == id_
        if data != old.data and not (may_replace and is_same_id):
            same = "the same text and other metadata" if old.body == parsed.body else "another text"
            hint = f"Store this as another memory with --id NEW, or change that one: --id {old.id}."
            if not is_same_id:
                same = f"{same}; ids that differ only in case are one"
            elif old.body == parsed.body:
                hint = f"Change its metadata with `retain update {old.address}`."
            raise Conflict(
                f"{old.ref} exists already, with {same}",
                unchanged="It was left as it is, and nothing was stored.",
                hint=hint,
            )
        return change.write(self._check_record(old, data), status="replaced")

    def update(
        self,
        ref: str,
        memory_input: MemoryInput,
        *,
        collection: str | None = None,
        expect: str = "",
    ) -> Written:
        """Change a memory's text or metadata; everything not named stays as it is."""
        if memory_input.text is None and not memory_input.changes():
            raise UsageError(
                "there is nothing to change",
                unchanged=f"{ref} is as it was.",
                hint="Give --content, --tags, --title, --metadata or another field.",
            )
        memory_input, warnings = self.admit(memory_input)
        parsed = None if memory_input.text is None else parse_text(memory_input.text)
        with self._changing(ref, collection) as change:
            memory = change.memory
            if parsed:
                data = replace_text(memory, memory_input, parsed)
            else:
                data = revise(memory, memory_input.changes(memory.tags), None)
            written = change.write(self._check_record(memory, data), expect=expect)
        warnings += parsed.warnings if parsed else ()
        return self._finish(written, f"update {written.memory.ref}", warnings)

    def append(
        self,
        ref: str,
        memory_input: MemoryInput,
        *,
        collection: str | None = None,
        expect: str = "",
    ) -> Written:
        """Add text to the end of a memory, two line breaks after what is there."""
        memory_input, warnings = self.admit(memory_input)
        addition = memory_input.text or ""
        if not addition.strip():
            raise UsageError("there is no text to add", unchanged=f"{ref} is as it was.")
        with self._changing(ref, collection) as locked:
            change = locked
            for attempt in range(_REPEATS):
                data = self._check_record(change.memory, append_text(change.memory, addition))
                is_last = bool(expect) or attempt == _REPEATS - 1
                try:
                    written = change.write(
                        data, expect=expect, status="appended", keep_lost=is_last
                    )
                    break
                except Conflict:
                    if is_last:
                        raise
                    change = change.reread()
        return self._finish(written, f"append {written.memory.ref}", warnings)

    def rewrite(self, memory: Memory, text: str, *, allow_secret: bool = False) -> Written:
        """Give a memory the whole file that a person made of it, if it can be read."""
        admitted, warnings = self.admit(MemoryInput(text=text, allow_secret=allow_secret))
        data = (admitted.text or "").encode()
        document = parse_file(memory.path, data)
        if document.problem:
            raise Unreadable(
                f"not saved: {document.problem}",
                unchanged=f"{memory.path} is as it was.",
            )
        if document.meta.get("id", memory.id) != memory.id:
            warnings += (
                f"the file's name is the id; `retain move {memory.address} --id NEW` changes it",
            )
        edited = restate_id(memory._replace(meta=document.meta, data=data))
        with self._changing(memory.address) as change:
            data = self._check_record(change.memory, touch(change.memory, document.meta, edited))
            written = change.write(data, expect=memory.hash)
        return self._finish(written, f"edit {written.memory.ref}", warnings)

    def delete(self, ref: str, *, collection: str | None = None, expect: str = "") -> Deleted:
        """Move a memory to the trash."""
        with self._changing(ref, collection) as change:
            memory, trashed = change.memory, change.delete(expect)
        settled = self._index_and_commit({memory.path: None}, f"delete {memory.ref}")
        return Deleted(trashed, *settled)

    def move(
        self, ref: str, *, collection: str | None = None, to_collection: str | None, to_id: str
    ) -> Written:
        """Give a memory another collection or another id."""
        if to_collection is None and not to_id:
            raise UsageError("say where to: --collection NAME, --id NEW, or both")
        self._refuse_secret_names(to_id, to_collection)
        with self._changing(ref, collection) as change:
            before, written = change.memory, change.move(to_collection, to_id)
        if written.status == "unchanged":
            return written
        after = written.memory
        changes = {before.path: None, **self.records.follow(before.ref, after)}
        commit, warnings = self._index_and_commit(changes, f"move {before.ref} to {after.ref}")
        after = self.bank.find(after.address)
        return written._replace(memory=after, commit=commit, warnings=warnings)

    def move_over(
        self,
        ref: str,
        other: Memories,
        *,
        to_collection: str | None = None,
        to_id: str = "",
    ) -> tuple[Written, Deleted]:
        """Bring a memory into another bank, byte by byte; out of this one only when it is there."""
        before = self.find_own(ref)
        other._refuse_secret_names(to_id, to_collection)
        if not before.path.endswith(".md") or before.problem:
            raise UsageError(
                f"{before.ref} is no Markdown that can be read",
                unchanged="Nothing was moved.",
                hint="Only such memories can go to another bank.",
            )
        text = before.data.decode("utf-8", "replace")
        if other.admit(MemoryInput(text))[0].text != text:
            raise UsageError(
                f"{before.ref} holds what looks like a secret, and the other bank takes none",
                unchanged="Nothing was moved.",
                hint="Take the secret out of it first.",
            )
        # Only its own name for itself may change.
        data = restate_id(before._replace(id=to_id)) if to_id else before.data
        other.ensure_bank()
        collection = before.collection if to_collection is None else to_collection
        created = other.bank.create(collection, to_id or before.id, data)
        written = other._finish(created, f"move {before.ref} from another bank", ())
        try:
            gone = self.delete(before.address, expect=before.hash)
        except (RetainError, OSError):
            other.delete(written.memory.address)
            raise
        warnings = written.warnings
        if self.bank.versions(before):
            warnings = (*warnings, f"its earlier versions stay in {self.bank.root}/.versions")
        return written._replace(status="moved", warnings=warnings), gone

    def merge(
        self,
        sources: Sequence[str],
        into: str,
        memory_input: MemoryInput,
        *,
        collection: str | None = None,
        expect: Mapping[str, str] | None = None,
        minimum: int = 2,
    ) -> Merged:
        """Put one memory in the place of several; what they linked to stays linked.

        `expect` has the hashes of the texts that were seen, by address.
        """
        memory_input, warnings = self.admit(memory_input)
        if not memory_input.allow_secret:
            self._refuse_secret_names(into, collection)
        parsed = parse_text(memory_input.text)
        memories = self._find_all(sources)
        if len(memories) < minimum:
            named = f"only {memories[0].address} was named" if memories else "none was named"
            raise UsageError(
                f"a merge takes at least two memories, and {named}",
                hint="Name two or more; `retain update` and `retain move` change a single one.",
            )
        for memory in memories:
            if not has_hash(memory, (expect or {}).get(memory.address, "")):
                raise changed_error(memory, "merged")
        collection, name = split_ref(into, collection)
        collection = memories[0].collection if collection is None else collection
        data = compose_merged(memories, name, memory_input, parsed, self.author)
        after, trashed = self.bank.merge(memories, collection, name, data)
        changes: dict[str, bytes | None] = {memory.path: None for memory in memories}
        changes[after.path] = after.data
        refs = ", ".join(memory.ref for memory in memories)
        commit, notes = self._index_and_commit(changes, f"merge {refs} into {after.ref}")
        if any(isinstance(memory.meta.get("content"), dict) for memory in memories):
            notes += ("typed memories became one plain text; their fields are in the trash",)
        written = Written(after, "merged", "", commit, warnings + parsed.warnings + notes)
        return Merged(written, tuple(trashed))

    def merge_into_first(self, keep: str, others: Sequence[str]) -> Merged:
        """Several memories as one, under the name of the first: all of it or nothing."""
        memories = self._find_all((keep, *others))
        first, addresses = memories[0], [memory.address for memory in memories]
        bodies = dict.fromkeys(memory.body.strip() for memory in memories)
        draft = MemoryInput("\n\n".join(bodies), first.title, first.type)
        between = f"{first.id[:80]}-{os.urandom(4).hex()}"
        merged = self.merge(addresses, between, draft, collection=first.collection)
        try:  # the name is free only now that its bearer is in the trash
            moved = self.move(merged.written.memory.address, to_collection=None, to_id=first.id)
        except (RetainError, OSError):
            self._undo_merge(merged)
            raise
        warnings = (*merged.written.warnings, *moved.warnings)
        return merged._replace(written=moved._replace(status="merged", warnings=warnings))

    def _undo_merge(self, merged: Merged) -> None:
        """Take a merge back; what it made goes last, so that no text is ever in no memory."""
        made = merged.written.memory
        for source in merged.trashed:
            try:
                self.untrash(f"{source.collection}/{source.name}")
            except RetainError as error:
                raise Conflict(
                    f"{source.collection}/{source.id} cannot come back: {error.message}",
                    unchanged=f"All the texts are in {made.ref}.",
                    hint="Give that one the name you want with `retain move`.",
                ) from error
        self.delete(made.address)

    # History and trash

    def versions(self, ref: str, *, collection: str | None = None) -> Sequence[Version]:
        """The earlier texts of a memory, newest first."""
        memory, bank = self.find_memory(ref, collection)
        return self.history(bank).versions(memory)

    def with_history(self, ref: str) -> tuple[Memory, History]:
        """A memory of the bank in force with its earlier texts, for who reads them elsewhere."""
        return self.find_own(ref), self.history(self.bank)

    def diff(
        self, ref: str, *, collection: str | None = None, older: str = "", newer: str = ""
    ) -> str:
        """What changed between two versions, as a unified diff."""
        memory, bank = self.find_memory(ref, collection)
        return self.history(bank).diff(memory, older, newer)

    def restore(
        self,
        ref: str,
        version: str,
        *,
        collection: str | None = None,
        expect: str = "",
        exact: bool = False,
    ) -> Written:
        """Bring an earlier text back; the present one stays in the history.

        With `exact` byte by byte, as if what came after had not happened. Of a record only the last
        text: it tells of its own changes, and an older one would lose more than one step.
        """
        history = self.history(self.bank)
        with self._changing(ref, collection) as change:
            memory = change.memory
            if exact:
                labels = [f"v{numbered.number}" for numbered in self.bank.versions(memory)]
                is_record = memory.path.endswith(".json")
                if version not in (labels[-1:] if is_record else labels):
                    raise UsageError(
                        "only the last step can be taken back byte by byte",
                        unchanged="It was left as it is.",
                        hint="Without exact, every version can be restored.",
                    )
                data = history.read(memory, version)
            else:
                old = history.at(memory, version)
                # An older text may state the id the memory had then, and an older `updated_at`.
                data = restate_id(old._replace(id=memory.id))
                if data != memory.data and old.meta and not old.problem:
                    data = edit_file(memory.path, data, {"updated_at": now()})
                data = self._check_record(memory, data)
            written = change.write(data, expect=expect, status="restored")
        message = f"restore {written.memory.ref} to {version}"
        is_changed = written.status != "unchanged" and not exact
        commit = is_changed and history.is_tracked(written.memory)
        return self._finish(written, message, (), commit=commit)

    def trashed(self) -> Sequence[Trashed]:
        """What can be brought back, newest first."""
        return self.bank.trashed()

    def is_deleted(self, ref: str, collection: str | None = None) -> bool:
        """Whether a reference names a memory in the trash, and none in force."""
        bank = self.bank
        return not bank.holds(ref, collection) and bank.find_trashed(ref, collection) is not None

    def untrash(self, name: str, *, collection: str | None = None, to_id: str = "") -> Written:
        """Bring a deleted memory back."""
        self._refuse_secret_names(to_id)
        written = self.bank.untrash(name, collection=collection, to_id=to_id)
        return self._finish(written, f"restore {written.memory.ref}", ())

    def empty_trash(self, before: str = "") -> Sequence[Trashed]:
        """Destroy what is in the trash for good, with its earlier texts and all their vectors."""
        texts: list[Memory] = []
        for entry in self.bank.trashed():
            if not before or entry.deleted_at < before:
                with contextlib.suppress(RetainError):  # too large, or gone: it has no vectors
                    memory = self.bank.read_trashed(entry)
                    texts += [memory, *self.bank.read_versions(memory)]
        destroyed = self.bank.empty_trash(before)
        if texts:
            self.index().forget_vectors(texts)
        return destroyed

    # What every write shares

    @contextlib.contextmanager
    def _changing(self, ref: str, collection: str | None = None) -> Iterator[LockedMemory]:
        """A memory of the bank in force, which nobody else may change meanwhile."""
        ref = self._own_ref(ref)
        with contextlib.ExitStack() as opened:
            try:
                change = opened.enter_context(self.bank.lock_memory(ref, collection))
            except NotFound as error:
                raise self._explain_missing(error, ref, collection) from None
            yield change

    def _refuse_secret_names(self, *names: str | None) -> None:
        if self.config.flag("guard.redact_secrets"):
            refuse_secret_names(*names)

    def _check_record(self, memory: Memory, data: bytes) -> bytes:
        """New bytes of a memory; those of a typed one are checked, and say what changed."""
        if not (memory.path.endswith(".json") or b"content:" in data or "content" in memory.meta):
            return data
        from retain.records.merge import check_edit

        return check_edit(memory, data, self._rules)

    def _finish(
        self, written: Written, what: str, warnings: tuple[str, ...], *, commit: bool = False
    ) -> Written:
        """The end of every change of one memory's text."""
        if written.memory.problem:  # such as git's marks of an unsettled merge
            warnings += (f"{written.memory.ref}: {written.memory.problem}",)
        written = written._replace(warnings=warnings + written.warnings)
        if written.status == "unchanged":
            return written
        memory = written.memory
        step = {"retired": "restore", "archived": "unarchive"}.get(memory.status)
        if step and written.status != "created":
            note = f"{memory.ref} is {memory.status}: `retain {step} {memory.ref}` makes it active"
            written = written._replace(warnings=(*written.warnings, note))
        done, notes = self._index_and_commit({memory.path: memory.data}, what, commit=commit)
        return written._replace(commit=done, warnings=written.warnings + notes)

    def _index_and_commit(
        self,
        changes: Mapping[str, bytes | None],
        what: str,
        *,
        commit: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, tuple[str, ...]]:
        """What follows a write, whatever made it: it is indexed, and committed if the bank does."""
        listed, notes = index_md.settle(self.bank) if self.bank.kind.listing else ([], ())
        try:
            self._index_of(self.bank).update(changes, progress)
        except RetainError as error:  # the memory itself is safe
            notes += (f"saved, and not yet searchable: {error.message}",)
        if not commit and not self.config.flag("versioning.auto_commit"):
            return "", notes
        done, more = self._commit([*changes, *listed], what)
        return done, notes + more

    def commit_profile(self, name: str, what: str) -> tuple[str, ...]:
        """Commit a profile file that was written, if the bank commits; what is to be said of it."""
        if not self.config.flag("versioning.auto_commit"):
            return ()
        return self._commit([os.path.join(self.bank.root, name)], what)[1]

    def _commit(self, paths: Sequence[str], what: str) -> tuple[str, tuple[str, ...]]:
        history = self.history(self.bank)
        # As the files are now, while nobody writes: another may have written since.
        with self.bank.lock_contents(paths) as present:
            outcome = history.commit(present, f"retain: {what}")
        return outcome.commit or "", (outcome.warning,) if outcome.warning else ()


def _sort_key(memory: Memory, sort: str) -> tuple[str, ...]:
    first = str(getattr(memory, sort, "")).casefold()
    if sort in ("created", "updated"):
        first = memory.text(f"{sort}_at") or memory.text("created_at")
    return first, memory.collection, memory.id
