"""One process listens for a bank; the next takes over; nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from retain import warm
from retain.app import App
from retain.errors import Unsafe
from retain.serving import Listener
from tests.cli.door import done
from tests.warm.process import end, holder, host, left, raw, said, soon

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


@pytest.fixture
def deep(home: Path) -> str:
    """A bank whose path is too long for a socket."""
    bank = home / ("d" * 120) / "bank"
    done("init", "--bank", str(bank))
    return str(bank)


def mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_the_first_listens_and_the_next_takes_over_when_it_ends(bank: str) -> None:
    with host(bank) as first:
        assert soon(lambda: holder(bank) == first.pid)
        with host(bank) as second, host(bank) as third:
            assert holder(bank) == first.pid
            assert end(first) == (0, "")
            assert soon(lambda: holder(bank) in (second.pid, third.pid))
            one, other = (second, third) if holder(bank) == second.pid else (third, second)
            assert end(one) == (0, "")
            assert soon(lambda: holder(bank) == other.pid)
            assert end(other) == (0, "")
    assert left(bank) == []


def test_the_next_takes_over_from_one_that_was_killed(bank: str) -> None:
    with host(bank) as first, host(bank) as second:
        assert soon(lambda: holder(bank) in (first.pid, second.pid))
        one, other = (first, second) if holder(bank) == first.pid else (second, first)
        one.kill()
        one.wait()
        assert soon(lambda: holder(bank) == other.pid)
        assert end(other) == (0, "")
    assert left(bank) == []


def test_what_a_killed_process_leaves_is_passed_over_and_cleaned_by_the_next(bank: str) -> None:
    with host(bank) as first:
        assert soon(lambda: holder(bank) == first.pid)
    assert left(bank) == ["warm.lock", "warm.sock"]
    assert warm.ask(bank, {"op": "ping"}) is None
    Path(bank, ".index", "warm.new").touch()
    with host(bank) as second:
        assert soon(lambda: holder(bank) == second.pid)
        assert end(second) == (0, "")
    assert left(bank) == []


def test_of_many_that_start_at_once_one_listens(bank: str) -> None:
    banks = [App(bank=bank, stays=True) for _ in range(8)]
    listeners = [Listener(app, threading.RLock()) for app in banks]
    start = threading.Barrier(len(listeners))
    took = []

    def take(one: Listener) -> None:
        start.wait()
        took.append(one.take())

    threads = [threading.Thread(target=take, args=(one,)) for one in listeners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(took) == [False] * 7 + [True]
    for one in listeners:
        one.stop()
        one.stop()
    assert left(bank) == []


def test_a_socket_that_was_removed_with_the_index_is_made_anew(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        shutil.rmtree(f"{bank}/.index")
        assert soon(lambda: holder(bank) == child.pid)
        assert end(child) == (0, "")
    assert left(bank) == []


def test_who_lost_its_place_does_not_remove_what_another_has_put_there(bank: str) -> None:
    first, second = (Listener(App(bank=bank, stays=True), threading.RLock()) for _ in range(2))
    assert first.take()
    shutil.rmtree(f"{bank}/.index")
    assert second.take()
    first.stop()
    assert left(bank) == ["warm.lock", "warm.sock"]
    second.stop()
    assert left(bank) == []


def test_a_bank_that_is_made_later_is_listened_for_from_then_on(short: Path) -> None:
    bank = short / "later"
    with host(str(bank)) as child:
        done("init", "--bank", str(bank))
        assert soon(lambda: holder(str(bank)) == child.pid)
        assert end(child) == (0, "")


@pytest.mark.parametrize("umask", [0, 0o777])
def test_socket_and_lock_are_private_under_any_umask(umask: int, bank: str) -> None:
    done("sync")
    with host(bank, umask) as child:
        assert soon(lambda: os.path.exists(warm.address(bank)))
        assert mode(f"{bank}/.index/warm.sock") == 0o600
        assert mode(f"{bank}/.index/warm.lock") == 0o600
        assert end(child) == (0, "")


# Whom nobody asks


def test_a_socket_that_others_may_open_is_not_asked(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        os.chmod(warm.address(bank), 0o666)
        assert holder(bank) is None


def test_a_file_a_link_and_a_link_above_are_not_asked(bank: str, short: Path) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        other = short / "other"
        done("init", "--bank", str(other))
        shutil.rmtree(other / ".index", ignore_errors=True)
        (other / ".index").symlink_to(f"{bank}/.index")
        assert holder(str(other)) is None
        (other / ".index").unlink()
        (other / ".index").mkdir()
        (other / ".index" / "warm.sock").symlink_to(f"{bank}/.index/warm.sock")
        assert holder(str(other)) is None
        (other / ".index" / "warm.sock").unlink()
        (other / ".index" / "warm.sock").touch(0o600)
        assert holder(str(other)) is None
        (other / ".index" / "warm.sock").unlink()
        os.link(f"{bank}/.index/warm.sock", other / ".index" / "warm.sock")
        question = {"op": "search", "query": "x"}
        assert warm.ask(str(other), question) is None, "the socket is another bank's"
        assert warm.ask(bank, question) is not None


def test_an_index_behind_a_link_is_not_listened_in(bank: str, home: Path) -> None:
    shutil.rmtree(f"{bank}/.index", ignore_errors=True)
    (home / "elsewhere").mkdir()
    Path(bank, ".index").symlink_to(home / "elsewhere")
    with pytest.raises(Unsafe):
        Listener(App(bank=bank), threading.RLock()).take()
    assert os.listdir(home / "elsewhere") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")
def test_another_user_is_neither_answered_nor_asked(bank: str) -> None:
    program = """
