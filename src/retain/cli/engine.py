"""engine: the parts of the index that live elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.cli.parser import Command, Parser, add_tools, open_app, run_tool
from retain.cli.progress import Bar, resumable
from retain.cli.render import Output, Table
from retain.engines.arm import EngineError
from retain.engines.choosing import EMBEDDED, KINDS, VECTOR
from retain.engines.sending import rounds
from retain.errors import RetainError, UsageError
from retain.guard.characters import flat
from retain.remote import moving

if TYPE_CHECKING:
    from retain.app import App
    from retain.engines.checking import Drift
    from retain.engines.delivery import Pushed
    from retain.engines.wire import Trouble
    from retain.remote import Mended, State

__all__ = ["engine_command"]

_SAID: Final = 300  # characters of what a server said
_NAME: Final = 120  # and of a name
_PULL: Final = "pull, or `retain engine repair --mine` if this bank is right"
_KEPT: Final = "What was delivered so far stays; run it again and it goes on where it stopped."
_NAMED: Final = 5  # memories that are named where engine and bank differ


def _arguments(parser: Parser) -> None:
    parser.set_defaults(tool_run=_status, tool="status")
    add_tools(parser, _TOOLS, _MORE)


def _no_arguments(_parser: Any) -> None:
    """The common options are enough."""


# status


def _status(args: argparse.Namespace) -> Output:
    remote = open_app(args).remote
    states = remote.status()
    table = Table(
        ("Part", "Engine", "Where", "Version", "Held", "Sent", "Unsent"),
        [_row(one) for one in states],
        empty="",
        flexible=("Where",),
        least="Where",
    )
    warnings = [f"{one.part}: {_whole(one.trouble)}" for one in states if one.trouble]
    warnings += [f"{one.part}: {flat(line, _SAID)}" for one in states for line in one.otherwise]
    warnings += [f"{one.part}: {line}" for one in states for line in _differences(one)]
    warnings += remote.cautions()
    is_down = any(one.kind != EMBEDDED and not one.version for one in states)
    former = remote.former()
    warnings += [_left_behind(*one) for one in former]
    data = {
        "bank": remote.identity,
        "arms": [_state_data(one) for one in states],
        "former": [{"kind": kind, "name": name} for kind, name in former],
    }
    is_ = "is" if remote.is_any else "would be"
    messages = [f"On servers this bank {is_} called {remote.identity}."]
    if any(one.otherwise for one in states):
        messages.append("`retain engine repair` changes what can be changed in place.")
    return Output(data, table=table, messages=messages, warnings=warnings, code=int(is_down))


def _left_behind(kind: str, name: str) -> str:
    return (
        f"{kind} was told of this bank under the name {name} as well, which stays there until "
        f"`retain engine drop --from {kind} --name {name} --yes`, "
        "unless a copy of this bank elsewhere is called so"
    )


def _differences(one: State) -> list[str]:
    """What a server holds otherwise than this bank, and what to do about it."""
    found = []
    if one.has_lost:
        found.append("it has lost what it was told; `retain engine push` tells it again")
    if one.ahead:
        what = "1 memory" if one.ahead == 1 else f"{one.ahead} memories"
        found.append(f"it holds something newer of {what}: {_PULL}")
    return found


def _whole(trouble: Trouble) -> str:
    """What went wrong, with the server's own words marked as such."""
    said = flat(trouble.words.replace('"', "'"), _SAID)
    return f'{trouble.why} The server said: "{said}"' if said else trouble.why


def _row(one: State) -> tuple[str, ...]:
    if one.kind == EMBEDDED:
        return (one.part, one.kind, "in the bank's own index", "", "", "", "")
    pieces = str(one.pieces) if one.version else ""
    numbers = (pieces, str(one.delivered), str(one.waiting))
    return (one.part, one.kind, one.address, one.answers, *numbers)


def _state_data(one: State) -> dict[str, object]:
    why, said = (one.trouble.why, one.trouble.words) if one.trouble else ("", "")
    return {**one._asdict(), "trouble": why, "server_said": said}


# push


def _push(args: argparse.Namespace) -> Output:
    app = open_app(args)
    app.remote.check()
    output = Output(None)
    for _ in rounds(app.place.root, app.remote.waiting):
        output = _delivered(app)
    return output


def _delivered(app: App) -> Output:
    """What waits delivered; a model that fails keeps back what needs its vectors, and no more."""
    app.library.sync()
    warnings = []
    try:
        with Bar("Vectors") as bar:
            app.library.fill(progress=bar)
    except RetainError as error:
        warnings.append(f"vectors cannot be made: {error.message}")
    with resumable(_KEPT), Bar("Delivering") as bar:
        done = app.remote.push(progress=bar)
    output = _pushed(done)
    code = int(any(one.left for one in done.values()))
    return output._replace(warnings=[*warnings, *output.warnings], code=code)


