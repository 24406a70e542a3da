"""stats, sync, index, watch, doctor."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from retain import shapes
from retain.app import App
from retain.cli.parser import Command, Parser, open_app
from retain.cli.progress import Bar, resumable
from retain.cli.render import Line, Output, facts_data, facts_line, held_note
from retain.errors import RetainError

if TYPE_CHECKING:
    from retain.library import Health
    from retain.sync import Changes

__all__ = [
    "doctor_command",
    "filled",
    "heard",
    "index_command",
    "stats_command",
    "sync_command",
    "watch_command",
]

_KEPT: Final = "What is indexed so far is kept; run it again and it goes on where it stopped."


# stats


def _no_arguments(parser: Parser) -> None:
    """The common options are enough."""


def _stats(args: argparse.Namespace) -> Output:
    app = open_app(args)
    stats = app.library.stats()
    facts = stats.facts
    data = {
        **shapes.stats(stats, app.place.root),
        **facts_data(facts),
        "index_size": stats.index_size,
        "problems": [problem._asdict() for problem in stats.problems],
    }
    rows = [
        ("Memories", f"{facts.memories} ({shapes.size(facts.size)})"),
        ("Tags", _counted(stats.tags)),
        ("Types", _counted(stats.types)),
        ("Path", app.place.root),
        ("Index", f"{facts_line(facts)} ({shapes.size(stats.index_size)})"),
    ]
    text = "".join(f"{name + ':':<10}{value}\n" for name, value in rows if value)
    warnings = [f"{problem.path}: {problem.reason}" for problem in stats.problems]
    return Output(data, text, warnings=[*warnings, *held_note(facts.held)])


def _counted(counts: object) -> str:
    assert isinstance(counts, dict)  # noqa: S101 - the caller's own table
    return ", ".join(f"{name} {count}" for name, count in counts.items())


stats_command = Command(
    _no_arguments,
    _stats,
    """Of the bank in force, brought up to date first.

  retain stats
  retain stats --json | jq .tags""",
)


# sync, index


def _sync_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="forget also what went missing all at once"
    )
    _add_vectors(parser)


def _add_vectors(parser: Parser) -> None:
    parser.add_argument(
        "--no-vectors", action="store_true", help="words only; the next search makes the vectors"
    )


def _sync(args: argparse.Namespace) -> Output:
    app = open_app(args)
    with resumable(_KEPT), Bar("Indexing") as bar:
        changes = app.library.sync(force=args.force, progress=bar)
    return _indexed(app, changes, with_vectors=not args.no_vectors)


sync_command = Command(
    _sync_arguments,
    _sync,
    """Searches do this by themselves. When more than half of twenty or more memories are gone
at once, they are left out and not forgotten, in case a disk is missing; --force says that
it is meant.

  retain sync
  retain sync --force""",
)


def _index_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--rebuild", action="store_true", help="set the index aside and make it anew"
    )
    _add_vectors(parser)


def _index(args: argparse.Namespace) -> Output:
    app = open_app(args)
    with resumable(_KEPT), Bar("Indexing") as bar:
        library = app.library
        changes = library.rebuild(bar) if args.rebuild else library.sync(progress=bar)
    return _indexed(app, changes, with_vectors=not args.no_vectors)


index_command = Command(
    _index_arguments,
    _index,
    """Takes in what changed and makes every vector that is missing. It can be interrupted and
