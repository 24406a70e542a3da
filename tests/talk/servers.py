"""A server on this machine that speaks the Messages API and OpenAI's chat protocol.

What it answers is written beforehand, byte for byte if need be: well, badly, slowly or not at all.
"""

from __future__ import annotations

import itertools
import json
import re
import select
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

__all__ = [
    "Answer",
    "Asked",
    "Server",
    "Thought",
    "Use",
    "chat",
    "chat_error",
    "chopped",
    "claude",
    "claude_error",
    "running",
]

_EVENTS = "text/event-stream"
_RECALLED = re.compile(r"<(recalled-memories|past-conversations) .*?</\1[^>]*>", re.DOTALL)
_MODELS = ["model-a", "model-b"]
_NUMBERS = itertools.count(1)  # a client may keep ids for as long as it lives

Ending = Literal["whole", "cut", "hang"]


class Asked(NamedTuple):
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def last(self) -> str:
        """All the text of the newest message, with what tools said."""
        messages = self.body.get("messages") or [{}]
        return "\n".join(_texts(messages[-1].get("content") or ""))

    @property
    def words(self) -> str:
        """The same without what was recalled for it, which may have any words."""
        return _RECALLED.sub("", self.last)

    @property
    def text(self) -> str:
        """All the text of the conversation; with OpenAI's protocol, the system prompt as well."""
        messages = self.body.get("messages") or []
        return "\n".join(text for one in messages for text in _texts(one.get("content") or ""))

    @property
    def tools(self) -> list[str]:
        named = [tool.get("function", tool) for tool in self.body.get("tools") or []]
        return [tool["name"] for tool in named if "name" in tool]


class Answer(NamedTuple):
    """What the server sends back, in these pieces, and how it leaves the connection.

    `cut` closes it without an end; `hang` waits until the other side has closed it. A `hang`
    without a status says nothing at all.
    """

    parts: tuple[bytes, ...] = ()
    status: int = 200
    kind: str = _EVENTS
    headers: Mapping[str, str] = {}
    ending: Ending = "whole"
    unstreamed: bytes = b""  # the same for someone who asks for no stream
    after: threading.Event | None = None  # nothing is said before that


class Use(NamedTuple):
    """A tool's use in a reply; `text` stands for the JSON of its input if that is to be wrong."""

    name: str
    input: Mapping[str, Any] = {}
    id: str = ""
    text: str = ""

    @property
    def json(self) -> str:
        return self.text or json.dumps(self.input, ensure_ascii=False)


class Thought(NamedTuple):
    """A thinking block in a reply."""

    text: str
    signature: str = "c2lnbmVk"


Piece = str | Use | Thought


def claude(
    *pieces: Piece,
    stop: str = "",
    usage: Mapping[str, int] | None = None,
    ending: Ending = "whole",
    keep: int | None = None,
) -> Answer:
    """A reply of the Messages API; only the first `keep` events, if not all are wanted."""
    uses = any(isinstance(one, Use) for one in pieces)
    stop = stop or ("tool_use" if uses else "end_turn")
    used = {"input_tokens": 100, "output_tokens": 10, **(usage or {})}
    blocks = [_claude_block(piece) for piece in pieces]
    lines = [
        f"event: {one['type']}\ndata: {_json(one)}\n\n".encode()
        for one in _claude_events(blocks, stop, used)
    ]
    message = {**_claude_message(used), "content": [block.whole for block in blocks]}
    unstreamed = _json({**message, "stop_reason": stop}).encode()
    return Answer(tuple(lines[:keep]), ending=ending, unstreamed=unstreamed)


def chat(
    *pieces: Piece,
    stop: str = "",
    usage: Mapping[str, Any] | None = None,
    ending: Ending = "whole",
    keep: int | None = None,
) -> Answer:
    """A reply of OpenAI's protocol; only the first `keep` chunks, if not all are wanted."""
    uses = any(isinstance(one, Use) for one in pieces)
    chunks = list(_chat_chunks(pieces, stop or ("tool_calls" if uses else "stop"), usage))
    lines = [f"data: {_json(one)}\n\n" for one in chunks] + ["data: [DONE]\n\n"]
    return Answer(tuple(line.encode() for line in lines[:keep]), ending=ending)


