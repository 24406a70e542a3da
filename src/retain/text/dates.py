"""The dates a question names, how close a day comes to them, and the times --since accepts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Final, Literal, NamedTuple

from retain.errors import UsageError

_MONTHS: Final = (
    "january february march april may june july august september october november december".split()
)
_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
# Parts of a year by their first month, and how many months they have.
_PARTS: Final = {name[:3]: (number, 1) for number, name in enumerate(_MONTHS, 1)} | {
    **{name: (number, 1) for number, name in enumerate(_MONTHS, 1)},
    "sept": (9, 1), "q1": (1, 3), "q2": (4, 3), "q3": (7, 3), "q4": (10, 3),
    "spring": (3, 3), "summer": (6, 3), "autumn": (9, 3), "fall": (9, 3), "winter": (12, 3),
}  # fmt: skip
_COUNTED: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_NUMBERS: Final = {word: number for number, word in enumerate(_COUNTED, 1)} | {
    "a": 1, "an": 1, "couple": 2, "few": 3, "several": 4,
}  # fmt: skip
_DAYS_BACK: Final = {
    "today": 0, "tonight": 0, "yesterday": 1, "last night": 1, "day before yesterday": 2,
}  # fmt: skip
# Every form holds a digit or one of these words.
_TELLING: Final = frozenset(
    "ago last past previous this today tonight yesterday recently lately".split()
) | {*_PARTS, *_WEEKDAYS}
_FORMS_OF_TIME: Final = (
    "Write how long ago (36h, 7d, 2w, 3 months, 1y), a day (today, yesterday, monday, 2026-05-08, "
    '8 May), a longer stretch ("last week", may, 2026-05, 2026) or a time (2026-05-08T14:30).'
)

_Span = tuple[date, date]


class When(NamedTuple):
    """A stretch of time that a question names; one of every year is the latest that has begun."""

    first: date
    last: date
    kind: Literal["day", "month", "season", "year", "relative", "vague"]
    text: str = ""
    at: int = 0  # where the text stands in the question
    is_every_year: bool = False


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def find_dates(query: str, today: date) -> list[When]:
    """Find the stretches of time a question names, in its order."""
    words = re.findall(r"\w+", query.lower())
    if not any(word in _TELLING or word[0].isdecimal() for word in words):
        return []  # nearly always; and it spares the patterns, which take long to compile
    matches = [
        (match.start(), order, match, read)
        for order, (pattern, read) in enumerate(_FORMS.items())
        for match in _compile(pattern).finditer(query)
    ]
    named = _compile(_YEAR).search(query)
    whens: list[When] = []
    end = 0
    for start, _, match, read in sorted(matches, key=lambda found: found[:2]):
        if start < end:
            continue
        try:
            found = read(match, today, int(named[0]) if named else 0)
        except (ValueError, OverflowError, LookupError):
            # 30 February, a day before the year 1, a letter that only looks like another.
            end = match.end()
            continue
        end = match.end() if found else end
        whens += [when._replace(text=match[0], at=start) for when in found]
    # Beside a month or a day, a year is already in it and "last week" does not mean today's.
    return [when for when in whens if when.kind in ("day", "month", "season")] or whens


def remove_relative(query: str, whens: Iterable[When]) -> str:
    """Remove relative phrases from a question: no text written last week says "last week"."""
    kept: list[str] = []
    end = 0
    for when in whens:
        if when.kind in ("relative", "vague"):
            kept.append(query[end : when.at].strip())
            end = when.at + len(when.text)
    return " ".join(filter(None, [*kept, query[end:].strip()])) if end else query


def closeness(whens: Iterable[When], day: date) -> float:
    """How well a day fits the best of several stretches, from 0 to 1.5 for a day itself."""
    best = 0.0
    for when in whens:
        # In January a day of last December may be the nearest, and the other way round.
        for years in (-1, 0, 1) if when.is_every_year else (None,):
            with contextlib.suppress(ValueError, OverflowError):
                span = when[:2] if years is None else _in_year(when, day.year + years)
                best = max(best, _fit(when.kind, *span, day))
    return best


def _in_year(when: When, year: int) -> _Span:
    if when.kind == "month":
        return _months(year, when.first.month)
    first = when.first.replace(year=year)
    return first, first + (when.last - when.first)


def _fit(kind: str, first: date, last: date, day: date) -> float:
    before, after = (first - day).days, (day - last).days
    is_inside = before <= 0 and after <= 0
    if kind == "year":
        return 0.3 if is_inside else 0.0
    if kind == "day":
        if abs(after) <= 1:
            return 1.5
        is_same_month = (day.year, day.month) == (first.year, first.month)
        return 1.0 if 0 <= after <= 14 else 0.7 if is_same_month else 0.0
    if kind in ("month", "season"):
        # What happened is often told within days.
        return 1.0 if is_inside else 0.5 if 0 < after <= 10 else 0.0
    slack = max(1.0, ((last - first).days + 1) / 3)
    fit = 1.0 if is_inside else 0.5 if max(before, after) <= slack else 0.0
    return fit / 2 if kind == "vague" else fit


def parse_moment(text: str, now: datetime, *, end: bool = False) -> datetime:
    """Read the time a person gives; of a day or a longer stretch its start, or its end."""
    wanted = " ".join(text.split())
    with contextlib.suppress(ValueError, OverflowError):
        if wanted.lower() == "now":
            return now
        if match := _compile(_TIME_AGO).fullmatch(wanted):
            return _go_back(now, _number(match["number"]), match["unit"].lower())
        if _compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9]{2}").match(wanted):
            moment = datetime.fromisoformat(wanted)
            return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)
        # "may" and "monday" alone could be anything in a question, but not here.
        for lead in ("", "in ", "on "):
            whens = find_dates(lead + wanted, now.date())
            if [when.text.removeprefix(lead) for when in whens] == [wanted]:
                day, of_day = (whens[0].last, time.max) if end else (whens[0].first, time.min)
                return datetime.combine(day, of_day, tzinfo=now.tzinfo)
    raise UsageError(f"{text[:80]!r} is not a time", hint=_FORMS_OF_TIME)


def _number(text: str) -> int:
    last = [word for word in text.lower().split() if word != "of"][-1]
    return _NUMBERS.get(last) or int(last)


def _go_back(moment: datetime, number: int, unit: str) -> datetime:
    """Go back a number of minutes, hours, days, weeks, months or years."""
    if unit.startswith(("mo", "y")):
        months = number * (12 if unit[0] == "y" else 1)
        year, month = divmod(moment.year * 12 + moment.month - 1 - months, 12)
        day = min(moment.day, _months(year, month + 1)[1].day)
        return moment.replace(year=year, month=month + 1, day=day)
    return moment - number * timedelta(minutes={"m": 1, "h": 60, "d": 1440, "w": 10080}[unit[0]])


def _months(year: int, month: int, count: int = 1) -> _Span:
    first = date(year, month, 1)
    year, month = divmod(year * 12 + month - 1 + count, 12)
    last = date.max if year > date.max.year else date(year, month + 1, 1) - timedelta(1)
    return first, last


# Forms: each a pattern and what it means. Where two match, the first is taken.

_FOUR_DIGITS: Final = r"(?:19|20)[0-9]{2}"
# A year is no price, number or part of a date.
_YEAR: Final = rf"(?<![\w.$€£#]){_FOUR_DIGITS}(?!\w|[-/.][0-9]{{1,2}}(?![0-9]))"
_NUMBER: Final = (
    r"(?P<number>[0-9]{1,6}|(?:a\s+)?couple(?:\s+of)?|(?:a\s+)?few|several"
    rf"|{'|'.join(_COUNTED)}|an?)"
)
_TIME_AGO: Final = (
    rf"{_NUMBER}(?:(?<=[0-9])\s*|\s+)"
    r"(?P<unit>min(?:utes?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?|mo(?:nths?)?|y(?:ears?)?)"
    r"(?:\s+ago)?"
)
_ISO: Final = (
    r"(?<!\w)(?P<year>[0-9]{4})(?P<sign>[-/.])(?P<month>[0-9]{2})(?:(?P=sign)(?P<day>[0-9]{2}))?"
    r"(?![0-9]|[-/.][0-9])(?:(?=T[0-9])|(?!\w))"
)
_SLASHED: Final = (
    r"(?<!\w)(?P<one>[0-9]{1,2})(?P<sign>[-/.])(?P<other>[0-9]{1,2})(?P=sign)"
    r"(?P<year>[0-9]{4})(?!\w|[-/.][0-9])"
)
_PART: Final = (
    r"(?<!\w)(?:(?P<day_before>[0-9]{1,2})(?:st|nd|rd|th)?(?:\s+of)?[\s-]+)?"
    rf"(?:(?P<which>last|past|this)\s+)?(?P<name>{'|'.join(_PARTS)})(?!\w)\.?"
    r"(?:[\s-]+(?:the\s+)?(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?!\w|:[0-9]))?"
    rf"(?:[\s,/-]+(?:of\s+)?(?P<year>{_FOUR_DIGITS})(?!\w))?"
)
_DAY: Final = (
    r"(?<!\w)(?:(?:the\s+)?(?P<day>day\s+before\s+yesterday|last\s+night|tonight|yesterday|today)"
    r"|recently|lately)(?!\w)"
)
_STRETCH: Final = (
    r"(?<!\w)(?:(?:(?:in|over|during|within|since|from)\s+)?(?:the\s+)?"
    rf"(?P<which>last|past|previous|this)\s+)?(?:{_NUMBER}\s+)?"
    r"(?P<unit>hour|day|weekend|week|month|year)s?(?P<ago>\s+ago)?(?!\w)"
)
_WEEKDAY: Final = (
    r"(?<!\w)(?:(?P<lead>on|since|from|until)\s+)?(?:(?P<which>last|past|this)\s+)?"
    rf"(?P<weekday>{'|'.join(_WEEKDAYS)})(?!\w)"
)


def _read_iso(match: re.Match[str], _today: date, _year: int) -> list[When]:
    year, month = int(match["year"]), int(match["month"])
    if match["day"]:
        day = date(year, month, int(match["day"]))
        return [When(day, day, "day")]
    # 2023.05 is rather a version.
    return [When(*_months(year, month), "month")] if match["sign"] == "-" else []


def _read_slashed(match: re.Match[str], _today: date, _year: int) -> list[When]:
    """Read day and month in either order, unless dots tell which."""
    one, other, year = int(match["one"]), int(match["other"]), int(match["year"])
    orders = {(one, other)} if match["sign"] == "." else {(one, other), (other, one)}
    days = [date(year, month, day) for day, month in sorted(orders) if month <= 12]
    return [When(day, day, "day") for day in days]


def _read_part(match: re.Match[str], today: date, named_year: int) -> list[When]:
    """Read a month, a quarter, a season or a day; without a year, the latest that has begun."""
    name, which = match["name"].lower(), (match["which"] or "").lower()
    month, count = _PARTS[name]
    day = int(match["day"] or match["day_before"] or 0)
    year = int(match["year"] or 0)
    # Spring and fall have other meanings.
    if not (_is_month(match) if count == 1 else not day and (year or which or name[0] == "q")):
        return []

    def span(year: int) -> _Span:
        return (date(year, month, day),) * 2 if day else _months(year, month, count)

    if which and not year:
        year = today.year
        while which != "this" and span(year)[1] >= today:
            year -= 1
    kind: Literal["day", "month", "season"] = "day" if day else "month" if count == 1 else "season"
    if year or named_year:
        return [When(*span(year or named_year), kind)]
    for earlier in range(today.year, max(0, today.year - 9), -1):  # 29 February: up to eight
        with contextlib.suppress(ValueError):
            if span(earlier)[0] <= today:
                return [When(*span(earlier), kind, is_every_year=True)]
    raise ValueError


def _is_month(match: re.Match[str]) -> bool:
    """Tell a month from another word: "may", "march" and "dec" may be one."""
    word, text, start = match["name"], match.string, match.start()
    if (len(word) > 3 and word.lower() not in ("march", "sept")) or match["day"] or match["year"]:
        return True
    leads = r"(?<!\w)(?:during|since|until|till|from|by|before|after|in|early|late|mid)[\s-]+$"
    if _compile(leads).search(text, max(0, match.start("name") - 12), match.start("name")):
        return True
    has_number = bool(match["which"] or match["day_before"])
    if word.istitle():
        # "May I ask" has a capital for another reason.
        begins = _compile(r"(?:^|[.?!:])\W*$").search(text, max(0, start - 12), start)
        return has_number or (word not in ("Jan", "Mar") and not begins)
    # "8 may" and "last may" are dates, but not in "Python 3 may break".
    return has_number and not _compile(r"\s{0,9}[^\W\d]").match(text, match.end())


def _read_year(match: re.Match[str], _today: date, _year: int) -> list[When]:
    year = int(match[0])
    return [When(date(year, 1, 1), date(year, 12, 31), "year")]


def _read_day(match: re.Match[str], today: date, _year: int) -> list[When]:
    if not match["day"]:
        return [When(today - timedelta(14), today, "vague")]
    day = today - timedelta(_DAYS_BACK[" ".join(match["day"].lower().split())])
    return [When(day, day, "relative")]


def _read_stretch(match: re.Match[str], today: date, _year: int) -> list[When]:
    """Read "last 3 days", "last week", or a time ago, which is as exact as its unit."""
    unit, which = match["unit"].lower(), (match["which"] or "").lower()
    if match["number"] or which == "past":
        number = _number(match["number"] or "1")
        day = _go_back(datetime.combine(today, time.max), number, unit).date()
        around = timedelta({"week": 3, "month": 15, "year": 182}.get(unit, 0))
        if which:
            return [When(day, today, "relative")]
        return [When(day - around, day + around, "relative")] if match["ago"] else []
    if not which or unit in ("hour", "day"):
        return []
    back = which != "this"
    if unit.startswith("week"):
        monday = today - timedelta(today.weekday() + 7 * back)
        first = monday + timedelta(5 if unit == "weekend" else 0)
        return [When(first, monday + timedelta(6), "relative")]
    if unit == "year":
        return [When(*_months(today.year - back, 1, 12), "relative")]
    year, month = divmod(today.year * 12 + today.month - 1 - back, 12)
    return [When(*_months(year, month + 1), "relative")]


def _read_weekday(match: re.Match[str], today: date, _year: int) -> list[When]:
    which = (match["which"] or "").lower()
    if not (which or match["lead"]):  # "the Monday meeting" is on every one of them
        return []
    back = today.weekday() - _WEEKDAYS.index(match["weekday"].lower())
    if which != "this":
        back = back % 7 or (7 if which else 0)
    day = today - timedelta(back)
    return [When(day, day, "relative")]


_FORMS: Final[dict[str, Callable[[re.Match[str], date, int], list[When]]]] = {
    _ISO: _read_iso, _SLASHED: _read_slashed, _PART: _read_part, _YEAR: _read_year,
    _DAY: _read_day, _STRETCH: _read_stretch, _WEEKDAY: _read_weekday,
}  # fmt: skip
