"""Where a server is reached: an address of this machine, and the names that mean it."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from retain.errors import RetainError, UsageError
from retain.httpd import token as tokens

__all__ = ["Address", "take"]

_HERE: Final = ("127.0.0.1", "localhost", "[::1]")
_NAME: Final = re.compile(r"(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_TAKEN: Final = {
    errno.EADDRINUSE: "another program uses it",
    errno.EACCES: "you may not use it",
    errno.EADDRNOTAVAIL: "it is no address of this machine",
}


class Address(NamedTuple):
    """A socket that listens, the token for it, and how requests may call it."""

    sock: socket.socket
    url: str
    token: str
    hosts: frozenset[str]
    origins: frozenset[str]
    is_ours: bool  # nobody else's machine can reach it


def take(host: str, port: int, allow: Collection[str] = ()) -> Address:
    """Listen at an address; one that others can reach needs a token that its owner knows of."""
    family, address = _resolved(host, port)
    is_ours = ipaddress.ip_address(address[0].partition("%")[0]).is_loopback
    extra = {_allowed(name) for name in allow}
    secret = tokens.token(os.environ) if is_ours else _agreed(host)
    sock = _bound(family, address, host)
    port = sock.getsockname()[1]
    names = _names({host, address[0]}, port) | extra | {_with_port(name, port) for name in extra}
    origins = {f"{scheme}://{name}" for name in names for scheme in ("http", "https")}
    url = f"http://{_bracketed(host)}:{port}"
    return Address(sock, url, secret, frozenset(names), frozenset(origins), is_ours)


def _resolved(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    """The address to serve at; what counts is where it leads and not what it is called."""
    try:
        if not host:
            raise UsageError("--host needs a name or an address")
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is no address of this machine: {error}") from None
    family, _, _, _, address = found[0]
    return family, address


def _agreed(host: str) -> str:
    """The token for a server that others can reach: one that its owner knows of."""
    found = tokens.kept(os.environ)
    if not found:
        raise RetainError(
            f"{host} can be reached from other machines, and there is no token yet",
            unchanged="Nothing was started.",
            hint="Make one with `retain mcp token`, or leave out --host.",
        )
    return found


def _bound(family: int, address: tuple[Any, ...], host: str) -> socket.socket:
    """A socket that listens already, so that a port is taken or not before anything is said."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except OSError as error:
        sock.close()
        reason = _TAKEN.get(error.errno or 0, error.strerror)
        raise RetainError(
            f"cannot serve at {_bracketed(host)}:{address[1]}: {reason}",
            unchanged="Nothing was started.",
            hint="Choose another with --port N; --port 0 takes any that is free.",
        ) from None
    return sock


def _names(hosts: set[str], port: int) -> set[str]:
    """The Host headers that mean this server; never 0.0.0.0, which a web page can ask for."""
    here = {*_HERE, *map(_bracketed, hosts)} - {"0.0.0.0", "[::]"}  # noqa: S104 - not bound
    names = {f"{name.lower()}:{port}" for name in here}
    return names | {name.lower() for name in here} if port == 80 else names


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _allowed(name: str) -> str:
    name = name.lower()
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--allow-host {name!r} is no name of a host",
            hint="It is NAME or NAME:PORT, as clients write it in their URL.",
        )
    return name


def _with_port(name: str, port: int) -> str:
    return name if re.search(r":[0-9]+$", name) else f"{name}:{port}"
