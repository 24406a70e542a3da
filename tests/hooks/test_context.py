"""Memories in one fence: its shape, its budget, and that nothing in it gets out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.hooks.context import (
    MAX_CHARS,
    Entry,
    Part,
    clean_title,
    fence_parts,
)
from retain.text.sanitize import strip_invisible
from retain.text.sizes import count_tokens

FOOT = "</memory-context>"
ENTRY = Entry("decision", "Use JWT", ".claude/memory/decisions/use-jwt.json", ("b", "a"))


def inside(text: str) -> str:
    """What stands in the fence, which is the first line and the last."""
    head, *lines, foot = text.split("\n")
    assert re.fullmatch(r'<memory-context source="[^"<>]*"( [a-z]+="[^"<>]*")+>', head), head
    assert foot == FOOT
    return "\n".join(lines)


def test_an_entry_is_one_line_as_in_an_index_and_what_it_says_is_indented() -> None:
    entry = ENTRY._replace(text="# Use JWT\n\nFor every door.", about=("2026-05-08", "archived"))
    text, shown = fence_parts([Part("", [entry])], ".claude/memory/", 500)
    assert inside(text).split("\n") == [
        "- [DECISION] Use JWT -> .claude/memory/decisions/use-jwt.json #tags:a,b",
        "  2026-05-08 · archived: For every door.",
    ]
    assert shown == [entry]
    assert text.startswith('<memory-context source=".claude/memory/" note="')
    text, _ = fence_parts([Part("", [ENTRY])], "b/", 500, 'decision=what "we" <decided>')
    assert ' descriptions="decision=what &quot;we&quot; &lt;decided&gt;" ' in text.split("\n")[0]


LONG = ENTRY._replace(title="w" * 120, path="p" * 300)


@pytest.mark.parametrize(
    "parts, budget",
    [
        ([], 500),
        ([Part("Open work:", []), Part("")], 500),
        ([Part("USER.md:", text="\u200b\n ")], 500),
        ([Part("Constraints:", [LONG])], 120),
        ([Part("USER.md:", text="I am Ada."), Part("", [ENTRY])], 40),
        ([Part("", [ENTRY])], 0),
    ],
    ids=ascii,
)
def test_without_anything_to_say_or_room_there_is_no_fence(parts: list[Part], budget: int) -> None:
    assert fence_parts(parts, "b/", budget) == ("", [])


PIECES = [*'ab. \n\t\r#-<>&"é世', "\u200b", "\u2028", "</memory-context>", " -> ", "#tags:"]
ODD = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
ENTRIES = st.builds(
    Entry,
    type=ODD,
    title=ODD,
    path=ODD,
    tags=st.lists(ODD, max_size=3),
    text=ODD | st.integers(1, 900).map(lambda count: "w\n" * count),
    about=st.lists(ODD, max_size=2),
)
PARTS = st.builds(
    Part,
    heading=st.sampled_from(["", "Constraints:"]),
    entries=st.lists(ENTRIES, max_size=3),
    text=st.just("") | st.integers(1, 900).map(lambda count: "a\n" * count) | ODD,
)


@given(parts=st.lists(PARTS, max_size=3), budget=st.integers(0, 2000))
def test_whatever_is_shown_keeps_the_budget_and_the_fence(parts: list[Part], budget: int) -> None:
    text, shown = fence_parts(parts, "b/", budget)
    if not text:
        assert shown == []
        return
    assert count_tokens(text) <= budget
    assert len(text) <= MAX_CHARS
    said = inside(text)
    assert "<" not in said
    assert strip_invisible(text) == text
    entries = [line for line in said.split("\n") if line.startswith("- ")]
    assert len(entries) == len(shown)
    assert all(re.fullmatch(r"- \[.*\] .* -> .*", line) for line in entries)


@pytest.mark.parametrize(
    "given, wanted",
    [
        ("a -> b", "a - b"),
        ("a #tags:b", "a # tags:b"),
        ("a #ta#tags:gs:b", "a #ta# tags:gs:b"),
        ("a -#tags:> b", "a -# tags:&gt; b"),
        ("a\nb\tc\r\x00d", "a b cd"),
        ("\u202ea\u200bb\ufeff\U000e0041", "ab"),
        ("<b> & 'c' \"d\"", "&lt;b&gt; &amp; 'c' &quot;d&quot;"),
        ("x" * 200, "x" * 120),
        ("#ta" * 200_000 + "#tags:", "#ta" * 40),
    ],
    ids=ascii,
)
def test_a_title_is_one_line_that_nothing_ends(given: str, wanted: str) -> None:
    assert clean_title(given) == wanted


def test_an_entry_that_is_too_large_hides_no_other() -> None:
    many = Entry("journal", "Many", "a.md", ["x" * 900] * 50)
    text, shown = fence_parts([Part("", [many, Entry("journal", "Few", "b.md")])], ".retain/", 300)
    assert [one.title for one in shown] == ["Few"]
    assert "Few" in text
