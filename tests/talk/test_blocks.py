"""Messages as they are kept and as a model is sent them: the same, whoever wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.sessions.model import Message
from retain.sessions.store import Sessions
from retain.talk import blocks
from retain.talk.events import Block, Text, Thought, ToolResult, ToolUse, Turn

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
INPUTS = st.dictionaries(st.text(max_size=10), JSON, max_size=3)
BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, st.text(min_size=1)),
    st.builds(ToolUse, st.text(min_size=1), st.text(), INPUTS, st.text()),
    st.builds(Thought, st.text(), INPUTS),
)
RESULTS: st.SearchStrategy[Block] = st.builds(
    ToolResult, st.text(min_size=1), st.text(), st.booleans()
)


def message(role: str, content: str = "", held: tuple[dict[str, object], ...] = ()) -> Message:
    return Message(1, "session_20260101_001", role, content, "", None, held)


@given(st.lists(BLOCKS, min_size=1, max_size=5))
def test_blocks_come_back_as_they_were(held: list[Block]) -> None:
    kept = json.loads(json.dumps(blocks.pack(held)))
    said = "".join(one.text for one in held if isinstance(one, Text))
    assert blocks.turn(message("assistant", said, tuple(kept))) == Turn("assistant", tuple(held))


@given(st.lists(RESULTS, min_size=1, max_size=5))
def test_results_come_back_as_they_were(held: list[Block]) -> None:
    kept = json.loads(json.dumps(blocks.pack(held)))
    assert blocks.turn(message("user", "", tuple(kept))) == Turn("user", tuple(held))


def test_a_model_is_told_what_a_person_can_read() -> None:
    use, result = ToolUse("t", "x", {}), ToolResult("t", "y")
    held = blocks.pack((Text("Obey."), use, result))
    assert blocks.turn(message("assistant", "Hello.", held)).blocks == (Text("Hello."), use)
    assert blocks.turn(message("assistant", "", held)).blocks == (use,)
    assert blocks.turn(message("user", "Hello.", held)).blocks == (result, Text("Hello."))
    thought = blocks.pack((Thought("m", {"thinking": "Obey."}),))
    assert blocks.turn(message("user", "Hello.", thought)).blocks == (Text("Hello."),)


def test_blocks_survive_the_database(tmp_path: Path) -> None:
    held = (
        Text("Ünïcode 🦭"),
        ToolUse("t1", "read_file", {"path": "a", "deep": [{"b": None}]}),
        Thought("claude", {"type": "thinking", "thinking": "hm", "signature": "x"}),
    )
    sessions = Sessions(str(tmp_path))
    name = sessions.create().id
    sessions.add(name, "assistant", "Ünïcode 🦭", blocks=blocks.pack(held))
    (kept,) = sessions.messages(name)
    assert blocks.turn(kept).blocks == held
    sessions.close()


def test_a_message_without_blocks_is_its_text() -> None:
    assert blocks.turn(message("user", "hi")) == Turn("user", (Text("hi"),))
    assert blocks.turn(message("assistant", "yes")) == Turn("assistant", (Text("yes"),))


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"type": "image", "data": "x"},
        {"type": "tool_use", "id": "t"},
        {"type": "tool_use", "id": "t", "name": "x", "input": 5},
        {"type": "tool_result"},
        {"type": "thought", "model": "m", "data": None},
        {"type": ["text"], "text": "x"},
    ],
)
def test_what_a_later_retain_kept_is_passed_over(held: dict[str, object]) -> None:
    assert blocks.turn(message("assistant", "text", (held,))).blocks == (Text("text"),)


def test_only_what_a_person_says_begins_a_conversation() -> None:
    assert blocks.begins(Turn("user", (Text("hi"),)))
    assert not blocks.begins(Turn("assistant", (Text("hi"),)))
    assert not blocks.begins(Turn("user", (ToolResult("t", "x"),)))
    assert not blocks.begins(Turn("user", (ToolResult("t", "x"), Text("hi"))))


@given(BLOCKS | RESULTS)
def test_every_block_has_a_size(held: Block) -> None:
    assert blocks.block_size(held) >= 0
    assert blocks.size(Turn("user", (held,))) == blocks.block_size(held) + 4


def test_numbers_that_json_does_not_have_are_not_sent_on() -> None:
    use = ToolUse("t", "read_file", {"limit": float("nan")})
    held = blocks.pack((use, Thought("m", {"weight": float("inf")})))
    assert blocks.turn(message("assistant", "", held)).blocks == (ToolUse("t", "read_file", {}),)
