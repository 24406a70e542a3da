"""A conversation with the model, as the terminal has it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from retain.talk.commands import COMMANDS
from retain.web.office import HERE, OWN, Office
from retain.web.rendering import page
from retain.web.talks import Talks


async def _chat(request: Request) -> Response:
    office: Office = request.app.state.office
    session = request.path_params.get("session", "")
    scope = OWN if request.query_params.get("bank") == OWN else HERE
    title = "Chat"
    if session:
        title = (await office.use(lambda app: app.sessions.get(session), scope)).title
    values = {
        "title": title,
        "here": "chat",
        "session": session,
        "scope": scope,
        "commands": COMMANDS,
    }
    return page(request, "chat.html", values)


async def _stream(request: Request) -> Response:
    """The words of a conversation as they come; a page that comes again says what it has."""
    talks: Talks = request.app.state.talks
    talk = talks.get(request.path_params["id"])
    if talks.is_full:
        return JSONResponse({"error": "Too many pages listen"}, 503, {"Retry-After": "30"})
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    number = int(after) if after.isascii() and after.isdecimal() and len(after) < 16 else 0
    return StreamingResponse(talk.script.listen(number), media_type="text/event-stream")


ROUTES: Final = (
    Route("/chat", _chat, methods=["GET"]),
    Route("/chat/{session}", _chat, methods=["GET"]),
    Route("/api/v1/chats/{id}/stream", _stream, methods=["GET"]),
)
