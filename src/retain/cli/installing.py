"""install: Retain in the configuration of an agent's host."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from urllib.parse import urlsplit

from retain.cli.parser import Command, Parser
from retain.cli.render import Output, Table, coloured, wants_colour
from retain.errors import Conflict, RetainError, UsageError
from retain.guard.characters import visible
from retain.hosts import HOSTS, Host, Plan, Server, apply, argv, found, plan, plugin, value_of

__all__ = ["install_command"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = ", ".join(HOSTS)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "host",
        nargs="?",
        choices=tuple(HOSTS),
        help="the program your agent runs in; none: list them, and which are on this machine",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
    parser.add_argument("--uninstall", action="store_true", help="take the entry out again")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--force", action="store_true", help="also beside the plugin, which has a server already"
    )
    parser.add_argument(
        "--tools",
        choices=("core", "all"),
        help="which the agent gets (all); core: those that matter most",
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--user",
        dest="scope",
        action="store_const",
        const="user",
        default="user",
        help="in your own configuration, for all projects (default)",
    )
    scope.add_argument(
        "--project",
        dest="scope",
        action="store_const",
        const="project",
        help="in this project's, which others get with the repository",
    )
    remote = parser.add_argument_group("a server that runs already")
    remote.add_argument("--http", metavar="URL", help="its address, instead of a command to start")
    remote.add_argument(
        "--token-env", metavar="NAME", help="the variable that holds its token, never the token"
    )


def _listed(args: argparse.Namespace) -> Output:
    """The hosts there are, for who named none."""
    if args.uninstall or args.yes or args.http is not None or args.tools is not None:
        raise UsageError(
            "a host is missing", unchanged="Nothing was changed.", hint=f"One of {_NAMES}."
        )
    data = [
        {
            "host": name,
            "title": host.title,
            "found": found(host, os.environ),
            "has_retain": _has(name),
        }
        for name, host in HOSTS.items()
    ]
    rows = [
        (
            str(one["host"]),
            str(one["title"]),
            str(one["found"]) or "not found",
            "installed" if one["has_retain"] else "",
        )
        for one in data
    ]
    return Output(
        data,
        table=Table(("Host", "Program", "On this machine", "Retain"), rows),
        quiet="".join(f"{one['host']}\n" for one in data if one["found"]),
        messages=["`retain install HOST` shows the change before it writes anything."],
    )


def _has(name: str) -> bool:
    """Whether a host's own configuration, or its plugin, has Retain."""
    if name == "claude-code" and plugin(os.environ):
        return True
    try:
        return plan(name, "user", os.environ, None, cwd=os.getcwd()).had
    except RetainError:  # a file that nobody can read is spoken of when it is to be changed
        return False


def _install(args: argparse.Namespace) -> Output:
    if args.host is None:
        return _listed(args)
    server = None if args.uninstall else _server(args)
    if server and not args.force:
        _refuse_twice(args.host)
    planned = plan(args.host, args.scope, os.environ, server, cwd=os.getcwd())
    status = _status(planned)
    diff = _shown(planned.diff)
    asks = not (planned.is_done or args.dry_run or args.yes) and sys.stdin.isatty()
    if asks:
        _confirm(planned, diff)
    if not args.dry_run:
        apply(planned)
    backup = "" if args.dry_run else planned.backup
    data = {
        "status": status,
        "dry_run": args.dry_run,
        "host": args.host,
        "scope": args.scope,
        "file": planned.path,
        "backup": backup or None,
        "entry": planned.shown,
        "diff": diff,
        "warnings": (warnings := _warnings(args, planned, server)),
    }
    text = "" if asks else diff
    if not args.dry_run or planned.is_done:
        text += _told(HOSTS[args.host], planned, status, backup)
    messages = ["Nothing was written: this was a dry run."] if args.dry_run else []
    return Output(
        data, text, quiet="", messages=messages, warnings=warnings, paint=None if asks else _paint
    )


def _refuse_twice(host: str) -> None:
    """Refuse a server beside that of the plugin: an agent would have every tool twice."""
    has = plugin(os.environ) if host == "claude-code" else ""
    if has:
        raise Conflict(
            f"Claude Code has the plugin {has}, which brings the server already",
            unchanged="Nothing was changed.",
            hint=f"`claude plugin uninstall {has}` takes it out; --force installs both.",
        )


def _server(args: argparse.Namespace) -> Server:
    """What the host is to start or to call."""
    if args.http is None:
        if args.token_env is not None:
            raise UsageError("--token-env goes with --http: a command needs no token")
        command = (*_executable(HOSTS[args.host]), "mcp")
        return Server(command, bank=_bank(args), tools=args.tools or "")
    if args.tools is not None:
        raise UsageError(
            "a server at an address offers its tools already",
            hint="Give --tools to the `retain mcp --http` that runs there.",
        )
    if hasattr(args, "bank") or hasattr(args, "local") or hasattr(args, "everywhere"):
        raise UsageError(
            "a server at an address has its bank already",
            hint="Leave --bank, --local and --global out, or --http.",
        )
    return Server(url=_address(args.http), token_env=_variable(args.token_env))


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_fine = False
    if not is_fine or not text.isprintable() or " " in text:
        raise UsageError(f"{text!r} is not an address", hint="Write http://127.0.0.1:7878/mcp.")
    if parts.username is not None or parts.password is not None:
        raise UsageError("an address with a password in it would stay in the file", hint=_NO_TOKEN)
    return text


