"""How an engine is asked: what is waited for, and what is not."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from retain.index.engines import wire as wiring
from retain.index.engines.arm import (
    Arm,
    EngineDown,
    EngineError,
    EngineLocked,
    EngineRefused,
    Sieve,
)
from retain.index.engines.meilisearch import MeilisearchText
from retain.index.engines.naming import Names
from retain.index.engines.upstash import UpstashVectors
from retain.index.engines.wire import Wire, said
from tests import indexes
from tests.engines.contract import memory, shown
from tests.engines.rows import ROWS
from tests.engines.servers import odd


def _wire(
    tmp_path: Path,
    port: int,
    patience: float,
    loading: float,
    passes: Callable[[float], None] = time.sleep,
) -> Wire[UpstashVectors]:
    def make(patience: float) -> UpstashVectors:
        passes(loading)
        return UpstashVectors(f"http://127.0.0.1:{port}", "k", Names("b"), patience=patience)

    store = indexes.indexed(indexes.new(tmp_path / "bank"), None).database
    return Wire("vector", f"upstash 127.0.0.1:{port} b m", make, store, patience, b"GET / \r\n\r\n")


def test_what_a_client_takes_to_load_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 0.0

    def passes(seconds: float) -> None:
        nonlocal late
        late += seconds

    def answered(_arm: object) -> str:
        time.sleep(0.2)  # longer than nothing, which would be left had the loading been counted
        return "answered"

    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + late, time=time.time, sleep=time.sleep
    )
    monkeypatch.setattr(wiring, "time", clock)
    with odd("html") as port:
        wire = _wire(tmp_path, port, patience=60, loading=3600, passes=passes)
        assert wire.ask(answered)() == "answered"
        assert wire.trouble() is None


def test_a_server_that_hangs_is_found_out_before_a_client_is_loaded(tmp_path: Path) -> None:
    with odd("hang") as port:
        wire = _wire(tmp_path, port, patience=0.2, loading=3600)
        with pytest.raises(EngineDown, match="did not answer"):
            wire.ask(lambda _arm: "never")()
        trouble = wire.trouble()
        assert trouble is not None
        assert "did not answer" in trouble.why
        with odd("html") as other:
            assert _wire(tmp_path, other, patience=0.2, loading=0).trouble() is None


def test_a_name_that_takes_for_ever_to_look_up_is_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(socket, "create_connection", lambda *_args: is_over.wait(600))
    monkeypatch.setattr(wiring, "_LOADING", 600.0)  # which is for clients, and not for this
    wire = _wire(tmp_path, 9, patience=0.2, loading=0)
    with pytest.raises(EngineDown, match=r"did not answer within 0\.2 seconds"):
        wire.ask(lambda _arm: "never")()
    is_over.set()


def test_nobody_waits_for_an_answer_when_the_program_ends(tmp_path: Path) -> None:
    asked, is_over = threading.Event(), threading.Event()
    with odd("html") as port:
        wire = _wire(tmp_path, port, patience=0.2, loading=0)

        def work(_arm: object) -> None:
            asked.set()
            is_over.wait(600)

        def leave() -> None:
            asked.wait(600)
            wire.leave()

        threading.Thread(target=leave, daemon=True).start()
        with pytest.raises(EngineDown, match="not waited for any more"):
            wire.insist(work, 600)
        is_over.set()
        assert wire.trouble() is None  # which the server has not earned


class _MorePages(BaseHTTPRequestHandler):
    """A server that always has one more page, of Meilisearch's indexes or of Upstash's vectors."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        number = str(next(_PAGES))
        vector = {"id": number, "metadata": _METADATA}
        body = json.dumps(
            {
                "results": [{"uid": "other"}],
                "total": 10**15,
                "result": {"nextCursor": number, "vectors": [vector], "namespaces": {}},
            }
        ).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - the names it is called by

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class _Pages(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # who asks for ever must not keep the test from ending


_PAGES = itertools.count(1)
_METADATA = {"memory": "notes/a.md", "hash": "h", "written": "1.0", "pieces": 1, "model": "m"}


@contextlib.contextmanager
def _more_pages() -> Iterator[int]:
    with _Pages(("127.0.0.1", 0), _MorePages) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


def _upstash(address: str, patience: float) -> Arm:
    return UpstashVectors(address, "k", Names("b"), patience=patience)


def _meilisearch(address: str, patience: float) -> Arm:
    return MeilisearchText(address, "k", Names("b"), patience=patience)


def _all_pages(arm: Arm) -> None:
    if isinstance(arm, UpstashVectors):
        for _ in arm._pages("b-retain-notes"):
            pass
    arm.count(Sieve())


@pytest.mark.parametrize("make", [_upstash, _meilisearch])
def test_a_server_that_always_has_one_more_page_is_left_when_nobody_waits(
    tmp_path: Path, make: Callable[[str, float], Arm]
) -> None:
    with _more_pages() as port:
        store = indexes.indexed(indexes.new(tmp_path / "bank"), None).database
        target = f"pages 127.0.0.1:{port} b m"
        wire = Wire("text", target, partial(make, f"http://127.0.0.1:{port}"), store, 0.5)
        # Whichever comes first: the end of patience, or that of the pages that are believed.
        with pytest.raises(EngineError, match=r"did not answer within|without an end"):
            wire.ask(_all_pages)()
        asking = [one for one in threading.enumerate() if one.name == "retain-pages"]
        for thread in asking:
            thread.join(60)
        assert not any(thread.is_alive() for thread in asking)
        wire.close()


@pytest.mark.parametrize(
    "fault",
    [
        lambda: json.loads("{"),
        lambda: int(float("inf")),
        lambda: json.loads("{}")["hits"],
        lambda: json.loads("null") + 1,
    ],
)
def test_an_answer_that_no_adapter_expected_is_the_servers_fault(
    tmp_path: Path, fault: Callable[[], object]
) -> None:
    with odd("html") as port:
        wire = _wire(tmp_path, port, patience=5.0, loading=0)
        with pytest.raises(EngineRefused, match="cannot be read") as caught:
            wire.ask(lambda _arm: fault())()
        assert caught.value.__cause__ is not None  # so that a fault of ours is seen as well
        trouble = wire.trouble()
        assert trouble is not None
        assert "cannot be read" in trouble.why


def test_what_only_a_person_can_mend_is_told_with_how() -> None:
    assert said(EngineRefused("No client.", hint="Install it.")) == "No client. Install it."
    assert said(EngineDown("Gone.", hint="Nothing is lost.")) == "Gone."


def test_a_fault_of_ours_is_no_fault_of_the_servers(tmp_path: Path) -> None:
    def mistaken(_arm: object) -> None:
        raise NameError("nothing is called so")

    with odd("html") as port:
        wire = _wire(tmp_path, port, patience=5.0, loading=0)
        with pytest.raises(NameError):
            wire.ask(mistaken)()
        assert wire.trouble() is None


_UNFIT = ("sk-N0body\N{SNOWMAN}", "sk-N0body\r\nX-Other: 1", "sk-N0body\n", "sk-N0body\udcff")


def _unfit(product: str, key: str, port: int, patience: float) -> Arm:
    row = next(row for row in ROWS if row.product == product)
    return row.arm(f"{row.scheme}://127.0.0.1:{port}", key, Names("b"), patience)


@pytest.mark.parametrize("product", ["qdrant", "upstash", "meilisearch", "postgres"])
def test_a_key_that_cannot_be_sent_is_a_wrong_key_and_never_shown(
    tmp_path: Path, product: str
) -> None:
    store = indexes.indexed(indexes.new(tmp_path / "bank"), None).database
    acts: list[Callable[[Arm], object]] = [
        lambda arm: arm.version(),
        lambda arm: arm.held(["notes/a.md"]),
        lambda arm: arm.put(memory(Names("b"), "notes/a.md")),
        lambda arm: list(arm.manifest()),
    ]
    for key in _UNFIT[-1:] if product == "postgres" else _UNFIT:
        with odd("html") as port:
            make = partial(_unfit, product, key, port)
            wire = Wire("vector", f"{product} 127.0.0.1:{port} b", make, store, 60.0)
            for act in acts:
                with pytest.raises(EngineLocked) as caught:
                    wire.insist(act)
                assert "N0body" not in shown(caught.value), key
            wire.close()


def test_what_a_client_cannot_be_made_with_is_told_without_what_it_holds(tmp_path: Path) -> None:
    def make(_patience: float) -> UpstashVectors:
        "sk-N0body\N{SNOWMAN}".encode("ascii")
        raise AssertionError

    with odd("html") as port:
        store = indexes.indexed(indexes.new(tmp_path / "bank"), None).database
        wire = Wire("vector", f"upstash 127.0.0.1:{port} b", make, store, 60.0)
        with pytest.raises(EngineRefused, match=r"cannot be asked .*UnicodeEncodeError") as caught:
            wire.ask(lambda arm: arm.version())()
        assert "N0body" not in shown(caught.value)
