"""Where a server is reached: an address of this machine, and the names that mean it."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import re
import socket
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from retain.errors import RetainError, UsageError
from retain.httpd import token as tokens

_LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_NAME: Final = re.compile(r"(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_LOOPBACKS: Final = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}
_TRIES: Final = 20  # to find a port that is free at every address
_REASONS: Final = {
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
    is_ours: bool  # no other machine can reach it


def listen(host: str, port: int, allow: Collection[str] = ()) -> Address:
    """Listen at an address; one that others can reach needs a token that its owner knows of."""
    family, where = _resolve(host, port)
    is_ours = ipaddress.ip_address(where[0].partition("%")[0]).is_loopback
    for name in allow:
        if not _NAME.fullmatch(name.lower()):
            raise UsageError(
                f"--allow-host {name.lower()!r} is no name of a host",
                hint="It is NAME or NAME:PORT, as clients write it in their URL.",
            )
    secret = tokens.make_token(os.environ) if is_ours else tokens.read_token(os.environ)
    if not secret:
        raise RetainError(
            f"{host} can be reached from other machines, and there is no token yet",
            unchanged="Nothing was started.",
            hint="Make one with `retain mcp token`, or leave out --host.",
        )
    socks = _bind(family, where)
    port = socks[0].getsockname()[1]
    names = _host_headers({host, where[0]}, port, [name.lower() for name in allow])
    origins = {f"{scheme}://{name}" for name in names for scheme in ("http", "https")}
    url = f"http://{_bracket(host)}:{port}"
    return Address(socks, port, url, secret, frozenset(names), frozenset(origins), is_ours)


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    try:
        socks = _bind(*_resolve(host, port))
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
    found = []
    for address, family in _LOOPBACKS.items():
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.bind((address, 0))
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue
        found.append(address)
    return found


def _resolve(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    """The family and the address to serve at: what counts is where a name leads."""
    if not host:
        raise UsageError("--host needs a name or an address")
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is no address of this machine: {error}") from None
    return family, where


def _bind(family: int, where: tuple[Any, ...]) -> list[socket.socket]:
    """Listen at an address; at one that `localhost` leads to, at the others as well."""
    address, port, *_ = where
    others = [one for one in loopbacks() if one != address] if address in _LOOPBACKS else []
    tries = 1 if port else _TRIES
    while True:
        tries -= 1
        with contextlib.ExitStack() as undo:
            try:
                socks = [undo.enter_context(_listen_at(family, where))]
                same = socks[0].getsockname()[1]
                for other in others:
                    sock = _listen_at(_LOOPBACKS[other], (other, same))
                    socks.append(undo.enter_context(sock))
            except RetainError:
                if not tries:
                    raise
                continue
            undo.pop_all()
            return socks


def _listen_at(family: int, where: tuple[Any, ...]) -> socket.socket:
    # With the protocol left open, asyncio would not know that it accepts TCP, and leave Nagle's
    # algorithm on: an answer in two parts would take 40 ms longer.
    try:
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
            sock.listen(128)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise RetainError(
            f"cannot serve at {_bracket(where[0])}:{where[1]}: "
            f"{_REASONS.get(error.errno or 0, error.strerror)}",
            unchanged="Nothing was started.",
            hint="Choose another with --port N; --port 0 takes any that is free.",
        ) from None
    return sock


def _host_headers(hosts: set[str], port: int, allowed: Collection[str]) -> set[str]:
    """The Host headers that mean this server; never 0.0.0.0, which a web page can ask for."""
    local = {*_LOCAL_NAMES, *map(_bracket, hosts)} - {"0.0.0.0", "[::]"}  # noqa: S104 - not bound
    names = {f"{name.lower()}:{port}" for name in local}
    if port == 80:
        names |= {name.lower() for name in local}
    with_port = {name if re.search(r":[0-9]+$", name) else f"{name}:{port}" for name in allowed}
    return names | set(allowed) | with_port


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