import os, socket, sys
os.chdir(sys.argv[1] + "/.index")
os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
connection.connect("warm.sock")
try:
    connection.sendall(b'{"op": "ping"}\\n')
    print(connection.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        os.chmod(warm.address(bank), 0o666)
        os.chmod(f"{bank}/.index", 0o711)
        heard = subprocess.check_output(
            [sys.executable, "-c", program, bank], encoding="utf-8", timeout=60
        )
        assert heard == "b''\n"
        os.chmod(warm.address(bank), 0o600)
        assert holder(bank) == child.pid
        os.chown(warm.address(bank), 65534, -1)
        assert holder(bank) is None


# Long paths


def test_a_bank_with_a_long_path_has_its_socket_in_a_private_place(
    deep: str, runtime: Path
) -> None:
    address = warm.address(deep)
    assert address.startswith(f"{runtime}/retain/")
    with host(deep) as child:
        assert soon(lambda: holder(deep) == child.pid)
        assert (mode(address), mode(os.path.dirname(address))) == (0o600, 0o700)
        assert end(child) == (0, "")
    assert os.listdir(runtime) == []
    assert left(deep) == [] if os.path.exists(f"{deep}/.index") else True


def test_two_banks_with_long_paths_have_two_sockets(deep: str, runtime: Path) -> None:
    done("init", "--bank", f"{deep}2")
    with host(deep) as one, host(f"{deep}2") as other:
        assert soon(lambda: holder(deep) == one.pid)
        assert soon(lambda: holder(f"{deep}2") == other.pid)
        assert end(one) == (0, "")
        assert holder(f"{deep}2") == other.pid
        assert end(other) == (0, "")
    assert os.listdir(runtime) == []


@pytest.mark.parametrize("given", ["", "relative", "/" + "long" * 30])
def test_without_a_short_runtime_directory_there_is_one_of_the_users_own(
    given: str, deep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", given)
    assert os.path.dirname(warm.address(deep)) == f"/tmp/retain-{os.geteuid()}"


def test_every_name_of_a_bank_leads_to_one_socket(bank: str, home: Path) -> None:
    (home / "link").symlink_to(bank)
    assert warm.address(str(home / "link")) == warm.address(bank)


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file"])
def test_a_runtime_directory_that_is_not_private_is_neither_used_nor_asked(
    kind: str, deep: str, runtime: Path
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
        Listener(App(bank=deep), threading.RLock()).take()
    if kind != "a file":
        with socket.socket(socket.AF_UNIX) as false:
            false.bind(warm.address(deep))
            os.chmod(warm.address(deep), 0o600)
            false.listen()
            assert warm.ask(deep, {"op": "ping"}) is None
            false.settimeout(0)
            with pytest.raises(BlockingIOError):
                false.accept()


# Guests


def test_guests_that_stall_are_dropped_and_keep_nobody_out_for_long(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        stalling = [raw(bank) for _ in range(16)]
        for one in stalling[::2]:
            one.sendall(b'{"op": ')
        refused = said(bank, b'{"op": "ping"}\n')
        assert refused is None or refused["error"]["code"] == "refused"
        for one in stalling:
            assert one.recv(1) == b"", "it was dropped"
            one.close()
        assert holder(bank) == child.pid


def test_one_that_trickles_is_dropped_as_well(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        with raw(bank) as slow:
            slow.settimeout(0.2)
            trickled = 0

            def is_dropped() -> bool:
                nonlocal trickled
                trickled += 1
                try:
                    slow.sendall(b" ")
                    return slow.recv(1) == b""
                except TimeoutError:
                    return False
                except OSError:
                    return True

            assert soon(is_dropped)
            assert trickled > 2


def test_the_end_does_not_wait_for_a_guest_that_stalls(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        with raw(bank), raw(bank) as other:
            other.sendall(b"{")
            assert end(child) == (0, "")
    assert left(bank) == []


def test_who_is_busy_and_wants_to_end_is_not_held_up_by_a_guest(bank: str) -> None:
    app, lock = App(bank=bank, stays=True), threading.RLock()
    listener = Listener(app, lock)
    listener.start()
    assert soon(lambda: holder(bank) == os.getpid())
    answers: list[object] = []
    question = {"op": "search", "query": "x"}
    asking = threading.Thread(target=lambda: answers.append(warm.ask(bank, question, 30)))
    with lock:
        asking.start()
        assert soon(lambda: len(listener._guests) > 0 and listener._guests[-1].thread.is_alive())
        listener.stop()
    asking.join()
    app.close()
    assert answers == [None]
    assert left(bank) == []


def test_a_host_that_forgets_to_stop_leaves_nothing_behind(bank: str) -> None:
    program = """
import sys, threading, time
from retain import warm
from retain.app import App
from retain.serving import Listener
listener = Listener(App(bank=sys.argv[1], stays=True), threading.RLock())
listener.start()
while not listener.address:
    time.sleep(0.01)
"""
    subprocess.run([sys.executable, "-c", program, bank], check=True, timeout=60)
    assert left(bank) == []


def test_a_signal_that_nobody_handles_leaves_only_what_the_next_cleans(bank: str) -> None:
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        assert end(child, signal.SIGTERM)[0] == -signal.SIGTERM
    assert left(bank) == ["warm.lock", "warm.sock"]
    with host(bank) as child:
        assert soon(lambda: holder(bank) == child.pid)
        assert end(child) == (0, "")
    assert left(bank) == []
