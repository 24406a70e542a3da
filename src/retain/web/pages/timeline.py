"""What happened when: a year at a glance, and day after day in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import date, datetime
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.web.operation import queried
from retain.web.rendering import page
from retain.web.subjects.timeline import PAGE, Cell, Happened, Happenings, Window, happenings, weeks

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_VERBS: Final = {
    "learned": "Learned",
    "changed": "Changed",
    "retired": "Taken out of force",
    "deleted": "Deleted",
    "chat": "Chat",
}


async def _timeline(request: Request) -> Response:
    window = queried(request, Window)
    found = await happenings(request.app.state.office, window)
    today = date.fromisoformat(found.today)
    rows = weeks(found.days, today)
    end = window.offset + len(found.events)
    values = {
        "title": "Timeline",
        "here": "timeline",
        "window": window,
        "found": found,
        "verbs": _VERBS,
        "by": {"agent": "Agents", "chat": "Chats", "person": "People"},
        "groups": _groups(found),
        "rows": list(zip(_DAYS, rows, strict=True)),
        "months": _months([row for row in rows[0] if row]),
        "named": _named,
        "clock": _clock,
        "link": lambda **changes: _query(window, **changes),
        "newer": _query(window, offset=max(0, window.offset - PAGE)) if window.offset else "",
        "older": _query(window, offset=end) if end < found.total else "",
    }
    return page(request, "timeline.html", values)


def _groups(found: Happenings) -> list[tuple[str, list[Happened]]]:
    """Events by day, each day with its name."""
    by_day = itertools.groupby(found.events, key=lambda one: one.event.day)
    return [(_named(date.fromisoformat(day)), list(events)) for day, events in by_day]


def _named(day: date) -> str:
    return f"{_DAYS[day.weekday()]}, {day.day} {_MONTHS[day.month - 1]} {day.year}"


def _clock(when: str) -> str:
    """The time of day for the person, whose machine this is."""
    return datetime.fromisoformat(when).astimezone().strftime("%H:%M")


def _months(mondays: Sequence[Cell]) -> list[tuple[str, int]]:
    """The months above the weeks, and how many weeks each is wide."""
    names = (_MONTHS[one.day.month - 1] for one in mondays)
    return [(name, len(list(group))) for name, group in itertools.groupby(names)]


def _query(window: Window, **changes: object) -> str:
    """The address of the same page with something changed; another choice begins at its start."""
    values = {**window.model_dump(), "offset": 0, **changes}
    usual = Window().model_dump()
    said = {key: value for key, value in values.items() if value != usual[key]}
    return f"/timeline?{urlencode(said, doseq=True)}" if said else "/timeline"


ROUTES: Final = (Route("/timeline", _timeline, methods=["GET"]),)
