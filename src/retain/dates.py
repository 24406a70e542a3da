"""The dates a question names, how close a day comes to them, and the times --since accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Final, Literal, NamedTuple

from retain.errors import UsageError

__all__ = ["Kind", "When", "closeness", "mentioned", "moment", "without"]

Kind = Literal["day", "month", "season", "year", "relative", "vague"]

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # first months
_COUNTED: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_NUMBERS: Final = {word: number for number, word in enumerate(_COUNTED, 1)} | {
    "a": 1, "an": 1, "couple": 2, "few": 3, "several": 4,
}  # fmt: skip
_FROM_TODAY: Final = ("relative", "vague")

_FORMS_OF_TIME = (
    "Write how long ago (36h, 7d, 2w, 3 months, 1y), a day (today, yesterday, monday, 2026-05-08, "
    '8 May), a longer stretch ("last week", may, 2026-05, 2026) or a time (2026-05-08T14:30).'
)


class When(NamedTuple):
    """A stretch of time that a question names; one of every year is the latest that has begun."""

    first: date
    last: date
    kind: Kind
    text: str = ""
    at: int = 0  # where the text stands in the question
    is_every_year: bool = False


class _Asked(NamedTuple):
    """What a phrase is understood by."""

    today: date
    year: int | None  # the first one the question names, which its months share


_Span = tuple[date, date]
_Reader = Callable[["re.Match[str]", _Asked], list[When]]


def mentioned(query: str, today: date) -> list[When]:
    """The stretches of time a question names, in its order."""
    starts = [(word[0].lower(), word.start()) for word in _WORD.finditer(query)]
    if not any(word in _TELLING or word[0].isdecimal() for word, _ in starts):
        return []  # nearly always; and it spares the patterns, which take long to compile
    year = _compiled(_YEAR).search(query)
    asked = _Asked(today, int(year[0]) if year else None)
    found: list[When] = []
    end = 0
    for word, start in starts:
        if start >= end and (word in _TELLING or word in _LEADING or word[0].isdecimal()):
            whens, end = _at(query, start, asked)
            found += whens
    return _agreed(found)


def _at(query: str, start: int, asked: _Asked) -> tuple[list[When], int]:
    """What the words from here on name, and where they end."""
    for pattern, read in _FORMS:
        match = _compiled(pattern).match(query, start)
        if match:
            try:
                whens = read(match, asked)
            except (ValueError, OverflowError, LookupError):
                # 30 February, a day before the year 1, a letter that only looks like another.
                return [], match.end()
            if whens:
                return [when._replace(text=match[0], at=start) for when in whens], match.end()
    return [], start


def _agreed(found: list[When]) -> list[When]:
    """Beside a month or a day, a year is already in it and "last week" does not mean today's."""
    return [when for when in found if when.kind in ("day", "month", "season")] or found


def closeness(whens: Iterable[When], day: date) -> float:
    """How well a day fits the best of several stretches, from 0 to 1.5 for a day itself."""
    return max((_closeness(when, day) for when in whens), default=0.0)


def _closeness(when: When, day: date) -> float:
    if not when.is_every_year:
        return _fit(when, day)
    # In January a day of last December may be the nearest, and the other way round.
    near = (_in_year(when, year) for year in (day.year - 1, day.year, day.year + 1))
    return max((_fit(one, day) for one in near if one), default=0.0)


def _in_year(when: When, year: int) -> When | None:
    try:
        if when.kind == "month":
            first, last = _month(year, when.first.month)
        else:
            first = when.first.replace(year=year)
            last = first + (when.last - when.first)
    except (ValueError, OverflowError):
        return None
    return when._replace(first=first, last=last)


def _fit(when: When, day: date) -> float:
    before, after = (when.first - day).days, (day - when.last).days
    is_inside = before <= 0 and after <= 0
    if when.kind == "year":
        return 0.3 if is_inside else 0.0
    if when.kind == "day":
        return _fit_of_day(when.first, day)
    if when.kind in ("month", "season"):
        # What happened is often told within days.
        return 1.0 if is_inside else 0.5 if 0 < after <= 10 else 0.0
    slack = max(1.0, ((when.last - when.first).days + 1) / 3)
    fit = 1.0 if is_inside else 0.5 if max(before, after) <= slack else 0.0
    return fit / 2 if when.kind == "vague" else fit


def _fit_of_day(asked: date, day: date) -> float:
    after = (day - asked).days
    if abs(after) <= 1:
        return 1.5
    if 0 <= after <= 14:
        return 1.0
    return 0.7 if (day.year, day.month) == (asked.year, asked.month) else 0.0


