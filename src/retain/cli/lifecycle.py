"""new, candidate, retire, archive, unarchive, supersede, changes, gc, health."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from retain.app import App
from retain.cli.command import (
    Args,
    Output,
    arg,
    ask,
    command,
    flag,
    memory_arg,
    repeated,
    same_bank,
)
from retain.cli.render import Table
from retain.records.match import LIFECYCLE_EVENTS

if TYPE_CHECKING:
    from retain.records.service import Outcome

_REASON: Final = arg("--reason WHY", "why, in a sentence", default="")


def outcome_output(done: Outcome, message: str = "", by: str = "") -> Output:
    """What every step of a typed memory's life answers with."""
    from retain.records.lifecycle import NO_REASON

    memory, status = done.memory, done.status.removeprefix("already_")
    verb = "Stored" if status == "created" else status.capitalize()
    if status != done.status or status == "unchanged":
        verb = f"Nothing to do, already {status}"
    reason = memory.text(f"{status}_reason")
    facts = {
        verb: memory.ref,
        "File": memory.path,
        "Previous text kept as": done.kept,
        "Renamed from": done.renamed_from,
        "Reason": reason if reason != NO_REASON else "",
        "Committed": done.commit[:10],
        "By": by,
    }
    return Output(
        done,
        facts,
        quiet=[memory.ref],
        messages=[*(f"mended: {note}" for note in done.notes), message],
        warnings=done.warnings,
    )


@command("retire", "ID", "--collection", _REASON)
def _retire(app: App, args: Args, ref: str, reason: str, collection: str | None) -> Output:
    """Retire a memory; it can be restored for a while.

    A retired memory is no longer found, and stays restorable until `retain gc` removes it.

      retain retire use-mysql --reason "we moved to Postgres"
      retain list --status retired
      retain restore use-mysql
    """
    done = app.retire(ref, reason, collection)
    days = app.records.rules.grace_period_days
    back = f"retain restore {done.memory.ref}{same_bank(args)}"
    return outcome_output(done, f"It can be brought back for {days} days: {back}")


@command("archive", "ID", "--collection", _REASON)
def _archive(app: App, ref: str, reason: str, collection: str | None) -> Output:
    """Archive a memory: kept for good, ranked behind active ones.

    An archived memory is kept for good and still found, ranked behind active ones.

      retain archive q3-migration --reason "finished"
      retain unarchive q3-migration
    """
    return outcome_output(app.archive(ref, reason, collection))


@command("unarchive", "ID", "--collection")
def _unarchive(app: App, ref: str, collection: str | None) -> Output:
    """Make an archived memory active again.

    It is ranked like any other memory then.

      retain unarchive q3-migration
    """
    return outcome_output(app.unarchive(ref, collection))


def restore_retired(app: App, ref: str, collection: str | None) -> Output:
    """Put a retired memory in force again, as `restore` without a version does."""
    done = app.unretire(ref, collection)
    older = f"For an earlier text of it: retain restore {done.memory.ref} --version V"
    return outcome_output(done, older if done.status.startswith("already") else "")


@command(
    "supersede",
    "ID",
    arg("--by NEW", "what takes its place", required=True, completes="ref"),
    "--collection",
)
def _supersede(app: App, ref: str, by: str, collection: str | None) -> Output:
    """Mark one memory as replaced by another.

    Both memories remember it, and search halves the score of the old one. Nothing is
    deleted: `retain get OLD` still shows it and says what took its place.

      retain supersede use-mysql --by use-postgres
    """
    old, new = app.supersede(ref, by, collection)
    data = {**old.to_dict(), "superseded_by": new.memory.ref}
    return outcome_output(old, by=new.memory.ref)._replace(data=data)


@command(
    "changes",
    memory_arg(nargs="?"),
    arg("--since WHEN", "only later ones: 7d, 2026-11-01, yesterday", default=""),
    arg("--limit N", "at most so many (50)", default=50),
)
def _changes(app: App, ref: str | None, since: str, limit: int) -> Output:
    """Show what happened to typed memories.

    Every change of a typed memory leaves an entry in it; this shows them across the bank,
    the newest first. `retain diff` shows the texts themselves.

      retain changes
      retain changes use-postgres
      retain changes --since 7d --json
    """
    if since:
        from datetime import UTC, datetime

        from retain.text.dates import parse_moment

        moment = parse_moment(since, datetime.now(UTC).astimezone())
        since = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    changes = app.changes(ref or "", since)
    table = Table(
        ("When", "Memory", "What"),
        [(change.date, change.ref, change.summary) for change in changes[:limit]],
        empty="No changes of typed memories.",
        flexible=("What",),
    )
    more = len(changes) - limit
    messages = [f"... and {more} earlier ones: --limit {len(changes)}"] if more > 0 else []
    return Output(changes[:limit], table=table, messages=messages)


