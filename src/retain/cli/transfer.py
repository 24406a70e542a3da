"""export, import."""

from __future__ import annotations

import argparse

from retain.cli.inputs import add_secrets
from retain.cli.parser import Command, Parser, open_app
from retain.cli.progress import Bar
from retain.cli.render import Output

__all__ = ["export_command", "import_command"]


def _export_arguments(parser: Parser) -> None:
    parser.add_argument("target", metavar="OUT", help="a new .zip file, or a new directory")


def _export(args: argparse.Namespace) -> Output:
    done = open_app(args).export(args.target)
    noun = "memory" if done.memories == 1 else "memories"
    text = f"Exported {done.memories} {noun} to {done.path}\n"
    return Output(done._asdict(), text, quiet=f"{done.path}\n", warnings=done.warnings)


export_command = Command(
    _export_arguments,
    _export,
    """Every file as it is, with a manifest of their hashes; `retain import` takes it back.

  retain export backup.zip
  retain export ../memories-2026-11""",
)


def _import_arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="SRC", help="a zip, a bank, a project, or a .md file")
    parser.add_argument(
        "--replace",
        action="store_true",
        help="where a memory differs take theirs (yours becomes a version); default: keep yours",
    )
    add_secrets(parser)


def _import(args: argparse.Namespace) -> Output:
    with Bar("Indexing") as bar:
        done = open_app(args).take_over(
            args.source, replace=args.replace, allow_secret=args.allow_secret, progress=bar
        )
    counts = (
        (len(done.created), "new"),
        (len(done.replaced), "replaced"),
        (len(done.unchanged), "already here"),
        (len(done.kept), "different here and kept; --replace takes theirs"),
    )
    lines = [f"Imported from {done.source}:"]
    lines += [f"  {count} {what}" for count, what in counts if count]
    data = {key: value for key, value in done._asdict().items() if key != "changes"}
    return Output(data, "\n".join(lines) + "\n", quiet="", warnings=done.warnings)


import_command = Command(
    _import_arguments,
    _import,
    """Takes a zip or directory from `retain export`, another bank, a project with .arcaneum,
.memories/ or .claude/memory/, a directory of Markdown files, or one file. All of it or
nothing; a second import of the same source changes nothing.

  retain import backup.zip
  retain import ~/old-project --global""",
)
