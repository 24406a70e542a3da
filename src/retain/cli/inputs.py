"""Arguments that several commands share, and what people hand in through them."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from retain.cli.parser import Parser
from retain.drafts import Draft
from retain.errors import LimitExceeded, NotFound, RetainError, UsageError
from retain.model import STATUSES

__all__ = [
    "add_collection",
    "add_fields",
    "add_id",
    "add_secrets",
    "complete",
    "count",
    "draft_from",
    "read_lines",
    "read_text",
    "share",
    "split_words",
]

_MOST_LINES_BYTES = 100_000_000
_PLAIN_FIELDS = ("status", "category", "context", "project", "priority")


def add_id(parser: Parser, *, handles: bool = False, more: str = "", **settings: Any) -> None:
    """The memory a command is about; some commands also take the handles of a brief."""
    about = "id, collection/id or handle (m:4f2a)" if handles else "id or collection/id"
    about = f"the memory: {about}{more}"
    complete(parser.add_argument("id", metavar="ID", help=about, **settings), "memories")


def add_collection(parser: Parser, about: str, name: str = "--collection", **settings: Any) -> None:
    action = parser.add_argument(name, metavar="NAME", help=about, **settings)
    complete(action, "collections")


def complete(action: argparse.Action, what: str) -> None:
    """Let the shell offer real names; looked up only while it completes."""
    import os

    if "_ARGCOMPLETE" in os.environ:
        from retain.cli import completion

        action.completer = getattr(completion, what)  # type: ignore[attr-defined]


def add_fields(parser: Parser) -> None:
    """The metadata that `put` and `update` set."""
    group = parser.add_argument_group("metadata")
    group.add_argument("--title", help="its title; an empty one removes it")
    group.add_argument(
        "--type", default="", help="journal, plan, fact, observation, reflection ..."
    )
    group.add_argument("--tags", metavar="A,B", help="tags, with commas")
    group.add_argument("--context", help="why it was written")
    group.add_argument("--category", help="a label of your own")
    group.add_argument("--related-to", metavar="A,B", help="ids or issues it belongs to")
    group.add_argument("--project", help="the project it is about")
    group.add_argument("--priority", help="how important it is")
    group.add_argument("--status", choices=STATUSES, help="whether it is in force")
    group.add_argument("--metadata", metavar="JSON", help="any other keys, as a JSON object")


def add_secrets(parser: Parser) -> None:
    parser.add_argument(
        "--allow-secret", action="store_true", help="store what looks like a secret as it is"
    )


def draft_from(args: argparse.Namespace, text: str | None) -> Draft:
    """What the options of `put` and `update` ask to store."""
    fields = _metadata(args.metadata)
    fields |= {name: value for name in _PLAIN_FIELDS if (value := getattr(args, name)) is not None}
    if args.related_to is not None:
        fields["related_to"] = split_words(args.related_to)
    if args.title == "":
        fields["title"] = None
    return Draft(
        text=text,
        title=args.title or "",
        type=args.type,
        tags=None if args.tags is None else split_words(args.tags),
        fields=fields,
        allow_secret=args.allow_secret,
    )


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


def split_words(text: str) -> list[str]:
    """Words that are given with commas between them."""
    return [word for part in text.split(",") if (word := part.strip())]


def _metadata(text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    import json

    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"--metadata is not JSON: {error}",
            unchanged="Nothing was changed.",
            hint='Write an object, such as \'{"priority": "high"}\'.',
        ) from error
    if not isinstance(fields, dict):
        raise UsageError('--metadata is a JSON object, such as \'{"priority": "high"}\'')
    if "id" in fields:
        raise UsageError("--metadata cannot set the id", hint="`retain move ID --id NEW` does.")
    return fields


def read_text(source: str, limit: int, what: str = "a memory") -> str:
    """The text in a file, or on standard input for `-`."""
    data = _read(source, limit)
    if len(data) > limit:
        raise LimitExceeded(
            f"{_called(source)} has more than {limit:,} bytes, the most {what} may have",
            unchanged="Nothing was stored.",
            hint="Split it, or raise memory.max_bytes in your own config.",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{_called(source)} is not UTF-8 text (byte {error.start})",
            unchanged="Nothing was stored.",
            hint="A memory is text; convert the file to UTF-8 first.",
        ) from error


def read_lines(source: str) -> list[str]:
    """The queries in a file, or on standard input for `-`, one on each line, empty ones too."""
    try:
        text = read_text(source, _MOST_LINES_BYTES, "a batch").removeprefix("\ufeff")
    except RetainError as error:
        error.unchanged = "Nothing was searched."
        error.hint = "Name a file with one query on each line, or - to read standard input."
        raise
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _read(source: str, limit: int) -> bytes:
    if source == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise UsageError("standard input is closed; there is no text to read")
        if sys.stdin.isatty():
            print("Type the text; Ctrl-D on a new line ends it.", file=sys.stderr)
        return sys.stdin.buffer.read(limit + 1)
    try:
        with open(source, "rb") as file:
            return file.read(limit + 1)
    except FileNotFoundError as error:
        raise NotFound(
            f"there is no file {source}",
            unchanged="Nothing was stored.",
            hint="Name a file, or - to read standard input.",
        ) from error
    except IsADirectoryError as error:
        raise UsageError(
            f"{source} is a directory",
            unchanged="Nothing was stored.",
            hint=f"`retain import {source}` takes over a whole directory.",
        ) from error
    except OSError as error:
        raise RetainError(f"{source} cannot be read: {error.strerror}") from error


def _called(source: str) -> str:
    return "standard input" if source == "-" else source
