"""Every route behind the same wall: the routes are read from the server, so none is forgotten."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from retain.app import App
from retain.httpd.security import Limits, SecurityMiddleware
from retain.web import serving
from retain.web.app import OPERATIONS, build
from retain.web.auth import ENTER, Auth, make_code, own_name
from retain.web.bank_pool import BankPool
from retain.web.checkup import Checkup
from retain.web.live import Live
from retain.web.openapi import document
from retain.web.rendering import _static
from tests.web.stage import TOKEN, Begin, Served, started

pytestmark = pytest.mark.slow

PARTS = {"scope": "here", "collection": "memories", "id": "hello"}
FILES = ("main.js", "retain.css", "icon.svg")
# What pages may be asked with; one that they do not know must not harm them either.
QUERY = ("q", "tag", "collection", "type", "status", "scope", "since", "until", "sort", "page")
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
BEARER = {"Authorization": f"Bearer {TOKEN}"}
JSON = {**BEARER, "Content-Type": "application/json"}


# The routes there are


class Way(NamedTuple):
    method: str
    path: str


def built(door: Auth | None = None) -> Starlette:
    banks = BankPool(lambda _own: App())
    live = Live(banks)
    checkup = Checkup(lambda _own: App(), live.tell)
    return build(banks, live, door or Auth(TOKEN, 1), checkup)


@cache
def routes() -> tuple[Way, ...]:
    """Every method and path that the server has an answer for, and some it has none for."""
    found = [Way("GET", "/nowhere"), Way("GET", "/api/v1/nowhere"), Way("GET", "/static/x/y")]
    for route in built().routes:
        if isinstance(route, Mount):
            assert route.path == "/static", "say here which paths are below it"
            found += [Way("GET", _static(name)) for name in FILES]
        else:
            assert isinstance(route, Route)
            path = re.sub(r"{(\w+)(?::\w+)?}", lambda it: PARTS.get(it[1], "1"), route.path)
            found += [Way(method, path) for method in sorted(route.methods or ())]
    return tuple(found)


def everywhere(check: Callable[[Served, Way], None]) -> Callable[[Served], None]:
    """A test that tries a check on every route, several at once, and tells all that fail."""

    def walk(served: Served) -> None:
        def tried(route: Way) -> str:
            try:
                check(served, route)
            except AssertionError as error:
                return f"{' '.join(route)}: {error}"
            return ""

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            wrong = list(filter(None, pool.map(tried, routes())))
        assert not wrong, "\n".join(wrong)

    return walk


class Head(NamedTuple):
    status: int
    headers: Mapping[str, str]
    names: tuple[str, ...]
    start: bytes  # of the body


def head(
    served: Served,
    route: Way,
    headers: Mapping[str, str],
    body: bytes = b"",
    host: str = "",
) -> Head:
    """How an answer begins; one that never ends is not waited for."""
    for _ in range(20):
        found = _head(served, route, headers, body, host or f"127.0.0.1:{served.port}")
        if found.status != 429:
            return found
        time.sleep(0.5)
    raise AssertionError("refused for too many requests, over and over")


def _head(served: Served, route: Way, headers: Mapping[str, str], body: bytes, host: str) -> Head:
    sent = {"Host": host, "Connection": "close", **headers}
    if body or route.method in ("POST", "PUT", "PATCH"):
        sent.setdefault("Content-Length", str(len(body)))
    lines = [f"{route.method} {route.path} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items())]
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as sock:
        with contextlib.suppress(ConnectionError):  # it may refuse before all of it was sent
            sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        found = b""
        with contextlib.suppress(ConnectionError):
            while b"\r\n\r\n" not in found and (data := sock.recv(65_536)):
                found += data
    top, _, start = found.partition(b"\r\n\r\n")
    first, *rest = top.decode("latin-1").split("\r\n")
    pairs = [(name.lower(), value) for name, _, value in (one.partition(": ") for one in rest)]
    return Head(int(first.split(" ")[1]), dict(pairs), tuple(name for name, _ in pairs), start)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A project's bank with a memory in it; the log of the server says nothing but the link."""
    home = tmp_path_factory.mktemp("wall")
    with started(home, project=True, env={"RETAIN_RECALL_EMBEDDER": "none"}) as server:
        server.store("# Hello\n\nSee [[other]].", id="hello", tags=["greeting"])
        yield server
        assert len(server.said().splitlines()) == 3, server.said()


