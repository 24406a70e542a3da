"""Every verb on memories: found, stored, changed, moved, merged, deleted and brought back.

A write is one way down: the input is cleaned of secrets, the bank writes the file under its lock,
then the index takes it in and git commits it, if the bank does that.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

from retain.bank.bank import LockedMemory, matches_hash
from retain.bank.files import changed_error
from retain.bank.markdown import (
    MemoryInput,
    ParsedText,
    admit,
    append_text,
    compose_merged,
    compose_new,
    edit_file,
    parse_file,
    parse_text,
    refuse_secret_names,
    replace_text,
    revise,
    set_own_id,
    touch,
)
from retain.config import whole
from retain.errors import Conflict, RetainError, Unreadable, UsageError
from retain.memory import (
    Deleted,
    Memory,
    Merged,
    Problem,
    Trashed,
    Version,
    Written,
    check_collection,
    check_id,
    memory_id,
    nfc,
    now,
    parse_time,
    split_ref,
)

if TYPE_CHECKING:
    from retain.app.banks import Banks
    from retain.bank.history import History

SORTS: Final = ("collection", "id", "title", "type", "status", "created", "updated")


class Fields(TypedDict, total=False):
    """What may be said of a memory beside its text, wherever one is stored or changed."""

    title: str
    type: str
    tags: Sequence[str] | None
    merge_tags: bool  # add the tags to those there
    metadata: Mapping[str, object] | None  # other keys; None as a value removes one
    created_by: str
    allow_secret: bool


# Reading


def get(banks: Banks, ref: str, *, collection: str | None = None, version: str = "") -> Memory:
    """A memory as it is, or as it was; the project's before the person's own."""
    memory, bank = banks.find_memory(ref, collection)
    return banks.history(bank).at(memory, version) if version else memory


def list_memories(  # noqa: PLR0913 - one keyword for each condition
    banks: Banks,
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
    from retain.bank import filters  # 0.4 ms, which `get` does not need

    limit = None if limit is None else whole("limit", limit)
    conditions = [filters.parse(condition) for condition in filter]
    collection = None if collection is None else check_collection(collection)
    in_order = banks.readable()  # the project's own first
    if reverse:
        in_order.reverse()
    memories = (
        memory
        for bank in in_order
        for memory in bank.memories(collection, problems, reverse=reverse)
        if (not type or memory.type == type)
        and (status in ("all", memory.status) if status else memory.status != "retired")
        and filters.matches(memory, conditions)
    )
    if sort == "collection":  # the order they come in: no more is read than is asked for
        return list(islice(memories, limit))
    ordered = sorted(memories, key=lambda memory: _sort_key(memory, sort), reverse=reverse)
    return ordered[:limit]


def _sort_key(memory: Memory, sort: str) -> tuple[str | float, ...]:
    first: str | float = str(getattr(memory, sort, "")).casefold()
    if sort in ("created", "updated"):
        moment = parse_time(memory.text(f"{sort}_at")) or parse_time(memory.text("created_at"))
        first = moment.timestamp() if moment else -math.inf  # without a time: before all others
    return first, memory.collection, memory.id


def names(banks: Banks, collection: str | None = None) -> Sequence[tuple[str, str]]:
    """Collection and id of every memory that can be read; no file is opened."""
    return [name for bank in banks.readable() for name in bank.names(collection)]


def collections(banks: Banks) -> Sequence[tuple[str, str, int]]:
    """Name, scope and number of memories of each collection."""
    return [
        (name, bank.location.scope, count)
        for bank in banks.readable()
        for name, count in bank.counts().items()
        if name or count
    ]


# Writing


def put(
    banks: Banks,
    text: str | None,
    *,
    id: str = "",  # noqa: A002 - the word for it everywhere else
    collection: str | None = None,
    replace: bool = False,
    is_new: bool = False,
    **fields: Unpack[Fields],
) -> Written:
    """Store a memory; it is on disk and searchable when this returns.

    It is a new one, or a new text for the id that is named, unless it must be new.
    """
    banks.ensure_bank()
    memory_input, warnings = _admit(banks, text, **fields)
    if not memory_input.allow_secret:
        _refuse_secret_names(banks, id, collection)
    parsed = parse_text(memory_input.text)
    title = str(memory_input.fields.get("title") or "")
    collection, name = _choose_address(banks, id, collection, title, parsed)
    data = compose_new(memory_input, parsed, name, banks.author)
    data = _check_record(banks, Memory(name, collection, f"{name}.md", {}, ""), data)
    with banks.bank.lock_name(collection, name) as change:
        if not change.is_new and not is_new:
            new_text = _replace(change.memory, name, memory_input, parsed, bool(id or replace))
            written = change.write(_check_record(banks, change.memory, new_text), status="replaced")
        else:
            written = change.create(data)
    return _finish(banks, written, f"put {written.memory.ref}", warnings + parsed.warnings)


def _choose_address(
    banks: Banks, name: str, collection: str | None, title: str, parsed: ParsedText
) -> tuple[str, str]:
    """The collection and id to store under: those given, else made from the text."""
    if name:
        collection, name = split_ref(name, collection)
    else:
        title = title or str(parsed.meta.get("title") or "")
        stated = str(parsed.meta.get("id") or "")
        name = check_id(stated or memory_id(title, parsed.body))
    if collection is None:
        collection = banks.config.text("memory.default_collection")
        collection = collection or banks.bank.kind.default_collection
    return collection, name


def _replace(
    old: Memory, name: str, memory_input: MemoryInput, parsed: ParsedText, may_replace: bool
) -> bytes:
    """A memory's bytes with a new text; metadata that nobody names stays.

    An id that was made from the text is never another memory's, unless nothing changes.
    """
    unchanged = "It was left as it is, and nothing was stored."
    if not old.path.endswith(".md"):
        hint = f"Change it with `retain update {old.address}`."
        raise Conflict(f"{old.ref} is a JSON record", unchanged=unchanged, hint=hint)
    data = replace_text(old, memory_input.for_existing(), parsed)
    is_same_id = nfc(old.id) == name
    if data == old.data or (may_replace and is_same_id):
        return data
    same = "the same text and other metadata" if old.body == parsed.body else "another text"
    hint = "Store this as another memory with --id NEW, or replace that one with --replace."
    if not is_same_id:
        hint = f"Store this as another memory with --id NEW, or change that one: --id {old.id}."
        same = f"{same}; ids that differ only in case are one"
    elif old.body == parsed.body:
        hint = f"Change its metadata with `retain update {old.address}`."
    raise Conflict(f"{old.ref} exists already, with {same}", unchanged=unchanged, hint=hint)


def update(
    banks: Banks,
    ref: str,
    text: str | None = None,
    *,
    collection: str | None = None,
    expect: str = "",
    **fields: Unpack[Fields],
) -> Written:
    """Change a memory's text or metadata; what is not named stays, the old text is kept."""
    memory_input, warnings = _admit(banks, text, **fields)
    if text is None and not memory_input.fields and memory_input.tags is None:
        raise UsageError(
            "there is nothing to change",
            unchanged=f"{ref} is as it was.",
            hint="Give --content, --tags, --title, --metadata or another field.",
        )
    parsed = None if text is None else parse_text(memory_input.text)
    with _locked(banks, ref, collection) as change:
        memory = change.memory
        if parsed:
            data = replace_text(memory, memory_input, parsed)
        else:
            data = revise(memory, memory_input.changes_to(memory), None)
        written = change.write(_check_record(banks, memory, data), expect=expect)
    warnings += parsed.warnings if parsed else ()
    return _finish(banks, written, f"update {written.memory.ref}", warnings)


