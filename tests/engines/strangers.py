"""HTTP servers that answer as a test says: what is behind an address may be anyone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

__all__ = ["Asked", "Reply", "stranger"]


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]  # by names in lower case
    body: Any


class Reply(NamedTuple):
    """What is answered; what is no bytes goes as JSON."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = {}


@contextmanager
def stranger(answer: Callable[[Asked], Reply]) -> Iterator[str]:
    """The host and port of such a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(Asked(self.command, self.path, headers, json.loads(sent or b"null")))
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as the library calls them

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.server_port}"
        finally:
            listener.shutdown()
            thread.join()
