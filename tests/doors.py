"""The four doors to a bank, each with the same verbs: command line, Python, MCP and web.

A test that is about what comes in or goes out, and not about one door, runs through all of them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client

import retain
from retain.errors import RetainError
from tests.cli.door import call
from tests.mcp.door import connected
from tests.web.stage import Begin, Served, started

NAMES = ("cli", "python", "mcp", "web")


class Answer(NamedTuple):
    """What a door answered, and whether it refused."""

    is_refused: bool
    text: str


class Door(Protocol):
    """What every door can do with a memory."""

    def put(self, text: str, name: str = "", title: str = "", tags: str = "") -> Answer: ...
    def get(self, name: str) -> Answer: ...
    def update(self, name: str, text: str) -> Answer: ...
    def delete(self, name: str) -> Answer: ...
    def list(self, collection: str = "") -> Answer: ...
    def search(self, query: str) -> Answer: ...


class CommandLine:
    """`retain`, called in this process."""

    def _call(self, *words: str, input: str = "") -> Answer:
        ran = call(*words, input=input.encode("utf-8", "surrogatepass"))
        return Answer(ran.code != 0, ran.out + ran.err)

    def put(self, text: str, name: str = "", title: str = "", tags: str = "") -> Answer:
        options = [f"--id={name}"] * bool(name) + [f"--title={title}"] * bool(title)
        return self._call("put", "-", *options, *[f"--tags={tags}"] * bool(tags), input=text)

    def get(self, name: str) -> Answer:
        return self._call("get", "--", name)

    def update(self, name: str, text: str) -> Answer:
        return self._call("update", "--content=-", "--", name, input=text)

    def delete(self, name: str) -> Answer:
        return self._call("delete", "--", name)

    def list(self, collection: str = "") -> Answer:
        return self._call("list", *[f"--collection={collection}"] * bool(collection))

    def search(self, query: str) -> Answer:
        return self._call("search", "--text", "--", query)


class Python:
    """`retain.open()`."""

    def __init__(self, root: str) -> None:
        self.bank = retain.open(root, background=False)

    def _call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Answer:
        try:
            result = function(*args, **named)
        except RetainError as error:
            return Answer(True, f"{error.message} {error.unchanged} {error.hint}")
        values = result if isinstance(result, list) else [result]
        shapes = [value.to_dict() if hasattr(value, "to_dict") else value for value in values]
        return Answer(False, json.dumps(shapes, ensure_ascii=False, default=str))

    def put(self, text: str, name: str = "", title: str = "", tags: str = "") -> Answer:
        tag_list = tags.split(",") if tags else None
        return self._call(self.bank.put, text, id=name, title=title, tags=tag_list)

    def get(self, name: str) -> Answer:
        return self._call(self.bank.get, name)

    def update(self, name: str, text: str) -> Answer:
        return self._call(self.bank.update, name, text=text)

    def delete(self, name: str) -> Answer:
        return self._call(self.bank.delete, name)

    def list(self, collection: str = "") -> Answer:
        return self._call(self.bank.list, collection=collection or None)

    def search(self, query: str) -> Answer:
        return self._call(self.bank.search, query, mode="text")


class Mcp:
    """The MCP server, in memory, with a real client."""

    def __init__(self, client: Client, portal: BlockingPortal) -> None:
        self._client, self._portal = client, portal

    def _call(self, tool: str, **args: Any) -> Answer:
        result = self._portal.call(self._client.call_tool, tool, args)
        texts = [getattr(content, "text", "") for content in result.content]
        return Answer(bool(result.is_error), "\n".join(texts))

    def put(self, text: str, name: str = "", title: str = "", tags: str = "") -> Answer:
        tag_list = tags.split(",") if tags else []
        return self._call("create_memory", filename=name, content=text, title=title, tags=tag_list)

    def get(self, name: str) -> Answer:
        return self._call("read_memory", filename=name)

    def update(self, name: str, text: str) -> Answer:
        return self._call("update_memory", filename=name, content=text)

    def delete(self, name: str) -> Answer:
        return self._call("delete_memory", filename=name)

    def list(self, collection: str = "") -> Answer:
        return self._call("list_memories", **({"collection": collection} if collection else {}))

    def search(self, query: str) -> Answer:
        return self._call("search_memories", query=query)


class Web:
    """The JSON interface of `retain web`, a process of its own."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def _call(self, method: str, path: str, body: object = None, **params: str) -> Answer:
        answer = self._served.ask(method, f"/api/v1{path}", json=body, params=params or None)
        assert answer.status_code < 500, answer.text
        return Answer(answer.status_code != 200, answer.text)

    @staticmethod
    def _path(name: str) -> str:
        return f"/memories/here/memories/{quote(name, safe='', errors='surrogatepass')}"

    def put(self, text: str, name: str = "", title: str = "", tags: str = "") -> Answer:
        tag_list = tags.split(",") if tags else []
        body = {"text": text, "id": name, "title": title, "tags": tag_list}
        return self._call("POST", "/memories/here", body)

    def get(self, name: str) -> Answer:
        return self._call("GET", self._path(name))

    def update(self, name: str, text: str) -> Answer:
        return self._call("PUT", self._path(name), {"text": text})

    def delete(self, name: str) -> Answer:
        return self._call("DELETE", self._path(name))

    def list(self, collection: str = "") -> Answer:
        return self._call("GET", "/memories", **({"collection": collection} if collection else {}))

    def search(self, query: str) -> Answer:
        return self._call("GET", "/search", q=query, mode="text")


@contextlib.contextmanager
def open_door(name: str, home: Path, begin: Begin) -> Iterator[Door]:
    """A door to the bank of the project at `home/work`; it ends with the block."""
    if name == "cli":
        yield CommandLine()
    elif name == "python":
        door = Python(str(home / "work" / ".retain"))
        with door.bank:
            yield door
    elif name == "mcp":
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(connected()) as client,
        ):
            yield Mcp(client, portal)
    else:
        with started(home, env={"RETAIN_RECALL_EMBEDDER": "none"}, begin=begin) as served:
            yield Web(served)