# Who gets in (S3, S4)


def test_the_walk_finds_pages_operations_files_and_the_stream() -> None:
    paths = {route.path for route in routes()}
    assert {
        "/",
        "/enter",
        ENTER,
        "/api/v1/events",
        "/api/v1/openapi.json",
        "/api/v1/compare",
    } <= paths
    assert len(paths) > len(OPERATIONS)


@everywhere
def test_without_the_token_nothing_is_reached(served: Served, route: Way) -> None:
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"retain_{served.port}=x"}):
        found = head(served, route, {"Content-Type": "application/json", **given}, b"{}")
        assert found.status == 401, given
    asked = route._replace(path=f"{route.path}?token={TOKEN}&access_token={TOKEN}")
    assert head(served, asked, {"Content-Type": "application/json"}, b"{}").status == 401


@everywhere
def test_no_method_is_exempt(served: Served, route: Way) -> None:
    for method in ("DELETE", "OPTIONS", "PUT", "HEAD", "TRACE", "PATCH", "BREW"):
        assert head(served, route._replace(method=method), {}).status == 401, method
    for method in ("OPTIONS", "TRACE", "BREW"):
        found = head(served, route._replace(method=method), {**BEARER, "X-Echo": "parrot"})
        assert found.status in (404, 405), method
        assert b"parrot" not in found.start


@everywhere
def test_a_name_that_was_bent_to_this_machine_is_refused(served: Served, route: Way) -> None:
    for host in foreign_hosts(served.port):
        assert head(served, route, JSON, b"{}", host).status == 421, host


def foreign_hosts(port: int) -> tuple[str, ...]:
    return (
        "evil.com",
        f"localhost.evil.com:{port}",
        f"localhost.:{port}",  # the root's dot makes another name of it
        f"evil.localhost:{port}",
        f"retain-0123456789abcdef.localhost:{port}",
        f"{own_name(TOKEN, port + 1)}:{port}",
        f"x.{own_name(TOKEN, port)}:{port}",
        f"127.0.0.1.:{port}",
        "127.0.0.1",  # without the port that it is
        f"127.0.0.1:{port % 60_000 + 1}",
        f"0.0.0.0:{port}",
        f"[::]:{port}",
        f"2130706433:{port}",
        f"127.0.0.1:{port}@evil.com",
        f"evil.com, 127.0.0.1:{port}",
    )


def test_every_name_that_means_this_server_is_good(served: Served) -> None:
    own = own_name(TOKEN, served.port)
    for one in ("127.0.0.1", "localhost", "LOCALHOST", "LocalHost", "[::1]", own):
        assert head(served, Way("GET", "/"), BEARER, host=f"{one}:{served.port}").status == 200


def test_a_request_names_one_host_and_that_counts(served: Served) -> None:
    port, rest = served.port, f"Connection: close\nAuthorization: Bearer {TOKEN}\n\n"
    for start in (
        f"GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nHost: 127.0.0.1:{port}\n",
        f"GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nHost: evil.com\n",
        "GET / HTTP/1.1\nHost:\n",
        "GET / HTTP/1.1\n",
        "GET / HTTP/1.0\n",
        f"GET http://evil.com/ HTTP/1.1\nHost: 127.0.0.1:{port}\n",
        f"GET //evil.com/ HTTP/1.1\nHost: 127.0.0.1:{port}\n",
    ):
        answer = served.raw(start + rest)
        assert int(answer.split(" ")[1]) in (400, 404, 421), start
        assert "\r\nlocation:" not in answer.lower(), start


@everywhere
def test_a_foreign_page_is_refused(served: Served, route: Way) -> None:
    for origin in ("null", "https://evil.com", f"http://localhost.evil.com:{served.port}"):
        found = head(served, route, {**JSON, "Origin": origin}, b"{}")
        assert found.status == 403
        assert not [name for name in found.names if name.startswith("access-control")]


