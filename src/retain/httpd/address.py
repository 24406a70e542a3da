"""Where a server is reached: an address of this machine, and the names that mean it."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import socket
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from retain.errors import RetainError, UsageError
from retain.httpd import token as tokens

_HERE: Final = ("127.0.0.1", "localhost", "[::1]")
_NAME: Final = re.compile(r"(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_LOOPBACKS: Final = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}
_ABSENT: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_TRIES: Final = 20  # to find a port that is free at every address
_TAKEN: Final = {
    errno.EADDRINUSE: "another program uses it",
    errno.EACCES: "you may not use it",
    errno.EADDRNOTAVAIL: "it is no address of this machine",
}


class Address(NamedTuple):
    """Sockets that listen at one port, the token for it, and how requests may call it."""

    socks: list[socket.socket]
    port: int
    url: str
    token: str
    hosts: frozenset[str]
    origins: frozenset[str]
    is_ours: bool  # nobody else's machine can reach it


_Where = tuple[int, tuple[Any, ...]]  # the family of an address, and the address


def take(host: str, port: int, allow: Collection[str] = ()) -> Address:
    """Listen at an address; one that others can reach needs a token that its owner knows of."""
    where = _resolved(host, port)
    address = where[1][0]
    is_ours = ipaddress.ip_address(address.partition("%")[0]).is_loopback
    extra = {_allowed(name) for name in allow}
    secret = tokens.token(os.environ) if is_ours else _agreed(host)
    socks = _bound(_every(where))
    port = socks[0].getsockname()[1]
    names = _names({host, address}, port) | extra | {_with_port(name, port) for name in extra}
    origins = {f"{scheme}://{name}" for name in names for scheme in ("http", "https")}
    url = f"http://{_bracketed(host)}:{port}"
    return Address(socks, port, url, secret, frozenset(names), frozenset(origins), is_ours)


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    try:
        socks = _bound(_every(_resolved(host, port)))
    except RetainError:
        return False
    for sock in socks:
        sock.close()
    return True


def loopbacks() -> list[str]:
    """The addresses that `localhost` and names below it lead to on this machine.

    Clients try them in an order of their own: whoever held one of them beside us would be sent
    what is meant for us. So a server has its port at all of them, or another port.
    """
    return [address for address, family in _LOOPBACKS.items() if _exists(family, address)]


def _exists(family: int, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind((address, 0))
    except OSError as error:
        return error.errno not in _ABSENT
    return True


def _every(where: _Where) -> list[_Where]:
    """The address, and with one that `localhost` leads to, the others that it leads to as well."""
    _, (address, port, *_) = where
    more = loopbacks() if address in _LOOPBACKS else []
    return [where, *((_LOOPBACKS[one], (one, port)) for one in more if one != address)]


def _resolved(host: str, port: int) -> _Where:
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


def _bound(places: Sequence[_Where]) -> list[socket.socket]:
    """Sockets with one port; where any will do, it is one that is free at every address."""
    for _ in range(0 if places[0][1][1] else _TRIES):
        with contextlib.suppress(RetainError):
            return _together(places)
    return _together(places)


def _together(places: Sequence[_Where]) -> list[socket.socket]:
    socks: list[socket.socket] = []
    try:
        for family, (address, port, *more) in places:
            same = socks[0].getsockname()[1] if socks else port
            socks.append(_listening(family, (address, same, *more)))
    except RetainError:
        for sock in socks:
            sock.close()
        raise
    return socks


def _listening(family: int, address: tuple[Any, ...]) -> socket.socket:
    """A socket that listens already, so that a port is taken or not before anything is said."""
    # With the protocol left open, asyncio would not know for TCP what it accepts, and leave Nagle's
    # algorithm on: an answer in two parts would take 40 ms longer.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except OSError as error:
        sock.close()
        reason = _TAKEN.get(error.errno or 0, error.strerror)
        raise RetainError(
            f"cannot serve at {_bracketed(address[0])}:{address[1]}: {reason}",
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
