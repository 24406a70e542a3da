"""The one facade: everything a door can ask for, nothing printed.

A door opens an App for the directory it works in, calls one method and renders what comes back.
`Banks` finds, opens and indexes the banks; every verb is a function on them, in the module that
the table of verbs names.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final

from retain.app import memories, queries, records
from retain.app.banks import Banks, verb
from retain.bank.files import Directory
from retain.config import rules
from retain.errors import NotFound
from retain.memory import GLOBAL, PROFILES, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retain.app.review import Review
    from retain.doctor import Findings
    from retain.remote import Remote
    from retain.sessions.files import ImportReport
    from retain.sessions.store import Sessions
    from retain.timeline import Event
    from retain.transfer import Exported, Imported

_ALL: Final = 1 << 31


class App(Banks):
    """Retain, opened for one working directory; safe to use from several threads."""

    # Memories
    get = verb(memories.get)
    list = verb(memories.list_memories)
    names = verb(memories.names)
    collections = verb(memories.collections)
    put = verb(memories.put)
    update = verb(memories.update)
    append = verb(memories.append)
    rewrite = verb(memories.rewrite)
    delete = verb(memories.delete)
    move = verb(memories.move)
    move_over = verb(memories.move_over)
    merge = verb(memories.merge)
    merge_into_first = verb(memories.merge_into_first)

    # Their history, and the trash
    versions = verb(memories.versions)
    with_history = verb(memories.with_history)
    diff = verb(memories.diff)
    restore = verb(memories.restore)
    trashed = verb(memories.trashed)
    is_deleted = verb(memories.is_deleted)
    untrash = verb(memories.untrash)
    empty_trash = verb(memories.empty_trash)
    commit_profile = verb(memories.commit_profile)
    clean_text = verb(memories.clean_text)

    # Typed memories
    record = verb(records.record)
    revise = verb(records.revise)
    retire = verb(records.retire)
    unretire = verb(records.unretire)
    archive = verb(records.archive)
    unarchive = verb(records.unarchive)
    supersede = verb(records.supersede)
    candidate = verb(records.candidate)
    changes = verb(records.changes)
    gc = verb(records.gc)
    settle = verb(records.settle)

    # Search
    search = verb(queries.search)
    search_with_tally = verb(queries.search_with_tally)
    brief = verb(queries.brief)
    read_body = verb(queries.read_body)
    shortfalls = verb(queries.shortfalls)

    # Links
    linked = verb(queries.linked)
    related = verb(queries.related)
    graph = verb(queries.graph)
    connections = verb(queries.connections)
    dangling_links = verb(queries.dangling_links)
    resolve_links = verb(queries.resolve_links)
    find_ghost = verb(queries.find_ghost)
    successor = staticmethod(queries.successor)
    successors = verb(queries.successors)
    predecessors = verb(queries.predecessors)

    # Duplicates
    suggest_merges = verb(queries.suggest_merges)
    dedupe = verb(queries.dedupe)
    alike = verb(queries.alike)
    cosines = verb(queries.cosines)
    ignored_pairs = verb(queries.ignored_pairs)
    ignore_pair = verb(queries.ignore_pair)

    # Listings from the index, and the index itself
    browse = verb(queries.browse)
    find_by_name = verb(queries.find_by_name)
    dated_memories = verb(queries.dated_memories)
    count_types = verb(queries.count_types)
    sync = verb(queries.sync)
    refresh = verb(queries.refresh)
    rebuild = verb(queries.rebuild)
    has_model = verb(queries.has_model)
    index_facts = verb(queries.index_facts)
    stats = verb(queries.stats)
    health = verb(queries.health)
    watch = queries.watch  # takes the lock for each look

    def __enter__(self) -> App:
        with self.turn():
            return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The app's other parts

    @cached_property
    def own(self) -> App:
        """The same for the person's own bank; itself, where that is the one in force."""
        if self.location.scope == "global":
            return self
        own = App(everywhere=True, cwd=self.cwd, env=self.env, stays=self._stays)
        own.lock = self.lock
        self.closers.append(own.close)
        return own

    @cached_property
    def remote(self) -> Remote:
        """The parts of the index that live elsewhere."""
        from retain.remote import Remote

        return Remote(self, self.index())

    @cached_property
    def inbox(self) -> Review:
        """What hooks propose, and what becomes of it."""
        from retain.app.review import Review

        return Review(self)

    @cached_property
    def sessions(self) -> Sessions:
        """The chats held in the bank in force; all of a person's lie in their own bank."""
        from retain.sessions.store import Sessions

        own, here = self.own.location.root, os.path.realpath(self.location.root)
        sessions = Sessions(
            own,
            self.own.ensure_bank,
            lambda: self.config.flag("guard.redact_secrets"),
            "" if here == os.path.realpath(own) else here,
        )
        self.closers.append(sessions.close)
        return sessions

    # The whole bank

    def status(self) -> Findings:
        """What is in the bank in force, and what is wrong with it."""
        from retain.capture.inbox import Inbox
        from retain.doctor import examine

        with self.turn():
            bank = self.opened
            inbox = Inbox(bank.root, self.env)
            is_indexed = bank.location.exists and self.config.flag("memory.enabled")
            index = self.index() if is_indexed else None
            return examine(bank, rules(self.config, bank.root), inbox, index)

    def kept_history(self) -> str:
        """In words, which earlier texts the bank keeps."""
        mode = self.config.text("versioning.mode")
        if mode == "off":
            return "off (versioning.mode)"
        count = self.config.number("versioning.max_versions")
        numbered = f"the last {f'{count} texts' if count > 1 else 'text'} of each memory"
        repository = self.history(self.opened).repository if self.location.exists else None
        return f"git in {repository.root}, and {numbered}" if repository else numbered

    def profiles(self) -> Sequence[str]:
        """The profile files that are there, which tell who the person is."""
        root = self.location.root
        return [name for name in PROFILES if os.path.isfile(os.path.join(root, name))]

    def profile(self, name: str) -> str:
        """The text of a profile file."""
        if name not in self.profiles():
            raise NotFound(f"there is no profile {name!r}")
        with Directory.open(self.bank.root) as root:
            data = root.read(name, self.config.number("memory.max_bytes"))
        return data.decode("utf-8", "replace")

    def timeline(self) -> Sequence[Event]:
        """What happened in the bank in force, the newest first."""
        from retain.timeline import build_timeline

        if not self.location.exists:
            return []
        bank = self.bank

        def versions(collection: str, name: str) -> Sequence[tuple[str, str]]:
            kept = bank.versions(Memory(name, collection, "", {}, ""))
            return [(version.time, f"v{version.number}") for version in kept]

        facts = self.sessions.facts(superseded=True)
        return build_timeline(
            self.dated_memories(),
            self.trashed(),
            self.sessions.list(_ALL),
            # What went to the person's own bank happened there.
            [fact for fact in facts if not fact.ref.startswith(GLOBAL)],
            versions,
        )

    def export(self, target: str) -> Exported:
        """Write the whole bank to a directory or a zip file."""
        from retain import transfer

        return transfer.export(self.bank, self._path(target))

    def import_bank(
        self,
        source: str,
        *,
        replace: bool,
        allow_secret: bool,
        progress: Callable[[int, int], None] | None = None,
    ) -> Imported:
        """Import another bank, store or export: all of it or nothing."""
        from retain import transfer

        plan = transfer.read_source(self._path(source), self.config.number("memory.max_bytes"))
        allow_secret = allow_secret or not self.config.flag("guard.redact_secrets")
        self.ensure_bank()
        done = transfer.import_files(self.bank, plan, replace=replace, allow_secret=allow_secret)
        if not done.changes:
            return done
        what = f"import {len(done.changes)} memories"
        commit, warnings = memories.index_and_commit(self, done.changes, what, progress=progress)
        return done._replace(commit=commit, warnings=[*done.warnings, *warnings])

    def import_chats(
        self, source: str, *, allow_secret: bool = False, dry_run: bool = False
    ) -> ImportReport:
        """Take chats from files into the bank in force; those that are there are not doubled."""
        from retain.sessions.files import import_source

        self.refuse_switched_off()
        return import_source(
            self.sessions,
            self._path(source),
            allow_secret=allow_secret or not self.config.flag("guard.redact_secrets"),
            dry_run=dry_run,
        )

    def _path(self, name: str) -> str:
        return os.path.join(self.cwd, os.path.expanduser(name))
