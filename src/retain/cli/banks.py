"""init, status, collections."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from retain import shapes
from retain.app import App
from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Output, Table, facts_data, facts_line, held_note
from retain.errors import RetainError

if TYPE_CHECKING:
    from retain.index.checking import Facts
    from retain.remote import State

__all__ = ["collections_command", "init_command", "status_command"]


def _no_arguments(parser: Parser) -> None:
    """The common options are enough."""


def _init(args: argparse.Namespace) -> Output:
    app = open_app(args)
    hidden = app.workspace.above()
    place, is_new = app.init()
    text = (
        f"{'Made a bank' if is_new else 'There is a bank already'}: {place.root}\n"
        f"Settings: {os.path.join(place.root, 'config.toml')}\n"
    )
    data = {"root": place.root, "scope": place.scope, "created": is_new}
    messages, warnings = [], []
    if is_new:
        messages.append("Store something: echo '# Title' | retain put -")
    if is_new and hidden and place.scope == "project":
        warnings.append(
            f"{hidden.root} was the bank here and is not read from here any more; "
            f"`retain import {shlex.quote(hidden.root)}` takes it over"
        )
    return Output(data, text, quiet=f"{place.root}\n", messages=messages, warnings=warnings)


init_command = Command(
    _no_arguments,
    _init,
    """Makes .retain/ here, with its config and a .gitignore; what exists is left alone.
With --global it makes your own bank, with --bank PATH one anywhere.

  retain init
  retain init --global""",
)


def _status(args: argparse.Namespace) -> Output:
    app = open_app(args)
    place, found = app.place, app.status()
    index, fault = _index(app)
    counts = {
        "collections": found.by_collection,
        "types": found.by_type,
        "statuses": found.by_status,
    }
    lines = [
        f"Bank:        {place.root} ({place.kind}, {place.scope})",
        f"Why:         {place.reason}",
        f"Memories:    {found.memories} ({shapes.size(found.size)})"
        + ("" if place.exists else "; the bank is made with the first memory"),
        *(
            f"{name.capitalize() + ':':<13}{_counts(values)}"
            for name, values in counts.items()
            if values
        ),
        f"Trash:       {found.trashed}",
        f"History:     {app.kept_history()}",
    ]
    if found.proposals:
        waiting = f"{found.proposals} proposal{'s' * (found.proposals != 1)} to review"
        lines.append(f"Inbox:       {waiting}: retain inbox")
    if index or fault:
        lines.append(f"Index:       {facts_line(index) if index else fault}")
    engines = _engines(app) if index else []
    lines += [f"Engine:      {_engine_line(one)}" for one in engines]
    if found.problems:
        lines += ["", f"Left out or to be mended ({len(found.problems)}):"]
        lines += [f"  {problem.path}: {problem.reason}" for problem in found.problems]
    data: dict[str, object] = {
        "root": place.root,
        "kind": place.kind,
        "scope": place.scope,
        "reason": place.reason,
        "exists": place.exists,
        "memories": found.memories,
        "bytes": found.size,
        **counts,
        "trashed": found.trashed,
        "proposals": found.proposals,
        "history": app.kept_history(),
        "index": facts_data(index) if index else None,
        "engines": [_engine_data(one) for one in engines],
        "problems": [problem._asdict() for problem in found.problems],
        "warnings": list(app.config.warnings),
    }
    warnings = [*app.config.warnings, *held_note(index.held if index else 0)]
    warnings += [f"{one.part}: {one.trouble.why}" for one in engines if one.trouble]
    return Output(data, "\n".join(lines) + "\n", warnings=warnings)


def _index(app: App) -> tuple[Facts | None, str]:
    """What the index holds, or why that cannot be said; status must never fail over it."""
    if not app.place.exists or not app.config.flag("memory.enabled"):
        return None, ""
    try:
        return app.library.facts(), ""
    except RetainError as error:
        return None, error.message


def _engines(app: App) -> list[State]:
    """How the parts of the index that live elsewhere are; most banks have none."""
    if all(app.config.text(f"engine.{part}") == "sqlite" for part in ("text", "vector")):
        return []
    try:
        return app.remote.glance()
    except RetainError:  # the line about the index has said why
        return []


def _engine_line(one: State) -> str:
    waits = f", {one.waiting} to be told" if one.waiting else ""
    return f"{one.part} in {one.kind} at {one.address} ({one.answers}){waits}"


def _engine_data(one: State) -> dict[str, object]:
    return {
        "part": one.part,
        "kind": one.kind,
        "address": one.address,
        "version": one.version,
        "waiting": one.waiting,
        "trouble": one.trouble.why if one.trouble else "",
    }


def _counts(values: object) -> str:
    assert isinstance(values, dict)  # noqa: S101 - the caller's own table
    return ", ".join(f"{name or '(root)'} {count}" for name, count in sorted(values.items()))


status_command = Command(
    _no_arguments,
    _status,
    """Also lists every file that is skipped, cannot be parsed or should be looked at.

  retain status
  retain status --json""",
)


def _collections(args: argparse.Namespace) -> Output:
    rows = open_app(args).collections()
    table = Table(
        ("Collection", "Scope", "Memories"),
        [(name or "(root)", scope, str(count)) for name, scope, count in rows],
        empty="No collections yet.",
    )
    data = [{"collection": name, "scope": scope, "memories": count} for name, scope, count in rows]
    return Output(data, table=table, quiet="".join(f"{name}\n" for name, _, _ in rows if name))


collections_command = Command(
    _no_arguments,
    _collections,
    """A collection is a directory of the bank; `put --collection NAME` makes one.

  retain collections""",
)
