"""A server in a process of its own: every request gets an answer, whatever is asked of it."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import undertaker
from tests.conftest import own_world

TOKEN = "a-token-of-these-tests-0123456789"
SERVER = """
    import sys
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route
    from retain.httpd.address import listen
    from retain.httpd.security import Limits, SecurityMiddleware, bearer
    from retain.httpd.server import run

    async def hello(request):
        return PlainTextResponse("hello")

    address = listen("127.0.0.1", 0)
    limits = Limits(**eval(sys.argv[1]))
    app = SecurityMiddleware(
        Starlette(routes=[Route("/", hello)]), bearer(address.token), address.hosts,
        address.origins, limits,
    )
    run(app, address.socks, limits, ready=lambda: print(address.port, flush=True),
        ending=lambda: None, cleanup=lambda: None)
"""


@contextlib.contextmanager
def server(home: Path, **limits: float) -> Iterator[int]:
    """Start a server; its port."""
    home.mkdir(exist_ok=True)
    code = "\n".join(line[4:] for line in SERVER.splitlines())
    env = {**os.environ, **own_world(home), "RETAIN_MCP_TOKEN": TOKEN}
    process = subprocess.Popen(
        [sys.executable, "-c", code, repr(limits)],
        env=env,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    undertaker.minds(process.pid)
    try:
        assert process.stdout
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()
        undertaker.lets_go(process.pid)


async def ask(port: int, barrier: asyncio.Event | None = None) -> int:
    """The status of the answer to one request on a connection of its own; 0 for none."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if barrier:
            await barrier.wait()
        head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(head.encode())
        line = await reader.readline()
        writer.close()
        return int(line.split()[1])
    except (OSError, IndexError):
        return 0


async def burst(port: int, count: int) -> collections.Counter[int]:
    barrier = asyncio.Event()
    tasks = [asyncio.create_task(ask(port, barrier)) for _ in range(count)]
    barrier.set()
    return collections.Counter(await asyncio.gather(*tasks))


@pytest.mark.parametrize("count, allowed", [(200, {200}), (700, {200, 429, 503})])
def test_every_one_of_many_requests_at_once_is_answered(
    tmp_path: Path, count: int, allowed: set[int]
) -> None:
    with server(tmp_path / "home", burst=2_000) as port:
        statuses = asyncio.run(burst(port, count))
        assert set(statuses) <= allowed, statuses
        assert asyncio.run(ask(port)) in allowed  # and it goes on


def test_connections_that_say_nothing_are_closed_in_time(tmp_path: Path) -> None:
    async def scene(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        assert await ask(port) == 200  # in spite of them
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
        assert await ask(port) == 200

    with server(tmp_path / "home", seconds=0.5) as port:
        asyncio.run(scene(port))
