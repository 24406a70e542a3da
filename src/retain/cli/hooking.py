"""hook: what a host's hooks do here, how long they took, and one of them tried.

A host's own call, `retain hook EVENT`, never gets here: it is answered before this is loaded.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from retain.cli.inputs import count
from retain.cli.parser import Command, Parser, add_tools, open_app, run_tool
from retain.cli.progress import Bar
from retain.cli.render import Output, Table
from retain.errors import NotFound, UsageError
from retain.hooks import EVENTS, TOOLS, called

if TYPE_CHECKING:
    from retain.app import App
    from retain.capture.timing import Tally
    from retain.config import Config
    from retain.hooks.trial import Trial

__all__ = ["hook_command"]

_JUDGING: Final = ("stop", "pre-compact", "post-compact", "session-end")
_TOOLS_EVENTS: Final = ("pre-tool-use", "post-tool-use")
_SHOWN: Final = 300  # characters of a payload
_MOST_BYTES: Final = 32_000_000
_BLOCKED: Final = 2
_NO_PLUGIN: Final = (
    "Claude Code has no plugin of Retain's installed: without --plugin-dir, no hook runs there."
)


def _arguments(parser: Parser) -> None:
    # Without a word it says which hooks are on.
    parser.set_defaults(tool_run=_state, tool="")
    add_tools(parser, _TOOLS, _MORE)


# Which are on


def _state(args: argparse.Namespace) -> Output:
    app = open_app(args)
    config = app.config
    data = [_described(event, config) for event in EVENTS]
    rows = [
        (
            str(one["event"]),
            "on" if one["on"] else f"off: {one['switch']}",
            str(one["about"]),
        )
        for one in data
    ]
    quiet = "".join(f"{one['event']}\n" for one in data if one["on"])
    # Where a switch is: a path in a cell would leave no room for what the hook does.
    off = {f"{one['switch']} is off: {one['origin']}": None for one in data if not one["on"]}
    return Output(
        data,
        table=Table(("Event", "State", "What it does"), rows),
        quiet=quiet,
        messages=[*off, *_surroundings(app)],
        warnings=config.warnings,
    )


def _surroundings(app: App) -> list[str]:
    """What hooks need besides being on: a bank, and a host that calls them."""
    from retain.hosts import plugin

    place = app.place
    bank = f"Bank: {place.root} ({place.scope})"
    if not place.exists:
        bank = "There is no bank here: `retain init` makes one, and hooks say nothing until then."
    has = plugin(os.environ)
    calls = f"Claude Code has the plugin {has}." if has else _NO_PLUGIN
    return [bank, calls]


def _described(event: str, config: Config) -> dict[str, object]:
    """An event, and the setting that switches it off, or the one that would."""
    from retain.settings import SETTINGS

    own = f"hooks.{event.replace('-', '_')}"
    others = {"user-prompt-submit": "retrieval.enabled"} | dict.fromkeys(_JUDGING, "triage.enabled")
    switches = ["memory.enabled", own, *filter(None, [others.get(event)])]
    off = next((key for key in switches if not config.flag(key)), "")
    return {
        "event": event,
        "host_event": EVENTS[event],
        "on": not off,
        "switch": off or own,
        "origin": config.value(off or own).origin,
        "about": SETTINGS[own].about,
    }


# stats


def _stats_arguments(parser: Any) -> None:
    parser.add_argument("--all", action="store_true", help="of every project, not of this one")
    parser.add_argument("--since", type=_days, metavar="DAYS", help="only the last days: 7 or 7d")


def _stats(args: argparse.Namespace) -> Output:
    from retain.capture import timing

    paths = timing.transcripts(os.environ, os.getcwd(), everywhere=args.all)
    since = "" if args.since is None else _days_ago(args.since)
    with Bar("Reading transcripts") as bar:
        found = timing.read(paths, since, bar if bar else None)
    order = [name for name in EVENTS.values() if name in found.events]
    order += sorted(set(found.events) - set(order))
    rows = [_row(name, found.events[name]) for name in order]
    data = {
        "transcripts": found.transcripts,
        "bad_lines": found.bad_lines,
        "events": [{"event": name, **_figures(found.events[name])} for name in order],
    }
    table = Table(
        (
            "Event",
            "Runs",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "Slowest",
            "Failed",
            "Blocked",
            "Memories",
            "Tokens",
        ),
        rows,
        empty=_nothing(found.transcripts, args.all),
    )
    note = (
        f"From {found.transcripts} transcript{'s' * (found.transcripts != 1)}. A hook that says "
        "nothing leaves no line there, and some that say something leave no time."
    )
    lines = "line" if found.bad_lines == 1 else "lines"
    warnings = [f"{found.bad_lines} {lines} could not be read"] if found.bad_lines else []
    quiet = None if rows else ""
    return Output(
        data, table=table, quiet=quiet, messages=[note] if rows else (), warnings=warnings
    )


def _days(text: str) -> int:
    """A number of days, with or without their letter, as argparse takes it."""
    return count(text.removesuffix("d"))


def _days_ago(days: int) -> str:
    from datetime import UTC, datetime, timedelta

    try:
        return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return ""


def _nothing(transcripts: int, everywhere: bool) -> str:
    if transcripts:
        return f"No hook of Retain's is noted in {transcripts} transcripts."
    where = "" if everywhere else " for this project; --all looks at every one"
    return f"There are no transcripts of Claude Code's{where}."


def _figures(tally: Tally) -> dict[str, object]:
    from retain.capture.timing import percentile

    return {
        "runs": tally.runs,
        "timed": len(tally.times),
        "p50_ms": percentile(tally.times, 0.5),
        "p90_ms": percentile(tally.times, 0.9),
        "p99_ms": percentile(tally.times, 0.99),
        "slowest_ms": max(tally.times, default=None),
        "failures": tally.failures,
        "blocks": tally.blocks,
        "memories": tally.memories,
        "characters": tally.characters,
        "tokens": tally.tokens,
    }


def _row(name: str, tally: Tally) -> tuple[str, ...]:
    figures = _figures(tally)
    shown = ("runs", "p50_ms", "p90_ms", "p99_ms", "slowest_ms", "failures", "blocks", "memories")
    cells = [figures[key] for key in (*shown, "tokens")]
    return (name, *("-" if cell is None else f"{cell:,g}" for cell in cells))


# test


def _test_arguments(parser: Any) -> None:
    parser.add_argument(
        "event",
        nargs="?",
        type=_event,
        choices=tuple(EVENTS),
        metavar="EVENT",
        help="which hook; none: list them",
    )
    parser.add_argument("--prompt", metavar="TEXT", help="with user-prompt-submit: what is asked")
    parser.add_argument(
        "--file",
        metavar="PATH",
        default="",
        help="the file that a tool writes, or the transcript that is looked at",
    )
    parser.add_argument(
        "--payload", metavar="FILE", help="JSON that replaces parts of the made-up payload"
    )


def _event(text: str) -> str:
    """An event by its name here, also for who knows it as the host calls it."""
    return called(text) or text


def _test(args: argparse.Namespace) -> Output:
    from retain.hooks.trial import tried

    app = open_app(args)
    if args.event is None:
        return _events(args, app)
    given = _given(args, app)
    is_named = any(getattr(args, name, False) for name in ("bank", "local", "everywhere"))
    done = tried(args.event, app.place, os.environ, given, is_named=is_named, file=args.file)
    said = "\n\n".join(_says(done)) or f"Nothing: the host goes on. {_why(done, app)}".strip()
    data = {
        "event": done.event,
        "host_event": EVENTS[done.event],
        "payload": done.payload,
        "exit_code": done.code,
        "milliseconds": round(done.milliseconds, 1),
        "stdout": done.out,
        "stderr": done.err,
        "says": said,
        "proposals": [
            {"category": one.category, "title": one.title, "score": one.score}
            for one in done.proposals
        ],
    }
    return Output(data, f"{_head(done)}\n{said}\n", quiet=f"{said}\n")


def _events(args: argparse.Namespace, app: App) -> Output:
    """The hooks that can be tried, for who named none."""
    if args.prompt is not None or args.file or args.payload:
        raise UsageError("an event is missing", hint=f"One of {', '.join(EVENTS)}.")
    data = [_described(event, app.config) for event in EVENTS]
    return Output(
        data,
        table=Table(
            ("Event", "What it does"), [(str(one["event"]), str(one["about"])) for one in data]
        ),
        quiet="".join(f"{event}\n" for event in EVENTS),
        messages=["`retain hook test EVENT` runs one on a made-up event, and shows its answer."],
    )


def _given(args: argparse.Namespace, app: App) -> dict[str, object]:
    """What a person wants the payload to say."""
    given = _payload(args.payload) if args.payload else {}
    if args.prompt is not None:
        if args.event != "user-prompt-submit":
            raise UsageError(f"--prompt belongs to user-prompt-submit, not to {args.event}")
        given["prompt"] = args.prompt
    elif args.event == "user-prompt-submit" and "prompt" not in given:
        given |= _likely_prompt(app)
    if args.file:
        if args.event not in (*_TOOLS_EVENTS, *_JUDGING):
            raise UsageError(f"--file says nothing to {args.event}")
        if args.event != "pre-tool-use" and not os.path.isfile(args.file):
            hint = "--file takes the path of a file that is there."
            raise NotFound(f"there is no file {args.file}", hint=hint)
    return given


def _payload(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
    except OSError as error:
        hint = "--payload takes a file with a JSON object; what it lacks is made up."
        raise NotFound(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} holds no JSON object")
    return found


def _likely_prompt(app: App) -> dict[str, object]:
    """A question that the bank has an answer to, if it has any."""
    if not app.place.exists:
        return {}
    found = app.list(sort="updated", reverse=True)
    return {"prompt": f"What do we know about this: {found[0].title}?"} if found else {}


def _head(done: Trial) -> str:
    told = json.dumps(done.payload, ensure_ascii=False)
    told = told if len(told) <= _SHOWN else f"{told[:_SHOWN]} ..."
    return (
        f"Event:    {done.event} ({EVENTS[done.event]})\n"
        f"Payload:  {told}\n"
        f"Exit:     {done.code}\n"
        f"Took:     {done.milliseconds:.0f} ms, with the start of its process\n"
    )


def _says(done: Trial) -> list[str]:
    """What an answer means, in words."""
    said = _answered(done.out)
    if done.code == _BLOCKED:
        said.append(f"The host keeps the agent at work and tells it:\n\n{done.err.strip()}")
    if done.proposals:
        listed = (f"  [{one.category}] {one.title}" for one in done.proposals)
        where = "It would wait in the inbox (here: of a copy of the bank, which is gone again):"
        said.append("\n".join([where, *listed]))
    if done.err.strip() and done.code != _BLOCKED:
        said.append(f"Standard error:\n\n{done.err.strip()}")
    return said


def _answered(out: str) -> list[str]:
    """What the host makes of a hook's output."""
    from retain.capture.timing import injected

    said = []
    if context := injected(out).strip():
        said.append(f"The host puts this before the model:\n\n{context}")
    try:
        answer = json.loads(out)
    except ValueError:
        return said
    special = answer.get("hookSpecificOutput", {})
    if special.get("permissionDecision") == "deny":
        reason = special.get("permissionDecisionReason")
        said.append(f"The host refuses the tool's call and tells the agent:\n\n{reason}")
    if answer.get("decision") == "block":
        said.append(f"The host tells the agent:\n\n{answer.get('reason')}")
    if note := answer.get("systemMessage"):
        said.append(f"The host tells you:\n\n{note}")
    return said


