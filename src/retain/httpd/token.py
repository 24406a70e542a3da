"""The bearer token of the HTTP door: one per person, in a file that only they can read.

It lies in the person's own bank and never in a project's, where it could be committed or read by
everyone who has the project.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from typing import Final

from retain.bank.files import Directory, saving, write_whole
from retain.bank.listing import make_bank
from retain.errors import ConfigError, NotFound, Unsafe, UsageError
from retain.locate import global_root

VARIABLE: Final = "RETAIN_MCP_TOKEN"
_NAME: Final = "mcp-token"
_HIDDEN: Final = f"{_NAME}*"  # its unfinished files too
_MOST: Final = 4_096
_LEAST: Final = 16
_SHAPE: Final = re.compile(rf"[A-Za-z0-9._~+/=-]{{{_LEAST},512}}")  # what a header can carry
_NEW: Final = "`retain mcp token --new` makes another one."


def path(env: Mapping[str, str]) -> str:
    """Where the token is kept."""
    return os.path.join(global_root(env), _NAME)


def token(env: Mapping[str, str], *, new: bool = False) -> str:
    """The token in force; made if there is none, or in place of the one there is."""
    if new and env.get(VARIABLE):
        raise UsageError(
            f"{VARIABLE} is set, and is used in place of any token that is kept",
            hint=f"Unset it first: unset {VARIABLE}",
        )
    if not new and (found := kept(env)):
        return found
    root = global_root(env)
    make_bank(root)
    _hide_from_git(root)
    _write(path(env), new=new)
    made = kept(env)
    if not made:
        raise NotFound(f"{path(env)} has just been deleted", hint=_NEW)
    return made


def kept(env: Mapping[str, str]) -> str:
    """The token there is, empty if there is none; one that others could know is refused."""
    given = env.get(VARIABLE, "")
    if given:
        return _checked(given, VARIABLE)
    where = path(env)
    if not os.path.lexists(where):
        return ""
    with Directory.open(os.path.dirname(where)) as folder:
        try:
            data, facts = folder.read_with_facts(_NAME, _MOST)
        except NotFound:
            return ""
    if facts.st_uid != os.geteuid():
        raise Unsafe(f"{where} belongs to another user", hint=_NEW)
    if facts.st_mode & 0o077:
        raise Unsafe(f"{where} can be read or written by others", hint=_NEW)
    return _checked(data.decode("ascii", "replace").strip(), where)


def _checked(given: str, where: str) -> str:
    """A token that a header can carry and nobody guesses; what it was is never said."""
    if not _SHAPE.fullmatch(given):
        raise ConfigError(
            f"{where} holds no usable token: at least {_LEAST} letters, digits and -._~+/=",
            hint=_NEW,
        )
    return given


def _write(where: str, *, new: bool) -> None:
    """Put a token in place whole; the first of several that make one at once is everyone's."""
    draft = f"{where}.{secrets.token_hex(8)}"
    write_whole(draft, f"{secrets.token_urlsafe(32)}\n".encode())
    with saving(where):
        try:
            if new:
                os.replace(draft, where)
            else:
                os.link(draft, where)
        except FileExistsError:
            pass
        finally:
            if os.path.lexists(draft):
                os.unlink(draft)
        with Directory.open(os.path.dirname(where)) as folder:
            folder.sync()


def _hide_from_git(root: str) -> None:
    """Keep the token out of the repository that a person may have made of their bank."""
    with Directory.open(root) as folder:
        text = folder.read(".gitignore", 1 << 20)
    if _HIDDEN.encode() not in text.splitlines():
        gap = b"" if not text or text.endswith(b"\n") else b"\n"
        write_whole(os.path.join(root, ".gitignore"), text + gap + _HIDDEN.encode() + b"\n")
