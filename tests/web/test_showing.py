"""Passages and differences as people read them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retain.web.comparing import compared
from retain.web.passages import excerpt, plain, terms


def test_every_form_of_a_word_is_marked_and_nothing_else() -> None:
    shown = excerpt("Brewed cold; brewing hot. The brewery is <b>shut</b>.", terms("how to brew"))
    assert "<mark>Brewed</mark> cold; <mark>brewing</mark> hot." in shown
    assert "&lt;b&gt;shut" in shown


def test_irregular_forms_and_scripts_without_spaces_are_marked() -> None:
    assert "<mark>went</mark>" in excerpt("They went home.", terms("going"))
    assert "<mark>数据</mark>" in excerpt("我们备份数据库。", terms("数据"))


def test_an_excerpt_is_taken_where_the_words_are() -> None:
    shown = excerpt(
        "x " * 500 + "the lantern of the harbour " + "y " * 500, terms("harbour lantern")
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


def test_marks_of_emphasis_are_not_shown_and_names_keep_their_underscores() -> None:
    text = "_Clear caches_ and *then* run clear_all_caches(2 * 3 * 4) for __init__ files."
    assert (
        plain(text) == "Clear caches and then run clear_all_caches(2 * 3 * 4) for __init__ files."
    )


def test_a_memory_that_says_no_more_than_its_title_has_no_passage() -> None:
    for text in ("# Port 8443.", "Port 8443.", "# Port 8443\n\n.", "...", "---"):
        assert excerpt(text, frozenset(), "Port 8443") == ""
