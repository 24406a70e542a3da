"""Past chats: listed, found, read, named, tagged, taken out, deleted and brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from retain.bank.trash import CHATS
from retain.errors import NotFound
from retain.sessions.formats import FORMATS, to_dict
from retain.text.sanitize import flat
from retain.web import answers, undoing
from retain.web.operation import Call, Given, Gives, Many, Name, Operation
from retain.web.operations.chat import Fact, Undone
from retain.web.subjects.sessions import Listed, listed

if TYPE_CHECKING:
    from retain.app import App
    from retain.web.live import Live
    from retain.web.talks import Talks


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
    found = await listed(call.office, call.query.q, call.query.limit)
    return {"sessions": [one.data for one in found]}


async def _get(call: Call) -> Data:
    scope, name = call.path["scope"], call.path["id"]
    return await call.office.use(lambda app: to_dict(app.sessions.chat(name)), scope)


async def _export(call: Call) -> Data:
    scope, name, form = call.path["scope"], call.path["id"], str(call.query.format)
    text = await call.office.use(lambda app: FORMATS[form](app.sessions.chat(name)), scope)
    return {"name": f"{name}.{form}", "kind": _KINDS[form], "text": text}


async def _rename(call: Call) -> Data:
    scope, name, given = call.path["scope"], call.path["id"], call.body

    def work(app: App) -> Data:
        if given.title is not None:
            app.sessions.retitle(name, given.title)
        if given.tags is not None:
            app.sessions.tag(name, given.tags)
        return Listed(scope, app.sessions.get(name)).data

    found = await call.office.use(work, scope)
    talks: Talks = call.request.app.state.talks
    await talks.renamed(scope, name)
    _tell(call)
    return found


async def _delete(call: Call) -> Data:
    scope, name = call.path["scope"], call.path["id"]
    talks: Talks = call.request.app.state.talks
    await talks.let_go(scope, name)
    kept = await call.office.use(lambda app: app.sessions.delete(name), scope)
    _tell(call)
    undo = undoing.to_call("POST", f"/deleted-sessions/{quote(scope)}", {"name": kept.name})
    return {"status": "deleted", "id": name, "name": kept.name, "undo": [undo]}


async def _undo(call: Call) -> Data:
    talks: Talks = call.request.app.state.talks
    back = await talks.undo(call.path["scope"], call.path["id"], str(call.body.ref))
    return {"status": "undone", "back": back}


async def _restore(call: Call) -> Data:
    scope, name = call.path["scope"], str(call.body.name)
    done = await call.office.use(lambda app: _brought_back(app, name), scope)
    _tell(call)
    undo = undoing.to_call("DELETE", f"/sessions/{quote(scope)}/{quote(done, safe='')}", None)
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
            _export,
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
