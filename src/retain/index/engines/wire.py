"""How an engine is asked: never for longer than a person waits, and not while it is known down."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from retain.errors import RetainError
from retain.index import database
from retain.index.engines.arm import Arm, EngineDown, EngineError, EngineLocked, EngineRefused
from retain.index.engines.packages import check_installed
from retain.index.engines.trouble import UNREADABLE
from retain.index.engines.wanted import until

if TYPE_CHECKING:
    from retain.index.database import Database


_Arm = TypeVar("_Arm", bound=Arm)
_Result = TypeVar("_Result")

_FIRST_PAUSE: Final = 2.0  # seconds before an engine that failed is asked again
_LONGEST_PAUSE: Final = 300.0
_KNOCK: Final = 1.0  # seconds to find out whether anyone is there
_LOADING: Final = 30.0  # seconds that a client may take to load on a busy machine
_NOTING: Final = 0.05  # seconds that a note waits for its turn to be written
_AT_LEISURE: Final = 30.0  # seconds for one request while nobody waits
_TOLD: Final = 300  # characters of a refusal that are kept

# Servers that someone in this process has waited for in vain, and until when nobody else should:
# another bank on the same server would only be silence once more.
_SILENT: Final[dict[str, float]] = {}


class Trouble(NamedTuple):
    """What went wrong with an engine last, and when it is worth another try."""

    why: str
    tries: int
    until: float
    words: str = ""  # that the server said, for a person alone
    is_refusal: bool = False  # it did answer, and would not

    @property
    def is_over(self) -> bool:
        # A clock that was ahead when this was noted must not shut anyone out until then.
        return not 0 < self.until - time.time() <= _LONGEST_PAUSE


def said(error: EngineError) -> str:
    """What went wrong, and where only a person can mend it, how."""
    is_known = isinstance(error, EngineRefused) and error.hint != error.usual_hint
    return f"{error.message} {error.hint}" if is_known else error.message


def _silence(host: str, port: int, seconds: float, hello: bytes) -> str:
    """Why nobody is to be spoken to there; empty if someone is."""
    import socket

    try:
        with socket.create_connection((host, port), seconds) as door:
            if hello:
                door.sendall(hello)
                door.recv(1)
    except TimeoutError:
        return f"did not answer within {seconds:g} seconds"
    except OSError as error:
        return f"cannot be reached: {error.strerror or error}"
    except UnicodeError:
        return "cannot be reached: no host can have that name"
    return ""


class Wire(Generic[_Arm]):
    """The way to one arm of a bank that lives elsewhere."""

    def __init__(
        self,
        part: str,
        target: str,
        make: Callable[[float], _Arm],
        store: Database,
        patience: float,
        hello: bytes = b"",
        *,
        key_hint: str = "",
    ) -> None:
        self._hello = hello  # what the server answers at once, whoever asks
        self._key_hint = key_hint  # what to do about a key that is missing or wrong
        self.part = part  # "text" or "vector"
        self.target = target  # which server, which bank, which model: what is noted is about these
        self.patience = patience
        self._make, self._store = make, store  # an arm that waits for so many seconds
        self._arms: dict[float, _Arm] = {}
        self._loaded_from = self._opened_at = 0.0
        self._lock = threading.Lock()
        self._there, self._is_left = threading.Event(), threading.Event()
        self._waiting: set[threading.Event] = set()  # what those who wait for an answer wait for
        self._among = threading.Lock()
        self._under_way, self._is_retired = 0, False
        self._unwritten: dict[str, str] = {}  # notes that the index has not taken yet

    @property
    def kind(self) -> str:
        """The product's name."""
        return self.target.partition(" ")[0]

    @property
    def address(self) -> str:
        """Where it is, as a person may see it."""
        return self.target.split(" ")[1]

    @property
    def key(self) -> str:
        """By what notes about this arm on this very server are known."""
        return f"{self.part}-{hashlib.sha256(self.target.encode()).hexdigest()[:16]}"

    def ask(
        self, work: Callable[[_Arm], _Result], seconds: float | None = None
    ) -> Callable[[], _Result]:
        """Begin to ask within a person's patience, or what is left of it; what is returned waits.

        EngineDown at once while it is known not to answer.
        """
        trouble = self.trouble()
        if trouble and not trouble.is_over:
            raise EngineDown(trouble.why)
        if time.monotonic() < _SILENT.get(self._server, 0.0):
            raise EngineDown(f"{self.kind} at {self.address} did not answer a moment ago.")
        return self._begun(
            work, seconds or self.patience, self.patience, is_short=seconds is not None
        )

    def insist(self, work: Callable[[_Arm], _Result], seconds: float | None = None) -> _Result:
        """Ask whatever was known, and note what comes of it."""
        return self.insisting(work, seconds)()

    def insisting(
        self, work: Callable[[_Arm], _Result], seconds: float | None = None
    ) -> Callable[[], _Result]:
        """The same begun; what is returned waits for the answer."""
        return self._begun(work, seconds or self.patience, self._patience_for(seconds))

    def _patience_for(self, seconds: float | None) -> float:
        """How long the server itself is waited for: what a person asks, and what nobody waits for.

        Two arms do, whatever the seconds: each has connections of its own.
        """
        return self.patience if seconds is None or seconds <= self.patience else _AT_LEISURE

    def _begun(
        self,
        work: Callable[[_Arm], _Result],
        seconds: float,
        patience: float,
        *,
        is_short: bool = False,
    ) -> Callable[[], _Result]:
        """Do something in a thread that nobody has to wait for: no client keeps every promise."""
        outcome: list[Any] = []
        is_open, is_over, has_left = threading.Event(), threading.Event(), threading.Event()
        with self._among:
            if self._is_left.is_set():
                raise EngineDown(f"{self.kind} at {self.address} is not waited for any more.")
            self._waiting |= {is_open, is_over}
            self._under_way += 1

        def run() -> None:
            try:
                arm = self._opened(patience)
                is_open.set()
                with until(has_left):
                    outcome.extend((True, self._read(work, arm)))
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                outcome.extend((False, error, is_open.is_set()))
            is_open.set()
            is_over.set()
            self._ended()

        thread = threading.Thread(target=run, name=f"retain-{self.kind}", daemon=True)
        started = time.monotonic()
        thread.start()

        def answer() -> _Result:
            # What it takes to load a client is not the server's fault, nor silence of its own; that
            # begins once somebody is there, for a name that nobody can tell is one as well.
            if not is_open.wait(self._left(started, seconds)) and self._there.is_set():
                is_open.wait(_LOADING)
            is_over.wait(self._left(started, seconds))
            with self._among:
                self._waiting -= {is_open, is_over}
            if outcome:
                found: _Result = self._noted(*outcome)
                return found
            has_left.set()  # a server that always has one more page is asked for no other
            if self._is_left.is_set():
                raise EngineDown(f"{self.kind} at {self.address} is not waited for any more.")
            limit = f"{round(seconds, 2):g} seconds"
            late = f"{self.kind} at {self.address} did not answer within {limit}."
            if is_short:  # it might have, in the time that it usually has
                raise EngineDown(late)
            return self._noted(False, EngineDown(late))  # type: ignore[no-any-return]

        return answer

    def _left(self, started: float, seconds: float) -> float:
        """What is left of the server's time: all that has passed, but for the loading of clients.

        To find out whether anyone is there is a part of it, so that nobody waits for both in turn.
        """
        return max(0.0, started + seconds + self.loading(started) - time.monotonic())

    def loading(self, since: float) -> float:
        """The seconds since a moment that went into loading a client."""
        return max(0.0, self._opened_at - max(since, self._loaded_from))

    def _read(self, work: Callable[[_Arm], _Result], arm: _Arm) -> _Result:
        """What comes of it: an answer that no adapter expected is the server's fault as well.

        Only what an answer can bring about: anything else is a fault of ours, and seen as one.
        """
        try:
            return work(arm)
        except UNREADABLE as error:
            raise EngineRefused(
                f"{self.kind} at {self.address} gave an answer that cannot be read.",
                hint="Is the address right?",
            ) from error  # which a test shows, and a person need not see

    def _noted(self, is_done: bool, found: Any, was_asked: bool = False) -> Any:
        if is_done:
            _SILENT.pop(self._server, None)
            self._note("")
            return found
        if isinstance(found, EngineDown):
            _SILENT[self._server] = time.monotonic() + _FIRST_PAUSE
        if isinstance(found, EngineLocked):
            found.hint = self._key_hint or found.hint
        if isinstance(found, EngineError):
            is_refusal = was_asked and isinstance(found, EngineRefused)
            self._note(said(found), found.words, is_refusal=is_refusal)
        raise found

    @property
    def _server(self) -> str:
        return f"{self.kind} {self.address}"

    def _opened(self, patience: float) -> _Arm:
        with self._lock:
            if patience not in self._arms:
                self._there.clear()
                check_installed(self.kind)
                self._knock(min(patience, _KNOCK))
                self._loaded_from = time.monotonic()
                self._there.set()
                self._arms[patience] = self._loaded(patience)
                self._opened_at = time.monotonic()
            return self._arms[patience]

    def _loaded(self, patience: float) -> _Arm:
        try:
            arm = self._make(patience)
            arm.load()
        except UNREADABLE as error:  # whose words may hold the key, so only its kind is told
            why = f"cannot be asked with these settings ({type(error).__name__})"
            raise EngineRefused(f"{self.kind} at {self.address} {why}.") from None
        return arm

    def _knock(self, seconds: float) -> None:
        """See whether anyone answers before a client is loaded, which may take longer than all."""
        places = [one.partition("/")[0].rpartition(":") for one in self.address.split(",")]
        why = ""
        for host, _, port in places:
            if not host or not port.isdecimal():
                return
            why = _silence(host.strip("[]"), int(port), seconds / len(places), self._hello)
            if not why:
                return  # one of a cluster is enough
        raise EngineDown(f"{self.kind} at {self.address} {why}")

    # What is remembered, also by the next process

    def trouble(self) -> Trouble | None:
        """What went wrong last when it was asked; None if nothing did."""
        return self._read_trouble("trouble")

    def delivery(self) -> Trouble | None:
        """What kept the last delivery from its end; None if nothing did.

        It stays until one succeeds: who may ask need not be allowed to write.
        """
        return self._read_trouble("delivery")

    def note_delivery(self, error: EngineError | None) -> None:
        """Note what keeps a delivery from its end; None where nothing does."""
        if error and self._is_left.is_set():
            return  # nobody has waited for it
        self._note_as("delivery", said(error) if error else "", error.words if error else "")

    def _note(self, why: str, words: str = "", *, is_refusal: bool = False) -> None:
        # Somebody waits for an answer, and must not wait for whoever writes the index as well.
        self._note_as("trouble", why, words, _NOTING, is_refusal=is_refusal)

    def _read_trouble(self, kind: str) -> Trouble | None:
        found: object = self._unwritten.get(kind)
        if found is None:
            with self._store.reading() as connection:
                found = database.fact(connection, f"engine:{self.part}:{kind}")
        try:
            noted = json.loads(str(found)) if found else ("", 0, 0, "", "")
            why, tries, until, target, words, *rest = noted
            # A move to another server that failed says nothing about this one.
            if not why or target != self.target:
                return None
            return Trouble(str(why), int(tries), float(until), str(words), any(rest))
        except (ValueError, TypeError):
            return None

    def _note_as(
        self,
        kind: str,
        why: str,
        words: str = "",
        wait: float | None = None,
        *,
        is_refusal: bool = False,
    ) -> None:
        before = self._read_trouble(kind)
        if not why and before is None and kind not in self._unwritten:
            return
        tries = before.tries + 1 if before and why else 1
        pause = min(_FIRST_PAUSE * 2 ** min(tries - 1, 16), _LONGEST_PAUSE)
        value = ""
        if why:
            until = time.time() + pause
            noted = [why[:_TOLD], tries, until, self.target, words[:_TOLD], is_refusal]
            value = json.dumps(noted)
        self._unwritten[kind] = value
        # Whoever cannot write the index remembers it alone; others ask the engine again.
        with contextlib.suppress(RetainError):
            with self._store.writing(wait=wait) as connection:
                database.set_fact(connection, f"engine:{self.part}:{kind}", value)
            self._unwritten.pop(kind, None)

    def leave(self) -> None:
        """Have nobody wait for an answer any longer: the program ends."""
        self._is_left.set()
        with self._among:
            for event in self._waiting:
                event.set()

    def close(self) -> None:
        """Let go of the connections as soon as nothing is under way.

        A connection that is closed while another thread opens it stays open.
        """
        with self._among:
            self._is_retired, self._under_way = True, self._under_way + 1
        self._ended()

    def _ended(self) -> None:
        with self._among:
            self._under_way -= 1
            is_last = self._is_retired and not self._under_way
        if not is_last:
            return
        with self._lock:
            arms, self._arms = self._arms, {}
        for arm in arms.values():
            with contextlib.suppress(EngineError):
                arm.close()
