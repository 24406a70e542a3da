"""The dates a question names, how close a day comes to them, and the times --since accepts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Final, Literal, NamedTuple

from retain.errors import UsageError

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_QUARTERS: Final = {  # of a year or of its seasons, by their first months
    "q1": 1, "q2": 4, "q3": 7, "q4": 10,
    "spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12,
}  # fmt: skip
_COUNTED: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_NUMBERS: Final = {word: number for number, word in enumerate(_COUNTED, 1)} | {
    "a": 1, "an": 1, "couple": 2, "few": 3, "several": 4,
}  # fmt: skip
_DAYS_BACK: Final = {
    "today": 0, "tonight": 0, "yesterday": 1, "last night": 1, "day before yesterday": 2,
}  # fmt: skip
# Every form holds a digit or one of these words, and may begin with one of the others.
_TELLING: Final = frozenset(
    "january february march april june july august september october november december sept "
    "ago last past previous this today tonight yesterday recently lately".split()
) | {*_MONTHS, *_QUARTERS, *_WEEKDAYS}
_LEADING: Final = frozenset("in over during within since from until on the day".split()) | {
    *_NUMBERS
}
_WORD: Final = re.compile(r"\w+")
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


class _Context(NamedTuple):
    today: date
    year: int  # the first one the question names, which its months share; 0 for none


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_Read = Callable[[re.Match[str], _Context], list[When]]


def find_dates(query: str, today: date) -> list[When]:
    """Find the stretches of time a question names, in its order."""
    words = [(word[0].lower(), word.start()) for word in _WORD.finditer(query)]
    if not any(word in _TELLING or word[0].isdecimal() for word, _ in words):
        return []  # nearly always; and it spares the patterns, which take long to compile
    year = _compiled(_YEAR).search(query)
    context = _Context(today, int(year[0]) if year else 0)
    whens: list[When] = []
    end = 0
    for word, start in words:
        if start >= end and (word in _TELLING or word in _LEADING or word[0].isdecimal()):
            found, end = _read_at(query, start, context)
            whens += found
    # Beside a month or a day, a year is already in it and "last week" does not mean today's.
    return [when for when in whens if when.kind in ("day", "month", "season")] or whens


def _read_at(query: str, start: int, context: _Context) -> tuple[list[When], int]:
    """Read what the words from here on name, and where they end."""
    for pattern, read in _FORMS:
        if match := _compiled(pattern).match(query, start):
            try:
                whens = read(match, context)
            except (ValueError, OverflowError, LookupError):
                # 30 February, a day before the year 1, a letter that only looks like another.
                return [], match.end()
            if whens:
                return [when._replace(text=match[0], at=start) for when in whens], match.end()
    return [], start


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
            try:
                first, last = when[:2] if years is None else _in_year(when, day.year + years)
            except (ValueError, OverflowError):
                continue
            best = max(best, _fit(when.kind, first, last, day))
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
    try:
        if wanted.lower() == "now":
            return now
        if match := _compiled(_TIME_AGO).fullmatch(wanted):
            return _go_back(now, _number(match["number"]), match["unit"].lower())
        if _compiled(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9]{2}").match(wanted):
            moment = datetime.fromisoformat(wanted)
            return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)
    except (ValueError, OverflowError):
        wanted = ""
    # "may" and "monday" alone could be anything in a question, but not here.
    for lead in ("", "in ", "on "):
        whens = find_dates(lead + wanted, now.date())
        if len(whens) == 1 and whens[0].at + len(whens[0].text) == len(lead + wanted):
            if whens[0].at > len(lead):
                break
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


def _of_year(
    kind: Literal["day", "month", "season"], span: Callable[[int], _Span], year: int, today: date
) -> list[When]:
    """A stretch of a year; without one, the latest that has begun."""
    if year:
        return [When(*span(year), kind)]
    for earlier in range(today.year, max(0, today.year - 9), -1):  # 29 February: up to eight
        with contextlib.suppress(ValueError):
            first, last = span(earlier)
            if first <= today:
                return [When(first, last, kind, is_every_year=True)]
    raise ValueError


# Forms: each a pattern and what it means. The first that matches is taken.

_FOUR_DIGITS = r"(?:19|20)[0-9]{2}"
# A year is no price, number or part of a date.
_YEAR: Final = rf"(?<![\w.$€£#]){_FOUR_DIGITS}(?!\w|[-/.][0-9]{{1,2}}(?![0-9]))"
_NUMBER = (
    r"(?P<number>[0-9]{1,6}|(?:a\s+)?couple(?:\s+of)?|(?:a\s+)?few|several"
    rf"|{'|'.join(_COUNTED)}|an?)"
)
_LEAD = r"(?:(?:in|over|during|within|since|from)\s+)?(?:the\s+)?"
_LEADS_TO_MONTH: Final = (
    r"(?<!\w)(?:during|since|until|till|from|by|before|after|in|early|late|mid)[\s-]+$"
)
_TIME_AGO: Final = (
    rf"{_NUMBER}(?:(?<=[0-9])\s*|\s+)"
    r"(?P<unit>min(?:utes?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?|mo(?:nths?)?|y(?:ears?)?)"
    r"(?:\s+ago)?"
)

_FORMS: Final[list[tuple[str, _Read]]] = []


def _form(*parts: str) -> Callable[[_Read], _Read]:
    def register(read: _Read) -> _Read:
        _FORMS.append(("".join(parts), read))
        return read

    return register


@_form(
    r"(?P<year>[0-9]{4})(?P<sign>[-/.])(?P<month>[0-9]{2})(?:(?P=sign)(?P<day>[0-9]{2}))?",
    r"(?![0-9]|[-/.][0-9])(?:(?=T[0-9])|(?!\w))",
)
def _read_iso(match: re.Match[str], _context: _Context) -> list[When]:
    year, month = int(match["year"]), int(match["month"])
    if match["day"]:
        day = date(year, month, int(match["day"]))
        return [When(day, day, "day")]
    # 2023.05 is rather a version.
    return [When(*_months(year, month), "month")] if match["sign"] == "-" else []


@_form(
    r"(?P<one>[0-9]{1,2})(?P<sign>[-/.])(?P<other>[0-9]{1,2})(?P=sign)",
    r"(?P<year>[0-9]{4})(?!\w|[-/.][0-9])",
)
def _read_slashed(match: re.Match[str], _context: _Context) -> list[When]:
    """Read day and month in either order, unless dots tell which."""
    one, other, year = int(match["one"]), int(match["other"]), int(match["year"])
    orders = {(one, other)} if match["sign"] == "." else {(one, other), (other, one)}
    days = [date(year, month, day) for day, month in sorted(orders) if month <= 12]
    if not days:
        raise ValueError
    return [When(day, day, "day") for day in days]


@_form(
    rf"(?:(?P<which>last|this|past)\s+)?(?P<quarter>{'|'.join(_QUARTERS)})(?!\w)",
    rf"(?:[\s,/-]+(?:of\s+)?(?P<year>{_FOUR_DIGITS})(?!\w))?",
)
def _read_quarter(match: re.Match[str], context: _Context) -> list[When]:
    name, year, today = match["quarter"].lower(), int(match["year"] or 0), context.today
    month, which = _QUARTERS[name], "" if year else (match["which"] or "").lower()
    if which == "this":
        year = today.year - (month == 12 and today.month < 3)
    elif which:
        year = today.year
        while _months(year, month, 3)[1] >= today:
            year -= 1
    elif name[0] == "q":
        year = year or context.year
    elif not year:
        return []  # spring and fall have other meanings
    return _of_year("season", lambda year: _months(year, month, 3), year, today)


@_form(
    r"(?:(?P<day_before>[0-9]{1,2})(?:st|nd|rd|th)?(?:\s+of)?[\s-]+)?",
    r"(?:(?P<which>last|past|this)\s+)?",
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?",
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?!\w)\.?",
    r"(?:[\s-]+(?:the\s+)?(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?!\w|:[0-9]))?",
    rf"(?:[\s,-]+(?:of\s+)?(?P<year>{_FOUR_DIGITS})(?!\w))?",
)
def _read_month(match: re.Match[str], context: _Context) -> list[When]:
    if not _is_month(match):
        return []
    month, today = _MONTHS.index(match["month"][:3].lower()) + 1, context.today
    year, which = int(match["year"] or 0), (match["which"] or "").lower()
    if which and not year:
        year = today.year - (which != "this" and month >= today.month)
    year = year or context.year
    if day := int(match["day"] or match["day_before"] or 0):
        return _of_year("day", lambda year: (date(year, month, day),) * 2, year, today)
    return _of_year("month", lambda year: _months(year, month), year, today)


def _is_month(match: re.Match[str]) -> bool:
    """Tell a month from another word: "may", "march" and "dec" may be one."""
    word = match["month"]
    if (len(word) > 3 and word.lower() not in ("march", "sept")) or match["day"] or match["year"]:
        return True
    at, start = match.start("month"), match.start()
    if _compiled(_LEADS_TO_MONTH).search(match.string, max(0, at - 12), at):
        return True
    has_number = match["which"] or match["day_before"]
    if word.istitle():
        # "May I ask" has a capital for another reason.
        begins = _compiled(r"(?:^|[.?!:])\W*$").search(match.string, max(0, start - 12), start)
        return bool(has_number) or (word not in ("Jan", "Mar") and not begins)
    # "8 may" and "last may" are dates, but not in "Python 3 may break".
    return bool(has_number) and not _compiled(r"\s{0,9}[^\W\d]").match(match.string, match.end())


@_form(_YEAR)
def _read_year(match: re.Match[str], _context: _Context) -> list[When]:
    year = int(match[0])
    return [When(date(year, 1, 1), date(year, 12, 31), "year")]


@_form(
    r"(?:the\s+)?(?P<day>day\s+before\s+yesterday|last\s+night|tonight|yesterday|today)(?!\w)",
    r"|(?:recently|lately)(?!\w)",
)
def _read_day(match: re.Match[str], context: _Context) -> list[When]:
    if not match["day"]:
        return [When(context.today - timedelta(14), context.today, "vague")]
    day = context.today - timedelta(_DAYS_BACK[" ".join(match["day"].lower().split())])
    return [When(day, day, "relative")]


@_form(
    rf"(?:{_LEAD}(?P<last>last|past|previous)\s+)?{_NUMBER}\s+",
    r"(?P<unit>hour|day|week|month|year)s?(?P<ago>\s+ago)?(?!\w)",
)
def _read_amount(match: re.Match[str], context: _Context) -> list[When]:
    """Read "last 3 days", or a time ago, as exact as its unit: a week ago is three days around."""
    unit, today = match["unit"].lower(), context.today
    day = _go_back(datetime.combine(today, time.max), _number(match["number"]), unit).date()
    if match["last"]:
        return [When(day, today, "relative")]
    around = timedelta({"week": 3, "month": 15, "year": 182}.get(unit, 0))
    return [When(day - around, day + around, "relative")] if match["ago"] else []


@_form(
    rf"{_LEAD}(?P<which>last|past|previous|this)\s+(?P<unit>week|weekend|month|year)(?!\w)",
)
def _read_last(match: re.Match[str], context: _Context) -> list[When]:
    today, unit, which = context.today, match["unit"].lower(), match["which"].lower()
    back = which != "this"
    if which == "past":
        days = {"week": 7, "weekend": 7, "month": 30, "year": 365}[unit]
        return [When(today - timedelta(days), today, "relative")]
    if unit.startswith("week"):
        monday = today - timedelta(today.weekday() + 7 * back)
        first = monday + timedelta(5 if unit == "weekend" else 0)
        return [When(first, monday + timedelta(6), "relative")]
    if unit == "year":
        return [When(*_months(today.year - back, 1, 12), "relative")]
    year, month = divmod(today.year * 12 + today.month - 1 - back, 12)
    return [When(*_months(year, month + 1), "relative")]


@_form(
    r"(?:(?P<lead>on|since|from|until)\s+)?(?:(?P<which>last|past|this)\s+)?",
    rf"(?P<weekday>{'|'.join(_WEEKDAYS)})(?!\w)",
)
def _read_weekday(match: re.Match[str], context: _Context) -> list[When]:
    which, today = (match["which"] or "").lower(), context.today
    if not (which or match["lead"]):  # "the Monday meeting" is on every one of them
        return []
    back = today.weekday() - _WEEKDAYS.index(match["weekday"].lower())
    if which != "this":
        back = back % 7 or (7 if which else 0)
    day = today - timedelta(back)
    return [When(day, day, "relative")]
