"""Proposals as one text: what a person does with it is understood, or refused with the line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.capture.edit_plan import ACTIONS, Step, compose, parse
from retain.capture.proposal import MAX_TEXT, Proposal
from retain.errors import Unreadable

ONE = Proposal("0" * 15 + "1", "decision", "Use Postgres", "Because.\n\nReally.")
TWO = Proposal("0" * 15 + "2", "preference", "Tabs", "Always.")


def plan(*proposals: Proposal) -> str:
    return compose(proposals, {one.id: "from a test" for one in proposals})


@given(
    st.lists(
        st.tuples(st.text(), st.text(), st.text()).map(
            lambda words: Proposal("", words[0] or "x", words[1] or "x", words[2] or "x")
        ),
        max_size=4,
    )
)
@example([ONE._replace(title="Tabs  "), TWO._replace(title="   ", category=" ", text=" \n\t")])
@example([ONE._replace(title="a\x1b[31mb\nc", text="x\x07\u202ey", category="dec\x1bision")])
def test_untouched_text_keeps_everything_and_acts_on_no_terminal(drawn: list[Proposal]) -> None:
    proposals = [one._replace(id=f"{number:016x}") for number, one in enumerate(drawn)]
    text = plan(*proposals)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert parse(text, proposals) == [Step("keep", one, one) for one in proposals]


@pytest.mark.parametrize("line", [f"=== drop {TWO.id}", "\\=== x", "\\\\=== x", "===", "===x"])
def test_text_that_looks_like_a_section_stays_text(line: str) -> None:
    one = ONE._replace(text=f"before\n{line}\nafter")
    text = plan(one, TWO).replace("before", "BEFORE")
    first, second = parse(text, [one, TWO])
    assert first.after.text == f"BEFORE\n{line}\nafter"
    assert second == Step("keep", TWO, TWO)


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_may_be_written_in_full_or_as_a_letter(action: str) -> None:
    for word in (action, action[0]):
        text = plan(ONE, TWO).replace(f"keep {ONE.id}", f"{word} {ONE.id}")
        assert [step.action for step in parse(text, [ONE, TWO])] == [action, "keep"]


def test_category_title_and_text_may_be_changed() -> None:
    text = plan(ONE).replace("decision", "constraint").replace("Use Postgres", "Use: MariaDB")
    text = text.replace("Really.", "Really so.\n\nAnd more.\n\n\n")
    said = "Because.\n\nReally so.\n\nAnd more."
    after = ONE._replace(category="constraint", title="Use: MariaDB", text=said)
    assert parse(text.replace("\n", "\r\n"), [ONE]) == [Step("keep", ONE, after)]


def test_section_that_is_taken_out_is_no_step() -> None:
    text = plan(ONE, TWO)
    cut = text[: text.index(f"=== keep {TWO.id}")]
    assert [step.before for step in parse(cut, [ONE, TWO])] == [ONE]
    for empty in ("", "\n\n", "# only\n# comments\n", "\ufeff"):
        assert parse(empty, [ONE]) == []


@pytest.mark.parametrize(
    "old, new, fault",
    [
        (f"keep {ONE.id}", f"merge {ONE.id}", "line 8: 'merge' is none of keep, accept, drop"),
        (f"keep {ONE.id}", "keep", "line 8: expected `=== ACTION ID`"),
        (f"keep {ONE.id}", "accept 00000000000000ff", "'00000000000000ff' was not opened"),
        (f"keep {TWO.id}", f"drop {ONE.id}", f"line 17: '{ONE.id}' was not opened, or is there"),
        ("title: Use Postgres", "title:", "line 8: it has no title"),
        ("category: decision", "category:", "line 8: it has no category"),
        ("Because.\n\nReally.", "", "line 8: it has no text"),
        ("title: Use Postgres", "title Use Postgres", "line 8: expected `=== ACTION ID`"),
        ("title: Use Postgres", "title: a\ntitle: b", "line 8: expected"),
        ("Because.", "=== oops", "line 13: expected `=== ACTION ID`"),
        ("# 2 proposals.", "2 proposals.", "text above the first section"),
        ("Really.", "x" * (MAX_TEXT + 1), f"more than {MAX_TEXT:,} characters"),
        ("=== keep", "=== frob", "line 8: 'frob' is none of keep, accept, drop\nline 17: 'frob'"),
    ],
)
def test_faults_are_named_with_their_lines(old: str, new: str, fault: str) -> None:
    with pytest.raises(Unreadable) as raised:
        parse(plan(ONE, TWO).replace(old, new), [ONE, TWO])
    assert fault in raised.value.message


def test_dropped_section_may_say_anything() -> None:
    text = plan(ONE).replace("=== keep", "=== d").replace("title: Use Postgres", "title:")
    assert parse(text, [ONE])[0].action == "drop"
