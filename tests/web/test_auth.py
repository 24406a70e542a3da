"""The way in: a link that is good once, the cookie that it gives, and what neither tells anyone."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from retain.cli import server
from retain.cli.command import Output
from retain.httpd.address import loopbacks
from retain.web import auth
from tests.cli.door import call
from tests.conftest import command
from tests.web.stage import LINK, TOKEN, Served, started, world

pytestmark = pytest.mark.slow


def code(served: Served) -> str:
    return auth.make_code(TOKEN, served.port)


def test_a_link_lets_one_browser_in_and_once(browser: Browser, tmp_path: Path) -> None:
    with started(tmp_path) as served:
        first = browser.new_context()
        page = first.new_page()
        seen: list[str] = []
        page.on("request", lambda request: seen.append(request.url))
        page.goto(served.link)
        expect(page.get_by_role("navigation", name="Retain")).to_be_visible()
        assert page.url == f"{served.url}/"
        secret = served.link.partition("#")[2]
        (cookie,) = first.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
        assert page.evaluate("document.cookie") == ""
        assert not [one for one in seen if secret in one.partition("#")[0] or TOKEN in one]
        assert secret not in page.evaluate("location.href + JSON.stringify(history.state)")
        first.close()

        second = browser.new_context()
        page = second.new_page()
        page.goto(served.link)
        expect(page.get_by_role("status")).to_contain_text("used already")
        assert second.cookies() == []
        second.close()


def own_name(served: Served) -> str:
    return f"{auth.own_name(TOKEN, served.port)}:{served.port}"


def test_a_link_leads_to_a_name_of_the_servers_own_and_the_cookie_stays_there(
    browser: Browser, tmp_path: Path
) -> None:
    """A cookie for 127.0.0.1 would go to whatever else listens on this machine."""
    with started(tmp_path) as served, _overhearing() as (elsewhere, heard):
        said = served.said()
        link = re.search(r"which is good once: (http://(\S+))/enter#(\S+)\n", said)
        assert link is not None
        assert link[2] == own_name(served)
        assert link[3] == served.link.partition("#")[2]
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{link[1]}/enter#{link[3]}")
        expect(page.get_by_role("navigation", name="Retain")).to_be_visible()
        assert page.url == f"{link[1]}/"
        (cookie,) = context.cookies()
        assert cookie["domain"] == own_name(served).partition(":")[0]
        page.goto(f"{link[1]}/new")
        page.get_by_label("Text").first.fill("Kettles descale with vinegar.")
        page.get_by_role("button", name="Save").first.click()
        expect(page.get_by_role("heading", name="Kettles descale")).to_be_visible()
        for host in ("127.0.0.1", "localhost"):
            page.goto(f"http://{host}:{elsewhere}/")
        assert len(heard) >= 2
        assert not [one for one in heard if b"cookie" in one.lower()]
        context.close()


def test_a_cookie_is_good_only_under_the_name_that_it_was_given_at(served: Served) -> None:
    hosts = [f"{one}:{served.port}" for one in ("127.0.0.1", "localhost", "[::1]")]
    hosts.append(own_name(served))
    given = {}
    for host in hosts:
        body = {"code": code(served)}
        answer = served.ask("POST", "/api/v1/enter", headers={"Host": host}, json=body)
        ((name, value),) = answer.cookies.items()
        given[host] = f"{name}={value}"
        assert re.search(r"max-age=2592000\b", answer.headers["set-cookie"].lower())
    for at in hosts:
        for host in hosts:
            found = served.ask("GET", "/", headers={"Host": host, "Cookie": given[at]})
            assert found.status_code == (200 if host == at else 401), (at, host)


def test_a_cookie_opens_no_other_server_of_the_same_person(served: Served, tmp_path: Path) -> None:
    _, value = served.cookie()
    with started(tmp_path) as other:
        assert own_name(other) != own_name(served)
        given = {"Cookie": f"retain_{other.port}={value}"}
        assert other.ask("GET", "/", headers=given).status_code == 401
        host = {"Host": own_name(served), "Authorization": f"Bearer {TOKEN}"}
        assert other.ask("GET", "/", headers=host).status_code == 421


def test_a_wrong_cookie_beside_ours_locks_no_browser_out(served: Served, page: Page) -> None:
    (own,) = page.context.cookies()
    wrong = {"name": own["name"], "value": "wrong", "domain": "127.0.0.1", "path": "/api"}
    page.context.add_cookies([wrong])  # type: ignore[list-item]
    page.goto("/")
    loads: list[str] = []
    page.on("load", lambda found: loads.append(found.url))
    with page.expect_response(lambda one: "/api/v1/search" in one.url) as told:
        page.evaluate("fetch('/api/v1/search?q=x')")
    assert told.value.status == 200
    assert loads == []


def test_a_page_that_is_refused_over_and_over_is_loaded_again_only_once(
    browser: Browser, served: Served
) -> None:
    context = browser.new_context(base_url=served.url)
    name, value = served.cookie()
    context.add_cookies([{"name": name, "value": value, "url": served.url}])
    page = context.new_page()
    loads: list[str] = []
    page.on("load", lambda found: loads.append(found.url))
    page.route("**/api/v1/**", lambda route: route.fulfill(status=401, json={"error": "no"}))
    ask = """async () => {
      const main = document.querySelector("script[type=module]").src;
      const { get } = await import(new URL("./api.js", main));
      await get("/search?q=x").catch(() => {});
    }"""
    page.goto("/")
    for number in range(4):
        with contextlib.suppress(Error):  # the page goes away while it asks
            page.evaluate(ask)
        for _ in range(0 if number else 600):
            if len(loads) == 2:
                break
            page.wait_for_timeout(100)
    page.wait_for_timeout(500)
    assert len(loads) == 2
    context.close()


@contextlib.contextmanager
def _overhearing(
    host: str = "127.0.0.1",
    port: int = 0,
) -> Iterator[tuple[int, list[bytes]]]:
    """Another server on this machine: its port, and all that it is sent."""
    heard: list[bytes] = []
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as stranger:
        port = stranger.getsockname()[1]

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = stranger.accept()
                    with sock:
                        heard.append(sock.recv(65_536))
                        sock.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield port, heard
        stranger.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_a_browser_that_was_let_in_stays_so_when_the_server_starts_again(
    browser: Browser, tmp_path: Path
) -> None:
    with started(tmp_path) as served:
        name, value = served.cookie()
        port = served.port
        assert served.end() == 0
    with started(tmp_path, "--port", str(port)) as served:
        assert served.ask("GET", "/", headers={"Cookie": f"{name}={value}"}).status_code == 200


def test_without_the_cookie_a_person_is_told_the_way_and_a_program_the_reason(
    served: Served,
) -> None:
    shown = served.ask("GET", "/", headers={"Accept": "text/html"})
    assert shown.status_code == 401
    assert shown.headers["content-type"].startswith("text/html")
    assert "retain web" in shown.text
    told = served.ask("GET", "/api/v1/search?q=x", headers={})
    assert told.json()["error"]["message"] == "The token is missing or wrong"
    assert told.headers["www-authenticate"].startswith("Bearer")


def test_the_way_in_works_for_a_browser_in_the_dark_and_by_keyboard(
    browser: Browser, served: Served
) -> None:
    context = browser.new_context(color_scheme="dark", viewport={"width": 390, "height": 800})
    page: Page = context.new_page()
    page.goto(f"{served.url}/graph")
    expect(page.get_by_role("heading", name="Retain")).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    context.close()


def test_a_code_is_good_once_and_nobody_guesses_one(served: Served) -> None:
    good = code(served)
    for wrong in ("", "x", good[:-1], good + "x", good.swapcase(), "é", "\0", "x" * 10_000):
        body = {"code": wrong}
        answer = served.ask("POST", "/api/v1/enter", headers={}, json=body)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
    lonely = b'{"code": "\\ud800"}'
    headers = {"Content-Type": "application/json"}
    answer = served.ask("POST", "/api/v1/enter", headers=headers, content=lonely)
    assert answer.status_code == 401
    odd: object
    for odd in ({}, [], 7, {"code": 7}, {"code": [good]}, {"code": None}):
        assert served.ask("POST", "/api/v1/enter", headers={}, json=odd).status_code == 401
    first = served.ask("POST", "/api/v1/enter", headers={}, json={"code": good})
    assert first.status_code == 200
    again = served.ask("POST", "/api/v1/enter", headers={}, json={"code": good})
    assert again.status_code == 401


def test_a_body_that_is_no_json_is_refused(served: Served) -> None:
    for content in (b"", b"{", b"\xff", b"[" * 10_000):
        answer = served.ask(
            "POST",
            "/api/v1/enter",
            headers={"Content-Type": "application/json"},
            content=content,
        )
        assert answer.status_code == 400


def test_the_cookie_of_a_link_has_every_guard(served: Served) -> None:
    answer = served.ask("POST", "/api/v1/enter", headers={}, json={"code": code(served)})
    parts = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert not [part for part in parts if part.startswith("domain")]
    name = answer.headers["set-cookie"].partition("=")[0]
    assert str(served.port) in name
    assert TOKEN not in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "cookie",
    ["", "x", "={}", "retain_{port}=", "retain_{port}=wrong", "retain_1={value}", "{value}"],
)
def test_another_cookie_counts_for_nothing(served: Served, cookie: str) -> None:
    _, value = served.cookie()
    given = cookie.replace("{port}", str(served.port)).replace("{value}", value)
    assert served.ask("GET", "/", headers={"Cookie": given}).status_code == 401


def test_cookies_of_other_servers_do_not_hide_ours(served: Served) -> None:
    """Every server on a machine shares its cookies; some send what the standard does not know."""
    name, value = served.cookie()
    own = f"{name}={value}"
    for jar in (f"other=1; {own}", f'a="b;c"; {own}', f"odd[name]=1; {own}", f"{own}; =; ;"):
        assert served.ask("GET", "/", headers={"Cookie": jar}).status_code == 200, jar
    head = f"GET / HTTP/1.1\nHost: 127.0.0.1:{served.port}\nConnection: close\n"
    assert served.raw(f"{head}Cookie: \xe9=\xff; {own}\n\n").startswith("HTTP/1.1 200")
    # One of them may even send its own under our name, and for a longer path, which comes first.
    for jar in (f"{own}; {name}=wrong", f"{name}=wrong; {own}", f"{name}=; {own}; {name}=x"):
        assert served.raw(f"{head}Cookie: {jar}\n\n").startswith("HTTP/1.1 200"), jar
    jar = f"{name}=wrong; {name}={value[:-1]}"
    assert served.raw(f"{head}Cookie: {jar}\n\n").startswith("HTTP/1.1 401")


def _asking(door: auth.Auth, *values: str, host: str = "test") -> dict[str, object]:
    jar = "; ".join(f"{door.cookie_name}={value}" for value in values)
    headers = [(b"host", host.encode()), (b"cookie", jar.encode())]
    return {"path": "/", "method": "GET", "headers": headers}


def test_a_cookie_ends_by_itself_also_for_who_keeps_it_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = auth.Auth(TOKEN, 1)
    first, second = door.make_cookie("test"), door.make_cookie("test")
    assert first != second  # each browser has its own
    now = time.time()
    for days, is_in in ((0, True), (29.9, True), (30.1, False), (3_000, False)):
        then = now + days * 86_400
        monkeypatch.setattr("retain.web.auth.time.time", lambda then=then: then)
        assert (door(_asking(door, first)) is None) == is_in, days
    later = door.make_cookie("test")
    assert door(_asking(door, first, later, second)) is None


def test_no_one_gives_a_cookie_more_time() -> None:
    door = auth.Auth(TOKEN, 1)
    given = door.make_cookie("test")
    end, name, seal = given.split(".")
    other = door.make_cookie("test").split(".")
    assert door(_asking(door, given)) is None
    for wrong in (
        f"{int(end) + 1}.{name}.{seal}",
        f"0{end}.{name}.{seal}",
        f"{end}.{other[1]}.{seal}",
        f"{end}.{name}.{other[2]}",
        f"{end}.{name}.{seal}x",
        f"{end}.{name}",
        f"{'9' * 5_000}.{name}.{seal}",
        seal,
    ):
        assert door(_asking(door, wrong)) is not None, wrong


def test_a_jar_of_cookies_without_end_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stranger sends is looked at before it is counted."""
    door = auth.Auth(TOKEN, 1)
    tried: list[str] = []
    sign = auth._sign

    def counted(token: str, purpose: str, end: str, nonce: str) -> str:
        tried.append(nonce)
        return sign(token, purpose, end, nonce)

    monkeypatch.setattr(auth, "_sign", counted)
    wrong = f"1.{'x' * 22}.{'x' * 43}"
    assert door(_asking(door, *[wrong] * 3_000)) is not None
    assert 0 < len(tried) <= 64
    tried.clear()
    assert door(_asking(door, *["x"] * 10_000, "; " * 50_000)) is not None
    assert tried == []
    good = door.make_cookie("test")
    assert door(_asking(door, *["x"] * 10_000, *[wrong] * 20, good)) is None


