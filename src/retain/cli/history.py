"""versions, diff, restore, trash."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from retain.cli.command import Args, Output, arg, command, confirm, either, flag, memory_arg, plural
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
    memory_arg(nargs="?"),
    "--collection",
    either(
        arg("--version V", "the text to bring back: v2, HEAD~1, a commit"),
        arg("--trash ID", "the deleted memory to bring back", nargs="?", const=""),
    ),
    arg("--id NEW", "with --trash: under another id", dest="new", default=""),
)
def _restore(app: App, args: Args) -> Output:
    """Bring back a retired or deleted memory, or an earlier text.

    Alone it makes a retired memory active again, or brings a deleted one back from the trash;
    with --version it brings an earlier text back, and the present one is not lost: it becomes
    the newest version. In a git work tree the restored file is committed, that one file alone,
    if git has it already.

      retain restore use-mysql
      retain restore gpu-patterns --version v2
      retain restore gpu-patterns --version HEAD~1
      retain restore --trash gpu-patterns
    """
    ref, collection = args.ref, args.collection
    if args.trash is not None:
        if bool(args.trash) == bool(ref):
            raise UsageError("with --trash, name the memory once: retain restore --trash ID")
        written = app.untrash(args.trash or ref, collection=collection, to_id=args.new)
    elif ref is None or args.new:
        raise UsageError("name one memory: retain restore ID, with --version V for an older text")
    elif args.version is not None:
        written = app.restore(ref, args.version, collection=collection)
    elif app.is_deleted(ref, collection):
        written = app.untrash(ref, collection=collection)
    else:
        from retain.cli.lifecycle import restore_retired

        return restore_retired(app, ref, collection)
    return written_output(written)


@command(
    "trash",
    arg("action", "what to do", choices=("list", "empty")),
    arg("--older-than TIME", "with empty: only what is older, as 30d", default=0),
    flag("--yes", "with empty: do not ask"),
)
def _trash(app: App, action: str, older_than: int, yes: bool) -> Output:
    """List or empty the trash.

    Deleted memories wait in the bank's .trash/ until you empty it.

      retain trash list
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
            f"Destroy {number} trashed file(s) for good?",
            f"emptying the trash destroys {number} file(s) for good",
            "Nothing was destroyed.",
        )
    gone = app.empty_trash(before)
    return Output(gone, [f"Destroyed {plural(len(gone), 'trashed file')}."], quiet="")
