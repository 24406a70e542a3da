"""The threads that listen, and wait for their turn to."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import selectors
import socket
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from retain import warm
from retain.errors import NotFound, RetainError
from retain.serving.answering import Answering, Refused, line, told
from retain.serving.claim import Claim

if TYPE_CHECKING:
    from retain.app import App

__all__ = ["Listener"]

_POLL_SECONDS: Final = 2.0  # how soon one takes over, and notices that its socket is gone
_SETTLING_SECONDS: Final = 1.0  # for which a process that was just started has better things to do
_PATIENCE_SECONDS: Final = 2.0  # with someone who does not say, or does not read, a whole line
_MOST_GUESTS: Final = 16
_PAUSE: Final = 0.1  # when the system has no descriptor left for a connection


class _Guest(NamedTuple):
    thread: threading.Thread
    connection: socket.socket


class Listener:
    """Answers on the socket of an app's bank, as soon as no other process does.

    `lock` is the one under which the process itself uses the app; it is taken for each answer
    from the index. After `stop` the app is left alone, and may be closed.
    """

    def __init__(self, app: App, lock: threading.Lock | threading.RLock) -> None:
        self._app = app
        self._ended = threading.Event()
        self._answering = Answering(app, lock, self._ended)
        self._claim: Claim | None = None
        self._threads: list[threading.Thread] = []
        self._guests: list[_Guest] = []
        self._waking, self._woken = -1, -1
        self.problem = ""  # why nobody can be listened to, in words

    @property
    def address(self) -> str:
        """Where this process listens; empty while it does not."""
        claim = self._claim
        return claim.path if claim else ""

    @property
    def last_asked(self) -> float:
        """When someone last wanted to know something, by the monotonic clock."""
        return self._answering.last_asked

    def take(self) -> bool:
        """Try once to become the one who listens; False when another process is."""
        if self._claim is None:
            root = self._app.place.root
            if not os.path.isdir(root):
                raise NotFound(f"there is no bank at {root} yet")
            self._claim = Claim.take(root)
        return self._claim is not None

    def warm_up(self) -> None:
        """Load the model, if the one that others ask for is in use here."""
        model = self._answering.model
        if model is not None:
            model.query("")

    def start(self) -> None:
        """Listen in the background, now or when whoever does ends; returns at once."""
        self._woken, self._waking = os.pipe()
        for work in (self._run, self._prepare):
            thread = threading.Thread(target=work, name="retain-warm", daemon=True)
            thread.start()
            self._threads.append(thread)
        atexit.register(self.stop)

    def stop(self) -> None:
        """Answer what was asked, then stop and leave nothing behind; safe to call again."""
        atexit.unregister(self.stop)
        self._ended.set()
        threads, self._threads = self._threads, []
        if threads:
            os.write(self._waking, b".")
            threads[0].join()
            os.close(self._waking)
            os.close(self._woken)
        self._release()  # first of all: whoever wants this process gone may not wait for the rest
        for guest in self._guests:
            with contextlib.suppress(OSError):
                guest.connection.shutdown(socket.SHUT_RD)  # nothing more is heard from it
            guest.thread.join()
        for thread in threads[1:]:
            thread.join()

    def _release(self) -> None:
        claim, self._claim = self._claim, None
        if claim:
            claim.release()

    def _run(self) -> None:
        while not self._ended.is_set():
            if self._is_taken():
                self._listen()
            else:
                self._ended.wait(_POLL_SECONDS)

    def _is_taken(self) -> bool:
        """Take the socket, if that can be; what stands in the way may go away."""
        self.problem = ""
        try:
            return self.take()
        except RetainError as error:
            self.problem = error.message
        except OSError as error:
            self.problem = f"{error.filename or 'the socket'}: {error.strerror}"
        return False

    def _prepare(self) -> None:
        """Load the model while nobody waits for it, in the process that others will ask."""
        delay = _SETTLING_SECONDS
        while not self._ended.wait(delay):
            if self._claim is not None:
                with contextlib.suppress(RetainError):  # the next search says so
                    self.warm_up()
                return
            delay = _POLL_SECONDS

    def _listen(self) -> None:
        """Take in guests until the end, or until somebody has removed the socket."""
        claim = self._claim
        assert claim  # noqa: S101 - the caller has just taken it
        with selectors.DefaultSelector() as waiting:
            waiting.register(claim.socket, selectors.EVENT_READ)
            waiting.register(self._woken, selectors.EVENT_READ)
            while not self._ended.is_set():
                ready = [key.fileobj for key, _ in waiting.select(_POLL_SECONDS)]
                if not claim.is_held:
                    break
                if claim.socket in ready:
                    self._admit(claim.socket)
        if not self._ended.is_set():
            self._release()

    def _admit(self, listening: socket.socket) -> None:
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError:
            self._ended.wait(_PAUSE)
            return
        self._guests = [guest for guest in self._guests if guest.thread.is_alive()]
        if warm.peer(connection) != os.geteuid():
            connection.close()
            return
        if len(self._guests) >= _MOST_GUESTS:
            with connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.sendall(line(told(Refused("too many others ask at this moment"))))
            return
        thread = threading.Thread(
            target=self._converse, args=(connection,), name="retain-warm-guest", daemon=True
        )
        self._guests.append(_Guest(thread, connection))
        thread.start()

    def _converse(self, connection: socket.socket) -> None:
        """Hear one line, answer with one; who stalls or talks too much is dropped."""
        with connection:
            try:
                question = warm.receive(connection, time.monotonic() + _PATIENCE_SECONDS)
            except (OSError, ValueError):
                return
            answer = self._answering.answer(question, partial(_is_gone, connection))
            with contextlib.suppress(OSError):  # it has not waited
                connection.settimeout(_PATIENCE_SECONDS)
                connection.sendall(answer)


def _is_gone(connection: socket.socket) -> bool:
    """Whether the other end is closed; an end that only says no more is still waiting."""
    asking = select.poll()
    asking.register(connection, 0)
    return bool(asking.poll(0))