def claude_error(status: int, kind: str, message: str, **headers: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return _refusal(status, body, headers)


def chat_error(status: int, code: str, message: str, **headers: str) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return _refusal(status, {"error": error}, headers)


def _refusal(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer((_json(body).encode(),), status, "application/json", named)


def chopped(answer: Answer, size: int) -> Answer:
    """The same bytes, a few at a time, wherever that cuts."""
    whole = b"".join(answer.parts)
    parts = tuple(whole[at : at + size] for at in range(0, len(whole), size))
    return answer._replace(parts=parts)


class Server:
    """A running server: what it was asked, and what it will answer first."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.gone = threading.Event()  # the other side closed a connection that was left hanging
        self._queue: list[Answer] = []
        self._cues: list[tuple[str, Answer]] = []
        self._lock = threading.Lock()

    def says(self, *answers: Answer) -> None:
        """Answer so, one after the other; after that, with a word."""
        self._queue += answers

    def hears(self, cue: str, answer: Answer) -> None:
        """Answer so, once, when the newest message has these words."""
        self._cues.append((cue, answer))

    @property
    def unheard(self) -> list[str]:
        """The cues that never came."""
        return [cue for cue, _ in self._cues]

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            for at, (cue, answer) in enumerate(self._cues):
                if cue in asked.words:
                    del self._cues[at]
                    return answer
            if self._queue:
                return self._queue.pop(0)
        return claude("Done.") if asked.path.endswith("/messages") else chat("Done.")


@contextmanager
def running() -> Iterator[Server]:
    """A server that is there for as long as the block lasts."""
    http = _Http(("127.0.0.1", 0), _Handler)
    http.server = server = Server(http.server_port)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        http.ending.set()
        http.shutdown()
        thread.join()
        http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    server: Server

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ending = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        asked = Asked(self.path, self._lowered(), {})
        if urlsplit(self.path).path != "/v1/models":
            self._send(claude_error(404, "not_found_error", f"no {self.path} here"))
            return
        self.server.server.asked.append(asked)
        data = [
            {"id": name, "type": "model", "object": "model", "display_name": name, "created": 0}
            for name in _MODELS
        ]
        page = {"object": "list", "data": data, "has_more": False, "first_id": None}
        self._send(Answer((_json(page).encode(),), kind="application/json"))

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        asked = Asked(urlsplit(self.path).path, self._lowered(), body)
        if asked.path in ("/v1/messages", "/v1/chat/completions"):
            answer = self.server.server.answer(asked)
            if not body.get("stream") and answer.unstreamed:
                answer = Answer((answer.unstreamed,), kind="application/json")
            self._send(answer)
        elif asked.path == "/v1/messages/count_tokens":
            self._send(Answer((b'{"input_tokens": 100}',), kind="application/json"))
        else:
            self._send(claude_error(404, "not_found_error", f"no {self.path} here"))

    def _lowered(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _send(self, answer: Answer) -> None:
        if answer.after:
            answer.after.wait(60)
        try:
            if answer.status:
                self._head(answer)
            for part in answer.parts:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()
            if answer.ending == "whole":
                self.wfile.write(b"0\r\n\r\n")
            elif answer.ending == "hang":
                self._wait()
        except (BrokenPipeError, ConnectionResetError):
            self.server.server.gone.set()
        self.close_connection = answer.ending != "whole"

    def _head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("request-id", "req_1")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _wait(self) -> None:
        """Stay until the other side is gone; a readable socket with nothing to read says so."""
        while not self.server.ending.is_set():
            if select.select([self.connection], [], [], 0.02)[0]:
                if not self.connection.recv(1):
                    self.server.server.gone.set()
                return

    def log_message(self, *_: object) -> None:
        """Says nothing: pytest shows what a test needs."""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


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


def _slices(text: str, size: int = 4) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


class _Block(NamedTuple):
    """A block of a Claude's reply, at its start, in pieces, and whole."""

    start: dict[str, Any]
    deltas: list[dict[str, Any]]
    whole: dict[str, Any]


def _claude_message(usage: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": f"msg_{next(_NUMBERS):04}",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _claude_events(
    blocks: Sequence[_Block], stop: str, used: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _claude_message({**used, "output_tokens": 1})}
    yield {"type": "ping"}
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block.start}
        for delta in block.deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": used["output_tokens"]},
    }
    yield {"type": "message_stop"}


def _claude_block(piece: Piece) -> _Block:
    match piece:
        case Use():
            id_ = piece.id or f"toolu_{next(_NUMBERS):04}"
            start = {"type": "tool_use", "id": id_, "name": piece.name, "input": {}}
            parts = [{"type": "input_json_delta", "partial_json": p} for p in _slices(piece.json)]
            return _Block(start, parts, {**start, "input": piece.input})
        case Thought(text, signature):
            start = {"type": "thinking", "thinking": "", "signature": ""}
            parts = [{"type": "thinking_delta", "thinking": p} for p in _slices(text)]
            parts.append({"type": "signature_delta", "signature": signature})
            return _Block(start, parts, {**start, "thinking": text, "signature": signature})
        case _:
            parts = [{"type": "text_delta", "text": p} for p in _slices(piece)]
            return _Block({"type": "text", "text": ""}, parts, {"type": "text", "text": piece})


def _chat_chunks(
    pieces: Sequence[Piece], stop: str, usage: Mapping[str, Any] | None
) -> Iterator[dict[str, Any]]:
    yield _chunk({"role": "assistant", "content": ""})
    calls = 0
    for piece in pieces:
        match piece:
            case Use():
                id_ = piece.id or f"call_{calls:02}"
                start = {"name": piece.name, "arguments": ""}
                call = {"index": calls, "id": id_, "type": "function", "function": start}
                yield _chunk({"tool_calls": [call]})
                for part in _slices(piece.json):
                    more = {"index": calls, "function": {"arguments": part}}
                    yield _chunk({"tool_calls": [more]})
                calls += 1
            case Thought(text):
                for part in _slices(text):
                    yield _chunk({"reasoning_content": part})
            case _:
                for part in _slices(piece):
                    yield _chunk({"content": part})
    yield _chunk({}, stop)
    if usage != {}:
        used = usage or {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        yield {**_chunk({}), "choices": [], "usage": used}


def _chunk(delta: Mapping[str, Any], stop: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "model",
        "choices": [{"index": 0, "delta": delta, "finish_reason": stop}],
    }
