"""What a warm process answers: whether it is there, vectors, briefs and hits."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from retain import __version__, shapes
from retain.embed import BUNDLED, embedder
from retain.errors import LimitExceeded, RetainError, UsageError
from retain.recall.asking import Wanted
from retain.warm import MOST_BYTES, REFUSED

if TYPE_CHECKING:
    from retain.app import App
    from retain.embed import Embedder

__all__ = ["Answering", "Refused", "line", "told"]

_MOST_TEXTS: Final = 64
_HEARING_SECONDS: Final = 0.2  # how soon someone who waits notices that nobody needs it any more

Data = dict[str, object]
Request = Mapping[str, Any]


class Refused(RetainError):
    """A warm process is not the one to ask; whoever asked does the work itself."""

    code = REFUSED
    usual_hint = "Do without a warm process."


class Answering:
    """The questions that one app answers, one at a time wherever its index is looked at."""

    def __init__(
        self, app: App, lock: threading.Lock | threading.RLock, ended: threading.Event
    ) -> None:
        self._app, self._lock, self._ended = app, lock, ended
        self.last_asked = time.monotonic()

    def answer(self, data: bytes, is_gone: Callable[[], bool]) -> bytes:
        """The line that answers a line."""
        try:
            return line(self._answered(_request(data), is_gone))
        except RetainError as error:
            return line(told(error))
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            return line(told(RetainError(f"{where}{error.strerror or error}")))

    def _answered(self, request: Request, is_gone: Callable[[], bool]) -> Data:
        operation = request.get("op")
        if operation == "ping":
            return {"ok": True, "pid": os.getpid(), "version": __version__}
        self._refuse_others(request)
        self.last_asked = time.monotonic()
        if operation == "embed":
            return self._embedded(request)
        if operation not in ("brief", "search"):
            raise UsageError(f"there is no operation {str(operation)[:60]!r}")
        query = request.get("query")
        if not isinstance(query, str):
            raise UsageError("query is a text")
        with self._turn(is_gone):
            return self._recalled(str(operation), query, request)

    def _refuse_others(self, request: Request) -> None:
        """Refuse who has another Retain, or came by a link from another bank."""
        if request.get("version") != __version__:
            raise Refused(f"this is Retain {__version__}")
        if request.get("bank") != os.path.realpath(self._app.place.root):
            raise Refused("this is another bank")
        if request.get("scope", self._app.place.scope) != self._app.place.scope:
            raise Refused(f"this looks in other banks too, or in fewer: {self._app.place.scope}")

    def _embedded(self, request: Request) -> Data:
        texts = request.get("texts")
        if not _is_texts(texts):
            raise UsageError(f"texts is a list of up to {_MOST_TEXTS} texts")
        model = self.model
        if model is None or request.get("model", model.name) != model.name:
            raise Refused("another model is in use here")
        vectors = model.embed(texts).astype("<f4")
        return {
            "model": model.name,
            "dimension": model.dimension,
            "vectors": [base64.b64encode(vector.tobytes()).decode() for vector in vectors],
        }

    @property
    def model(self) -> Embedder | None:
        """The bundled model, if it is the one in use."""
        chosen = self._app.config.text("recall.embedder")
        return embedder(BUNDLED) if chosen == BUNDLED else None

    def _recalled(self, operation: str, query: str, request: Request) -> Data:
        library = self._app.library
        if operation == "brief":
            return shapes.brief(query, library.brief(query, request.get("budget", 2000)))
        wanted = Wanted(query, limit=request.get("limit", 10))
        return shapes.answer(query, wanted.mode, library.search(wanted))

    @contextlib.contextmanager
    def _turn(self, is_gone: Callable[[], bool]) -> Iterator[None]:
        """Wait for the index, for as long as someone waits for the answer."""
        while not self._lock.acquire(timeout=_HEARING_SECONDS):
            self._refuse_at_the_end(is_gone)
        try:
            self._refuse_at_the_end(is_gone)
            yield
        finally:
            self._lock.release()

    def _refuse_at_the_end(self, is_gone: Callable[[], bool]) -> None:
        if self._ended.is_set() or is_gone():
            raise Refused("this process is about to end, or the one that asked has")


def _is_texts(texts: object) -> TypeGuard[list[str]]:
    return (
        isinstance(texts, list)
        and 0 < len(texts) <= _MOST_TEXTS
        and all(isinstance(text, str) for text in texts)
    )


def _request(data: bytes) -> Request:
    try:
        request = json.loads(data)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise UsageError("a question is one JSON object on one line")
    return request


def line(data: Mapping[str, object]) -> bytes:
    """An answer as it is sent."""
    made = json.dumps(data, default=str).encode() + b"\n"
    if len(made) > MOST_BYTES:
        raise LimitExceeded(
            f"the answer is larger than {MOST_BYTES:,} bytes", hint="Ask for fewer hits."
        )
    return made


def told(error: RetainError) -> Data:
    """An error as an answer, in the shape that `--json` gives it."""
    body = {
        "code": error.code,
        "message": error.message[:800],
        "unchanged": error.unchanged,
        "hint": error.hint,
        **error.details,
    }
    return {"error": body}