def append(
    banks: Banks,
    ref: str,
    text: str,
    *,
    collection: str | None = None,
    expect: str = "",
    allow_secret: bool = False,
) -> Written:
    """Add text to the end of a memory, two line breaks after what is there."""
    memory_input, warnings = _admit(banks, text, allow_secret=allow_secret)
    addition = memory_input.text or ""
    if not addition.strip():
        raise UsageError("there is no text to add", unchanged=f"{ref} is as it was.")
    with _locked(banks, ref, collection) as change:
        data = _check_record(banks, change.memory, append_text(change.memory, addition))
        written = change.write(data, expect=expect, status="appended")
    return _finish(banks, written, f"append {written.memory.ref}", warnings)


def rewrite(banks: Banks, memory: Memory, text: str, *, allow_secret: bool = False) -> Written:
    """Give a memory the whole file that a person made of it, if it can be read."""
    admitted, warnings = _admit(banks, text, allow_secret=allow_secret)
    data = (admitted.text or "").encode()
    document = parse_file(memory.path, data)
    if document.problem:
        unchanged = f"{memory.path} is as it was."
        raise Unreadable(f"not saved: {document.problem}", unchanged=unchanged)
    if document.meta.get("id", memory.id) != memory.id:
        move_it = f"`retain move {memory.address} --id NEW` changes it"
        warnings += (f"the file's name is the id; {move_it}",)
    edited = set_own_id(memory._replace(meta=document.meta, data=data))
    with _locked(banks, memory.address) as change:
        data = touch(change.memory, document.meta, edited)
        written = change.write(_check_record(banks, change.memory, data), expect=memory.hash)
    return _finish(banks, written, f"edit {written.memory.ref}", warnings)


