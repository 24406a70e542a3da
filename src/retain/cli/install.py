"""install, completion: Retain in the configuration of an agent's host, and in a shell."""

from __future__ import annotations

import os
import re
import shutil
import sys
from urllib.parse import urlsplit

from retain.cli.command import (
    Args,
    Output,
    arg,
    argument_group,
    command,
    confirm,
    either,
    flag,
    wants_colour,
)
from retain.cli.render import Table, colour_diff
from retain.errors import Conflict, RetainError, UsageError
from retain.hosts.install import Plan, apply, find_plugin, option_value, parse_command, plan
from retain.hosts.registry import HOSTS, Host, Server, find_host
from retain.text.sanitize import visible

_NO_TOKEN = "Put the token in a variable, and name that with --token-env."  # noqa: S105
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@command(
    "install",
    arg(
        "host",
        "the program your agent runs in; none: list them, and which are on this machine",
        nargs="?",
        choices=tuple(HOSTS),
    ),
    flag("--dry-run", "show the change, write nothing"),
    flag("--uninstall", "take the entry out again"),
    "--yes",
    flag("--force", "also beside the plugin, which has a server already"),
    arg(
        "--tools",
        "which the agent gets (all); core: those that matter most",
        choices=("core", "all"),
    ),
    either(
        flag("--user", "in your own configuration, for all projects (default)"),
        flag("--project", "in this project's, which others get with the repository"),
    ),
    argument_group(
        "a server that runs already",
        arg("--http URL", "its address, instead of a command to start"),
        arg("--token-env NAME", "the variable that holds its token, never the token"),
    ),
)
def _install(args: Args) -> Output:
    """Add Retain to the program your agent runs in.

    Writes one entry, `retain`, into the configuration of the program your agent runs in, so
    that it starts `retain mcp`. The change is shown first and, at a terminal, you are asked.
    Everything else in the file stays; the file as it was is kept beside it, as
    FILE.retain-backup, or, of a project's file, in your own bank. A file that cannot be read, or
    JSON with comments, is left alone, and you are told what to paste. Twice does no harm: the
    second time there is nothing to do, and options that the entry has stay until others are given.

      retain install                             # the hosts, and which are on this machine
      retain install claude-code                 # for you, in every project
      retain install cursor --project            # .cursor/mcp.json, for everyone in this project
      retain install codex --dry-run             # only show what would change
      retain install gemini --bank ~/notes       # always that bank, wherever the agent works
      retain install cursor --tools core         # only the tools that matter most
      retain install opencode --http http://127.0.0.1:7878/mcp --token-env RETAIN_TOKEN
      retain install claude-code --uninstall     # take it out again

    Without --bank the server finds the bank as every command does: the project's, then yours.
    """
    if args.host is None:
        return _list_hosts(args)
    host = HOSTS[args.host]
    server = None if args.uninstall else _make_server(args)
    plugin = find_plugin(os.environ) if args.host == "claude-code" else ""
    if server and plugin and not args.force:  # an agent would have every tool twice
        raise Conflict(
            f"Claude Code has the plugin {plugin}, which brings the server already",
            unchanged="Nothing was changed.",
            hint=f"`claude plugin uninstall {plugin}` takes it out; --force installs both.",
        )
    scope = "project" if args.project else "user"
    planned = plan(args.host, scope, os.environ, server, cwd=os.getcwd())
    if planned.is_done:
        status = "unchanged"
    elif planned.entry is None:
        status = "removed"
    else:
        status = "updated" if planned.had_entry else "installed"
    diff = _redact(planned.diff)
    asks = not (planned.is_done or args.dry_run or args.yes) and sys.stdin.isatty()
    if asks:
        _confirm(planned, diff)
    if not args.dry_run:
        apply(planned)
    backup = "" if args.dry_run else planned.backup
    warnings = _warnings(args, planned, server)
    text = "" if asks else diff
    if not args.dry_run or planned.is_done:
        text += _report(host, planned, status, backup)
    return Output(
        {
            "status": status,
            "dry_run": args.dry_run,
            "host": args.host,
            "scope": scope,
            "file": planned.path,
            "backup": backup or None,
            "entry": planned.masked_entry,
            "diff": diff,
            "warnings": warnings,
        },
        text,
        quiet="",
        messages=["Nothing was written: this was a dry run."] if args.dry_run else [],
        warnings=warnings,
        paint=None if asks else _paint,
    )


def _list_hosts(args: Args) -> Output:
    """The hosts there are, for who named none."""
    if args.uninstall or args.yes or args.http is not None or args.tools is not None:
        raise UsageError(
            "a host is missing",
            unchanged="Nothing was changed.",
            hint=f"One of {', '.join(HOSTS)}.",
        )
    data, rows = [], []
    for name, host in HOSTS.items():
        path, has_retain = find_host(host, os.environ), _has_retain(name)
        data.append({"host": name, "title": host.title, "found": path, "has_retain": has_retain})
        rows.append((name, host.title, path or "not found", "installed" if has_retain else ""))
    return Output(
        data,
        table=Table(("Host", "Program", "On this machine", "Retain"), rows),
        quiet=[name for name, _, where, _ in rows if where != "not found"],
        messages=["`retain install HOST` shows the change before it writes anything."],
    )


