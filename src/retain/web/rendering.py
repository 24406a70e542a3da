"""Pages made from templates, and the files that they use."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import anyio.to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from retain.errors import NotFound, RetainError
from retain.web.bank_pool import BankPool
from retain.web.operation import ROOT, status_of

_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOREVER: Final = "private, max-age=31536000, immutable"
_MAX_MARKED: Final = 32  # words of a question that are marked
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
    environment.filters |= {"marked": _mark_words, "ago": _ago}
    return environment


def _mark_words(text: str, words: Sequence[str]) -> Markup:
    """Return a passage with the words of a question marked."""
    patterns = [re.escape(word[:100]) for word in words if len(word) > 1][:_MAX_MARKED]
    if not patterns:
        return Markup(escape(text))  # noqa: S704 - escaped just now
    parts = re.split(rf"(\b(?:{'|'.join(patterns)})\w*)", text, flags=re.IGNORECASE)
    html = (
        f"<mark>{escape(part)}</mark>" if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )
    return Markup("".join(html))  # noqa: S704 - each part is escaped


def _ago(text: object) -> str:
    """Return how long ago a time is, as people say it; the date where it is long ago."""
    try:
        then = datetime.fromisoformat(str(text))
    except ValueError:
        return str(text or "")
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = (datetime.now(UTC) - then).total_seconds()
    if not -60 < seconds < 1_209_600:
        return str(text)[:10]
    if seconds < 90:
        return "just now"
    units = ((5_400, 60, "minute"), (129_600, 3_600, "hour"), (1_209_600, 86_400, "day"))
    size, name = next((size, name) for limit, size, name in units if seconds < limit)
    count = round(seconds / size)
    return f"{count} {name}{'' if count == 1 else 's'} ago"


def page(
    request: Request, template: str, values: Mapping[str, Any], *, status: int = 200
) -> Response:
    """A whole page, or for one that is open already what may have changed on it.

    `here` names the part of Retain that it belongs to.
    """
    banks: BankPool = request.app.state.banks
    layout = "part.html" if _FRAGMENT in request.headers else "base.html"

    def made() -> bytes:
        given = {"here": "", "place": banks.where, "bank": _mark(banks), **values}
        given["told"] = request.scope.get("told", "")
        given["layout"] = layout
        text = _templates().get_template(template).render(given)
        return text.encode("utf-8", "replace")  # a file's name may hold bytes that are no text

    return _Page(made, status)


def _mark(banks: BankPool) -> str:
    """What tells this bank from others: a browser keeps drafts by port, which another may have."""
    return _hashed(os.path.expanduser(banks.where))


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
