"""Which files are a bank's, and so Retain's to write, and which of those a person writes.

Asked before every edit an agent makes, so a path is first judged by its spelling alone, and
nothing is loaded for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_NAMES = (".retain", ".memories")  # directories that are banks, wherever they stand
_PAIR = (".claude", "memory")
_PROFILES = ("USER.md", "PREFERENCES.md", "MEMORY.md", ".gitignore")


def bank_of(path: str, cwd: str, env: Mapping[str, str]) -> str:
    """The bank that a file belongs to and that is not the person's to edit; empty for none."""
    root = _by_name(path) or _by_variable(path, cwd, env) or _by_config(path, env)
    if not root or path == root:
        return root
    return "" if _is_free(os.path.relpath(path, root), root) else root


def _by_name(path: str) -> str:
    """The bank that a path names, whether it is there yet or not."""
    parts = path.replace("\\", "/").split("/")
    folded = [part.casefold() for part in parts]  # some disks take both cases for one
    for at, name in enumerate(folded):
        if name in _NAMES:
            return "/".join(parts[: at + 1])
        if (name, *folded[at + 1 : at + 2]) == _PAIR:
            return "/".join(parts[: at + 2])
    return ""


def _by_variable(path: str, cwd: str, env: Mapping[str, str]) -> str:
    """The person's own bank, or one that a variable names, which may be called anything."""
    # The person's own bank may be a link, and then its real path has another name.
    for name, usual in (("RETAIN_HOME", "~/.retain"), ("RETAIN_BANK", "")):
        if named := env.get(name) or usual:
            root = os.path.realpath(os.path.join(cwd, os.path.expanduser(named)))
            if path == root or path.startswith(f"{root}/"):
                return root
    return ""


def _by_config(path: str, env: Mapping[str, str]) -> str:
    """The bank that an `.arcaneum` file further up names; most projects have none."""
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        if os.path.isfile(os.path.join(folder, ".arcaneum")):
            from retain.locate import find_bank  # few projects have such a file

            root = os.path.realpath(find_bank(folder, env).root)
            return root if path.startswith(f"{root}/") else ""
        folder = os.path.dirname(folder)
    return ""


def _is_free(name: str, root: str) -> bool:
    """Whether a file of a bank is a person's to write: what is no memory in a bank of its kind."""
    first, _, rest = name.partition("/")
    folded = root.casefold()
    if folded.endswith("/.memories"):
        return name == ".gitignore"
    if folded.endswith("/.claude/memory"):
        return name in ("memory-config.json", ".gitignore")
    return first == "skills" if rest else name in _PROFILES
