"""How soon the MCP server answers, and whether it stays small: `python bench/mcp.py`.

The handshake is timed from the start of the process to the answer to `initialize`, in rounds that
alternate with a server of the `mcp` package with one tool and nothing else. The soak sends calls
from eight clients, each with a server of its own, to one bank, and then looks for what is left.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 1.3  # times a bare server
CLIENTS = 8
BARE = """
import anyio
import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

async def tools(ctx, params):
    return t.ListToolsResult(tools=[t.Tool(name="echo", input_schema=schema)])

async def call(ctx, params):
    return t.CallToolResult(content=[t.TextContent(type="text", text=str(params.arguments["a"]))])

async def main():
    server = Server("bare", version="0", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""
RETAIN = [str(Path(sys.executable).with_name("retain")), "mcp"]
CLIENT = {"name": "bench", "version": "0"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


class Server:
    """A server over pipes, asked one thing at a time."""

    def __init__(self, words: Sequence[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=env["HOME"]
        )
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._number:
                return answer

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def greet(self) -> None:
        self.ask("initialize", **HELLO)
        self._send({"method": "notifications/initialized"})

    def rss(self) -> int:
        """Its memory now, in kilobytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(20)


def world(home: Path) -> dict[str, str]:
    """A person's environment with nothing in it but a home directory."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    run = home / ".run"
    run.mkdir(mode=0o700, exist_ok=True)
    return {**kept, "HOME": str(home), "XDG_RUNTIME_DIR": str(run), "OPENBLAS_NUM_THREADS": "1"}


# The handshake


def handshake(rounds: int, home: Path) -> None:
    cases = {"bare server": [sys.executable, "-c", BARE], "retain mcp": RETAIN}
    env = world(home)
    times: dict[str, list[float]] = {name: [] for name in cases}
    cpu: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, words in cases.items():
            start = time.perf_counter()
            server = Server(words, env)
            server.greet()
            took, used = time.perf_counter() - start, _cpu(server.process.pid)
            server.end()
            if number:  # the first round fills the caches
                times[name].append(took)
                cpu[name].append(used)
    print("| server | median ms | best ms | processor ms | x bare (median) | x bare (best) |")
    print("|---|---|---|---|---|---|")
    floor, least = statistics.median(times["bare server"]), min(times["bare server"])
    for name, found in times.items():
        median, best = statistics.median(found), min(found)
        print(
            f"| {name} | {median * 1000:.0f} | {best * 1000:.0f} "
            f"| {statistics.median(cpu[name]) * 1000:.0f} "
            f"| {median / floor:.2f} | {best / least:.2f} |"
        )
    ratio = statistics.median(times["retain mcp"]) / floor
    verdict = "ok" if ratio <= LIMIT else "MISSED"
    print(f"limit {LIMIT} times a bare server: {verdict} ({ratio:.2f}, {rounds} rounds)")


def _cpu(pid: int) -> float:
    """Seconds of processor time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# The soak


class Soaked(NamedTuple):
    """What one client saw."""

    errors: list[str]
    times: list[float]
    rss: list[int]
    code: int


def soak(calls: int, home: Path) -> None:
    env = world(home)
    bank = str(home / "bank")
    subprocess.run([RETAIN[0], "init", "--bank", bank], env=env, check=True, capture_output=True)
    before = _processes()
    found: list[Soaked] = []
    threads = [
        threading.Thread(
            target=lambda one=one: found.append(_client(one, calls // CLIENTS, bank, env))
        )
        for one in range(CLIENTS)
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    times = sorted(took for one in found for took in one.times)
    print("| calls | clients | errors | seconds | p50 ms | p99 ms | RSS MB start | middle | end |")
    print("|---|---|---|---|---|---|---|---|---|")
    rss = [max(one.rss[at] for one in found) / 1024 for at in range(3)]
    errors = [error for one in found for error in one.errors]
    print(
        f"| {len(times):,} | {CLIENTS} | {len(errors)} | {seconds:.0f} "
        f"| {times[len(times) // 2] * 1000:.0f} | {times[int(len(times) * 0.99)] * 1000:.0f} "
        f"| {rss[0]:.0f} | {rss[1]:.0f} | {rss[2]:.0f} |"
    )
    left = sorted(_processes() - before)
    kinds = (".sock", "-wal", "-shm", ".tmp")
    stray = [str(path) for path in home.rglob("*") if path.is_socket() or path.name.endswith(kinds)]
    codes = sorted({one.code for one in found})
    print(f"exit codes {codes}, processes left {len(left)}, sockets and files left {stray}")
    for error in errors[:5]:
        print(error)
    if errors or left or stray or codes != [0]:
        sys.exit("the soak left something behind")


def _client(number: int, calls: int, bank: str, env: dict[str, str]) -> Soaked:
    server = Server([*RETAIN, "--bank", bank], env)
    server.greet()
    seen = Soaked([], [], [], 0)
    marks = {calls // 10, calls // 2, calls - 1}
    for at in range(calls):
        name, args = _call(number, at)
        start = time.perf_counter()
        answer = server.ask("tools/call", name=name, arguments=args)
        seen.times.append(time.perf_counter() - start)
        result = answer.get("result", {"isError": True})
        if result["isError"]:
            seen.errors.append(f"{name}: {json.dumps(answer)[:300]}")
        if at in marks:
            seen.rss.append(server.rss())
    return seen._replace(code=server.end())


def _call(number: int, at: int) -> tuple[str, dict[str, Any]]:
    """The next call of a client: a memory is made, added to, read, searched for and briefed of."""
    name = f"c{number}-{at // 6}"
    text = f"Client {number} noted at {at} that the harbour lantern {name} burns whale oil."
    turns: list[tuple[str, dict[str, Any]]] = [
        ("create_memory", {"filename": name, "content": text, "tags": [f"client-{number}"]}),
        ("search_memories", {"query": f"lantern {name}"}),
        ("append_memory", {"filename": name, "content": f"More about [[src/{name}.py]]."}),
        ("read_memory", {"filename": name}),
        ("get_brief", {"query": "which lantern burns whale oil"}),
        ("list_memories", {"limit": 20}),
    ]
    return turns[at % 6]


def _processes() -> set[int]:
    """The servers that run now."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"mcp" in words and RETAIN[0].encode() in words:
            found.add(int(path.parent.name))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=1000)
    args = parser.parse_args()
    for work, number in ((handshake, args.rounds), (soak, args.calls)):
        with tempfile.TemporaryDirectory() as home:
            work(number, Path(home))


if __name__ == "__main__":
    main()
