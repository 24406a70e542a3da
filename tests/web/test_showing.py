"""Passages and differences as people read them."""

from __future__ import annotations

import random
from difflib import Match, SequenceMatcher
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.search.rank import query_terms
from retain.web import comparing
from retain.web.comparing import compared
from retain.web.passages import excerpt, plain
from retain.web.rendering import part


def test_every_form_of_a_word_is_marked_and_nothing_else() -> None:
    shown = excerpt(
        "Brewed cold; brewing hot. The brewery is <b>shut</b>.", query_terms("how to brew")
    )
    assert "<mark>Brewed</mark> cold; <mark>brewing</mark> hot." in shown
    assert "&lt;b&gt;shut" in shown


def test_irregular_forms_and_scripts_without_spaces_are_marked() -> None:
    assert "<mark>went</mark>" in excerpt("They went home.", query_terms("going"))
    assert "<mark>数据</mark>" in excerpt("我们备份数据库。", query_terms("数据"))


def test_an_excerpt_is_taken_where_the_words_are() -> None:
    shown = excerpt(
        "x " * 500 + "the lantern of the harbour " + "y " * 500, query_terms("harbour lantern")
    )
    assert "<mark>lantern</mark>" in shown
    assert shown.startswith("…")
    assert len(shown) < 500


def test_a_title_is_not_said_twice() -> None:
    assert excerpt("# Tea\n\nHot.", frozenset(), "Tea") == "Hot."


LINES = st.lists(st.sampled_from(["", "a", "b", "a b", "<i>", "x & y"]), max_size=30)


@given(LINES, LINES)
def test_every_line_of_both_texts_is_shown_or_said_to_be_the_same(
    old: list[str], new: list[str]
) -> None:
    found = compared("\n".join(old), "\n".join(new))
    before, after = "\n".join(old).splitlines(), "\n".join(new).splitlines()
    hidden = sum(line.skipped for line in found.lines)
    assert len([1 for line in found.lines if line.old.number]) + hidden == len(before)
    assert len([1 for line in found.lines if line.new.number]) + hidden == len(after)
    assert not any("<i>" in line.old.text + line.new.text for line in found.lines)
    assert (found.removed + found.added == 0) == (before == after)


class Looks:
    """How often one word or line was looked for among others."""

    count = 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    search = SequenceMatcher.find_longest_match

    def counted(self: Any, alo: int, ahi: int, blo: int, bhi: int) -> Match:
        found.count += sum(len(self.b2j.get(one, ())) for one in self.a[alo:ahi])
        return search(self, alo, ahi, blo, bhi)

    monkeypatch.setattr(SequenceMatcher, "find_longest_match", counted)
    return found


MOST_LOOKS = 5_000_000  # under a second of a processor


def lines_of_few_words(lines: int) -> list[str]:
    dice = random.Random(1)
    return [
        " ".join(dice.choices("tea is a hot drink of leaves".split(), k=400)) for _ in range(lines)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 60])
def test_work_of_comparing_does_not_grow_with_what_is_compared(looks: Looks, lines: int) -> None:
    old = lines_of_few_words(lines)
    new = [line.replace("tea", "coffee", 3) for line in old]
    found = compared("\n".join(old), "\n".join(new))
    assert 0 < looks.count <= MOST_LOOKS
    assert found.removed == found.added == lines
    first, last = found.lines[0].new.text, found.lines[-1].new.text
    assert first.count("<ins>coffee</ins>") == 3  # its words are compared
    assert (last == f"<ins>{new[-1]}</ins>") == (lines > 1)  # and no longer those of the last


def test_lines_that_moved_are_not_looked_for_beyond_that(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "a\nb\nc\nd\ne", "x\nb\nc\nd\ny"
    assert compared(old, new).removed == 2
    monkeypatch.setattr(comparing, "_LOOKS", 3)
    found = compared(old, new)
    assert (found.removed, found.added) == (5, 5)
    assert [line.old.text for line in found.lines] == [f"<del>{one}</del>" for one in "abcde"]


def test_more_lines_than_anyone_reads_are_counted() -> None:
    found = compared("x\n" * 20_000, "y\n" * 30_000)
    assert (found.removed, found.added) == (20_000, 30_000)
    assert found.lines[-1].kind == "more"
    assert len(found.lines) - 1 + found.lines[-1].skipped == 30_000
    assert "28000 more lines" in part("compared.html", {"compared": found})


def test_texts_that_differ_in_line_endings_are_not_said_to_be_the_same() -> None:
    for old, new in (("a\nb\n", "a\r\nb\r\n"), ("a\nb\n", "a\nb")):
        found = compared(old, new)
        assert found.removed == found.added == 0
        assert "differ only in how their lines end" in part("compared.html", {"compared": found})
    assert "Both are the same" in part("compared.html", {"compared": compared("a\n", "a\n")})


def test_marks_of_emphasis_are_not_shown_and_names_keep_their_underscores() -> None:
    text = "_Clear caches_ and *then* run clear_all_caches(2 * 3 * 4) for __init__ files."
    assert (
        plain(text) == "Clear caches and then run clear_all_caches(2 * 3 * 4) for __init__ files."
    )


def test_a_memory_that_says_no_more_than_its_title_has_no_passage() -> None:
    for text in ("# Port 8443.", "Port 8443.", "# Port 8443\n\n.", "...", "---"):
        assert excerpt(text, frozenset(), "Port 8443") == ""
