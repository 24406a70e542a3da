"""Past chats, found again and read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import anyio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from retain.errors import NotFound, RetainError, UsageError
from retain.facts.retraction import kept
from retain.sessions.formats import FORMATS
from retain.web.office import Office
from retain.web.rendering import page
from retain.web.spoken import Piece, dressed, fact_piece, outlined, texts
from retain.web.subjects.sessions import listed, page_of_session
from retain.web.wikilinks import Pages, find_targets, look_up, resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retain.app import App
    from retain.sessions.model import Session
    from retain.web.talks import Talks


_PAGE: Final = 50
_MOST: Final = 500  # chats on one page; what comes after them begins another
_FURTHEST: Final = 1_000_000
_MOST_WORDS: Final = 10_000
_MOST_PIECES: Final = 200  # of a chat that are shown without being asked for


async def _all(request: Request) -> Response:
    office: Office = request.app.state.office
    words = request.query_params.get("q", "").strip()[:_MOST_WORDS]
    limit = min(_number(request, "limit") or _PAGE, _MOST)
    offset = min(_number(request, "offset"), _FURTHEST)
    found = await listed(office, words, limit + 1, offset)
    following = (offset, limit + _PAGE) if limit < _MOST else (offset + limit, _PAGE)
    more = dict(zip(("offset", "limit"), following, strict=True))
    values = {
        "title": "Sessions",
        "here": "sessions",
        "words": words,
        "found": found[:limit],
        "more": urlencode({**more, "q": words}) if len(found) > limit else "",
        "newer": f"/sessions?{urlencode({'q': words})}" if offset else "",
        "several": await office.use(lambda _app: len(office.scopes) > 1),
        "page_of": page_of_session,
    }
    return page(request, "sessions.html", values)


def _number(request: Request, name: str) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() and given.isascii() and len(given) < 8 else 0


async def _find(request: Request) -> Response:
    """A chat by its id alone, whichever bank it is in."""
    office: Office = request.app.state.office
    name = request.path_params["id"]
    for scope in await office.use(lambda _app: office.scopes):
        try:
            await office.use(lambda app: app.sessions.get(name), scope)
        except NotFound:
            continue
        return RedirectResponse(f"/sessions/{scope}/{quote(name, safe='')}", 303)
    raise NotFound(f"there is no session {name[:80]!r}")


async def _one(request: Request) -> Response:
    office: Office = request.app.state.office
    scope, name = request.path_params["scope"], request.path_params["id"]

    talks: Talks = request.app.state.talks

    def work(app: App) -> tuple[Session, Callable[[], list[Piece]]]:
        session, chat = app.sessions.get(name), app.sessions.chat(name)
        facts = [fact_piece(one, talks.page_of(app, one.ref)) for one in kept(app, name)]
        messages = app.sessions.messages(name)
        return session, partial(outlined, messages, facts, chat.compactions)

    def shown() -> tuple[list[Piece], int]:
        found = outline()
        hidden = _hidden(found, request.query_params)
        return found[hidden:], hidden

    session, outline = await office.use(work, scope)
    # Everyone else waits while a bank is used: what takes long comes before or after it.
    found, hidden = await anyio.to_thread.run_sync(shown)
    resolve = resolver(await _linked(office, scope, texts(found)))
    values = {
        "title": session.title,
        "here": "sessions",
        "scope": scope,
        "session": session,
        "pieces": await anyio.to_thread.run_sync(dressed, found, resolve),
        "hidden": hidden,
        "chat_page": page_of_session(session.id, scope),
    }
    return page(request, "session.html", values)


def _hidden(found: Sequence[Piece], asked: Mapping[str, str]) -> int:
    """How many pieces at the start are left out: no more than an open page has left out so far."""
    if "all" in asked:
        return 0
    hidden = min(max(0, len(found) - _MOST_PIECES), _place(found, asked.get("message", "")))
    so_far = asked.get("hidden", "")
    return min(hidden, int(so_far)) if so_far.isdecimal() and len(so_far) < 8 else hidden


async def _linked(office: Office, scope: str, said: Sequence[str]) -> Pages:
    """The pages of the memories that a chat links to, where an index can tell."""
    named = await anyio.to_thread.run_sync(find_targets, said)
    try:
        return await office.use(lambda app: look_up(app, office, named), scope)
    except RetainError:
        return {}


def _place(found: Sequence[Piece], message: str) -> int:
    """How many pieces stand before a message that somebody wants to see; else all of them."""
    places = (at for at, one in enumerate(found) if str(one.get("message", "")) == message)
    return next(places, len(found)) if message else len(found)


async def _export(request: Request) -> Response:
    """The same as the interface gives, as a file to be saved."""
    office: Office = request.app.state.office
    scope, name = request.path_params["scope"], request.path_params["id"]
    form = request.query_params.get("format", "md")
    if form not in FORMATS:
        raise UsageError(f"{form[:20]!r} is no format", hint=f"There are {', '.join(FORMATS)}.")

    def work(app: App) -> tuple[str, str]:
        chat = app.sessions.chat(name)
        return chat.id, FORMATS[form](chat)

    known, text = await office.use(work, scope)
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(known)}.{form}"}
    data = text.encode("utf-8", "replace")
    return Response(data, headers=headers, media_type="text/plain; charset=utf-8")


ROUTES: Final = (
    Route("/sessions", _all, methods=["GET"]),
    Route("/sessions/{id}", _find, methods=["GET"]),
    Route("/sessions/{scope}/{id}", _one, methods=["GET"]),
    Route("/sessions/{scope}/{id}/export", _export, methods=["GET"]),
)