@command(
    "new",
    arg("category CATEGORY", "decision, runbook, constraint ..."),
    arg("--title", "a line that says it; else from the fields", default=""),
    repeated("--field NAME=VALUE", "a field; for a list, once for each item, or as JSON"),
    arg("--id", "its id; else made from the title", default=""),
    arg("--tags A,B", "tags, with commas", default=""),
    repeated("--file PATH", "a file of the project it is about; may be repeated", dest="files"),
    arg("--confidence X", "how sure it is, from 0 to 1"),
    flag("--force", "store it over one in force, or beyond a limit"),
    "--allow-secret",
)
def _new(app: App, args: Args, category: str, field: list[str]) -> Output:
    r"""Store a decision, a runbook, a constraint: a memory with fields.

    On a terminal it asks for the title and each field; elsewhere give them with --title and
    --field. Unknown fields and values that the category does not know are refused, with the ones
    it knows.

    decision         status context decision rationale [alternatives consequences]
    runbook          trigger steps verification [symptoms root_cause environment]
    constraint       kind rule impact severity active [workarounds expires]
    tech_debt        status priority description reason_deferred [impact suggested_fix
                     acceptance_criteria]
    preference       topic value reason strength [examples]
    session_summary  goal outcome completed next_actions [in_progress blockers key_changes]

      retain new decision
      retain new decision --title "Use Postgres" --tags db --field status=accepted \
        --field context="one writer is not enough" --field decision="Postgres 17" \
        --field rationale="transactions" --field rationale="we know it"
    """
    from retain.records import forms

    form = forms.make_form(category, app.records.rules)
    content, title = forms.parse_fields(form, field), args.title
    if not field and sys.stdin.isatty():
        title = title or ask("Title (empty: from the fields):")
        content = forms.ask_fields(form, ask)
    options = args.pick("id force allow_secret tags files confidence")
    return outcome_output(app.record(category, content, title=title, **options))


@command(
    "candidate",
    arg("news TEXT", "what you are about to save"),
    arg("--category", "decision, runbook, constraint ...", required=True),
    arg("--event", "what happened to what it is about", choices=sorted(LIFECYCLE_EVENTS)),
)
def _candidate(app: App, news: str, category: str, event: str | None) -> Output:
    """Find the memory that new information belongs to.

    Says whether new information is a memory of its own or belongs to one that is there.

      retain candidate "use Postgres 17 for the main database" --category decision
      retain candidate "the retry workaround is gone" --category tech_debt --event resolved
    """
    verdict = app.candidate(category, news, event)
    lines = [f"Action: {verdict['structural_cud'].replace('_', ' ').lower()}"]
    if candidate := verdict["candidate"]:
        lines += [f"Memory: {candidate['path']}", f"Title: {candidate['title']}"]
        fields = candidate["excerpt"]["key_fields"] if candidate["excerpt"] else {}
        lines += [f"  {name}: {value}" for name, value in fields.items()]
    lines += [*(f"Veto: {veto}" for veto in verdict["vetoes"]), *verdict["hints"]]
    return Output(verdict, lines)


@command("gc", "--dry-run")
def _gc(app: App, dry_run: bool) -> Output:
    """Remove what was retired long ago.

    Removes what was retired longer ago than records.grace_period_days, and retires what its
    category keeps only for a while (categories.NAME.retention_days). What is removed goes to the
    trash, unless records.archive_retired is false.

      retain gc --dry-run
      retain gc
    """
    done = app.gc(dry_run=dry_run)
    verbs = ("Would remove", "Would retire") if dry_run else ("Removed", "Retired")
    removed, retired = (
        [{"path": app.records.relative_path(aged.memory.path), "days": aged.days} for aged in group]
        for group in (done.deleted, done.retired)
    )
    lines = [f"{verbs[0]}: {it['path']} (retired {it['days']} days ago)" for it in removed]
    lines += [f"{verbs[1]}: {it['path']} (last changed {it['days']} days ago)" for it in retired]
    if removed and app.records.rules.archive_retired and not dry_run:
        lines.append("They are in the trash: `retain trash list`.")
    data = {
        "dry_run": dry_run,
        "removed": removed,
        "retired": retired,
        "problems": list(done.problems),
        "commit": done.commit or None,
    }
    warnings = [*done.problems, *done.warnings]
    return Output(data, lines or ["Nothing is due."], warnings=warnings)


@command("health")
def _health(app: App) -> Output:
    """Report on the typed memories.

    Counts typed memories by category and status, and names those that need a look.

      retain health
    """
    text, is_healthy = app.records.health()
    return Output({"healthy": is_healthy, "report": text}, [text])