@everywhere
def test_a_foreign_page_is_refused_also_with_the_cookie(served: Served, route: Way) -> None:
    given = {"Cookie": cookie(served), "Origin": "http://evil.com"}
    assert head(served, route, given).status == 403
    # One on another port of this machine is of the same site, whose cookies go with it.
    given["Origin"] = f"http://127.0.0.1:{served.port % 60_000 + 1}"
    assert head(served, route, given).status == 403


@cache
def cookie(served: Served) -> str:
    return "=".join(served.cookie())


@everywhere
def test_a_foreign_page_can_load_nothing(served: Served, route: Way) -> None:
    """A picture, a script, a frame or a form of a page elsewhere, which sends no Origin."""
    for site in ("cross-site", "same-site", "odd"):
        for mode, dest in (("no-cors", "script"), ("no-cors", "image"), ("navigate", "iframe")):
            told = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
            assert head(served, route, {"Cookie": cookie(served), **told}).status == 403, told


@everywhere
def test_a_link_elsewhere_leads_to_pages_only(served: Served, route: Way) -> None:
    told = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    given = {"Cookie": cookie(served), "Sec-Fetch-Dest": "document", **told}
    is_page = route.method == "GET" and not route.path.startswith("/api/")
    assert (head(served, route, given).status == 403) != is_page


# What every answer has


@everywhere
def test_every_answer_has_the_headers(served: Served, route: Way) -> None:
    kinds = [
        head(served, route, JSON if route.method != "GET" else BEARER),
        head(served, route, {}),
        head(served, route, {"Accept": "text/html"}),
        head(served, route, BEARER, host="evil.com"),
        head(served, route._replace(method="BREW"), BEARER),
        head(served, route, {**BEARER, "Content-Type": "text/plain"}, b"x"),
    ]
    for found in kinds:
        check_headers(found.status, found.headers, found.names)


def check_headers(status: int, headers: Mapping[str, str], names: tuple[str, ...]) -> None:
    for name, value in HEADERS.items():
        assert headers.get(name) == value, (status, name)
        assert names.count(name) == 1, name
    policy = headers["content-security-policy"]
    assert names.count("content-security-policy") == 1
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert not re.search(r"https?:", policy)
    assert "no-store" in headers["cache-control"] or "immutable" in headers["cache-control"]
    assert "server" not in headers
    assert not [name for name in names if name.startswith("access-control")]


def test_a_wall_without_pages_lets_no_link_from_elsewhere_through() -> None:
    told = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    given = {**BEARER, "Sec-Fetch-Dest": "document", **told}

    async def asked(path: str, **more: Any) -> int:
        wall = SecurityMiddleware(
            built(), Auth(TOKEN, 1), {"test"}, {"http://test"}, Limits(), **more
        )
        transport = httpx2.ASGITransport(app=wall)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            return (await http.get(path, headers=given)).status_code

    assert anyio.run(asked, "/enter") == 403
    assert anyio.run(partial(asked, "/enter", is_page=serving._is_page)) == 303
    assert anyio.run(partial(asked, "/api/v1/openapi.json", is_page=serving._is_page)) == 403


def test_an_answer_of_a_fault_has_them_too_and_tells_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fault(_request: Request) -> Response:
        raise ZeroDivisionError("a secret that nobody may see")

    app = built()
    app.router.routes.insert(0, Route("/api/v1/fault", fault))
    app.router.routes.insert(0, Route("/fault", fault))
    wall = SecurityMiddleware(
        app, Auth(TOKEN, 1), {"test"}, {"http://test"}, Limits(), serving._HEADERS
    )

    async def asked(path: str) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=wall, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            return await http.get(path, headers=BEARER)

    for path in ("/api/v1/fault", "/fault"):
        answer = anyio.run(asked, path)
        assert answer.status_code == 500
        for name, value in HEADERS.items():
            if name != "x-content-type-options":  # which the process adds to everything
                assert answer.headers[name] == value
        assert "secret" not in answer.text
        assert "Traceback" not in answer.text
    said = capfd.readouterr().err
    assert "ZeroDivisionError" in said
    assert re.search(r"web/test_security\.py:\d+ in fault", said)
    assert "secret" not in said


