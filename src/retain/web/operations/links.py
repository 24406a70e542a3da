"""Another one-time link, for another browser of the same person."""

from __future__ import annotations

from typing import Final

from typing_extensions import TypedDict

from retain.web.entrance import Entrance
from retain.web.operation import Call, Operation


class Link(TypedDict):
    """Where a browser gets in, once and soon; and the bank that it will see."""

    path: str
    bank: str


async def _link(call: Call) -> Link:
    entrance: Entrance = call.request.app.state.entrance
    bank = await call.office.use(lambda app: app.location.root)
    return {"path": f"/enter#{entrance.code()}", "bank": bank}


OPERATIONS: Final = (
    Operation(
        "POST", "/links", "link", "Make a one-time link", _link, gives=Link, subject="entrance"
    ),
)
