"""A chat: opened, spoken in, stopped, asked about, and looked into."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from retain.errors import RetainError
from retain.talk.approval import Answer
from retain.talk.commands import COMMANDS
from retain.talk.prompt import Part, Prompt
from retain.text.sanitize import flat
from retain.web import message_view
from retain.web.bank_pool import HERE, OWN, BankPool, Scope
from retain.web.chat_registry import ChatRegistry
from retain.web.chat_session import ChatSession
from retain.web.operation import Answer as Answered
from retain.web.operation import Call, Given, Gives, Name, Operation
from retain.web.rendering import address, page

Data = dict[str, Any]

_RECALLED: Final = re.compile(r"^\[(m:[0-9a-f]{4,64})\] ", re.MULTILINE)
_MOST_PART: Final = 60_000  # characters of one part of a prompt that are shown
_ELSEWHERE: Final = {"new": "/chat", "quit": "/sessions"}


class Opening(Given):
    """What to open: a new conversation, or one with a session to go on with."""

    session: Name = ""
    scope: Scope = "here"
    model: Name = ""


class Message(Given):
    """Something said, or a command that begins with a slash."""

    text: Annotated[str, Field(min_length=1, max_length=400_000)]


class After(Given):
    """The number of the last word that is known already."""

    after: Annotated[int, Field(ge=0, le=1 << 53)] = 0


class Decision(Given):
    """The person's answer to a tool's question; the pattern is one of those that it offers."""

    question: Name
    choice: Literal["once", "session", "always", "no"]
    pattern: Annotated[str, Field(max_length=2_000)] = ""
    note: Annotated[str, Field(max_length=2_000)] = ""


class Chosen(Given):
    """A model, by its name."""

    name: Annotated[str, Field(min_length=1, max_length=200)]


class Line(Given):
    """A command."""

    line: Annotated[str, Field(min_length=1, max_length=20_000)]


class Fact(Given):
    """A fact that was saved in a conversation."""

    ref: Name


class State(Gives):
    """How a conversation is."""

    id: str
    doing: str
    queued: list[str]
    session: str
    scope: str
    title: str
    model: str
    tokens: int
    budget: int
    recalled: int


class Sent(Gives):
    """What became of a message: it waits for its turn, or leads to another page."""

    status: Literal["sent", "elsewhere"]
    page: str


class Words(Gives):
    """What happened, each with a number; `/stream` tells the same as it happens."""

    words: list[Data]
    last: int


class Stopped(Gives):
    """What waited to be sent, and is not sent now."""

    queued: list[str]


class Done(Gives):
    """That it was done."""

    status: str


class Recalled(Gives):
    """A memory that the model was shown."""

    title: str
    ref: str
    page: str


class ShownPart(Gives):
    """A part of what the model was sent, and what of it was left out, and why."""

    name: str
    tokens: int
    note: str
    text: str


class Context(Gives):
    """All that the model was sent last."""

    tokens: int
    budget: int
    recalled: int
    turns: int
    turns_tokens: int
    parts: list[ShownPart]
    memories: list[Recalled]
    left_out: list[str]


class Models(Gives):
    """The model that is talked to, and those there are."""

    model: str
    models: list[str]


class Said(Gives):
    """What a command has to say, as Markdown and as HTML."""

    text: str
    html: str
    is_error: bool


class Undone(Gives):
    """What was taken back, and the facts that are in force again."""

    status: str
    back: list[str]


def _talks(call: Call) -> ChatRegistry:
    found: ChatRegistry = call.request.app.state.talks
    return found


def _talk(call: Call) -> ChatSession:
    return _talks(call).get(call.path["id"])


def _state(talk: ChatSession) -> Data:
    return {"id": talk.name, **talk.state()}


async def _open(call: Call) -> Data:
    given: Opening = call.body
    return _state(await _talks(call).open(given.session, given.scope, given.model))


async def _get(call: Call) -> Data:
    return _state(_talk(call))


async def _send(call: Call) -> Data:
    talk, text = _talk(call), str(call.body.text)
    if name := talk.goes_elsewhere(text):
        page = _ELSEWHERE.get(name) or await _resumed(talk, text)
        return {"status": "elsewhere", "page": page}
    await talk.catch_up()
    talk.send(text)
    return {"status": "sent", "page": ""}


async def _resumed(talk: ChatSession, line: str) -> str:
    wanted = line.strip().partition(" ")[2].strip()
    if not wanted:
        return "/sessions"
    found = await talk.chat.away(lambda: talk.chat.sessions.resolve(wanted))
    return page_of_session(found.id, talk.scope)


async def _events(call: Call) -> Answered:
    script = _talk(call).script
    words, last = script.since(call.query.after), script.last
    # Megabytes of words are made into JSON on a thread: nobody else waits for it.
    return await asyncio.to_thread(
        lambda: Answered({"words": [one.told for one in words], "last": last})
    )


async def _stop(call: Call) -> Data:
    return {"queued": _talk(call).stop()}


async def _answer(call: Call) -> Data:
    given: Decision = call.body
    _talk(call).answer(given.question, Answer(given.choice, given.pattern, given.note))
    return {"status": "answered"}


async def _context(call: Call) -> Data:
    talk = _talk(call)
    prompt = talk.chat.prompt or Prompt((), (), 0, 0)
    used = sum(part.tokens for part in prompt.parts)
    return {
        "tokens": prompt.tokens,
        "budget": prompt.budget,
        "recalled": prompt.recalled,
        "turns": len(prompt.turns),
        "turns_tokens": prompt.tokens - used,
        "parts": [_part(part) for part in prompt.parts],
        "memories": await talk.chat.away(lambda: _memories(call, talk, prompt)),
        "left_out": [flat(note, 2_000) for note in prompt.left_out],
    }


def _part(part: Part) -> Data:
    text = message_view.inert(part.text[:_MOST_PART])
    return {"name": flat(part.name), "tokens": part.tokens, "note": flat(part.note), "text": text}


def _memories(call: Call, talk: ChatSession, prompt: Prompt) -> list[Data]:
    """What was recalled, by the handles that stand before each memory."""
    found: list[Data] = []
    for part in prompt.parts:
        for name in _RECALLED.findall(part.text if part.is_fleeting else ""):
            try:
                memory = talk.chat.app.get(name)
            except RetainError:
                continue  # it was deleted since
            with call.banks.turn:
                scope = call.banks.scope_of(memory.scope)
            page = address(scope, memory.collection, memory.id)
            found.append({"title": flat(memory.title), "ref": memory.ref, "page": page})
    return found


async def _models(call: Call) -> Data:
    talk = _talk(call)
    return {"model": talk.chat.model_name, "models": await talk.offered()}


async def _choose(call: Call) -> Data:
    talk = _talk(call)
    await talk.use(call.body.name)
    return _state(talk)


async def _command(call: Call) -> Data:
    talk = _talk(call)
    shown = await talk.command(call.body.line)
    html = await talk.laid_out(shown.text)
    return {"text": shown.text, "html": html, "is_error": shown.is_error}


async def _undo(call: Call) -> Data:
    return {"status": "undone", "back": await _talk(call).undo(call.body.ref)}


_ONE: Final = "/chats/{id}"

OPERATIONS: Final = tuple(
    one._replace(subject="chat")
    for one in (
        Operation("POST", "/chats", "chat", "Open a conversation", _open, State, body=Opening),
        Operation("GET", _ONE, "chat-state", "How a conversation is", _get, State),
        Operation("POST", f"{_ONE}/messages", "say", "Say something", _send, Sent, body=Message),
        Operation("GET", f"{_ONE}/words", "words", "What happened", _events, Words, query=After),
        Operation("POST", f"{_ONE}/stop", "stop", "Stop a reply", _stop, Stopped),
        Operation(
            "POST", f"{_ONE}/answers", "decide", "Answer a tool", _answer, Done, body=Decision
        ),
        Operation(
            "GET", f"{_ONE}/context", "context", "What the model was sent", _context, Context
        ),
        Operation("GET", f"{_ONE}/models", "models", "Models to choose from", _models, Models),
        Operation(
            "PUT", f"{_ONE}/model", "choose-model", "Choose one", _choose, State, body=Chosen
        ),
        Operation("POST", f"{_ONE}/commands", "command", "Do a command", _command, Said, body=Line),
        Operation(
            "POST", f"{_ONE}/undo", "undo-fact", "Take a fact back", _undo, Undone, body=Fact
        ),
    )
)


def page_of_session(session: str, scope: str) -> str:
    """Where a conversation goes on."""
    return f"/chat/{quote(session, safe='')}" + ("" if scope == HERE else f"?bank={scope}")


# The page


async def _chat(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    session = request.path_params.get("session", "")
    scope = OWN if request.query_params.get("bank") == OWN else HERE
    title = "Chat"
    if session:
        title = (await banks.use(lambda app: app.sessions.get(session), scope)).title
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
    talks: ChatRegistry = request.app.state.talks
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