@everywhere
def test_no_answer_tells_about_the_machine(served: Served, route: Way) -> None:
    for body in (b"", b"{", b"null", b"[]", b"7", b"[" * 100_000, b"\xff\xfe", b'{"a":1}'):
        found = head(served, route, JSON, body)
        assert found.status < 500, body
        text = found.start.decode("latin-1")
        for told in ("Traceback", 'File "', ".py", "site-packages", TOKEN):
            assert told not in text


# Reading changes nothing, and forms change nothing (S5)


def tree(home: Path) -> dict[str, str]:
    """What is in a person's place, but for what is derived and for the log."""
    return {
        str(one.relative_to(home)): hashlib.sha256(one.read_bytes()).hexdigest()
        for one in sorted(home.rglob("*"))
        if one.is_file() and ".local" not in one.parts and one.name != "log"
    }


def value_of(schema: Mapping[str, Any]) -> object:
    """A value that fits a schema; any will do."""
    for kind in ("anyOf", "oneOf"):
        if kind in schema:
            return value_of(schema[kind][0])
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kinds = {"integer": schema.get("minimum", 1), "number": 1, "boolean": "true"}
    return kinds.get(str(schema.get("type")), "hello")


@cache
def described() -> dict[str, Any]:
    return document(OPERATIONS)["paths"]


def queries(path: str, method: str = "get") -> dict[str, object]:
    for pattern, methods in described().items():
        made = re.sub(r"{(\w+)}", lambda it: PARTS.get(it[1], "1"), pattern)
        if made == path and method in methods:
            given = methods[method].get("parameters", [])
            return {one["name"]: value_of(one["schema"]) for one in given if one["in"] == "query"}
    return dict.fromkeys(QUERY, "hello")


@everywhere
def read(served: Served, route: Way) -> None:
    if route.method in ("GET", "HEAD"):
        for query in ({}, queries(route.path)):
            asked = route._replace(path=f"{route.path}?{urlencode(query)}")
            assert head(served, asked, BEARER).status < 500, asked


def test_reading_changes_nothing(served: Served) -> None:
    before = tree(served.home)
    assert len(before) > 3
    read(served)
    assert tree(served.home) == before


@everywhere
def refuse_forms(served: Served, route: Way) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        given = {**BEARER, "Content-Type": kind}
        assert head(served, route._replace(method="POST"), given, b"{}").status == 415, kind


def test_what_a_form_can_send_is_not_taken(served: Served) -> None:
    before = tree(served.home)
    refuse_forms(served)
    assert tree(served.home) == before


# What it bears (S6)


@everywhere
def test_a_huge_body_is_refused(served: Served, route: Way) -> None:
    # Refused for what it says it will send, before it has.
    assert head(served, route, {**JSON, "Content-Length": "5242880"}).status == 413
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    given = f"{route.method} {route.path} HTTP/1.1\nHost: 127.0.0.1:{served.port}\n"
    more = "Content-Type: application/json\nTransfer-Encoding: chunked\n\n"
    # Just over the limit: more might still be on its way when the server closes.
    for _ in range(20):  # as in `head`: so many requests in a row may be too many
        answer = served.raw(f"{given}Authorization: Bearer {TOKEN}\n{more}", *[chunk] * 62)
        status = answer.partition("\r\n")[0]
        if " 429 " not in status:
            break
        time.sleep(0.5)
    assert " 413 " in status


@everywhere
def test_a_question_without_end_is_refused(served: Served, route: Way) -> None:
    for asked in (f"{route.path}?q={'x' * 100_000}", f"{route.path}/{'x' * 100_000}"):
        assert head(served, route._replace(path=asked), JSON, b"").status in (400, 414)


def test_who_sends_a_huge_body_to_its_end_sees_why_it_is_refused(served: Served) -> None:
    for route in (Way("POST", "/api/v1/memories/here"), Way("POST", ENTER), Way("GET", "/")):
        assert head(served, route, JSON, b" " * 5_242_880).status == 413


