"""Passages and differences as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.search.rank import query_terms
from retain.web import diff
from retain.web.diff import compare
from retain.web.rendering import part
from retain.web.snippets import excerpt, plain


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
    found = compare("\n".join(old), "\n".join(new))
    before, after = "\n".join(old).splitlines(), "\n".join(new).splitlines()
    hidden = sum(row.skipped for row in found.rows)
    assert len([1 for row in found.rows if row.old.number]) + hidden == len(before)
    assert len([1 for row in found.rows if row.new.number]) + hidden == len(after)
    assert not any("<i>" in row.old.text + row.new.text for row in found.rows)
    assert (found.removed + found.added == 0) == (before == after)


def test_what_is_too_large_differs_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = "a\nb\nc\nd\ne", "x\nb\nc\nd\ny"
    assert compare(old, new).removed == 2
    line = "tea is hot " * 50
    words = compare(f"{line}\n" * 9, f"{line}cold\n" * 9).rows
    assert words[0].new.text == f"{line}<ins>cold</ins>"
    monkeypatch.setattr(diff, "_MAX_LINES", 3)
    monkeypatch.setattr(diff, "_MAX_LINE_WORDS", 0)
    found = compare(old, new)
    assert (found.removed, found.added) == (5, 5)
    assert [row.old.text for row in found.rows] == [f"<del>{one}</del>" for one in "abcde"]


def test_more_lines_than_anyone_reads_are_counted() -> None:
    found = compare("x\n" * 20_000, "y\n" * 30_000)
    assert (found.removed, found.added) == (20_000, 30_000)
    assert found.rows[-1].kind == "more"
    assert len(found.rows) - 1 + found.rows[-1].skipped == 30_000
    assert "28000 more lines" in part("diff.html", {"diff": found})


def test_texts_that_differ_in_line_endings_are_not_said_to_be_the_same() -> None:
    for old, new in (("a\nb\n", "a\r\nb\r\n"), ("a\nb\n", "a\nb")):
        found = compare(old, new)
        assert found.removed == found.added == 0
        assert "differ only in how their lines end" in part("diff.html", {"diff": found})
    assert "Both are the same" in part("diff.html", {"diff": compare("a\n", "a\n")})


def test_marks_of_emphasis_are_not_shown_and_names_keep_their_underscores() -> None:
    text = "_Clear caches_ and *then* run clear_all_caches(2 * 3 * 4) for __init__ files."
    assert (
        plain(text) == "Clear caches and then run clear_all_caches(2 * 3 * 4) for __init__ files."
    )


def test_a_memory_that_says_no_more_than_its_title_has_no_passage() -> None:
    for text in ("# Port 8443.", "Port 8443.", "# Port 8443\n\n.", "...", "---"):
        assert excerpt(text, frozenset(), "Port 8443") == ""
