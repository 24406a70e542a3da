"""The bearer token of the servers: one per person, in a file that only they can read.

It lies in the person's own bank and never in a project's, where it could be committed or read by
everyone who has the project.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from typing import Final

from retain.bank.files import Directory, saving
from retain.bank.listing import make_bank
from retain.errors import ConfigError, NotFound, Unsafe, UsageError
from retain.locate import global_root

VARIABLE: Final = "RETAIN_MCP_TOKEN"
_NAME: Final = "mcp-token"
_MAX_BYTES: Final = 4_096
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")  # what a header can carry
_HINT: Final = "`retain mcp token --new` makes another one."


def token_path(env: Mapping[str, str]) -> str:
    """Where the token is kept."""
    return os.path.join(global_root(env), _NAME)


def make_token(env: Mapping[str, str], *, new: bool = False) -> str:
    """The token in force; made if there is none, or in place of the one there is."""
    if new and env.get(VARIABLE):
        raise UsageError(
            f"{VARIABLE} is set, and is used in place of any token that is kept",
            hint=f"Unset it first: unset {VARIABLE}",
        )
    if not new and (token := read_token(env)):
        return token
    path = token_path(env)
    make_bank(os.path.dirname(path))
    with saving(path), Directory.open(os.path.dirname(path)) as folder:
        _hide_from_git(folder)
        write = folder.put if new else folder.place  # of several at once, the first is everyone's
        write(_NAME, f"{secrets.token_urlsafe(32)}\n".encode())
    token = read_token(env)
    if not token:
        raise NotFound(f"{path} has just been deleted", hint=_HINT)
    return token


def read_token(env: Mapping[str, str]) -> str:
    """The token there is, empty if there is none; one that others could know is refused."""
    if token := env.get(VARIABLE, ""):
        return _check(token, VARIABLE)
    path = token_path(env)
    if not os.path.lexists(path):
        return ""
    with Directory.open(os.path.dirname(path)) as folder:
        try:
            data, facts = folder.read_with_facts(_NAME, _MAX_BYTES)
        except NotFound:
            return ""
    if facts.st_uid != os.geteuid():
        raise Unsafe(f"{path} belongs to another user", hint=_HINT)
    if facts.st_mode & 0o077:
        raise Unsafe(f"{path} can be read or written by others", hint=_HINT)
    return _check(data.decode("ascii", "replace").strip(), path)


def _check(token: str, source: str) -> str:
    if not _TOKEN.fullmatch(token):  # what it was is never said
        raise ConfigError(
            f"{source} holds no usable token: at least 16 letters, digits and -._~+/=", hint=_HINT
        )
    return token


def _hide_from_git(folder: Directory) -> None:
    """Keep the token out of the repository that a person may have made of their bank."""
    text = folder.read(".gitignore", 1 << 20)
    pattern = f"{_NAME}*".encode()
    if pattern not in text.splitlines():
        gap = b"" if not text or text.endswith(b"\n") else b"\n"
        folder.put(".gitignore", text + gap + pattern + b"\n")
