"""The command line: parse, call the app, render. One command's code is loaded at a time."""

from __future__ import annotations

import os
import sys

from retain.cli.parser import build, command_in
from retain.errors import RetainError

__all__ = ["main", "run"]


def main() -> None:
    """Run the command in `sys.argv` and leave with its exit code."""
    if "_ARGCOMPLETE" in os.environ:
        from retain.cli.completion import complete

        complete()
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    as_json = "--json" in argv
    try:
        return _run(argv)
    except RetainError as error:
        from retain.cli.render import report

        report(error, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nretain: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(argv: list[str]) -> int:
    name = command_in(argv)
    args = build(only=name).parse_args(argv)
    if not hasattr(args, "run"):
        from retain.cli.parser import overview

        sys.stdout.write(overview())
        return 0
    from retain.cli.render import show

    return show(args.run(args), args)
