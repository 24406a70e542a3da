"""A server on this machine that speaks OpenAI's embeddings protocol, well or badly."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

DIMENSION = 6


class Asked(NamedTuple):
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Answer(NamedTuple):
    """What the server sends back."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


Script = Callable[[Asked], Answer]


def vector(text: str) -> list[float]:
    """A vector that depends on the text, and is not of unit length."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return [byte / 16 - 7 for byte in digest[:DIMENSION]]


def data(texts: list[str]) -> list[dict[str, Any]]:
    return [
        {"object": "embedding", "index": number, "embedding": vector(text)}
        for number, text in enumerate(texts)
    ]


def right(asked: Asked) -> Answer:
    """A right answer, its vectors in another order than the texts."""
    return Answer(body=json.dumps({"object": "list", "data": data(asked.body["input"])[::-1]}))


def always(answer: Answer) -> Script:
    return lambda _: answer


class Server:
    """A running server: what it was asked, and what it will answer first."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.base = f"http://127.0.0.1:{port}/v1"
        self.asked: list[Asked] = []
        self.script: list[Script] = []

    def says(self, *scripts: Script | Answer) -> None:
        """Answer so, one after the other; after that, rightly."""
        for one in scripts:
            self.script.append(always(one) if isinstance(one, Answer) else one)


@contextmanager
def running(otherwise: Script = right) -> Iterator[Server]:
    """A server that answers as it was told to, and else always in one way."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            asked = Asked(
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                json.loads(self.rfile.read(length)),
            )
            server.asked.append(asked)
            answer = (server.script.pop(0) if server.script else otherwise)(asked)
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body.encode("utf-8"))
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client gave up, as some tests want

        def do_GET(self) -> None:
            server.asked.append(Asked(self.path, {}, {}))
            self.send_error(405)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = False
    server = Server(http.server_port)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