def test_a_number_without_end_is_no_fault() -> None:
    """Python refuses to read so many digits."""
    paths = document(OPERATIONS)["paths"].values()
    calls = [call for path in paths for call in path.values()]
    named = {one["name"] for call in calls for one in call.get("parameters", ())}
    names = sorted({*QUERY, *named, "after", "bank"})
    app = built()

    async def asked() -> list[str]:
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            wrong = []
            for route in routes():
                if route.method == "GET" and route.path != "/api/v1/events":
                    for name in names:
                        answer = await http.get(route.path, params={name: "7" * 5_000})
                        wrong += [f"{route} {name}"] if answer.status_code >= 500 else []
            return wrong

    assert anyio.run(asked) == []


def test_a_long_question_is_still_answered(served: Served) -> None:
    for text in ("word " * 9_000, '"' * 10_000, "(" * 10_000, "a*" * 10_000, "\0" * 10_000):
        answer = served.get("/api/v1/search", q=text)
        assert answer.status_code in (200, 400), answer.text
        assert served.get("/", q=text).status_code in (200, 400)


def test_ten_thousand_tags_are_refused_and_nothing_is_stored(served: Served) -> None:
    before = tree(served.home)
    body: dict[str, Any] = {"text": "many", "tags": [f"tag{number}" for number in range(10_000)]}
    for many, refused in ((10_000, 413), (9_000, 400)):
        answer = served.post("/api/v1/memories/here", {**body, "tags": body["tags"][:many]})
        assert answer.status_code == refused
        assert len(answer.text) < 2_000
    asked = urlencode([("q", "x"), *(("tag", f"t{number}") for number in range(2_000))])
    assert served.get(f"/api/v1/search?{asked}").status_code == 400
    assert tree(served.home) == before


