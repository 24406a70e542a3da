"""Where web tests play: the installed `retain web` as a process, and a browser that tells tales.

Everything is real. A test that needs a bank with something in it, or a project's bank, makes a
fixture of its own named `served` with `started`, and everything else follows from that one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from playwright.sync_api import BrowserContext, ConsoleMessage, Error, Page

from retain.web.auth import make_code
from tests import undertaker
from tests.conftest import FOREIGN_NAMES, FOREIGN_PREFIXES, command, own_world
from tests.web.nursery import Child

TOKEN = "a-token-that-no-log-may-ever-hold-0123456789"
LINK = re.compile(r"(http://127\.0\.0\.1:(\d+))/enter#(\S+)\n")
_TALES = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
});
"""


Process = subprocess.Popen[bytes] | Child
# Begins `retain` with these arguments, this environment, in this directory, with this log.
Begin = Callable[[Sequence[str], Mapping[str, str], Path, Path], Process]


class Served(NamedTuple):
    """A server that runs, and its bank."""

    process: Process
    url: str
    link: str  # good once
    home: Path
    work: Path  # the directory it was started in
    log: Path
    http: httpx2.Client  # kept open: a new one and its connection cost more than most answers

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def bank(self) -> Path:
        """The directory of the bank in force."""
        own = self.work / ".retain"
        return own if own.is_dir() else self.home / ".retain"

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(20)

    def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        json: object = None,
        params: Any = None,
    ) -> httpx2.Response:
        """A request with the token, unless other headers are given."""
        sent = {"Authorization": f"Bearer {TOKEN}"} if headers is None else dict(headers)
        self.http.cookies.clear()  # each request is a stranger's, but for what it sends itself
        return self.http.request(
            method, self.url + path, headers=sent, content=content, json=json, params=params
        )

    def get(self, path: str, **params: Any) -> httpx2.Response:
        return self.ask("GET", path, params=params or None)

    def post(self, path: str, body: object = None) -> httpx2.Response:
        return self.ask("POST", path, json={} if body is None else body)

    def put(self, path: str, body: object) -> httpx2.Response:
        return self.ask("PUT", path, json=body)

    def api(self, method: str, path: str, body: object = None, **params: Any) -> Any:
        """What an operation below /api/v1 answers; it has to succeed."""
        sent = {} if body is None and method == "POST" else body
        answer = self.ask(method, f"/api/v1{path}", json=sent, params=params or None)
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def store(self, text: str, **more: object) -> dict[str, Any]:
        """Store a memory; `title`, `id`, `collection`, `type` and `tags` may be given."""
        found: dict[str, Any] = self.api("POST", "/memories/here", {"text": text, **more})
        return found

    def run(self, *args: str, input: str = "", cwd: Path | None = None) -> str:
        """The command line beside the server, on the same bank."""
        done = subprocess.run(
            [*command(), *args],
            input=input.encode(),
            env=world(self.home),
            cwd=cwd or self.work,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def raw(self, text: str, *more: bytes) -> str:
        """What comes back for these very bytes, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as sock:
            sock.sendall(text.replace("\n", "\r\n").encode("latin-1"))
            with contextlib.suppress(ConnectionError):
                for data in more:
                    sock.sendall(data)
            found = b""
            with contextlib.suppress(ConnectionError):
                while data := sock.recv(65_536):
                    found += data
        return found.decode("latin-1")

    def cookie(self) -> tuple[str, str]:
        """The name and the value of the cookie that a link gives to a browser."""
        code = make_code(TOKEN, self.port)
        answer = self.ask("POST", "/api/v1/enter", headers={}, json={"code": code})
        ((name, value),) = answer.cookies.items()
        return name, value


def world(home: Path) -> dict[str, str]:
    """The environment of a person whose only place is `home`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(FOREIGN_PREFIXES) and name not in FOREIGN_NAMES
    }
    return {**kept, **own_world(home), "RETAIN_MCP_TOKEN": TOKEN}


def installed(
    args: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path
) -> subprocess.Popen[bytes]:
    """The installed command as a process."""
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [*command(), *args],
            env=env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )


@contextlib.contextmanager
def started(
    home: Path,
    *args: str,
    project: bool = False,
    env: Mapping[str, str] | None = None,
    begin: Begin = installed,
) -> Iterator[Served]:
    """A server in a process of its own, ended by its id; on a project's bank if that is wanted."""
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    (home / ".run").mkdir(mode=0o700, exist_ok=True)
    given = {**world(home), **(env or {})}
    log = home / "log"
    if project:
        code = begin(["init"], given, work, log).wait(60)
        assert code == 0, log.read_text(encoding="utf-8")
    process = begin(["web", "--port", "0", *args], given, work, log)
    undertaker.minds(process.pid)
    try:
        found = _link(process, log)
        # Without certificates, which take longer to load than all of a test; tried again where the
        # server has just closed a connection that waited.
        with httpx2.Client(
            transport=httpx2.HTTPTransport(verify=False, retries=1), timeout=60
        ) as http:
            yield Served(process, found[1], found[0].strip(), home, work, log, http)
    finally:
        process.kill()
        process.wait()
        undertaker.lets_go(process.pid)


def _link(process: Process, log: Path) -> re.Match[str]:
    for _ in range(1_200):
        text = log.read_text(encoding="utf-8")
        if found := LINK.search(text):
            return found
        assert process.poll() is None, text
        time.sleep(0.05)
    raise AssertionError("the server never came up")


def chromium() -> str:
    """The browser's program; empty where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), "")


class Trouble:
    """What a page should never do, told at the end of its test unless it was expected."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._expected: list[str] = []

    def expects(self, *texts: str) -> None:
        """A test that provokes a refusal says so: `trouble.expects("409")`."""
        self._expected += texts

    @property
    def seen(self) -> list[str]:
        return [one for one in self._seen if not any(text in one for text in self._expected)]

    def watch(self, page: Page, own: str) -> None:
        """Take note of errors, violations of the policy, dialogs and requests to elsewhere."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._seen.append(f"error on the page: {error}"))
        page.on("dialog", lambda dialog: self._dialog(dialog.message, dialog.dismiss))
        page.on("request", lambda request: self._request(request.url, own))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            self._seen.append(f"console: {message.text} ({where})")

    def _dialog(self, text: str, dismiss: Any) -> None:
        self._seen.append(f"dialog: {text}")
        with contextlib.suppress(Error):
            dismiss()

    def _request(self, url: str, own: str) -> None:
        if not url.startswith((f"{own}/", "blob:")):
            self._seen.append(f"request to elsewhere: {url}")


def until(page: Page, condition: str) -> None:
    """Wait until a page finds something true; playwright's own way is refused by the policy."""
    look = f"() => (({condition}) ? done() : requestAnimationFrame(look))"
    page.evaluate(f"() => new Promise((done) => {{ const look = {look}; look(); }})")


def enter(context: BrowserContext, served: Served, trouble: Trouble) -> Page:
    """A page of a browser that has been let in; what goes wrong on it is noted."""
    name, value = served.cookie()
    context.add_cookies([{"name": name, "value": value, "url": served.url, "httpOnly": True}])
    context.add_init_script(_TALES)
    page = context.new_page()
    page.set_default_timeout(60_000)
    trouble.watch(page, served.url)
    return page
