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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.cli.command import Output, Run, arg, command, flag
from retain.cli.render import Bar, Table
from retain.errors import RetainError, UsageError
from retain.index.engines.arm import EngineError
from retain.index.engines.choosing import EMBEDDED, KINDS, VECTOR
from retain.index.engines.sending import rounds
from retain.remote import moving
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.app import App
    from retain.index.engines.checking import Drift
    from retain.index.engines.delivery import Pushed
    from retain.remote import State

_MAX_QUOTE: Final = 300  # characters of what a server said
_MAX_NAME: Final = 120  # and of a name
_MAX_NAMES: Final = 5  # memories that are named where engine and bank differ
_PULL: Final = "pull, or `retain engine repair --mine` if this bank is right"
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

    Held is how many pieces of this bank the server has: a memory is one or several.
    Sent is how many memories it was given from this machine, Unsent how many it has yet to be
    given. Ends with 1 when a server does not answer.
    """
    remote = app.remote
    states, former = remote.status(), remote.former()
    rows, warnings, data = [], [], []
    for state in states:
        trouble = state.trouble
        if trouble:
            warnings.append(f"{state.part}: {_quote(trouble.why, trouble.words)}")
        why, words = (trouble.why, trouble.words) if trouble else ("", "")
        data.append({**state._asdict(), "trouble": why, "server_said": words})
        row = ("in the bank's own index", "", "", "", "")
        if state.kind != EMBEDDED:
            pieces = str(state.pieces) if state.version else ""
            numbers = (pieces, str(state.delivered), str(state.waiting))
            row = (state.address, state.answers, *numbers)
        rows.append((state.part, state.kind, *row))
    for state in states:
        warnings += [f"{state.part}: {flat(line, _MAX_QUOTE)}" for line in state.otherwise]
    for state in states:
        warnings += [f"{state.part}: {line}" for line in _differences(state)]
    warnings += remote.cautions()
    warnings += [
        f"{kind} was told of this bank under the name {name} as well, which stays there until "
        f"`retain engine drop --from {kind} --name {name} --yes`, "
        "unless a copy of this bank elsewhere is called so"
        for kind, name in former
    ]
    is_ = "is" if remote.is_any else "would be"
    messages = [f"On servers this bank {is_} called {remote.identity}."]
    if any(state.otherwise for state in states):
        messages.append("`retain engine repair` changes what can be changed in place.")
    return Output(
        {
            "bank": remote.identity,
            "arms": data,
            "former": [{"kind": kind, "name": name} for kind, name in former],
        },
        table=Table(
            ("Part", "Engine", "Where", "Version", "Held", "Sent", "Unsent"),
            rows,
            flexible=("Where",),
        ),
        messages=messages,
        warnings=warnings,
        code=int(any(state.kind != EMBEDDED and not state.version for state in states)),
    )


def _differences(state: State) -> list[str]:
    """What a server holds otherwise than this bank, and what to do about it."""
    lines = []
    if state.has_lost:
        lines.append("it has lost what it was told; `retain engine push` tells it again")
    if state.ahead:
        what = "1 memory" if state.ahead == 1 else f"{state.ahead} memories"
        lines.append(f"it holds something newer of {what}: {_PULL}")
    return lines


@command("engine push")
@_quote_server
def _push(app: App) -> Output:
    """
    deliver what waits

    Nobody has to: whatever stays running delivers by itself, and other commands leave
    a process behind that does. Ends with 1 when something could not be delivered.
    """
    app.remote.check()
    output = Output(None)
    for _ in rounds(app.location.root, app.remote.waiting):
        output = _deliver(app)
    return output


def _deliver(app: App) -> Output:
    """Deliver what waits; a model that fails keeps back what needs its vectors, and no more."""
    app.sync()
    warnings = []
    try:
        with Bar("Vectors") as bar:
            app.make_vectors(progress=bar)
    except RetainError as error:
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
        counts = [f"{delivery.sent} sent", f"{delivery.removed} removed"]
        if delivery.known:
            counts.append(f"{delivery.known} known already")
        if delivery.ahead:
            counts.append(f"{delivery.ahead} newer there")
        lines.append(f"{part}: {', '.join(counts)}, {delivery.left} left")
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
    compare engines with the bank, memory by memory

    Reads what the server holds and compares it with the index: what is missing
    there, what is older there, what was deleted here and is there still. What is newer there comes
    from another machine, and is no fault. Ends with 1 when something differs; `repair` mends it.
    """
    drifts = app.remote.verify()
    total = sum(drift.total for drift in drifts.values())
    return Output(
        {part: {**drift._asdict(), "drift": drift.total} for part, drift in drifts.items()},
        [f"{part}: {_describe(drift)}" for part, drift in drifts.items()],
        messages=["`retain engine repair` mends it."] if total else [],
        code=int(bool(total)),
    )


