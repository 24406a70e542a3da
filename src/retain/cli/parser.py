"""The commands there are, and the arguments each takes; a command's module is loaded on use."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from retain import __version__
from retain.cli.render import Output
from retain.errors import NotFound, UsageError

if TYPE_CHECKING:
    from retain.app import App

__all__ = [
    "COMMANDS",
    "GROUPS",
    "Command",
    "Parser",
    "add_common",
    "add_tools",
    "build",
    "command_in",
    "open_app",
    "overview",
    "parse",
    "run_tool",
    "same_bank",
]

# Group, then command: the module that has it and what it does in a line. `--help` reads only this.
GROUPS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Chat": {
        "chat": ("chatting", "Talk with a model that remembers."),
        "ask": ("chatting", "Ask one question, and get the answer on standard output."),
        "web": ("webbing", "See, search, edit and chat in the browser."),
    },
    "Memories": {
        "put": ("memories", "Store a memory from a file or standard input."),
        "get": ("memories", "Show a memory, as it is or as it was."),
        "list": ("memories", "List memories, filtered and sorted."),
        "update": ("memories", "Change a memory's text, title, tags or other metadata."),
        "append": ("memories", "Add text to the end of a memory."),
        "edit": ("editing", "Change a memory in your editor."),
        "move": ("memories", "Give a memory another id or collection."),
        "delete": ("memories", "Move a memory to the trash."),
    },
    "Recall": {
        "search": ("recalling", "Find memories by words and by meaning."),
        "brief": ("recalling", "Pack the best hits into a token budget, for a prompt."),
        "linked": ("linking", "Find the memories that link to a document."),
        "related": ("linking", "Find the memories connected with one."),
        "graph": ("linking", "Draw links, backlinks, linked files and dangling links."),
    },
    "Curation": {
        "inbox": ("inbox", "Review the memories that sessions propose."),
        "merge": ("curating", "Put one memory in the place of several."),
        "suggest-merges": ("curating", "Find groups of memories that could be one."),
        "dedupe": ("curating", "Find facts that are stated twice, and what to do about them."),
    },
    "Typed memories": {
        "new": ("lifecycle", "Store a decision, a runbook, a constraint: a memory with fields."),
        "candidate": ("lifecycle", "Say which memory new information belongs to."),
        "retire": ("lifecycle", "Take a memory out of force, restorable for a while."),
        "archive": ("lifecycle", "Put a memory on the shelf, for good."),
        "unarchive": ("lifecycle", "Take a memory off the shelf."),
        "supersede": ("lifecycle", "Say that one memory has taken another's place."),
        "changes": ("lifecycle", "Show what happened to typed memories."),
        "gc": ("lifecycle", "Remove what was retired long ago."),
        "health": ("lifecycle", "Say how the typed memories are."),
        "record": ("record", "Write, match and list records, for programs."),
    },
    "History": {
        "versions": ("past", "List the earlier texts of a memory."),
        "diff": ("past", "Show what changed between two versions."),
        "restore": ("past", "Bring a retired or deleted memory, or an earlier text, back."),
        "trash": ("past", "List or empty the trash."),
    },
    "Chats": {
        "sessions": ("sessions", "List, read, search, export, import and delete chats."),
        "migrate": ("sessions", "Bring a chat workspace of plain files into the bank."),
    },
    "Agents": {
        "install": ("installing", "Make Retain known to the program your agent runs in."),
        "mcp": ("agents", "Serve memory to an agent, over MCP."),
        "hook": ("hooking", "Answer a host's hooks; say how they do, and try one."),
    },
    "Banks": {
        "init": ("banks", "Make a bank for this project."),
        "status": ("banks", "Say which bank is in force, why, and how it is."),
        "collections": ("banks", "List the collections."),
        "config": ("settings", "Read and change settings."),
        "export": ("transfer", "Write the whole bank to a directory or a zip file."),
        "import": ("transfer", "Take over another bank, store or export."),
        "completion": ("completion", "Print a script that completes commands in your shell."),
    },
    "Index": {
        "stats": ("indexing", "Count memories, tags, types, and what the index holds."),
        "sync": ("indexing", "Take in what changed on disk."),
        "index": ("indexing", "Make everything searchable, anew if need be."),
        "watch": ("indexing", "Take in changes as they happen, until you stop it."),
        "serve": ("serving", "Stay, with the model loaded, so that others answer faster."),
        "doctor": ("indexing", "Check the files and the index, and repair the index."),
        "engine": ("engine", "Keep parts of the index on a server, and look after them."),
    },
}
COMMANDS: Final = {name: row for rows in GROUPS.values() for name, row in rows.items()}
_TAKES_VALUE: Final = ("--bank",)
_CHAT_OPTIONS: Final = ("-c", "--continue", "--resume", "--model", "--plain")
# What the same thing is called in other tools.
_ELSEWHERE: Final = {
    "add": "put",
    "backlinks": "linked",
    "cat": "get",
    "check": "doctor",
    "combine": "merge",
    "create": "put",
    "daemon": "serve",
    "duplicates": "dedupe",
    "find": "search",
    "fsck": "doctor",
    "grep": "search",
    "help": "--help",
    "history": "versions",
    "log": "versions",
    "ls": "list",
    "mv": "move",
    "query": "search",
    "recall": "search",
    "reindex": "index",
    "remove": "delete",
    "rename": "move",
    "repair": "doctor",
    "rm": "delete",
    "save": "put",
    "show": "get",
    "similar": "related",
    "store": "put",
    "undo": "restore",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like all the others."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_formatter, allow_abbrev=False, **settings)

    def parse_known_args(self, *args: Any, **settings: Any) -> tuple[Any, list[str]]:
        found, rest = super().parse_known_args(*args, **settings)
        if not hasattr(found, "called"):  # the innermost comes first: `retain record write`
            found.called = self.prog
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` shows how it is called.")


class Command(NamedTuple):
    """One command: its arguments, what it does, and its help with examples."""

    arguments: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], Output]
    help: str


def command_in(argv: Sequence[str]) -> str:
    """The command a call names, empty when it names none."""
    words = iter(argv)
    for word in words:
        if word in _TAKES_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _of_chat(argv: Sequence[str]) -> Sequence[str]:
    """A call that begins with an option of the chat's means the chat, as `retain` alone does."""
    for at, word in enumerate(argv):
        if word.partition("=")[0] in _CHAT_OPTIONS:
            return [*argv[:at], "chat", *argv[at:]]
        if not word.startswith("-") and argv[at - 1 : at] not in [[one] for one in _TAKES_VALUE]:
            break
    return argv