def without(query: str, whens: Iterable[When]) -> str:
    """A question less its relative phrases: no text written last week says "last week"."""
    kept: list[str] = []
    end = 0
    for when in whens:
        if when.kind in _FROM_TODAY:
            kept.append(query[end : when.at].strip())
            end = when.at + len(when.text)
    if not end:
        return query
    return " ".join(filter(None, [*kept, query[end:].strip()]))


def moment(text: str, now: datetime, *, end: bool = False) -> datetime:
    """The time a person means: where a stretch begins, or with `end` its last microsecond."""
    wanted = " ".join(text.split())
    try:
        found = _ago(wanted, now) or _clock(wanted, now)
    except (ValueError, OverflowError):
        found = None
    span = None if found else _span(wanted, now.date())
    if span:
        day, of_day = (span[1], time.max) if end else (span[0], time.min)
        found = datetime.combine(day, of_day, tzinfo=now.tzinfo)
    if not found:
        raise UsageError(f"{text[:80]!r} is not a time", hint=_FORMS_OF_TIME)
    return found


def _ago(wanted: str, now: datetime) -> datetime | None:
    match = _compiled(_AMOUNT).fullmatch(wanted)
    if not match:
        return now if wanted.lower() == "now" else None
    number, unit = _number(match["number"]), match["unit"].lower()
    if unit.startswith(("mo", "y")):
        return datetime.combine(_before(now.date(), number, unit), now.timetz())
    return now - number * timedelta(minutes={"m": 1, "h": 60, "d": 1440, "w": 10080}[unit[0]])


def _clock(wanted: str, now: datetime) -> datetime | None:
    if not _compiled(_TIME).match(wanted):
        return None
    found = datetime.fromisoformat(wanted)
    return found if found.tzinfo else found.replace(tzinfo=now.tzinfo)


def _span(wanted: str, today: date) -> _Span | None:
    # "may" and "monday" alone could be anything in a question, but not here.
    for lead in ("", "in ", "on "):
        whens = mentioned(lead + wanted, today)
        if len(whens) == 1 and whens[0].at + len(whens[0].text) == len(lead + wanted):
            return whens[0][:2] if whens[0].at <= len(lead) else None
    return None


def _number(text: str) -> int:
    last = [word for word in text.lower().split() if word != "of"][-1]
    return _NUMBERS.get(last) or int(last)


def _before(day: date, number: int, unit: str) -> date:
    """A number of hours, days, weeks, months or years before a day."""
    if unit.startswith(("mo", "y")):
        months = number * (12 if unit[0] == "y" else 1)
        year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
        return date(year, month + 1, min(day.day, _month(year, month + 1)[1].day))
    return day - timedelta(hours=number * {"h": 1, "d": 24, "w": 168}[unit[0]])


def _month(year: int, month: int) -> _Span:
    return _months(year, month, 1)


def _months(year: int, month: int, count: int) -> _Span:
    first = date(year, month, 1)
    year, month = divmod(year * 12 + month - 1 + count, 12)
    last = date.max if year > date.max.year else date(year, month + 1, 1) - timedelta(1)
    return first, last


def _latest(span: Callable[[int], _Span], today: date) -> _Span:
    """The latest of a yearly stretch that has begun; 29 February needs up to eight years."""
    for year in range(today.year, max(0, today.year - 9), -1):
        try:
            found = span(year)
        except ValueError:
            continue
        if found[0] <= today:
            return found
    raise ValueError


def _yearly(kind: Kind, span: Callable[[int], _Span], year: int | None, today: date) -> When:
    if year:
        return When(*span(year), kind)
    return When(*_latest(span, today), kind, is_every_year=True)


def _read_iso(match: re.Match[str], _asked: _Asked) -> list[When]:
    year, month = int(match["year"]), int(match["month"])
    if match["day"]:
        day = date(year, month, int(match["day"]))
        return [When(day, day, "day")]
    # 2023.05 is rather a version.
    return [When(*_month(year, month), "month")] if match["sign"] == "-" else []


def _read_slashed(match: re.Match[str], _asked: _Asked) -> list[When]:
    """Day and month in either order, unless dots tell which."""
    one, other, year = int(match["one"]), int(match["other"]), int(match["year"])
    if len(match["year"]) == 2:
        if match["sign"] != "/":
            return []
        year += 2000
    orders = [(one, other)] if match["sign"] == "." else sorted({(one, other), (other, one)})
    days = [
        date(year, month, day)
        for day, month in orders
        if 0 < month <= 12 and 0 < day <= _month(year, month)[1].day
    ]
    if not days:
        raise ValueError
    return [When(day, day, "day") for day in days]