def _pushed(done: Mapping[str, Pushed]) -> Output:
    lines = "".join(f"{part}: {_told(one)}\n" for part, one in done.items())
    warnings = [
        f"{part}: another process delivers just now" for part, one in done.items() if one.is_busy
    ]
    lacking = max((one.lacking for one in done.values()), default=0)
    if lacking:
        warnings.append(f"{lacking} memories wait for their vectors; `retain index` makes them")
    data = {part: one._asdict() for part, one in done.items()}
    return Output(data, lines, quiet="", warnings=warnings)


def _told(one: Pushed) -> str:
    parts = [f"{one.sent} sent", f"{one.removed} removed"]
    if one.known:
        parts.append(f"{one.known} known already")
    if one.ahead:
        parts.append(f"{one.ahead} newer there")
    parts.append(f"{one.left} left")
    return ", ".join(parts)


# verify, repair


def _verify(args: argparse.Namespace) -> Output:
    found = open_app(args).remote.verify()
    text = "".join(f"{part}: {_differs(drift)}\n" for part, drift in found.items())
    data = {part: _drift_data(drift) for part, drift in found.items()}
    total = sum(drift.total for drift in found.values())
    hint = "`retain engine repair` mends it."
    return Output(data, text, messages=[hint] if total else [], code=int(bool(total)))


def _repair_arguments(parser: Any) -> None:
    parser.add_argument(
        "--mine",
        action="store_true",
        help="also replace what is newer there, or deleted there, by what is here",
    )


def _repair(args: argparse.Namespace) -> Output:
    remote = open_app(args).remote
    with resumable(_KEPT), Bar("Delivering") as bar:
        found = remote.repair(bar, is_mine=args.mine)
    text = "".join(f"{part}: {_what_was_mended(one)}\n" for part, one in found.items())
    data = {
        part: {
            **_drift_data(one.after),
            "mended": one.before.total - one.after.total,
            "replaced": one.replaced,
        }
        for part, one in found.items()
    }
    total = sum(one.after.total for one in found.values())
    hint = "Run `retain engine status` to see what keeps the engine from it."
    return Output(data, text, messages=[hint] if total else [], code=int(bool(total)))


def _what_was_mended(one: Mended) -> str:
    replaced = ""
    if one.replaced:
        replaced = f"replaced {_listed('that was newer there, or deleted there', one.replaced)}\n  "
    if not one.before.total:
        return f"{replaced or 'nothing to mend; '}{_differs(one.after)}"
    return f"{replaced}found {_differs(one.before)}\n  now {_differs(one.after)}"


def _drift_data(drift: Drift) -> dict[str, object]:
    return {**drift._asdict(), "drift": drift.total}


def _differs(drift: Drift) -> str:
    parts = [f"drift {drift.total} of {drift.memories}"]
    for what, names in (
        ("missing", drift.missing),
        ("older there", drift.differing),
        ("deleted here", drift.undead),
        (f"newer there, or deleted there: {_PULL}", drift.ahead),
        ("from other machines", drift.elsewhere),
    ):
        if names:
            parts.append(_listed(what, names))
    if drift.lacking:
        parts.append(f"{drift.lacking} without vectors yet")
    return "; ".join(parts)


def _listed(what: str, names: Sequence[str]) -> str:
    more = ", ..." if len(names) > _NAMED else ""
    return f"{len(names)} {what} ({', '.join(map(_brief, names[:_NAMED]))}{more})"


def _brief(name: str) -> str:
    """A memory's name, which a server may have made up, on one line."""
    return flat(name, _NAME)


# migrate, drop


def _migrate_arguments(parser: Any) -> None:
    parser.add_argument(
        "--to",
        required=True,
        metavar="ENGINE",
        choices=(*KINDS, EMBEDDED),
        help="qdrant, upstash (vectors), meilisearch (words), postgres (both), or sqlite: back",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="PART",
        choices=("text", "vector"),
        help="move the part for words (text) or for vectors alone; else all that ENGINE can be",
    )


def _migrate(args: argparse.Namespace) -> Output:
    app = open_app(args)
    parts = moving(args.to, args.only)
    if args.to != EMBEDDED:
        app.library.sync()
    if VECTOR in parts and args.to != EMBEDDED:
        with Bar("Vectors") as bar:
            app.library.fill(progress=bar)
    before = app.remote.told
    with resumable(f"Nothing has moved yet. {_KEPT}"), Bar("Delivering") as bar:
        done = app.remote.migrate(args.to, bar, args.only)
    output = _pushed(done)
    where = "the bank's own index" if args.to == EMBEDDED else args.to
    data = {"to": args.to, "arms": output.data}
    text = f"{output.text}Searches ask {where} from now on.\n"
    kept = app.remote.contradicted(args.to, args.only)
    if kept:
        text = f"{output.text}Your config says {args.to} now, and the environment does not.\n"
    warnings = [*output.warnings, *kept, *app.remote.cautions(args.to)]
    messages = [
        f"What lies on {one} stays there until `retain engine drop --from {one} --yes`."
        for one in before
        if one not in app.remote.in_use
    ]
    return output._replace(data=data, text=text, warnings=warnings, messages=messages)


