"""Where a server listens: one port at every address that `localhost` leads to, or none."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from retain.errors import RetainError
from retain.httpd import address
from retain.httpd.address import Address, is_free, loopbacks, take

has_ipv6 = pytest.mark.skipif("::1" not in loopbacks(), reason="this machine has no IPv6")


@contextlib.contextmanager
def taken(host: str, port: int) -> Iterator[Address]:
    found = take(host, port)
    try:
        yield found
    finally:
        for sock in found.socks:
            sock.close()


def names(found: Address) -> list[tuple[str, int]]:
    return [sock.getsockname()[:2] for sock in found.socks]


@has_ipv6
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_one_port_is_taken_at_every_loopback_address(host: str) -> None:
    with taken(host, 0) as found:
        assert set(names(found)) == {("127.0.0.1", found.port), ("::1", found.port)}
        assert found.url.endswith(f":{found.port}")


@has_ipv6
@pytest.mark.parametrize("held", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_at_one_address_is_taken(held: str) -> None:
    family = socket.AF_INET6 if ":" in held else socket.AF_INET
    with socket.create_server((held, 0), family=family) as stranger:
        port = stranger.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        with pytest.raises(RetainError, match=r"(127\.0\.0\.1|\[::1\]):\d+: another program"):
            take("127.0.0.1", port)
    with taken("127.0.0.1", port):  # nothing of what was refused is still held
        assert not is_free("127.0.0.1", port)
    assert is_free("127.0.0.1", port)


@has_ipv6
def test_any_free_port_is_one_that_is_free_at_every_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted: list[int] = []
    listening = address._listening

    def unlucky(family: int, where: tuple[Any, ...]) -> socket.socket:
        if family == socket.AF_INET6 and len(wanted) < 3:
            wanted.append(where[1])
            raise RetainError("another program uses it")
        return listening(family, where)

    monkeypatch.setattr(address, "_listening", unlucky)
    with taken("127.0.0.1", 0) as found:
        assert len(wanted) == 3
        assert set(names(found)) == {("127.0.0.1", found.port), ("::1", found.port)}


@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_a_machine_without_ipv6_has_one_address(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    class Old(socket.socket):
        def __init__(self, family: int = -1, type: int = -1, proto: int = -1) -> None:
            if family == socket.AF_INET6:
                raise OSError(code, "no such family here")
            super().__init__(family, type, proto)

    monkeypatch.setattr("retain.httpd.address.socket.socket", Old)
    assert loopbacks() == ["127.0.0.1"]
    with taken("127.0.0.1", 0) as found:
        assert names(found) == [("127.0.0.1", found.port)]
    assert is_free("127.0.0.1", found.port)


def test_an_address_that_is_in_use_is_not_an_absent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a machine that has no such address may do without it."""

    class Busy(socket.socket):
        def bind(self, where: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(errno.EADDRINUSE, "in use")
            super().bind(where)

    monkeypatch.setattr("retain.httpd.address.socket.socket", Busy)
    assert loopbacks() == ["127.0.0.1", "::1"]
    with pytest.raises(RetainError, match=r"\[::1\]"):
        take("127.0.0.1", 0)


def test_answers_in_parts_do_not_wait_for_one_another() -> None:
    """Only where the protocol is named does asyncio switch Nagle's algorithm off."""
    with taken("127.0.0.1", 0) as found:
        assert {sock.proto for sock in found.socks} == {socket.IPPROTO_TCP}
