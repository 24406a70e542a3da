"""The timeline that is shown: events of one bank or both, filtered, counted by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import quote, urlencode

import anyio.to_thread
from pydantic import Field

from retain.timeline import Event
from retain.web.office import Office
from retain.web.operation import Given, Name
from retain.web.rendering import address

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
    event: Event

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


async def happenings(office: Office, window: Window) -> Happenings:
    """What happened, the newest first, as far as it was asked for."""
    found: list[tuple[str, Sequence[Event]]] = []
    for scope in await office.use(lambda _app: office.scopes):
        if window.scope in ("all", scope):
            events = await office.use(lambda app: app.timeline(), scope)
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


def _fits(one: Event, window: Window) -> bool:
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