def _has_retain(name: str) -> bool:
    """Whether a host's own configuration, or its plugin, has Retain."""
    if name == "claude-code" and find_plugin(os.environ):
        return True
    try:
        return plan(name, "user", os.environ, None, cwd=os.getcwd()).had_entry
    except RetainError:  # a file that nobody can read is spoken of when it is to be changed
        return False


def _make_server(args: Args) -> Server:
    """What the host is to start or to call."""
    if args.http is None:
        if args.token_env is not None:
            raise UsageError("--token-env goes with --http: a command needs no token")
        bank: tuple[str, ...] = ()
        if args.bank is not None:
            bank = ("--bank", os.path.abspath(os.path.expanduser(args.bank)))
        elif args.names_bank:
            bank = ("--global",) if args.everywhere else ("--local",)
        command = (*_find_executable(HOSTS[args.host]), "mcp")
        return Server(command, bank=bank, tools=args.tools or "")
    if args.tools is not None:
        raise UsageError(
            "a server at an address offers its tools already",
            hint="Give --tools to the `retain mcp --http` that runs there.",
        )
    if args.names_bank:
        raise UsageError(
            "a server at an address has its bank already",
            hint="Leave --bank, --local and --global out, or --http.",
        )
    _check_address(args.http)
    if args.token_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", args.token_env):
        # What was typed may be the token itself, so it is not repeated.
        raise UsageError("--token-env takes the name of a variable", hint=_NO_TOKEN)
    return Server(url=args.http, token_env=args.token_env or "")


def _check_address(text: str) -> None:
    try:
        parts = urlsplit(text)
        is_fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_fine = False
    if not is_fine or not text.isprintable() or " " in text:
        raise UsageError(f"{text!r} is not an address", hint="Write http://127.0.0.1:7878/mcp.")
    if parts.username is not None or parts.password is not None:
        raise UsageError("an address with a password in it would stay in the file", hint=_NO_TOKEN)


def _find_executable(host: Host) -> tuple[str, ...]:
    """This very command: by name where every shell finds it so, else by its path."""
    path = os.path.abspath(sys.argv[0])
    if os.path.basename(path) != "retain" or not os.access(path, os.X_OK):
        path = os.path.join(os.path.dirname(sys.executable), "retain")
    if not os.path.isfile(path):
        return (sys.executable, "-P", "-m", "retain")  # no module of a project's in our place
    is_on_path = shutil.which("retain") == path
    # An environment that is active in this shell is not in the one the host is started from.
    homes = (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"))
    is_passing = os.path.dirname(os.path.dirname(path)) in homes
    return ("retain",) if is_on_path and not is_passing and not host.own_path else (path,)


def _redact(diff: str) -> str:
    """A diff without the secrets that other entries of the file may have beside ours."""
    from retain.text.secrets import redact

    return redact(diff).text if diff else ""


def _paint(text: str) -> str:
    """Colours for the diff, which is all that comes before the empty line."""
    diff, gap, rest = text.rpartition("\n\n")
    return f"{colour_diff(diff)}{gap}{rest}" if gap else colour_diff(text)


def _confirm(planned: Plan, diff: str) -> None:
    """Show the change and ask; the answer is the person's, the file as well."""
    text = visible(diff)
    print(colour_diff(text) if wants_colour(sys.stderr) else text, file=sys.stderr)
    confirm(f"Write this to {planned.path}?", "", "Nothing was changed.")


def _report(host: Host, planned: Plan, status: str, backup: str) -> str:
    """What was done, in words."""
    if status == "unchanged":
        state = "does not know retain" if planned.entry is None else "knows retain already"
        return f"Nothing to do: {host.title} {state}.\nFile: {planned.path}\n"
    verbs = {
        "installed": "knows retain now",
        "updated": "has the new entry",
        "removed": "no longer knows retain",
    }
    lines = ["", f"{host.title} {verbs[status]}."]
    lines.append(f"File: {planned.path}{' (removed)' if planned.after is None else ''}")
    if backup:
        lines.append(f"Before: {backup}")
    if planned.entry is not None:
        lines.append(host.check)
    return "\n".join([*lines, ""])


def _warnings(args: Args, planned: Plan, server: Server | None) -> list[str]:
    warnings = []
    if server and args.project and os.path.isabs("".join(server.command[:1])):
        warnings.append(
            f"{server.command[0]} is a path of this machine; others who use the project need "
            "`retain` on their PATH and that name as the command"
        )
    bank = option_value(parse_command(planned.entry or {}), "--bank")
    if args.project and os.path.isabs(bank):
        warnings.append(
            f"{bank} is a path of this machine; others who use the project have no bank there: "
            "without --bank, or with --local, the server finds the project's own"
        )
    if server and server.token_env:
        url = urlsplit(server.url)
        if url.scheme == "http" and url.hostname not in _LOOPBACK:
            warnings.append(f"the token goes to {url.hostname} unencrypted; https would hide it")
    return warnings


@command("completion", arg("shell", choices=("bash", "zsh", "fish")))
def _completion(shell: str) -> Output:
    """Print a script that completes commands in your shell.

    Put one of these where your shell reads it at start:

      eval "$(retain completion bash)"                                   # ~/.bashrc
      eval "$(retain completion zsh)"                                    # ~/.zshrc, after compinit
      retain completion fish > ~/.config/fish/completions/retain.fish
    """
    from argcomplete.shell_integration import shellcode

    script = shellcode(["retain"], True, shell)
    return Output({"shell": shell, "script": script}, raw=script.encode())
