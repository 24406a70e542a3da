"""The command line: parse, call the app, render. One command's code is loaded at a time."""

from __future__ import annotations

import itertools
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "run"]


def main() -> None:
    """Run the command in `sys.argv` and leave with its exit code."""
    if "_ARGCOMPLETE" in os.environ:
        from retain.cli.completion import complete

        complete()
    _mend_streams()
    if sys.argv[1:2] == ["hook"]:
        from retain import hooks  # before anything else is loaded: a host waits for it

        if hooks.is_event(sys.argv[2:]):
            hooks.main(sys.argv[2])
    # Set before numpy is loaded: its threads spin while they wait for each other, which on a busy
    # machine makes a question take six times as long. Vectors in bulk get threads of our own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:]))


def _mend_streams() -> None:
    """Make printing safe: to a closed stream, and in an encoding that lacks a character."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # The lowest free number is this stream's own, which no other file may get.
            free = os.open(os.devnull, os.O_RDWR)
            if name != "stdin":
                setattr(sys, name, os.fdopen(free, "w", encoding="utf-8"))
        elif name == "stdout":
            stream.reconfigure(errors="backslashreplace")


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    from retain.errors import RetainError

    as_json = _asks_for_json(argv)
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
    except OSError as error:
        from retain.cli.render import report, surprise

        report(surprise(error), as_json=as_json)
        return 1


def _asks_for_json(argv: list[str]) -> bool:
    """Whether a call wants JSON, even one that does not parse."""
    pairs = itertools.pairwise(argv)
    return "--json" in argv or "--format=json" in argv or ("--format", "json") in pairs


def _run(argv: list[str]) -> int:
    from retain.cli.parser import overview, parse

    args = parse(argv)
    if not hasattr(args, "run") and _wants_chat(args):
        args = parse([*argv, "chat"])
    if not hasattr(args, "run"):
        sys.stdout.write(overview())
        return 0
    from retain.cli.render import show

    try:
        return show(args.run(args), args)
    finally:
        if hasattr(args, "close"):
            args.close()


def _wants_chat(args: Namespace) -> bool:
    """Whether someone sits at a terminal and asks for nothing in particular."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not getattr(args, "json", False)
