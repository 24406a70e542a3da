"""What is mended in a record that is handed in."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.typed.fixing import CHANGES_CAP, ID_PATTERN, TAG_CAP, clean_title, fixed, slugify

NOW = "2026-05-08T12:00:00Z"
WHOLE = {
    "schema_version": "1.0",
    "id": "use-jwt",
    "title": "Use JWT",
    "created_at": NOW,
    "updated_at": NOW,
    "tags": ["auth"],
}
LONG = "a" * 79 + "-b-c"

# What is handed in beyond a whole record, what comes out, what is said.
RULES = [
    ({"schema_version": None}, {"schema_version": "1.0"}, ["schema_version: set to '1.0'"]),
    ({"schema_version": ""}, {"schema_version": "1.0"}, ["schema_version: set to '1.0'"]),
    ({"schema_version": 1.0}, {"schema_version": "1.0"}, ["schema_version: set to '1.0'"]),
    ({"schema_version": 1}, {"schema_version": "1.0"}, ["schema_version: set to '1.0'"]),
    ({"schema_version": 2.0}, {"schema_version": 2.0}, []),
    ({"schema_version": True}, {"schema_version": True}, []),
    ({"schema_version": "2.0"}, {"schema_version": "2.0"}, []),
    ({"updated_at": ""}, {"updated_at": NOW}, ["updated_at: set to current UTC"]),
    ({"created_at": None}, {"created_at": NOW}, ["created_at: set to current UTC"]),
    ({"tags": "auth"}, {"tags": ["auth"]}, ["tags: wrapped string in array"]),
    (
        {"id": "Use JWT!"},
        {"id": "use-jwt"},
        ["id: slugified 'Use JWT!' -> 'use-jwt'"],
    ),
    ({"id": " x "}, {"id": "x"}, ["id: slugified ' x ' -> 'x'"]),
    ({"id": "a\nb"}, {"id": "a-b"}, ["id: slugified 'a\\nb' -> 'a-b'"]),
    ({"id": 7}, {"id": 7}, []),
    ({"id": ""}, {"id": ""}, []),
    ({"confidence": -0.1}, {"confidence": 0.0}, ["confidence: clamped to 0.0"]),
    ({"confidence": 1.5}, {"confidence": 1.0}, ["confidence: clamped to 1.0"]),
    ({"confidence": "1.5"}, {"confidence": 1.0}, ["confidence: clamped to 1.0"]),
    ({"confidence": 10**400}, {"confidence": 1.0}, ["confidence: clamped to 1.0"]),
    ({"confidence": "-2"}, {"confidence": 0.0}, ["confidence: clamped to 0.0"]),
    ({"confidence": "0.7"}, {"confidence": 0.7}, ["confidence: converted to 0.7"]),
    ({"confidence": "1"}, {"confidence": 1.0}, ["confidence: converted to 1.0"]),
    ({"confidence": float("-inf")}, {"confidence": float("-inf")}, []),
    ({"confidence": "inf"}, {"confidence": "inf"}, []),
    ({"confidence": "1e999"}, {"confidence": "1e999"}, []),
    ({"confidence": "nan"}, {"confidence": "nan"}, []),
    ({"confidence": "high"}, {"confidence": "high"}, []),
    ({"confidence": []}, {"confidence": []}, []),
    ({"confidence": None}, {"confidence": None}, []),
    ({"title": "  Use JWT\t"}, {"title": "Use JWT"}, ["title: stripped whitespace"]),
    ({"title": 5}, {"title": 5}, []),
    ({"tags": ["B", " a ", "b", "A"]}, {"tags": ["a", "b"]}, []),
    ({"tags": ["a,b", "c -> d", "#tags:e", "#Tags:f"]}, {"tags": ["a b", "c d", "e", "f"]}, []),
    ({"tags": ["a\x00\n\u200bb"]}, {"tags": ["ab"]}, []),
    (
        {"tags": ["", " ", ","]},
        {"tags": ["untagged"]},
        ["tags: empty after dedup, set to ['untagged']"],
    ),
    (
        {"tags": ""},
        {"tags": ["untagged"]},
        ["tags: wrapped string in array", "tags: empty after dedup, set to ['untagged']"],
    ),
    (
        {"tags": [f"t{number:02}" for number in range(14, 0, -1)]},
        {"tags": [f"t{number:02}" for number in range(1, 13)]},
        ["tags: truncated to TAG_CAP (12)"],
    ),
    ({"tags": ["B", 3, None]}, {"tags": ["B", 3, None]}, []),
    ({"tags": None}, {"tags": None}, []),
    ({"tags": {"a": 1}}, {"tags": {"a": 1}}, []),
]


@pytest.mark.parametrize("given_, wanted, said", RULES, ids=[str(row[0])[:50] for row in RULES])
def test_each_rule_mends_its_field_and_says_so(
    given_: dict[str, Any], wanted: dict[str, Any], said: list[str]
) -> None:
    mended, notes = fixed({**WHOLE, **given_}, is_new=True, now=NOW)
    assert mended == {**WHOLE, **wanted}
    assert notes == said


def test_a_whole_record_is_left_alone() -> None:
    assert fixed(WHOLE, is_new=True, now=NOW) == (WHOLE, [])


def test_nothing_but_what_has_one_answer_is_added() -> None:
    mended, notes = fixed({}, is_new=False, now=NOW)
    assert mended == {"schema_version": "1.0", "updated_at": NOW}
    assert notes == ["schema_version: set to '1.0'", "updated_at: set to current UTC"]


def test_an_update_gets_no_time_of_creation() -> None:
    assert "created_at" not in fixed({}, is_new=False, now=NOW)[0]
    assert fixed({}, is_new=True, now=NOW)[0]["created_at"] == NOW


@pytest.mark.parametrize(
    "title, wanted",
    [
        ("a\x00b\nc\x7fd\x85e", "abcde"),
        ("a -> b", "a - b"),
        ("a -> -> b", "a - - b"),
        ("a ->", "a -"),
        ("a\u00a0->\u00a0b", "a\u00a0-\u00a0b"),
        ("a->b", "a->b"),
        ("x #tags:evil", "x evil"),
        ("x #ta#tags:gs:y", "x y"),
        ("#ta\u200bgs:x", "x"),
        ("-#tags:> x", "- x"),
        ("one\u2028two\u2029three", "onetwothree"),
        ("a\u202eb\u2066c\ufeffd\U000e0041e", "abcde"),
        ("결정: JWT", "결정: JWT"),
    ],
)
def test_a_title_stays_one_line_without_the_marks_of_the_index(title: str, wanted: str) -> None:
    mended, notes = fixed({**WHOLE, "title": title}, is_new=True, now=NOW)
    assert mended["title"] == wanted
    said = ["title: stripped control chars/index-injection markers"]
    assert notes == ([] if title == wanted else said)


def test_a_title_of_nested_markers_is_cleaned_in_one_pass() -> None:
    assert clean_title("#ta" * 100_000 + "#tags:" + "gs:" * 100_000) == ""


@pytest.mark.parametrize(
    "text, slug",
    [
        ("Use JWT for Auth!", "use-jwt-for-auth"),
        ("  Café — Ünïcode  ", "cafe-unicode"),
        ("ﬁne №5", "fine-no5"),
        ("JWT 사용", "jwt"),
        (LONG, "a" * 79),
        ("x" * 200, "x" * 80),
        ("", ""),
        (" \t\n", ""),
        ("인증 결정", "m-6c5ae8d90355"),
        ("\ud800", "m-"),
        ("Релиз 2", "m-"),
        ("リリース２", "m-"),
        ("Релиз v2", "v2"),
        ("2026-05", "2026-05"),
        ("№ 5 — 2 €", "no-5-2"),
        ("½ 2", "12-2"),
    ],
)
def test_an_id_is_made_of_a_text(text: str, slug: str) -> None:
    made = slugify(text)
    assert made.startswith(slug) if slug == "m-" else made == slug
    assert not made or ID_PATTERN.match(made)


def test_the_id_of_a_text_without_latin_letters_is_its_own_however_it_is_composed() -> None:
    assert slugify("인증") == slugify(" \u110b\u1175\u11ab\u110c\u1173\u11bc ")  # 인증, decomposed
    assert slugify("인증") != slugify("결정")
    assert slugify("Релиз 2") != slugify("Бюджет 2")
    assert slugify("Релиз 2") != slugify("Релиз 3")


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a b", "a\n", "a" * 81])
def test_what_is_no_id(text: str) -> None:
    assert not ID_PATTERN.match(text)


def test_the_caps_are_those_of_the_format() -> None:
    assert (TAG_CAP, CHANGES_CAP) == (12, 50)


def test_a_record_nested_beyond_reason_is_passed_on() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    names = ("title", "id", "content", "confidence", "schema_version", "changes")
    mended, notes = fixed(dict.fromkeys(names, deep), is_new=True, now=NOW)
    assert all(mended[name] is deep for name in names)
    assert len(notes) == 2
    while deep:  # taken apart by hand: freeing it at once would need as deep a stack
        deep = deep.pop()


TEXTS = st.text(st.sampled_from("aB1,-> #tags:\t\n\x00\u200b\u2028\u00a0İΣ결é"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | TEXTS,
    lambda inner: st.lists(inner, max_size=14) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=20,
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            "schema_version updated_at created_at confidence content changes".split(), VALUES
        ),
        "title": TEXTS | VALUES,
        "id": TEXTS | VALUES,
        "tags": TEXTS | st.lists(TEXTS, max_size=15) | VALUES,
    },
)


@given(RECORDS, st.booleans())
def test_whatever_is_handed_in_is_mended_once_and_never_altered(
    record: dict[str, Any], is_new: bool
) -> None:
    before = copy.deepcopy(record)
    mended, _ = fixed(record, is_new=is_new, now=NOW)
    assert repr(record) == repr(before)  # repr: a NaN is not equal to itself
    again, notes = fixed(mended, is_new=is_new, now="later")
    assert notes == []
    assert repr(again) == repr(mended)


@given(st.text())
def test_an_index_line_cannot_be_broken_by_a_title(text: str) -> None:
    title = clean_title(text)
    assert len(title.splitlines()) <= 1
    assert "#tags:" not in title
    assert "->" not in title.split()


@given(st.text())
def test_every_text_that_is_not_blank_has_a_usable_id(text: str) -> None:
    slug = slugify(text)
    assert bool(slug) == bool(text.strip())
    assert not slug or ID_PATTERN.match(slug)
    assert slugify(slug) == slug