@command(
    "engine repair",
    flag("--mine", help="also replace what is newer there, or deleted there, by what is here"),
)
@_quote_server
def _repair(app: App, mine: bool) -> Output:
    """
    tell engines again what they are wrong about

    Compares as `verify` does, sends what is wrong again, changes what is made
    otherwise than your settings want where that can be done in place, and compares once more. Ends
    with 1 when something is left.
    """
    with Bar("Delivering", _KEPT) as bar:
        repairs = app.remote.repair(bar, is_mine=mine)
    lines, data = [], {}
    for part, repair in repairs.items():
        before, after = repair.before, repair.after
        replaced = ""
        if repair.replaced:
            names = _list_names("that was newer there, or deleted there", repair.replaced)
            replaced = f"replaced {names}\n  "
        if before.total:
            lines.append(f"{part}: {replaced}found {_describe(before)}\n  now {_describe(after)}")
        else:
            lines.append(f"{part}: {replaced or 'nothing to mend; '}{_describe(after)}")
        data[part] = {
            **after._asdict(),
            "drift": after.total,
            "mended": before.total - after.total,
            "replaced": repair.replaced,
        }
    total = sum(repair.after.total for repair in repairs.values())
    hint = "Run `retain engine status` to see what keeps the engine from it."
    return Output(data, lines, messages=[hint] if total else [], code=int(bool(total)))


def _describe(drift: Drift) -> str:
    differences = {
        "missing": drift.missing,
        "older there": drift.differing,
        "deleted here": drift.undead,
        f"newer there, or deleted there: {_PULL}": drift.ahead,
        "from other machines": drift.elsewhere,
    }
    parts = [f"drift {drift.total} of {drift.memories}"]
    parts += [_list_names(what, names) for what, names in differences.items() if names]
    if drift.lacking:
        parts.append(f"{drift.lacking} without vectors yet")
    return "; ".join(parts)


def _list_names(what: str, names: Sequence[str]) -> str:
    """The first names on one line; a server may have made them up."""
    first = ", ".join(flat(name, _MAX_NAME) for name in names[:_MAX_NAMES])
    return f"{len(names)} {what} ({first}{', ...' if len(names) > _MAX_NAMES else ''})"


@command(
    "engine migrate",
    arg(
        "--to",
        required=True,
        metavar="ENGINE",
        choices=(*KINDS, EMBEDDED),
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
    before = app.remote.told
    with Bar("Delivering", f"Nothing has moved yet. {_KEPT}") as bar:
        pushed = app.remote.migrate(to, bar, only)
    lines, warnings = _render_pushed(pushed)
    contradictions = app.remote.contradicted(to, only)
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
            for kind in before
            if kind not in app.remote.in_use
        ],
        warnings=[*warnings, *contradictions, *app.remote.cautions(to)],
    )


@command(
    "engine drop",
    flag("--yes", help="do it; without this nothing is removed"),
    arg(
        "--from",
        dest="kind",
        default="",
        metavar="ENGINE",
        choices=tuple(KINDS),
        help="an engine that is no longer asked; else those that are",
    ),
    arg(
        "--name",
        default="",
        metavar="NAME",
        help="what the bank was called there before (with --from); else what it is called now",
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
    where, target = kind or "its engines", name or remote.identity
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
    pieces = remote.drop(kind, name)
    messages = []
    if target == remote.identity and (not kind or kind in remote.in_use):
        messages.append(
            "It is still what searches ask, and is filled again by the next write; "
            "`retain engine migrate --to sqlite` ends that."
        )
    text = f"Removed {target} from {where}: {pieces} pieces.\n"
    if not pieces:
        text = f"There was nothing of {target} on {where}.\n"
    return Output({"dropped": target, "pieces": pieces}, text, messages=messages)
