"""hook: which of a host's hooks are on here, and one of them tried.

A host's own call, `retain hook EVENT`, never gets here: it is answered before this is loaded.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from retain.cli.command import Args, Output, arg, command
from retain.cli.memories import read_text
from retain.cli.render import Table
from retain.errors import NotFound, UsageError
from retain.hooks import EVENTS, MAX_BYTES, find_off_switch

if TYPE_CHECKING:
    from retain.app import App
    from retain.hooks.trial import Trial

_MAX_PAYLOAD: Final = 300  # characters that are shown
_BLOCKED: Final = 2
_NO_PLUGIN: Final = (
    "Claude Code has no plugin of Retain's installed: without --plugin-dir, no hook runs there."
)


@command("hook")
def _list(app: App) -> Output:
    """Answer a host's hooks; say which are on, and try one.

    A host such as Claude Code calls `retain hook EVENT` with JSON on standard input; the plugin
    sets that up. Events: session-start, user-prompt-submit, pre-tool-use, post-tool-use, stop,
    pre-compact, post-compact, session-end. Any other is answered with nothing. A hook that fails
    lets the host go on as if there were none. `retain hook` alone says which are on; each has a
    switch of its own.

      retain hook
      retain hook test user-prompt-submit --prompt "which database do we use?"
      retain config set hooks.stop false
    """
    from retain.config import SETTINGS
    from retain.hosts.install import find_plugin

    hooks, rows = [], []
    switched_off: dict[str, None] = {}  # a path in a cell would leave no room for what a hook does
    for event, host_event in EVENTS.items():
        own, off = f"hooks.{event.replace('-', '_')}", find_off_switch(event, app.config)
        origin, about = app.config.value(off or own).origin, SETTINGS[own].about
        hook = {"event": event, "host_event": host_event, "on": not off, "switch": off or own}
        hooks.append({**hook, "origin": origin, "about": about})
        rows.append((event, f"off: {off}" if off else "on", about))
        if off:
            switched_off[f"{off} is off: {origin}"] = None
    bank = f"Bank: {app.location.root} ({app.location.scope})"
    if not app.location.exists:
        bank = "There is no bank here: `retain init` makes one, and hooks say nothing until then."
    plugin = find_plugin(os.environ)
    host = f"Claude Code has the plugin {plugin}." if plugin else _NO_PLUGIN
    return Output(
        hooks,
        table=Table(("Event", "State", "What it does"), rows),
        quiet=[event for event, state, _ in rows if state == "on"],
        messages=[*switched_off, bank, host],
        warnings=app.config.warnings,
    )


@command(
    "hook test",
    arg("event EVENT", "which hook", choices=tuple(EVENTS)),
    arg("--prompt TEXT", "with user-prompt-submit: what is asked"),
    arg("--file PATH", "the file that a tool writes, or the transcript to look at", default=""),
    arg("--payload FILE", "JSON that replaces parts of the made-up payload"),
)
def _test(app: App, args: Args) -> Output:
    """
    Run a hook on a made-up event and show its answer.

    The code that answers a host answers here, from your bank. Nothing stays: what it would
    propose goes to an inbox that is gone afterwards, and no file is put aside. Events:
    session-start, user-prompt-submit, pre-tool-use, post-tool-use, stop, pre-compact,
    post-compact, session-end.

      retain hook test user-prompt-submit --prompt "which database do we use?"
      retain hook test pre-tool-use --file .retain/decisions/x.md
      retain hook test stop --file ~/.claude/projects/-home-ada-app/SESSION.jsonl
    """
    from retain.hooks.trial import run_trial

    env = {**os.environ, "RETAIN_BANK": app.location.root} if args.names_bank else os.environ
    trial = run_trial(args.event, app.location, env, _payload(args, app), args.file)
    answer = trial.answer
    explained = "\n\n".join(_explain(trial))
    says = explained or f"Nothing: the host goes on. {answer.reason}".strip()
    data = {
        "event": args.event,
        "host_event": EVENTS[args.event],
        "payload": trial.payload,
        "exit_code": answer.code,
        "milliseconds": round(trial.milliseconds, 1),
        "stdout": answer.out,
        "stderr": answer.err,
        "says": says,
        "reason": answer.reason or None,
        "proposals": [
            {"category": it.category, "title": it.title, "score": it.score}
            for it in trial.proposals
        ],
    }
    shown = json.dumps(trial.payload, ensure_ascii=False)
    shown = shown if len(shown) <= _MAX_PAYLOAD else f"{shown[:_MAX_PAYLOAD]} ..."
    text = [
        f"Event:    {args.event} ({EVENTS[args.event]})",
        f"Payload:  {shown}",
        f"Exit:     {answer.code}",
        f"Took:     {trial.milliseconds:.0f} ms, not counting process start",
        *([f"Reason:   {answer.reason}"] if explained and answer.reason else []),
        f"\n{says}",
    ]
    return Output(data, text, quiet=[says])


def _payload(args: Args, app: App) -> dict[str, object]:
    """What a person wants the payload to say."""
    payload: dict[str, object] = {}
    if args.payload:
        try:
            payload = {**json.loads(read_text(args.payload, MAX_BYTES, "a payload"))}
        except (ValueError, TypeError, RecursionError) as error:
            hint = "--payload takes a file with a JSON object; what it lacks is made up."
            raise UsageError(f"{args.payload} holds no JSON object", hint=hint) from error
    if args.prompt is not None:
        if args.event != "user-prompt-submit":
            raise UsageError(f"--prompt belongs to user-prompt-submit, not to {args.event}")
        payload["prompt"] = args.prompt
    elif args.event == "user-prompt-submit" and "prompt" not in payload and app.location.exists:
        newest = next(iter(app.list(sort="updated", reverse=True)), None)
        if newest:  # a question that the bank has an answer to
            payload["prompt"] = f"What do we know about this: {newest.title}?"
    if args.file:
        if args.event in ("session-start", "user-prompt-submit"):
            raise UsageError(f"--file says nothing to {args.event}")
        if args.event != "pre-tool-use" and not os.path.isfile(args.file):
            hint = "--file takes the path of a file that is there."
            raise NotFound(f"there is no file {args.file}", hint=hint)
    return payload


def _explain(trial: Trial) -> list[str]:
    """What the host makes of a hook's answer, in words."""
    answer = json.loads(trial.answer.out or "{}")
    special = answer.get("hookSpecificOutput", {})
    errors = trial.answer.err.strip()
    is_blocked = trial.answer.code == _BLOCKED
    says: dict[str, Any] = {
        "The host puts this before the model": special.get("additionalContext"),
        "The host refuses the tool's call and tells the agent": special.get(
            "permissionDecisionReason"
        ),
        "The host tells the agent": answer.get("reason"),
        "The host tells you": answer.get("systemMessage"),
        "The host keeps the agent at work and tells it": errors if is_blocked else "",
    }
    parts = [f"{what}:\n\n{text}" for what, text in says.items() if text]
    if trial.proposals:
        where = "It would wait in the inbox:"
        titles = (f"  [{proposal.category}] {proposal.title}" for proposal in trial.proposals)
        parts.append("\n".join([where, *titles]))
    if errors and not is_blocked:
        parts.append(f"Standard error:\n\n{errors}")
    return parts
