"""The server reached as an agent reaches it: in memory, over pipes, over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, Any, Literal

import httpx2
import mcp_types as wire
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from retain.app import App
from retain.mcp.server import Memory, build
from tests.conftest import command

Mode = Literal["auto", "legacy"]

TRANSPORTS = ("memory", "stdio", "http")
MODES: tuple[Mode, ...] = ("auto", "legacy")
TOKEN = "a-token-for-tests-only"
AGENT = wire.Implementation(name="test-agent", version="7")


@contextlib.asynccontextmanager
async def connected(
    transport: str = "memory", mode: Mode = "auto", *, tools: str = "all", **options: Any
) -> AsyncIterator[Client]:
    """A client of a server for the bank of the test's own directory."""
    given: dict[str, Any] = {"mode": mode, "cache": None, "client_info": AGENT, **options}
    if transport == "memory":
        memory = Memory(lambda: App(stays=True))
        try:
            async with Client(build(memory, tools=tools), **given) as client:
                yield client
        finally:
            memory.close()
    elif transport == "stdio":
        first, *rest = command()
        params = StdioServerParameters(
            command=first, args=[*rest, "mcp", "--tools", tools], env=dict(os.environ)
        )
        async with Client(params, **given) as client:
            yield client
    else:
        with over_http("--tools", tools) as url:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(streamable_http_client(url, http_client=http), **given) as client,
            ):
                yield client


@contextlib.contextmanager
def over_http(*words: str) -> Iterator[str]:
    """The address of `retain mcp --http`, a process that ends with the block."""
    process = subprocess.Popen(
        [*command(), "mcp", "--http", "--port", "0", *words],
        env={**os.environ, "RETAIN_MCP_TOKEN": TOKEN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said + process.stderr.read()
            yield found[0]
        finally:
            process.terminate()
            process.wait(60)


async def call(client: Client, name: str, /, **args: Any) -> dict[str, Any]:
    """What a tool answers; it must not refuse."""
    result = await client.call_tool(name, args)
    assert not result.is_error, said(result)
    assert result.structured_content is not None
    return dict(result.structured_content)


async def refused(client: Client, name: str, /, **args: Any) -> str:
    """The words with which a tool refuses."""
    result = await client.call_tool(name, args)
    assert result.is_error, said(result)
    assert result.structured_content is None
    return said(result)


def said(result: wire.CallToolResult) -> str:
    """The text of a result; a note may follow it."""
    content = result.content[0]
    assert isinstance(content, wire.TextContent)
    return content.text


class Pipes:
    """`retain mcp` as a host runs it, with messages written and read by hand."""

    def __init__(self, *words: str, program: list[str] | None = None, **env: str) -> None:
        self.process = subprocess.Popen(
            program or [*command(), "mcp", *words],
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
            | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def send(self, method: str, number: int | None = None, /, **params: Any) -> None:
        """One message; a request if it has a number."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message; whatever is none fails."""
        answer: dict[str, Any] = json.loads(self.stdout.readline())
        assert answer["jsonrpc"] == "2.0"
        return answer

    def greet(self) -> dict[str, Any]:
        """The handshake."""
        self.send(
            "initialize",
            0,
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "pipes", "version": "0"},
        )
        answer = self.receive()
        self.send("notifications/initialized")
        return answer

    def call(self, name: str, number: int, /, **args: Any) -> None:
        self.send("tools/call", number, name=name, arguments=args)

    def end(self, timeout: float = 30) -> tuple[int, bytes, bytes]:
        """How the process ended: its code, and what it said last on either stream."""
        code = self.process.wait(timeout)
        assert self.process.stderr is not None
        out = b"" if self.stdout.closed else self.stdout.read()
        return code, out, self.process.stderr.read()

    def __enter__(self) -> Pipes:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()


def files(root: Path) -> dict[str, bytes]:
    """Every file below a directory, but for the index."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".local" not in path.parts
    }
