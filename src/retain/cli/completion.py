"""Shell completion, with real ids and collections; argcomplete is loaded only for that."""

from __future__ import annotations

import argparse
from collections import Counter

from retain.cli.parser import COMMANDS, Command, Parser, build, command_in, open_app
from retain.cli.render import Output
from retain.errors import RetainError

__all__ = [
    "categories",
    "collections",
    "complete",
    "completion_command",
    "memories",
    "proposals",
    "sessions",
    "trashed",
]


def complete() -> None:
    """Answer a shell that asks what could come next, and leave."""
    import os

    import argcomplete

    name = command_in(os.environ.get("COMP_LINE", "").split()[1:])
    parser = build([name]) if name in COMMANDS else build()
    _offer_categories(parser)
    argcomplete.autocomplete(parser, always_complete_options=False)


def _offer_categories(parser: argparse.ArgumentParser) -> None:
    """Let every argument called a category offer those there are."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _offer_categories(inner)
        elif action.dest == "category":
            action.completer = categories  # type: ignore[attr-defined]


def categories(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The categories of typed memories, with those that the bank has added."""
    from retain.config import rules

    try:
        app = open_app(parsed_args)
        return list(rules(app.config, app.place.root).categories)
    except RetainError:
        return []


def memories(parsed_args: argparse.Namespace, prefix: str = "", **_: object) -> list[str]:
    """The ids there are; those that need it with their collection."""
    try:
        found = open_app(parsed_args).names(getattr(parsed_args, "collection", None))
    except RetainError:
        return []
    counts = Counter(name for _, name in found)
    return [
        f"{collection}/{name}" if "/" in prefix or counts[name] > 1 else name
        for collection, name in found
    ]


def trashed(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """What is in the trash."""
    try:
        return [entry.id for entry in open_app(parsed_args).trashed()]
    except RetainError:
        return []


def proposals(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """What waits in the inbox, or was dropped from it."""
    try:
        review = open_app(parsed_args).inbox
        is_back = getattr(parsed_args, "tool", "") == "restore"
        return [one.id[:8] for one in (review.dropped() if is_back else review.proposals())]
    except RetainError:
        return []


def sessions(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The chats there are."""
    try:
        return [one.id for one in open_app(parsed_args).sessions.list(1000)]
    except RetainError:
        return []


def collections(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The collections there are."""
    try:
        return [name for name, _, _ in open_app(parsed_args).collections() if name]
    except RetainError:
        return []


def _completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _completion(args: argparse.Namespace) -> Output:
    from argcomplete.shell_integration import shellcode

    script = shellcode(["retain"], True, args.shell)
    return Output({"shell": args.shell, "script": script}, raw=script.encode())


completion_command = Command(
    _completion_arguments,
    _completion,
    """Put one of these where your shell reads it at start:

  eval "$(retain completion bash)"                                   # ~/.bashrc
  eval "$(retain completion zsh)"                                    # ~/.zshrc, after compinit
  retain completion fish > ~/.config/fish/completions/retain.fish""",
)