_NO_TOKEN = "Put the token in a variable, and name that with --token-env."  # noqa: S105


def _variable(name: str | None) -> str:
    if name is not None and not _VARIABLE.fullmatch(name):
        # What was typed may be the token itself, so it is not repeated.
        raise UsageError("--token-env takes the name of a variable", hint=_NO_TOKEN)
    return name or ""


def _executable(host: Host) -> tuple[str, ...]:
    """This very command: by name where every shell finds it so, else by its path."""
    given = os.path.abspath(sys.argv[0])
    if os.path.basename(given) != "retain" or not os.access(given, os.X_OK):
        given = os.path.join(os.path.dirname(sys.executable), "retain")
    if not os.path.isfile(given):
        return (sys.executable, "-P", "-m", "retain")  # no module of a project's in our place
    is_found = shutil.which("retain") == given
    # An environment that is active in this shell is not in the one the host is started from.
    homes = (os.environ.get("VIRTUAL_ENV"), os.environ.get("CONDA_PREFIX"))
    is_passing = os.path.dirname(os.path.dirname(given)) in homes
    return ("retain",) if is_found and not is_passing and not host.own_path else (given,)


def _bank(args: argparse.Namespace) -> tuple[str, ...]:
    """The options that lead the server to the bank this call names."""
    if hasattr(args, "bank"):
        if not args.bank:
            raise UsageError("--bank needs a path")
        return ("--bank", os.path.abspath(os.path.expanduser(args.bank)))
    if getattr(args, "everywhere", False):
        return ("--global",)
    return ("--local",) if getattr(args, "local", False) else ()


def _status(planned: Plan) -> str:
    if planned.is_done:
        return "unchanged"
    if planned.entry is None:
        return "removed"
    return "updated" if planned.had else "installed"


def _shown(diff: str) -> str:
    """A diff without the secrets that other entries of the file may have beside ours."""
    from retain.guard.secrets import redact

    return redact(diff).text if diff else ""


def _paint(text: str) -> str:
    """Colours for the diff, which is all that comes before the empty line."""
    diff, gap, rest = text.rpartition("\n\n")
    return f"{coloured(diff)}{gap}{rest}" if gap else coloured(text)


def _confirm(planned: Plan, diff: str) -> None:
    """Show the change and ask; the answer is the person's, the file as well."""
    shown = visible(diff)
    print(coloured(shown) if wants_colour(sys.stderr) else shown, file=sys.stderr)
    question = f"Write this to {visible(planned.path)}? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed", unchanged="Nothing was changed.")


def _told(host: Host, planned: Plan, status: str, backup: str) -> str:
    """What was done, in words."""
    if status == "unchanged":
        known = "does not know retain" if planned.entry is None else "knows retain already"
        return f"Nothing to do: {host.title} {known}.\nFile: {planned.path}\n"
    verb = {"installed": "knows retain now", "updated": "has the new entry"}
    lines = ["", f"{host.title} {verb.get(status, 'no longer knows retain')}."]
    lines.append(f"File: {planned.path}{' (removed)' if planned.after is None else ''}")
    if backup:
        lines.append(f"Before: {backup}")
    if planned.entry is not None:
        lines.append(host.check)
    return "\n".join([*lines, ""])


def _warnings(args: argparse.Namespace, planned: Plan, server: Server | None) -> list[str]:
    warnings = []
    if server and args.scope == "project" and os.path.isabs("".join(server.command[:1])):
        warnings.append(
            f"{server.command[0]} is a path of this machine; others who use the project need "
            "`retain` on their PATH and that name as the command"
        )
    bank = value_of(argv(planned.entry or {}), "--bank")
    if args.scope == "project" and os.path.isabs(bank):
        warnings.append(
            f"{bank} is a path of this machine; others who use the project have no bank there: "
            "without --bank, or with --local, the server finds the project's own"
        )
    parts = urlsplit(server.url) if server else urlsplit("")
    if parts.scheme == "http" and server and server.token_env and parts.hostname not in _LOOPBACK:
        warnings.append(f"the token goes to {parts.hostname} unencrypted; https would hide it")
    return warnings


install_command = Command(
    _arguments,
    _install,
    """Writes one entry, `retain`, into the configuration of the program your agent runs in, so
that it starts `retain mcp`. The change is shown first and, at a terminal, you are asked.
Comments, order and formatting of the file stay; the file as it was is kept beside it, as
FILE.retain-backup, or, of a project's file, in your own bank. A file that cannot be read is
left alone, and you are told what to paste. Twice does no harm: the second time there is
nothing to do, and options that the entry has stay until others are given.

  retain install                             # the hosts, and which are on this machine
  retain install claude-code                 # for you, in every project
  retain install cursor --project            # .cursor/mcp.json, for everyone in this project
  retain install codex --dry-run             # only show what would change
  retain install gemini --bank ~/notes       # always that bank, wherever the agent works
  retain install cursor --tools core         # only the tools that matter most
  retain install opencode --http http://127.0.0.1:7878/mcp --token-env RETAIN_TOKEN
  retain install claude-code --uninstall     # take it out again

Without --bank the server finds the bank as every command does: the project's, then yours.""",
)
