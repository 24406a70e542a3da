"""Processes that listen, as an MCP server or `retain serve` does, and what one can do to them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from retain.app import App
from retain.daemon import client
from retain.daemon.server import Server
from tests.conftest import command

# A host's server: it starts at once, takes the socket when it can, and ends with its input.
HOST = """
import sys, threading
from retain.app import App
from retain.daemon.server import Server
app = App(bank=sys.argv[1], stays=True)
server = Server(app, threading.RLock())
server.start()
print("started", flush=True)
sys.stdin.read()
server.stop()
app.close()
"""


@contextlib.contextmanager
def running(*words: str, umask: int = -1, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that has said its first line."""
    child = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        umask=umask,
        **settings,
    )
    with child:
        try:
            assert child.stdout
            assert child.stdout.readline(), child.stderr and child.stderr.read()
            yield child
        finally:
            child.kill()


@contextlib.contextmanager
def host(bank: str, umask: int = -1) -> Iterator[subprocess.Popen[str]]:
    """A process with a Server that waits for its turn."""
    with running(sys.executable, "-c", HOST, bank, umask=umask) as child:
        yield child


@contextlib.contextmanager
def serve(bank: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A `retain serve` that listens."""
    with running(*command(), "serve", "--bank", bank, *words) as child:
        yield child


@contextlib.contextmanager
def listening(bank: str) -> Iterator[str]:
    """A new bank that this very process listens for."""
    App(bank=bank).init()
    app = App(bank=bank, stays=True)
    server = Server(app, threading.RLock())
    try:
        assert server.take()
        server.warm_up()
        server.start()
        yield bank
    finally:
        server.stop()
        app.close()


def end(child: subprocess.Popen[str], signal: int | None = None) -> tuple[int, str]:
    """End a process, by a signal or with its input; its code and what it said on standard error."""
    if signal is not None:
        child.send_signal(signal)
    _, errors = child.communicate(timeout=60)
    return child.returncode, errors


def holder(bank: str) -> int | None:
    """The process that answers for a bank."""
    answer = client.ask(bank, {"op": "ping"}, 5)
    return int(answer["pid"]) if answer else None


def soon(is_so: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether something comes true in time."""
    give_up = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def raw(bank: str) -> socket.socket:
    """A connection to whoever listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(30)
    connection.connect(client.socket_path(bank))
    return connection


def said(bank: str, data: bytes) -> dict[str, Any] | None:
    """What is answered to these bytes; None when the connection is closed without a word."""
    with raw(bank) as connection:
        with contextlib.suppress(OSError):  # closed before it has heard everything
            connection.sendall(data)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                answer += part
    return json.loads(answer) if answer else None


def left(bank: str) -> list[str]:
    """The endings of what a warm process has put into its directory, but for the lock."""
    directory, name = os.path.split(client.socket_path(bank))
    stem = name.partition(".")[0]
    if not os.path.isdir(directory):
        return []
    names = [one for one in os.listdir(directory) if one.startswith(stem)]
    return sorted(one[len(stem) :] for one in names if not one.endswith(".lock"))
