"""The commands there are, and the way of a call to the one that it names.

The module that declares a command is loaded when the command runs.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Iterable, Sequence

from retain import __version__
from retain.cli.arguments import COMMON
from retain.cli.command import DECLARED, Args, Parser, execute, report
from retain.errors import RetainError, UsageError

# Group, then command: the module that has it and what it does in a line. `--help` reads only this.
GROUPS = {
    "Chat": {
        "chat": ("chat", "Talk with a model that remembers."),
        "ask": ("chat", "Ask one question, and get the answer on standard output."),
        "web": ("server", "See, search, edit and chat in the browser."),
    },
    "Memories": {
        "put": ("memories", "Store a memory: a text, a file or standard input."),
        "get": ("memories", "Show a memory, as it is or as it was."),
        "list": ("memories", "List memories, filtered and sorted."),
        "update": ("memories", "Change a memory's text, title, tags or other metadata."),
        "append": ("memories", "Add text to the end of a memory."),
        "edit": ("edit", "Change a memory in your editor."),
        "move": ("memories", "Give a memory another id or collection."),
        "delete": ("memories", "Move a memory to the trash."),
    },
    "Recall": {
        "search": ("search", "Find memories by words and by meaning."),
        "brief": ("search", "Pack the best hits into a token budget, for a prompt."),
        "linked": ("search", "Find the memories that link to a document."),
        "related": ("search", "Find the memories connected with one."),
        "graph": ("search", "Draw links, backlinks, linked files and dangling links."),
    },
    "Curation": {
        "inbox": ("inbox", "Review the memories that sessions propose."),
        "merge": ("merge", "Put one memory in the place of several."),
        "suggest-merges": ("merge", "Find groups of memories that could be one."),
        "dedupe": ("merge", "Find facts that are stated twice, and what to do about them."),
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
        "versions": ("history", "List the earlier texts of a memory."),
        "diff": ("history", "Show what changed between two versions."),
        "restore": ("history", "Bring a retired or deleted memory, or an earlier text, back."),
        "trash": ("history", "List or empty the trash."),
    },
    "Chats": {
        "sessions": ("chat", "List, read, search, export, import and delete chats."),
        "migrate": ("chat", "Bring a chat workspace of plain files into the bank."),
    },
    "Agents": {
        "install": ("install", "Make Retain known to the program your agent runs in."),
        "mcp": ("server", "Serve memory to an agent, over MCP."),
        "hook": ("hook", "Answer a host's hooks; say which are on, and try one."),
    },
    "Banks": {
        "init": ("banks", "Make a bank for this project."),
        "status": ("banks", "Say which bank is in force, why, and how it is."),
        "collections": ("banks", "List the collections."),
        "config": ("config", "Read and change settings."),
        "export": ("banks", "Write the whole bank to a directory or a zip file."),
        "import": ("banks", "Take over another bank, store or export."),
        "completion": ("completion", "Print a script that completes commands in your shell."),
    },
    "Index": {
        "stats": ("banks", "Count memories, tags, types, and what the index holds."),
        "sync": ("banks", "Take in what changed on disk."),
        "index": ("banks", "Make everything searchable, anew if need be."),
        "watch": ("server", "Take in changes as they happen, until you stop it."),
        "serve": ("server", "Stay, with the model loaded, so that others answer faster."),
        "doctor": ("banks", "Check the files and the index, and repair the index."),
        "engine": ("engine", "Keep parts of the index on a server, and look after them."),
    },
}
COMMANDS = {name: row for rows in GROUPS.values() for name, row in rows.items()}
_CHAT_OPTIONS = ("-c", "--continue", "--resume", "--model", "--plain")
# What other tools call the same thing.
_SYNONYMS = {
    "--help": "help",
    "dedupe": "duplicates",
    "delete": "remove rm",
    "doctor": "check fsck repair",
    "get": "cat show",
    "index": "reindex",
    "linked": "backlinks",
    "list": "ls",
    "merge": "combine",
    "move": "mv rename",
    "put": "add create save store",
    "related": "similar",
    "restore": "undo",
    "search": "find grep query recall",
    "serve": "daemon",
    "versions": "history log",
}


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    # Also of a call that does not parse.
    as_json = "--json" in argv or "--format=json" in argv
    as_json = as_json or ("--format", "json") in itertools.pairwise(argv)
    try:
        args = parse(argv)
        if args.run is None and sys.stdin.isatty() and sys.stdout.isatty() and not args.json:
            args = parse([*argv, "chat"])
        if args.run is None:
            sys.stdout.write(overview())
            return 0
        return execute(args)
    except RetainError as error:
        report(error, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nretain: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        report(RetainError(f"{where}{error.strerror or error}"), as_json=as_json)
        return 1


def parse(argv: Sequence[str]) -> Args:
    """Parse a call; only the command that it names is loaded."""
    at = command_position(argv)
    if any(word.partition("=")[0] in _CHAT_OPTIONS for word in argv[:at]):
        argv = ["chat", *argv]  # an option of the chat's means the chat, as `retain` alone does
        at = 0
    if argv[at : at + 1] == ["help"]:  # as many tools have it
        argv = [*argv[:at], *argv[at + 1 :], "--help"]
    name = argv[at] if at < len(argv) and argv[at] != "--help" else ""
    if name and name not in COMMANDS:
        raise _unknown_command(name)
    for word in argv:
        if word.startswith("--") and word.endswith("=--"):
            raise UsageError(f"{word} gives no value")  # argparse would take it for an empty list
    args = Args()
    _, rest = build([name] if name else []).parse_known_args(argv, args)
    if "words" in args and not any(word.startswith("-") for word in rest):
        args.words += rest  # argparse takes no more of them after an option
        rest = []
    if rest:
        raise UsageError(
            f"`{args.called}` does not take {' '.join(rest)}",
            hint=f"`{args.called} --help` shows how it is called.",
        )
    return args


def command_position(argv: Sequence[str]) -> int:
    """The index of the command in a call, behind options that stand before it."""
    words = iter(enumerate(argv))
    for at, word in words:
        if word == "--bank":
            next(words, None)
        elif not word.startswith("-"):
            return at
    return len(argv)


def build(names: Iterable[str] = COMMANDS) -> Parser:
    """Build the parser, with the arguments of these commands filled in."""
    parser = Parser(prog="retain", add_help=False)
    parser.add_argument("-h", "--help", action="version", version=overview())
    parser.add_argument("--version", action="version", version=f"retain {__version__}")
    COMMON(parser)
    # Given its name, argparse need not lay out a usage line to find it.
    choices = parser.add_subparsers(dest="command", metavar="command", prog="retain")
    for name in names:
        module, line = COMMANDS[name]
        importlib.import_module(f"retain.cli.{module}")
        command = DECLARED[name]
        description = f"{line}\n\n{command.about}"
        command.add_to(choices.add_parser(name, help=line, description=description))
    return parser


def _unknown_command(name: str) -> UsageError:
    import difflib  # 4 ms, and few calls are mistyped

    near = [command for command, synonyms in _SYNONYMS.items() if name in synonyms.split()]
    near = near or difflib.get_close_matches(name, COMMANDS, 1, 0.5)
    guess = f"Did you mean `retain {near[0]}`? " if near else ""
    return UsageError(f"there is no command {name!r}", hint=f"{guess}`retain --help` lists them.")


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
        '  retain put "what you learned"          store a memory',
        "  retain list                            see what there is",
        '  retain search "what I look for"        find it again',
        "",
    ]
    return "\n".join(lines)
