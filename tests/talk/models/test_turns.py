"""A conversation is mended before it is sent: no provider takes one with a loose end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retain.talk.events import Block, Role, Text, Thought, ToolResult, ToolUse, Turn
from retain.talk.models.turns import mended


def user(*blocks: Block) -> Turn:
    return Turn("user", blocks)


def said(*blocks: Block) -> Turn:
    return Turn("assistant", blocks)


HI = user(Text("hi"))
A, B = ToolUse("a", "read", {}), ToolUse("b", "read", {})


def test_a_whole_conversation_stays_as_it_is() -> None:
    turns = [HI, said(Text("I look."), A), user(ToolResult("a", "x")), said(Text("so"))]
    assert mended(turns, "m") == turns


def test_a_use_whose_result_never_came_is_given_one() -> None:
    _, _, last = mended([HI, said(A)], "m")
    (result,) = last.blocks
    assert isinstance(result, ToolResult)
    assert (result.id, result.is_error) == ("a", True)


def test_results_that_came_and_those_that_did_not_are_in_one_turn() -> None:
    turns = [HI, said(A, B), user(ToolResult("b", "x"), Text("go on")), said(Text("ok"))]
    found = mended(turns, "m")
    assert [turn.role for turn in found] == ["user", "assistant", "user", "assistant"]
    ids = [one.id for one in found[2].blocks if isinstance(one, ToolResult)]
    assert sorted(ids) == ["a", "b"]
    assert found[2].blocks[-1] == Text("go on")


def test_a_result_without_its_use_is_dropped() -> None:
    assert mended([user(ToolResult("a", "x")), HI], "m") == [HI]


def test_a_reply_at_the_beginning_is_dropped_with_its_results() -> None:
    assert mended([said(A), user(ToolResult("a", "x"), Text("hi"))], "m") == [HI]


def test_empty_texts_and_turns_are_dropped_and_neighbours_joined() -> None:
    turns = [HI, said(Text(" \n")), user(Text("still there?"))]
    assert mended(turns, "m") == [user(Text("hi"), Text("still there?"))]


BLOCKS = st.one_of(
    st.builds(Text, st.text(max_size=3)),
    st.builds(ToolUse, st.sampled_from("abc"), st.just("t"), st.just({})),
    st.builds(ToolResult, st.sampled_from("abc"), st.text(max_size=3)),
    st.builds(Thought, st.sampled_from(["m", "n"]), st.just({})),
)
ROLES: list[Role] = ["user", "assistant"]


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Turns as they come, except that uses are the model's, results are not, and ids differ."""
    turns = []
    for role in draw(st.lists(st.sampled_from(ROLES), max_size=6)):
        wrong = ToolResult if role == "assistant" else ToolUse
        drawn = draw(st.lists(BLOCKS, max_size=4, unique_by=lambda one: (type(one), one[0])))
        turns.append(Turn(role, tuple(one for one in drawn if not isinstance(one, wrong))))
    return turns


@given(conversations())
def test_any_conversation_becomes_one_that_is_taken(turns: list[Turn]) -> None:
    found = mended(turns, "m")
    for before, turn in zip([None, *found], found, strict=False):
        assert turn.blocks
        assert before is None or before.role != turn.role
        asked = {one.id for one in before.blocks if isinstance(one, ToolUse)} if before else set()
        results = [one.id for one in turn.blocks if isinstance(one, ToolResult)]
        assert set(results) == asked
        assert len(results) == len(asked)
        assert all(one.model == "m" for one in turn.blocks if isinstance(one, Thought))
        assert all(one.text.strip() for one in turn.blocks if isinstance(one, Text))
    if found:
        assert found[0].role == "user"
        assert not any(isinstance(one, ToolUse) for one in found[-1].blocks)
