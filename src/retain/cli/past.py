"""versions, diff, restore, trash."""

from __future__ import annotations

import argparse
import re
import sys
import time

from retain import shapes
from retain.cli.inputs import add_collection, add_id, complete
from retain.cli.memories import written_output
from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Output, Table, as_versions, coloured
from retain.errors import UsageError

__all__ = ["diff_command", "restore_command", "trash_command", "versions_command"]


def _versions_arguments(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in")


def _versions(args: argparse.Namespace) -> Output:
    versions = open_app(args).versions(args.id, collection=args.collection)
    return Output(
        [one._asdict() for one in versions],
        table=as_versions(versions),
        quiet="".join(f"{one.version}\n" for one in versions),
    )


versions_command = Command(
    _versions_arguments,
    _versions,
    """In a git work tree these are its commits; everywhere, the last texts are kept as v1, v2 ...

  retain versions gpu-patterns""",
)


def _diff_arguments(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in")
    parser.add_argument("--from", dest="older", default="", metavar="A", help="v1, HEAD~2, ...")
    parser.add_argument(
        "--to", dest="newer", default="", metavar="B", help="default: the present text"
    )


def _diff(args: argparse.Namespace) -> Output:
    diff = open_app(args).diff(
        args.id, collection=args.collection, older=args.older, newer=args.newer
    )
    messages = [] if diff else ["No differences."]
    return Output({"id": args.id, "diff": diff}, diff, messages=messages, paint=coloured)


diff_command = Command(
    _diff_arguments,
    _diff,
    """Without --from, the last text that differs is compared with the present one.

  retain diff gpu-patterns
  retain diff gpu-patterns --from HEAD~2 --to HEAD
  retain diff gpu-patterns --from v1 --to v2""",
)


def _restore_arguments(parser: Parser) -> None:
    add_id(parser, nargs="?")
    add_collection(parser, "the collection it is in")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--version", metavar="V", help="the text to bring back: v2, HEAD~1, a commit"
    )
    trash = which.add_argument(
        "--trash", metavar="ID", nargs="?", const="", help="the deleted memory to bring back"
    )
    complete(trash, "trashed")
    parser.add_argument(
        "--id", dest="new", default="", metavar="NEW", help="with --trash: under another id"
    )


def _restore(args: argparse.Namespace) -> Output:
    app = open_app(args)
    if args.trash is not None:
        if bool(args.trash) == bool(args.id):
            raise UsageError("with --trash, name the memory once: retain restore --trash ID")
        name = args.trash or args.id
        return written_output(app.untrash(name, collection=args.collection, to_id=args.new))
    if args.id is None or args.new:
        raise UsageError("name one memory: retain restore ID, with --version V for an older text")
    if args.version is None:
        from retain.cli.lifecycle import restored

        return restored(app, args.id, args.collection)
    return written_output(app.restore(args.id, args.version, collection=args.collection))


restore_command = Command(
    _restore_arguments,
    _restore,
    """Alone it puts a retired memory in force again; with --version it brings an earlier text
back, and the present one is not lost: it becomes the newest version. In a git work tree
the restored file is committed, that one file alone, if git has it already.

  retain restore use-mysql
  retain restore gpu-patterns --version v2
  retain restore gpu-patterns --version HEAD~1
  retain restore --trash gpu-patterns""",
)


_AGE = re.compile(r"([0-9]{1,6})([dhm])")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60}


def _trash_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=("list", "empty"), help="what to do")
    parser.add_argument(
        "--older-than", default="", metavar="AGE", help="with empty: only what is older, as 30d"
    )
    parser.add_argument("--yes", action="store_true", help="with empty: do not ask")


def _trash(args: argparse.Namespace) -> Output:
    app = open_app(args)
    if args.action == "list":
        entries = app.trashed()
        rows = [
            (one.id, one.collection, one.deleted_at, shapes.size(one.size), one.name)
            for one in entries
        ]
        table = Table(
            ("ID", "Collection", "Deleted", "Size", "Entry"),
            rows,
            empty="The trash is empty.",
            flexible=("Collection",),
        )
        names = "".join(f"{one.name}\n" for one in entries)
        return Output([one._asdict() for one in entries], table=table, quiet=names)
    before = _before(args.older_than)
    doomed = [one for one in app.trashed() if not before or one.deleted_at < before]
    if doomed and not args.yes:
        _confirm(len(doomed))
    gone = app.empty_trash(before)
    text = f"Destroyed {len(gone)} trashed file{'s' * (len(gone) != 1)}.\n"
    return Output([one._asdict() for one in gone], text, quiet="")


def _before(age: str) -> str:
    if not age:
        return ""
    match = _AGE.fullmatch(age)
    if not match:
        raise UsageError(f"{age!r} is not an age", hint="Write 30d, 12h or 90m.")
    seconds = int(match[1]) * _SECONDS[match[2]]
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(max(0.0, time.time() - seconds)))


def _confirm(count: int) -> None:
    """Ask before the one thing that cannot be undone."""
    if not sys.stdin.isatty():
        raise UsageError(
            f"emptying the trash destroys {count} file(s) for good",
            unchanged="Nothing was destroyed.",
            hint="Repeat it with --yes if that is what you want.",
        )
    print(f"Destroy {count} trashed file(s) for good? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed", unchanged="Nothing was destroyed.")


trash_command = Command(
    _trash_arguments,
    _trash,
    """Deleted memories wait in the bank's .trash/ until you empty it.

  retain trash list
  retain restore --trash gpu-patterns
  retain trash empty --older-than 30d""",
)