def delete(banks: Banks, ref: str, *, collection: str | None = None, expect: str = "") -> Deleted:
    """Move a memory to the trash."""
    with _locked(banks, ref, collection) as change:
        memory, trashed = change.memory, change.delete(expect)
    return Deleted(trashed, *index_and_commit(banks, {memory.path: None}, f"delete {memory.ref}"))


def move(
    banks: Banks,
    ref: str,
    *,
    collection: str | None = None,
    to_collection: str | None,
    to_id: str,
) -> Written:
    """Give a memory another collection or another id."""
    if to_collection is None and not to_id:
        raise UsageError("say where to: --collection NAME, --id NEW, or both")
    _refuse_secret_names(banks, to_id, to_collection)
    with _locked(banks, ref, collection) as change:
        before, written = change.memory, change.move(to_collection, to_id)
    if written.status == "unchanged":
        return written
    after = written.memory
    changes = {before.path: None, **banks.records.follow_move(before.ref, after)}
    commit, warnings = index_and_commit(banks, changes, f"move {before.ref} to {after.ref}")
    after = banks.bank.find(after.address)
    return written._replace(memory=after, commit=commit, warnings=warnings)


def move_over(
    banks: Banks, ref: str, other: Banks, *, to_collection: str | None = None, to_id: str = ""
) -> tuple[Written, Deleted]:
    """Bring a memory into another bank, byte by byte; out of this one only when it is there."""
    before = banks.find_own(ref)
    _refuse_secret_names(other, to_id, to_collection)
    if not before.path.endswith(".md") or before.problem:
        raise UsageError(
            f"{before.ref} is no Markdown that can be read",
            unchanged="Nothing was moved.",
            hint="Only such memories can go to another bank.",
        )
    text = before.data.decode("utf-8", "replace")
    if _admit(other, text)[0].text != text:
        raise UsageError(
            f"{before.ref} holds what looks like a secret, and the other bank takes none",
            unchanged="Nothing was moved.",
            hint="Take the secret out of it first.",
        )
    # Only its own name for itself may change.
    data = set_own_id(before._replace(id=to_id)) if to_id else before.data
    with other.turn():
        other.ensure_bank()
        collection = before.collection if to_collection is None else to_collection
        created = other.bank.create(collection, to_id or before.id, data)
        written = _finish(other, created, f"move {before.ref} from another bank", ())
    try:
        gone = delete(banks, before.address, expect=before.hash)
    except (RetainError, OSError):
        delete(other, written.memory.address)
        raise
    warnings = written.warnings
    if banks.bank.versions(before):
        warnings += (f"its earlier versions stay in {banks.bank.root}/.versions",)
    return written._replace(status="moved", warnings=warnings), gone


def merge(
    banks: Banks,
    sources: Sequence[str],
    into: str,
    text: str | None,
    *,
    collection: str | None = None,
    expect: Mapping[str, str] | None = None,
    minimum: int = 2,
    **fields: Unpack[Fields],
) -> Merged:
    """Put one memory in the place of several, which go to the trash; links stay linked.

    `expect` has the hashes of the texts that were seen, by address.
    """
    memory_input, warnings = _admit(banks, text, **fields)
    if not memory_input.allow_secret:
        _refuse_secret_names(banks, into, collection)
    parsed = parse_text(memory_input.text)
    memories = _find_all(banks, sources)
    if len(memories) < minimum:
        named = f"only {memories[0].address} was named" if memories else "none was named"
        raise UsageError(
            f"a merge takes at least two memories, and {named}",
            hint="Name two or more; `retain update` and `retain move` change a single one.",
        )
    for memory in memories:
        if not matches_hash(memory, (expect or {}).get(memory.address, "")):
            raise changed_error(memory.path, "merged")
    collection, name = split_ref(into, collection)
    collection = memories[0].collection if collection is None else collection
    data = compose_merged(memories, name, memory_input, parsed, banks.author)
    after, trashed = banks.bank.merge(memories, collection, name, data)
    changes: dict[str, bytes | None] = {memory.path: None for memory in memories}
    changes[after.path] = after.data
    refs = ", ".join(memory.ref for memory in memories)
    commit, notes = index_and_commit(banks, changes, f"merge {refs} into {after.ref}")
    if any(isinstance(memory.meta.get("content"), dict) for memory in memories):
        notes += ("typed memories became one plain text; their fields are in the trash",)
    written = Written(after, "merged", "", commit, warnings + parsed.warnings + notes)
    return Merged(written, tuple(trashed))


