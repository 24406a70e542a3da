"""The HTTP door: who gets in, what it bears, and how it ends. Every server is a real process."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server

from retain.errors import RetainError
from retain.mcp.http import serve
from tests import undertaker
from tests.conftest import Run, command, own_world

TOKEN = "a-token-that-no-log-may-ever-hold-0123456789"
WELCOME = "Retain answers at http://"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - which is what is tested
ROUTES = ("/mcp", "/healthz")
ACCEPT = {"Accept": "application/json, text/event-stream"}
LIMITED = """
    import sys
    import time
    from pathlib import Path
    from retain.httpd.security import Limits
    from retain.mcp.http import serve
    from retain.mcp.server import Memory, build

    def opened():
        Path(sys.argv[1], "opened").touch()
        time.sleep(600)

    def cleanup():
        Path(sys.argv[1], "cleaned").touch()

    memory = Memory(opened)
    serve(build(memory), "127.0.0.1", 0, cleanup, limits=Limits(**eval(sys.argv[2])))
"""


class Served(NamedTuple):
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(60)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return self.ask("GET", path, headers=headers)

    def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        json: object = None,
    ) -> httpx2.Response:
        """A request with the token, unless other headers are given."""
        sent = {"Authorization": f"Bearer {TOKEN}"} if headers is None else dict(headers)
        # Without certificates, which take longer to load than all of a test.
        with httpx2.Client(transport=httpx2.HTTPTransport(verify=False), timeout=60) as http:
            return http.request(method, self.url + path, headers=sent, content=content, json=json)

    def raw(self, text: str, *more: bytes) -> str:
        """What comes back for these very bytes, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as sock:
            sock.sendall(text.replace("\n", "\r\n").encode("latin-1"))
            with contextlib.suppress(ConnectionError):
                for data in more:
                    sock.sendall(data)
            found = b""
            with contextlib.suppress(ConnectionError):
                while data := sock.recv(65_536):
                    found += data
        return found.decode("latin-1")


@contextlib.contextmanager
def started(*args: str, home: Path, token: str = TOKEN) -> Iterator[Served]:
    """A server in a process of its own, ended by its id."""
    (home / "work").mkdir(parents=True, exist_ok=True)
    log = home / "log"
    env = {**os.environ, **own_world(home), "RETAIN_MCP_TOKEN": token}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            args, env=env, cwd=home / "work", stdin=subprocess.DEVNULL, stderr=stderr
        )
    undertaker.minds(process.pid)
    try:
        yield Served(process, _port(process, log), log)
    finally:
        process.kill()
        process.wait()
        undertaker.lets_go(process.pid)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    for _ in range(1_200):
        text = log.read_text(encoding="utf-8")
        if found := re.search(rf"{WELCOME}\S+:(\d+)/mcp\n.*\n", text):
            return int(found[1])
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError("the server never came up")


