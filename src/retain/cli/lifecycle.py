"""new, candidate, retire, archive, unarchive, supersede, changes, gc, health."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from retain import shapes
from retain.app import App
from retain.cli.inputs import add_collection, add_id, add_secrets, complete, split_words
from retain.cli.parser import Command, Parser, open_app, same_bank
from retain.cli.render import Output, Table
from retain.errors import UsageError

if TYPE_CHECKING:
    from retain.typed.ledger import Outcome

__all__ = [
    "archive_command",
    "candidate_command",
    "changes_command",
    "gc_command",
    "health_command",
    "new_command",
    "outcome_output",
    "restored",
    "retire_command",
    "supersede_command",
    "unarchive_command",
]

_SAID: Final = {
    "created": "Stored",
    "updated": "Updated",
    "retired": "Retired",
    "archived": "Archived",
    "unarchived": "Unarchived",
    "restored": "Restored",
    "superseded": "Superseded",
}


def outcome_output(done: Outcome, messages: Sequence[str] = ()) -> Output:
    """What every step of a typed memory's life answers with."""
    from retain.typed.lifecycle import NO_REASON

    memory = done.memory
    known = done.status.removeprefix("already_")
    said = _SAID.get(done.status) or f"Nothing to do, already {known}"
    lines = [f"{said}: {memory.ref}", f"File: {memory.path}"]
    if done.renamed_from:
        lines.append(f"Renamed from: {done.renamed_from}")
    reason = memory.text(f"{known}_reason")
    if reason and reason != NO_REASON:
        lines.append(f"Reason: {reason}")
    if done.commit:
        lines.append(f"Committed: {done.commit[:10]}")
    return Output(
        functools.partial(shapes.outcome, done),
        "\n".join(lines) + "\n",
        quiet=f"{memory.ref}\n",
        messages=[*(f"mended: {note}" for note in done.notes), *messages],
        warnings=done.warnings,
    )


# retire, archive, unarchive


