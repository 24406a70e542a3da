"""The one facade: everything a door can ask for, nothing printed.

A door opens an App for the place it works in, calls one method and renders what comes back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from retain import drafts, finding, paths
from retain.bank import Bank, restated
from retain.config import Config, rules
from retain.drafts import Draft
from retain.errors import Conflict, NotFound, RetainError, UsageError
from retain.fsio import Directory
from retain.gate import Gate
from retain.model import Deleted, Memory, Merged, Problem, Trashed, Version, Written
from retain.place import Place
from retain.workspace import Workspace

if TYPE_CHECKING:
    from retain.chats import Imported as ImportedChats
    from retain.chronicle import Event
    from retain.desk import Desk
    from retain.doctor import Findings
    from retain.history import History
    from retain.library import Library
    from retain.porter import Exported, Imported
    from retain.remote import Remote
    from retain.review import Review
    from retain.sessions.store import Sessions
    from retain.similar import Alike
    from retain.typed.ledger import Ledger
    from retain.writing import Writing

__all__ = ["App"]

_ALL: Final = 1 << 31


class App:
    """Retain, opened for one working directory."""

    def __init__(
        self,
        *,
        bank: str = "",
        local: bool = False,
        everywhere: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stays: bool = False,
    ) -> None:
        self._env = os.environ if env is None else env
        self._cwd = os.getcwd() if cwd is None else cwd
        self.workspace = Workspace(bank, local, everywhere, self._cwd, self._env)
        self._stays = stays

    @cached_property
    def library(self) -> Library:
        """Everything that is answered from the index."""
        from retain.library import Library

        return Library(self.workspace, stays=self._stays)

    @cached_property
    def remote(self) -> Remote:
        """The parts of the index that live elsewhere."""
        from retain.remote import Remote

        return Remote(self.workspace, self.library.in_force())

    @cached_property
    def ledger(self) -> Ledger:
        """Typed memories, and what may become of them."""
        from retain.typed.ledger import Ledger

        return Ledger(
            self.bank, rules(self.config, self.bank.root), self.gate.author(), self._settled
        )

    @cached_property
    def desk(self) -> Desk:
        """Everything else that is asked about them."""
        from retain.desk import Desk

        return Desk(self.ledger, self.workspace.make, self.gate.record, self.ours, self._alike)

    @cached_property
    def inbox(self) -> Review:
        """What hooks propose, and what becomes of it."""
        from retain.review import Review

        def alike(collection: str, name: str) -> Sequence[Alike]:
            return self.library.alike(collection, name)

        return Review(self.bank.root, self.desk, alike, self._env)

    @cached_property
    def sessions(self) -> Sessions:
        """The chats of the bank in force; its directory is made for the first of them."""
        from retain.sessions.store import Sessions

        root = self.workspace.opened.bank.root
        return Sessions(root, self.workspace.make, lambda: self.config.flag("guard.redact_secrets"))

    @cached_property
    def own(self) -> App:
        """The same for the person's own bank; itself, where that is the one in force."""
        if self.place.scope == "global":
            return self
        return App(everywhere=True, cwd=self._cwd, env=self._env, stays=self._stays)

    def close(self) -> None:
        """Let go of what was opened; every file is safe already."""
        if self.__dict__.get("own", self) is not self:
            self.own.close()
        if "library" in self.__dict__:
            self.library.close()
        if "sessions" in self.__dict__:
            self.sessions.close()

    @property
    def place(self) -> Place:
        """The bank in force."""
        return self.workspace.place

    @property
    def config(self) -> Config:
        """The settings in force for that bank."""
        return self.workspace.config

    @cached_property
    def gate(self) -> Gate:
        """What may come in, and in whose name."""
        return Gate(self.config, self._env)

    # Not kept: it knows the app, and what knows itself stays open when nobody wants it any more.
    @property
    def _writing(self) -> Writing:
        from retain.writing import Writing

        return Writing(self.workspace, self.gate, self._in_step)

    @property
    def bank(self) -> Bank:
        """The bank that writes go to."""
        return self.workspace.writable.bank

    def init(self) -> tuple[Place, bool]:
        """Make a bank where one was asked for, and say whether it is new."""
        return self.workspace.init()

    # Memories

    def put(
        self,
        draft: Draft,
        *,
        collection: str | None = None,
        name: str = "",
        created_by: str = "",
        replace: bool = False,
        is_new: bool = False,
    ) -> Written:
        """Store a memory: a new one, or a new text for the id given unless it must be new."""
        written = self._writing.put(
            draft,
            collection=collection,
            name=name,
            created_by=created_by,
            replace=replace,
            is_new=is_new,
        )
        return self._done(written, f"put {written.memory.ref}", ())

    def get(self, ref: str, *, collection: str | None = None, version: str = "") -> Memory:
        """A memory as it is, or as it was; the project's before the person's own."""
        memory, opened = finding.found(self.workspace, ref, collection)
        if not version:
            return memory
        return opened.history().at(memory, version)

    def successor(self, memory: Memory) -> str:
        """What a memory says it is superseded by, in its frontmatter or in its text."""
        if memory.superseded_by or "[[" not in memory.body:
            return memory.superseded_by
        from retain.links import links

        said = (link for link in links(memory.body) if link.memory_edge == "superseded_by")
        return next((link.target for link in said if link.kind != "ghost"), "")

    def ours(self, ref: str, collection: str | None = None) -> Memory:
        """A memory of the bank in force, which alone is changed and drawn."""
        return finding.ours(self.workspace, ref, collection)

    def list(
        self,
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
        return finding.listed(
            self.workspace,
            collection=collection,
            conditions=conditions,
            kind=kind,
            status=status,
            sort=sort,
            reverse=reverse,
            problems=problems,
        )

    def update(
        self, ref: str, draft: Draft, *, collection: str | None = None, expect: str = ""
    ) -> Written:
        """Change a memory's text or metadata; everything not named stays as it is."""
        written = self._writing.update(ref, draft, collection=collection, expect=expect)
        return self._done(written, f"update {written.memory.ref}", ())

    def append(
        self, ref: str, draft: Draft, *, collection: str | None = None, expect: str = ""
    ) -> Written:
        """Add text to the end of a memory, two line breaks after what is there."""
        written = self._writing.append(ref, draft, collection=collection, expect=expect)
        return self._done(written, f"append {written.memory.ref}", ())

    def edit(
        self,
        ref: str,
        editor: Callable[[Memory], str],
        *,
        collection: str | None = None,
        allow_secret: bool = False,
    ) -> Written:
        """Let a person rewrite the whole file; it is checked before it is saved."""
        written = self._writing.edit(ref, editor, collection=collection, allow_secret=allow_secret)
        return self._done(written, f"edit {written.memory.ref}", ())

    def delete(self, ref: str, *, collection: str | None = None, expect: str = "") -> Deleted:
        """Move a memory to the trash."""
        bank, memory = self._writable(ref, collection)
        trashed = bank.delete(memory.address, expect=expect)
        settled = self._settled({memory.path: None}, f"delete {memory.ref}")
        return Deleted(trashed, *settled)

    def move(
        self, ref: str, *, collection: str | None = None, to_collection: str | None, to_id: str
    ) -> Written:
        """Give a memory another collection or another id."""
        if to_collection is None and not to_id:
            raise UsageError("say where to: --collection NAME, --id NEW, or both")
        self.gate.refuse_secret_names(False, to_id, to_collection)
        bank, before = self._writable(ref, collection)
        written = bank.move(ref, collection=collection, to_collection=to_collection, to_id=to_id)
        if written.status == "unchanged":
            return written
        after = written.memory
        changes = {before.path: None, **self.ledger.follow(before.ref, after)}
        commit, warnings = self._settled(changes, f"move {before.ref} to {after.ref}")
        return written._replace(memory=bank.find(after.address), commit=commit, warnings=warnings)

    def move_over(
        self,
        ref: str,
        other: App,
        *,
        to_collection: str | None = None,
        to_id: str = "",
    ) -> tuple[Written, Deleted]:
        """Bring a memory into another bank, byte by byte; out of this one only when it is there."""
        _, before = self._writable(ref, None)
        other.gate.refuse_secret_names(False, to_id, to_collection)
        data = _movable(before, to_id, other.gate)
        other.workspace.make()
        collection = before.collection if to_collection is None else to_collection
        name = to_id or before.id
        what = f"move {before.ref} from another bank"
        written = other._done(other.bank.create(collection, name, data), what, ())
        try:
            gone = self.delete(before.address, expect=before.hash)
        except (RetainError, OSError):
            other.delete(written.memory.address)
            raise
        return written._replace(status="moved"), gone

    def unite(self, keep: str, others: Sequence[str]) -> Merged:
        """Several memories as one, under the name of the first: all of it or nothing."""
        first, *more = (self._writable(ref, None)[1] for ref in (keep, *others))
        bodies = dict.fromkeys(one.body.strip() for one in (first, *more))
        draft = Draft("\n\n".join(bodies), first.title, first.type)
        between = f"{first.id[:80]}-{os.urandom(4).hex()}"
        sources = [one.address for one in (first, *more)]
        done = self.merge(sources, between, draft, collection=first.collection)
        try:  # the name is free only now that its bearer is in the trash
            moved = self.move(done.written.memory.address, to_collection=None, to_id=first.id)
        except (RetainError, OSError):
            self._part(done)
            raise
        warnings = (*done.written.warnings, *moved.warnings)
        return done._replace(written=moved._replace(status="merged", warnings=warnings))

    def _part(self, done: Merged) -> None:
        """Take a merge back; what it made goes last, so that no text is ever in no memory."""
        made = done.written.memory
        for one in done.trashed:
            try:
                self.untrash(f"{one.collection}/{one.name}")
            except RetainError as error:
                raise Conflict(
                    f"{one.collection}/{one.id} cannot come back: {error.message}",
                    unchanged=f"All the texts are in {made.ref}.",
                    hint="Give that one the name you want with `retain move`.",
                ) from error
        self.delete(made.address)

    def merge(
        self,
        sources: Sequence[str],
        into: str,
        draft: Draft,
        *,
        collection: str | None = None,
        expect: Mapping[str, str] | None = None,
    ) -> Merged:
        """Put one memory in the place of several; what they linked to stays linked.

        `expect` has the hashes of the texts that were seen, by address.
        """
        bank = self.bank
        draft, warnings = self.gate.admitted(draft)
        self.gate.refuse_secret_names(draft.allow_secret, into, collection)
        given = drafts.given(draft)
        found = self._several(sources)
        where, wanted = paths.split_ref(into, collection)
        where = found[0].collection if where is None else where
        after, merged, trashed = bank.merge(
            [memory.address for memory in found],
            where,
            wanted,
            lambda memories: drafts.merged(memories, wanted, draft, given, self.gate.author()),
            expect,
        )
        changes: dict[str, bytes | None] = {memory.path: None for memory in merged}
        changes[after.path] = after.data
        names = ", ".join(memory.ref for memory in merged)
        commit, notes = self._settled(changes, f"merge {names} into {after.ref}")
        if any(isinstance(one.meta.get("content"), dict) for one in merged):
            notes += ("typed memories became one plain text; their fields are in the trash",)
        written = Written(after, "merged", "", commit, warnings + given.warnings + notes)
        return Merged(written, tuple(trashed))

    def _several(self, refs: Sequence[str]) -> Sequence[Memory]:
        """Two memories or more, each of them once."""
        found = {one.address: one for one in (self._writable(ref, None)[1] for ref in refs)}
        if len(found) < 2:
            named = f"only {next(iter(found))} was named" if found else "none was named"
            raise UsageError(
                f"a merge takes at least two memories, and {named}",
                hint="Name two or more; `retain update` and `retain move` change a single one.",
            )
        return list(found.values())

    def _alike(self, category: str, news: str) -> Sequence[tuple[str, float]]:
        """Memories of a category that are near to a text, with scores; none without confidence."""
        from retain.recall.asking import Wanted, conditions

        found = self.library.search(Wanted(news, conditions=conditions(kind=category)))
        return [(hit.path, hit.score) for hit in found.hits] if found.is_confident else []

    def profiles(self) -> Sequence[str]:
        """The profile files that are there, which tell who the person is."""
        root = self.place.root
        return [name for name in paths.PROFILES if os.path.isfile(os.path.join(root, name))]

    def profile(self, name: str) -> str:
        """The text of a profile file."""
        if name not in self.profiles():
            raise NotFound(f"there is no profile {name!r}")
        with Directory.open(self.bank.root) as root:
            return root.read(name, self.config.number("memory.max_bytes")).decode(
                "utf-8", "replace"
            )

    # History and trash

    def versions(self, ref: str, *, collection: str | None = None) -> Sequence[Version]:
        """The earlier texts of a memory, newest first."""
        memory, opened = finding.found(self.workspace, ref, collection)
        return opened.history().versions(memory)

    def past(self, ref: str) -> tuple[Memory, History]:
        """A memory of the bank in force with its earlier texts, for who reads them elsewhere."""
        return self.ours(ref), self.workspace.writable.history()

    def diff(
        self, ref: str, *, collection: str | None = None, older: str = "", newer: str = ""
    ) -> str:
        """What changed between two versions, as a unified diff."""
        memory, opened = finding.found(self.workspace, ref, collection)
        return opened.history().diff(memory, older, newer)

    def restore(
        self, ref: str, version: str, *, collection: str | None = None, expect: str = ""
    ) -> Written:
        """Bring an earlier text back; the present one stays in the history."""
        self._writable(ref, collection)
        history = self.workspace.writable.history()
        written = history.restore(ref, version, self._in_step, collection=collection, expect=expect)
        message = f"restore {written.memory.ref} to {version}"
        is_tracked = written.status != "unchanged" and history.is_tracked(written.memory)
        return self._done(written, message, (), commit=is_tracked)

    def take_back(self, ref: str, version: str, *, expect: str = "") -> Written:
        """The last text before this one, byte by byte, as if the last step had not been taken.

        A record tells of its own changes, also of those that `restore` takes back. Of an older
        text, more would be lost than one step.
        """
        bank, before = self._writable(ref, None)
        numbers = [one.number for one in bank.versions(before)]
        data = bank.read_version(before, numbers[-1]) if numbers else None
        if data is None or f"v{numbers[-1]}" != version:
            raise UsageError(
                "only the last step can be taken back byte by byte",
                unchanged="It was left as it is.",
                hint="Without exact, every version can be restored.",
            )
        text = data
        expect = expect or before.hash
        written = bank.change(before.address, lambda _: text, expect=expect, status="restored")
        return self._done(written, f"restore {before.ref} to {version}", ())

    def trashed(self) -> Sequence[Trashed]:
        """What can be brought back, newest first."""
        return self.bank.trashed()

    def untrash(self, name: str, *, collection: str | None = None, to_id: str = "") -> Written:
        """Bring a deleted memory back."""
        self.gate.refuse_secret_names(False, to_id)
        written = self.bank.untrash(name, collection=collection, to_id=to_id)
        return self._done(written, f"restore {written.memory.ref}", ())

    def chronicle(self) -> Sequence[Event]:
        """What happened in the bank in force, the newest first."""
        from retain.chronicle import chronicle

        if not self.place.exists:
            return []
        bank = self.bank

        def shelf(collection: str, name: str) -> Sequence[tuple[str, str]]:
            kept = bank.versions(Memory(name, collection, "", {}, ""))
            return [(one.time, f"v{one.number}") for one in kept]

        known = self.sessions.facts(superseded=True)
        return chronicle(
            self.library.dated(),
            self.trashed(),
            self.sessions.list(_ALL),
            # What went to the person's own bank happened there.
            [one for one in known if not one.ref.startswith(paths.GLOBAL)],
            shelf,
        )

    def empty_trash(self, before: str = "") -> Sequence[Trashed]:
        """Destroy what is in the trash for good."""
        return self.bank.empty_trash(before)

    # The whole bank

    def collections(self) -> Sequence[tuple[str, str, int]]:
        """Name, scope and number of memories of each collection."""
        return [
            (name, opened.bank.place.scope, count)
            for opened in self.workspace.banks()
            for name, count in opened.bank.counts().items()
            if name or count
        ]

    def names(self, collection: str | None = None) -> Sequence[tuple[str, str]]:
        """Collection and id of every memory that can be read; no file is opened."""
        return [name for opened in self.workspace.banks() for name in opened.bank.names(collection)]

    def status(self) -> Findings:
        """What is in the bank in force, and what is wrong with it."""
        from retain.doctor import examine

        bank = self.workspace.opened.bank
        return examine(bank, rules(self.config, bank.root))

    def kept_history(self) -> str:
        """In words, which earlier texts the bank keeps."""
        mode = self.config.text("versioning.mode")
        if mode == "off":
            return "off (versioning.mode)"
        numbered = f"the last {self.config.number('versioning.max_versions')} texts of each memory"
        repository = self.workspace.opened.history().repository if self.place.exists else None
        return f"git in {repository.root}, and {numbered}" if repository else numbered

    def export(self, target: str) -> Exported:
        """Write the whole bank to a directory or a zip file."""
        from retain import porter

        return porter.export(self.bank, os.path.join(self._cwd, os.path.expanduser(target)))

    def take_over(
        self,
        source: str,
        *,
        replace: bool,
        allow_secret: bool,
        progress: Callable[[int, int], None] | None = None,
    ) -> Imported:
        """Import another bank, store or export: all of it or nothing."""
        from retain import porter

        wanted = porter.plan(
            os.path.join(self._cwd, os.path.expanduser(source)),
            self.config.number("memory.max_bytes"),
        )
        allow_secret = allow_secret or not self.config.flag("guard.redact_secrets")
        self.workspace.make()
        done = porter.take_over(self.bank, wanted, replace=replace, allow_secret=allow_secret)
        if not done.changes:
            return done
        what = f"import {len(done.changes)} memories"
        commit, warnings = self._settled(done.changes, what, progress=progress)
        return done._replace(commit=commit, warnings=[*done.warnings, *warnings])

    # Chats

    def import_chats(
        self, source: str, *, allow_secret: bool = False, dry_run: bool = False
    ) -> ImportedChats:
        """Take chats from files into the bank in force; those that are there are not doubled."""
        from retain import chats

        self.workspace.refuse_switched_off()
        return chats.take_over(
            self.sessions,
            os.path.join(self._cwd, os.path.expanduser(source)),
            allow_secret=allow_secret or not self.config.flag("guard.redact_secrets"),
            dry_run=dry_run,
        )

    # Between the door and the bank

    def _writable(self, ref: str, collection: str | None) -> tuple[Bank, Memory]:
        return finding.writable(self.workspace, ref, collection)

    def _done(
        self, written: Written, what: str, warnings: tuple[str, ...], *, commit: bool = False
    ) -> Written:
        """The end of every change of one memory's text."""
        written = written._replace(warnings=warnings + written.warnings)
        if written.status == "unchanged":
            return written
        memory = written.memory
        done, notes = self._settled({memory.path: memory.data}, what, commit=commit)
        return written._replace(commit=done, warnings=written.warnings + notes)

    def _settled(
        self,
        changes: Mapping[str, bytes | None],
        what: str,
        *,
        commit: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[str, tuple[str, ...]]:
        """What follows a write, whatever made it: it is indexed, and committed if the bank does."""
        notes = (*self.bank.notes(), *self.library.take_in(changes, progress))
        if not commit and not self.config.flag("versioning.auto_commit"):
            return "", notes
        done, more = self._committed([*changes, *self.bank.own_list()], what)
        return done, notes + more

    def keep(self, name: str, what: str) -> tuple[str, ...]:
        """Commit a profile file that was written, if the bank commits; what is to be said of it."""
        if not self.config.flag("versioning.auto_commit"):
            return ()
        return self._committed([os.path.join(self.bank.root, name)], what)[1]

    def _committed(self, paths: Sequence[str], what: str) -> tuple[str, tuple[str, ...]]:
        history = self.workspace.writable.history()
        # As the files are now, while nobody writes: another may have written since.
        with self.bank.at_rest(paths) as present:
            outcome = history.commit(present, f"retain: {what}")
        return outcome.commit or "", (outcome.warning,) if outcome.warning else ()

    def _in_step(self, memory: Memory, new: bytes) -> bytes:
        """New bytes of a memory; those of a typed one are checked, and say what changed."""
        if not (memory.path.endswith(".json") or b"content:" in new or "content" in memory.meta):
            return new
        from retain.typed.ledger import in_step

        return in_step(memory, new, self.ledger.rules)


def _movable(memory: Memory, to_id: str, gate: Gate) -> bytes:
    """The bytes that a memory has in another bank; only its own name for itself may change."""
    if not memory.path.endswith(".md") or memory.problem:
        raise UsageError(
            f"{memory.ref} is no Markdown that can be read",
            unchanged="Nothing was moved.",
            hint="Only such memories can go to another bank.",
        )
    text = memory.data.decode("utf-8", "replace")
    if gate.admitted(Draft(text))[0].text != text:
        raise UsageError(
            f"{memory.ref} holds what looks like a secret, and the other bank takes none",
            unchanged="Nothing was moved.",
            hint="Take the secret out of it first.",
        )
    return restated(memory._replace(id=to_id)) if to_id else memory.data
