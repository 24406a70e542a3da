"""Dates in questions, how well a day fits them, and times on the command line."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.errors import UsageError
from retain.text.dates import When, closeness, find_dates, parse_moment, remove_relative

TODAY = date(2026, 11, 18)  # a Wednesday
NOW = datetime(2026, 11, 18, 15, 30, tzinfo=timezone(timedelta(hours=2)))


def named(question: str, today: date = TODAY) -> list[str]:
    """What a question names, as `first..last kind`; a `*` marks a stretch of every year."""
    return [
        f"{when.first}..{when.last} {when.kind}{'*' * when.is_every_year}"
        for when in find_dates(question, today)
    ]


def fit(question: str, day: str) -> float:
    return closeness(find_dates(question, TODAY), date.fromisoformat(day))


@pytest.mark.parametrize(
    "question",
    [
        "What happened on 8 May 2023?", "May 8th, 2023", "the 8th of May, 2023", "8-May-2023",
        "on May the 8th 2023", "may 8, 2023", "2023-05-08", "log of 2023-05-08T10:00:00Z",
        "2023/05/08", "08.05.2023", "In 2023, what was on May 8?",
    ],
)  # fmt: skip
def test_day_is_read_however_it_is_written(question: str) -> None:
    assert named(question) == ["2023-05-08..2023-05-08 day"]


@pytest.mark.parametrize(
    "question,expected",
    [
        ("in May 2023", "2023-05-01..2023-05-31 month"),
        ("December plans", "2025-12-01..2025-12-31 month*"),
        ("8 may", "2026-05-08..2026-05-08 day*"),
        ("Feb 29", "2024-02-29..2024-02-29 day*"),
        ("Q2 2024", "2024-04-01..2024-06-30 season"),
        ("summer of 2023", "2023-06-01..2023-08-31 season"),
        ("last summer", "2026-06-01..2026-08-31 season"),
        ("winter 2023", "2023-12-01..2024-02-29 season"),
        ("in 2023", "2023-01-01..2023-12-31 year"),
    ],
)
def test_longer_stretch_is_read(question: str, expected: str) -> None:
    assert named(question) == [expected]


@pytest.mark.parametrize(
    "question,first,last",
    [
        ("today", "2026-11-18", "2026-11-18"),
        ("yesterday's notes", "2026-11-17", "2026-11-17"),
        ("the day before yesterday", "2026-11-16", "2026-11-16"),
        ("3 days ago", "2026-11-15", "2026-11-15"),
        ("a couple of years ago", "2024-05-20", "2025-05-19"),
        ("last week", "2026-11-09", "2026-11-15"),
        ("the past week", "2026-11-11", "2026-11-18"),
        ("last weekend", "2026-11-14", "2026-11-15"),
        ("in the last 3 days", "2026-11-15", "2026-11-18"),
        ("last Wednesday", "2026-11-11", "2026-11-11"),
        ("on Wednesday", "2026-11-18", "2026-11-18"),
    ],
)
def test_relative_phrase_counts_from_today(question: str, first: str, last: str) -> None:
    assert named(question) == [f"{first}..{last} relative"]


@pytest.mark.parametrize(
    "question",
    [
        "You may ask, and you may march", "May I ask you something?", "Done. May we go on?",
        "This may be wrong", "Python 3 may break", "Whoever comes last may leave",
        "What did Jan say?", "YOU MAY NOT", "dec to hex", "March forward!",
        "fall apart in spring boot", "30 February 2023", "2023-02-30", "2023-13",
        "version 2023.05", "costs $2000 for #2019", "the last name of this user", "",
        "every Monday, on Mondays", "20234 tokens", "mayor of Marchtown, decent augury",
        "a day in the week",
    ],
)  # fmt: skip
def test_other_meaning_names_no_date(question: str) -> None:
    assert named(question) == []


def test_ambiguous_numbers_give_both_readings() -> None:
    assert named("08/05/2023") == ["2023-08-05..2023-08-05 day", "2023-05-08..2023-05-08 day"]
    assert named("31/12/2023") == ["2023-12-31..2023-12-31 day"]
    assert fit("08/05/2023", "2023-05-08") == fit("08/05/2023", "2023-08-05") == 1.5


def test_phrases_of_one_question_are_read_together() -> None:
    months = ["2023-05-01..2023-05-31 month", "2023-07-01..2023-07-31 month"]
    assert named("from May to July 2023") == months
    question = "What did she finish last Friday, as told on 23 January, 2022?"
    assert named(question) == ["2022-01-23..2022-01-23 day"]


@pytest.mark.parametrize(
    "question,day,expected",
    [
        ("in 2023", "2023-12-31", 0.3),
        ("May 2023", "2023-05-31", 1.0),
        ("May 2023", "2023-06-10", 0.5),
        ("in May", "1999-05-15", 1.0),
        ("in December", "2024-01-05", 0.5),
        ("8 May 2023", "2023-05-09", 1.5),
        ("8 May 2023", "2023-05-22", 1.0),
        ("8 May 2023", "2023-05-23", 0.7),
        ("31 December", "2024-01-01", 1.5),
        ("last week", "2026-11-09", 1.0),
        ("last week", "2026-11-17", 0.5),
        ("last week", "2026-11-06", 0),
        ("recently", "2026-11-10", 0.5),
        ("in May or in June 2023", "2023-06-05", 1.0),
    ],
)
def test_day_fits_as_the_recipe_says(question: str, day: str, expected: float) -> None:
    assert fit(question, day) == expected


@pytest.mark.parametrize(
    "question,left",
    [
        ("what did we decide last week about caching?", "what did we decide about caching?"),
        ("yesterday", ""),
        ("caching in May 2023", "caching in May 2023"),
        ("in the last 3 days, errors from 2 weeks ago", ", errors from"),
    ],
)
def test_only_relative_phrases_are_taken_out(question: str, left: str) -> None:
    assert remove_relative(question, find_dates(question, TODAY)) == left


@pytest.mark.parametrize(
    "text,since,until",
    [
        ("now", "2026-11-18T15:30", "2026-11-18T15:30"),
        ("7d", "2026-11-11T15:30", "2026-11-11T15:30"),
        ("3 months", "2026-08-18T15:30", "2026-08-18T15:30"),
        ("a  couple of days ago", "2026-11-16T15:30", "2026-11-16T15:30"),
        ("today", "2026-11-18", "2026-11-18T23:59:59.999999"),
        ("monday", "2026-11-16", "2026-11-16T23:59:59.999999"),
        ("last week", "2026-11-09", "2026-11-15T23:59:59.999999"),
        ("2026", "2026-01-01", "2026-12-31T23:59:59.999999"),
        ("2026-05", "2026-05-01", "2026-05-31T23:59:59.999999"),
        (" 2026-05-08 ", "2026-05-08", "2026-05-08T23:59:59.999999"),
        ("2026-05-08T14:30", "2026-05-08T14:30", "2026-05-08T14:30"),
    ],
)
def test_moment_is_where_a_stretch_begins_or_ends(text: str, since: str, until: str) -> None:
    def local(iso: str) -> datetime:
        return datetime.fromisoformat(iso).replace(tzinfo=NOW.tzinfo)

    assert parse_moment(text, NOW) == local(since)
    assert parse_moment(text, NOW, end=True) == local(until)
    assert parse_moment(text, NOW).tzinfo == NOW.tzinfo


def test_moment_keeps_its_zone_and_ends_with_the_shorter_month() -> None:
    assert parse_moment("2026-05-08T14:30Z", NOW) == datetime(2026, 5, 8, 14, 30, tzinfo=UTC)
    assert parse_moment("31 days ago", NOW).utcoffset() == NOW.utcoffset()
    late = datetime(2024, 3, 31, 12, 0, tzinfo=UTC)
    assert parse_moment("1 month", late) == datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
    leap = datetime(2024, 2, 29, tzinfo=UTC)
    assert parse_moment("1y", leap) == datetime(2023, 2, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "soon", "3m", "7", "08/05/2023", "30 February", "2026-13", "2026-05-08T99:00",
        "999999w", "9999 years ago", "may or june", "x may", "yesterday evening x", "-7d",
        "\u0661d",
    ],
)  # fmt: skip
def test_what_is_no_moment_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time") as caught:
        parse_moment(text, NOW)
    assert "7d" in caught.value.hint
    assert "2026-05-08" in caught.value.hint


DAYS = st.dates()
PHRASES = st.lists(
    st.sampled_from(
        "8 8th 30 31 of the May may Mar february Feb 29 december 2023 1999 0001 9999 - / . , '23 "
        "2023-05-08 0001-01-01 9999-12-31 08/05/2023 q1 Q4 last this next past week month year "
        "weekend quarter summer winter Monday on in a couple few 3 999999 days hours ago today "
        "yesterday recently other day \u017fummer w\u0131nter wee\u212a \u0663".split()
    )
).map(" ".join)


@given(st.text() | PHRASES, DAYS, DAYS)
@example("last winter yesterday a year ago 29 Feb", date.min, date.max)
@example("next December, this weekend, this Sunday, Q4", date.max, date.min)
def test_any_text_on_any_day_has_an_answer(text: str, today: date, day: date) -> None:
    whens = find_dates(text, today)
    before = When(today, today, "day")
    for when in whens:
        assert when.first <= when.last
        assert when.text
        assert text[when.at :].startswith(when.text)
        assert when.at >= before.at + len(before.text) or when.at == before.at  # two readings
        assert closeness([when], when.first) > 0
        before = when
    assert 0 <= closeness(whens, day) <= 1.5
    assert len(remove_relative(text, whens)) <= len(text)


@given(st.text() | PHRASES, st.datetimes(timezones=st.just(UTC)))
@example("1 day", datetime.min.replace(tzinfo=UTC))
def test_any_text_is_a_moment_or_a_usage_error(text: str, now: datetime) -> None:
    try:
        since = parse_moment(text, now)
    except UsageError:
        return
    assert since <= parse_moment(text, now, end=True)
