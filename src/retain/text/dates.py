"""The dates a question names, how close a day comes to them, and the times --since accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Final, Literal, NamedTuple

from retain.errors import UsageError

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # first months
_COUNTED: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_NUMBERS: Final = {word: number for number, word in enumerate(_COUNTED, 1)} | {
    "a": 1, "an": 1, "couple": 2, "few": 3, "several": 4,
}  # fmt: skip
# Every form holds a digit or one of these words, and may begin with one of the others.
_TELLING: Final = frozenset(
    "january february march april june july august september october november december sept "
    "ago last past previous this current next today tonight yesterday other recently lately "
    "q1 q2 q3 q4".split()
) | {*_MONTHS, *_SEASONS, *_WEEKDAYS}
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
    year: int | None  # the first one the question names, which its months share


def find_dates(query: str, today: date) -> list[When]:
    """Find the stretches of time a question names, in its order."""
    words = [(word[0].lower(), word.start()) for word in _WORD.finditer(query)]
    if not any(word in _TELLING or word[0].isdecimal() for word, _ in words):
        return []  # nearly always; and it spares the patterns, which take long to compile
    year = _compiled(_YEAR).search(query)
    context = _Context(today, int(year[0]) if year else None)
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


def _go_back_from(day: date, number: int, unit: str) -> date:
    return _go_back(datetime.combine(day, time.max), number, unit).date()


def _months(year: int, month: int, count: int = 1) -> _Span:
    first = date(year, month, 1)
    year, month = divmod(year * 12 + month - 1 + count, 12)
    last = date.max if year > date.max.year else date(year, month + 1, 1) - timedelta(1)
    return first, last


def _of_year(
    kind: Literal["day", "month", "season"], span: Callable[[int], _Span], year: int | None,
    context: _Context,
) -> list[When]:  # fmt: skip
    """A stretch of a year; without one, the latest that has begun."""
    year = year or context.year
    if year:
        return [When(*span(year), kind)]
    today = context.today
    for earlier in range(today.year, max(0, today.year - 9), -1):  # 29 February: up to eight
        try:
            first, last = span(earlier)
        except ValueError:
            continue
        if first <= today:
            return [When(first, last, kind, is_every_year=True)]
    raise ValueError


def _read_iso(match: re.Match[str], _context: _Context) -> list[When]:
    year, month = int(match["year"]), int(match["month"])
    if match["day"]:
        day = date(year, month, int(match["day"]))
        return [When(day, day, "day")]
    # 2023.05 is rather a version.
    return [When(*_months(year, month), "month")] if match["sign"] == "-" else []


def _read_slashed(match: re.Match[str], _context: _Context) -> list[When]:
    """Read day and month in either order, unless dots tell which."""
    one, other, year = int(match["one"]), int(match["other"]), int(match["year"])
    if len(match["year"]) == 2:
        if match["sign"] != "/":
            return []
        year += 2000
    orders = [(one, other)] if match["sign"] == "." else sorted({(one, other), (other, one)})
    days = [
        date(year, month, day)
        for day, month in orders
        if 0 < month <= 12 and 0 < day <= _months(year, month)[1].day
    ]
    if not days:
        raise ValueError
    return [When(day, day, "day") for day in days]


def _read_quarter(match: re.Match[str], context: _Context) -> list[When]:
    month = int(match["quarter"] or match["quarter_after"]) * 3 - 2
    year = int(match["year"] or match["year_before"] or 0)
    return _of_year("season", lambda y: _months(y, month, 3), year, context)


def _read_season(match: re.Match[str], context: _Context) -> list[When]:
    month, today = _SEASONS[match["season"].lower()], context.today
    which = (match["which"] or "").lower()
    if match["year"]:
        year = int(match["year"])
    elif which == "this":
        year = today.year - (month == 12 and today.month < 3)
    elif which:
        year = today.year
        while _months(year, month, 3)[1] >= today:
            year -= 1
    else:
        return []  # spring and fall have other meanings
    return [When(*_months(year, month, 3), "season")]


def _read_month(match: re.Match[str], context: _Context) -> list[When]:
    if not _is_month(match):
        return []
    month, today = _MONTHS.index(match["month"][:3].lower()) + 1, context.today
    written, which = (match["year"] or "").lower(), (match["which"] or "").lower()
    year = None
    if written.endswith("year"):
        year = today.year - written.startswith("last")
    elif written:
        year = 2000 + int(written[1:]) if written[0] == "'" else int(written)
    elif which == "next":
        year = today.year + (month <= today.month)
    elif which:
        year = today.year - (which != "this" and month >= today.month)
    if day := int(match["day"] or match["day_before"] or 0):
        return _of_year("day", lambda y: (date(y, month, day),) * 2, year, context)
    return _of_year("month", lambda y: _months(y, month), year, context)


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


def _read_year(match: re.Match[str], _context: _Context) -> list[When]:
    year = int(match[0])
    return [When(date(year, 1, 1), date(year, 12, 31), "year")]


def _read_day(match: re.Match[str], context: _Context) -> list[When]:
    phrase = match[0].lower()
    if "yesterday" in phrase or "night" in phrase:
        back = 2 if "before" in phrase else 0 if phrase == "tonight" else 1
        day = context.today - timedelta(back)
        return [When(day, day, "relative")]
    if phrase.endswith("ly"):
        return [When(context.today - timedelta(14), context.today, "vague")]
    first = context.today - timedelta(10 if "other" in phrase else 0)
    return [When(first, context.today, "relative")]


def _read_amount(match: re.Match[str], context: _Context) -> list[When]:
    """Read "last 3 days", or a time ago, as exact as its unit: a week ago is three days around."""
    unit = match["unit"].lower()
    day = _go_back_from(context.today, _number(match["number"]), unit)
    if match["last"]:
        return [When(day, context.today, "relative")]
    around = timedelta({"week": 3, "month": 15, "year": 182}.get(unit, 0))
    return [When(day - around, day + around, "relative")] if match["ago"] else []


def _read_last(match: re.Match[str], context: _Context) -> list[When]:
    today, unit, which = context.today, match["unit"].lower(), match["which"].lower()
    back = which not in ("this", "current")
    if which == "past":
        days = {"week": 7, "weekend": 7, "month": 30, "quarter": 91, "year": 365}[unit]
        return [When(today - timedelta(days), today, "relative")]
    if unit in ("week", "weekend"):
        monday = today - timedelta(today.weekday() + 7 * back)
        first = monday + timedelta(5 if unit == "weekend" else 0)
        return [When(first, monday + timedelta(6), "relative")]
    count = {"month": 1, "quarter": 3, "year": 12}[unit]
    month = (today.month - 1) // count * count + 1
    first = _go_back_from(today.replace(month=month, day=1), count * back, "months")
    return [When(*_months(first.year, first.month, count), "relative")]


def _read_weekday(match: re.Match[str], context: _Context) -> list[When]:
    which, today = (match["which"] or "").lower(), context.today
    if not (which or match["lead"]):  # "the Monday meeting" is on every one of them
        return []
    back = today.weekday() - _WEEKDAYS.index(match["weekday"].lower())
    if which != "this":
        back = back % 7 or (7 if which else 0)
    day = today - timedelta(back)
    return [When(day, day, "relative")]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_FOUR_DIGITS = r"(?:19|20)[0-9]{2}"
# A year is no price, number or part of a date.
_YEAR: Final = rf"(?<![\w.$€£#]){_FOUR_DIGITS}(?!\w|[-/.][0-9]{{1,2}}(?![0-9]))"
_NUMBER = (
    r"(?P<number>[0-9]{1,6}|(?:a\s+)?couple(?:\s+of)?|(?:a\s+)?few|several"
    rf"|{'|'.join(_COUNTED)}|an?)"
)
_LEAD = r"(?:(?:in|over|during|within|since|from)\s+)?(?:the\s+)?"
_AMOUNT = (
    rf"(?:{_LEAD}(?P<last>last|past|previous)\s+)?{_NUMBER}\s+"
    r"(?P<unit>hour|day|week|month|year)s?(?P<ago>\s+ago)?(?!\w)"
)
_LEADS_TO_MONTH: Final = (
    r"(?<!\w)(?:during|since|until|till|from|by|before|after|in|early|late|mid)[\s-]+$"
)
_TIME_AGO: Final = (
    rf"{_NUMBER}(?:(?<=[0-9])\s*|\s+)"
    r"(?P<unit>min(?:utes?)?|h(?:ours?)?|d(?:ays?)?|w(?:eeks?)?|mo(?:nths?)?|y(?:ears?)?)"
    r"(?:\s+ago)?"
)
_ISO = (
    r"(?P<year>[0-9]{4})(?P<sign>[-/.])(?P<month>[0-9]{2})(?:(?P=sign)(?P<day>[0-9]{2}))?"
    r"(?![0-9]|[-/.][0-9])(?:(?=T[0-9])|(?!\w))"
)
_SLASHED = (
    r"(?P<one>[0-9]{1,2})(?P<sign>[-/.])(?P<other>[0-9]{1,2})(?P=sign)"
    r"(?P<year>[0-9]{4}|[0-9]{2})(?!\w|[-/.][0-9])"
)
_QUARTER = (
    rf"q(?P<quarter>[1-4])(?!\w)(?:[\s,/-]+(?:of\s+)?(?P<year>{_FOUR_DIGITS})(?!\w))?"
    rf"|(?P<year_before>{_FOUR_DIGITS})[\s/-]?q(?P<quarter_after>[1-4])(?!\w)"
)
_SEASON = (
    rf"(?:(?P<which>last|this|past)\s+)?(?P<season>{'|'.join(_SEASONS)})(?!\w)"
    rf"(?:\s+(?:of\s+)?(?P<year>{_FOUR_DIGITS})(?!\w))?"
)
_MONTH = (
    r"(?:(?P<day_before>[0-9]{1,2})(?:st|nd|rd|th)?(?:\s+of)?[\s-]+)?"
    r"(?:(?P<which>last|past|this|next)\s+)?"
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?!\w)\.?"
    r"(?:[\s-]+(?:the\s+)?(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?!\w|:[0-9]))?"
    rf"(?:[\s,-]+(?:of\s+)?(?P<year>{_FOUR_DIGITS}|'[0-9]{{2}}|(?:last|this)\s+year)(?!\w))?"
)
_DAY = (
    r"(?:the\s+)?day\s+before\s+yesterday(?!\w)"
    r"|(?:last\s+night|tonight|yesterday|today|this\s+(?:morning|afternoon|evening))(?!\w)"
    r"|(?:(?:the\s+)?other\s+day|recently|lately)(?!\w)"
)
_LAST = (
    rf"{_LEAD}(?P<which>last|past|previous|this|current)\s+"
    r"(?P<unit>week|weekend|month|quarter|year)(?!\w)"
)
_WEEKDAY = (
    r"(?:(?P<lead>on|since|from|until)\s+)?(?:(?P<which>last|past|this)\s+)?"
    rf"(?P<weekday>{'|'.join(_WEEKDAYS)})(?!\w)"
)

_FORMS: Final[tuple[tuple[str, Callable[[re.Match[str], _Context], list[When]]], ...]] = (
    (_ISO, _read_iso),
    (_SLASHED, _read_slashed),
    (_QUARTER, _read_quarter),
    (_SEASON, _read_season),
    (_MONTH, _read_month),
    (_YEAR, _read_year),
    (_DAY, _read_day),
    (_AMOUNT, _read_amount),
    (_LAST, _read_last),
    (_WEEKDAY, _read_weekday),
)
