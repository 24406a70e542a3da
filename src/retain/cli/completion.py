"""Shell completion, with real ids and collections; argcomplete is loaded only for that."""

from __future__ import annotations

import os
from argparse import Namespace
from collections import Counter
from collections.abc import Callable

import argcomplete
from argcomplete.shell_integration import shellcode

from retain.app import App
from retain.cli.arguments import arg
from retain.cli.command import Args, Output, command, open_app
from retain.cli.run import COMMANDS, build, command_position
from retain.config import rules
from retain.errors import RetainError


def complete() -> None:
    """Answer a shell that asks what could come next, and leave."""
    words = os.environ.get("COMP_LINE", "").split()[1:]
    name = words[position] if (position := command_position(words)) < len(words) else ""
    parser = build([name]) if name in COMMANDS else build()
    argcomplete.autocomplete(parser, always_complete_options=False)


def _completer(names: Callable[[App, Args, str], list[str]]) -> Callable[..., list[str]]:
    """A function that argcomplete asks; a bank that cannot be read offers nothing."""

    def offered(parsed_args: Namespace, prefix: str = "", **_: object) -> list[str]:
        args = Args(**vars(parsed_args))
        try:
            return names(open_app(args), args, prefix)
        except RetainError:
            return []

    return offered


@_completer
def categories(app: App, _args: Args, _prefix: str) -> list[str]:
    """The categories of typed memories, with those that the bank has added."""
    return list(rules(app.config, app.location.root).categories)


@_completer
def memories(app: App, args: Args, prefix: str) -> list[str]:
    """The ids there are; those that need it with their collection."""
    names = app.names(getattr(args, "collection", None))
    counts = Counter(name for _, name in names)
    return [
        f"{collection}/{name}" if "/" in prefix or counts[name] > 1 else name
        for collection, name in names
    ]


@_completer
def trashed(app: App, _args: Args, _prefix: str) -> list[str]:
    """What is in the trash."""
    return [entry.id for entry in app.trashed()]


@_completer
def proposals(app: App, args: Args, _prefix: str) -> list[str]:
    """What waits in the inbox, or was dropped from it."""
    is_back = getattr(args, "tool", "") == "restore"
    proposals = app.inbox.dropped() if is_back else app.inbox.proposals()
    return [proposal.id[:8] for proposal in proposals]


@_completer
def sessions(app: App, _args: Args, _prefix: str) -> list[str]:
    """The chats there are."""
    return [session.id for session in app.sessions.list(1000)]


@_completer
def collections(app: App, _args: Args, _prefix: str) -> list[str]:
    """The collections there are."""
    return [name for name, _, _ in app.collections() if name]


@command("completion", arg("shell", choices=("bash", "zsh", "fish")))
def _completion(args: Args) -> Output:
    """
    Put one of these where your shell reads it at start:

      eval "$(retain completion bash)"                                   # ~/.bashrc
      eval "$(retain completion zsh)"                                    # ~/.zshrc, after compinit
      retain completion fish > ~/.config/fish/completions/retain.fish
    """
    script = shellcode(["retain"], True, args.shell)
    return Output({"shell": args.shell, "script": script}, raw=script.encode())
