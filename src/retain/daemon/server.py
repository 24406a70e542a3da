"""A process that stays answers others on its bank's socket, as soon as no other process does.

One line of JSON in, one line out. The right to listen is a lock that the kernel releases when its
holder dies; only its holder puts a socket in place.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import fcntl
import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from retain import __version__
from retain.daemon import client
from retain.errors import NotFound, RetainError, Unsafe, UsageError
from retain.index.embed import BUNDLED, Embedder, embedder
from retain.locate import make_private_directory
from retain.search.request import SearchRequest

if TYPE_CHECKING:
    from retain.app import App


_MAX_TEXTS: Final = 64
_POLL_SECONDS: Final = 2.0  # how soon one takes over, and notices that its socket is gone
_PATIENCE_SECONDS: Final = 2.0  # with someone who does not send, or does not read, a whole line
_TURN_SECONDS: Final = 0.2  # how soon someone who waits for the index notices the end


class Refused(RetainError):
    """A warm process is not the one to ask; whoever asked does the work itself."""

    code = client.REFUSED
    usual_hint = "Do without a warm process."


class Server:
    """Answers on the socket of an app's bank.

    `lock` is the one under which the process itself uses the app; it is taken for each answer
    from the index. After `stop` the app is left alone, and may be closed.
    """

    def __init__(self, app: App, lock: threading.Lock | threading.RLock) -> None:
        self._app, self._lock = app, lock
        self._ended = threading.Event()
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None
        self.last_asked = time.monotonic()

    @property
    def address(self) -> str:
        """Where this process listens; empty while it does not."""
        return self._listener.path if self._listener else ""

    @property
    def model(self) -> Embedder | None:
        """The bundled model, if it is the one in use."""
        chosen = self._app.config.text("recall.embedder")
        return embedder(BUNDLED) if chosen == BUNDLED else None

    def warm_up(self) -> None:
        """Load the model, if the one that others ask for is in use here."""
        with contextlib.suppress(RetainError):  # the next search says so
            if (model := self.model) is not None:
                model.query("")

    def start(self) -> None:
        """Listen in the background, now or when the process that does so ends; return at once."""
        self._thread = threading.Thread(target=self._run, name="retain-daemon", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def stop(self) -> None:
        """Answer what was asked, then stop and leave no socket behind; safe to call again."""
        atexit.unregister(self.stop)
        self._ended.set()
        thread, self._thread = self._thread, None
        if thread:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as waking:
                waking.connect(self.address)  # so that it does not wait for another connection
            thread.join()
        self._release()

    def take(self) -> bool:
        """Try once to get the right to listen; False when another process has it."""
        if self._listener is not None:
            return True
        root = self._app.location.root
        if not os.path.isdir(root):
            raise NotFound(f"there is no bank at {root} yet")
        path = client.socket_path(root)
        directory = os.path.dirname(path)
        make_private_directory(directory)
        if not client.is_private(directory):
            raise Unsafe(
                f"{directory} is not a directory of yours alone; nobody listens there",
                hint="Remove it, or make it yours: mode 0700.",
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(path.removesuffix(".sock") + ".lock", flags, 0o600)
        try:
            os.fchmod(lock, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._listener = _Listener(path, lock, self._answer)
        except BaseException as error:
            os.close(lock)
            if isinstance(error, BlockingIOError):
                return False
            raise
        return True

    def _release(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.server_close()

    def _run(self) -> None:
        while not self._ended.is_set():
            # What is in the way now may not be later; `retain serve` has said what it was.
            with contextlib.suppress(RetainError, OSError):
                self.take()
            if self._listener is None:
                self._ended.wait(_POLL_SECONDS)
                continue
            # The model is loaded while nobody waits for it, in the process that others will ask.
            threading.Thread(target=self.warm_up, daemon=True).start()
            while not self._ended.is_set() and self._listener.is_in_place():
                self._listener.handle_request()
            if not self._ended.is_set():  # somebody has removed the socket
                self._release()

    # Answers

    def _answer(self, question: bytes) -> Mapping[str, object]:
        try:
            request = json.loads(question)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            raise UsageError("a question is one JSON object on one line")
        operation, location = request.get("op"), self._app.location
        if operation == "ping":
            return {"ok": True, "pid": os.getpid(), "version": __version__}
        if request.get("version") != __version__:
            raise Refused(f"this is Retain {__version__}")
        if request.get("bank") != os.path.realpath(location.root):
            raise Refused("this is another bank")
        if request.get("scope", location.scope) != location.scope:
            raise Refused(f"this looks in other banks too, or in fewer: {location.scope}")
        self.last_asked = time.monotonic()
        if operation == "embed":
            return self._embed(request)
        if operation in ("brief", "search"):
            return self._search(request)
        raise UsageError(f"there is no operation {str(operation)[:60]!r}")

    def _search(self, request: Mapping[str, Any]) -> Mapping[str, object]:
        query = request.get("query")
        if not isinstance(query, str):
            raise UsageError("query is a text")
        while not self._lock.acquire(timeout=_TURN_SECONDS):
            if self._ended.is_set():
                raise Refused("this process is about to end")
        try:
            if request["op"] == "brief":
                brief = self._app.brief(query, request.get("budget", 2000))
                return {"query": query, **brief.to_dict()}
            wanted = SearchRequest(query, limit=request.get("limit", 10))
            return {"query": query, "mode": wanted.mode, **self._app.search(wanted).to_dict()}
        finally:
            self._lock.release()

    def _embed(self, request: Mapping[str, Any]) -> Mapping[str, object]:
        texts = request.get("texts")
        is_list = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
        if not texts or not is_list or len(texts) > _MAX_TEXTS:
            raise UsageError(f"texts is a list of up to {_MAX_TEXTS} texts")
        model = self.model
        if model is None or request.get("model", model.name) != model.name:
            raise Refused("another model is in use here")
        vectors = model.embed(texts).astype("<f4")
        return {
            "model": model.name,
            "dimension": vectors.shape[1],
            "vectors": [base64.b64encode(vector.tobytes()).decode() for vector in vectors],
        }


class _Listener(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The socket of a bank with the lock of its holder; each connection gets a thread."""

    request_queue_size = 64
    timeout = _POLL_SECONDS

    def __init__(
        self, path: str, lock: int, answer: Callable[[bytes], Mapping[str, object]]
    ) -> None:
        self.path, self._lock, self._answer = path, lock, answer
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # a socket that is there is a dead process's
        super().__init__(path, socketserver.BaseRequestHandler)
        os.chmod(path, 0o600)  # until then its directory keeps others out
        self._inode = os.lstat(path).st_ino

    def is_in_place(self) -> bool:
        """Whether the socket's file is still the one that was put there."""
        try:
            return os.lstat(self.path).st_ino == self._inode
        except OSError:
            return False

    def verify_request(self, request: Any, _: object) -> bool:
        return client.peer_uid(request) == os.geteuid()

    def finish_request(self, request: Any, _: object) -> None:
        """Read one line, answer with one; who stalls or sends too much is dropped."""
        with contextlib.suppress(OSError):
            line = client.receive_line(request, time.monotonic() + _PATIENCE_SECONDS)
            try:
                answer = self._answer(line)
            except RetainError as error:
                answer = {"error": error.to_dict()}
            request.settimeout(_PATIENCE_SECONDS)
            request.sendall(json.dumps(answer, default=str).encode() + b"\n")

    def server_close(self) -> None:
        """Let the next process listen, then wait for the answers under way."""
        if self.is_in_place():
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        os.close(self._lock)
        super().server_close()
