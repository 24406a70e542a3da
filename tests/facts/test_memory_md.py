"""MEMORY.md as text: which lines are facts, and that nothing else is ever touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.facts.memory_md import is_showable, list_keys, parse, without
from tests.growth import grows_linearly

TEXTS = {
    "bullets": ("- a\n* b\n+ c\n", ["a", "b", "c"]),
    "more lines": ("- a\n  b\n- c\n\n  d\n", ["a\nb", "c"]),
    "nested": ("- a\n  - b\n    - c\n- d\n", ["a\n- b\n  - c", "d"]),
    "prose right below is not the bullet's": ("- a\nprose\n", ["a"]),
    "an indented list": ("  - a\n  - b\n", ["a", "b"]),
    "other lines": ("# T\n\ntext\n1. one\n> - q\n| - |\n", []),
    "to-do lists": ("- [ ] a\n- [x] b\n- [link](x) c\n", ["[link](x) c"]),
    "rules and empty bullets": ("---\ntext\n---\n- - -\n* * *\n-\n- \n", []),
    "frontmatter": ("---\ntags:\n- a\n---\n- b\n", ["b"]),
    "frontmatter after a mark": ("\ufeff---\ntags:\n- a\n---\n- b\n", ["b"]),
    "a mark before a bullet": ("\ufeff- a\n", ["a"]),
    "code": ("```\n- a\n```\n- b\n~~~\n- c\n~~~\n", ["b"]),
    "comments": ("<!--\n- a\n-->\n<!-- - b -->\n- c\n", ["c"]),
    "Windows": ("- a\r\n- b\r\n", ["a", "b"]),
    "no end of line": ("- a\n- b", ["a", "b"]),
}


@pytest.mark.parametrize("text, facts", TEXTS.values(), ids=TEXTS)
def test_bullets_are_facts(text: str, facts: list[str]) -> None:
    made = parse(text)
    assert [item.text for item in made.bullets] == facts
    assert "".join(made.lines) == text


@pytest.mark.parametrize(
    "text",
    ["<<<<<<< HEAD\n- a\n=======\n- b\n>>>>>>> x\n", "---\n- a\n", "```\n- a\n", "<!--\n- a\n"],
)
def test_what_is_not_closed_is_torn(text: str) -> None:
    assert parse(text).is_torn
    assert not parse("- a\n").is_torn


@pytest.mark.parametrize(
    "before, section, after",
    [
        ("", "", "# MEMORY.md - Persistent Memories\n\n## General Facts\n\n- new\n"),
        ("- a\n", "", "- a\n- new\n"),
        ("* a", "", "* a\n* new\n"),
        ("- a\n\nend\n", "", "- a\n- new\n\nend\n"),
        ("# T\n\n- a\n", "", "# T\n\n- a\n- new\n"),
        ("text\n", "", "text\n\n## General Facts\n\n- new\n"),
        ("text", "", "text\n\n## General Facts\n\n- new\n"),
        ("## Code\n\n- a\n", "", "## Code\n\n- a\n\n## General Facts\n\n- new\n"),
        ("## Code\n\n- a\n", "code", "## Code\n\n- a\n- new\n"),
        ("## general facts\n## Code\n- a\n", "", "## general facts\n\n- new\n\n## Code\n- a\n"),
        ("## Code\n\n## General Facts\n", "code", "## Code\n\n- new\n\n## General Facts\n"),
        ("- a\r\n", "", "- a\r\n- new\r\n"),
        (
            "## General Facts\n\n  indented\n",
            "",
            "## General Facts\n\n- new\n\n  indented\n",
        ),
        (
            "## General Facts\n\n\tcode\n\n## General Facts\n\n- a\n",
            "",
            "## General Facts\n\n\tcode\n\n## General Facts\n\n- a\n- new\n",
        ),
        ("\ufeff", "", "\ufeff# MEMORY.md - Persistent Memories\n\n## General Facts\n\n- new\n"),
    ],
)
def test_new_facts_go_to_the_section_that_fits(before: str, section: str, after: str) -> None:
    assert parse(before).edit({}, [], [("new", section)]) == after


def test_bullets_are_rewritten_and_dropped_in_their_place() -> None:
    made = parse("# T\n-  a\n   more\n\nprose\n* b\n* c\n")
    assert made.edit({0: "A\nB"}, [1], []) == "# T\n-  A\n   B\n\nprose\n* c\n"


@pytest.mark.parametrize(
    "text, is_it",
    [
        ("a fact", True),
        ("two\n\nparagraphs", False),
        ("- a list\n- of two", True),
        ("", False),
        ("[ ] to do", False),
        ("x" * 3000, False),
        ("a <!-- b", False),
        ("--", False),
        ("- -", False),
    ],
)
def test_what_cannot_be_read_back_is_not_shown(text: str, is_it: bool) -> None:
    assert is_showable(text) is is_it


def test_a_list_can_leave_out_what_another_shows() -> None:
    own = "# Mine\n\n- Jo drinks tea.\n- Jo rows\n  on Sundays\n```\n- code\n```\n"
    assert list_keys(own) == {"jo drinks tea", "jo rows on sundays"}
    theirs = "# Theirs\n\n- The API is in Go\n* jo drinks tea\n- Jo rows on\n  Sundays\n"
    assert without(theirs, list_keys(own)) == "# Theirs\n\n- The API is in Go\n"
    assert without(own, set()) is own


LINES = st.lists(
    st.sampled_from(
        ["- a", "- b b", "* c", "  more", "    - deep", "", "prose", "# H", "## General Facts"]
        + ["## X", "```", "<!-- x -->", "1. n", "- [ ] t", "---", "> q", "\t", "- é\u2028x"]
    ),
    max_size=12,
)


@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data())
def test_every_other_line_stays(
    lines: list[str], end: str, closed: bool, data: st.DataObject
) -> None:
    text = end.join(lines) + (end if closed else "")
    made = parse(text)
    assert "".join(made.lines) == text
    numbers = range(len(made.bullets))
    dropped = data.draw(st.sets(st.sampled_from(numbers)) if numbers else st.just(set()))
    rewritten = {n: "new text" for n in numbers if n not in dropped and n % 2}
    after = made.edit(rewritten, dropped, [("added", ""), ("more", "x")])
    inside = {n for item in made.bullets for n in range(item.first, item.end)}
    kept = [line.rstrip("\r\n") for n, line in enumerate(made.lines) if n not in inside]
    kept = [line for line in kept if line.strip() or not made.is_blank]
    rest = iter(after.replace("\r\n", "\n").split("\n"))
    assert all(line in rest for line in kept)  # all of them, in their order
    if not made.is_torn:
        texts = [item.text for item in parse(after).bullets]
        assert texts.count("added") == texts.count("more") == 1
        assert len(texts) == len(numbers) - len(dropped) + 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["- a\n", "- a\n\n", "  \n", "- ", "-", "<!--", "```\n", "#", "# ", "* * ", "\r", "\t"]
)
def test_long_files_take_time_in_proportion(piece: str) -> None:
    assert grows_linearly(parse, piece * (100_000 // len(piece)))
    assert grows_linearly(parse, "- a\n  " + piece * (100_000 // len(piece)))
