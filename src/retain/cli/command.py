"""How a command is declared, called and answered.

    @command("get", "ID", arg("--version V", "as it was: v2, HEAD~1", default=""))
    def get(app: App, ref: str, version: str) -> Output:
        '''An id alone is looked for in every collection ...'''

argparse, `--help`, completion and docs/reference.md are derived from that. A parameter gets the
argument of its name; `app` is the opened bank and `args` the whole call. "ID" is one of the SHARED
arguments. A name of two words, such as "inbox list", is a command of a group. The module that
declares a command is loaded when the command runs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TextIO

from retain import __version__
from retain.errors import NotFound, RetainError, UsageError
from retain.memory import STATUSES
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.app import App
    from retain.cli.render import Table

# Group, then module: the commands that it declares.
GROUPS: Final = {
    "Chat": {"chat": "chat ask", "server": "web"},
    "Memories": {"memories": "put get list update append move delete", "edit": "edit"},
    "Recall": {"search": "search brief linked related graph"},
    "Curation": {"inbox": "inbox", "merge": "merge suggest-merges dedupe"},
    "Typed memories": {
        "lifecycle": "new candidate retire archive unarchive supersede changes gc health",
        "record": "record",
    },
    "History": {"history": "versions diff restore trash"},
    "Chats": {"chat": "sessions migrate"},
    "Agents": {"install": "install", "server": "mcp", "hook": "hook"},
    "Banks": {
        "banks": "init status collections export import",
        "config": "config",
        "install": "completion",
    },
    "Index": {"banks": "stats sync index doctor", "server": "watch serve", "engine": "engine"},
}
COMMANDS: Final = {
    name: module
    for modules in GROUPS.values()
    for module, names in modules.items()
    for name in names.split()
}
# Else it looks for translations of its own words in every catalogue of the system: 1 ms.
vars(argparse)["_"] = str

_CHAT_OPTIONS: Final = ("-c", "--continue", "--resume", "--model", "--plain")
# What other tools call the same thing.
_SYNONYMS: Final = {
    "delete": "remove rm",
    "get": "cat show",
    "list": "ls",
    "move": "mv rename",
    "put": "add create save store",
    "restore": "undo",
    "search": "find grep query recall",
    "versions": "history log",
}
_OVERVIEW: Final = """\
usage: retain COMMAND [options]

Memory for AI agents and the people who work with them: Markdown files
you can read, edit, diff and commit.
{commands}
Every command takes --bank PATH, --local and --global (which bank), --json, --quiet
and --help (how it is called, with examples).

Start here:
  retain                                 chat; retain -c continues the last chat
  retain init                            make a bank in this project
  retain put "what you learned"          store a memory
  retain list                            see what there is
  retain search "what I look for"        find it again
