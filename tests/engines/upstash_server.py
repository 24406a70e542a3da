"""Upstash Vector's REST protocol on this machine, as the service's documentation describes it.

It is a hosted service, so it cannot be started for a test. This answers the requests of the
official client: it stores, ranks with the documented scores, evaluates the filter language, shows
a write in a fetch at once and in a query after a while, and makes a namespace when it is used.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from tests.engines.servers import free_port

__all__ = ["BadFilter", "Upstash", "parsed"]

_MOST: Final = 1_000  # vectors in one request
_METADATA: Final = 48 * 1024  # bytes
Function = Literal["COSINE", "DOT_PRODUCT", "EUCLIDEAN"]
Test = Callable[[Mapping[str, Any]], bool]


# The filter language


class BadFilter(Exception):
    """A filter that cannot be read."""


_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>'[^']*'|"[^"]*")|(?P<number>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"""
    r"""|(?P<name>[A-Za-z_][A-Za-z_0-9.\[\]\#-]*)|(?P<sign><=|>=|!=|=|<|>|\(|\)|,))"""
)
_MISSING: Final = object()


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.upper()


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if not found or not found.lastgroup:
            raise BadFilter(f"unexpected character at {at}")
        yield _Token(found.lastgroup, found[found.lastgroup])
        at = found.end()


class _Parser:
    """Reads `a = 'x' AND (b > 3 OR c CONTAINS 'y')`; AND binds more closely than OR."""

    def __init__(self, text: str) -> None:
        self._left = list(_tokens(text))[::-1]

    def whole(self) -> Test:
        found = self._either()
        if self._left:
            raise BadFilter(f"unexpected {self._left[-1].text}")
        return found

    def _either(self) -> Test:
        tests = [self._both()]
        while self._takes("OR"):
            tests.append(self._both())
        return lambda said: any(test(said) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._takes("AND"):
            tests.append(self._one())
        return lambda said: all(test(said) for test in tests)

    def _one(self) -> Test:
        if self._takes("("):
            found = self._either()
            self._must(")")
            return found
        name = self._next("name").text
        operator = self._operator()
        if operator in {"IN", "NOT IN"}:
            self._must("(")
            values: Any = [self._literal()]
            while self._takes(","):
                values.append(self._literal())
            self._must(")")
        else:
            values = self._literal()
        test = _OPERATORS[operator]
        return lambda said: test(said.get(name, _MISSING), values)

    def _operator(self) -> str:
        token = self._next()
        found = token.word
        if found == "NOT":
            found = f"NOT {self._next('name').word}"
        if found not in _OPERATORS:
            raise BadFilter(f"unknown operator {token.text}")
        return found

    def _literal(self) -> Any:
        token = self._next()
        if token.kind == "text":
            return token.text[1:-1]
        if token.kind == "number":
            return float(token.text)
        if token.word in {"TRUE", "FALSE"}:
            return token.word == "TRUE"
        raise BadFilter(f"{token.text} is no value")

    def _next(self, kind: str = "") -> _Token:
        if not self._left:
            raise BadFilter("unexpected end")
        token = self._left.pop()
        if kind and token.kind != kind:
            raise BadFilter(f"unexpected {token.text}")
        return token

    def _takes(self, word: str) -> bool:
        is_next = bool(self._left) and self._left[-1].word == word
        if is_next:
            self._left.pop()
        return is_next

    def _must(self, word: str) -> None:
        if not self._takes(word):
            raise BadFilter(f"{word} is missing")


def _always(_said: Mapping[str, Any]) -> bool:
    return True


def parsed(text: str) -> Test:
    """A filter as a test of metadata."""
    return _Parser(text).whole() if text.strip() else _always


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any, wanted: Any) -> bool:
    return bool(value == wanted) and isinstance(value, str) == isinstance(wanted, str)


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": _same,
    "!=": lambda value, wanted: value is not _MISSING and not _same(value, wanted),
    "<": lambda value, wanted: _is_number(value) and bool(value < wanted),
    "<=": lambda value, wanted: _is_number(value) and bool(value <= wanted),
    ">": lambda value, wanted: _is_number(value) and bool(value > wanted),
    ">=": lambda value, wanted: _is_number(value) and bool(value >= wanted),
    "IN": lambda value, wanted: any(_same(value, one) for one in wanted),
    "NOT IN": lambda value, wanted: (
        value is not _MISSING and not any(_same(value, one) for one in wanted)
    ),
    "CONTAINS": lambda value, wanted: (
        isinstance(value, list) and any(_same(one, wanted) for one in value)
    ),
    "NOT CONTAINS": lambda value, wanted: (
        isinstance(value, list) and not any(_same(one, wanted) for one in value)
    ),
}


