"""The command line. Hooks load nothing but this module and their own."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command in `sys.argv` and leave with its exit code."""
    if "_ARGCOMPLETE" in os.environ:
        from retain.cli.command import complete

        complete()
    _mend_streams()
    if sys.argv[1:2] == ["hook"]:
        from retain import hooks  # before anything else is loaded: a host waits for it

        if hooks.is_event(sys.argv[2:]):
            hooks.main(sys.argv[2])
    # Set before numpy is loaded: its threads spin while they wait for each other, which on a busy
    # machine makes a question take six times as long. Vectors in bulk get threads of our own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(100_000)  # a start makes fewer objects; going through them takes 4 ms of `get`
    from retain.cli.command import run

    code = run(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # the interpreter's own end takes 2 ms more, and nothing is open any longer


def _mend_streams() -> None:
    """Make printing safe: to a closed stream, and in an encoding that lacks a character."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # The lowest free number is this stream's own, which no other file may get.
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        elif name == "stdout":
            stream.reconfigure(errors="backslashreplace")