def _drop_arguments(parser: Any) -> None:
    parser.add_argument("--yes", action="store_true", help="do it; without this nothing is removed")
    parser.add_argument(
        "--from",
        dest="kind",
        default="",
        metavar="ENGINE",
        choices=tuple(KINDS),
        help="an engine that is no longer asked; else those that are",
    )
    parser.add_argument(
        "--name",
        default="",
        metavar="NAME",
        help="what the bank was called there before (with --from); else what it is called now",
    )


def _drop(args: argparse.Namespace) -> Output:
    remote = open_app(args).remote
    where, name = args.kind or "its engines", args.name or remote.identity
    if args.name and not args.kind:
        raise UsageError("--name needs --from ENGINE", unchanged="Nothing was removed.")
    if not args.kind:
        remote.check()
    if not args.yes:
        raise UsageError(
            f"this removes everything of {name} from {where}, for every machine",
            unchanged="Nothing was removed.",
            hint="Say that it is meant with --yes. The files and the bank's own index stay.",
        )
    pieces = remote.drop(args.kind, args.name)
    messages = []
    if name == remote.identity and (not args.kind or args.kind in remote.in_use):
        messages.append(
            "It is still what searches ask, and is filled again by the next write; "
            "`retain engine migrate --to sqlite` ends that."
        )
    text = f"Removed {name} from {where}: {pieces} pieces.\n"
    if not pieces:
        text = f"There was nothing of {name} on {where}.\n"
    return Output({"dropped": name, "pieces": pieces}, text, messages=messages)


_TOOLS: Final = {
    "status": ("say where each part of the index lives, and how it is", _no_arguments, _status),
    "push": ("deliver what waits", _no_arguments, _push),
    "verify": ("compare engines with the bank, memory by memory", _no_arguments, _verify),
    "repair": ("tell engines again what they are wrong about", _repair_arguments, _repair),
    "migrate": ("move parts of the index to another engine", _migrate_arguments, _migrate),
    "drop": ("remove everything of this bank from its engines", _drop_arguments, _drop),
}

_MORE: Final = {
    "status": """Held is how many pieces of this bank the server has: a memory is one or several.
Sent is how many memories it was given from this machine, Unsent how many it has yet to be given.
Ends with 1 when a server does not answer.""",
    "push": """Nobody has to: whatever stays running delivers by itself, and other commands leave
a process behind that does. Ends with 1 when something could not be delivered.""",
    "verify": """Reads what the server holds and compares it with the index: what is missing
there, what is older there, what was deleted here and is there still. What is newer there comes
from another machine, and is no fault. Ends with 1 when something differs; `repair` mends it.""",
    "repair": """Compares as `verify` does, sends what is wrong again, changes what is made
otherwise than your settings want where that can be done in place, and compares once more. Ends
with 1 when something is left.""",
    "migrate": """Everything is sent and compared first; only then do searches ask the new engine.
No model is asked: the vectors are there already. Interrupted, it goes on where it stopped. The
old server keeps what it has until `drop --from`.""",
    "drop": """For every machine that shares it. The files and the bank's own index stay, so
everything can be sent again by `push`. What lies on a server under a name that the bank had
before is removed by `drop --from ENGINE --name NAME`.""",
}


def _run(args: argparse.Namespace) -> Output:
    """A person who asks about an engine is also told what the server said, in quotes."""
    try:
        return run_tool(args)
    except EngineError as error:
        if error.words:
            said = flat(error.words.replace('"', "'"), _SAID)
            error.message = f'{error.message} The server said: "{said}"'
        raise


engine_command = Command(
    _arguments,
    _run,
    """The index is one SQLite file in the bank unless you say otherwise. A team, or a very large
bank, may keep the part that compares vectors in Qdrant, Postgres or Upstash, and the part that
looks up words in Meilisearch or Postgres. The files stay the truth and the bank's own index stays
complete: an engine that is down costs nobody a memory, nor an answer.

  retain config set engine.qdrant.url http://127.0.0.1:6333 --global
  retain engine migrate --to qdrant
  retain engine status
  retain engine verify
  retain engine migrate --to sqlite
  retain engine drop --from qdrant --yes""",
)