goes on where it stopped. The index is derived: --rebuild makes it from the files alone, and
keeps the vectors that still fit.

  retain index
  retain index --rebuild""",
)


def _indexed(app: App, changes: Changes, *, with_vectors: bool) -> Output:
    """The end of both: vectors, then what was done."""
    made = 0
    if with_vectors:
        with resumable(_KEPT), Bar("Vectors") as bar:
            made = app.library.fill(progress=bar)
    facts = app.library.facts()
    text = (
        f"{changes.added} added, {changes.changed} changed, {changes.removed} removed\n"
        f"Index: {facts_line(facts)}\n"
    )
    data = {
        **_changes_data(changes),
        "vectors_made": made,
        **facts_data(facts),
        "problems": [problem._asdict() for problem in changes.problems],
    }
    warnings = [f"{problem.path}: {problem.reason}" for problem in changes.problems]
    return Output(data, text, quiet="", warnings=[*warnings, *held_note(changes.held)])


def _changes_data(changes: Changes) -> dict[str, object]:
    return {"added": changes.added, "changed": changes.changed, "removed": changes.removed}


# watch


def _watch_arguments(parser: Parser) -> None:
    _add_vectors(parser)


def _watch(args: argparse.Namespace) -> Output:
    app = open_app(args)
    quiet = getattr(args, "quiet", False)
    return Output(None, stream=_watched(app, not args.no_vectors, quiet))


def _watched(app: App, with_vectors: bool, quiet: bool) -> Iterator[Line]:
    """One line for each set of changes, until a signal ends it."""
    ended = threading.Event()
    with heard(ended):
        watching = app.library.watch(ended)
        if not quiet:
            print(f"Watching {app.place.root}; Ctrl-C ends it.", file=sys.stderr, flush=True)
        for changes in watching:
            made = filled(app, ended) if with_vectors else 0
            for note in held_note(changes.held):
                print(f"warning: {note}", file=sys.stderr, flush=True)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            counts = f"+{changes.added} ~{changes.changed} -{changes.removed}"
            data = {"time": now, **_changes_data(changes), "vectors": made, "held": changes.held}
            yield Line(data, f"{time.strftime('%H:%M:%S')}  {counts}")


def filled(app: App, ended: threading.Event) -> int:
    """Make the vectors that are missing; how many were made."""
    try:
        return app.library.fill(is_stopped=ended.is_set)
    except RetainError as error:  # words are searchable without; the next change tries again
        print(f"warning: {error.message}", file=sys.stderr, flush=True)
        return 0


@contextlib.contextmanager
def heard(ended: threading.Event) -> Iterator[None]:
    """Take Ctrl-C and a polite kill for the wish to end, between two steps and not amid one."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # a closed terminal, without nohup
        signals.append(signal.SIGHUP)
    before = [signal.signal(one, lambda *_: ended.set()) for one in signals]
    try:
        yield
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)


watch_command = Command(
    _watch_arguments,
    _watch,
    """Keeps the index in step while you or your editor write, so that no search has to. Prints a
line for each set of changes: the time, then how many were +added, ~changed and -removed.

  retain watch
  retain watch --quiet &""",
)


# doctor


def _doctor_arguments(parser: Parser) -> None:
    parser.add_argument("--repair", action="store_true", help="make a faulty index anew")


def _doctor(args: argparse.Namespace) -> Output:
    app = open_app(args)
    found = app.status()
    problems = [problem for problem in found.problems if not problem.is_minor]
    health = None
    if app.place.exists:
        with resumable(_KEPT), Bar("Indexing") as bar:
            health = app.library.health(repair=args.repair, progress=bar)
    faults = list(health.faults) if health else []
    held = held_note(health.facts.held) if health else []
    lines = [
        f"Files: {found.memories} memories ({shapes.size(found.size)}), "
        + (f"{len(problems)} to be looked at" if problems else "all in order"),
        *(f"  {os.path.relpath(one.path, app.place.root)}: {one.reason}" for one in problems),
        *_index_lines(health),
    ]
    is_ill = bool(problems or faults or held)
    messages = []
    if faults and not args.repair:
        messages.append("`retain doctor --repair` makes the index anew; the memories stay.")
    data = {
        "healthy": not is_ill,
        "memories": found.memories,
        "problems": [problem._asdict() for problem in found.problems],
        "faults": faults,
        "repaired": bool(health and health.is_rebuilt),
        "notes": list(health.notes) if health else [],
        "index": facts_data(health.facts) if health else None,
    }
    return Output(
        data,
        "\n".join(lines) + "\n",
        quiet="" if not is_ill else None,
        messages=messages,
        warnings=[*app.config.warnings, *held],
        code=1 if is_ill else 0,
    )


def _index_lines(health: Health | None) -> list[str]:
    if health is None:
        return ["Index: there is no bank yet"]
    if health.faults:
        state = f"{len(health.faults)} faults" + (" even when made anew" * health.is_rebuilt)
    else:
        state = "made anew, and now in order" if health.is_rebuilt else "in order"
    return [
        f"Index: {facts_line(health.facts)}, {state}",
        *(f"  {fault}" for fault in health.faults),
        *(f"  {note}" for note in health.notes if not health.is_rebuilt),
    ]


doctor_command = Command(
    _doctor_arguments,
    _doctor,
    """Reads every file, and compares the index with what they say, down to each word and check
sum. It ends with code 1 when something is wrong that was not repaired. Files are never
changed; a faulty index is made anew with --repair.

  retain doctor
  retain doctor --repair""",
)
