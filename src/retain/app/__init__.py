"""The one facade: everything a door can ask for, nothing printed.

A door opens an App for the directory it works in, calls one method and renders what comes back.
The class is one, in four files: `banks` has the banks and their settings, `memories` what is read
and written, `records` the typed memories, `queries` what the index answers; the rest is here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from retain.app.records import TypedMemories
from retain.bank.files import Directory
from retain.config import rules
from retain.errors import NotFound
from retain.memory import Memory
from retain.names import GLOBAL, PROFILES

if TYPE_CHECKING:
    from retain.app.review import Review
    from retain.chats import Imported as ImportedChats
    from retain.doctor import Findings
    from retain.remote import Remote
    from retain.sessions.store import Sessions
    from retain.timeline import Event
    from retain.transfer import Exported, Imported


_ALL: Final = 1 << 31


class App(TypedMemories):
    """Retain, opened for one working directory."""

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
        return Sessions(
            own,
            self.own.ensure_bank,
            lambda: self.config.flag("guard.redact_secrets"),
            "" if here == os.path.realpath(own) else here,
        )

    @cached_property
    def own(self) -> App:
        """The same for the person's own bank; itself, where that is the one in force."""
        if self.location.scope == "global":
            return self
        return App(everywhere=True, cwd=self.cwd, env=self.env, stays=self._stays)

    def profiles(self) -> Sequence[str]:
        """The profile files that are there, which tell who the person is."""
        root = self.location.root
        return [name for name in PROFILES if os.path.isfile(os.path.join(root, name))]

    def profile(self, name: str) -> str:
        """The text of a profile file."""
        if name not in self.profiles():
            raise NotFound(f"there is no profile {name!r}")
        with Directory.open(self.bank.root) as root:
            return root.read(name, self.config.number("memory.max_bytes")).decode(
                "utf-8", "replace"
            )

    def timeline(self) -> Sequence[Event]:
        """What happened in the bank in force, the newest first."""
        from retain.timeline import chronicle

        if not self.location.exists:
            return []
        bank = self.bank

        def shelf(collection: str, name: str) -> Sequence[tuple[str, str]]:
            versions = bank.versions(Memory(name, collection, "", {}, ""))
            return [(version.time, f"v{version.number}") for version in versions]

        facts = self.sessions.facts(superseded=True)
        return chronicle(
            self.dated_memories(),
            self.trashed(),
            self.sessions.list(_ALL),
            # What went to the person's own bank happened there.
            [fact for fact in facts if not fact.ref.startswith(GLOBAL)],
            shelf,
        )

    # The whole bank

    def status(self) -> Findings:
        """What is in the bank in force, and what is wrong with it."""
        from retain.capture.inbox import Inbox
        from retain.doctor import examine

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

    def export(self, target: str) -> Exported:
        """Write the whole bank to a directory or a zip file."""
        from retain import transfer

        return transfer.export(self.bank, os.path.join(self.cwd, os.path.expanduser(target)))

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

        plan = transfer.plan(
            os.path.join(self.cwd, os.path.expanduser(source)),
            self.config.number("memory.max_bytes"),
        )
        allow_secret = allow_secret or not self.config.flag("guard.redact_secrets")
        self.ensure_bank()
        done = transfer.take_over(self.bank, plan, replace=replace, allow_secret=allow_secret)
        if not done.changes:
            return done
        what = f"import {len(done.changes)} memories"
        commit, warnings = self._index_and_commit(done.changes, what, progress=progress)
        return done._replace(commit=commit, warnings=[*done.warnings, *warnings])

    # Chats

    def import_chats(
        self, source: str, *, allow_secret: bool = False, dry_run: bool = False
    ) -> ImportedChats:
        """Take chats from files into the bank in force; those that are there are not doubled."""
        from retain import chats

        self.locator.refuse_switched_off()
        return chats.take_over(
            self.sessions,
            os.path.join(self.cwd, os.path.expanduser(source)),
            allow_secret=allow_secret or not self.config.flag("guard.redact_secrets"),
            dry_run=dry_run,
        )
