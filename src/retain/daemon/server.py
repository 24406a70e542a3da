"""A process that stays answers others on its bank's socket, as soon as no other process does.

One line of JSON in, one line out. The right to listen is a lock that the kernel releases when its
holder dies; only who holds it puts a socket in place, by a rename, so that there is never one that
nobody reads from while its holder lives.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from retain import __version__
from retain.daemon import client
from retain.errors import LimitExceeded, NotFound, RetainError, Unsafe, UsageError
from retain.index.embed import BUNDLED, Embedder, embedder
from retain.search.request import SearchRequest

if TYPE_CHECKING:
    from retain.app import App


_MAX_TEXTS: Final = 64
_MAX_GUESTS: Final = 16
_BACKLOG: Final = 64
_POLL_SECONDS: Final = 2.0  # how soon one takes over, and notices that its socket is gone
_SETTLING_SECONDS: Final = 1.0  # for which a process that was just started has better things to do
_PATIENCE_SECONDS: Final = 2.0  # with someone who does not say, or does not read, a whole line
_TURN_SECONDS: Final = 0.2  # how soon someone who waits for the index notices the end
_PAUSE_SECONDS: Final = 0.1  # when the system has no descriptor left for a connection


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
        self._socket: socket.socket | None = None
        self._inode = (0, 0)  # of the socket's file
        self._lock_file = -1
        self._thread: threading.Thread | None = None
        self._guests: list[threading.Thread] = []
        self.address = ""  # where this process listens; empty while it does not
        self.last_asked = time.monotonic()

    @property
    def model(self) -> Embedder | None:
        """The bundled model, if it is the one in use."""
        chosen = self._app.config.text("recall.embedder")
        return embedder(BUNDLED) if chosen == BUNDLED else None

    def warm_up(self) -> None:
        """Load the model, if the one that others ask for is in use here."""
        model = self.model
        if model is not None:
            model.query("")

    def start(self) -> None:
        """Listen in the background, now or when whoever does ends; returns at once."""
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
                waking.connect(self.address)  # so that it does not wait for another guest
            thread.join()
        self._release()  # first of all: whoever wants this process gone may not wait for the rest
        for guest in self._guests:
            guest.join()

    # The right to listen

    def take(self) -> bool:
        """Try once to become the one who listens; False when another process is."""
        if self._socket is not None:
            return True
        root = self._app.location.root
        if not os.path.isdir(root):
            raise NotFound(f"there is no bank at {root} yet")
        path = client.socket_path(root)
        directory = os.path.dirname(path)
        if not os.path.lexists(directory):
            os.makedirs(directory, mode=0o700, exist_ok=True)
            os.chmod(directory, 0o700)  # a umask may have taken bits away
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
            self._socket = _bind(path)
        except BlockingIOError:
            os.close(lock)
            return False
        except BaseException:
            os.close(lock)
            raise
        self._lock_file, self._inode, self.address = lock, _inode(path), path
        return True

    def _release(self) -> None:
        listening, self._socket = self._socket, None
        if listening is None:
            return
        listening.close()
        if _inode(self.address) == self._inode:
            with contextlib.suppress(OSError):
                os.unlink(self.address)
        os.close(self._lock_file)
        self.address = ""

    def _run(self) -> None:
        while not self._ended.is_set():
            # What is in the way now may not be later; `retain serve` has said what it was.
            with contextlib.suppress(RetainError, OSError):
                self.take()
            if self._socket is None:
                self._ended.wait(_POLL_SECONDS)
                continue
            # The model is loaded while nobody waits for it, in the process that others will ask.
            loading = threading.Timer(_SETTLING_SECONDS, self._load_model)
            loading.daemon = True
            loading.start()
            self._listen(self._socket)
            loading.cancel()

    def _load_model(self) -> None:
        with contextlib.suppress(RetainError):  # the next search says so
            self.warm_up()

    # Guests

    def _listen(self, listening: socket.socket) -> None:
        """Take in guests until the end, or until somebody has removed the socket."""
        while not self._ended.is_set():
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                pass
            except OSError:
                self._ended.wait(_PAUSE_SECONDS)
            else:
                self._guests = [guest for guest in self._guests if guest.is_alive()]
                is_full = len(self._guests) >= _MAX_GUESTS
                guest = threading.Thread(
                    target=self._converse, args=(connection, is_full), daemon=True
                )
                self._guests.append(guest)
                guest.start()
            if _inode(self.address) != self._inode:
                self._release()
                return

    def _converse(self, connection: socket.socket, is_full: bool) -> None:
        """Hear one line, answer with one; who stalls or talks too much is dropped."""
        with connection, contextlib.suppress(OSError):
            if client.peer_uid(connection) != os.geteuid():
                return
            try:
                if is_full:
                    raise Refused("too many others ask at this moment")
                question = client.receive_line(connection, time.monotonic() + _PATIENCE_SECONDS)
                answer = _encode(self._answer(question))
            except RetainError as error:
                answer = _encode({"error": error.to_dict()})
            connection.settimeout(_PATIENCE_SECONDS)
            connection.sendall(answer)

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
        is_held = False
        while not is_held and not self._ended.is_set():
            is_held = self._lock.acquire(timeout=_TURN_SECONDS)
        try:
            if self._ended.is_set():
                raise Refused("this process is about to end")
            if request["op"] == "brief":
                brief = self._app.brief(query, request.get("budget", 2000))
                return {"query": query, **brief.to_dict()}
            wanted = SearchRequest(query, limit=request.get("limit", 10))
            return {"query": query, "mode": wanted.mode, **self._app.search(wanted).to_dict()}
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise RetainError(f"{where}{error.strerror or error}") from error
        finally:
            if is_held:
                self._lock.release()

    def _embed(self, request: Mapping[str, Any]) -> Mapping[str, object]:
        texts = request.get("texts")
        if not (
            isinstance(texts, list)
            and 0 < len(texts) <= _MAX_TEXTS
            and all(isinstance(text, str) for text in texts)
        ):
            raise UsageError(f"texts is a list of up to {_MAX_TEXTS} texts")
        model = self.model
        if model is None or request.get("model", model.name) != model.name:
            raise Refused("another model is in use here")
        vectors = model.embed(texts).astype("<f4")
        return {
            "model": model.name,
            "dimension": model.dimension,
            "vectors": [base64.b64encode(vector.tobytes()).decode() for vector in vectors],
        }


def _bind(path: str) -> socket.socket:
    """A listening socket, put in place when it is ready; whatever stands there is of the dead."""
    draft = path.removesuffix(".sock") + ".new"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        listening.bind(draft)
        os.chmod(draft, 0o600)
        listening.listen(_BACKLOG)
        listening.settimeout(_POLL_SECONDS)
        os.rename(draft, path)
    except BaseException:
        listening.close()
        raise
    return listening


def _inode(path: str) -> tuple[int, int]:
    try:
        facts = os.lstat(path)
    except OSError:
        return (0, 0)
    return facts.st_dev, facts.st_ino


def _encode(data: Mapping[str, object]) -> bytes:
    """An answer as it is sent."""
    line = json.dumps(data, default=str).encode() + b"\n"
    if len(line) > client.MAX_BYTES:
        raise LimitExceeded(
            f"the answer is larger than {client.MAX_BYTES:,} bytes", hint="Ask for fewer hits."
        )
    return line
