"""How an engine is asked: never for longer than was said, and not while it is known to fail."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

from retain.index.engines.engine import Engine, EngineDown, EngineError, EngineRefused
from retain.index.engines.server import UNREADABLE

T = TypeVar("T")

_FIRST_PAUSE: Final = 2.0  # seconds before an engine that failed is asked again
_LONGEST_PAUSE: Final = 300.0
REQUEST_SECONDS: Final = 30.0  # that one request of a delivery may take, for which nobody waits
LONG_SECONDS: Final = 3_600.0  # for what takes many requests, or has a server build a graph


class Breaker:
    """Keeps a server from being asked again at once after it failed, for all banks on it."""

    servers: Final[dict[str, Breaker]] = {}

    def __init__(self) -> None:
        self._failures, self._closed_at, self._why = 0, 0.0, ""

    def check(self) -> None:
        if time.monotonic() < self._closed_at:
            raise EngineDown(self._why)

    def note(self, error: EngineError | None) -> None:
        """Note how a request ended."""
        self._failures = self._failures + 1 if error else 0
        pause = min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 16), _LONGEST_PAUSE)
        self._closed_at = time.monotonic() + pause if error else 0.0
        self._why = describe(error) if error else ""


def describe(error: EngineError) -> str:
    """What went wrong, and where only a person can mend it, how."""
    is_known = isinstance(error, EngineRefused) and error.hint != error.usual_hint
    return f"{error.message} {error.hint}" if is_known else error.message


class Client:
    """The way to one engine of one bank."""

    def __init__(
        self,
        part: str,
        kind: str,
        address: str,
        container: str,
        make: Callable[[float], Engine],
        patience: float,
    ) -> None:
        self.part, self.kind = part, kind  # "text" or "vector", and the product
        self.address, self.container = address, container  # as a person may see them
        self.patience = patience  # seconds that a search waits
        self._make = make  # an engine whose requests may take so many seconds
        self._engines: dict[float, Engine] = {}
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._running = 0  # threads that use an engine
        self.is_closed = False

    @property
    def target(self) -> str:
        """Which server, which bank, which model: what was delivered is noted for these."""
        return f"{self.part} {self.kind} {self.address} {self.container}"

    @property
    def key(self) -> str:
        """The same in short."""
        return f"{self.part}-{hashlib.sha256(self.target.encode()).hexdigest()[:12]}"

    def call(self, work: Callable[[Any], T], seconds: float = REQUEST_SECONDS) -> T:
        """Have an engine do something for which nobody waits; EngineError where it cannot."""
        return self._begin(work, seconds, REQUEST_SECONDS)()

    def ask(self, work: Callable[[Any], T], spent: float = 0.0) -> Callable[[], T]:
        """Begin to ask within a person's patience, of which some is spent; the result waits."""
        return self._begin(work, max(0.05, self.patience - spent), self.patience)

    def _begin(
        self, work: Callable[[Any], T], seconds: float, request_seconds: float
    ) -> Callable[[], T]:
        """Do something in a thread that nobody has to wait for: no client keeps every promise."""
        breaker = Breaker.servers.setdefault(f"{self.kind} {self.address}", Breaker())
        breaker.check()
        future: Future[T] = Future()
        end = (
            time.monotonic() + seconds
        )  # for all who are asked at once: they are waited for in turn
        with self._lock:
            if self.is_closed:
                raise EngineDown(f"{self} is not asked any more.")
            self._waiting.add(future)
            self._running += 1

        def wait() -> T:
            try:
                found = future.result(max(0.0, end - time.monotonic()))
            except EngineError as error:
                if not self.is_closed:
                    breaker.note(error)
                raise
            except TimeoutError:
                if request_seconds not in self._engines:
                    raise EngineDown(f"{self} is not ready yet: its client is loading.") from None
                late = EngineDown(f"{self} did not answer within {round(seconds, 2):g} seconds.")
                breaker.note(late)
                raise late from None
            breaker.note(None)
            return found

        run = partial(self._run, future, work, request_seconds)
        threading.Thread(target=run, name=f"retain-{self.kind}", daemon=True).start()
        return wait

    def _run(self, future: Future[T], work: Callable[[Any], T], request_seconds: float) -> None:
        outcome: Any = None
        failure: BaseException | None = None
        try:
            outcome = self._do(work, request_seconds)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            failure = error
        with self._lock:
            is_waited_for = future in self._waiting
            self._waiting.discard(future)
            self._running -= 1
        if is_waited_for and failure:
            future.set_exception(failure)
        elif is_waited_for:
            future.set_result(outcome)
        self._close_engines()

    def _do(self, work: Callable[[Any], T], request_seconds: float) -> T:
        with self._lock:
            engine = self._engines.get(request_seconds)
        try:
            if engine is None:
                engine = self._make(request_seconds)  # loads a client, up to two seconds
                with self._lock:
                    engine = self._engines.setdefault(request_seconds, engine)
            return work(engine)
        except UNREADABLE as error:  # only its kind is told: its words may hold the key
            raise EngineRefused(
                f"{self} gave an answer that cannot be read ({type(error).__name__}).",
                hint="Is the address right?",
            ) from None

    def close(self) -> None:
        """Have nobody wait any longer, and let go of connections as soon as nothing uses them."""
        with self._lock:
            self.is_closed = True
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            future.set_exception(EngineDown(f"{self} is not waited for any more."))
        self._close_engines()

    def _close_engines(self) -> None:
        with self._lock:
            if self._running or not self.is_closed:
                return
            engines, self._engines = self._engines, {}
        for engine in engines.values():
            with contextlib.suppress(EngineError):
                engine.close()

    def __str__(self) -> str:
        return f"{self.kind} at {self.address}"
