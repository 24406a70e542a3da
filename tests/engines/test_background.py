"""What engines are told while nobody waits: by who stays, and by who is sent off for it."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

import retain
from retain.app import App
from retain.app.worker import EmbeddingWorker
from retain.errors import RetainError
from retain.index.engines import delivery, locks, sending
from retain.index.engines.arm import EngineDown, Piece
from retain.index.engines.upstash import UpstashVectors
from retain.index.engines.wire import Trouble
from retain.mcp.server import Memory
from retain.search.request import SearchRequest
from retain.web.office import Office
from tests import indexes
from tests.cli import door as line
from tests.engines.contract import DIMENSION, KEY
from tests.engines.machines import by_words
from tests.engines.upstash_server import Upstash
from tests.index.embed.server import Answer, Asked, running

pytestmark = pytest.mark.slow

HANG: Final = 60.0
Read = Callable[[str], object]


_IS_DOWN: Final = threading.Event()


def _answers(asked: Asked) -> Answer:
    return Answer(status=500) if _IS_DOWN.is_set() else by_words(asked)


@pytest.fixture
def without_a_model() -> Iterator[None]:
    """As long as this lasts no model makes a vector."""
    _IS_DOWN.set()
    yield
    _IS_DOWN.clear()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstash]:
    """A service for vectors that a person has chosen, and a model; nobody waits for long."""
    monkeypatch.setattr("retain.app.worker._AGAIN", 0.05)
    monkeypatch.setattr("retain.index.engines.wire._FIRST_PAUSE", 0.1)
    found = Upstash(KEY, DIMENSION)
    with running(_answers) as model:
        for name, value in {
            "RETAIN_RECALL_EMBEDDER": model.base,
            "RETAIN_RECALL_MODEL": "words",
            "RETAIN_ENGINE_VECTOR": "upstash",
            "RETAIN_ENGINE_UPSTASH_URL": found.address,
            "UPSTASH_VECTOR_REST_TOKEN": KEY,
        }.items():
            monkeypatch.setenv(name, value)
        found.start()
        yield found
        _settle()
        found.kill()


@pytest.fixture
def bank(home: Path) -> Path:
    """A project's bank with some memories that nobody has told of."""
    root = indexes.new(home / "work" / ".retain")
    (root / "config.toml").write_text("format = 1\n", encoding="utf-8")
    indexes.many(root, 3)
    return root


@contextlib.contextmanager
def _api() -> Iterator[Read]:
    with retain.open(".retain") as memory:
        yield memory.search


@contextlib.contextmanager
def _mcp() -> Iterator[Read]:
    memory = Memory(lambda: App(stays=True))
    try:
        yield lambda query: memory.use(lambda app: app.search(SearchRequest(query)))
    finally:
        memory.close()


@contextlib.contextmanager
def _web() -> Iterator[Read]:
    office = Office(lambda own: App(everywhere=own, stays=True))
    try:
        yield lambda query: office.at_once(lambda app: app.search(SearchRequest(query)))
    finally:
        office.close()


DOORS: Final = pytest.mark.parametrize("door", [_api, _mcp, _web])


def _told(server: Upstash) -> set[str]:
    """The memories that it holds."""
    return set(_pieces(server))


def _pieces(server: Upstash) -> list[str]:
    """The memory of each piece that it holds."""
    asked = {"cursor": "0", "limit": 1000, "includeMetadata": True}
    return [
        one["metadata"]["memory"]
        for space in server.index.answer("/list-namespaces", "", None)
        for one in server.index.answer(f"/range/{space}", "", asked)["vectors"]
    ]


def _settle() -> None:
    """Wait for those that were sent off."""
    for one in sending._LEFT:
        one.wait(HANG)


