"""The arguments of commands: how they are declared, and those that several commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from retain.memory import STATUSES

Argument = Callable[[Any], None]  # adds one or several arguments to a parser
COMPLETED_NAMES: Final = {"category": "categories", "collection": "collections"}


def arg(spec: str, about: str = "", *, completes: str = "", **settings: Any) -> Argument:
    """An argument as help shows it, such as "--since WHEN" or "-c, --continue".

    `settings` are those of argparse's `add_argument`.
    """
    names, _, value = spec.replace(", ", ",").partition(" ")
    settings |= {"metavar": value} if value else {}
    settings |= {"help": about} if about else {}

    def add(parser: Any) -> None:
        action = parser.add_argument(*names.split(","), **settings)
        offers = completes or COMPLETED_NAMES.get(action.dest)
        if offers and "_ARGCOMPLETE" in os.environ:
            from retain.cli import completion  # only while a shell completes

            action.completer = getattr(completion, offers)

    return add


def flag(name: str, about: str = "", **settings: Any) -> Argument:
    """An option without a value."""
    return arg(name, about, action="store_true", **settings)


def repeated(spec: str, about: str) -> Argument:
    """An option that may be given several times."""
    return arg(spec, about, action="append", default=[])


def argument_group(title: str, *arguments: Argument) -> Argument:
    """Arguments under a heading of their own in the help."""
    return lambda parser: _add_all(parser.add_argument_group(title), arguments)


def either(*arguments: Argument, required: bool = False) -> Argument:
    """Arguments of which a call may, or must, give one."""
    return lambda parser: _add_all(
        parser.add_mutually_exclusive_group(required=required), arguments
    )


def _add_all(group: Any, arguments: Sequence[Argument]) -> None:
    for argument in arguments:
        argument(group)


def memory_arg(*, handles: bool = False, more: str = "", **settings: Any) -> Argument:
    """The memory a command is about; some commands also take the handles of a brief."""
    names = "id, collection/id or handle (m:4f2a)" if handles else "id or collection/id"
    about = f"the memory: {names}{more}"
    return arg("ref ID", about, completes="memories", **settings)


def collection_arg(about: str, name: str = "--collection", **settings: Any) -> Argument:
    return arg(f"{name} NAME", about, completes="collections", **settings)


def limit_arg(default: int, about: str) -> Argument:
    return arg("--limit N", about, type=count, default=default)


def choice_flag(name: str, dest: str, value: str | None, about: str, **settings: Any) -> Argument:
    """An option without a value that sets a shared destination."""
    return arg(name, about, dest=dest, action="store_const", const=value, **settings)


def count(text: str) -> int:
    """A number of things, as argparse takes it."""
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def share(text: str) -> float:
    """A score or a threshold, as argparse takes it."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def _hash(text: str) -> str:
    digits = text.removeprefix("sha256:").lower()
    if not 8 <= len(digits) <= 64 or digits.strip("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a hash: 8 to 64 hexadecimal digits")
    return digits


def split_words(text: str) -> list[str]:
    """Words that are given with commas between them."""
    return [word for part in text.split(",") if (word := part.strip())]


# Arguments of several commands, which a declaration names as people write them.
SHARED: Final[dict[str, Argument]] = {
    "ID": memory_arg(),
    "--collection": collection_arg("the collection it is in"),
    "--type": arg("--type", "only this type", default=""),
    "--tags": arg("--tags A,B", "only with any of these tags", type=split_words, default=""),
    "--allow-secret": flag("--allow-secret", "store what looks like a secret as it is"),
    "--dry-run": flag("--dry-run", "only say what would be done"),
    "--yes": flag("--yes", "do not ask"),
    "--no-vectors": flag("--no-vectors", "words only; the next search makes the vectors"),
    "--expect": arg(
        "--expect HASH",
        "change it only if its hash is still this one (from `get --json`)",
        type=_hash,
    ),
    "metadata": argument_group(
        "metadata",
        arg("--title", "its title; an empty one removes it"),
        arg("--type", "journal, plan, fact, observation, reflection ...", default=""),
        arg("--tags A,B", "tags, with commas", type=split_words),
        arg("--context", "why it was written"),
        arg("--category", "a label of your own"),
        arg("--related-to A,B", "ids or issues it belongs to", type=split_words),
        arg("--project", "the project it is about"),
        arg("--priority", "how important it is"),
        arg("--status", "whether it is in force", choices=STATUSES),
        arg("--metadata JSON", "any other keys, as a JSON object"),
    ),
}
COMMON: Final = argument_group(
    "which bank, and how to answer",
    # No default, so that they may stand before or after the command's name.
    arg("--bank PATH", "use the bank at PATH", default=argparse.SUPPRESS),
    flag("--local", "use the project's bank only", default=argparse.SUPPRESS),
    flag("--global", "use your global bank only", dest="everywhere", default=argparse.SUPPRESS),
    flag("--json", "answer in JSON", default=argparse.SUPPRESS),
    flag("--quiet", "no messages, only the bare result", default=argparse.SUPPRESS),
)
