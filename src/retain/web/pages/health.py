"""How the bank is: numbers, what is wrong, what is stated twice, and what can be done."""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.bank.trash import CHATS
from retain.errors import Conflict
from retain.text.sizes import format_size
from retain.web.checkup import Checkup
from retain.web.office import HERE, Office
from retain.web.rendering import page
from retain.web.subjects.health import Now, now

_DOING: Final = {
    "look": "Looking the bank over",
    "sync": "Taking in what changed",
    "vectors": "Making vectors",
    "rebuild": "Making the index anew",
    "repair": "Comparing the index with every file",
}
_MOST_TRASHED: Final = 100
_STALE_SECONDS: Final = 30.0
# The states of links, in words for people.
_STATES: Final = {
    "dangling": "no such memory",
    "changed": "file changed",
    "moved": "file moved",
    "gone": "file gone",
}


async def _health(request: Request) -> Response:
    office: Office = request.app.state.office
    checkup: Checkup = request.app.state.checkup
    scope = await office.settled(request.query_params.get("bank", HERE))
    checkup.look_first()
    known, place = await office.use(lambda app: (now(app), app.location), scope)
    facts, trashed, _ = known
    _look_again(checkup)
    values = {
        "title": "Health",
        "here": "health",
        "scope": scope,
        "scopes": await office.use(lambda _app: office.scopes),
        "facts": facts,
        "size": format_size,
        "trashed": trashed[:_MOST_TRASHED],
        "chats": CHATS,
        "trashed_count": len(trashed),
        "has_bank": place.exists,
        **_looked_over(checkup, known, place.root, shows_all="ignored" in request.query_params),
    }
    return page(request, "health.html", values)


def _looked_over(checkup: Checkup, known: Now, root: str, *, shows_all: bool) -> dict[str, object]:
    """What looking over the bank in force has found, and what is under way in it."""
    state = checkup.state
    found, ignored = state.found, 0
    if found and not shows_all:
        found, ignored = found.without(known.apart)
    return {
        "state": state,
        "doing": _DOING.get(state.work, ""),
        "found": found,
        "ignored": ignored,
        "shows_ignored": shows_all and bool(known.apart),
        "is_apart": lambda *refs: any(set(refs) <= one for one in known.apart),
        "problems": [(_shown(one.path, root), one.reason) for one in found.problems]
        if found
        else [],
        "suggestions": len(found.pairs) + len(found.groups) + len(found.loose) if found else 0,
        "states": _STATES,
        "looked": datetime.fromtimestamp(found.at, UTC).isoformat() if found else "",
        "parted": _parted,
    }


def _look_again(checkup: Checkup) -> None:
    """What was found a while ago may be settled by now: other pages would say otherwise."""
    found = checkup.state.found
    if found and time.time() - found.at > _STALE_SECONDS:
        with contextlib.suppress(Conflict):  # something is under way, which ends with a look
            checkup.start("look")


def _shown(path: str, root: str) -> str:
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def _parted(ref: str) -> tuple[str, str]:
    """The collection and the id that a reference names."""
    collection, _, name = ref.rpartition("/")
    return collection, name


ROUTES: Final = (Route("/health", _health, methods=["GET"]),)
