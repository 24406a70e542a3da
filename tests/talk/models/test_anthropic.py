"""What only Anthropic's protocol has: the cache, thoughts that go back, errors within a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from retain.talk.events import (
    Finished,
    Retrying,
    Text,
    Thought,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
)
from retain.talk.models import ModelError
from tests.talk import servers
from tests.talk.models.sides import SIDES, ask, heard, text_of
from tests.talk.servers import Answer, Server, claude, running

CLAUDE = SIDES["anthropic"]
MARK = {"type": "ephemeral"}


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def sent(server: Server, **more: object) -> Any:
    heard(CLAUDE.at(server), ask(**more))  # type: ignore[arg-type]
    return server.asked[-1].body


@pytest.mark.slow
def test_the_stable_part_of_the_prompt_is_cached_and_the_rest_is_not(server: Server) -> None:
    body = sent(server, system=("rules", "profile", "", "recalled today"), stable=2)
    assert body["system"] == [
        {"type": "text", "text": "rules\n\n---\n\nprofile", "cache_control": MARK},
        {"type": "text", "text": "---\n\nrecalled today"},
    ]


def test_a_prompt_without_a_stable_part_has_no_mark(server: Server) -> None:
    body = sent(server, system=("recalled",), stable=0)
    assert body["system"] == [{"type": "text", "text": "recalled"}]
    assert "system" not in sent(server, system=())


def test_messages_are_marked_for_the_cache_before_what_is_sent_only_once(server: Server) -> None:
    words = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", "e")]
    body = sent(server, messages=tuple(Turn(role, (Text(text),)) for role, text in words))  # type: ignore[arg-type]
    marked = ["cache_control" in message["content"][-1] for message in body["messages"]]
    assert marked == [False, True, False, True, True]
    marks = json.dumps(body).count("cache_control")
    assert marks == 4
    assert marks <= 4, "the API takes no more"


def test_thoughts_go_back_to_the_model_they_came_from_in_their_place(server: Server) -> None:
    server.says(claude(servers.Thought("hm", "sig"), servers.Use("t"), servers.Thought("", "s2")))
    events = heard(CLAUDE.at(server))
    blocks = [one for one in events if isinstance(one, Thought | ToolUse)]
    first, use, second = blocks
    assert isinstance(first, Thought)
    assert isinstance(use, ToolUse)
    assert first.data == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    turns = (
        Turn("user", (Text("hi"),)),
        Turn("assistant", (first, use, second)),
        Turn("user", (ToolResult(use.id, "ok"), Text("and?"))),
    )
    content = sent(server, messages=turns)["messages"][1]["content"]
    assert [one["type"] for one in content] == ["thinking", "tool_use", "thinking"]
    assert content[0] == first.data
    assert "cache_control" in content[1]


def test_the_thoughts_of_another_model_are_left_out(server: Server) -> None:
    data = {"type": "thinking", "thinking": "", "signature": "x"}
    turns = (
        Turn("user", (Text("hi"),)),
        Turn("assistant", (Thought("claude-opus-5-5", data), Text("yes"))),
        Turn("user", (Text("so?"),)),
    )
    content = sent(server, messages=turns)["messages"][1]["content"]
    assert [one["type"] for one in content] == ["text"]


def test_tools_and_results_have_the_shapes_of_the_api(server: Server) -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    turns = (
        Turn("user", (Text("look"),)),
        Turn("assistant", (ToolUse("call:1", "read_file", {"path": "a"}),)),
        Turn("user", (ToolResult("call:1", "", is_error=True),)),
    )
    body = sent(server, messages=turns, tools=(ToolSpec("read_file", "Reads.", schema),))
    assert body["tools"] == [{"name": "read_file", "description": "Reads.", "input_schema": schema}]
    (use,) = body["messages"][1]["content"]
    (result,) = body["messages"][2]["content"]
    assert use["id"] == result["tool_use_id"] == "call_1"
    assert result["is_error"] is True
    assert result["content"]


def test_what_the_summary_of_a_conversation_says_is_no_role_of_its_own(server: Server) -> None:
    turns = (Turn("system", (Text("summary"),)), Turn("user", (Text("go on"),)))
    (message,) = sent(server, messages=turns)["messages"]
    assert message["role"] == "user"
    assert [one["text"] for one in message["content"]] == ["summary", "go on"]


def test_a_reply_has_room_even_where_none_is_set(server: Server) -> None:
    assert sent(server)["max_tokens"] == 16_000


def test_what_was_read_from_the_cache_counts_as_read(server: Server) -> None:
    usage = {"cache_read_input_tokens": 900, "cache_creation_input_tokens": 50, "output_tokens": 7}
    server.says(claude("Yes.", usage=usage))
    assert Usage(1050, 7, 900) in heard(CLAUDE.at(server))


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def error_event(kind: str) -> bytes:
    return event("error", error={"type": kind, "message": "Overloaded"})


def test_an_overload_before_the_first_word_is_tried_again(server: Server) -> None:
    start = claude("x", keep=2).parts
    server.says(Answer((*start, error_event("overloaded_error"))), claude("Yes."))
    events = heard(CLAUDE.at(server))
    assert isinstance(events[0], Retrying)
    assert "overloaded" in events[0].why
    assert text_of(events) == "Yes."


def test_an_overload_within_a_reply_breaks_it(server: Server) -> None:
    start = claude("Half a reply", keep=5).parts
    server.says(Answer((*start, error_event("overloaded_error"))))
    with pytest.raises(ModelError) as caught:
        heard(CLAUDE.at(server))
    assert caught.value.kind == "broken_stream"
    assert "overloaded" in caught.value.message
    assert len(server.asked) == 1


def test_a_context_that_fills_up_ends_the_reply(server: Server) -> None:
    server.says(claude("Half", stop="model_context_window_exceeded"))
    assert heard(CLAUDE.at(server))[-1] == Finished("length")


def test_events_and_blocks_of_later_versions_are_passed_over(server: Server) -> None:
    whole = claude("Yes.").parts
    block = {"type": "hologram", "shape": "cube"}
    later = [
        event("brand_new", x=1),
        event("content_block_start", index=7, content_block=block),
        event("content_block_delta", index=7, delta={"type": "hologram_delta", "more": 1}),
        event("content_block_stop", index=7),
    ]
    server.says(Answer((*whole[:2], *later, *whole[2:])))
    events = heard(CLAUDE.at(server))
    assert text_of(events) == "Yes."
    assert events[-1] == Finished("end")
