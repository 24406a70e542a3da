"""Every route of the server: pages, the JSON interface, live words, and the files of the pages."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from functools import cache, partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from retain.errors import RetainError, UsageError
from retain.httpd.security import error_body
from retain.web import (
    chat,
    editor,
    graph,
    health,
    inbox,
    memory,
    memory_api,
    memory_list,
    sessions,
    timeline,
)
from retain.web.auth import COOKIE_SECONDS, ENTER, Auth
from retain.web.bank_pool import BankPool
from retain.web.chat_registry import ChatRegistry
from retain.web.checkup import Checkup
from retain.web.live import Live
from retain.web.openapi import document
from retain.web.operation import Operation, body_of, failed
from retain.web.rendering import Static, failure

_OLD: Final = "The link was used already, or is too old"
_FAULT: Final = "Something went wrong in Retain; its log has more"
_DESCRIBED: Final = "/api/v1/openapi.json describes every call."

_PAGES: Final = (memory_list, memory, editor, graph, timeline, inbox, health, sessions, chat)
_INTERFACE: Final = (
    memory_list, memory_api, editor, memory, graph, timeline, inbox, health, sessions, chat,
)  # fmt: skip

ROUTES: Final[tuple[Route, ...]] = tuple(route for subject in _PAGES for route in subject.ROUTES)
OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    operation for subject in _INTERFACE for operation in subject.OPERATIONS
)


def build(banks: BankPool, live: Live, auth: Auth, checkup: Checkup) -> Starlette:
    """The whole server, without its security."""
    talks = ChatRegistry(banks, live)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        live.start()
        talks.start()
        yield
        await talks.close()

    class Counted:
        """Notes what was told before a page was made, so that the page can ask what came later."""

        def __init__(self, app: ASGIApp) -> None:
            self._app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            scope["told"] = live.count
            await self._app(scope, receive, send)

    app = Starlette(
        routes=[
            *ROUTES,
            Route("/enter", _home, methods=["GET"]),
            Route(ENTER, _enter, methods=["POST"]),
            Route("/api/v1/openapi.json", _description, methods=["GET"]),
            Route("/api/v1/events", _events, methods=["GET"]),
            *_interface(),
            Mount("/static", Static(), name="static"),
        ],
        exception_handlers={HTTPException: _refused, RetainError: _failed, Exception: _broken},
        lifespan=lifespan,
        middleware=[Middleware(Counted)],
    )
    app.router.redirect_slashes = False
    app.state.banks, app.state.live, app.state.auth = banks, live, auth
    app.state.checkup, app.state.talks = checkup, talks
    return app


def _interface() -> list[Route]:
    """One route for each path, so that a method it does not have is told those that it has."""
    paths: dict[str, dict[str, Operation]] = {}
    # A path that is all words comes before one with a part that the same words would fit.
    for one in sorted(OPERATIONS, key=lambda one: one.path.count("{")):
        paths.setdefault(one.path, {})[one.method] = one
    return [
        Route(f"/api/v1{path}", partial(_operate, methods), methods=[*methods])
        for path, methods in paths.items()
    ]


async def _operate(methods: Mapping[str, Operation], request: Request) -> Response:
    return await methods["GET" if request.method == "HEAD" else request.method](request)


def _home(_request: Request) -> Response:
    return RedirectResponse("/", 303)


async def _enter(request: Request) -> Response:
    """Trade the code of a link for the cookie."""
    auth: Auth = request.app.state.auth
    try:
        given = await body_of(request)
    except UsageError as error:
        return failed(error)
    code = given.get("code") if isinstance(given, dict) else None
    if not isinstance(code, str) or not auth.take_code(code):
        return JSONResponse(error_body("no-token", _OLD, hint="`retain web` prints another."), 401)
    answer = JSONResponse({"status": "ok"})
    answer.set_cookie(
        auth.cookie_name,
        auth.make_cookie(request.headers["host"]),
        max_age=COOKIE_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
    )
    return answer


@cache
def _document() -> dict[str, Any]:
    return document(OPERATIONS)


def _description(_request: Request) -> Response:
    return JSONResponse(_document())


def _events(request: Request) -> Response:
    live: Live = request.app.state.live
    if live.is_full:
        return JSONResponse(error_body("busy", "Too many pages listen"), 503, {"Retry-After": "30"})
    return StreamingResponse(live.listen(), media_type="text/event-stream")


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RetainError)  # noqa: S101 - what it is registered for
    return failed(error) if _is_api(request) else failure(request, error)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    if _is_api(request):
        code = "not-found" if error.status_code == 404 else "usage"
        said = error_body(code, error.detail, "Nothing was changed.", _DESCRIBED)
        return JSONResponse(said, error.status_code, error.headers)
    what = "There is no such page." if error.status_code == 404 else error.detail
    return failure(request, RetainError(what), error.status_code)


def _broken(request: Request, _error: Exception) -> Response:
    """A fault of ours: it stands in the log, and the answer tells nothing about the machine."""
    if _is_api(request):
        return JSONResponse(error_body("fault", _FAULT), 500)
    return failure(request, RetainError(f"{_FAULT}."), 500)


def _is_api(request: Request) -> bool:
    return request.url.path.startswith(("/api/", "/static/"))
