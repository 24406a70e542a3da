"""What is mended in a record that is handed in."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.records.normalize import normalize, slugify
from retain.records.schema import ID

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

# A field of a whole record, what is handed in there, what comes out, what is said.
VERSION = ["schema_version: set to '1.0'"]
EMPTY = "tags: empty after dedup, set to ['untagged']"
MARKS = ["title: stripped control chars/index-injection markers"]
KEPT: dict[str, list[object]] = {
    "schema_version": [2.0, "2.0"],
    "id": [7, ""],
    "confidence": [float("-inf"), "inf", "nan", 10**400, "high", [], None],
    "title": [5, "a->b", "결정: JWT"],
    "tags": [["B", 3, None], None, {"a": 1}],
}
RULES: list[tuple[str, object, object, list[str]]] = [
    *(("schema_version", value, "1.0", VERSION) for value in (None, "", 1.0, 1)),
    ("updated_at", "", NOW, ["updated_at: set to current UTC"]),
    ("created_at", None, NOW, ["created_at: set to current UTC"]),
    ("id", "Use JWT!", "use-jwt", ["id: slugified 'Use JWT!' -> 'use-jwt'"]),
    ("id", "a\nb", "a-b", ["id: slugified 'a\\nb' -> 'a-b'"]),
    ("confidence", -0.1, 0.0, ["confidence: clamped to 0.0"]),
    ("confidence", "1.5", 1.0, ["confidence: clamped to 1.0"]),
    ("confidence", "0.7", 0.7, ["confidence: converted to 0.7"]),
    ("title", "  Use JWT\t", "Use JWT", ["title: stripped whitespace"]),
    ("title", "a\x00b\nc\x7fd\x85e", "ab cde", MARKS),
    ("title", "a -> -> b", "a - - b", MARKS),
    ("title", "a ->", "a -", MARKS),
    ("title", "a\u00a0->\u00a0b", "a - b", MARKS),
    ("title", "x #tags:evil", "x evil", MARKS),
    ("title", "x #ta#tags:gs:y", "x y", MARKS),
    ("title", "#ta\u200bgs:x", "x", MARKS),
    ("title", "-#tags:> x", "- x", MARKS),
    ("title", "one\u2028two\u2029three", "one two three", MARKS),
    ("title", "a\u202eb\u2066c\ufeffd\U000e0041e", "abcde", MARKS),
    ("tags", "auth", ["auth"], ["tags: wrapped string in array"]),
    ("tags", ["B", " a ", "b", "A"], ["a", "b"], []),
    ("tags", ["a,b", "c -> d", "#tags:e", "#Tags:f"], ["a b", "c d", "e", "f"], []),
    ("tags", ["a\x00\n\u200bb"], ["a b"], []),
    ("tags", ["", " ", ","], ["untagged"], [EMPTY]),
    ("tags", "", ["untagged"], ["tags: wrapped string in array", EMPTY]),
    ("tags", [f"t{n:02}" for n in range(14, 0, -1)], [f"t{n:02}" for n in range(1, 13)],
     ["tags: truncated to TAG_CAP (12)"]),
    # What has no one right answer is left for the check to name.
    *((field, value, value, []) for field, values in KEPT.items() for value in values),
]  # fmt: skip


@pytest.mark.parametrize("field, value, wanted, said", RULES)
def test_each_rule_mends_its_field_and_says_so(
    field: str, value: object, wanted: object, said: list[str]
) -> None:
    mended, notes = normalize({**WHOLE, field: value}, is_new=True, now=NOW)
    assert mended == {**WHOLE, field: wanted}
    assert notes == said


def test_nothing_but_what_has_one_answer_is_added() -> None:
    mended, notes = normalize({}, is_new=False, now=NOW)
    assert mended == {"schema_version": "1.0", "updated_at": NOW}
    assert notes == ["schema_version: set to '1.0'", "updated_at: set to current UTC"]


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
    assert not made or re.fullmatch(ID, made)


def test_the_id_of_a_text_without_latin_letters_is_its_own_however_it_is_composed() -> None:
    assert slugify("인증") == slugify(" \u110b\u1175\u11ab\u110c\u1173\u11bc ")  # decomposed
    assert slugify("Релиз 2") not in (slugify("Бюджет 2"), slugify("Релиз 3"))


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
    mended, _ = normalize(record, is_new=is_new, now=NOW)
    assert repr(record) == repr(before)  # repr: a NaN is not equal to itself
    again, notes = normalize(mended, is_new=is_new, now="later")
    assert notes == []
    assert repr(again) == repr(mended)


@given(st.text())
def test_every_text_that_is_not_blank_has_a_usable_id(text: str) -> None:
    slug = slugify(text)
    assert bool(slug) == bool(text.strip())
    assert not slug or re.fullmatch(ID, slug)
    assert slugify(slug) == slug