def merge_into_first(banks: Banks, keep: str, others: Sequence[str]) -> Merged:
    """Several memories as one, under the name of the first."""
    memories = _find_all(banks, (keep, *others))
    first, addresses = memories[0], [memory.address for memory in memories]
    text = "\n\n".join(dict.fromkeys(memory.body.strip() for memory in memories))
    between = f"{first.id[:80]}-{os.urandom(4).hex()}"
    merged = merge(
        banks,
        addresses,
        between,
        text,
        collection=first.collection,
        title=first.title,
        type=first.type,
    )
    made = merged.written.memory
    try:  # the name is free only now that its bearer is in the trash
        moved = move(banks, made.address, to_collection=None, to_id=first.id)
    except RetainError as error:
        raise Conflict(
            f"{first.ref} cannot be its name: {error.message}",
            unchanged=f"All the texts are in {made.ref}.",
            hint="Give that one the name you want with `retain move`.",
        ) from error
    warnings = merged.written.warnings + moved.warnings
    return merged._replace(written=moved._replace(status="merged", warnings=warnings))


# History and trash


def versions(banks: Banks, ref: str, *, collection: str | None = None) -> Sequence[Version]:
    """The earlier texts of a memory, newest first."""
    memory, bank = banks.find_memory(ref, collection)
    return banks.history(bank).versions(memory)


def with_history(banks: Banks, ref: str) -> tuple[Memory, History]:
    """A memory of the bank in force with its earlier texts, for who reads them elsewhere."""
    return banks.find_own(ref), banks.history(banks.bank)


def diff(
    banks: Banks, ref: str, *, collection: str | None = None, older: str = "", newer: str = ""
) -> str:
    """What changed between two versions, as a unified diff."""
    memory, bank = banks.find_memory(ref, collection)
    return banks.history(bank).diff(memory, older, newer)


