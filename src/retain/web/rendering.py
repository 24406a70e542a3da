"""Pages made from templates, and the files that they use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import anyio.to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from retain.errors import NotFound, RetainError
from retain.web import prose
from retain.web.office import Office
from retain.web.operation import ROOT, status_of

_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOREVER: Final = "private, max-age=31536000, immutable"
_FRAGMENT: Final = "x-retain-fragment"


@cache
def _files() -> Mapping[str, tuple[bytes, str]]:
    """Each file of the pages with its fingerprint; there are few, and they are small."""
    found = {}
    for one in files("retain.web").joinpath("static").iterdir():
        if one.name.rpartition(".")[2] in _KINDS:
            data = one.read_bytes()
            found[one.name] = data, hashlib.sha256(data).hexdigest()[:16]
    return found


@cache
def _together() -> str:
    """One fingerprint of all files: modules import each other by plain names below it."""
    return hashlib.sha256("".join(mark for _, mark in _files().values()).encode()).hexdigest()[:12]


class Static:
    """The files below /static/<fingerprint>/, kept by browsers for as long as they are the same."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a file."""
        _, _, name = scope["path"].removeprefix("/static/").partition("/")
        found = _files().get(name) if scope["method"] in ("GET", "HEAD") else None
        if found is None:
            answer = Response("", 404)
        else:
            kind = _KINDS[name.rpartition(".")[2]]
            answer = Response(found[0], headers={"Cache-Control": _FOREVER}, media_type=kind)
        await answer(scope, receive, send)


def _static(name: str) -> str:
    if name not in _files():
        raise KeyError(name)
    return f"/static/{_together()}/{name}"


def address(scope: str, collection: str, name: str) -> str:
    """The path of a memory's page."""
    return "/".join(
        ["/memory", *(quote(part, safe="") for part in (scope, collection or ROOT, name))]
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("retain.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"static": _static, "address": address}
    environment.filters |= {"marked": prose.marked, "ago": prose.ago}
    return environment


def page(
    request: Request, template: str, values: Mapping[str, Any], *, status: int = 200
) -> Response:
    """A whole page, or for one that is open already what may have changed on it.

    `here` names the part of Retain that it belongs to.
    """
    office: Office = request.app.state.office
    layout = "part.html" if _FRAGMENT in request.headers else "base.html"

    def made() -> bytes:
        given = {"here": "", "place": office.where, "bank": _mark(office), **values}
        given["told"] = request.scope.get("told", "")
        given["layout"] = layout
        text = _templates().get_template(template).render(given)
        return text.encode("utf-8", "replace")  # a file's name may hold bytes that are no text

    return _Page(made, status)


def _mark(office: Office) -> str:
    """What tells this bank from others: a browser keeps drafts by port, which another may have."""
    return _hashed(os.path.expanduser(office.where))


@cache
def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


class _Page(HTMLResponse):
    """A page that is made on a thread when it is sent: a long one must keep no other waiting."""

    def __init__(self, make: Callable[[], bytes], status: int) -> None:
        super().__init__(b"", status)
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body = await anyio.to_thread.run_sync(self._make)
        self.headers["content-length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


def part(template: str, values: Mapping[str, Any]) -> str:
    """A piece of a page, for the interface to hand out."""
    return _templates().get_template(template).render(values)


def failure(request: Request, error: RetainError, status: int = 0) -> Response:
    """A page that says what went wrong, and what can be done."""
    title = "Not found" if isinstance(error, NotFound) else "That did not work"
    values = {"title": title, "error": error}
    return page(request, "failure.html", values, status=status or status_of(error))
