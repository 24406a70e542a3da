"""What sessions propose to remember, for a person to decide on."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.web.operations.inbox import waiting
from retain.web.prose import rendered
from retain.web.rendering import page

__all__ = ["ROUTES"]


async def _inbox(request: Request) -> Response:
    found = await waiting(request.app.state.office)
    values = {
        "title": "Inbox",
        "here": "inbox",
        "banks": found,
        "count": sum(len(one.proposals) for one in found),
        "dropped": sum(len(one.dropped) for one in found),
        "problems": [problem for one in found for problem in one.problems],
        "rendered": rendered,
    }
    return page(request, "inbox.html", values)


ROUTES: Final = (Route("/inbox", _inbox, methods=["GET"]),)
