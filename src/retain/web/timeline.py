"""The timeline: events of one bank or both, filtered, counted by day, as a page and as JSON."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

import anyio.to_thread
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.timeline import Event as TimelineEvent
from retain.web.bank_pool import BankPool
from retain.web.operation import Call, Given, Gives, Name, Operation, queried
from retain.web.rendering import address, page

PAGE: Final = 60
_WEEKS: Final = 53
_STEPS: Final = 4  # of colour, beside none

Day = Annotated[str, Field(pattern=r"^$|^\d{4}-\d{2}-\d{2}$")]


class Window(Given):
    """Which part of the timeline to show."""

    scope: Literal["all", "here", "global"] = "all"
    day: Day = ""
    kind: Literal["", "learned", "changed", "retired", "deleted", "chat"] = ""
    by: Literal["", "agent", "chat", "person"] = ""
    who: Name = ""
    limit: Annotated[int, Field(ge=1, le=500)] = PAGE
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = 0


class Happened(NamedTuple):
    """An event, and the bank it happened in."""

    scope: str
    event: TimelineEvent

    @property
    def page(self) -> str:
        """Where it can be looked at; empty for what is gone."""
        one = self.event
        if not one.is_there:
            return ""
        if one.kind == "chat":
            return f"/sessions/{quote(one.id, safe='')}"
        return address(self.scope, one.collection, one.id)

    @property
    def diff(self) -> str:
        """Where a change can be looked at; empty where what was before it was not kept."""
        one = self.event
        if not (one.older and self.page):
            return ""
        return f"{self.page}/history?{urlencode({'older': one.older, 'newer': one.newer})}"


class Happenings(NamedTuple):
    """One page of events, and what all of them are made of."""

    total: int
    events: Sequence[Happened]
    days: Mapping[str, int]  # of the last year, with every filter but the day
    who: Mapping[str, int]
    kinds: Mapping[str, int]
    by: Mapping[str, int]
    today: str


class Cell(NamedTuple):
    """One day of the heat map."""

    day: date
    events: int
    step: int  # of colour, 0 for nothing


async def happenings(banks: BankPool, window: Window) -> Happenings:
    """What happened, the newest first, as far as it was asked for."""
    found: list[tuple[str, Sequence[TimelineEvent]]] = []
    for scope in await banks.use(lambda _app: banks.scopes):
        if window.scope in ("all", scope):
            events = await banks.use(lambda app: app.timeline(), scope)
            found.append((scope, events))
    return await anyio.to_thread.run_sync(
        lambda: _counted([Happened(scope, one) for scope, some in found for one in some], window)
    )


def _counted(found: list[Happened], window: Window) -> Happenings:
    found.sort(key=lambda one: one.event.when, reverse=True)  # two banks, each sorted already
    today = date.today()  # noqa: DTZ011 - the person's own calendar
    first = (today - timedelta(weeks=_WEEKS)).isoformat()
    events = [one.event for one in found]
    chosen = [one for one in found if _fits(one.event, window)]
    days = Counter(one.event.day for one in chosen if one.event.day > first)
    on_day = [one for one in chosen if window.day in ("", one.event.day)]
    return Happenings(
        len(on_day),
        on_day[window.offset : window.offset + window.limit],
        dict(sorted(days.items())),
        dict(Counter(one.who for one in events if one.who).most_common(100)),
        dict(Counter(one.kind for one in events)),
        dict(Counter(one.by for one in events if one.by)),
        today.isoformat(),
    )


def _fits(one: TimelineEvent, window: Window) -> bool:
    return (
        window.kind in ("", one.kind) and window.by in ("", one.by) and window.who in ("", one.who)
    )


def weeks(days: Mapping[str, int], today: date) -> list[list[Cell | None]]:
    """A year of days by weekday, each row from the oldest week to the present one."""
    last = today - timedelta(days=today.weekday())  # the Monday of this week
    start = last - timedelta(weeks=_WEEKS - 1)
    steps = _steps(days)
    rows: list[list[Cell | None]] = []
    for weekday in range(7):
        row: list[Cell | None] = []
        for week in range(_WEEKS):
            day = start + timedelta(weeks=week, days=weekday)
            count = days.get(day.isoformat(), 0)
            row.append(Cell(day, count, steps.get(count, 0)) if day <= today else None)
        rows.append(row)
    return rows


def _steps(days: Mapping[str, int]) -> dict[int, int]:
    """The colour of each number of events, by its rank: one busy day does not pale all others."""
    counts = sorted(set(days.values()))
    return {count: 1 + rank * _STEPS // len(counts) for rank, count in enumerate(counts)}


# The JSON interface


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


async def _list(call: Call) -> dict[str, Any]:
    window: Window = call.query
    found = await happenings(call.banks, window)
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
        _list,
        gives=Timeline,
        query=Window,
        subject="timeline",
    ),
)


# The page

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_VERBS: Final = {
    "learned": "Learned",
    "changed": "Changed",
    "retired": "Taken out of force",
    "deleted": "Deleted",
    "chat": "Chat",
}


async def _page(request: Request) -> Response:
    window = queried(request, Window)
    found = await happenings(request.app.state.banks, window)
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


ROUTES: Final = (Route("/timeline", _page, methods=["GET"]),)