def _formatter(prog: str) -> argparse.HelpFormatter:
    """The layout of help; its width is given because argparse loads shutil to find it."""
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=min(max(width, 40), 102) - 2)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """What a call asks for; only the command it names is loaded."""
    argv = _of_chat(argv)
    name = command_in(argv)
    if name and name not in COMMANDS:
        raise _unknown(name)
    for word in argv:
        if word.startswith("--") and word.endswith("=--"):
            raise UsageError(f"{word} gives no value")  # argparse would take it for an empty list
    found, rest = build([name] if name else []).parse_known_args(argv)
    args: argparse.Namespace = found
    if rest:
        raise UsageError(
            f"`{args.called}` does not take {' '.join(rest)}",
            hint=f"`{args.called} --help` shows how it is called.",
        )
    return args


def build(names: Iterable[str] = COMMANDS) -> Parser:
    """The parser, with these commands' arguments filled in."""
    parser = Parser(prog="retain", add_help=False)
    parser.add_argument("-h", "--help", action=_Overview, nargs=0, help="show this help")
    parser.add_argument("--version", action="version", version=f"retain {__version__}")
    add_common(parser)
    # Given its name, argparse need not lay out a usage line to find it.
    commands = parser.add_subparsers(dest="command", metavar="command", prog="retain")
    for name in names:
        _add(commands, name)
    return parser


def _add(commands: Any, name: str) -> None:
    module, line = COMMANDS[name]
    variable = f"{name.replace('-', '_')}_command"
    command: Command = getattr(importlib.import_module(f"retain.cli.{module}"), variable)
    parser: Parser = commands.add_parser(
        name,
        help=line,
        description=f"{line}\n\n{command.help}",
    )
    command.arguments(parser)
    add_common(parser)
    parser.set_defaults(run=command.run)