def _read_quarter(match: re.Match[str], asked: _Asked) -> list[When]:
    month = int(match["quarter"] or match["quarter_after"]) * 3 - 2
    written = match["year"] or match["year_before"]
    year = int(written) if written else asked.year
    return [_yearly("season", lambda y: _months(y, month, 3), year, asked.today)]


def _read_season(match: re.Match[str], asked: _Asked) -> list[When]:
    month = _SEASONS[match["season"].lower()]
    if match["year"]:
        return [When(*_months(int(match["year"]), month, 3), "season")]
    which = (match["which"] or "").lower()
    if not which:  # spring and fall have other meanings
        return []
    if which == "this":
        is_begun = month == 12 and asked.today.month < 3
        return [When(*_months(asked.today.year - is_begun, month, 3), "season")]
    year = asked.today.year
    while _months(year, month, 3)[1] >= asked.today:
        year -= 1
    return [When(*_months(year, month, 3), "season")]


def _read_month(match: re.Match[str], asked: _Asked) -> list[When]:
    if not _is_month(match):
        return []
    month = _MONTHS.index(match["month"][:3].lower()) + 1
    year = _year_of_month(match, month, asked)
    day = int(match["day"] or match["day_before"] or 0)
    if day:
        return [_yearly("day", lambda y: (date(y, month, day),) * 2, year, asked.today)]
    return [_yearly("month", lambda y: _month(y, month), year, asked.today)]


def _year_of_month(match: re.Match[str], month: int, asked: _Asked) -> int | None:
    written = (match["year"] or "").lower()
    which = (match["which"] or "").lower()
    if written.endswith("year"):
        return asked.today.year - written.startswith("last")
    if written:
        return 2000 + int(written[1:]) if written[0] == "'" else int(written)
    if which == "next":
        return asked.today.year + (month <= asked.today.month)
    if which:
        return asked.today.year - (which != "this" and month >= asked.today.month)
    return asked.year


def _is_month(match: re.Match[str]) -> bool:
    """Whether a word that names a month means it: "may", "march" and "dec" may be other words."""
    word = match["month"]
    if (len(word) > 3 and word.lower() not in ("march", "sept")) or match["day"] or match["year"]:
        return True
    if _compiled(_LEADS_TO_MONTH).search(match.string, *_just_before(match, "month")):
        return True
    if not word.istitle():
        return bool(match["which"] or match["day_before"]) and _is_no_verb(match)
    if match["which"] or match["day_before"]:
        return True
    begins = _compiled(_BEGINS).search(match.string, *_just_before(match))
    return word not in ("Jan", "Mar") and not begins


def _is_no_verb(match: re.Match[str]) -> bool:
    """Whether "8 may" or "last may" is a date, as in "Python 3 may break" it is not."""
    is_ordinal = match["day_before"] and not match.string[match.end("day_before")].isspace()
    leads = _compiled(_LEADS_TO_DAY).search(match.string, *_just_before(match))
    if is_ordinal or (leads and match["day_before"]):
        return True
    return not _compiled(_GOES_ON).match(match.string, match.end())


def _just_before(match: re.Match[str], group: str | int = 0) -> tuple[int, int]:
    return max(0, match.start(group) - 12), match.start(group)


def _read_year(match: re.Match[str], _asked: _Asked) -> list[When]:
    year = int(match[0])
    return [When(date(year, 1, 1), date(year, 12, 31), "year")]


def _read_day(match: re.Match[str], asked: _Asked) -> list[When]:
    phrase = match[0].lower()
    back = 2 if "before" in phrase else phrase == "yesterday" or phrase.startswith("last")
    day = asked.today - timedelta(back)
    return [When(day, day, "relative")]


def _read_ago(match: re.Match[str], asked: _Asked) -> list[When]:
    """A time ago is as exact as its unit: a week ago is that day and three around it."""
    unit = match["unit"].lower()
    day = _before(asked.today, _number(match["number"]), unit)
    around = timedelta({"week": 3, "month": 15, "year": 182}.get(unit, 0))
    return [When(day - around, day + around, "relative")]


def _read_last_few(match: re.Match[str], asked: _Asked) -> list[When]:
    first = _before(asked.today, _number(match["number"]), match["unit"].lower())
    return [When(first, asked.today, "relative")]


def _read_last(match: re.Match[str], asked: _Asked) -> list[When]:
    today, unit, which = asked.today, match["unit"].lower(), match["which"].lower()
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
    first = _before(today.replace(month=month, day=1), count * back, "months")
    return [When(*_months(first.year, first.month, count), "relative")]