def _wait(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not is_so():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


SOME: Final = {"notes/m000.md", "notes/m001.md", "notes/m002.md"}


@DOORS
def test_who_only_reads_delivers_what_waits_and_what_was_written_by_hand(
    server: Upstash, bank: Path, door: Callable[[], contextlib.AbstractContextManager[Read]]
) -> None:
    with door() as read:
        read("lantern")
        _wait(lambda: _told(server) == SOME)
        indexes.write(bank, "notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        read("zeppelin")
        _wait(lambda: _told(server) == SOME | {"notes/new.md"})


@DOORS
def test_an_engine_that_is_back_is_told_though_nobody_writes(
    server: Upstash, bank: Path, door: Callable[[], contextlib.AbstractContextManager[Read]]
) -> None:
    server.kill()
    with door() as read:
        read("lantern")
        with contextlib.closing(App()) as looking:
            _wait(lambda: _noted(looking) is not None)
        server.start()
        _wait(lambda: _told(server) == SOME)
    assert bank.exists()


def _noted(app: App) -> Trouble | None:
    """What kept the last delivery from its end."""
    engines = app.index().engines
    assert engines is not None
    return engines.wires["vector"].delivery()


@pytest.fixture
def in_config(server: Upstash, monkeypatch: pytest.MonkeyPatch, bank: Path) -> None:
    """What a person has chosen is in their own config, where another process may change it."""
    for name in ("RETAIN_ENGINE_VECTOR", "RETAIN_ENGINE_UPSTASH_URL"):
        monkeypatch.delenv(name)
    _shell("config", "set", "engine.upstash.url", server.address, "--global")


def _shell(*args: str) -> str:
    ran = line.call(*args)
    assert ran.code == 0, ran
    return ran.out


@DOORS
def test_who_stays_leaves_an_engine_that_a_person_has_moved_away_from(
    server: Upstash,
    bank: Path,
    in_config: None,
    door: Callable[[], contextlib.AbstractContextManager[Read]],
) -> None:
    _shell("engine", "migrate", "--to", "upstash")
    with door() as read:
        read("lantern")
        _wait(lambda: _told(server) == SOME)
        _shell("engine", "migrate", "--to", "sqlite")
        _shell("engine", "drop", "--from", "upstash", "--yes")
        asked = len(server.asked)
        indexes.write(bank, "notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        read("zeppelin")
    _settle()
    assert len(server.asked) == asked
    assert _told(server) == set()


@DOORS
def test_who_stays_tells_an_engine_that_a_person_has_moved_to(
    server: Upstash,
    bank: Path,
    in_config: None,
    door: Callable[[], contextlib.AbstractContextManager[Read]],
) -> None:
    with door() as read:
        read("lantern")
        _shell("engine", "migrate", "--to", "upstash")
        asked = len(server.asked)
        read("lantern")
        assert len(server.asked) > asked
        indexes.write(bank, "notes/new", "# New\n\nThe zeppelin lands at noon.\n")
        read("zeppelin")
        _wait(lambda: _told(server) == SOME | {"notes/new.md"})


def test_who_rests_tells_an_engine_that_is_chosen_later_though_nobody_writes(
    server: Upstash, bank: Path, in_config: None
) -> None:
    with contextlib.closing(App(stays=True)) as app:
        worker = EmbeddingWorker(app)
        app.sync()
        worker.wake()
        _wait(lambda: worker._rests)
        _shell("config", "set", "engine.vector", "upstash", "--global")
        worker.notice()
        _wait(lambda: _told(server) == SOME)
        worker.end()
    assert bank.exists()


def test_a_setting_that_has_nothing_to_do_with_engines_leaves_them_as_they_are(
    server: Upstash, bank: Path, in_config: None
) -> None:
    _shell("engine", "migrate", "--to", "upstash")
    with contextlib.closing(App(stays=True)) as app:
        indexed = app.index()
        engines = indexed.engines
        _shell("config", "set", "memory.max_bytes", "4096", "--global")
        assert indexed.engines is engines
        _shell("config", "set", "engine.patience_ms", "700", "--global")
        changed = indexed.engines
        assert changed is not None
        assert changed is not engines
        assert changed.wires["vector"].patience == 0.7


def test_a_config_that_cannot_be_read_any_more_costs_no_answer(
    server: Upstash, bank: Path, in_config: None, home: Path
) -> None:
    _shell("engine", "migrate", "--to", "upstash")
    own = home / ".retain" / "config.toml"
    text = own.read_text(encoding="utf-8")
    with contextlib.closing(App(stays=True)) as app:
        assert not app.search(SearchRequest("lantern")).degraded.reasons
        own.write_text("format = ", encoding="utf-8")
        answer = app.search(SearchRequest("lantern"))
        assert answer.hits
        assert "config.toml" in str(answer.degraded.reasons)
        own.write_text(text, encoding="utf-8")
        assert not app.search(SearchRequest("lantern")).degraded.reasons
    assert bank.exists()


def test_a_drop_waits_for_who_delivers_and_that_one_stops(
    server: Upstash, bank: Path, in_config: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _shell("config", "set", "engine.vector", "upstash", "--global")
    _shell("index")
    _settle()
    _shell("engine", "drop", "--yes")
    monkeypatch.setattr(delivery, "_BATCH", 1)
    is_sending, may_go_on = threading.Event(), threading.Event()
    put = UpstashVectors.put

    def slow(arm: UpstashVectors, pieces: Sequence[Piece]) -> None:
        put(arm, pieces)
        is_sending.set()
        assert may_go_on.wait(HANG)

    monkeypatch.setattr(UpstashVectors, "put", slow)
    with contextlib.closing(App(stays=True)) as app:
        worker = EmbeddingWorker(app)
        worker.wake()
        assert is_sending.wait(HANG)
        _shell("engine", "migrate", "--to", "sqlite")
        monkeypatch.setattr("retain.remote._OTHERS", 0.0)
        ran = line.call("engine", "drop", "--from", "upstash", "--yes")
        assert ran.code == 1
        assert "another process delivers just now" in ran.err
        assert "Nothing was removed" in ran.err
        assert len(_told(server)) == 1
        pieces = len(_pieces(server))
        monkeypatch.setattr("retain.remote._OTHERS", HANG)
        may_go_on.set()
        said = _shell("engine", "drop", "--from", "upstash", "--yes", "--json")
        assert json.loads(said)["pieces"] == pieces  # of the first memory, and of no other
        _wait(lambda: worker._rests)
        worker.end()
    assert _told(server) == set()
    assert bank.exists()


def test_what_a_repair_replaces_is_named(
    server: Upstash, bank: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = indexes.new(home / "other" / ".retain")
    for root, day in ((other, 2), (bank, 1)):
        text = f"---\nupdated_at: 2026-01-0{day}T00:00:00Z\n---\n# Tea\n\nOf day {day}.\n"
        indexes.write(root, "notes/tea", text)
    for root in (other, bank):
        monkeypatch.setenv("RETAIN_ENGINE_BANKS", f"team={root}")
        assert line.call("--bank", str(root), "engine", "push").code == 0
    assert "nothing to mend" in _shell("engine", "repair")
    ran = line.call("engine", "repair", "--mine")
    assert "replaced 1 that was newer there, or deleted there (notes/tea.md)" in ran.out
    assert "nothing to mend" not in ran.out
    assert line.call("--bank", str(other), "engine", "push").code == 0
    monkeypatch.setenv("RETAIN_ENGINE_BANKS", f"team={other}")
    mended = json.loads(_shell("--bank", str(other), "engine", "repair", "--mine", "--json"))
    assert mended["vector"]["replaced"] == ["notes/tea.md"]


def test_what_waits_in_the_persons_own_bank_is_told_by_who_looks_into_it(
    server: Upstash, bank: Path, home: Path
) -> None:
    own = home / ".retain"
    own.mkdir()
    (own / "config.toml").write_text("format = 1\n", encoding="utf-8")
    indexes.write(own, "mine/tea", "# Tea\n\nGreen tea.\n")
    with _mcp() as read:
        read("tea")
        _wait(lambda: _told(server) == SOME | {"mine/tea.md"})
    assert bank.exists()


def test_what_fails_once_is_tried_again(
    server: Upstash, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(stays=True)
    deliver = app.deliver
    tries = []

    def fails(*, is_stopped: Callable[[], bool]) -> bool:
        tries.append(1)
        if len(tries) == 1:
            raise RetainError("the index is busy")
        return deliver(is_stopped=is_stopped)

    monkeypatch.setattr(app, "deliver", fails)
    worker = EmbeddingWorker(app)
    app.sync()
    worker.notice()
    _wait(lambda: _told(server) == SOME)
    worker.end()
    app.close()
    assert bank.exists()


def test_an_engine_that_fails_is_left_alone_for_twice_as_long_each_time(
    bank: Path, server: Upstash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retain.index.engines.wire._FIRST_PAUSE", 2.0)
    clock = SimpleNamespace(time=lambda: 1000.0, monotonic=time.monotonic)
    with contextlib.closing(App()) as app:
        app.sync()
        engines = app.index().engines
        assert engines is not None
        wire = engines.wires["vector"]
        monkeypatch.setattr("retain.index.engines.wire.time", clock)
        pauses = []
        for _ in range(10):
            wire.note_delivery(EngineDown("It is down."))
            noted = _noted(app)
            assert noted is not None
            assert not noted.is_over
            pauses.append(noted.until - 1000.0)
        assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
        asked = len(server.asked)
        assert app.deliver()  # it still waits, and nobody was asked
        assert len(server.asked) == asked
        clock.time = lambda: 1300.0
        assert not app.deliver()  # which makes no vectors, so nothing is left to tell
        assert _noted(app) is None
    assert bank.exists()


# Those that are sent off


def _index() -> None:
    """Take in what is there, and have it told."""
    assert line.call("index").code == 0
    _settle()


def test_many_writes_send_one_off_and_all_of_them_are_told(
    server: Upstash, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = sending._start

    def counted(root: str, env: Mapping[str, str], lock: int) -> None:
        sending._LEFT[:] = [one for one in sending._LEFT if one.poll() is None]
        start(root, env, lock)
        started.append(len(sending._LEFT))

    monkeypatch.setattr(sending, "_start", counted)
    wanted = {f"notes/w{number:02}.md" for number in range(30)}
    for name in sorted(wanted):
        ran = line.call("put", "-", "--id", name[6:-3], "--collection", "notes", input="# W\n")
        assert ran.code == 0
    _settle()
    # Never more than one at a time, but for one that has let go and is about to end.
    assert max(started) <= 2
    assert len(started) < len(wanted)
    assert _told(server) == SOME | wanted
    assert bank.exists()


def test_what_is_written_while_one_is_about_to_end_is_told_as_well(
    server: Upstash, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer sees the lock, and sends nobody off: who has it looks again after letting go."""
    path = indexes.state(Path(bank)) / "sending.lock"
    _index()
    lock = locks.opened(str(path))
    assert locks.is_taken(lock)
    monkeypatch.setattr(sending, "_INPUT", lock)
    let_go = locks.let_go

    def late(fd: int) -> None:
        monkeypatch.setattr(locks, "let_go", let_go)
        ran = line.call("put", "-", "--id", "late", "--collection", "notes", input="# L\n")
        assert ran.code == 0
        let_go(fd)

    monkeypatch.setattr(locks, "let_go", late)
    assert line.call("engine", "push").code == 0
    os.close(lock)
    assert not [one for one in sending._LEFT if one.poll() is None]
    assert _told(server) == SOME | {"notes/late.md"}


def test_a_search_sends_someone_off_for_what_an_engine_could_not_be_told(
    server: Upstash, bank: Path
) -> None:
    _index()
    server.kill()
    indexes.write(bank, "notes/new", "# New\n\nThe zeppelin lands at noon.\n")
    assert line.call("engine", "push").code == 1
    server.start()
    assert line.call("engine", "status").code == 0
    with contextlib.closing(App()) as app:
        _wait(lambda: (_noted(app) or Trouble("", 0, 0.0)).is_over)
    assert _told(server) == SOME
    assert line.call("search", "lantern").code == 0
    _settle()
    assert _told(server) == SOME | {"notes/new.md"}


def test_a_program_that_ends_leaves_the_rest_to_one_that_is_sent_off(
    server: Upstash, bank: Path
) -> None:
    _index()
    with retain.open(".retain", background=False) as memory:
        memory.put("# New", id="new", collection="notes")
    _settle()
    assert _told(server) == SOME | {"notes/new.md"}
    assert bank.exists()


def test_what_was_deleted_is_known_though_the_index_is_made_anew(
    server: Upstash, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_ENGINE_BANKS", f"team={bank}")
    _index()
    assert _told(server) == SOME
    server.kill()
    (bank / "notes/m001.md").unlink()
    assert line.call("index", "--rebuild").code == 0
    _settle()
    server.start()
    ran = line.call("engine", "push", "--json")
    assert json.loads(ran.out)["vector"]["removed"] == 1
    assert json.loads(line.call("engine", "verify", "--json").out)["vector"]["elsewhere"] == []


# A model that is down


def test_what_has_its_vectors_is_told_though_the_model_is_down(server: Upstash, bank: Path) -> None:
    _index()
    indexes.write(bank, "notes/new", "# New\n\nThe zeppelin lands at noon.\n")
    _IS_DOWN.set()
    try:
        ran = line.call("engine", "push")
    finally:
        _IS_DOWN.clear()
    assert ran.code == 0
    assert "vectors cannot be made" in ran.err
    assert "1 memories wait for their vectors" in ran.err
    assert _told(server) == SOME


def test_words_move_though_the_model_is_down(
    bank: Path, without_a_model: None, monkeypatch: pytest.MonkeyPatch, server: Upstash
) -> None:
    for name in ("RETAIN_ENGINE_VECTOR", "RETAIN_ENGINE_UPSTASH_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("RETAIN_ENGINE_MEILISEARCH_URL", server.address)
    ran = line.call("engine", "migrate", "--to", "meilisearch")
    # What it comes to is that the server is none; no model was asked for anything before that.
    assert ran.code == 1
    assert "meilisearch" in ran.err.lower()
    assert "vectors" not in ran.err
    assert bank.exists()
