"""Past chats: listed and found, read, renamed, exported, deleted and brought back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
from pydantic import Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from retain.bank.trash import CHATS
from retain.errors import NotFound, RetainError, UsageError
from retain.facts.retraction import kept
from retain.sessions.formats import FORMATS, to_dict
from retain.text.sanitize import flat
from retain.web import answers, undo_steps
from retain.web.bank_pool import BankPool
from retain.web.chat import Fact, Undone, page_of_session
from retain.web.message_view import Piece, dressed, fact_piece, outlined, texts
from retain.web.operation import Call, Given, Gives, Many, Name, Operation
from retain.web.rendering import page
from retain.web.wikilinks import Pages, find_targets, look_up, resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retain.app import App
    from retain.sessions.model import Session
    from retain.web.chat_registry import ChatRegistry
    from retain.web.live import Live


_EXCERPT: Final = 240
_HITS: Final = 200
_MOST_WORDS: Final = 64  # that are looked for in a message


class Listed(NamedTuple):
    """A chat in a list, the bank it is in, and what in it answers the words that were asked for."""

    scope: str
    session: Session
    excerpt: str = ""
    message: int = 0  # the one that the excerpt is from

    @property
    def data(self) -> dict[str, Any]:
        one = self.session
        return {
            **one._asdict(),
            "scope": self.scope,
            "tags": list(one.tags),
            "excerpt": self.excerpt,
            "message": self.message,
        }


async def listed(banks: BankPool, words: str, limit: int, offset: int = 0) -> list[Listed]:
    """Chats of all banks, the one that was used last first."""
    found: list[Listed] = []
    for scope in await banks.use(lambda _app: banks.scopes):
        work = partial(_listed, scope=scope, words=words, limit=offset + limit)
        found += await banks.use(work, scope)
    found.sort(key=lambda one: one.session.updated_at, reverse=True)
    # Not while the bank waits, and only for those that are shown: messages can be long.
    return await anyio.to_thread.run_sync(_excerpted, found[offset : offset + limit], words)


def _listed(app: App, scope: str, words: str, limit: int) -> list[Listed]:
    """Chats, each with the whole message that answers the words best."""
    sessions = app.sessions.list(limit, words)
    best: dict[str, tuple[str, int]] = {}
    for hit in app.sessions.search(words, _HITS) if words.strip() else ():
        best.setdefault(hit.session_id, (hit.text, hit.message))
    return [Listed(scope, one, *best.get(one.id, ("", 0))) for one in sessions]


def _excerpted(found: Sequence[Listed], words: str) -> list[Listed]:
    wanted = [*dict.fromkeys(words.casefold().split())][:_MOST_WORDS]
    return [one._replace(excerpt=_around(one.excerpt, wanted)) for one in found]


def _around(text: str, words: Sequence[str]) -> str:
    """The part of a message that has the words in it; its beginning where none is found."""
    text = flat(text, len(text) + 1)
    folded = text.casefold()
    places = [folded.find(word) for word in words]
    start = max(0, min((at for at in places if at >= 0), default=0) - _EXCERPT // 4)
    start = text.rfind(" ", 0, start) + 1
    return ("… " if start else "") + flat(text[start:], _EXCERPT)


# The JSON interface

Data = dict[str, Any]

_KINDS: Final = {"md": "text/markdown", "json": "application/json", "jsonl": "application/jsonl"}


class Wanted(Given):
    """Which chats; without words, those used last."""

    q: Annotated[str, Field(max_length=10_000)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class Form(Given):
    """How a chat is written down."""

    format: Literal["md", "json", "jsonl"] = "md"


class Renamed(Given):
    """A title, where an empty one stands for the first thing said; and tags."""

    title: Annotated[str, Field(max_length=1_000)] | None = None
    tags: Annotated[Many[Name], Field(max_length=100)] | None = None


class Kept(Given):
    """A deleted chat, as it is called in the trash."""

    name: Name


class Shown(Gives):
    """A chat without what was said in it; the excerpt is what answers the words best.

    `message` is the number of the message it is from; 0 where it is from none.
    """

    scope: str
    id: str
    title: str
    summary: str
    created_at: str
    updated_at: str
    tags: list[str]
    messages: int
    tokens: int
    model: str
    excerpt: str
    message: int


class Found(Gives):
    """Chats, the one that was used last first."""

    sessions: list[Shown]


class Uttered(Gives):
    """What one side said; blocks where the text alone is not the whole."""

    role: str
    content: str
    timestamp: str
    token_count: int | None = None
    blocks: list[dict[str, Any]] = Field(default_factory=list)


class Shortened(Gives):
    """A summary that stands for the first messages when a model is asked."""

    messages: int
    summary: str
    created_at: str


class Whole(Gives):
    """A chat with all that was said in it; what says nothing is left out."""

    id: str
    created_at: str
    updated_at: str
    title: str
    tags: list[str]
    messages: list[Uttered]
    summary: str = ""
    model: str = ""
    origin: str = ""
    compactions: list[Shortened] = Field(default_factory=list)


class Written(Gives):
    """A chat as a file, and what that would be called."""

    name: str
    kind: str
    text: str


class Deleted(Gives):
    """Where a chat lies in the trash, and the call that brings it back."""

    status: str
    id: str
    name: str
    undo: list[answers.Again]


class Restored(Gives):
    """The chat that is there again, and the call that throws it away again."""

    status: str
    id: str
    undo: list[answers.Again]


async def _list(call: Call) -> Data:
    found = await listed(call.banks, call.query.q, call.query.limit)
    return {"sessions": [one.data for one in found]}


async def _get(call: Call) -> Data:
    scope, name = call.path["scope"], call.path["id"]
    return await call.banks.use(lambda app: to_dict(app.sessions.chat(name)), scope)


async def _export_data(call: Call) -> Data:
    scope, name, form = call.path["scope"], call.path["id"], str(call.query.format)
    text = await call.banks.use(lambda app: FORMATS[form](app.sessions.chat(name)), scope)
    return {"name": f"{name}.{form}", "kind": _KINDS[form], "text": text}


async def _rename(call: Call) -> Data:
    scope, name, given = call.path["scope"], call.path["id"], call.body

    def work(app: App) -> Data:
        if given.title is not None:
            app.sessions.retitle(name, given.title)
        if given.tags is not None:
            app.sessions.tag(name, given.tags)
        return Listed(scope, app.sessions.get(name)).data

    found = await call.banks.use(work, scope)
    talks: ChatRegistry = call.request.app.state.talks
    await talks.renamed(scope, name)
    _tell(call)
    return found


async def _delete(call: Call) -> Data:
    scope, name = call.path["scope"], call.path["id"]
    talks: ChatRegistry = call.request.app.state.talks
    await talks.let_go(scope, name)
    kept = await call.banks.use(lambda app: app.sessions.delete(name), scope)
    _tell(call)
    undo = undo_steps.to_call("POST", f"/deleted-sessions/{quote(scope)}", {"name": kept.name})
    return {"status": "deleted", "id": name, "name": kept.name, "undo": [undo]}


async def _undo(call: Call) -> Data:
    talks: ChatRegistry = call.request.app.state.talks
    back = await talks.undo(call.path["scope"], call.path["id"], str(call.body.ref))
    return {"status": "undone", "back": back}


async def _restore(call: Call) -> Data:
    scope, name = call.path["scope"], str(call.body.name)
    done = await call.banks.use(lambda app: _brought_back(app, name), scope)
    _tell(call)
    undo = undo_steps.to_call("DELETE", f"/sessions/{quote(scope)}/{quote(done, safe='')}", None)
    return {"status": "restored", "id": done, "undo": [undo]}


def _brought_back(app: App, name: str) -> str:
    """Import a chat from the trash; only what lies there can be named."""
    for one in app.own.trashed():
        if one.collection == CHATS and one.name == name:
            done = app.import_chats(one.path, allow_secret=True)
            return next(iter((*done.new, *done.grown, *done.unchanged, *done.differing)), "")
    raise NotFound(f"there is no {flat(name, 80)!r} among the deleted chats")


def _tell(call: Call) -> None:
    live: Live = call.request.app.state.live
    live.tell("sessions", {})


_ONE: Final = "/sessions/{scope}/{id}"

OPERATIONS: Final = tuple(
    one._replace(subject="sessions")
    for one in (
        Operation("GET", "/sessions", "sessions", "List or find chats", _list, Found, query=Wanted),
        Operation("GET", _ONE, "session", "Read a chat", _get, Whole),
        Operation(
            "PUT", _ONE, "rename-session", "Name and tag a chat", _rename, Shown, body=Renamed
        ),
        Operation("DELETE", _ONE, "delete-session", "Move a chat to the trash", _delete, Deleted),
        Operation(
            "POST", f"{_ONE}/undo", "undo-kept", "Take a fact back", _undo, Undone, body=Fact
        ),
        Operation(
            "GET",
            f"{_ONE}/export",
            "export-session",
            "A chat as a file",
            _export_data,
            Written,
            query=Form,
        ),
        Operation(
            "POST",
            "/deleted-sessions/{scope}",
            "restore-session",
            "Bring a deleted chat back",
            _restore,
            Restored,
            body=Kept,
        ),
    )
)


# The page

_PAGE: Final = 50
_MOST: Final = 500  # chats on one page; what comes after them begins another
_FURTHEST: Final = 1_000_000
_MAX_QUERY: Final = 10_000
_MOST_PIECES: Final = 200  # of a chat that are shown without being asked for


async def _all(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    words = request.query_params.get("q", "").strip()[:_MAX_QUERY]
    limit = min(_number(request, "limit") or _PAGE, _MOST)
    offset = min(_number(request, "offset"), _FURTHEST)
    found = await listed(banks, words, limit + 1, offset)
    following = (offset, limit + _PAGE) if limit < _MOST else (offset + limit, _PAGE)
    more = dict(zip(("offset", "limit"), following, strict=True))
    values = {
        "title": "Sessions",
        "here": "sessions",
        "words": words,
        "found": found[:limit],
        "more": urlencode({**more, "q": words}) if len(found) > limit else "",
        "newer": f"/sessions?{urlencode({'q': words})}" if offset else "",
        "several": await banks.use(lambda _app: len(banks.scopes) > 1),
        "page_of": page_of_session,
    }
    return page(request, "sessions.html", values)


def _number(request: Request, name: str) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() and given.isascii() and len(given) < 8 else 0


async def _find(request: Request) -> Response:
    """A chat by its id alone, whichever bank it is in."""
    banks: BankPool = request.app.state.banks
    name = request.path_params["id"]
    for scope in await banks.use(lambda _app: banks.scopes):
        try:
            await banks.use(lambda app: app.sessions.get(name), scope)
        except NotFound:
            continue
        return RedirectResponse(f"/sessions/{scope}/{quote(name, safe='')}", 303)
    raise NotFound(f"there is no session {name[:80]!r}")


async def _one(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    scope, name = request.path_params["scope"], request.path_params["id"]

    talks: ChatRegistry = request.app.state.talks

    def work(app: App) -> tuple[Session, Callable[[], list[Piece]]]:
        session, chat = app.sessions.get(name), app.sessions.chat(name)
        facts = [fact_piece(one, talks.page_of(app, one.ref)) for one in kept(app, name)]
        messages = app.sessions.messages(name)
        return session, partial(outlined, messages, facts, chat.compactions)

    def shown() -> tuple[list[Piece], int]:
        found = outline()
        hidden = _hidden(found, request.query_params)
        return found[hidden:], hidden

    session, outline = await banks.use(work, scope)
    # Everyone else waits while a bank is used: what takes long comes before or after it.
    found, hidden = await anyio.to_thread.run_sync(shown)
    resolve = resolver(await _linked(banks, scope, texts(found)))
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


async def _linked(banks: BankPool, scope: str, said: Sequence[str]) -> Pages:
    """The pages of the memories that a chat links to, where an index can tell."""
    named = await anyio.to_thread.run_sync(find_targets, said)
    try:
        return await banks.use(lambda app: look_up(app, banks, named), scope)
    except RetainError:
        return {}


def _place(found: Sequence[Piece], message: str) -> int:
    """How many pieces stand before a message that somebody wants to see; else all of them."""
    places = (at for at, one in enumerate(found) if str(one.get("message", "")) == message)
    return next(places, len(found)) if message else len(found)


async def _export(request: Request) -> Response:
    """The same as the interface gives, as a file to be saved."""
    banks: BankPool = request.app.state.banks
    scope, name = request.path_params["scope"], request.path_params["id"]
    form = request.query_params.get("format", "md")
    if form not in FORMATS:
        raise UsageError(f"{form[:20]!r} is no format", hint=f"There are {', '.join(FORMATS)}.")

    def work(app: App) -> tuple[str, str]:
        chat = app.sessions.chat(name)
        return chat.id, FORMATS[form](chat)

    known, text = await banks.use(work, scope)
    headers = {"Content-Disposition": f"attachment; filename*=utf-8''{quote(known)}.{form}"}
    data = text.encode("utf-8", "replace")
    return Response(data, headers=headers, media_type="text/plain; charset=utf-8")


ROUTES: Final = (
    Route("/sessions", _all, methods=["GET"]),
    Route("/sessions/{id}", _find, methods=["GET"]),
    Route("/sessions/{scope}/{id}", _one, methods=["GET"]),
    Route("/sessions/{scope}/{id}/export", _export, methods=["GET"]),
)