def test_a_code_is_good_for_one_server_once_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    door = auth.Auth(TOKEN, 1)
    code, late = auth.make_code(TOKEN, 1), auth.make_code(TOKEN, 1)
    assert not door.take_code(auth.make_code(TOKEN, 2))
    assert not door.take_code(auth.make_code(f"{TOKEN}x", 1))
    assert not door.take_code(door.make_cookie("link 1"))
    assert [door.take_code(code), door.take_code(code)] == [True, False]
    now = time.time()
    monkeypatch.setattr("retain.web.auth.time.time", lambda: now + 5)
    assert not auth.Auth(TOKEN, 1).take_code(code)  # of a server that was started later
    monkeypatch.setattr("retain.web.auth.time.time", lambda: now + 601)
    assert not door.take_code(late)


def test_no_log_holds_the_token_the_cookie_or_what_was_asked(tmp_path: Path) -> None:
    with started(tmp_path) as served:
        name, value = served.cookie()
        served.get("/", q="a-word-nobody-may-see")
        served.get("/nowhere-to-be-found")
        served.ask("GET", f"/?token={TOKEN}", headers={})
        assert served.end() == 0
        said = served.said()
        links = LINK.findall(said)
        for secret in (TOKEN, value, name, "a-word-nobody-may-see", "nowhere-to-be-found"):
            assert secret not in said
        assert len(links) == 1
        assert len(said.splitlines()) == 3


