"""The command in our entry: written anew, with the options that a person gave it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from retain.hosts.table import Server

__all__ = ["argv", "merged", "value_of"]

_BANK: Final = ("--bank", "--global", "--local")
_VALUED: Final = ("--bank", "--tools", "--host", "--port", "--allow-host")


def argv(entry: Mapping[str, Any]) -> list[str]:
    """The command of an entry with its arguments; empty if it has none that is understood."""
    command, more = entry.get("command"), entry.get("args", [])
    whole = command if isinstance(command, list) else [command, *_listed(more)]
    return whole if all(isinstance(word, str) for word in whole) else []


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [None]


def merged(entry: Mapping[str, Any], server: Server) -> tuple[str, ...]:
    """The command for an entry that is there: what it has stays, what is given now replaces it."""
    options = _options(argv(entry))
    if options is None:
        return server.argv
    if server.bank:
        options = _replaced(options, _BANK, server.bank)
    if server.tools:
        options = _replaced(options, ("--tools",), ("--tools", server.tools))
    return (*server.command[:-1], *(word for option in options for word in option))


def value_of(words: Sequence[str], name: str) -> str:
    """What an option is given in a command, empty if it is not there."""
    for option in _split(words):
        key, _, value = option[0].partition("=")
        if key == name:
            return option[1] if len(option) > 1 else value
    return ""


def _options(words: Sequence[str]) -> list[tuple[str, ...]] | None:
    """What follows our program in a command, option by option; None if it is not `retain mcp`."""
    if tuple(words[1:3]) == ("-m", "retain"):
        rest = words[3:]
    elif words and os.path.basename(words[0]).removesuffix(".exe") == "retain":
        rest = words[1:]
    else:
        return None
    options = _split(rest)
    return options if ("mcp",) in options else None


def _split(words: Sequence[str]) -> list[tuple[str, ...]]:
    options, at = [], 0
    while at < len(words):
        size = 2 if words[at] in _VALUED else 1
        options.append(tuple(words[at : at + size]))
        at += size
    return options


def _replaced(
    options: Sequence[tuple[str, ...]], names: Sequence[str], new: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """The options with one in the place of those with these names, else at the end."""
    found: list[tuple[str, ...]] = []
    for option in options:
        if option[0].partition("=")[0] not in names:
            found.append(option)
        elif new not in found:
            found.append(new)
    return found if new in found else [*found, new]
