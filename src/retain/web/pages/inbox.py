"""What sessions propose to remember, for a person to decide on."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.web.markdown import Renderer
from retain.web.rendering import page
from retain.web.subjects.inbox import waiting

_PAGE: Final = 50
_MOST: Final = 500  # proposals on a page


async def _inbox(request: Request) -> Response:
    found = await waiting(request.app.state.office)
    given = request.query_params.get("limit", "")
    asked = int(given) if given.isdecimal() and len(given) < 5 else 0
    limit = min(asked or _PAGE, _MOST)
    every = [(bank, one) for bank in found for one in bank.proposals]
    values = {
        "title": "Inbox",
        "here": "inbox",
        "proposals": every[:limit],
        "count": len(every),
        "rest": max(0, len(every) - limit),
        "more": min(limit + _PAGE, _MOST),
        "dropped": [(bank.scope, one) for bank in found for one in bank.dropped],
        "most_dropped": _MOST,
        "problems": [problem for one in found for problem in one.problems],
        "rendered": Renderer().render,
    }
    return page(request, "inbox.html", values)


ROUTES: Final = (Route("/inbox", _inbox, methods=["GET"]),)
