"""versions, diff, restore, trash."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from retain.cli.command import (
    Args,
    Output,
    arg,
    combine,
    command,
    confirm,
    either,
    flag,
    memory_arg,
    plural,
)
from retain.cli.memories import versions_table, written_output
from retain.cli.render import Table, colour_diff
from retain.errors import UsageError
from retain.text.sizes import format_size

if TYPE_CHECKING:
    from retain.app import App


@command("versions", "ID", "--collection")
def _versions(app: App, ref: str, collection: str | None) -> Output:
    """List the earlier texts of a memory.

    In a git work tree these are its commits; everywhere, the last texts are kept as v1, v2 ...

      retain versions gpu-patterns
    """
    versions = app.versions(ref, collection=collection)
    quiet = [version.version for version in versions]
    return Output(versions, table=versions_table(versions), quiet=quiet)


@command(
    "diff",
    "ID",
    "--collection",
    arg("--from A", "v1, HEAD~2, ...", dest="older", default=""),
    arg("--to B", "default: the present text", dest="newer", default=""),
)
def _diff(app: App, ref: str, collection: str | None, older: str, newer: str) -> Output:
    """Show what changed between two versions.

    Without --from, the last text that differs is compared with the present one.

      retain diff gpu-patterns
      retain diff gpu-patterns --from HEAD~2 --to HEAD
      retain diff gpu-patterns --from v1 --to v2
    """
    diff = app.diff(ref, collection=collection, older=older, newer=newer)
    message = "" if diff else "No differences."
    return Output({"id": ref, "diff": diff}, diff, messages=[message], paint=colour_diff)


@command(
    "restore",
    memory_arg(nargs="*", default=[]),
    "--collection",
    either(
        arg("--version V", "the text to bring back: v2, HEAD~1, a commit"),
        arg("--trash ID", "the deleted memory to bring back", nargs="?", const=False),
    ),
    arg("--id NEW", "with --trash: under another id", dest="new", default=""),
)
def _restore(app: App, args: Args) -> Output:
    """Bring back a retired or deleted memory, or an earlier text.

    Alone it makes a retired memory active again, or brings a deleted one back from the trash;
    with --version it brings an earlier text back, and the present one is not lost: it becomes
    the newest version. In a git work tree the restored file is committed, that one file alone,
    if git has it already. Where one of several is not found, none is restored.

      retain restore use-mysql
      retain restore scratch-1 scratch-2
      retain restore gpu-patterns --version v2
      retain restore gpu-patterns --version HEAD~1
      retain restore --trash gpu-patterns
    """
    names = [*args.ref, *filter(None, [args.trash])]
    if not names:
        hint = "`retain trash` lists what can be brought back."
        raise UsageError("name a memory: retain restore ID", hint=hint)
    if len(names) > 1 and (args.version is not None or args.new):
        raise UsageError("--version and --id are about one memory")
    if args.new and args.trash is None:
        raise UsageError("--id goes with --trash")
    for name in names if len(names) > 1 else []:
        if not app.is_deleted(name, args.collection):
            app.find_own(name, args.collection)
    return combine([_restore_one(app, name, args) for name in names])


def _restore_one(app: App, ref: str, args: Args) -> Output:
    collection = args.collection
    if args.version is not None:
        return written_output(app.restore(ref, args.version, collection=collection))
    if args.trash is not None or app.is_deleted(ref, collection):
        return written_output(app.untrash(ref, collection=collection, to_id=args.new))
    from retain.cli.lifecycle import restore_retired

    return restore_retired(app, ref, collection)


@command(
    "trash",
    arg("action", "what to do", choices=("list", "empty"), nargs="?", default="list"),
    arg("--older-than TIME", "with empty: only what is older, as 30d", default=0),
    flag("--yes", "with empty: do not ask"),
)
def _trash(app: App, action: str, older_than: int, yes: bool) -> Output:
    """List or empty the trash.

    Deleted memories wait in the bank's .trash/ until you empty it.

      retain trash
      retain restore --trash gpu-patterns
      retain trash empty --older-than 30d
    """
    if action == "list":
        entries = app.trashed()
        table = Table(
            ("ID", "Collection", "Deleted", "Size", "Entry"),
            [
                (entry.id, entry.collection, entry.deleted_at, format_size(entry.size), entry.name)
                for entry in entries
            ],
            empty="The trash is empty.",
            flexible=("Collection",),
        )
        return Output(entries, table=table, quiet=[entry.name for entry in entries])
    before = ""
    if older_than:
        moment = time.gmtime(max(0.0, time.time() - older_than))
        before = time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)
    number = sum(not before or entry.deleted_at < before for entry in app.trashed())
    if number and not yes:
        confirm(
            f"Destroy {plural(number, 'trashed file')} for good?",
            f"emptying the trash destroys {plural(number, 'file')} for good",
            "Nothing was destroyed.",
        )
    gone = app.empty_trash(before)
    return Output(gone, [f"Destroyed {plural(len(gone), 'trashed file')}."], quiet="")
