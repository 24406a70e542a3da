"""Values: what a memory says of itself."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.memory import Degraded, Memory, heading, parse_time


def memory(meta: dict[str, object], body: str = "", collection: str = "c") -> Memory:
    return Memory("the-id", collection, "/p", meta, body)


@pytest.mark.parametrize(
    "body, title",
    [
        ("# Title\n", "Title"),
        ("text\n\n# Title #\n", "Title"),
        ("# Learning C#\n", "Learning C#"),
        ("# F# ##\n", "F#"),
        ("#   Spaces   \r\n", "Spaces"),
        ("## Two\n# One", "One"),
        ("#NoSpace\n", ""),
        (" # Indented\n", ""),
        ("```\n# code\n```\n# Title", "Title"),
        ("~~~\n```\n# code\n~~~\n# Title", "Title"),
        ("````\n```\n# code\n````\n# Title", "Title"),
        ("```\n```python\n# code\n```\n# Title", "Title"),
        ("```\n# never closed", ""),
        ("# #\n", ""),
        ("# \n# Second", ""),
        ("", ""),
    ],
)
def test_heading_is_the_first_of_level_one_outside_code(body: str, title: str) -> None:
    assert heading(body) == title


@given(st.text())
def test_heading_is_one_line_or_nothing(body: str) -> None:
    found = heading(body)
    assert found == found.strip()
    assert found in body
    assert len(found.splitlines()) <= 1


@pytest.mark.parametrize(
    "meta, body, title",
    [
        ({"title": " Given "}, "# H", "Given"),
        ({"title": ""}, "# H", "H"),
        ({"title": None}, "> - quote\nx", "quote"),
        ({"title": 5}, "", "5"),
        ({}, "\n\n- first line\n", "first line"),
        ({}, "x" * 80, "x" * 49 + "…"),
        (
            {},
            "a first line of words that is longer than a title, so it is cut",
            "a first line of words that is longer than a…",
        ),
        ({}, "", "the-id"),
        ({}, "---\n***\n", "the-id"),
    ],
)
def test_title_comes_from_the_best_there_is(meta: dict[str, object], body: str, title: str) -> None:
    assert memory(meta, body).title == title


@pytest.mark.parametrize(
    "value, tags",
    [
        (None, ()),
        ("a", ("a",)),
        ("a, b ,,c", ("a", "b", "c")),
        (["a", " b ", "", None, 3], ("a", "b", "3")),
        (7, ("7",)),
        (["a, b"], ("a, b",)),
    ],
)
def test_tags_are_whatever_a_person_wrote(value: object, tags: tuple[str, ...]) -> None:
    assert memory({"tags": value, "related_to": value}).tags == tags
    assert memory({"tags": value, "related_to": value}).related_to == tags


def test_the_hash_is_of_the_bytes() -> None:
    one = memory({})._replace(data=b"x")
    assert one.hash == hashlib.sha256(b"x").hexdigest()
    assert memory({"a": 0}).text("a") == "0"
    assert memory({}).text("a") == ""


def test_what_several_answers_lack_is_added_up_and_said_once() -> None:
    found = Degraded.of([Degraded(2, ("a", "b")), Degraded(), Degraded(1, ("b",))])
    assert found == Degraded(3, ("a", "b"))
    assert not Degraded.of([])


def test_names_of_other_memories_are_read_however_they_are_written() -> None:
    memory = Memory("a", "", "", {"superseded_by": " memory:b ", "merged_from": "x, y"}, "")
    assert (memory.superseded_by, memory.merged_from) == ("b", ("x", "y"))
    assert Memory("a", "", "", {"superseded_by": ["c", "d"]}, "").superseded_by == "c"
    assert Memory("a", "", "", {"superseded_by": None}, "").superseded_by == ""


@pytest.mark.parametrize(
    "text, moment",
    [
        ("2026-11-15T18:00:00Z", "2026-11-15T18:00:00+00:00"),
        (" 2026-11-15T23:30:00-02:00 ", "2026-11-16T01:30:00+00:00"),
        ("2026-11-15 18:00", "2026-11-15T18:00:00+00:00"),
        ("2026-11-15", "2026-11-15T00:00:00+00:00"),
        *[(text, None) for text in ("", "unknown", "2026-13-45", "0001-01-01T00:00:00+14:00")],
    ],
)
def test_a_time_is_read_in_utc(text: str, moment: str | None) -> None:
    found = parse_time(text)
    assert (found and found.isoformat()) == moment