# The index


class _Stored(NamedTuple):
    id: str
    vector: list[float]
    metadata: dict[str, Any] | None
    data: str | None
    seen: float  # from when on a query sees it

    def shown(self, asked: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, **more}
        if asked.get("includeVectors"):
            found["vector"] = self.vector
        if asked.get("includeMetadata") and self.metadata is not None:
            found["metadata"] = self.metadata
        if asked.get("includeData") and self.data is not None:
            found["data"] = self.data
        return found


class _Refused(Exception):
    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


class _Index:
    """What the service holds; it outlives the server that shows it."""

    def __init__(self, dimension: int, function: Function, delay: float) -> None:
        self._dimension, self._function, self._delay = dimension, function, delay
        self._spaces: dict[str, dict[str, _Stored]] = {"": {}}
        self._lock = threading.Lock()

    def answer(self, path: str, body: Any) -> Any:
        _, command, *rest = path.split("/")
        acts: dict[str, Callable[[str, Any], Any]] = {
            "upsert": self._upsert,
            "query": self._query,
            "delete": self._delete,
            "range": self._range,
            "info": lambda _space, _body: self._info(),
            "list-namespaces": lambda _space, _body: list(self._spaces),
            "delete-namespace": lambda space, _: self._drop(space),
        }
        if command not in acts or len(rest) > 1:
            raise _Refused(404, f"Not Found: {path} is not a known command")
        with self._lock:
            return acts[command](unquote(rest[0]) if rest else "", body)

    def _space(self, name: str) -> dict[str, _Stored]:
        return self._spaces.setdefault(name, {})  # it comes into being when it is used

    def _upsert(self, space: str, body: Any) -> str:
        items = body if isinstance(body, list) else [body]
        if len(items) > _MOST:
            raise _Refused(400, f"Too many vectors in one request, maximum is {_MOST}")
        made = [self._stored(item) for item in items]
        self._space(space).update({one.id: one for one in made})
        return "Success"

    def _stored(self, item: Mapping[str, Any]) -> _Stored:
        if not item.get("id"):
            raise _Refused(400, "The id of a vector must not be empty")
        metadata = item.get("metadata")
        if len(json.dumps(metadata, ensure_ascii=False).encode("utf-8")) > _METADATA:
            raise _Refused(400, "Metadata is too large")
        vector = self._vector(item.get("vector"))
        seen = time.monotonic() + self._delay
        return _Stored(str(item["id"]), vector, metadata, item.get("data"), seen)

    def _vector(self, given: Any) -> list[float]:
        if not isinstance(given, list) or len(given) != self._dimension:
            has = len(given) if isinstance(given, list) else 0
            raise _Refused(400, f"Invalid vector dimension: {has}, expected: {self._dimension}")
        return [float(one) for one in given]

    def _query(self, space: str, body: Any) -> Any:
        if isinstance(body, list) and len(body) > 1:
            return [self._scores(space, one) for one in body]
        return self._scores(space, body[0] if isinstance(body, list) else body)

    def _scores(self, space: str, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        vector = np.array(self._vector(asked.get("vector")))
        top = int(asked.get("topK", 10))
        if not 1 <= top <= _MOST:
            raise _Refused(400, f"Invalid topK: {top}")
        test = self._test(asked.get("filter") or "")
        now = time.monotonic()
        found = [
            (self._score(vector, np.array(one.vector)), one)
            for one in self._space(space).values()
            if one.seen <= now and test(one.metadata or {})
        ]
        found.sort(key=lambda pair: -pair[0])
        return [one.shown(asked, score=score) for score, one in found[:top]]

    @staticmethod
    def _test(text: str) -> Test:
        try:
            return parsed(text)
        except BadFilter as error:
            raise _Refused(400, f"Invalid filter: {error}") from None

    def _score(self, one: Any, other: Any) -> float:
        if self._function == "EUCLIDEAN":
            return float(1 / (1 + ((one - other) ** 2).sum()))
        product = float(one @ other)
        if self._function == "COSINE":
            product /= float(np.linalg.norm(one) * np.linalg.norm(other)) or 1.0
        return (1 + product) / 2

    def _delete(self, space: str, asked: Any) -> dict[str, int]:
        there = self._space(space)
        gone = set(map(str, asked["ids"] if isinstance(asked, Mapping) else asked)) & set(there)
        for id_ in gone:
            del there[id_]
        return {"deleted": len(gone)}

    def _range(self, space: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        start, limit = int(asked["cursor"] or 0), int(asked["limit"])
        if not 1 <= limit <= _MOST:
            raise _Refused(400, f"Invalid limit: {limit}")
        every = list(self._space(space).values())
        page = every[start : start + limit]
        after = str(start + limit) if start + limit < len(every) else ""
        return {"nextCursor": after, "vectors": [one.shown(asked) for one in page]}

    def _drop(self, space: str) -> str:
        if space not in self._spaces or not space:
            raise _Refused(404, f"Namespace {space} does not exist")
        del self._spaces[space]
        return "Success"

    def _info(self) -> dict[str, Any]:
        now = time.monotonic()
        spaces = {
            name: {
                "vectorCount": sum(one.seen <= now for one in there.values()),
                "pendingVectorCount": sum(one.seen > now for one in there.values()),
            }
            for name, there in self._spaces.items()
        }
        return {
            "vectorCount": sum(one["vectorCount"] for one in spaces.values()),
            "pendingVectorCount": sum(one["pendingVectorCount"] for one in spaces.values()),
            "indexSize": sum(map(len, self._spaces.values())) * self._dimension * 4,
            "dimension": self._dimension,
            "similarityFunction": self._function,
            "indexType": "DENSE",
            "denseIndex": {
                "dimension": self._dimension,
                "similarityFunction": self._function,
                "embeddingModel": "",
            },
            "namespaces": spaces,
        }


# The server


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, port: int, upstash: Upstash) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.upstash = upstash
        self.open: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        found, address = super().get_request()
        self.open.add(found)
        return found, address

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that was cut is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes: the second would wait 40 ms
    server: _Http

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(size)
        upstash = self.server.upstash
        upstash.asked.append((self.path, dict(self.headers.items())))
        status, body = self._answer(upstash, raw)
        text = json.dumps(body, ensure_ascii=False).encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_DELETE = do_POST  # noqa: N815 - as the library calls them

    def _answer(self, upstash: Upstash, raw: bytes) -> tuple[int, dict[str, Any]]:
        if self.headers.get("Authorization") != f"Bearer {upstash.key}":
            return 401, {"error": "Unauthorized: Invalid auth token", "status": 401}
        parts = urlsplit(self.path)
        try:
            body = json.loads(raw) if raw else None
            return 200, {"result": upstash.index.answer(parts.path, body)}
        except _Refused as error:
            return error.status, {"error": str(error), "status": error.status}
        except (ValueError, TypeError, LookupError) as error:
            return 400, {"error": f"Bad Request: {error!r}", "status": 400}

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


class Upstash:
    """The service, which can be out of reach for a while; what it holds stays."""

    def __init__(
        self, key: str, dimension: int, function: Function = "COSINE", delay: float = 0.03
    ) -> None:
        self._port = free_port()
        self.address, self.key = f"http://127.0.0.1:{self._port}", key
        self.index = _Index(dimension, function, delay)
        self.asked: list[tuple[str, dict[str, str]]] = []  # each request's path and headers
        self._running: tuple[_Http, threading.Thread] | None = None

    def start(self) -> None:
        server = _Http(self._port, self)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        self._running = server, thread

    def kill(self) -> None:
        running, self._running = self._running, None
        if not running:
            return
        server, thread = running
        server.shutdown()
        server.server_close()
        for one in list(server.open):  # connections that are kept for later as well
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        thread.join()

    stop = kill
