"""Keep parts of the index on a server, and look after them.

The index is one SQLite file in the bank unless you say otherwise. A team, or a very large
bank, may keep the part that compares vectors in Qdrant, Postgres or Upstash, and the part that
looks up words in Meilisearch or Postgres. The files stay the truth and the bank's own index stays
complete: an engine that is down costs nobody a memory, nor an answer.

  retain config set engine.qdrant.url http://127.0.0.1:6333 --global
  retain engine migrate --to qdrant
  retain engine status
  retain engine verify
  retain engine migrate --to sqlite
  retain engine drop --from qdrant --yes
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from retain.cli.command import Output, Run, arg, command, flag
from retain.cli.render import Bar, Table
from retain.errors import RetainError, UsageError
from retain.index.engines.engine import EngineError
from retain.index.engines.settings import EMBEDDED, ENGINES, VECTOR
from retain.remote import moving
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.app import App
    from retain.index.engines.sync import Drift, Pushed

_MAX_QUOTE: Final = 300  # characters of what a server said
_MAX_NAMES: Final = 5  # memories that are named where engine and bank differ
_KEPT: Final = "What was delivered so far stays; run it again and it goes on where it stopped."


def _quote(message: str, words: str) -> str:
    """What went wrong, with the server's own words marked as such."""
    words = flat(words.replace('"', "'"), _MAX_QUOTE)
    return f'{message} The server said: "{words}"' if words else message


def _quote_server(run: Run) -> Run:
    """Tell whoever asks about an engine what its server said, in quotes."""

    @functools.wraps(run)
    def call(**values: Any) -> Output:
        try:
            return run(**values)
        except EngineError as error:
            error.message = _quote(error.message, error.words)
            raise

    return call


@command("engine", about=__doc__)
@command("engine status")
@_quote_server
def _status(app: App) -> Output:
    """
    say where each part of the index lives, and how it is

    Held is how many documents of this bank the server has: a memory is one or several.
    Sent is how many memories it was given from this machine, Unsent how many it has yet to be
    given. Ends with 1 when a server does not answer.
    """
    remote = app.remote
    states = remote.status()
    rows, warnings = [], []
    for state in states:
        row = ("in the bank's own index", "", "", "", "")
        if state.kind != EMBEDDED:
            held = str(state.documents) if state.version else ""
            row = (state.address, state.answer, held, str(state.delivered), str(state.waiting))
        rows.append((state.part, state.kind, *row))
        if state.trouble:
            warnings.append(f"{state.part}: {_quote(state.trouble, state.server_said)}")
    warnings += remote.cautions()
    is_ = "is" if remote.in_use else "would be"
    messages = [f"On servers this bank {is_} called {remote.name}."]
    return Output(
        {"bank": remote.name, "arms": [state._asdict() for state in states]},
        table=Table(
            ("Part", "Engine", "Where", "Version", "Held", "Sent", "Unsent"),
            rows,
            flexible=("Where",),
        ),
        messages=messages,
        warnings=warnings,
        code=int(any(state.kind != EMBEDDED and not state.version for state in states)),
    )


@command("engine push")
@_quote_server
def _push(app: App) -> Output:
    """
    deliver what waits

    Whatever stays running (`mcp`, `web`, `serve`, `retain.open`) delivers by itself; other commands
    leave it to that, or to this. Ends with 1 when something could not be delivered.
    """
    app.remote.check()
    app.sync()
    warnings = []
    try:
        with Bar("Vectors") as bar:
            app.make_vectors(progress=bar)
    except RetainError as error:  # it keeps back what needs vectors, and no more
        warnings.append(f"vectors cannot be made: {error.message}")
    with Bar("Delivering", _KEPT) as bar:
        pushed = app.remote.push(progress=bar)
    lines, notes = _render_pushed(pushed)
    code = int(any(delivery.left for delivery in pushed.values()))
    data = {part: delivery._asdict() for part, delivery in pushed.items()}
    return Output(data, lines, quiet="", warnings=[*warnings, *notes], code=code)


def _render_pushed(pushed: Mapping[str, Pushed]) -> tuple[list[str], list[str]]:
    """The lines and the warnings about a delivery."""
    lines, warnings = [], []
    for part, delivery in pushed.items():
        known = f", {delivery.known} known already" if delivery.known else ""
        removed = f"{delivery.removed} removed{known}"
        lines.append(f"{part}: {delivery.sent} sent, {removed}, {delivery.left} left")
        if delivery.is_busy:
            warnings.append(f"{part}: another process delivers just now")
    lacking = max((delivery.lacking for delivery in pushed.values()), default=0)
    if lacking:
        warnings.append(f"{lacking} memories wait for their vectors; `retain index` makes them")
    return lines, warnings


@command("engine verify")
@_quote_server
def _verify(app: App) -> Output:
    """
    compare engines with the bank

    Compares the ids of all documents on the server with those of the index: which memories lack
    one there, and how many documents are there that no memory here has. Where you have given the
    bank a name, these may be other machines', and are no fault. Ends with 1 when something differs;
    `repair` mends it.
    """
    drifts = app.remote.verify()
    total = sum(drift.total for drift in drifts.values())
    return Output(
        {part: _drift_data(drift) for part, drift in drifts.items()},
        [f"{part}: {_describe(drift)}" for part, drift in drifts.items()],
        messages=["`retain engine repair` mends it."] if total else [],
        code=int(bool(total)),
    )


