"""What only servers of OpenAI's protocol have: each its own way of keeping to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from retain import config
from retain.talk.events import (
    Ask,
    Finished,
    Text,
    Thought,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
)
from retain.talk.models import ModelError, model
from retain.talk.models.openai import _request
from tests.talk.models.sides import KEY, QUICK, SIDES, ask, heard, text_of
from tests.talk.servers import Answer, Server, Use, chat, chat_error, running

OPENAI = SIDES["openai"]


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def sent(server: Server, **more: object) -> Any:
    heard(OPENAI.at(server), ask(**more))  # type: ignore[arg-type]
    return server.asked[-1].body


def failure(server: Server) -> ModelError:
    with pytest.raises(ModelError) as caught:
        heard(OPENAI.at(server))
    return caught.value


def lines(*chunks: object) -> Answer:
    parts = [f"data: {json.dumps(one)}\n\n".encode() for one in chunks]
    return Answer((*parts, b"data: [DONE]\n\n"))


def chunk(delta: object, stop: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def test_a_conversation_has_the_shapes_of_the_protocol(server: Server) -> None:
    turns = (
        Turn("system", (Text("summary"),)),
        Turn("user", (Text("look"),)),
        Turn("assistant", (Thought("x", {}), Text("I look."), ToolUse("c1", "read", {"p": "ü"}))),
        Turn("user", (ToolResult("c1", "# A"), Text("and?"))),
    )
    body = sent(server, system=("rules", "", "recalled"), messages=turns)
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "read", "arguments": '{"p": "\\u00fc"}'},
    }
    assert body["messages"] == [
        {"role": "system", "content": "rules\n\n---\n\nrecalled"},
        {"role": "system", "content": "summary"},
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "# A"},
        {"role": "user", "content": "and?"},
    ]
    assert body["stream_options"] == {"include_usage": True}
    assert "max_tokens" not in body


def test_tools_have_the_shape_of_the_protocol(server: Server) -> None:
    schema = {"type": "object"}
    body = sent(server, tools=(ToolSpec("read", "Reads.", schema),))
    function = {"name": "read", "description": "Reads.", "parameters": schema}
    assert body["tools"] == [{"type": "function", "function": function}]


def test_openai_itself_is_told_the_length_under_its_new_name() -> None:
    asked = Ask((), (), max_tokens=9)
    assert _request("gpt-5", asked, is_official=True)["max_completion_tokens"] == 9
    assert _request("gpt-5", asked, is_official=False)["max_tokens"] == 9


def test_usage_is_estimated_where_a_server_sends_none(server: Server) -> None:
    server.says(chat("Four words or so.", usage={}))
    usage = heard(OPENAI.at(server), ask("x" * 400))[-2]
    assert isinstance(usage, Usage)
    assert usage.estimated
    assert usage.input >= 100
    assert usage.output >= 4


def test_cached_tokens_are_part_of_those_read(server: Server) -> None:
    details = {"cached_tokens": 64}
    used = {"prompt_tokens": 90, "completion_tokens": 5, "total_tokens": 95}
    server.says(chat("Yes.", usage={**used, "prompt_tokens_details": details}))
    assert Usage(90, 5, 64) in heard(OPENAI.at(server))


def test_calls_that_share_an_index_are_told_apart_by_their_ids(server: Server) -> None:
    def call(id_: str, text: str) -> dict[str, Any]:
        function = {"name": "read", "arguments": text}
        return chunk({"tool_calls": [{"index": 0, "id": id_, "function": function}]})

    server.says(lines(call("a", '{"n": 1}'), call("b", '{"n": 2}'), chunk({}, "stop")))
    events = heard(OPENAI.at(server))
    uses = [one for one in events if isinstance(one, ToolUse)]
    assert [(one.id, one.input) for one in uses] == [("a", {"n": 1}), ("b", {"n": 2})]
    assert events[-1] == Finished("tools"), "though the server says stop"


def test_calls_without_ids_are_given_some(server: Server) -> None:
    def call(index: int) -> dict[str, Any]:
        function = {"name": "read", "arguments": "{}"}
        return chunk({"tool_calls": [{"index": index, "function": function}]})

    server.says(lines(call(0), call(1), chunk({}, "tool_calls")))
    uses = [one for one in heard(OPENAI.at(server)) if isinstance(one, ToolUse)]
    assert len({one.id for one in uses}) == 2
    assert all(one.id for one in uses)


def test_a_refusal_in_words_is_shown_and_is_a_refusal(server: Server) -> None:
    server.says(lines(chunk({"refusal": "I will not."}), chunk({}, "stop")))
    events = heard(OPENAI.at(server))
    assert text_of(events) == "I will not."
    assert events[-1] == Finished("refused")


@pytest.mark.parametrize(
    "status, code, message",
    [
        (400, "context_length_exceeded", "anything"),
        (400, "400", "This model's maximum context length is 8192 tokens. However, you asked ..."),
        (400, "exceed_context_size_error", "the request exceeds the available context size"),
        (
            400,
            "",
            "Trying to keep the first 9000 tokens when context the overflows: too many tokens",
        ),
        (500, "", "input length exceeds the context length"),
        (413, "", "Payload too large"),
    ],
)
def test_a_context_that_is_full_is_recognised_in_every_dialect(
    server: Server, status: int, code: str, message: str
) -> None:
    server.says(chat_error(status, code, message))
    assert failure(server).kind == "too_long"


def test_words_about_a_context_are_no_verdict_by_themselves(server: Server) -> None:
    server.says(chat_error(400, "", "context must be a string"))
    assert failure(server).kind == "other"


def test_an_account_without_money_is_not_asked_again(server: Server) -> None:
    server.says(chat_error(429, "insufficient_quota", "You exceeded your current quota"))
    error = failure(server)
    assert error.kind == "other"
    assert "paid" in error.message
    assert len(server.asked) == 1


def test_an_error_within_a_stream_is_understood(server: Server) -> None:
    error = {"error": {"message": "the model crashed", "type": "server_error", "code": 500}}
    server.says(lines(chunk({"content": "Half"}), error))
    found = failure(server)
    assert found.kind == "broken_stream"
    assert "the model crashed" in found.message


def test_a_model_of_ones_own_needs_no_key_and_is_given_none(server: Server) -> None:
    env = {"RETAIN_CHAT_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": KEY}
    of = model("qwen3:8b", config.load("", "", env), env, policy=QUICK)
    assert (of.provider, of.name) == ("openai", "qwen3:8b")
    assert text_of(heard(of)) == "Done."
    assert server.asked[0].body["model"] == "qwen3:8b"
    assert KEY not in json.dumps(server.asked[0].headers)


def test_a_key_that_is_named_for_it_goes_there(server: Server) -> None:
    env = {
        "RETAIN_CHAT_BASE_URL": f"{server.url}/v1/",
        "RETAIN_CHAT_API_KEY_ENV": "MY_KEY",
        "MY_KEY": KEY,
    }
    heard(model("qwen3:8b", config.load("", "", env), env, policy=QUICK))
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_proxy_has_nothing_to_do_with_a_server_on_this_machine(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert text_of(heard(OPENAI.at(server))) == "Done."


def test_a_use_in_pieces_without_arguments_has_an_empty_input(server: Server) -> None:
    server.says(chat(Use("list")))
    (use,) = (one for one in heard(OPENAI.at(server)) if isinstance(one, ToolUse))
    assert use.input == {}


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 5, "completion_tokens": "b"},
        {"prompt_tokens": 5, "completion_tokens": 1e300},
        {"prompt_tokens": 5, "completion_tokens": 10**23},
        {"prompt_tokens": 5, "completion_tokens": -7},
        {"prompt_tokens": "abc", "completion_tokens": 3},
        {"prompt_tokens": float("inf"), "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": 3},
    ],
)
def test_numbers_that_cannot_be_right_are_estimated(server: Server, usage: object) -> None:
    server.says(lines({**chunk({"content": "Hello"}, "stop"), "usage": usage}))
    *_, used, end = heard(OPENAI.at(server))
    assert isinstance(used, Usage)
    assert used.estimated
    assert 0 < used.output < 10
    assert end == Finished("end")


def test_details_that_are_none_cost_only_themselves(server: Server) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": 5}
    server.says(lines({**chunk({"content": "Hello"}, "stop"), "usage": usage}))
    assert Usage(5, 1) in heard(OPENAI.at(server))


@pytest.mark.parametrize(
    "last",
    [
        {"delta": {"content": "x"}, "finish_reason": ["stop"]},
        {"delta": {"tool_calls": [{"index": 0, "id": 5, "function": {"name": "a"}}]}}
        | {"finish_reason": "stop"},
    ],
)
def test_an_end_that_makes_no_sense_is_said_in_one_line(
    server: Server, last: dict[str, object]
) -> None:
    server.says(lines({**chunk({}), "choices": [{"index": 0, **last}]}))
    error = failure(server)
    assert error.kind == "broken_stream"
    assert "cannot be understood" in error.message