def _read_weekday(match: re.Match[str], asked: _Asked) -> list[When]:
    which = (match["which"] or "").lower()
    if not (which or match["lead"]):  # "the Monday meeting" is on every one of them
        return []
    weekday = _WEEKDAYS.index(match["weekday"].lower())
    if which == "this":
        day = asked.today + timedelta(weekday - asked.today.weekday())
    else:
        back = (asked.today.weekday() - weekday) % 7
        day = asked.today - timedelta(back or (7 if which else 0))
    return [When(day, day, "relative")]


def _read_lately(match: re.Match[str], asked: _Asked) -> list[When]:
    if match[0].lower().endswith("day"):
        return [When(asked.today - timedelta(10), asked.today, "relative")]
    return [When(asked.today - timedelta(14), asked.today, "vague")]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_YEAR_WRITTEN = r"(?:19|20)[0-9]{2}"
_MONTH_NAMED = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_SEASON_NAMED = "|".join(_SEASONS)
_NUMBER = (
    r"(?P<number>[0-9]{1,6}|(?:a\s+)?couple(?:\s+of)?|(?:a\s+)?few|several"
    rf"|{'|'.join(_COUNTED)}|an?)"
)
_LEAD = r"(?:(?:in|over|during|within|since|from)\s+)?(?:the\s+)?"
_UNIT = r"(?P<unit>hour|day|week|month|year)s?"

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
# A year is no price, number or part of a date.
_YEAR: Final = rf"(?<![\w.$€£#]){_YEAR_WRITTEN}(?!\w|[-/.][0-9]{{1,2}}(?![0-9]))"
_LEADS = "during|since|until|till|from|by|before|after"
_LEADS_TO_MONTH: Final = rf"(?<!\w)(?:{_LEADS}|in|early|late|mid)[\s-]+$"
_LEADS_TO_DAY: Final = rf"(?<!\w)(?:{_LEADS}|on|the)\s+$"
_BEGINS: Final = r"(?:^|[.?!:])\W*$"  # "May I ask" has a capital for another reason
_GOES_ON: Final = r"\s{0,9}[^\W\d]"
_TIME: Final = r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9]{2}"
_AMOUNT: Final = (
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
    rf"q(?P<quarter>[1-4])(?!\w)(?:[\s,/-]+(?:of\s+)?(?P<year>{_YEAR_WRITTEN})(?!\w))?"
    rf"|(?P<year_before>{_YEAR_WRITTEN})[\s/-]?q(?P<quarter_after>[1-4])(?!\w)"
)
_SEASON = (
    rf"(?:(?P<which>last|this|past)\s+)?(?P<season>{_SEASON_NAMED})(?!\w)"
    rf"(?:\s+(?:of\s+)?(?P<year>{_YEAR_WRITTEN})(?!\w))?"
)
_MONTH = (
    r"(?:(?P<day_before>[0-9]{1,2})(?:st|nd|rd|th)?(?:\s+of)?[\s-]+)?"
    rf"(?:(?P<which>last|past|this|next)\s+)?(?P<month>{_MONTH_NAMED})(?!\w)\.?"
    r"(?:[\s-]+(?:the\s+)?(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?!\w|:[0-9]))?"
    rf"(?:[\s,-]+(?:of\s+)?(?P<year>{_YEAR_WRITTEN}|'[0-9]{{2}}|(?:last|this)\s+year)(?!\w))?"
)
_DAY = (
    r"(?:the\s+)?day\s+before\s+yesterday(?!\w)"
    r"|(?:last\s+night|tonight|yesterday|today|this\s+(?:morning|afternoon|evening))(?!\w)"
)
_LAST = (
    rf"{_LEAD}(?P<which>last|past|previous|this|current)\s+"
    r"(?P<unit>week|weekend|month|quarter|year)(?!\w)"
)
_WEEKDAY = (
    r"(?:(?P<lead>on|since|from|until)\s+)?(?:(?P<which>last|past|this)\s+)?"
    rf"(?P<weekday>{'|'.join(_WEEKDAYS)})(?!\w)"
)

_FORMS: Final[tuple[tuple[str, _Reader], ...]] = (
    (_ISO, _read_iso),
    (_SLASHED, _read_slashed),
    (_QUARTER, _read_quarter),
    (_SEASON, _read_season),
    (_MONTH, _read_month),
    (_YEAR, _read_year),
    (_DAY, _read_day),
    (rf"{_NUMBER}\s+{_UNIT}\s+ago(?!\w)", _read_ago),
    (rf"{_LEAD}(?:last|past|previous)\s+{_NUMBER}\s+{_UNIT}(?!\w)", _read_last_few),
    (_LAST, _read_last),
    (_WEEKDAY, _read_weekday),
    (r"(?:(?:the\s+)?other\s+day|recently|lately)(?!\w)", _read_lately),
)