def test_the_token_is_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    with started(tmp_path, env={"RETAIN_MCP_TOKEN": ""}) as served:
        kept = tmp_path / ".retain" / "mcp-token"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        token = kept.read_text(encoding="utf-8").strip()
        assert served.ask("GET", "/", headers={"Authorization": f"Bearer {token}"}).is_success
        assert token not in served.said()


def test_a_browser_is_started_with_a_file_that_leads_in_and_not_with_the_code(
    browser: Browser, tmp_path: Path
) -> None:
    """What a program is started with can be read by every other."""
    argv, program = tmp_path / "argv", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{argv}\n', encoding="utf-8")
    program.chmod(0o700)
    with started(tmp_path, "--open", env={"BROWSER": str(program)}) as served:
        address = _first_line(argv)
        assert served.link.partition("#")[2] not in address
        assert address.startswith("file://")
        file = Path(address.removeprefix("file://"))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        expect(page.get_by_role("navigation", name="Retain")).to_be_visible()
        assert page.url == f"http://{own_name(served)}/"
        context.close()


def test_a_browser_that_is_waited_for_keeps_nobody_waiting(tmp_path: Path) -> None:
    """A text browser has the terminal for itself until it ends, and asks the server meanwhile."""
    said, program = tmp_path / "said", tmp_path / "browser"
    asks = (
        "import http.client, re, sys\n"
        "page = open(sys.argv[1].removeprefix('file://'), encoding='utf-8').read()\n"
        "port = int(re.search(r':([0-9]+)/enter', page)[1])\n"
        "server = http.client.HTTPConnection('127.0.0.1', port, timeout=60)\n"
        "server.request('GET', '/')\n"
        f"with open({str(said)!r}, 'w', encoding='utf-8') as file:\n"
        "    print(server.getresponse().status, file=file)\n"
    )
    program.write_text(f"#!{sys.executable}\n{asks}", encoding="utf-8")
    program.chmod(0o700)
    # With %s a browser is a command of one's own, which is waited for.
    with started(tmp_path, "--open", env={"BROWSER": f"{program} %s"}) as served:
        assert _first_line(said) == "401"
        assert served.get("/").status_code == 200


