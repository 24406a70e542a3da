"""How a command is declared, called and answered.

    @command("get", "ID", arg("--version V", "as it was: v2, HEAD~1", default=""))
    def get(app: App, ref: str, version: str) -> Output:
        '''An id alone is looked for in every collection ...'''

argparse, `--help`, completion and docs/reference.md are derived from that. A parameter gets the
argument of its name; `app` is the opened bank and `args` the whole call. "ID" is one of the SHARED
arguments. A name of two words, such as "inbox list", is a command of a group.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TextIO

from retain.cli.arguments import COMMON, SHARED, Argument
from retain.errors import NotFound, RetainError, UsageError
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.app import App
    from retain.cli.render import Table

Run = Callable[..., "Output"]


class Args(argparse.Namespace):
    """What a call asks for: the options every command takes, and the command's own."""

    run: Run | None = None
    close: Callable[[], None] = staticmethod(lambda: None)
    bank: str | None = None
    local = False
    everywhere = False
    json = False
    quiet = False
    format = ""

    @property
    def wants_json(self) -> bool:
        """Whether the answer is JSON, by --json or --format json."""
        return self.json or self.format == "json"

    @property
    def names_bank(self) -> bool:
        """Whether the call says which bank it is about."""
        return self.bank is not None or self.local or self.everywhere


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like all the others."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_formatter, allow_abbrev=False, **settings)

    def parse_known_args(self, *args: Any, **settings: Any) -> tuple[Any, list[str]]:
        parsed, rest = super().parse_known_args(*args, **settings)
        if not hasattr(parsed, "called"):  # the innermost comes first: `retain record write`
            parsed.called = self.prog
        return parsed, rest

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` shows how it is called.")


def _formatter(prog: str) -> argparse.HelpFormatter:
    """The layout of help; its width is given because argparse loads shutil to find it."""
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        width = 80
    return argparse.RawDescriptionHelpFormatter(prog, width=min(max(width, 40), 102) - 2)


# Commands


class Command(NamedTuple):
    """A declared command."""

    name: str
    arguments: Sequence[Argument]
    about: str  # its help, with examples; of a command of a group, what it does in a line first
    run: Run | None = None

    def add_to(self, parser: Parser) -> None:
        """Give a parser this command's arguments, and the commands of its group."""
        for argument in self.arguments:
            argument(parser)
        COMMON(parser)
        members = {
            name.partition(" ")[2]: command
            for name, command in DECLARED.items()
            if name.startswith(f"{self.name} ")
        }
        if members:
            choices = parser.add_subparsers(
                dest="tool", metavar="|".join(members), required=self.run is None
            )
        for word, member in members.items():
            line = member.about.partition("\n")[0]
            inner = choices.add_parser(word, help=line, description=member.about)
            member.add_to(inner)
            if member.run is self.run:  # the group's name alone does the same
                defaults = vars(inner.parse_args([]))
                del defaults["called"]
                parser.set_defaults(tool=word, **defaults)
        if self.run is not None:
            parser.set_defaults(run=self.run)


DECLARED: Final[dict[str, Command]] = {}


def command(name: str, *arguments: str | Argument, about: str | None = "") -> Callable[[Run], Run]:
    """Declare the function below as a command; its docstring is the help, unless `about` is."""

    def declare(run: Run) -> Run:
        lines = (about or run.__doc__ or "").split("\n")
        text = "\n".join(line.removeprefix("    ") for line in lines).strip()
        known = [SHARED[item] if isinstance(item, str) else item for item in arguments]
        DECLARED[name] = Command(name, known, text, run)
        return run

    return declare


def command_group(name: str, about: str | None) -> None:
    """Declare a command that does nothing without the name of one of its group."""
    DECLARED[name] = Command(name, (), (about or "").strip())


def execute(args: Args) -> int:
    """Call the command of a call with what its parameters name, and print its answer."""
    run = args.run
    assert run is not None  # noqa: S101 - the caller has looked
    code = getattr(run, "__wrapped__", run).__code__
    values: dict[str, Any] = {}
    try:
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if name == "app":
                values[name] = open_app(args)
            else:
                values[name] = args if name == "args" else getattr(args, name)
        return show(run(**values), args)
    finally:
        args.close()


def open_app(args: Args, *, stays: bool = False) -> App:
    """Open the app for the place that a call asks for."""
    from retain.app import App

    if args.bank == "":
        raise UsageError("--bank needs a path")
    try:
        cwd = os.getcwd()
    except FileNotFoundError as error:
        raise NotFound(
            "the directory you are in no longer exists", hint="Go to one that does: cd ~"
        ) from error
    app = App(
        bank=args.bank or "",
        local=args.local,
        everywhere=args.everywhere,
        cwd=cwd,
        env=os.environ,
        stays=stays,
    )
    args.close = app.close
    return app


def same_bank(args: Args) -> str:
    """The options that lead the next command to the same bank."""
    if args.everywhere:
        return " --global"
    import shlex  # 2 ms, and few commands name another

    return f" --bank {shlex.quote(args.bank)}" if args.bank is not None else ""


# Answers

Text = str | Sequence[str]  # as it is, or its lines


class Line(NamedTuple):
    """One of many answers that are given as they come."""

    data: object
    text: str | None = None  # None: JSON, whether or not it was asked for


class Output(NamedTuple):
    """A command's answer in every form it can be asked for."""

    data: object  # values that know `to_dict`, or a function that makes them, for --json
    text: Text = ""
    table: Table | None = None
    raw: bytes | None = None
    quiet: Text | None = None  # what --quiet prints; None: the same as always
    messages: Sequence[str] = ()  # empty ones are not printed
    warnings: Sequence[str] = ()
    paint: Callable[[str], str] | None = None  # colours for the text, on a terminal
    stream: Iterable[Line] | None = None  # in place of all the other forms
    code: int = 0


def show(output: Output, args: Args) -> int:
    """Print an answer the way it was asked for, and return the exit code."""
    if output.stream is not None:
        _show_stream(output.stream, as_json=args.wants_json)
    elif args.wants_json:
        sys.stdout.write(_json(output.data))
    elif args.quiet and output.quiet is not None:
        sys.stdout.write(visible(_join(output.quiet)))
    else:
        _show_text(output)
    sys.stdout.flush()
    if not args.quiet:
        for message in filter(None, output.messages):
            print(visible(message), file=sys.stderr)
    for warning in output.warnings:
        print(f"warning: {visible(warning)}", file=sys.stderr)
    return output.code


def plural(number: int, noun: str) -> str:
    """A number of things in words."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _join(text: Text) -> str:
    return text if isinstance(text, str) else "".join(f"{line}\n" for line in text)


def _show_stream(lines: Iterable[Line], *, as_json: bool) -> None:
    """Print each line when it is there: whoever reads along need not wait for the last."""
    for line in lines:
        if as_json or line.text is None:
            sys.stdout.write(_json(line.data, indent=None))
        else:
            sys.stdout.write(visible(line.text, keep_newlines=False) + "\n")
        sys.stdout.flush()


def _show_text(output: Output) -> None:
    if output.raw is not None and sys.stdout.isatty():  # harmless on a terminal
        text = visible(output.raw.decode("utf-8", "replace"))
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    elif output.raw is not None:  # the exact bytes into a pipe
        sys.stdout.buffer.write(output.raw)
    text = visible(_join(output.text))
    if text and output.paint and wants_colour(sys.stdout):
        text = output.paint(text)
    sys.stdout.write(text)
    if output.table is not None:
        from retain.cli.render import show_table

        sys.stdout.write("\n" if text and output.table.rows else "")
        show_table(output.table)


def wants_colour(stream: TextIO) -> bool:
    """Whether whoever reads a stream sees colours and has not asked for none."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not is_plain


def _json(data: object, indent: int | None = 2) -> str:
    import json

    from retain.text.sanitize import visible_json

    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(_plain(data), ensure_ascii=plain, indent=indent, default=str)
    return visible_json(text) + "\n"


def _plain(value: Any) -> object:
    """A value as JSON has it, by its own `to_dict` if it knows one."""
    if callable(value):
        return value()
    for method in ("to_dict", "_asdict"):
        if hasattr(value, method):
            return getattr(value, method)()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def report(error: RetainError, *, as_json: bool) -> None:
    """Say on standard error what happened, what was left alone and what to run next."""
    message = error.message  # which may quote all that was typed
    if len(message) > 800:
        message = f"{message[:400]} ... {message[-380:]}"
    if as_json:
        sys.stderr.write(_json({"error": error.to_dict() | {"message": message}}))
        return
    for line in filter(None, (f"retain: {message}", error.unchanged, error.hint)):
        print(visible(line), file=sys.stderr)


def confirm(question: str, warning: str, unchanged: str) -> None:
    """Ask before something that is hard to undo; without a terminal only --yes does it."""
    if not sys.stdin.isatty():
        raise UsageError(
            warning, unchanged=unchanged, hint="Repeat it with --yes if that is what you want."
        )
    print(visible(question, keep_newlines=False), end=" [y/N] ", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed", unchanged=unchanged)