def restore(
    banks: Banks,
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
    history = banks.history(banks.bank)
    with _locked(banks, ref, collection) as change:
        memory = change.memory
        if exact:
            labels = [f"v{numbered.number}" for numbered in banks.bank.versions(memory)]
            if version not in (labels[-1:] if memory.path.endswith(".json") else labels):
                raise UsageError(
                    "only the last step can be taken back byte by byte",
                    unchanged="It was left as it is.",
                    hint="Without exact, every version can be restored.",
                )
            data = history.read(memory, version)
        else:
            old = history.at(memory, version)
            # An older text may state the id the memory had then, and an older `updated_at`.
            data = set_own_id(old._replace(id=memory.id))
            if data != memory.data and old.meta and not old.problem:
                data = edit_file(memory.path, data, {"updated_at": now()})
            data = _check_record(banks, memory, data)
        written = change.write(data, expect=expect, status="restored")
    is_changed = written.status != "unchanged" and not exact
    commit = is_changed and history.is_tracked(written.memory)
    what = f"restore {written.memory.ref} to {version}"
    return _finish(banks, written, what, (), commit=commit)


def trashed(banks: Banks) -> Sequence[Trashed]:
    """What can be brought back, newest first."""
    return banks.bank.trash.entries()


def is_deleted(banks: Banks, ref: str, collection: str | None = None) -> bool:
    """Whether a reference names a memory in the trash, and none in force."""
    bank = banks.bank
    return not bank.holds(ref, collection) and bank.trash.find(ref, collection) is not None


def untrash(banks: Banks, name: str, *, collection: str | None = None, to_id: str = "") -> Written:
    """Bring a deleted memory back."""
    _refuse_secret_names(banks, to_id)
    written = banks.bank.trash.restore(name, collection=collection, to_id=to_id)
    return _finish(banks, written, f"restore {written.memory.ref}", ())


def empty_trash(banks: Banks, before: str = "") -> Sequence[Trashed]:
    """Destroy what is in the trash for good, with its earlier texts and all their vectors."""
    bank = banks.bank
    texts: list[Memory] = []
    for entry in bank.trash.entries():
        if not before or entry.deleted_at < before:
            with contextlib.suppress(RetainError):  # too large, or gone: it has no vectors
                memory = bank.trash.read(entry)
                texts += [memory, *bank.read_versions(memory)]
    destroyed = bank.trash.empty(before)
    if texts:
        banks.index().forget_vectors(texts)
    return destroyed


# What every write shares


def _admit(
    banks: Banks,
    text: str | None,
    *,
    title: str = "",
    type: str = "",  # noqa: A002
    metadata: Mapping[str, object] | None = None,
    created_by: str = "",
    **rest: Any,
) -> tuple[MemoryInput, tuple[str, ...]]:
    """What somebody hands in as it may be stored here, and what is to be said of secrets in it."""
    stated = {"title": title, "type": type, "created_by": created_by}
    fields = {**(metadata or {}), **{name: value for name, value in stated.items() if value}}
    memory_input = MemoryInput(text, fields, **rest)
    return admit(memory_input, redact_secrets=banks.config.flag("guard.redact_secrets"))


def clean_text(
    banks: Banks, text: str, *, allow_secret: bool = False
) -> tuple[str, tuple[str, ...]]:
    """A text as it may be stored here, and what is to be said of secrets in it."""
    memory_input, warnings = _admit(banks, text, allow_secret=allow_secret)
    return memory_input.text or "", warnings


def _find_all(banks: Banks, refs: Sequence[str]) -> Sequence[Memory]:
    """Several memories of the bank in force, each of them once."""
    memories = [banks.find_own(ref) for ref in refs]
    return tuple({memory.address: memory for memory in memories}.values())


@contextlib.contextmanager
def _locked(banks: Banks, ref: str, collection: str | None = None) -> Iterator[LockedMemory]:
    """A memory of the bank in force, which nobody else may change meanwhile."""
    with contextlib.ExitStack() as opened:
        with banks.explaining(ref, collection) as name:
            change = opened.enter_context(banks.bank.lock_memory(name, collection))
        yield change


def _refuse_secret_names(banks: Banks, *names: str | None) -> None:
    if banks.config.flag("guard.redact_secrets"):
        refuse_secret_names(*names)


def _check_record(banks: Banks, memory: Memory, data: bytes) -> bytes:
    """New bytes of a memory; those of a typed one are checked, and say what changed."""
    if not (memory.path.endswith(".json") or b"content:" in data or "content" in memory.meta):
        return data
    from retain.records.merge import check_edit

    return check_edit(memory, data, banks.rules)


def _finish(
    banks: Banks, written: Written, what: str, warnings: tuple[str, ...], *, commit: bool = False
) -> Written:
    """Index and commit one memory's new text, and say what there is to say of it."""
    memory = written.memory
    if memory.problem:  # such as git's marks of an unsettled merge
        warnings += (f"{memory.ref}: {memory.problem}",)
    warnings += written.warnings
    if written.status == "unchanged":
        return written._replace(warnings=warnings)
    step = {"retired": "restore", "archived": "unarchive"}.get(memory.status)
    if step and written.status != "created":
        makes_active = f"`retain {step} {memory.ref}` makes it active"
        warnings += (f"{memory.ref} is {memory.status}: {makes_active}",)
    done, notes = index_and_commit(banks, {memory.path: memory.data}, what, commit=commit)
    return written._replace(commit=done, warnings=warnings + notes)


def index_and_commit(
    banks: Banks,
    changes: Mapping[str, bytes | None],
    what: str,
    *,
    commit: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[str, tuple[str, ...]]:
    """What follows a write, whatever made it: it is indexed, and committed if the bank does."""
    bank = banks.bank
    listed: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    if bank.kind.listing:
        from retain.bank import index_md  # 0.4 ms, and few stores have such a list

        listed, notes = index_md.settle(bank)
    try:
        banks.index_of(bank).update(changes, progress)
    except RetainError as error:  # the memory itself is safe
        notes += (f"saved, and not yet searchable: {error.message}",)
    if not commit and not banks.config.flag("versioning.auto_commit"):
        return "", notes
    done, more = _commit(banks, [*changes, *listed], what)
    return done, notes + more


def commit_profile(banks: Banks, name: str, what: str) -> tuple[str, ...]:
    """Commit a profile file that was written, if the bank commits; what is to be said of it."""
    if not banks.config.flag("versioning.auto_commit"):
        return ()
    return _commit(banks, [os.path.join(banks.bank.root, name)], what)[1]


def _commit(banks: Banks, paths: Sequence[str], what: str) -> tuple[str, tuple[str, ...]]:
    history = banks.history(banks.bank)
    # As the files are now, while nobody writes: another may have written since.
    with banks.bank.lock_contents(paths) as present:
        outcome = history.commit(present, f"retain: {what}")
    return outcome.commit or "", (outcome.warning,) if outcome.warning else ()
