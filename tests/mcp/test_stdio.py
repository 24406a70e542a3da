"""The server as a host's child: it ends with the host, and its wire has only the protocol."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retain.app import App
from tests.mcp.door import Pipes

pytestmark = pytest.mark.slow

PROMPT = 30.0  # seconds; a hang is what is looked for, on machines that are busy
SLOW = """
import sys, time
sys.argv = ["retain", "mcp"]
from retain.mcp import tools
from retain.app import App
def slow(call):
    open("started", "w", encoding="utf-8").close()
    time.sleep(60)
    return {}
tools.TOOLS["get_memory_stats"].function = slow
from retain.cli import main
main()
"""
NOISY = """
import os, subprocess, sys, warnings
sys.argv = ["retain", "mcp"]
from retain.mcp import tools
def noisy(call):
    print("a stray print", flush=True)
    print("one that is held back")
    os.write(1, b"past every buffer\\n")
    sys.stdout.write("another way")
    subprocess.run(["echo", "a child's word"], check=True)
    subprocess.run(["cat"], check=True)  # whose input is not the client's
    return {"count": 0, "total_size": "", "tags": {}, "types": {}, "memory_path": ""}
tools.TOOLS["get_memory_stats"].function = noisy
from retain.cli import main
main()
"""


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    App().init()
    return home / "work" / ".retain"


def serving(code: str) -> Pipes:
    return Pipes(program=[sys.executable, "-c", code])


def ended(server: Pipes, expected: int = 0) -> bytes:
    """What the process said on standard error before it ended, in time and in order."""
    start = time.monotonic()
    code, out, err = server.end(PROMPT)
    assert (code, out) == (expected, b""), err
    assert time.monotonic() - start < PROMPT
    return err


# The end


def test_end_of_input_is_the_end() -> None:
    with Pipes() as server:
        server.greet()
        server.stdin.close()
        assert ended(server) == b""


def test_end_of_input_before_the_first_word_is_the_end() -> None:
    with Pipes() as server:
        server.stdin.close()
        assert ended(server) == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it(number: signal.Signals) -> None:
    with Pipes() as server:
        server.greet()
        server.call("list_memories", 1)
        server.receive()
        server.process.send_signal(number)
        assert ended(server) == b""


@pytest.mark.parametrize("how", ["eof", "term"])
def test_a_call_under_way_does_not_hold_it_up(how: str, bank: Path) -> None:
    with serving(SLOW) as server:
        server.greet()
        server.call("get_memory_stats", 1)
        while not Path("started").exists():
            time.sleep(0.01)
        start = time.monotonic()
        if how == "eof":
            server.stdin.close()
        else:
            server.process.terminate()
        server.process.wait(PROMPT)
        assert time.monotonic() - start < PROMPT


def test_a_client_that_closes_only_its_ear_is_gone() -> None:
    with Pipes() as server:
        server.greet()
        server.stdout.close()
        server.call("list_memories", 1)
        assert server.process.wait(PROMPT) == 0
        assert server.process.stderr is not None
        assert b"Traceback" not in server.process.stderr.read()


def test_a_killed_client_leaves_no_server(tmp_path: Path) -> None:
    """The host starts the server and is killed before it can say anything."""
    host = """
import subprocess, sys, time
from tests.mcp.door import Pipes
server = Pipes()
server.greet()
print(server.process.pid, flush=True)
time.sleep(60)
"""
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(
        [sys.executable, "-c", host],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
    end = time.monotonic() + PROMPT
    while _is_alive(pid):
        assert time.monotonic() < end, "the server outlived its host"
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_left_behind(bank: Path) -> None:
    with Pipes() as server:
        server.greet()
        server.call("create_memory", 1, filename="a", content="text")
        server.receive()
        server.stdin.close()
        server.process.wait(PROMPT)
    names = {path.name for path in bank.rglob("*")}
    assert not {name for name in names if name.endswith((".tmp", ".sock", "-wal", "-shm"))}
    assert App().get("a").body == "text"


@pytest.mark.parametrize(
    "tool, count", [("read_memory", 40), ("n" * 100, 600)], ids=["long", "short"]
)
def test_a_client_that_stops_reading_cannot_keep_it_from_ending(
    bank: Path, tool: str, count: int
) -> None:
    App().put("x" * 50_000, id="long")
    with Pipes() as server:
        server.greet()
        for number in range(1, count):
            server.call(tool, number, filename="long")
        time.sleep(1.0)  # until the pipe is full
        server.process.terminate()
        assert server.process.wait(PROMPT) == 0


# The wire


def test_only_the_protocol_is_on_the_wire() -> None:
    with serving(NOISY) as server:
        server.greet()
        for number in (1, 2):
            server.call("get_memory_stats", number)
            assert server.receive()["id"] == number
        server.stdin.close()
        err = ended(server)
    for text in (b"stray print", b"past every buffer", b"child's"):
        assert err.count(text) == 2


def test_it_serves_without_standard_error() -> None:
    command = Pipes.__init__.__globals__["command"]()
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command, "mcp"]
    with Pipes(program=shell) as server:
        server.greet()
        server.call("list_memories", 1)
        assert server.receive()["id"] == 1
        server.stdin.close()
        assert server.process.wait(PROMPT) == 0


@pytest.mark.parametrize(
    "line", [b"garbage", b"{}", b"[]", b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"", b"[" * 5000]
)
def test_what_is_no_message_hurts_nobody(line: bytes) -> None:
    with Pipes() as server:
        server.greet()
        server.write(line + b"\n")
        server.send("ping", 7)
        answers = [server.receive()]
        if answers[-1].get("id") != 7:
            assert "error" in answers[-1]
            answers.append(server.receive())
        assert answers[-1]["id"] == 7
        assert "result" in answers[-1]
        server.stdin.close()
        ended(server)


def test_a_message_that_is_too_long_is_refused_and_the_next_one_heard() -> None:
    with Pipes() as server:
        server.greet()
        server.call("create_memory", 5, filename="a", content="x" * 4_000_000)
        assert server.receive()["result"]["isError"]
        server.call("list_memories", 6)
        assert server.receive()["result"]["structuredContent"]["total"] == 0
        server.stdin.close()
        ended(server)


def test_a_long_answer_comes_whole(bank: Path) -> None:
    App().put("ü" * 59_000, id="long")
    with Pipes() as server:
        server.greet()
        server.call("read_memory", 1, filename="long")
        assert "ü" * 59_000 in server.receive()["result"]["structuredContent"]["content"]
        server.stdin.close()
        ended(server)


def test_numbers_that_are_none_are_refused() -> None:
    with Pipes() as server:
        server.greet()
        for number, bad in enumerate((b"NaN", b"Infinity", b"1e400"), 1):
            server.write(
                b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":'
                b'"suggest_memory_merges","arguments":{"threshold":%s}}}\n' % (number, bad)
            )
            server.send("ping", 100 + number)
            answer = server.receive()
            if answer["id"] == number:  # otherwise it was no JSON, and is not answered
                assert "error" in answer or answer["result"]["isError"]
                answer = server.receive()
            assert answer["id"] == 100 + number


def test_a_split_message_is_waited_for() -> None:
    with Pipes() as server:
        server.greet()
        text = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        server.write(text[:20])
        assert not select.select([server.stdout], [], [], 0.2)[0]
        server.write(text[20:])
        assert server.receive()["id"] == 1
