"""A page that waits keeps no other waiting."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from retain.app import App
from retain.errors import RetainError
from retain.web.bank_pool import BankPool
from retain.web.rendering import page
from tests.web import stage
from tests.web.stage import Begin, Served


@pytest.fixture
def served(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    with stage.started(
        tmp_path / "web", env={"RETAIN_RECALL_EMBEDDER": "none"}, begin=begin
    ) as server:
        yield server


def _holds(served: Served, path: Path) -> bool:
    """Whether the server has a directory open."""
    folder = Path("/proc", str(served.process.pid), "fd")
    for name in os.listdir(folder):
        try:
            if os.readlink(folder / name) == str(path):
                return True
        except OSError:  # closed meanwhile
            continue
    return False


def _wait_until_it_waits(served: Served, written: Future[httpx2.Response]) -> None:
    """Until a write has stood at the bank's lock for a while: reads open the bank, and go on."""
    seen = 0
    for _ in range(6_000):
        assert not written.done(), written.result().text
        seen = seen + 1 if _holds(served, served.bank) else 0
        if seen > 30:
            return
        time.sleep(0.01)
    raise AssertionError("the write never came to the lock")


@pytest.mark.slow
def test_while_a_write_waits_for_the_bank_pages_without_it_are_answered(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    style = served.get("/").text.partition('rel="stylesheet" href="')[2].partition('"')[0]
    root = os.open(served.bank, os.O_RDONLY)
    with ThreadPoolExecutor(2) as pool:
        try:
            fcntl.flock(root, fcntl.LOCK_EX)
            written = pool.submit(served.post, "/api/v1/memories/here", {"text": "# Late\n\nYes."})
            _wait_until_it_waits(served, written)
            listed = pool.submit(served.get, "/")  # has to wait for its turn, and does
            statuses = [served.get(path).status_code for path in ("/no-such-page", style)]
            assert not written.done(), "the answers came only after the write"
            assert statuses == [404, 200]
        finally:
            os.close(root)
        assert written.result(60).status_code == 200
        assert listed.result(60).status_code == 200


class _Slow(RetainError):
    """Something to show that takes until another page was answered."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __str__(self) -> str:
        self.begun.set()
        return "went on" if self.go_on.wait(30) else "was alone"


def test_a_page_that_takes_long_to_make_keeps_no_other_waiting(home: Path) -> None:
    slow = _Slow()

    async def shown(request: Request) -> Response:
        return page(request, "failure.html", {"title": slow, "error": slow})

    async def other(_request: Request) -> Response:
        slow.go_on.set()
        return PlainTextResponse("there")

    async def both() -> tuple[httpx2.Response, httpx2.Response]:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as http:
            first = asyncio.create_task(http.get("/slow"))
            while not slow.begun.is_set():
                await asyncio.sleep(0.01)
            return await http.get("/other"), await first

    app = Starlette(routes=[Route("/slow", shown), Route("/other", other)])
    app.state.banks = BankPool(lambda _own: App(bank=str(home / "bank")))
    quick, late = asyncio.run(both())
    app.state.banks.close()
    assert quick.text == "there"
    assert "went on" in late.text
    assert int(late.headers["content-length"]) == len(late.content)