def _why(done: Trial, app: App) -> str:
    """Why there is nothing to say."""
    from retain.hooks.trial import NO_FIT

    one: Mapping[str, object] = _described(done.event, app.config)
    if not one["on"]:
        return f"It is switched off: {one['switch']} ({one['origin']})."
    if done.why != NO_FIT:
        return done.why
    return f"{done.why} {_nearest(app, str(done.payload.get('prompt') or ''))}".strip()


def _nearest(app: App, prompt: str) -> str:
    """What comes nearest to a prompt that nothing fits, by its words, and how near that is."""
    from retain.recall.asking import Wanted
    from retain.recall.scoring import ENOUGH

    answer = app.library.search(Wanted(prompt, limit=3, mode="text", lists_all=True))
    if not answer.hits:
        return "None has any of its words."
    shown = ", ".join(f"{hit.title} ({hit.score:.2f})" for hit in answer.hits)
    sure = f"the confidence is {answer.confidence:.2f}, and {ENOUGH:g} is enough"
    return f"The nearest by words: {shown}; {sure}."


_TOOLS: Final = dict(
    zip(
        TOOLS,
        (
            ("how long hooks took and what they injected", _stats_arguments, _stats),
            ("run a hook on a made-up event and show its answer", _test_arguments, _test),
        ),
        strict=True,
    )
)
_MORE: Final = dict(
    zip(
        TOOLS,
        (
            """From the transcripts that Claude Code keeps of this project's sessions. A hook
that says nothing is not noted there, nor is the time of one that blocks, or that injects through
JSON.

  retain hook stats
  retain hook stats --all --since 7d""",
            """The hook runs as a host runs it, in a process of its own. A prompt and a session's
start are answered from your bank; whatever would block, propose or put aside meets an empty copy
with your settings, and nothing of it stays. Events: session-start, user-prompt-submit,
pre-tool-use, post-tool-use, stop, pre-compact, post-compact, session-end.

  retain hook test user-prompt-submit --prompt "which database do we use?"
  retain hook test pre-tool-use --file .retain/decisions/x.md
  retain hook test stop --file ~/.claude/projects/-home-ada-app/SESSION.jsonl""",
        ),
        strict=True,
    )
)

hook_command = Command(
    _arguments,
    run_tool,
    """A host such as Claude Code calls `retain hook EVENT` with JSON on standard input; the plugin
sets that up. Events: session-start, user-prompt-submit, pre-tool-use, post-tool-use, stop,
pre-compact, post-compact, session-end. Any other is answered with nothing. A hook that fails
lets the host go on as if there were none. `retain hook` alone says which are on; each has a
switch of its own.

  retain hook
  retain hook stats
  retain hook test user-prompt-submit --prompt "which database do we use?"
  retain config set hooks.stop false""",
)