def limited(home: Path, **limits: float) -> contextlib.AbstractContextManager[Served]:
    script = textwrap.dedent(LIMITED)
    return started(sys.executable, "-c", script, str(home), repr(limits), home=home)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that only look; its log is looked at when they are done."""
    home = tmp_path_factory.mktemp("served")
    with started(*command(), "mcp", "--http", "--port", "0", home=home) as server:
        yield server
        assert server.end() == 0
        said = server.said()
        assert TOKEN not in said
        assert len(said.splitlines()) == 2, said


def status(answer: str) -> int:
    return int(answer.split(" ", 2)[1]) if answer else 0


def hello(version: str = "2025-11-25") -> dict[str, object]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextlib.asynccontextmanager
async def client(served: Served, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(
            streamable_http_client(f"{served.url}/mcp", http_client=http), mode=mode, cache=None
        ) as one,
    ):
        yield one


# Who gets in


def test_who_has_the_token_gets_in(served: Served) -> None:
    answer = served.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers


@pytest.mark.parametrize("path", [*ROUTES, "/", "/nowhere", "/mcp/", "/.well-known/oauth"])
@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer wrong",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN}, Bearer {TOKEN}",
        f"Basic {TOKEN}",
        f"Token {TOKEN}",
        TOKEN,
    ],
)
def test_without_the_token_nothing_is_reached(served: Served, path: str, given: str) -> None:
    answer = served.get(path, {"Authorization": given} if given else {})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    error = answer.json()["error"]
    assert (error["code"], error["message"]) == ("no-token", "The token is missing or wrong")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ROUTES)
def test_no_method_is_exempt(served: Served, method: str, path: str) -> None:
    answer = served.ask(method, path, headers={})
    assert answer.status_code == 401
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ROUTES)
def test_a_token_in_the_address_or_given_twice_counts_for_nothing(
    served: Served, path: str
) -> None:
    assert served.get(f"{path}?token={TOKEN}&access_token={TOKEN}", {}).status_code == 401
    line = f"Authorization: Bearer {TOKEN}\n"
    host = f"Host: 127.0.0.1:{served.port}\n"
    assert status(served.raw(f"GET {path} HTTP/1.1\n{host}{line}{line}\n")) == 401
    wrong = "Authorization: Bearer wrong\n"
    assert status(served.raw(f"GET {path} HTTP/1.1\n{host}{line}{wrong}\n")) == 401
    assert status(served.raw(f"GET {path} HTTP/1.1\n{host}{wrong}{line}\n")) == 401


def test_the_scheme_may_be_written_in_any_case(served: Served) -> None:
    assert served.get("/healthz", {"Authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", [*ROUTES, "/nowhere"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:{port}",
        "localhost.evil.com:{port}",
        "127.0.0.1.evil.com:{port}",
        "localhost",
        "127.0.0.1",
        "127.0.0.1:1",
        "0.0.0.0:{port}",
        "[::]:{port}",
        "localhost.:{port}",
        "evil.com@localhost:{port}",
        "localhost:{port}@evil.com",
        "localhost:{port}, evil.com",
        "127.1:{port}",
        "",
    ],
)
def test_a_name_that_was_bent_to_this_machine_is_refused(
    served: Served, path: str, host: str
) -> None:
    given = host.format(port=served.port)
    answer = served.raw(
        f"GET {path} HTTP/1.1\nHost: {given}\nAuthorization: Bearer {TOKEN}\n"
        f"X-Forwarded-Host: localhost:{served.port}\nForwarded: host=localhost:{served.port}\n\n"
    )
    assert status(answer) == 421


def test_a_request_names_one_host(served: Served) -> None:
    line = f"Host: 127.0.0.1:{served.port}\n"
    rest = f"Authorization: Bearer {TOKEN}\n\n"
    assert status(served.raw(f"GET /healthz HTTP/1.0\n{rest}")) == 421
    assert status(served.raw(f"GET /healthz HTTP/1.1\n{rest}")) == 400
    assert status(served.raw(f"GET /healthz HTTP/1.1\n{line}Host: evil.com\n{rest}")) == 400


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_each_name_of_this_machine_will_do(served: Served, name: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": f"{name}:{served.port}"}
    assert served.get("/healthz", headers).status_code == 200


@pytest.mark.parametrize("path", [*ROUTES, "/nowhere"])
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.com",
        "http://localhost.evil.com:{port}",
        "http://evil.com:{port}",
        "http://localhost",
        "http://localhost:1",
        "http://127.0.0.1:{port}.evil.com",
        "http://127.0.0.1:{port}/",
        "file://",
        "ftp://localhost:{port}",
    ],
)
def test_a_foreign_page_is_refused(served: Served, path: str, origin: str) -> None:
    answer = served.get(
        path,
        {"Authorization": f"Bearer {TOKEN}", "Origin": origin.format(port=served.port)},
    )
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_an_origin_of_its_own_is_no_foreign_page(served: Served) -> None:
    own = f"Origin: http://localhost:{served.port}\n"
    head = f"GET /healthz HTTP/1.1\nHost: localhost:{served.port}\nConnection: close\n"
    rest = f"Authorization: Bearer {TOKEN}\n\n"
    assert status(served.raw(f"{head}{own}{rest}")) == 200
    assert status(served.raw(f"{head}{own}{own}{rest}")) == 403
    assert status(served.raw(f"{head}{own}Origin: null\n{rest}")) == 403


def test_an_upgrade_to_another_protocol_passes_the_same_wall(served: Served) -> None:
    head = f"GET /mcp HTTP/1.1\nHost: localhost:{served.port}\nConnection: Upgrade\n"
    socketed = "Upgrade: websocket\nSec-WebSocket-Key: AAAA\nSec-WebSocket-Version: 13\n\n"
    assert status(served.raw(f"{head}{socketed}")) == 401


# What there is


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/mcp/", "/MCP", "/mcp/../healthz", "/healthz/", "//mcp", "/%2e%2e/x"]
)
def test_what_there_is_not_is_not_found(served: Served, path: str) -> None:
    head = f"GET {path} HTTP/1.1\nHost: localhost:{served.port}\nConnection: close\n"
    assert status(served.raw(f"{head}Authorization: Bearer {TOKEN}\n\n")) == 404


def test_a_method_that_does_not_fit_is_refused(served: Served) -> None:
    for method in ("PUT", "PATCH", "OPTIONS"):
        assert served.ask(method, "/mcp").status_code == 405
    for method in ("DELETE", "PUT"):
        assert served.ask(method, "/healthz").status_code == 405
    modern = {"Authorization": f"Bearer {TOKEN}", "MCP-Protocol-Version": "2026-07-28"}
    assert served.get("/mcp", modern).status_code == 405


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "text/plain; application/json",
        "application/json, text/plain",
        "",
    ],
)
def test_what_a_form_can_send_is_not_taken(served: Served, kind: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind, **ACCEPT}
    body = json.dumps(hello()).encode()
    assert served.ask("POST", "/mcp", headers=headers, content=body).status_code == 415


@pytest.mark.parametrize("version", ["", "2025-06-18", "2026-07-28", "1999-01-01", "\x7f"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 10_000,
        b"\xff\xfe\x00",
        b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":7}',
    ],
    ids=range(11),
)
def test_an_answer_says_nothing_about_the_machine(
    served: Served, body: bytes, version: str
) -> None:
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": version,
        **ACCEPT,
    }
    if not version:
        del headers["MCP-Protocol-Version"]
    answer = served.ask("POST", "/mcp", headers=headers, content=body)
    assert 400 <= answer.status_code < 500
    for told in ("Traceback", 'File "', ".py:", '.py"', "/home", "/tmp", "site-packages", TOKEN):
        assert told not in answer.text


# What it bears


def test_a_huge_body_is_refused_with_an_answer(served: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **ACCEPT}
    for path in ROUTES:
        answer = served.ask("POST", path, headers=headers, content=b" " * 5_242_880)
        assert answer.status_code == 413
    assert served.ask("POST", "/mcp", headers={}, content=b" " * 5_242_880).status_code == 401
    assert served.get("/healthz").status_code == 200


def test_a_huge_body_of_unknown_length_is_refused(served: Served) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    for path in ROUTES:
        answer = served.raw(
            f"POST {path} HTTP/1.1\nHost: localhost:{served.port}\nAuthorization: Bearer {TOKEN}\n"
            "Content-Type: application/json\nTransfer-Encoding: chunked\n\n",
            *[chunk] * 62,
            b"0\r\n\r\n",
        )
        assert status(answer) == 413


def test_a_header_without_end_is_refused(served: Served) -> None:
    head = f"GET /healthz HTTP/1.1\nHost: localhost:{served.port}\n"
    assert status(served.raw(f"{head}X: {'x' * 300_000}")) in (400, 0)
    assert served.get("/healthz").status_code == 200


def test_there_is_room_for_so_many_sessions(served: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", **ACCEPT}
    with httpx2.Client(headers=headers, timeout=60) as http:
        opened: list[str] = []
        answer = http.post(f"{served.url}/mcp", json=hello())
        while answer.status_code == 200 and len(opened) < 100:
            opened.append(answer.headers["mcp-session-id"])
            answer = http.post(f"{served.url}/mcp", json=hello())
        assert answer.status_code == 503
        assert len(opened) == 64
        assert http.get(f"{served.url}/healthz").status_code == 200
        for one in opened:
            gone = http.delete(f"{served.url}/mcp", headers={"mcp-session-id": one})
            assert gone.status_code == 200
        late = http.post(f"{served.url}/mcp", json=hello(), headers={"mcp-session-id": opened[0]})
        assert late.status_code == 404
        again = http.post(f"{served.url}/mcp", json=hello())
        assert again.status_code == 200
        http.delete(
            f"{served.url}/mcp", headers={"mcp-session-id": again.headers["mcp-session-id"]}
        )


def _memory_of(process: subprocess.Popen[bytes]) -> int:
    text = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0])


@pytest.mark.slow
def test_a_flood_meets_a_limit_and_leaves_the_server_as_it_was(tmp_path: Path) -> None:
    with limited(tmp_path / "one", rate=20.0, burst=50) as server:
        before = _memory_of(server.process)

        def ask(number: int) -> int:
            # Every second one has no token.
            return server.get("/healthz", {} if number % 2 else None).status_code

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(ask, range(1_000)))
        assert set(found) == {200, 401, 429}
        assert found.count(429) > 300
        assert _memory_of(server.process) - before < 50_000
        time.sleep(0.5)
        assert server.get("/healthz").status_code == 200


@pytest.mark.slow
def test_strangers_cannot_use_up_what_clients_may_ask(tmp_path: Path) -> None:
    with limited(tmp_path / "one", rate=0.1, burst=10) as server:
        found = [server.get("/mcp", {}) for _ in range(15)]
        assert [one.status_code for one in found[:10]] == [401] * 10
        assert found[-1].status_code == 429
        assert 1 <= int(found[-1].headers["retry-after"]) <= 10
        evil = {"Host": "evil.com", "Authorization": f"Bearer {TOKEN}"}
        assert server.get("/mcp", evil).status_code == 421
        known = [server.get("/healthz") for _ in range(15)]
        assert [one.status_code for one in known[:10]] == [200] * 10
        assert known[-1].status_code == 429
        assert "retry-after" in known[-1].headers


@pytest.mark.slow
def test_the_slow_are_not_waited_for(tmp_path: Path) -> None:
    with limited(tmp_path / "one", seconds=1.0) as server:
        head = f"POST /mcp HTTP/1.1\nHost: localhost:{server.port}\n"
        typed = "Content-Type: application/json\nContent-Length: 100\n\n"
        # A body that stops half way; one of a stranger, who is answered without it.
        assert status(server.raw(f"{head}Authorization: Bearer {TOKEN}\n{typed}", b"{")) == 408
        assert status(server.raw(f"{head}{typed}", b"{")) == 401
        # A request that never begins, one that never ends its headers, and a second such one.
        assert not server.raw("")
        assert not server.raw("POST /mcp HT")
        known = f"Host: localhost:{server.port}\nAuthorization: Bearer {TOKEN}\n\n"
        twice = server.raw(f"GET /healthz HTTP/1.1\n{known}GET /healthz HT")
        assert twice.count("HTTP/1.1 200") == 1
        assert server.get("/healthz").status_code == 200


@pytest.mark.slow
def test_a_slow_trickle_is_cut_off_too(tmp_path: Path) -> None:
    with limited(tmp_path / "one", seconds=1.0) as server:
        trickle = [b"X: y\r\n"] * 200

        def slowly() -> None:
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as sock:
                sock.sendall(b"GET /healthz HTTP/1.1\r\n")
                for data in trickle:
                    sock.sendall(data)
                    time.sleep(0.1)

        with pytest.raises(ConnectionError):
            slowly()


# The protocol


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_both_eras_are_served(served: Served, mode: str) -> None:
    async with client(served, mode) as one:
        assert (await one.list_tools()).tools
        given = {"filename": f"over-http-{mode}", "content": "It works in both eras."}
        made = await one.call_tool("create_memory", given)
        assert not made.is_error, made.content
        found = await one.list_resources()
        assert [item for item in found.resources if item.name.endswith(f"over-http-{mode}")]


# Its life


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_a_listener_hears_the_end(tmp_path: Path, how: int) -> None:
    home = tmp_path / "one"
    with limited(home) as server:
        ended: list[str] = []
        async with (
            client(server, "2026-07-28") as one,
            one.listen(resources_list_changed=True) as stream,
        ):
            code = await anyio.to_thread.run_sync(server.end, how)
            with anyio.fail_after(60):
                ended.extend([str(event) async for event in stream])
        assert code == 0
        assert not ended
        assert (home / "cleaned").exists()
        assert len(server.said().splitlines()) == 2, server.said()


@pytest.mark.slow
def test_an_older_stream_is_closed_at_the_end(tmp_path: Path) -> None:
    home = tmp_path / "one"
    headers = {"Authorization": f"Bearer {TOKEN}", **ACCEPT}
    with limited(home) as server, httpx2.Client(headers=headers, timeout=60) as http:
        made = http.post(f"{server.url}/mcp", json=hello())
        session = {
            "mcp-session-id": made.headers["mcp-session-id"],
            "mcp-protocol-version": "2025-11-25",
        }
        with http.stream("GET", f"{server.url}/mcp", headers=session) as stream:
            assert stream.status_code == 200
            assert server.end() == 0
            with contextlib.suppress(httpx2.TransportError):
                stream.read()
        assert (home / "cleaned").exists()


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_call_that_hangs_does_not_keep_it(tmp_path: Path) -> None:
    home = tmp_path / "one"
    with limited(home) as server:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                with contextlib.suppress(Exception):
                    async with client(server, "2026-07-28") as one:
                        await one.call_tool("list_memories", {})

            tasks.start_soon(call)
            with anyio.fail_after(60):
                while not (home / "opened").exists():
                    await anyio.sleep(0.05)
            assert await anyio.to_thread.run_sync(server.end) == 0
            tasks.cancel_scope.cancel()
        assert (home / "cleaned").exists()


@pytest.mark.slow
def test_a_port_that_is_taken_is_said(run: Run, served: Served) -> None:
    ran = run("mcp", "--http", "--port", str(served.port))
    assert ran.code == 1
    assert f"cannot serve at 127.0.0.1:{served.port}: another program uses it" in ran.err
    assert "--port" in ran.err
    assert "Traceback" not in ran.err


def refused(host: str = "127.0.0.1", *allow: str) -> RetainError:
    """Why a server does not start, in this process: it never comes to a socket."""
    server: Server[None] = Server("none")
    with pytest.raises(RetainError) as caught:
        serve(server, host, 0, lambda: None, allow=allow)
    return caught.value


@pytest.mark.parametrize("host", ["nowhere.invalid", "", "192.0.2.1", "a..b", "a\0b"])
def test_an_address_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("RETAIN_MCP_TOKEN", TOKEN)
    error = refused(host)
    assert "address" in error.message
    assert TOKEN not in str(error)


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.0.2.1"])
def test_beyond_this_machine_there_must_be_a_token_first(home: Path, host: str) -> None:
    error = refused(host)
    assert "no token" in error.message
    assert "retain mcp token" in error.hint
    assert not (home / ".retain").exists()


@pytest.mark.slow
def test_the_command_refuses_in_the_same_way(run: Run, home: Path) -> None:
    ran = run("mcp", "--http", "--port", "0", "--host", EVERYWHERE)
    assert ran.code == 1
    assert "no token" in ran.err
    assert not (home / ".retain").exists()


@pytest.mark.slow
def test_beyond_this_machine_only_named_hosts_count(tmp_path: Path) -> None:
    args = ("mcp", "--http", "--port", "0", "--host", EVERYWHERE)
    allow = ("--allow-host", "Memory.example", "--allow-host", "other.example:444")
    with started(*command(), *args, *allow, home=tmp_path / "one") as server:
        assert "TLS" in server.said()

        def asked(host: str, origin: str = "") -> int:
            sent = {"Authorization": f"Bearer {TOKEN}", "Host": host}
            return server.get("/healthz", sent | ({"Origin": origin} if origin else {})).status_code

        assert asked(f"127.0.0.1:{server.port}") == 200
        assert asked(f"0.0.0.0:{server.port}") == 421
        assert asked("memory.example") == asked(f"memory.example:{server.port}") == 200
        assert asked("memory.example", "https://memory.example") == 200
        assert asked("memory.example", "https://evil.example") == 403
        assert asked("other.example:444") == 200
        assert asked("other.example") == asked(f"other.example:{server.port}") == 421
        assert asked("sub.memory.example") == 421
        assert server.end() == 0
        assert TOKEN not in server.said()


@pytest.mark.parametrize("name", ["*", "*.example", "http://a", "a/b", "a:b", "a b", ""])
def test_a_host_to_allow_is_a_name(name: str) -> None:
    assert "--allow-host" in refused("127.0.0.1", name).message


@pytest.mark.slow
def test_on_this_machine_the_token_is_made_and_not_shown(tmp_path: Path) -> None:
    home = tmp_path / "one"
    with started(*command(), "mcp", "--http", "--port", "0", home=home, token="") as server:
        made = (home / ".retain" / "mcp-token").read_text(encoding="ascii").strip()
        assert made not in server.said()
        assert "retain mcp token" in server.said()
        assert server.get("/healthz", {}).status_code == 401
        assert server.get("/healthz", {"Authorization": f"Bearer {made}"}).status_code == 200
        assert server.end(signal.SIGINT) == 0


@pytest.mark.slow
def test_it_serves_at_the_other_loopback_too(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    args = ("mcp", "--http", "--port", "0", "--host", "::1")
    with started(*command(), *args, home=tmp_path / "one") as server:
        assert f"http://[::1]:{server.port}/mcp" in server.said()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx2.get(f"http://[::1]:{server.port}/healthz", headers=headers)
        assert answer.status_code == 200