"""


# Arguments

Argument = Callable[[Any], None]  # adds one or several arguments to a parser


def arg(spec: str, about: str = "", *, completes: str = "", **settings: Any) -> Argument:
    """An argument as help shows it: "--since WHEN", "-c, --continue", "--per memory|chunk".

    The name of a value tells its type: N is a number of things, TIME a duration. The first of
    several choices is the default. `settings` are those of argparse's `add_argument`; `completes`
    is what a shell is offered, where the argument's name does not say it.
    """
    names, _, value = spec.replace(", ", ",").partition(" ")
    if "|" in value:
        choices = tuple(value.split("|"))
        settings = {"choices": choices, "default": choices[0], **settings}
    elif value:
        settings["metavar"] = value
    if value in _VALUES:
        settings["type"] = partial(_read_value, value)
    if about:
        settings["help"] = about

    def add(parser: Any) -> None:
        action = parser.add_argument(*names.split(","), **settings)
        kind = completes or action.dest
        if kind in _COMPLETED:
            action.completer = partial(_offer, kind)

    return add


def flag(name: str, about: str = "", **settings: Any) -> Argument:
    """An option without a value."""
    return arg(name, about, action="store_true", **settings)


def repeated(spec: str, about: str, **settings: Any) -> Argument:
    """An option that may be given several times."""
    return arg(spec, about, action="append", default=[], **settings)


def memory_arg(names: str = "id or collection/id", **settings: Any) -> Argument:
    """The memory that a command is about."""
    return arg("ref ID", f"the memory: {names}", **settings)


def argument_group(title: str, *arguments: Argument) -> Argument:
    """Arguments under a heading of their own in the help."""
    return lambda parser: _add_all(parser.add_argument_group(title), arguments)


def either(*arguments: Argument, required: bool = False) -> Argument:
    """Arguments of which a call may, or must, give one."""
    return lambda parser: _add_all(
        parser.add_mutually_exclusive_group(required=required), arguments
    )


def _add_all(parser: Any, arguments: Iterable[Argument]) -> None:
    for argument in arguments:
        argument(parser)


def _split(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[text[-1]]


# What a value is called in the help: what it looks like, how it is read, and what it is in words.
_VALUES: Final[dict[str, tuple[str, Callable[[str], object], str]]] = {
    "A,B": ("(?s:.*)", _split, "words with commas"),
    "HASH": ("(sha256:)?[0-9A-Fa-f]{8,64}", str, "a hash: 8 to 64 hexadecimal digits"),
    "ID": ("(?s:.+)", str, "a name"),
    "N": ("0*[1-9][0-9]{0,8}", int, "a whole number of at least 1"),
    "TIME": ("0*[1-9][0-9]{0,5}[smhd]", _seconds, "a time such as 90s, 30m, 8h or 30d"),
    "X": (r"1(\.0*)?|0|0?\.[0-9]+", float, "a number between 0 and 1"),
}


def _read_value(kind: str, text: str) -> object:
    """Read a value by what it is called, for argparse."""
    pattern, read, words = _VALUES[kind]
    if not re.fullmatch(pattern, text):
        raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
    return read(text)


# Arguments of several commands, which a declaration names as people write them.
SHARED: Final[dict[str, Argument]] = {
    "ID": memory_arg(),
    "ID or handle": memory_arg("id, collection/id or handle (m:4f2a)"),
    "--collection": arg("--collection NAME", "the collection it is in"),
    "--filter": repeated(
        "--filter EXPR", "key=a,b (either), key!=v, key>=v, key<=v, key~text; several must all hold"
    ),
    "--type": arg("--type", "only this type", default=""),
    "--tags": arg("--tags A,B", "only with any of these tags", default=""),
    "--allow-secret": flag("--allow-secret", "store what looks like a secret as it is"),
    "--dry-run": flag("--dry-run", "only say what would be done"),
    "--yes": flag("--yes", "do not ask"),
    "--no-vectors": flag("--no-vectors", "words only; the next search makes the vectors"),
    "--expect": arg(
        "--expect HASH", "change it only if its hash is still this one (from `get --json`)"
    ),
    "metadata": argument_group(
        "metadata",
        arg("--title", "its title; an empty one removes it"),
        arg("--type", "journal, plan, fact, observation, reflection ...", default=""),
        arg("--tags A,B", "tags, with commas"),
        arg("--context", "why it was written"),
        arg("--category", "a label of your own"),
        arg("--related-to A,B", "ids or issues it belongs to"),
        arg("--project", "the project it is about"),
        arg("--priority", "how important it is"),
        arg("--status", "active, archived or retired", choices=STATUSES),
        arg("--metadata JSON", "any other keys, as a JSON object"),
    ),
}
_COMMON: Final = argument_group(
    "which bank, and how to answer",
    # No default, so that they may stand before or after the command's name.
    arg("--bank PATH", "use the bank at PATH", default=argparse.SUPPRESS),
    flag("--local", "use the project's bank only", default=argparse.SUPPRESS),
    flag("--global", "use your global bank only", dest="everywhere", default=argparse.SUPPRESS),
    flag("--json", "answer in JSON", default=argparse.SUPPRESS),
    flag("--quiet", "no messages, only the bare result", default=argparse.SUPPRESS),
)


# Commands

Run = Callable[..., "Output"]


class Command(NamedTuple):
    """A declared command; one without `run` needs the name of a command of its group."""

    arguments: Sequence[Argument]
    about: str  # its help: what it does in a line, more about that, examples
    run: Run | None = None

    @property
    def line(self) -> str:
        """What it does, in a line."""
        return self.about.partition("\n")[0]


DECLARED: Final[dict[str, Command]] = {}


def command(name: str, *arguments: str | Argument, about: str | None = "") -> Callable[[Run], Run]:
    """Declare the function below as a command; its docstring is the help, unless `about` is."""

    def declare(run: Run) -> Run:
        lines = (about or run.__doc__ or "").split("\n")
        text = "\n".join(line.removeprefix("    ") for line in lines).strip()
        known = [SHARED[item] if isinstance(item, str) else item for item in arguments]
        DECLARED[name] = Command(known, text, run)
        return run

    return declare


def command_group(name: str, about: str | None) -> None:
    """Declare a command that does nothing without the name of one of its group."""
    DECLARED[name] = Command((), (about or "").strip())


class Args(argparse.Namespace):
    """What a call asks for: the options every command takes, and the command's own."""

    run: Run | None = None
    called = "retain"
    close: Callable[[], None] = staticmethod(lambda: None)
    bank: str | None = None
    local = False
    everywhere = False
    json = False  # also by --format json
    quiet = False
    format = ""

    def pick(self, names: str) -> dict[str, Any]:
        """Some of its arguments, by name."""
        return {name: getattr(self, name) for name in names.split()}

    @property
    def names_bank(self) -> bool:
        """Whether the call says which bank it is about."""
        return self.bank is not None or self.local or self.everywhere


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like all the others."""

    def __init__(self, **settings: Any) -> None:
        # Without a width, argparse loads shutil to find that of the terminal.
        layout = partial(argparse.RawDescriptionHelpFormatter, width=78)
        super().__init__(formatter_class=layout, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` shows how it is called.")


def build(names: Iterable[str] = COMMANDS) -> Parser:
    """Build the parser, with the arguments of these commands filled in."""
    parser = Parser(prog="retain", add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-V", "--version", action="version", version=f"retain {__version__}")
    _COMMON(parser)
    # Given its name, argparse need not lay out a usage line to find it.
    choices = parser.add_subparsers(dest="command", metavar="command", prog="retain")
    for name in names:
        _add_command(choices, name, _load(name))
    return parser


def _load(name: str) -> Command:
    importlib.import_module(f"retain.cli.{COMMANDS[name]}")
    return DECLARED[name]


def _add_command(choices: Any, name: str, declared: Command) -> None:
    """Add the parser of a command, and those of its group."""
    word = name.rpartition(" ")[2]
    parser = choices.add_parser(word, help=declared.line, description=declared.about)
    _add_all(parser, [*declared.arguments, _COMMON])
    parser.set_defaults(run=declared.run, called=parser.prog)
    members = [other for other in DECLARED if other.startswith(f"{name} ")]
    if members:
        words = "|".join(member.partition(" ")[2] for member in members)
        inner = parser.add_subparsers(dest="tool", metavar=words, required=declared.run is None)
        for member in members:
            _add_command(inner, member, DECLARED[member])


def overview() -> str:
    """What `retain --help` prints: every command in a line, in groups."""
    lines = []
    for group, modules in GROUPS.items():
        lines += ["", f"{group}:"]
        for name in " ".join(modules.values()).split():
            lines.append(f"  {name:<14} {_load(name).line}")
    return _OVERVIEW.format(commands="\n".join([*lines, ""]))


# Calls


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    # Also of a call that does not parse.
    as_json = "--json" in argv or "--format=json" in argv or "--format json" in " ".join(argv)
    try:
        args = parse(argv)
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        if args.run is None and is_terminal and not (args.help or args.json):
            args = parse(["chat", *argv])
        if args.run is None:
            sys.stdout.write(overview())
            sys.stdout.flush()
            return 0
        return _execute(args, args.run)
    except RetainError as error:
        _report(error, as_json=as_json)
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
        _report(RetainError(f"{where}{error.strerror or error}"), as_json=as_json)
        return 1


def parse(argv: Sequence[str]) -> Args:
    """Parse a call; only the module of the command that it names is loaded."""
    at = command_position(argv)
    if argv[at : at + 1] == ["help"]:  # as many tools have it
        argv = [*argv[:at], *argv[at + 1 :], "--help"]
        at = command_position(argv)
    if any(word.partition("=")[0] in _CHAT_OPTIONS for word in argv[:at]):
        argv = ["chat", *argv]  # an option of the chat's means the chat, as `retain` alone does
        at = 0
    for word in argv:
        if word.startswith("--") and word.endswith("=--"):
            raise UsageError(f"{word} gives no value")  # argparse would take it for an empty list
    names = argv[at : at + 1]
    args = Args()
    if names and names[0] not in COMMANDS:
        _, rest = build([]).parse_known_args(argv[:at], args)
        raise _not_taken(args, rest) if rest else _unknown_command(names[0])
    # What stands before the command is the command's.
    _, rest = build(names).parse_known_args([*names, *argv[:at], *argv[at + 1 :]], args)
    if "words" in args and not any(word.startswith("-") for word in rest):
        args.words = [*args.words, *rest]  # argparse takes no more of them after an option
        rest = []
    if rest:
        raise _not_taken(args, rest)
    if args.bank == "":
        raise UsageError("--bank needs a path")
    args.json = args.json or args.format == "json"
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


def _not_taken(args: Args, rest: Sequence[str]) -> UsageError:
    message = f"`{args.called}` does not take {' '.join(rest)}"
    return UsageError(message, hint=f"`{args.called} --help` shows how it is called.")


def _unknown_command(name: str) -> UsageError:
    import difflib  # 4 ms, and few calls are mistyped

    near = [command for command, synonyms in _SYNONYMS.items() if name in synonyms.split()]
    near = near or difflib.get_close_matches(name, COMMANDS, 1, 0.5)
    guess = f"Did you mean `retain {near[0]}`? " if near else ""
    return UsageError(f"there is no command {name!r}", hint=f"{guess}`retain --help` lists them.")


def _execute(args: Args, run: Run) -> int:
    """Call a command with what its parameters name, and print its answer."""
    wanted = run.__annotations__
    values = {name: getattr(args, name) for name in wanted if hasattr(args, name)}
    try:
        if "args" in wanted:
            values["args"] = args
        if "app" in wanted:
            values["app"] = open_app(args)
        return show(run(**values), args)
    except UsageError as error:
        if error.hint == UsageError.usual_hint:
            error.hint = f"`{args.called} --help` shows how it is called."
        raise
    finally:
        args.close()


def open_app(args: Args, *, stays: bool = False) -> App:
    """Open the app for the place that a call asks for."""
    from retain.app import App

    try:
        app = App(bank=args.bank or "", local=args.local, everywhere=args.everywhere, stays=stays)
    except FileNotFoundError as error:
        hint = "Go to one that does: cd ~"
        raise NotFound("the directory you are in no longer exists", hint=hint) from error
    args.close = app.close
    return app


def same_bank(args: Args) -> str:
    """The options that lead the next command to the same bank."""
    if args.everywhere:
        return " --global"
    import shlex  # 2 ms, and few commands name another

    return f" --bank {shlex.quote(args.bank)}" if args.bank is not None else ""


# Answers

Text = str | Sequence[str] | Mapping[str, str]  # as it is, its lines, or facts by name


class Output(NamedTuple):
    """A command's answer in every form it can be asked for."""

    data: object  # values that know `to_dict`, or a function that makes them, for --json
    text: Text = ""
    table: Table | None = None
    raw: bytes | None = None
    quiet: Text | None = None  # what --quiet prints; None: the same as always
    messages: Sequence[str] = ()  # for people; empty ones are not printed
    warnings: Sequence[str] = ()
    paint: Callable[[str], str] | None = None  # colours for the text, on a terminal
    stream: Iterable[Output] | None = None  # answers that are given as they come, a line each
    code: int = 0