def add_common(parser: Parser) -> None:
    """The options every command takes, before or after its name."""
    quiet = argparse.SUPPRESS
    group = parser.add_argument_group("which bank, and how to answer")
    group.add_argument("--bank", metavar="PATH", default=quiet, help="use the bank at PATH")
    group.add_argument(
        "--local", action="store_true", default=quiet, help="use the project's bank only"
    )
    group.add_argument(
        "--global",
        dest="everywhere",
        action="store_true",
        default=quiet,
        help="use your global bank only",
    )
    group.add_argument("--json", action="store_true", default=quiet, help="answer in JSON")
    group.add_argument(
        "--quiet", action="store_true", default=quiet, help="no messages, only the bare result"
    )


def add_tools(
    parser: Parser,
    tools: Mapping[str, tuple[str, Callable[[Any], None], Callable[[argparse.Namespace], Output]]],
    more: Mapping[str, str] | None = None,
) -> None:
    """The words a command parts into: about each, its arguments and what it does.

    Without a word the parser's own `tool_run` is done, if it has one. `more` is help at length.
    """
    names = "|".join(tools)
    is_needed = parser.get_default("tool_run") is None
    added = parser.add_subparsers(dest="tool", metavar=names, required=is_needed)
    for name, (about, arguments, run) in tools.items():
        described = f"{about}\n\n{more[name]}" if more else about
        tool = added.add_parser(name, help=about, description=described)
        arguments(tool)
        add_common(tool)
        tool.set_defaults(tool_run=run)


def run_tool(args: argparse.Namespace) -> Output:
    """What a command does that parts into words."""
    run: Callable[[argparse.Namespace], Output] = args.tool_run
    return run(args)


def _unknown(name: str) -> UsageError:
    import difflib

    near = [_ELSEWHERE[name]] if name in _ELSEWHERE else []
    near = near or difflib.get_close_matches(name, COMMANDS, 1, 0.5)
    guess = f"Did you mean `retain {near[0]}`? " if near else ""
    return UsageError(f"there is no command {name!r}", hint=f"{guess}`retain --help` lists them.")


class _Overview(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        sys.stdout.write(overview())
        parser.exit()


def overview() -> str:
    """What `retain --help` prints: the commands in groups, without loading any."""
    lines = [
        "usage: retain COMMAND [options]",
        "",
        "Memory for AI agents and the people who work with them: Markdown files",
        "you can read, edit, diff and commit.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<14} {line}" for name, (_, line) in commands.items()]
    lines += [
        "",
        "Every command takes:",
        "  --bank PATH    use the bank at PATH (or set RETAIN_BANK)",
        "  --local        use the project's bank only: the nearest .retain/ upwards",
        "  --global       use your own bank only: ~/.retain (or set RETAIN_HOME)",
        "  --json         answer in JSON, on standard output alone",
        "  --quiet        no messages, only the bare result",
        "  --help         how that command is called, with examples",
        "",
        "Start here:",
        "  retain                                 talk; retain -c goes on with the last talk",
        "  retain init                            make a bank in this project",
        "  echo '# Title ...' | retain put -      store a memory",
        "  retain list                            see what there is",
        '  retain search "what I look for"        find it again',
        "",
    ]
    return "\n".join(lines)


def open_app(args: argparse.Namespace, *, stays: bool = False) -> App:
    """The app for the place a call asks for."""
    from retain.app import App

    bank = getattr(args, "bank", None)
    if bank == "":
        raise UsageError("--bank needs a path")
    try:
        cwd = os.getcwd()
    except FileNotFoundError as error:
        raise NotFound(
            "the directory you are in no longer exists", hint="Go to one that does: cd ~"
        ) from error
    app = App(
        bank=bank or "",
        local=getattr(args, "local", False),
        everywhere=getattr(args, "everywhere", False),
        cwd=cwd,
        env=os.environ,
        stays=stays,
    )
    args.close = app.close
    return app


def same_bank(args: argparse.Namespace) -> str:
    """The options that lead the next command to the same bank."""
    if getattr(args, "everywhere", False):
        return " --global"
    import shlex

    return f" --bank {shlex.quote(args.bank)}" if hasattr(args, "bank") else ""
