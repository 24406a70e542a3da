"""Every verb on typed memories: done by the rules of `records`, then indexed and committed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retain.app.memories import index_and_commit
from retain.app.queries import search
from retain.errors import RetainError

if TYPE_CHECKING:
    from retain.app.banks import Banks
    from retain.records.service import Change, Collected, Outcome


def record(  # noqa: PLR0913 - one keyword for each thing that may be said of it
    banks: Banks,
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
    banks.ensure_bank()
    fields = {"title": title, "id": id, "tags": [*tags], "related_files": [*files]}
    outcome = banks.records.create(
        category,
        banks.records.make_draft(category, content, {**fields, "confidence": confidence}),
        name=id,
        force=force,
        allow_secret=allow_secret,
        author=created_by,
        source=source,
    )
    return settle(banks, outcome)


def revise(
    banks: Banks,
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
    return settle(banks, banks.records.revise(banks.find_own(ref), content, fields, expect))


def retire(banks: Banks, ref: str, reason: str = "", collection: str | None = None) -> Outcome:
    """Retire a memory; `unretire` brings it back until it is collected."""
    return settle(banks, banks.records.step("retire", banks.find_own(ref, collection), reason))


def archive(banks: Banks, ref: str, reason: str = "", collection: str | None = None) -> Outcome:
    """Archive a memory: kept for good, behind the active ones."""
    return settle(banks, banks.records.step("archive", banks.find_own(ref, collection), reason))


def unarchive(banks: Banks, ref: str, collection: str | None = None) -> Outcome:
    """Make an archived memory active."""
    return settle(banks, banks.records.step("unarchive", banks.find_own(ref, collection)))


def unretire(banks: Banks, ref: str, collection: str | None = None) -> Outcome:
    """Make a retired memory active."""
    return settle(banks, banks.records.step("restore", banks.find_own(ref, collection)))


def supersede(
    banks: Banks, ref: str, by: str, collection: str | None = None
) -> tuple[Outcome, Outcome]:
    """Say that one memory has taken another's place; both remember it."""
    outcomes = banks.records.supersede(banks.find_own(ref, collection), banks.find_own(by))
    replaced = settle(banks, outcomes[0])
    return replaced, outcomes[1]._replace(commit=replaced.commit)


def candidate(banks: Banks, category: str, news: str, event: str | None = None) -> dict[str, Any]:
    """Say which typed memory new information belongs to, and what may be done with it."""
    from retain.bank import index_md  # 0.4 ms, as in app/memories.py

    if banks.bank.kind.listing:
        # Whoever asks will read the store's list next: a killed writer may have left it stale.
        with contextlib.suppress(RetainError):
            index_md.update(banks.bank)
    hits: Sequence[tuple[str, float]] = ()
    if banks.records.rules.match_strategy == "hybrid":
        from retain.search.request import SearchRequest, parse_filters

        answer = search(banks, SearchRequest(news, filters=parse_filters(kind=category)))
        hits = [(hit.path, hit.score) for hit in answer.hits] if answer.is_confident else ()
    return banks.records.candidate(category, news, event, hits)


def changes(banks: Banks, ref: str = "", since: str = "") -> Sequence[Change]:
    """List what happened to typed memories, the newest first."""
    return banks.records.history(banks.find_own(ref) if ref else None, since)


def gc(banks: Banks, *, dry_run: bool = False) -> Collected:
    """Remove what has been retired for longer than the grace period."""
    done = banks.records.gc(dry_run=dry_run)
    if not done.changes:
        return done
    what = f"gc {len(done.deleted)} retired memories"
    commit, warnings = index_and_commit(banks, done.changes, what)
    return done._replace(commit=commit, warnings=warnings)


def settle(banks: Banks, outcome: Outcome) -> Outcome:
    """Index and commit what a step on a record changed."""
    from retain.bank import index_md  # as above

    if outcome.changes:
        commit, more = index_and_commit(banks, outcome.changes, outcome.message)
    else:  # a list of records that somebody broke is mended all the same
        commit, (_, more) = "", index_md.settle(banks.bank)
    return outcome._replace(commit=commit, warnings=(*outcome.warnings, *more))
