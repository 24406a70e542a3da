"""The timeline: what was learned, changed and talked about, when, and by whom."""

from __future__ import annotations

from typing import Any, Final

from retain.web.operation import Call, Gives, Operation
from retain.web.subjects.timeline import Happened, Window, happenings


class Event(Gives):
    """One thing that happened; `page` is where it can be looked at."""

    when: str
    day: str
    kind: str
    by: str
    who: str
    title: str
    scope: str
    collection: str
    id: str
    type: str
    summary: str
    source: str
    page: str
    diff: str


class Timeline(Gives):
    """One page of events, the newest first, and how many there were on each day of a year."""

    total: int
    events: list[Event]
    days: dict[str, int]
    who: dict[str, int]
    kinds: dict[str, int]
    by: dict[str, int]


async def _timeline(call: Call) -> dict[str, Any]:
    window: Window = call.query
    found = await happenings(call.office, window)
    return {
        "total": found.total,
        "events": list(map(_event, found.events)),
        "days": dict(found.days),
        "who": dict(found.who),
        "kinds": dict(found.kinds),
        "by": dict(found.by),
    }


def _event(one: Happened) -> dict[str, str]:
    fields = one.event._asdict()
    for name in ("is_there", "older", "newer"):
        del fields[name]
    return {**fields, "scope": one.scope, "page": one.page, "diff": one.diff}


OPERATIONS: Final = (
    Operation(
        "GET",
        "/timeline",
        "timeline",
        "What was learned and changed, when and by whom",
        _timeline,
        gives=Timeline,
        query=Window,
        subject="timeline",
    ),
)
