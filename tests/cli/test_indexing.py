"""stats, sync, index, watch and doctor: the index is derived, always right, and made anew."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import pytest

from retain.index.store import Store
from tests.cli.door import call, done
from tests.conftest import command


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")
    put("plan", "# Plan\n\nWe plan [[src/a.py]].\n", "--type", "plan", "--tags", "auth,ui")
    put("note", "# Note\n\n" + "\n\n".join(f"## Part {n}\n\n{'word ' * 150}" for n in range(4)))
    return home / "work" / ".retain"


def put(name: str, text: str, *words: str) -> None:
    done("put", "-", "--id", name, "--quiet", *words, input=text)


def many(bank: Path, count: int) -> list[Path]:
    files = [bank / "memories" / f"many-{n}.md" for n in range(count)]
    for n, file in enumerate(files):
        file.write_text(f"Memory number{n} of many.\n", encoding="utf-8")
    return files


# stats


def test_stats_count_memories_tags_and_types(bank: Path) -> None:
    told = json.loads(done("stats", "--json"))
    assert told["count"] == 2
    assert told["tags"] == {"auth": 1, "ui": 1}
    assert told["types"] == {"journal": 1, "plan": 1}
    assert told["memory_path"] == str(bank)
    size = sum(file.stat().st_size for file in (bank / "memories").iterdir())
    assert told["bytes"] == size
    assert told["total_size"] == f"{size / 1024:.1f}KB"
    assert told["chunks"] > told["count"]
    assert (told["vectors"], told["pending"], told["held"], told["model"]) == (0, 0, 0, None)
    assert told["index_size"] == (bank / ".index" / "index.db").stat().st_size
    out = done("stats")
    assert "Tags:     auth 1, ui 1\n" in out
    assert f"Path:     {bank}\n" in out


def test_stats_name_files_that_are_left_out(bank: Path) -> None:
    (bank / "memories" / "huge.md").write_bytes(b"x" * 2_000_001)
    told = json.loads(done("stats", "--json"))
    assert [Path(one["path"]).name for one in told["problems"]] == ["huge.md"]


def test_stats_of_no_bank_are_zero_and_make_none(home: Path) -> None:
    assert json.loads(done("stats", "--global", "--json"))["count"] == 0
    assert not (home / ".retain").exists()


# sync


def test_sync_says_what_changed_on_disk(bank: Path) -> None:
    done("sync")
    files = many(bank, 3)
    told = json.loads(done("sync", "--json"))
    assert (told["added"], told["changed"], told["removed"]) == (3, 0, 0)
    files[0].write_text("Something else.\n", encoding="utf-8")
    files[1].unlink()
    assert done("sync").splitlines()[0] == "0 added, 1 changed, 1 removed"
    assert done("sync").splitlines()[0] == "0 added, 0 changed, 0 removed"
    assert done("sync", "--quiet") == ""


def test_loss_of_most_memories_at_once_is_held_until_it_is_meant(bank: Path) -> None:
    files = many(bank, 30)
    done("sync")
    for file in files[:25]:
        file.unlink()
    ran = call("sync")
    assert ran.code == 0
    assert "25 memories are missing from disk at once" in ran.err
    assert "retain sync --force" in ran.err
    assert call("status").err.startswith("warning: 25 memories are missing")
    assert json.loads(done("status", "--json"))["index"]["held"] == 25
    assert call("doctor").code == 1
    assert call("index", "--rebuild").code == 4
    assert json.loads(done("sync", "--json"))["held"] == 25
    assert json.loads(done("sync", "--force", "--json"))["removed"] == 25
    assert call("sync").err == ""
    assert call("doctor").code == 0


def test_files_that_come_back_are_found_again(bank: Path) -> None:
    files = many(bank, 30)
    done("sync")
    for file in files:
        file.rename(file.with_suffix(".gone"))
    assert done("search", "number7", "--quiet") == ""
    for file in files:
        file.with_suffix(".gone").rename(file)
    assert done("search", "number7", "--quiet") == "memories/many-7\n"
    assert json.loads(done("sync", "--json"))["held"] == 0


def test_no_bank_is_told_from_an_empty_one(home: Path) -> None:
    for name in ("sync", "index"):
        ran = call(name, "--global")
        assert (ran.code, ran.out) == (3, "")
        assert "made with the first memory" in ran.err
    assert not (home / ".retain").exists()


# index


def test_rebuilt_index_answers_as_before_and_keeps_its_vectors(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
    first = json.loads(done("index", "--json"))
    assert first["vectors_made"] == first["vectors"] == first["chunks"] > 2
    assert first["pending"] == 0
    before = done("search", "plan words", "--json")
    files = {path: path.read_bytes() for path in (bank / "memories").iterdir()}
    again = json.loads(done("index", "--rebuild", "--json"))
    assert (again["added"], again["vectors_made"]) == (2, 0)
    assert again["vectors"] == first["vectors"]
    assert done("search", "plan words", "--json") == before
    assert {path: path.read_bytes() for path in (bank / "memories").iterdir()} == files


def test_vectors_can_be_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
    told = json.loads(done("index", "--no-vectors", "--json"))
    assert told["vectors"] == 0
    assert told["pending"] == told["chunks"]
    assert f"{told['pending']} waiting for one" in done("status")


class _Server(ThreadingHTTPServer):
    """An OpenAI-compatible embedder that stops answering after so many batches."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.patience = 1
        self.asked = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        texts = json.loads(self.rfile.read(length))["input"]
        texts = [texts] if isinstance(texts, str) else texts
        if self.server.patience <= 0:
            self.server.asked.set()
            time.sleep(60)
            return
        if len(texts) > 1:
            self.server.patience -= 1
        vectors = [{"index": n, "embedding": [1.0, 0.0, n / 100]} for n, _ in enumerate(texts)]
        body = json.dumps({"data": vectors, "model": "m"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing on the terminal."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    server = _Server()
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/v1/embeddings"
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", address)
    monkeypatch.setenv("RETAIN_RECALL_MODEL", "m")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_interrupted_index_goes_on_where_it_stopped(bank: Path, server: _Server) -> None:
    many(bank, 100)
    child = subprocess.Popen(
        [*command(), "index"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    assert server.asked.wait(60)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, "")
    assert "goes on where it stopped" in err
    server.patience = 1_000_000
    told = json.loads(done("index", "--json"))
    assert 0 < told["vectors_made"] < told["vectors"] == told["chunks"]
    assert call("doctor").code == 0


# watch


class Watching:
    """A `retain watch` in a process of its own."""

    def __init__(self, *words: str) -> None:
        self.child = subprocess.Popen(
            [*command(), "watch", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def line(self, stream: IO[str] | None) -> str:
        assert stream
        with selectors.DefaultSelector() as waiting:
            waiting.register(stream, selectors.EVENT_READ)
            assert waiting.select(20), "nothing was said in time"
        return stream.readline()


@pytest.fixture
def watching() -> Iterator[Callable[..., Watching]]:
    with contextlib.ExitStack() as ends:

        def start(*words: str) -> Watching:
            one = Watching(*words)
            ends.enter_context(one.child)
            ends.callback(one.child.kill)
            assert one.line(one.child.stderr).startswith("Watching ")
            return one

        yield start


def test_watch_takes_in_every_change_and_ends_politely(
    bank: Path, watching: Callable[..., Watching]
) -> None:
    one = watching()
    file = bank / "memories" / "new.md"
    file.write_text("A zebra.\n", encoding="utf-8")
    assert one.line(one.child.stdout).split()[1:] == ["+1", "~0", "-0"]
    file.write_text("A walrus.\n", encoding="utf-8")
    assert one.line(one.child.stdout).split()[1:] == ["+0", "~1", "-0"]
    file.unlink()
    assert one.line(one.child.stdout).split()[1:] == ["+0", "~0", "-1"]
    one.child.terminate()
    out, err = one.child.communicate(timeout=30)
    assert (one.child.returncode, out, err) == (0, "", "")
    assert json.loads(done("sync", "--json"))["added"] == 0
    assert call("doctor").code == 0


def test_watch_sees_new_collections_and_ctrl_c_ends_it(
    bank: Path, watching: Callable[..., Watching]
) -> None:
    one = watching("--json")
    (bank / "fresh").mkdir()
    (bank / "fresh" / "a.md").write_text("A zebra.\n", encoding="utf-8")
    told = json.loads(one.line(one.child.stdout))
    assert set(told) == {"time", "added", "changed", "removed", "vectors", "held"}
    assert told["added"] == 1
    (bank / "fresh" / "b.md").write_text("A walrus.\n", encoding="utf-8")
    assert json.loads(one.line(one.child.stdout))["added"] == 1
    one.child.send_signal(signal.SIGINT)
    out, err = one.child.communicate(timeout=30)
    assert (one.child.returncode, out, err) == (0, "", "")


# doctor


def test_healthy_bank_is_said_to_be_so(bank: Path) -> None:
    out = done("doctor")
    assert "all in order" in out
    assert out.rstrip().endswith("in order")
    assert done("doctor", "--quiet") == ""
    told = json.loads(done("doctor", "--json"))
    assert (told["healthy"], told["faults"], told["problems"]) == (True, [], [])


@pytest.mark.parametrize(
    "damage, said",
    [
        ("UPDATE totals SET chunks = chunks + 1", "total of chunks"),
        ("UPDATE totals SET length = 0", "total of words"),
        ("UPDATE totals SET wholes = 9", "total of longer memories"),
        ("DELETE FROM terms WHERE rowid = 1", "no word finds"),
        ("DELETE FROM wholes", "as a whole"),
        ("DELETE FROM chunks WHERE number = 1", "without all of their chunks"),
        ("DELETE FROM pending WHERE chunk = 1", "no vector and wait for none"),
        ("INSERT INTO pending VALUES (999)", "or are not there"),
        ("INSERT INTO vectors VALUES (1, 1, 'other', 0, x'00', x'00')", "another model"),
        ("DELETE FROM links", "other chunks or links"),
        ("UPDATE chunks SET text = 'forged' WHERE number = 1", "other chunks or links"),
        ("UPDATE terms SET bag = 'forged' WHERE rowid = 1", "other chunks or links"),
        ("UPDATE memories SET title = 'forged'", "other chunks or links"),
        ("UPDATE terms_content SET c0 = 'forged' WHERE id = 1", "are damaged"),
    ],
)
def test_faulty_index_is_found_out_and_repaired(damage: str, said: str, bank: Path) -> None:
    done("sync")
    store = Store(str(bank))
    with store.writing() as connection:
        connection.execute("PRAGMA defensive = 0")
        connection.execute(damage)
    store.close()  # sealed, so that nothing but the doctor notices
    ran = call("doctor")
    assert ran.code == 1
    assert said in ran.out
    assert "retain doctor --repair" in ran.err
    files = {path: path.read_bytes() for path in (bank / "memories").iterdir()}
    repaired = done("doctor", "--repair")
    assert "made anew, and now in order" in repaired
    assert done("doctor").rstrip().endswith("in order")
    assert {path: path.read_bytes() for path in (bank / "memories").iterdir()} == files


def test_row_of_another_text_is_found_out(bank: Path) -> None:
    time.sleep(0.15)  # until then every look reads the file again
    done("sync")
    store = Store(str(bank))
    with store.writing() as connection:
        connection.execute("UPDATE memories SET hash = x'00'")
    store.close()
    assert "memories/plan.md is in the index with another text" in call("doctor").out
    done("doctor", "--repair")


def test_spoilt_vector_is_found_by_its_check_sum(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
    done("index")
    store = Store(str(bank))
    with store.writing() as connection:
        connection.execute("UPDATE vectors SET vector = zeroblob(388) WHERE chunk = 1")
    store.close()
    assert "check sum" in call("doctor").out
    done("doctor", "--repair")
    told = json.loads(done("index", "--json"))
    assert told["vectors"] == told["chunks"]


def test_index_that_was_overwritten_is_made_anew_by_itself(bank: Path) -> None:
    done("sync")
    (bank / ".index" / "index.db").write_bytes(b"garbage" * 1000)
    assert done("search", "plan", "--quiet") == "memories/plan\n"
    assert call("doctor").code == 0


def test_file_that_cannot_be_parsed_makes_the_doctor_unhappy(bank: Path) -> None:
    (bank / "memories" / "bad.md").write_text("---\na: [\n---\nbody\n", encoding="utf-8")
    ran = call("doctor", "--repair")
    assert ran.code == 1
    assert "memories/bad.md: the frontmatter is not valid YAML" in ran.out


def test_doctor_without_a_bank_makes_none(home: Path) -> None:
    assert "there is no bank yet" in done("doctor", "--global")
    assert not (home / ".retain").exists()


def test_commands_leave_the_index_sealed(bank: Path) -> None:
    """Else the next command would take it for damaged and make it anew."""
    done("search", "plan")
    before = (bank / ".index" / "index.db").stat().st_ino
    for words in (("search", "x"), ("stats",), ("status",), ("put", "-", "--id", "z")):
        done(*words, input="z")
        assert (bank / ".index" / "index.db").stat().st_ino == before
        assert not os.path.exists(bank / ".index" / "index.db-wal")
    with contextlib.closing(sqlite3.connect(bank / ".index" / "index.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] >= 1