def combine(outputs: Sequence[Output]) -> Output:
    """Several answers as one; a single one stays as it is."""
    if len(outputs) == 1:
        return outputs[0]
    return Output(
        [output.data for output in outputs],
        "".join(_join(output.text) for output in outputs),
        quiet="".join(_join(output.quiet or "") for output in outputs),
        messages=[message for output in outputs for message in output.messages],
        warnings=[warning for output in outputs for warning in output.warnings],
    )


def show(output: Output, args: Args) -> int:
    """Print an answer the way it was asked for, and return the exit code."""
    for line in output.stream or ():  # whoever reads along need not wait for the last
        is_data = args.json or not line.text
        print(to_json(line.data, indent=None) if is_data else visible(str(line.text)), flush=True)
    if output.stream is None and args.json:
        print(to_json(output.data))
    elif args.quiet and output.quiet is not None:
        sys.stdout.write(visible(_join(output.quiet)))
    else:
        _show_text(output)
    sys.stdout.flush()
    for message in output.messages:
        if message and not args.quiet and not args.json:
            print(visible(message), file=sys.stderr)
    for warning in output.warnings:
        print(f"warning: {visible(warning)}", file=sys.stderr)
    return output.code


def _show_text(output: Output) -> None:
    if output.raw is not None and sys.stdout.isatty():  # harmless on a terminal
        text = visible(output.raw.decode("utf-8", "replace"))
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    elif output.raw is not None:  # the exact bytes into a pipe
        sys.stdout.buffer.write(output.raw)
    text = visible(_join(output.text))
    if output.paint and wants_colour(sys.stdout):
        text = output.paint(text)
    sys.stdout.write(text)
    if output.table is not None:
        from retain.cli.render import show_table

        sys.stdout.write("\n" if text and output.table.rows else "")
        show_table(output.table)


