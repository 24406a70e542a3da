"""A model whose answers are written beforehand, behind the real Messages API on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

__all__ = ["Line", "Model", "Request", "say", "use"]

_DEFAULT = "Done."


class Line(NamedTuple):
    """One line of the model's part: said once, when the last message has these words."""

    cue: str
    blocks: tuple[Mapping[str, Any], ...]


def say(cue: str, text: str) -> Line:
    """Answers with a text."""
    return Line(cue, ({"type": "text", "text": text},))


def use(cue: str, tool: str, **arguments: Any) -> Line:
    """Answers by using a tool."""
    return Line(cue, ({"type": "tool_use", "name": tool, "input": arguments},))


class Request(NamedTuple):
    """A request to the model, as it came."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def last(self) -> str:
        """All the text of the newest message, with what tools and hooks said."""
        messages = self.body.get("messages") or [{}]
        return "\n".join(_texts(messages[-1].get("content", "")))

    @property
    def text(self) -> str:
        """All the text of the conversation, without the system prompt."""
        messages = self.body.get("messages") or []
        return "\n".join(text for one in messages for text in _texts(one.get("content", "")))

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools") or [] if "name" in tool]


class Model:
    """Serves the Messages API and keeps every request; `with Model(...) as model`.

    Requests without tools come from the host itself (titles, checks of the connection), so no
    line is spent on them, unless the line's cue is in the last message word for word.
    """

    def __init__(self, *lines: Line) -> None:
        self.requests: list[Request] = []
        self._lines = list(lines)
        self._lock = threading.Lock()
        self._count = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def unsaid(self) -> list[str]:
        """The cues that never came."""
        return [line.cue for line in self._lines]

    @property
    def asked(self) -> list[Request]:
        """The requests of the conversation itself: those that offer tools."""
        return [one for one in self.requests if one.path == "/v1/messages" and one.tools]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, request: Request) -> dict[str, Any]:
        """The whole message for a request, which is kept."""
        with self._lock:
            self.requests.append(request)
            self._count += 1
            blocks = self._blocks(request.last)
            content = [
                {**block, "id": f"toolu_{self._count:02}{place:02}"}
                if block["type"] == "tool_use"
                else dict(block)
                for place, block in enumerate(blocks)
            ]
            uses = any(block["type"] == "tool_use" for block in blocks)
            return {
                "id": f"msg_{self._count:04}",
                "type": "message",
                "role": "assistant",
                "model": request.body.get("model", "claude"),
                "content": content,
                "stop_reason": "tool_use" if uses else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 100, "output_tokens": 10},
            }

    def _blocks(self, last: str) -> Sequence[Mapping[str, Any]]:
        for place, line in enumerate(self._lines):
            if line.cue in last:
                return self._lines.pop(place).blocks
        return [{"type": "text", "text": _DEFAULT}]


def _texts(content: Any) -> Iterator[str]:
    """The texts in a message's content, also those inside tool results."""
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if block.get("type") == "text":
            yield block["text"]
        elif block.get("type") == "tool_result":
            yield from _texts(block.get("content") or "")


def _events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as the events of a stream."""
    opening = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": opening}
    for place, block in enumerate(message["content"]):
        empty, delta = _pieces(block)
        yield {"type": "content_block_start", "index": place, "content_block": empty}
        yield {"type": "content_block_delta", "index": place, "delta": delta}
        yield {"type": "content_block_stop", "index": place}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
        "usage": message["usage"],
    }
    yield {"type": "message_stop"}


def _pieces(block: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    arguments = json.dumps(block["input"])
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": arguments}


class _Server(ThreadingHTTPServer):
    """A server that knows its model."""

    model: Model


class _Handler(BaseHTTPRequestHandler):
    """Speaks for the model of its server."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self._send(200, "text/plain", b"")

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/v1/models":
            self._json(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})
        else:
            self._missing()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = urlsplit(self.path).path
        request = Request(path, dict(self.headers.items()), body)
        if path == "/v1/messages/count_tokens":
            self._json(200, {"input_tokens": 100})
        elif path != "/v1/messages":
            self._missing()
        elif body.get("stream"):
            lines = [
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                for event in _events(self.server.model.answer(request))
            ]
            self._send(200, "text/event-stream", "".join(lines).encode())
        else:
            self._json(200, self.server.model.answer(request))

    def _missing(self) -> None:
        error = {"type": "not_found_error", "message": f"no {self.path} here"}
        self._json(404, {"type": "error", "error": error})

    def _json(self, code: int, value: Mapping[str, Any]) -> None:
        self._send(code, "application/json", json.dumps(value).encode())

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("request-id", "req_1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: pytest shows what a test needs."""