def _first_line(path: Path) -> str:
    for _ in range(600):
        if path.exists() and (text := path.read_text(encoding="utf-8")).endswith("\n"):
            return text.splitlines()[0]
        time.sleep(0.1)
    raise AssertionError("no browser was started")


def test_a_second_one_for_the_same_bank_prints_another_link(tmp_path: Path) -> None:
    with started(tmp_path, project=True) as served:
        for port in ([], ["--port", str(served.port)]):
            said = served.run("web", *port)
            assert said.startswith(f"Already running at http://{own_name(served)}.\n")
            link = LINK.search(said)
            assert link is not None
            assert link[1] == served.url
            answer = served.ask("POST", "/api/v1/enter", headers={}, json={"code": link[3]})
            assert answer.status_code == 200
        told = json.loads(served.run("web", "--json"))
        assert (told["status"], told["url"], told["bank"]) == (
            "there already",
            served.url,
            str(served.bank),
        )
        other = _web(tmp_path, "--global", "--port", str(served.port))
        assert other.returncode == 1
        assert "another program uses it" in other.stderr
        assert "--port 0" in other.stderr
        assert served.end() == 0
    with started(tmp_path) as again:  # the port of one that has ended is nobody's
        assert again.url != served.url


def test_a_stranger_at_the_port_is_sent_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with _overhearing() as (port, heard):
        done = _web(tmp_path, "--port", str(port))
    assert done.returncode == 1
    assert "another program" in done.stderr
    assert heard == []


