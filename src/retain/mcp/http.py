"""The protocol over HTTP, at /mcp behind the checks that every server of ours makes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Any, Final, NoReturn

from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from retain.httpd.address import listen
from retain.httpd.security import Limits, SecurityMiddleware, bearer
from retain.httpd.server import run

_SESSIONS: Final = 64  # clients of the revisions before 2026-07-28
_IDLE: Final = 1_800.0  # seconds after which a silent one is forgotten


def serve(
    server: Server[Any],
    host: str,
    port: int,
    cleanup: Callable[[], None],
    *,
    allow: Collection[str] = (),
    limits: Limits | None = None,
) -> NoReturn:
    """Answer at http://host:port/mcp until a signal comes, then clean up and leave."""
    limits = limits or Limits()
    address = listen(host, port, allow)
    secured = SecurityMiddleware(
        _app(server, limits), bearer(address.token), address.hosts, address.origins, limits
    )
    welcome = _welcome(f"{address.url}/mcp", address.is_ours)
    entry = server.get_request_handler("subscriptions/listen")
    listening = entry.handler if entry else None

    def ready() -> None:
        print(welcome, end="", file=sys.stderr, flush=True)  # noqa: T201

    def ending() -> None:
        if isinstance(listening, ListenHandler):
            listening.close()

    run(secured, address.socks, limits, ready=ready, ending=ending, cleanup=cleanup)


def _app(server: Server[Any], limits: Limits) -> ASGIApp:
    """The protocol at /mcp and a sign of life at /healthz."""
    inner = server.streamable_http_app(
        max_request_body_size=limits.body,
        max_sessions=_SESSIONS,
        session_idle_timeout=_IDLE,
        # The wall does it, for every route and not just for one.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        custom_starlette_routes=[Route("/healthz", _healthz, methods=["GET"])],
    )
    inner.router.redirect_slashes = False  # behind a proxy it would lead from https to http
    return inner


async def _healthz(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})


def _welcome(url: str, is_ours: bool) -> str:
    text = (
        f"Retain answers at {url}\n"
        "Every request needs the header `Authorization: Bearer TOKEN`; `retain mcp token` shows "
        "the token.\n"
    )
    if is_ours:
        return text
    return text + (
        "Other machines can reach this, and nothing is encrypted: put a proxy with TLS before it. "
        "Names beside the address itself need --allow-host.\n"
    )
