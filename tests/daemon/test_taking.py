"""One process listens for a bank; the next takes over; nothing is left behind."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from retain.app import App
from retain.daemon import client
from retain.daemon.server import Server
from retain.errors import Unsafe
from tests.cli.door import done
from tests.daemon.process import end, holder, host, left, raw, said, soon

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


def mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_the_next_takes_over_when_one_ends_or_is_killed(bank: str) -> None:
    with host(bank) as first:
        assert soon(lambda: holder(bank) == first.pid)
        with host(bank) as second, host(bank) as third:
            assert holder(bank) == first.pid
            assert end(first) == (0, "")
            assert soon(lambda: holder(bank) in (second.pid, third.pid))
            one, other = (second, third) if holder(bank) == second.pid else (third, second)
            one.kill()
            one.wait()
            assert soon(lambda: holder(bank) == other.pid)
            assert end(other) == (0, "")
    assert left(bank) == []


def test_a_socket_that_was_removed_is_made_anew(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        shutil.rmtree(os.path.dirname(client.socket_path(bank)))
        assert soon(lambda: holder(bank) == child.pid)
        assert end(child) == (0, "")
    assert left(bank) == []


def test_socket_and_lock_are_private_under_any_umask(bank: str) -> None:
    with host(bank, 0) as child:
        assert soon(lambda: os.path.exists(client.socket_path(bank)))
        address = client.socket_path(bank)
        assert (mode(address), mode(os.path.dirname(address))) == (0o600, 0o700)
        assert mode(address.replace(".sock", ".lock")) == 0o600
        assert end(child) == (0, "")


# Whom nobody asks


def test_a_file_a_link_and_another_banks_socket_are_not_asked(bank: str, short: Path) -> None:
    other = str(short / "other")
    done("init", "--bank", other)
    own, others = client.socket_path(bank), client.socket_path(other)
    question = {"op": "search", "query": "x"}
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        os.symlink(own, others)
        assert client.ask(other, question) is None
        os.unlink(others)
        Path(others).touch(0o600)
        assert client.ask(other, question) is None
        os.unlink(others)
        os.link(own, others)
        assert client.ask(other, question) is None, "the socket is another bank's"
        assert client.ask(bank, question, 30) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")
def test_another_user_is_neither_answered_nor_asked(bank: str) -> None:
    program = """
import os, socket, sys
directory, name = os.path.split(sys.argv[1])
os.chdir(directory)
os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
connection.connect(name)
try:
    connection.sendall(b'{"op": "ping"}\\n')
    print(connection.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        os.chmod(client.socket_path(bank), 0o666)
        directory = os.path.dirname(client.socket_path(bank))
        os.chmod(directory, 0o711)
        words = [sys.executable, "-c", program, client.socket_path(bank)]
        assert subprocess.check_output(words, encoding="utf-8", timeout=60) == "b''\n"
        os.chmod(directory, 0o700)
        os.chmod(client.socket_path(bank), 0o600)
        assert holder(bank) == child.pid
        os.chown(client.socket_path(bank), 65534, -1)
        assert holder(bank) is None


# Where


def test_every_name_of_a_bank_leads_to_one_socket_in_a_place_of_the_persons_own(
    bank: str, home: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder() -> str:
        return os.path.dirname(client.socket_path(bank))

    (home / "link").symlink_to(bank)
    assert client.socket_path(str(home / "link")) == client.socket_path(bank)
    assert folder() == f"{runtime}/retain"
    monkeypatch.setenv("XDG_STATE_HOME", str(runtime))
    for missing in ("", "relative"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", missing)
        assert folder() == f"{runtime}/retain/run"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "long" * 30)  # too long for a socket
    assert folder() == f"/tmp/retain-{os.geteuid()}"


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file"])
def test_a_runtime_directory_that_is_not_private_is_neither_used_nor_asked(
    kind: str, bank: str, runtime: Path
) -> None:
    folder = runtime / "retain"
    if kind == "a file":
        folder.touch()
    elif kind == "a link":
        (runtime / "elsewhere").mkdir(0o700)
        folder.symlink_to("elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o755)
    with pytest.raises(Unsafe):
        Server(App(bank=bank), threading.RLock()).take()
    if kind != "a file":
        with socket.socket(socket.AF_UNIX) as false:
            false.bind(client.socket_path(bank))
            os.chmod(client.socket_path(bank), 0o600)
            false.listen()
            assert client.ask(bank, {"op": "ping"}) is None
            false.settimeout(0)
            with pytest.raises(BlockingIOError):
                false.accept()


# Guests


def test_guests_that_stall_are_dropped_and_keep_nobody_out(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        stalling = [raw(bank) for _ in range(16)]
        for one in stalling[::2]:
            one.sendall(b'{"op": ')
        assert said(bank, b'{"op": "ping"}\n')
        for one in stalling:
            assert one.recv(1) == b"", "it was dropped"
            one.close()
        assert holder(bank) == child.pid


def test_who_is_busy_and_wants_to_end_is_not_held_up_by_a_guest(bank: str) -> None:
    app, lock = App(bank=bank, stays=True), threading.RLock()
    server = Server(app, lock)
    server.start()
    assert soon(lambda: holder(bank) == os.getpid())
    answers: list[object] = []
    question = {"op": "search", "query": "x"}
    asking = threading.Thread(target=lambda: answers.append(client.ask(bank, question, 30)))
    before = server.last_asked
    with lock:
        asking.start()
        assert soon(lambda: server.last_asked > before)
        server.stop()
    asking.join()
    app.close()
    assert answers == [None]
    assert left(bank) == []