def _join(text: Text) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, Mapping):
        text = [f"{name}: {value}" for name, value in text.items() if value]
    return "".join(f"{line}\n" for line in text)


def plural(number: int, noun: str) -> str:
    """A number of things in words."""
    return f"{number} {noun}{'s' * (number != 1)}"


def wants_colour(stream: TextIO) -> bool:
    """Whether whoever reads a stream sees colours and has not asked for none."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not is_plain


def to_json(data: object, indent: int | None = 2) -> str:
    """A value as JSON that is harmless on a terminal."""
    import json

    from retain.text.sanitize import visible_json

    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(_plain(data), ensure_ascii=ascii_only, indent=indent, default=str)
    return visible_json(text)


def _plain(value: Any) -> object:
    """A value as JSON has it, by its own `to_dict` if it knows one."""
    if callable(value):
        return value()
    for method in ("to_dict", "_asdict"):
        if hasattr(value, method):
            return getattr(value, method)()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _report(error: RetainError, *, as_json: bool) -> None:
    """Say on standard error what happened, what was left alone and what to run next."""
    facts = error.to_dict()
    if as_json:
        print(to_json({"error": facts}), file=sys.stderr)
        return
    for line in (f"retain: {facts['message']}", error.unchanged, error.hint):
        if line:
            print(visible(line), file=sys.stderr)


def ask(question: str) -> str:
    """What a person at the terminal answers."""
    print(visible(question).rstrip(), end=" ", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("the question was not answered")
    return line.strip()


def confirm(question: str, warning: str, unchanged: str) -> None:
    """Ask before something that is hard to undo; without a terminal only --yes does it."""
    if not sys.stdin.isatty():
        hint = "Repeat it with --yes if that is what you want."
        raise UsageError(warning, unchanged=unchanged, hint=hint)
    if ask(f"{question} [y/N]").lower() not in ("y", "yes"):
        refused = UsageError("not confirmed", unchanged=unchanged)
        refused.hint = ""
        raise refused


# Completion

_COMPLETED: Final = ("category", "collection", "ref", "session")


def complete() -> None:
    """Answer a shell that asks what could come next, and leave."""
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()[1:]
    at = command_position(words)
    names = [name for name in words[at : at + 1] if name in COMMANDS]
    argcomplete.autocomplete(build(names or COMMANDS), always_complete_options=False)


def _offer(kind: str, parsed_args: argparse.Namespace, prefix: str = "", **_: object) -> list[str]:
    """What a shell may put in the place of an argument; nothing where a bank cannot be read."""
    args = Args(**vars(parsed_args))
    with contextlib.suppress(RetainError):
        app = open_app(args)
        if kind == "category":
            return list(app.records.rules.categories)
        if kind == "collection":
            return [name for name, _, _ in app.collections() if name]
        if kind == "session":
            return [session.id for session in app.sessions.list(1000)]
        names = app.names(getattr(args, "collection", None))
        counts = Counter(name for _, name in names)
        return [
            f"{collection}/{name}" if "/" in prefix or counts[name] > 1 else name
            for collection, name in names
        ]
    return []