@command("engine repair", flag("--mine", "also remove what only other machines have put there"))
@_quote_server
def _repair(app: App, mine: bool) -> Output:
    """
    send what engines lack, and remove what no file here has

    Compares as `verify` does, sends and removes what is wrong, and compares once more. Ends with 1
    when something is left.
    """
    with Bar("Delivering", _KEPT) as bar:
        repairs = app.remote.repair(bar, is_mine=mine)
    lines, data = [], {}
    for part, (before, after) in repairs.items():
        found = f"found {_describe(before)}\n  now " if before.total else "nothing to mend; "
        lines.append(f"{part}: {found}{_describe(after)}")
        data[part] = {**_drift_data(after), "mended": before.total - after.total}
    total = sum(repair.after.total for repair in repairs.values())
    hint = "Run `retain engine status` to see what keeps the engine from it."
    return Output(data, lines, messages=[hint] if total else [], code=int(bool(total)))


def _drift_data(drift: Drift) -> dict[str, object]:
    return {**drift._asdict(), "drift": drift.total}


def _describe(drift: Drift) -> str:
    parts = [f"drift {drift.total} of {drift.memories}"]
    if drift.missing:
        names = ", ".join(flat(name, 120) for name in drift.missing[:_MAX_NAMES])
        more = ", ..." if len(drift.missing) > _MAX_NAMES else ""
        parts.append(f"{len(drift.missing)} missing ({names}{more})")
    if drift.extra:
        whose = "from other machines" if drift.is_shared else "of no memory here"
        parts.append(f"{drift.extra} documents {whose}")
    if drift.lacking:
        parts.append(f"{drift.lacking} without vectors yet")
    return "; ".join(parts)


@command(
    "engine migrate",
    arg(
        "--to",
        required=True,
        metavar="ENGINE",
        choices=(*ENGINES, EMBEDDED),
        help="qdrant, upstash (vectors), meilisearch (words), postgres (both), or sqlite: back",
    ),
    arg(
        "--only",
        default="",
        metavar="PART",
        choices=("text", "vector"),
        help="move the part for words (text) or for vectors alone; else all that ENGINE can be",
    ),
)
@_quote_server
def _migrate(app: App, to: str, only: str) -> Output:
    """
    move parts of the index to another engine

    Everything is sent and compared first; only then do searches ask the new engine.
    No model is asked: the vectors are there already. Interrupted, it goes on where it stopped. The
    old server keeps what it has until `drop --from`.
    """
    parts = moving(to, only)
    if to != EMBEDDED:
        app.sync()
    if VECTOR in parts and to != EMBEDDED:
        with Bar("Vectors") as bar:
            app.make_vectors(progress=bar)
    before = {state.kind for state in app.remote.status(is_asked=False) if state.delivered}
    with Bar("Delivering", f"Nothing has moved yet. {_KEPT}") as bar:
        pushed = app.remote.migrate(to, bar, only)
    lines, warnings = _render_pushed(pushed)
    contradictions = app.remote.contradictions(to, only)
    if contradictions:
        lines.append(f"Your config says {to} now, and the environment does not.")
    else:
        where = "the bank's own index" if to == EMBEDDED else to
        lines.append(f"Searches ask {where} from now on.")
    return Output(
        {"to": to, "arms": {part: delivery._asdict() for part, delivery in pushed.items()}},
        lines,
        quiet="",
        messages=[
            f"What lies on {kind} stays there until `retain engine drop --from {kind} --yes`."
            for kind in sorted(before - set(app.remote.in_use))
        ],
        warnings=[*warnings, *contradictions, *app.remote.cautions(to)],
    )


@command(
    "engine drop",
    flag("--yes", "do it; without this nothing is removed"),
    arg(
        "--from",
        dest="kind",
        default="",
        metavar="ENGINE",
        choices=tuple(ENGINES),
        help="an engine that is no longer asked; else those that are",
    ),
    arg(
        "--name NAME",
        "what the bank was called there before (with --from); else what it is called now",
        default="",
    ),
)
@_quote_server
def _drop(app: App, yes: bool, kind: str, name: str) -> Output:
    """
    remove everything of this bank from its engines

    For every machine that shares it. The files and the bank's own index stay, so
    everything can be sent again by `push`. What lies on a server under a name that the bank had
    before is removed by `drop --from ENGINE --name NAME`.
    """
    remote = app.remote
    where, target = kind or "its engines", name or remote.name
    if name and not kind:
        raise UsageError("--name needs --from ENGINE", unchanged="Nothing was removed.")
    if not kind:
        remote.check()
    if not yes:
        raise UsageError(
            f"this removes everything of {target} from {where}, for every machine",
            unchanged="Nothing was removed.",
            hint="Say that it is meant with --yes. The files and the bank's own index stay.",
        )
    documents = remote.drop(kind, name)
    messages = []
    if target == remote.name and (not kind or kind in remote.in_use):
        messages.append(
            "It is still what searches ask, and is filled again by the next delivery; "
            "`retain engine migrate --to sqlite` ends that."
        )
    text = f"Removed {target} from {where}: {documents} documents.\n"
    if not documents:
        text = f"There was nothing of {target} on {where}.\n"
    return Output({"dropped": target, "documents": documents}, text, messages=messages)
