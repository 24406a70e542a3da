"""Every verb on typed memories: done by the rules of `records`, then indexed and committed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retain.app.memories import Memories
from retain.app.queries import Queries
from retain.bank import index_md
from retain.errors import RetainError

if TYPE_CHECKING:
    from retain.records.service import Change, Collected, Outcome


class TypedMemories(Memories, Queries):
    """The typed memories of the bank in force."""

    def record(  # noqa: PLR0913 - one keyword for each thing that may be said of it
        self,
        category: str,
        content: Mapping[str, object],
        *,
        title: str = "",
        id: str = "",  # noqa: A002 - the word for it everywhere else
        tags: Sequence[str] = (),
        files: Sequence[str] = (),
        confidence: float | None = None,
        created_by: str = "",
        source: str = "",
        force: bool = False,
        allow_secret: bool = False,
    ) -> Outcome:
        """Store a decision, a runbook, a constraint ...: a memory whose fields are checked."""
        self.ensure_bank()
        fields = {"title": title, "id": id, "tags": [*tags], "related_files": [*files]}
        outcome = self.records.create(
            category,
            self.records.draft(category, content, {**fields, "confidence": confidence}),
            name=id,
            force=force,
            allow_secret=allow_secret,
            author=created_by,
            source=source,
        )
        return self.settle(outcome)

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
        heads = {"title": title, "tags": None if tags is None else [*tags]}
        fields = {name: value for name, value in heads.items() if value is not None}
        return self.settle(self.records.revise(self.find_own(ref), content, fields, expect))

    def retire(self, ref: str, reason: str = "", collection: str | None = None) -> Outcome:
        """Retire a memory; `unretire` brings it back until it is collected."""
        return self.settle(self.records.step("retire", self.find_own(ref, collection), reason))

    def archive(self, ref: str, reason: str = "", collection: str | None = None) -> Outcome:
        """Archive a memory: kept for good, behind the active ones."""
        return self.settle(self.records.step("archive", self.find_own(ref, collection), reason))

    def unarchive(self, ref: str, collection: str | None = None) -> Outcome:
        """Make an archived memory active."""
        return self.settle(self.records.step("unarchive", self.find_own(ref, collection)))

    def unretire(self, ref: str, collection: str | None = None) -> Outcome:
        """Make a retired memory active."""
        return self.settle(self.records.step("restore", self.find_own(ref, collection)))

    def supersede(
        self, ref: str, by: str, collection: str | None = None
    ) -> tuple[Outcome, Outcome]:
        """Say that one memory has taken another's place; both remember it."""
        outcomes = self.records.supersede(self.find_own(ref, collection), self.find_own(by))
        replaced = self.settle(outcomes[0])
        return replaced, outcomes[1]._replace(commit=replaced.commit)

    def candidate(self, category: str, news: str, event: str | None = None) -> dict[str, Any]:
        """Say which typed memory new information belongs to, and what may be done with it."""
        if self.bank.kind.listing:
            # Whoever asks will read the store's list next: a killed writer may have left it stale.
            with contextlib.suppress(RetainError):
                index_md.update(self.bank)
        hits: Sequence[tuple[str, float]] = ()
        if self.records.rules.match_strategy == "hybrid":
            from retain.search.request import SearchRequest, parse_filters

            answer = self.search(SearchRequest(news, filters=parse_filters(kind=category)))
            hits = [(hit.path, hit.score) for hit in answer.hits] if answer.is_confident else ()
        return self.records.candidate(category, news, event, hits)

    def changes(self, ref: str = "", since: str = "") -> Sequence[Change]:
        """List what happened to typed memories, the newest first."""
        return self.records.history(self.find_own(ref) if ref else None, since)

    def gc(self, *, dry_run: bool = False) -> Collected:
        """Remove what has been retired for longer than the grace period."""
        done = self.records.gc(dry_run=dry_run)
        if not done.changes:
            return done
        what = f"gc {len(done.deleted)} retired memories"
        commit, warnings = self._index_and_commit(done.changes, what)
        return done._replace(commit=commit, warnings=warnings)

    def settle(self, outcome: Outcome) -> Outcome:
        """Index and commit what a step on a record changed."""
        if outcome.changes:
            commit, more = self._index_and_commit(outcome.changes, outcome.message)
        else:  # a list of records that somebody broke is mended all the same
            commit, (_, more) = "", index_md.settle(self.bank)
        return outcome._replace(commit=commit, warnings=(*outcome.warnings, *more))