has_ipv6 = pytest.mark.skipif("::1" not in loopbacks(), reason="this machine has no IPv6")


@has_ipv6
def test_a_page_is_served_at_every_address_that_its_name_leads_to(
    browser: Browser, tmp_path: Path
) -> None:
    """Browsers try ::1 first: whoever held it would be sent the link's code, and the cookie."""
    with started(tmp_path) as served:
        for address in loopbacks():
            with socket.create_connection((address, served.port), timeout=30) as sock:
                head = f"GET / HTTP/1.1\r\nHost: {own_name(served)}\r\nConnection: close\r\n"
                sock.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
                assert sock.recv(12) == b"HTTP/1.1 200", address
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("::1", served.port), family=socket.AF_INET6)
        context = browser.new_context()
        page = context.new_page()
        answer = page.goto(f"http://{own_name(served)}/enter#{served.link.partition('#')[2]}")
        assert answer is not None
        where = answer.server_addr()
        assert where is not None
        assert where["ipAddress"].strip("[]") in loopbacks()
        expect(page.get_by_role("navigation", name="Retain")).to_be_visible()
        context.close()


@has_ipv6
def test_a_port_that_a_stranger_has_at_one_address_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with _overhearing("::1") as (port, heard):
        done = _web(tmp_path, "--port", str(port))
        assert done.returncode == 1
        assert f"cannot serve at [::1]:{port}: another program uses it" in done.stderr
        assert "--port 0" in done.stderr
    assert not [one for one in heard if TOKEN.encode() in one]


@has_ipv6
def test_the_usual_port_is_left_to_a_stranger_that_has_it_at_one_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports: list[int] = []

    def noted(_args: object, port: int) -> Output:
        ports.append(port)
        return Output({}, "")

    monkeypatch.setattr(server, "_serve_web", noted)
    with _overhearing("::1") as (port, _):
        monkeypatch.setattr(server, "_WEB_PORT", port)
        assert call("web").code == 0
    assert call("web").code == 0
    assert ports == [0, port]


def test_a_server_with_pages_that_listen_ends_at_once(tmp_path: Path) -> None:
    with started(tmp_path) as served:
        socks = [_listening(served) for _ in range(5)]
        assert served.end(signal.SIGINT) == 0
        for sock in socks:
            sock.close()


def _listening(served: Served) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", served.port), timeout=30)
    sock.sendall(
        b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % served.port
        + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    assert sock.recv(12) == b"HTTP/1.1 200"
    return sock


def test_json_is_one_line_with_the_way_in(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    process = subprocess.Popen(
        [*command(), "web", "--port", "0", "--json"],
        env=world(tmp_path),
        cwd=tmp_path / "work",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert set(told) == {"status", "url", "link", "bank"}
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", told["url"])
        port = told["url"].rpartition(":")[2]
        assert told["link"].startswith(f"http://{auth.own_name(TOKEN, int(port))}:{port}/enter#")
        process.send_signal(signal.SIGTERM)
        rest, said = process.communicate(timeout=60)
        assert (process.returncode, rest, said) == (0, b"", b"")
    finally:
        process.kill()
        process.wait()


def test_there_is_no_option_to_show_a_bank_to_other_machines(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    assert _web(tmp_path, "--host", "0.0.0.0").returncode == 2  # noqa: S104 - which is refused


def _web(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command(), "web", *args],
        env=world(home),
        cwd=home / "work",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
