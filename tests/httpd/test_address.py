"""Where a server listens: one port at every address that `localhost` leads to, or none."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from retain.errors import RetainError
from retain.httpd.address import Address, is_free, listen, loopbacks

has_ipv6 = pytest.mark.skipif("::1" not in loopbacks(), reason="this machine has no IPv6")


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[Address]:
    address = listen(host, port)
    try:
        yield address
    finally:
        for sock in address.socks:
            sock.close()


def names(address: Address) -> set[tuple[str, int]]:
    return {sock.getsockname()[:2] for sock in address.socks}


@has_ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_one_port_is_taken_at_every_loopback_address(host: str) -> None:
    with listening(host, 0) as address:
        assert names(address) == {("127.0.0.1", address.port), ("::1", address.port)}
        assert address.url.endswith(f":{address.port}")
        # Only where the protocol is named does asyncio switch Nagle's algorithm off.
        assert {sock.proto for sock in address.socks} == {socket.IPPROTO_TCP}


@has_ipv6
@pytest.mark.parametrize("held", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_at_one_address_is_taken(held: str) -> None:
    family = socket.AF_INET6 if ":" in held else socket.AF_INET
    with socket.create_server((held, 0), family=family) as stranger:
        port = stranger.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        with pytest.raises(RetainError, match=r"(127\.0\.0\.1|\[::1\]):\d+: another program"):
            listen("127.0.0.1", port)
    with listening("127.0.0.1", port):  # nothing of what was refused is still held
        assert not is_free("127.0.0.1", port)
    assert is_free("127.0.0.1", port)


@has_ipv6
@pytest.mark.parametrize("refusals", [3, 1_000])
def test_any_free_port_is_one_that_is_free_at_every_address(
    monkeypatch: pytest.MonkeyPatch, refusals: int
) -> None:
    ports: list[int] = []

    class Busy(socket.socket):
        def bind(self, where: Any) -> None:
            if self.family == socket.AF_INET6 and len(ports) < refusals:
                ports.append(where[1])
                raise OSError(errno.EADDRINUSE, "in use")
            super().bind(where)

    monkeypatch.setattr("retain.httpd.address.socket.socket", Busy)
    if refusals > 3:
        with pytest.raises(RetainError, match=r"\[::1\]"):
            listen("127.0.0.1", 0)
    else:
        with listening("127.0.0.1", 0) as address:
            assert names(address) == {("127.0.0.1", address.port), ("::1", address.port)}


@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_a_machine_without_ipv6_has_one_address(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    class Old(socket.socket):
        def __init__(self, family: int = -1, type: int = -1, proto: int = -1) -> None:
            if family == socket.AF_INET6:
                raise OSError(code, "no such family here")
            super().__init__(family, type, proto)

    monkeypatch.setattr("retain.httpd.address.socket.socket", Old)
    assert loopbacks() == ["127.0.0.1"]
    with listening("127.0.0.1", 0) as address:
        assert names(address) == {("127.0.0.1", address.port)}
    assert is_free("127.0.0.1", address.port)