def memory_of(served: Served) -> int:
    """What the server's process has in memory, in kilobytes."""
    text = Path(f"/proc/{served.process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]


def test_a_flood_of_strangers_takes_nothing_from_who_may_enter(served: Served) -> None:
    assert served.get("/").status_code == 200
    before = memory_of(served)
    stranger = Way("GET", "/")

    def flood(_: int) -> int:
        with contextlib.suppress(OSError):
            return _head(served, stranger, {}, b"", f"127.0.0.1:{served.port}").status
        return 0

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        waiting = [pool.submit(flood, number) for number in range(2_000)]
        seen = [served.get("/api/v1/search", q="hello").status_code for _ in range(10)]
        statuses = {one.result() for one in waiting}
    assert seen == [200] * 10
    assert statuses <= {0, 401, 429, 503}
    assert memory_of(served) - before < 100_000


def test_who_guesses_takes_nothing_from_others() -> None:
    """A code has more letters than anyone can guess: no number of wrong ones keeps it out."""
    door = Auth(TOKEN, 1)
    wall = SecurityMiddleware(
        built(door), door, {"test"}, {"http://test"}, Limits(rate=0.001, burst=5)
    )

    async def asked() -> None:
        transport = httpx2.ASGITransport(app=wall)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            guesses = [await http.post(ENTER, json={"code": f"{n:032}"}) for n in range(20)]
            assert {one.status_code for one in guesses} == {401}
            known = [await http.get("/api/v1/openapi.json", headers=BEARER) for _ in range(6)]
            assert [one.status_code for one in known] == [200] * 5 + [429]
            assert (await http.post(ENTER, json={"code": make_code(TOKEN, 1)})).status_code == 200

    anyio.run(asked)


def test_a_flood_of_pages_for_strangers_keeps_no_new_browser_out() -> None:
    door = Auth(TOKEN, 1)
    wall = SecurityMiddleware(
        built(door), door, {"test"}, {"http://test"}, Limits(rate=0.001, burst=5)
    )

    async def asked() -> None:
        transport = httpx2.ASGITransport(app=wall)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            for path in ("/", "/enter") * 20:
                shown = await http.get(path, headers={"Accept": "text/html"})
                assert (shown.status_code, shown.headers["content-type"][:9]) == (401, "text/html")
            assert (await http.post(ENTER, json={"code": make_code(TOKEN, 1)})).status_code == 200

    anyio.run(asked)


def test_every_refusal_has_the_one_shape() -> None:
    door = Auth(TOKEN, 1)
    limits = Limits(rate=0.001, burst=12)
    app = built(door)
    wall = SecurityMiddleware(app, door, {"test"}, {"http://test"}, limits)

    def fault(_request: Request) -> Response:
        raise ZeroDivisionError

    app.router.routes.insert(0, Route("/api/v1/fault", fault))
    app.state.live._pages = [None] * 1_000
    other = {"Content-Type": "text/plain"}
    calls: list[tuple[int, str, str, dict[str, Any]]] = [
        (401, "GET", "/api/v1/search", {}),
        (421, "GET", "/api/v1/search", {"headers": {"Host": "evil.com"}}),
        (403, "GET", "/api/v1/search", {"headers": {"Origin": "https://evil.com"}}),
        (401, "POST", ENTER, {"json": {"code": "x"}}),
        (400, "POST", ENTER, {"headers": {"Content-Type": "application/json"}, "content": b"{"}),
        (413, "POST", ENTER, {"json": "x" * 30_000}),
        (415, "POST", "/api/v1/compare", {"headers": {**BEARER, **other}, "content": b"{}"}),
        (414, "GET", "/api/v1/search?q=" + "x" * 60_001, {"headers": BEARER}),
        (404, "GET", "/api/v1/nowhere", {"headers": BEARER}),
        (405, "DELETE", "/api/v1/openapi.json", {"headers": BEARER}),
        (400, "GET", "/api/v1/search?odd=1", {"headers": BEARER}),
        (500, "GET", "/api/v1/fault", {"headers": BEARER}),
        (503, "GET", "/api/v1/events", {"headers": BEARER}),
        *[(401, "GET", "/api/v1/search", {})] * 11,
        (429, "GET", "/api/v1/search", {}),
    ]

    async def asked() -> None:
        transport = httpx2.ASGITransport(app=wall, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            for status, method, path, more in calls:
                answer = await http.request(method, path, **more)
                assert answer.status_code == status, (path[:80], answer.text)
                error = answer.json()["error"]
                assert {"code", "message", "unchanged", "hint"} <= error.keys(), path[:80]
                assert all(isinstance(one, str) for one in error.values())
                assert error["code"]
                assert error["message"]

    anyio.run(asked)


def test_a_flood_from_elsewhere_keeps_no_new_browser_out() -> None:
    """A page anywhere can send as much as it likes, and a program without the token nearly so."""
    door = Auth(TOKEN, 1)
    wall = SecurityMiddleware(
        built(door), door, {"test"}, {"http://test"}, Limits(rate=0.001, burst=5)
    )
    elsewhere: tuple[dict[str, str], ...] = (
        {"Host": "evil.com"},
        {"Origin": "https://evil.com"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    )

    async def asked() -> None:
        transport = httpx2.ASGITransport(app=wall)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            for path in ("/enter", ENTER):
                for given in elsewhere * 5:
                    answer = await http.get(path, headers={"Accept": "text/html", **given})
                    assert answer.status_code in (403, 421), given
            strange = [(await http.get("/api/v1/search?q=x")).status_code for _ in range(10)]
            assert strange == [401] * 5 + [429] * 5
            shown = await http.get("/enter", headers={"Accept": "text/html"})
            assert (shown.status_code, shown.headers["content-type"][:9]) == (401, "text/html")
            let_in = await http.post(ENTER, json={"code": make_code(TOKEN, 1)})
            assert let_in.status_code == 200
            assert (await http.get("/api/v1/openapi.json")).status_code == 200  # with its cookie

    anyio.run(asked)


def test_a_flood_of_guesses_opens_nothing(served: Served) -> None:
    given = {"Content-Type": "application/json"}

    def guess(number: int) -> int:
        body = json.dumps({"code": f"{number:032}"}).encode()
        with contextlib.suppress(OSError):
            host = f"127.0.0.1:{served.port}"
            return _head(served, Way("POST", ENTER), given, body, host).status
        return 0

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        waiting = [pool.submit(guess, number) for number in range(1_000)]
        seen = [served.get("/api/v1/search", q="hello").status_code for _ in range(10)]
        statuses = {one.result() for one in waiting}
    assert seen == [200] * 10
    assert statuses <= {0, 401, 429, 503}


def test_who_is_not_known_sends_little(served: Served) -> None:
    given = {"Content-Type": "application/json"}
    assert head(served, Way("POST", ENTER), given, b" " * 19_000).status == 400
    assert head(served, Way("POST", ENTER), given, b" " * 21_000).status == 413


def test_connections_that_say_nothing_do_not_keep_others_out(served: Served) -> None:
    silent: list[socket.socket] = []
    try:
        address = ("127.0.0.1", served.port)
        silent.extend(socket.create_connection(address, timeout=60) for _ in range(400))
        partly = [served.port.to_bytes(2, "big"), b"GET / HTTP/1.1\r\nHost: ", b"\r\n"]
        for sock, data in zip(silent[-60:], partly * 20, strict=True):
            with contextlib.suppress(OSError):
                sock.sendall(data)
        for _ in range(5):
            assert head(served, Way("GET", "/"), BEARER).status == 200
    finally:
        for sock in silent:
            sock.close()


def test_strangers_that_never_finish_do_not_keep_others_out(served: Served) -> None:
    lines = (
        f"POST {ENTER} HTTP/1.1",
        f"Host: 127.0.0.1:{served.port}",
        "Content-Type: application/json",
        "Content-Length: 100",
    )
    halves: list[socket.socket] = []
    # A person's own slow request is under way since before that, and is no stranger's.
    own = (lines[0].replace(ENTER, "/api/v1/compare"), *lines[1:3], "Content-Length: 2")
    slow = socket.create_connection(("127.0.0.1", served.port), timeout=60)
    slow.sendall("\r\n".join([*own, f"Authorization: Bearer {TOKEN}", "", "{"]).encode())
    try:
        for _ in range(300):
            sock = socket.create_connection(("127.0.0.1", served.port), timeout=60)
            halves.append(sock)
            with contextlib.suppress(OSError):
                sock.sendall("\r\n".join([*lines, "", "{"]).encode())
        statuses = [head(served, Way("GET", "/"), BEARER).status for _ in range(5)]
        name, value = served.cookie()  # and a new browser may still enter
        slow.sendall(b"}")
        told = slow.recv(12)
    finally:
        for sock in (slow, *halves):
            sock.close()
    assert statuses == [200] * 5
    assert served.ask("GET", "/", headers={"Cookie": f"{name}={value}"}).status_code == 200
    assert told == b"HTTP/1.1 400"  # it was read to its end, and lacks what it needs


def test_so_many_pages_may_listen_and_others_are_still_served(tmp_path: Path, begin: Begin) -> None:
    # A server of its own: pages of other tests may have gone a moment ago only.
    with started(tmp_path, env={"RETAIN_RECALL_EMBEDDER": "none"}, begin=begin) as served:
        _listen_until_refused(served)


def _listen_until_refused(served: Served) -> None:
    listening = Way("GET", "/api/v1/events")
    socks = []
    try:
        statuses = []
        for _ in range(130):
            sock = socket.create_connection(("127.0.0.1", served.port), timeout=60)
            socks.append(sock)
            host = f"Host: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
            sock.sendall(f"GET {listening.path} HTTP/1.1\r\n{host}\r\n".encode())
            statuses.append(int(sock.recv(64)[9:12]))
        assert statuses == [200] * 100 + [503] * 30
        assert served.get("/").status_code == 200
    finally:
        for sock in socks:
            sock.close()
    for _ in range(100):  # those that went away make room
        if head(served, listening, BEARER).status == 200:
            break
        time.sleep(0.2)
    else:
        raise AssertionError("nobody may listen any more")


def test_a_scope_that_is_none_opens_nothing(served: Served) -> None:
    for scope in ("nowhere", "HERE", "%00", "here%2f..", "x" * 3_000):
        for path in (f"/memory/{scope}/memories/hello", f"/api/v1/memories/{scope}/memories/hello"):
            assert served.get(path).status_code in (400, 404), path
