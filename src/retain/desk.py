"""Typed memories: everything a door can ask about them, nothing printed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from retain.bank import now
from retain.errors import RetainError, Unreadable, UsageError
from retain.model import Memory
from retain.typed import forms, upkeep
from retain.typed.fixing import clean_title, slugify
from retain.typed.ledger import Ledger, Outcome, Target, at_memory
from retain.typed.shape import is_record

__all__ = ["Desk"]

Guard = Callable[[Mapping[str, object], bool], tuple[dict[str, object], tuple[str, ...]]]


class Desk:
    """The typed memories of the bank in force."""

    def __init__(
        self,
        ledger: Ledger,
        make: Callable[[], None],
        guard: Guard,
        find: Callable[[str, str | None], Memory],
        search: upkeep.Search,
    ) -> None:
        self.ledger = ledger
        self._make, self._guard, self._find, self._search = make, guard, find, search

    def record(
        self,
        category: str,
        content: Mapping[str, object],
        *,
        name: str = "",
        created_by: str = "",
        source: str = "",
        force: bool = False,
        allow_secret: bool = False,
        **fields: object,
    ) -> Outcome:
        """Store a typed memory with this content; `fields` are its title, tags and the like."""
        form, at_once = forms.form(category, self.ledger.rules), now()
        given = {
            "schema_version": "1.0",
            "category": category,
            "created_at": at_once,
            "updated_at": at_once,
            "title": fields.pop("title", "") or forms.title(form, content),
            "tags": fields.pop("tags", None) or ["untagged"],
            "content": dict(content),
            **{field: value for field, value in fields.items() if value not in (None, [])},
        }
        beside = self._guard({"created_by": created_by, "source": source}, False)[0]
        if self._guard({"id": name}, allow_secret)[0]["id"] != name:
            raise UsageError("the id looks like a secret", hint="Choose another id.")
        clean, warnings = self._guard(given, allow_secret)
        self._make()
        clean["id"] = name = name or slugify(clean_title(str(clean["title"])))
        suffix = ".json" if self.ledger.bank.kind.listing else ".md"
        at = Target(form.folder, name, suffix, f"{form.folder}/{name}")
        author, origin = str(beside["created_by"]), str(beside["source"])
        done = self.ledger.create(category, at, clean, force=force, author=author, source=origin)
        return done._replace(warnings=(*warnings, *done.warnings))

    def revise(
        self,
        ref: str,
        content: Mapping[str, object],
        *,
        expect: str = "",
        title: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Outcome:
        """Change some fields of a typed memory; None takes a field of its content out."""
        memory = self._find(ref, None)
        if memory.problem:
            raise Unreadable(f"{memory.ref} cannot be read: {memory.problem}")
        if not is_record(memory):
            raise UsageError(
                f"{memory.ref} is no typed memory, and has no fields",
                hint="Change its text, or rewrite its file.",
            )
        forms.form(memory.type, self.ledger.rules)  # or which categories there are
        heads = {"title": title, "tags": None if tags is None else list(tags)}
        given = {name: value for name, value in heads.items() if value is not None}
        clean, warnings = self._guard({**given, "content": dict(content)}, False)
        changes = clean.pop("content")
        assert isinstance(changes, dict)  # noqa: S101 - the guard keeps shapes
        done = self.ledger.revise(at_memory(memory), changes, clean, expect=expect)
        return done._replace(warnings=(*warnings, *done.warnings))

    def retire(self, ref: str, reason: str = "", collection: str | None = None) -> Outcome:
        """Take a memory out of force; `restore` brings it back until it is collected."""
        return self._with_reason(self.ledger.retire, ref, reason, collection)

    def archive(self, ref: str, reason: str = "", collection: str | None = None) -> Outcome:
        """Put a memory on the shelf: kept for good, behind those in force."""
        return self._with_reason(self.ledger.archive, ref, reason, collection)

    def _with_reason(
        self,
        step: Callable[[Target, str], Outcome],
        ref: str,
        reason: str,
        collection: str | None,
    ) -> Outcome:
        clean, warnings = self._guard({"reason": reason}, False)
        done = step(self._at(ref, collection), str(clean["reason"]))
        return done._replace(warnings=(*warnings, *done.warnings))

    def unarchive(self, ref: str, collection: str | None = None) -> Outcome:
        """Take a memory off the shelf."""
        return self.ledger.unarchive(self._at(ref, collection))

    def restore(self, ref: str, collection: str | None = None) -> Outcome:
        """Put a retired memory in force again."""
        return self.ledger.restore(self._at(ref, collection))

    def supersede(
        self, ref: str, by: str, collection: str | None = None
    ) -> tuple[Outcome, Outcome]:
        """Say that one memory has taken another's place; both remember it."""
        return self.ledger.supersede(self._at(ref, collection), self._at(by, None))

    def candidate(self, category: str, news: str, event: str | None = None) -> dict[str, Any]:
        """Which typed memory new information belongs to, and what may be done with it."""
        if self.ledger.bank.kind.listing:
            # Whoever asks will read the store's list next: a killed writer may have left it stale.
            with contextlib.suppress(RetainError):
                self.ledger.bank.relist()
        return upkeep.chosen(self.ledger, category, news, event, self._search)

    def changes(self, ref: str = "", since: str = "") -> Sequence[upkeep.Change]:
        """What happened to typed memories, the newest first."""
        return upkeep.changes(self.ledger, self._find(ref, None).address if ref else "", since)

    def gc(self, *, dry_run: bool = False) -> upkeep.Collected:
        """Remove what has been retired for longer than the grace period."""
        return upkeep.gc(self.ledger, dry_run=dry_run)

    def health(self) -> tuple[str, bool]:
        """A report on the typed memories, and whether all is well."""
        return upkeep.health(self.ledger)

    def _at(self, ref: str, collection: str | None) -> Target:
        return at_memory(self._find(ref, collection))
