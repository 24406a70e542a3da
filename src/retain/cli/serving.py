"""serve."""

from __future__ import annotations

import argparse
import contextlib
import re
import threading
import time
from collections.abc import Iterator
from typing import Final

from retain.app import App
from retain.cli.indexing import filled, heard
from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Line, Output
from retain.serving import Listener
from retain.warm import ask

__all__ = ["serve_command"]

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")


def _serve_arguments(parser: Parser) -> None:
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument(
        "--idle",
        type=_seconds,
        default=_seconds("30m"),
        metavar="TIME",
        help="end when nobody asked for so long: 90s, 30m (the default), 8h",
    )
    ending.add_argument(
        "--no-idle", dest="idle", action="store_const", const=None, help="stay until it is ended"
    )


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90s, 30m or 8h")
    return seconds


def _serve(args: argparse.Namespace) -> Output:
    app = open_app(args, stays=True)
    lines = _served(app, args.idle)
    if getattr(args, "quiet", False) and not getattr(args, "json", False):
        lines = filter(lambda _: False, lines)  # it stays as long, and says nothing
    return Output(None, stream=lines)


def _served(app: App, idle: int | None) -> Iterator[Line]:
    """A line when it listens and one when it ends."""
    ended, lock = threading.Event(), threading.RLock()
    listener = Listener(app, lock)
    with heard(ended), contextlib.ExitStack() as undo:
        watching = app.library.watch(ended, lock)
        undo.callback(listener.stop)
        if not listener.take():
            yield _there_already(app)
            return
        listener.warm_up()
        listener.start()
        data = {"status": "listening", "address": listener.address, "bank": app.place.root}
        yield Line(data, f"Listening for {app.place.root} at {listener.address}; Ctrl-C ends it.")
        idling = threading.Thread(target=_idle, args=(listener, ended, idle), daemon=True)
        idling.start()
        undo.callback(idling.join)
        undo.callback(ended.set)  # also where something fails
        filled(app, ended)
        for _ in watching:
            filled(app, ended)
    yield Line({"status": "ended", "bank": app.place.root}, "Ended.")


def _there_already(app: App) -> Line:
    other = ask(app.place.root, {"op": "ping"}) or {}
    pid = other.get("pid")
    who = f"process {pid}" if pid else "another process"
    data = {"status": "there already", "bank": app.place.root, "pid": pid}
    return Line(data, f"There is one for {app.place.root} already: {who}.")


def _idle(listener: Listener, ended: threading.Event, idle: int | None) -> None:
    """Set the end for when nobody has asked for long enough."""
    if idle is None:
        return
    left: float = idle
    while not ended.wait(left):
        left = listener.last_asked + idle - time.monotonic()
        if left <= 0:
            ended.set()


serve_command = Command(
    _serve_arguments,
    _serve,
    """A process that stays keeps the model loaded and the index in step, and answers on a socket of
the bank that only you can open: searches on the command line and an agent's hooks ask it, and
fall back on doing the work themselves. An MCP server does the same while it runs, so this is
for those without one. A second one for the same bank says so and ends.

  retain serve
  retain serve --idle 8h &
  retain serve --no-idle --quiet""",
)