def _with_reason(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in")
    parser.add_argument("--reason", default="", metavar="WHY", help="why, in a sentence")


def _retire(args: argparse.Namespace) -> Output:
    app = open_app(args)
    done = app.desk.retire(args.id, args.reason, args.collection)
    days = app.ledger.rules.grace_period_days
    back = f"retain restore {done.memory.ref}{same_bank(args)}"
    return outcome_output(done, [f"It can be brought back for {days} days: {back}"])


retire_command = Command(
    _with_reason,
    _retire,
    """A retired memory is no longer found, and stays restorable until `retain gc` removes it.

  retain retire use-mysql --reason "we moved to Postgres"
  retain list --status retired
  retain restore use-mysql""",
)


def _archive(args: argparse.Namespace) -> Output:
    return outcome_output(open_app(args).desk.archive(args.id, args.reason, args.collection))


archive_command = Command(
    _with_reason,
    _archive,
    """An archived memory is kept for good and still found, behind those in force.

  retain archive q3-migration --reason "finished"
  retain unarchive q3-migration""",
)


def _only_id(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in")


def _unarchive(args: argparse.Namespace) -> Output:
    return outcome_output(open_app(args).desk.unarchive(args.id, args.collection))


unarchive_command = Command(
    _only_id,
    _unarchive,
    """Puts an archived memory in force again.

  retain unarchive q3-migration""",
)


def restored(app: App, ref: str, collection: str | None) -> Output:
    """Put a retired memory in force again, as `restore` without a version does."""
    done = app.desk.restore(ref, collection)
    messages = []
    if done.status.startswith("already"):
        messages = [f"For an earlier text of it: retain restore {done.memory.ref} --version V"]
    return outcome_output(done, messages)


# supersede


def _supersede_arguments(parser: Parser) -> None:
    add_id(parser)
    by = parser.add_argument("--by", required=True, metavar="NEW", help="what takes its place")
    complete(by, "memories")
    add_collection(parser, "the collection it is in")


def _supersede(args: argparse.Namespace) -> Output:
    old, new = open_app(args).desk.supersede(args.id, args.by, args.collection)
    output = outcome_output(old)
    data = {**shapes.outcome(old), "superseded_by": new.memory.ref}
    return output._replace(data=data, text=f"{output.text}By: {new.memory.ref}\n")


supersede_command = Command(
    _supersede_arguments,
    _supersede,
    """Both memories remember it, and search halves the score of the old one. Nothing is
deleted: `retain get OLD` still shows it and says what took its place.

  retain supersede use-mysql --by use-postgres""",
)


# changes


def _changes_arguments(parser: Parser) -> None:
    add_id(parser, nargs="?", default="")
    parser.add_argument(
        "--since", default="", metavar="WHEN", help="only later ones: 7d, 2026-11-01, yesterday"
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (50)")


def _changes(args: argparse.Namespace) -> Output:
    app = open_app(args)
    if args.limit < 1:
        raise UsageError("--limit is at least 1")
    found = app.desk.changes(args.id, _moment(args.since))
    shown = found[: args.limit]
    table = Table(
        ("When", "Memory", "What"),
        [(one.date, one.memory.ref, one.summary) for one in shown],
        empty="No changes of typed memories.",
        flexible=("What",),
    )
    more = len(found) - len(shown)
    messages = [f"... and {more} earlier ones: --limit {len(found)}"] if more else []
    data = list(map(shapes.change, shown))
    return Output(data, table=table, messages=messages)


def _moment(since: str) -> str:
    if not since:
        return ""
    from datetime import UTC, datetime

    from retain import dates

    moment = dates.moment(since, datetime.now(UTC).astimezone())
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


changes_command = Command(
    _changes_arguments,
    _changes,
    """Every change of a typed memory leaves an entry in it; this shows them across the bank,
the newest first. `retain diff` shows the texts themselves.

  retain changes
  retain changes use-postgres
  retain changes --since 7d --json""",
)


# new


def _new_arguments(parser: Parser) -> None:
    parser.add_argument("category", metavar="CATEGORY", help="decision, runbook, constraint ...")
    parser.add_argument("--title", default="", help="a line that says it; else from the fields")
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a field of the category; a list's once for each item, or as JSON",
    )
    parser.add_argument("--id", default="", help="its id; else made from the title")
    parser.add_argument("--tags", default="", metavar="A,B", help="tags, with commas")
    parser.add_argument(
        "--file",
        action="append",
        default=[],
        metavar="PATH",
        help="a file of the project it is about; may be repeated",
    )
    parser.add_argument("--confidence", type=float, metavar="X", help="how sure it is, from 0 to 1")
    parser.add_argument(
        "--force", action="store_true", help="store it over one in force, or beyond a limit"
    )
    add_secrets(parser)


def _new(args: argparse.Namespace) -> Output:
    from retain.typed import forms

    app = open_app(args)
    form = forms.form(args.category, app.ledger.rules)
    content = forms.filled(form, args.field)
    if not args.field and sys.stdin.isatty():
        content = forms.asked(form, _prompt)
    done = app.desk.record(
        args.category,
        content,
        name=args.id,
        force=args.force,
        allow_secret=args.allow_secret,
        title=args.title,
        tags=split_words(args.tags),
        related_files=args.file,
        confidence=args.confidence,
    )
    return outcome_output(done)


def _prompt(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("the questions were not answered to the end")
    return line.strip()


new_command = Command(
    _new_arguments,
    _new,
    """On a terminal it asks for each field; elsewhere give them with --field. Unknown fields and
values that the category does not know are refused, with the ones it knows.

decision         status context decision rationale [alternatives consequences]
runbook          trigger steps verification [symptoms root_cause environment]
constraint       kind rule impact severity active [workarounds expires]
tech_debt        status priority description reason_deferred [impact suggested_fix
                 acceptance_criteria]
preference       topic value reason strength [examples]
session_summary  goal outcome completed next_actions [in_progress blockers key_changes]

  retain new decision
  retain new decision --title "Use Postgres" --tags db --field status=accepted \\
    --field context="one writer is not enough" --field decision="Postgres 17" \\
    --field rationale="transactions" --field rationale="we know it\"""",
)


# candidate, gc, health


def _candidate_arguments(parser: Parser) -> None:
    from retain.typed.candidate import LIFECYCLE_EVENTS

    parser.add_argument("news", metavar="TEXT", help="what you are about to save")
    parser.add_argument("--category", required=True, help="decision, runbook, constraint ...")
    parser.add_argument(
        "--event",
        choices=sorted(LIFECYCLE_EVENTS),
        default=None,
        help="what happened to what it is about",
    )


def _candidate(args: argparse.Namespace) -> Output:
    verdict = open_app(args).desk.candidate(args.category, args.news, args.event)
    found = verdict["candidate"]
    lines = [f"Action: {verdict['structural_cud'].replace('_', ' ').lower()}"]
    if found:
        lines += [f"Memory: {found['path']}", f"Title: {found['title']}"]
        fields = found["excerpt"]["key_fields"] if found["excerpt"] else {}
        lines += [f"  {name}: {value}" for name, value in fields.items()]
    lines += [*(f"Veto: {one}" for one in verdict["vetoes"]), *verdict["hints"]]
    return Output(verdict, "\n".join(lines) + "\n")


candidate_command = Command(
    _candidate_arguments,
    _candidate,
    """Says whether new information is a memory of its own or belongs to one that is there.

  retain candidate "use Postgres 17 for the main database" --category decision
  retain candidate "the retry workaround is gone" --category tech_debt --event resolved""",
)


def _gc_arguments(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def _gc(args: argparse.Namespace) -> Output:
    app = open_app(args)
    done = app.desk.gc(dry_run=args.dry_run)
    named = app.ledger.named
    verbs = ("Would remove", "Would retire") if args.dry_run else ("Removed", "Retired")
    lines = [f"{verbs[0]}: {named(one.path)} (retired {one.days} days ago)" for one in done.deleted]
    lines += [
        f"{verbs[1]}: {named(one.path)} (last changed {one.days} days ago)" for one in done.retired
    ]
    if not lines:
        lines = ["Nothing is due."]
    if done.deleted and app.ledger.rules.archive_retired and not args.dry_run:
        lines.append("They are in the trash: `retain trash list`.")
    data = {
        "dry_run": args.dry_run,
        "removed": [{"path": named(one.path), "days": one.days} for one in done.deleted],
        "retired": [{"path": named(one.path), "days": one.days} for one in done.retired],
        "problems": list(done.problems),
        "commit": done.commit or None,
    }
    return Output(data, "\n".join(lines) + "\n", warnings=[*done.problems, *done.warnings])


gc_command = Command(
    _gc_arguments,
    _gc,
    """Removes what was retired longer ago than records.grace_period_days, and retires what its
category keeps only for a while (categories.NAME.retention_days). What is removed goes to the
trash, unless records.archive_retired is false.

  retain gc --dry-run
  retain gc""",
)


def _no_arguments(_parser: Parser) -> None:
    pass


def _health(args: argparse.Namespace) -> Output:
    text, is_healthy = open_app(args).desk.health()
    return Output({"healthy": is_healthy, "report": text}, f"{text}\n")


health_command = Command(
    _no_arguments,
    _health,
    """Counts typed memories by category and status, and names those that need a look.

  retain health""",
)
