"""What every model does, held against each provider's real package and its real protocol."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from retain.talk.events import (
    Finished,
    Retrying,
    Text,
    TextDelta,
    Thinking,
    ToolResult,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
)
from retain.talk.models import ModelError, RetryPolicy
from tests.talk.models.sides import KEY, QUICK, SIDES, Side, ask, heard, text_of
from tests.talk.servers import Answer, Server, Thought, Use, chopped, running

READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {}})


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest) -> Side:
    return SIDES[request.param]


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


def failure(side: Side, server: Server | str, policy: RetryPolicy = QUICK) -> ModelError:
    with pytest.raises(ModelError) as caught:
        heard(side.at(server, policy))
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert KEY not in repr(caught.value) + caught.value.message + caught.value.hint
    return caught.value


def test_a_reply_comes_in_pieces_with_its_usage_and_its_end(side: Side, server: Server) -> None:
    server.says(side.says("Hello there, Ada."))
    events = heard(side.at(server))
    deltas = [one for one in events if isinstance(one, TextDelta)]
    assert len(deltas) > 2
    assert text_of(events) == "Hello there, Ada."
    assert events[-2:] == [Usage(100, 10), Finished("end")]


def test_the_request_names_model_prompt_and_tools(side: Side, server: Server) -> None:
    heard(side.at(server), ask("what is up?", tools=(READ,), max_tokens=77))
    (asked,) = server.asked
    assert asked.path == side.path
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["model"] == side.name
    assert asked.body["stream"] is True
    assert asked.body["max_tokens"] == 77
    assert asked.last == "what is up?"
    assert asked.tools == ["read_file"]


def test_several_tools_in_one_reply_with_their_json_in_pieces(side: Side, server: Server) -> None:
    first = {"path": "a/ü.md", "lines": [1, 2], "deep": {"x": None}}
    server.says(side.says("Let me look.", Use("read_file", first), Use("read_file", {}, "id-2")))
    events = heard(side.at(server), ask(tools=(READ,)))
    one, two = (event for event in events if isinstance(event, ToolUse))
    assert (one.name, one.input, one.broken) == ("read_file", first, "")
    assert (two.id, two.input) == ("id-2", {})
    assert one.id != two.id
    assert events[-1] == Finished("tools")


def test_a_tools_input_that_is_no_json_is_said_to_be_broken(side: Side, server: Server) -> None:
    server.says(side.says(Use("read_file", text='{"path": oops')))
    events = heard(side.at(server))
    (use,) = (event for event in events if isinstance(event, ToolUse))
    assert use.input == {}
    assert use.broken == '{"path": oops'


def test_a_reply_that_got_too_long_says_so_and_uses_no_half_a_tool(
    side: Side, server: Server
) -> None:
    stop = "max_tokens" if side.provider == "anthropic" else "length"
    server.says(side.says("Well", Use("write_file", text='{"path": "a.m'), stop=stop))
    events = heard(side.at(server))
    assert not [event for event in events if isinstance(event, ToolUse)]
    assert events[-1] == Finished("length")


def test_a_refusal_is_an_end_of_its_own(side: Side, server: Server) -> None:
    stop = "refusal" if side.provider == "anthropic" else "content_filter"
    server.says(side.says("I", stop=stop))
    assert heard(side.at(server))[-1] == Finished("refused")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_characters_survive_wherever_the_bytes_are_cut(
    side: Side, server: Server, size: int
) -> None:
    text = "Grüße, 世界 👩‍💻! \u2028 é"
    server.says(chopped(side.says(text), size))
    assert text_of(heard(side.at(server))) == text


def test_thinking_is_shown_and_is_no_part_of_the_reply(side: Side, server: Server) -> None:
    server.says(side.says(Thought("hmm, let me see"), "Yes."))
    events = heard(side.at(server))
    assert "".join(e.text for e in events if isinstance(e, Thinking)) == "hmm, let me see"
    assert text_of(events) == "Yes."


def test_a_conversation_with_tools_is_sent_back_whole(side: Side, server: Server) -> None:
    use = ToolUse("call_1", "read_file", {"path": "a.md"})
    turns = (
        Turn("user", (Text("look"),)),
        Turn("assistant", (Text("I look."), use)),
        Turn("user", (ToolResult("call_1", "# A"), Text("and?"))),
    )
    heard(side.at(server), ask(messages=turns))
    text = server.asked[0].text
    for part in ("look", "I look.", "# A", "and?"):
        assert part in text


def test_a_rejected_key_is_said_with_its_variable_and_never_shown(
    side: Side, server: Server
) -> None:
    server.says(side.error(401, "authentication_error", f"invalid key {KEY}"))
    error = failure(side, server)
    assert error.kind == "bad_key"
    assert "_API_KEY" in error.message
    assert len(server.asked) == 1


def test_a_rate_limit_is_waited_for_and_shown(side: Side, server: Server) -> None:
    limited = side.error(429, "rate_limit_error", "slow down", retry_after="0.01")
    server.says(limited, limited, side.says("There."))
    events = heard(side.at(server))
    retries = [one for one in events if isinstance(one, Retrying)]
    assert [one.seconds for one in retries] == [0.01, 0.01]
    assert "too many requests" in retries[0].why
    assert text_of(events) == "There."
    assert len(server.asked) == 3


def test_a_wait_of_minutes_is_left_to_the_person(side: Side, server: Server) -> None:
    server.says(side.error(429, "rate_limit_error", "slow down", retry_after="600"))
    error = failure(side, server)
    assert (error.kind, error.retry_after) == ("rate_limited", 600)
    assert "600 seconds" in error.message


@pytest.mark.parametrize("status, kind", [(529, "overloaded"), (503, "overloaded"), (500, "other")])
def test_a_server_in_trouble_is_asked_again_and_then_given_up(
    side: Side, server: Server, status: int, kind: str
) -> None:
    name = "overloaded_error" if kind == "overloaded" else "api_error"
    server.says(*[side.error(status, name, "Try later")] * 4)
    assert failure(side, server).kind == kind
    assert len(server.asked) == 4
    server.says(side.error(status, name, "Try later"))
    assert text_of(heard(side.at(server))) == "Done."


def test_a_web_page_in_place_of_an_error_is_not_shown(side: Side, server: Server) -> None:
    page = Answer((b"<html><h1>Bad gateway</h1></html>",), 502, "text/html")
    server.says(*[page] * 4)
    error = failure(side, server)
    assert error.message == f"127.0.0.1:{server.port} failed (502)"
    assert len(server.asked) == 4


def test_a_conversation_that_is_too_long_is_recognised(side: Side, server: Server) -> None:
    server.says(side.too_long)
    error = failure(side, server)
    assert error.kind == "too_long"
    assert "/compact" in error.hint
    assert len(server.asked) == 1


def test_a_model_that_is_not_there_is_named(side: Side, server: Server) -> None:
    server.says(side.error(404, "not_found_error", "no such model"))
    error = failure(side, server)
    assert error.kind == "other"
    assert side.name in error.message


def test_a_redirect_is_not_followed(side: Side, server: Server) -> None:
    server.says(Answer((b"moved",), 307, "text/plain", {"Location": f"{server.url}/elsewhere"}))
    assert "redirects" in failure(side, server).message
    assert len(server.asked) == 1


def test_what_a_server_says_cannot_act_on_a_terminal(side: Side, server: Server) -> None:
    words = f"bad\n\x1b]52;c;eA==\x07 request {KEY}"
    server.says(side.error(400, "invalid_request_error", words))
    error = failure(side, server)
    assert "\x1b" not in error.message
    assert "request [key]" in error.message


def test_a_stream_that_breaks_off_is_not_repeated_and_keeps_what_came(
    side: Side, server: Server
) -> None:
    server.says(side.says("Half of a long reply", keep=5, ending="cut"))
    error = failure(side, server)
    assert error.kind == "broken_stream"
    assert len(server.asked) == 1


def test_a_stream_that_ends_early_in_good_order_is_broken_as_well(
    side: Side, server: Server
) -> None:
    server.says(side.says("Half of a long reply", keep=5))
    error = failure(side, server)
    assert error.kind == "broken_stream"


def test_a_connection_cut_before_the_first_word_is_tried_again(side: Side, server: Server) -> None:
    server.says(side.says(keep=0, ending="cut"), Answer(status=0, ending="cut"), side.says("Yes."))
    events = heard(side.at(server))
    assert sum(isinstance(one, Retrying) for one in events) == 2
    assert text_of(events) == "Yes."


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>It works!</html>",
        b"event: message_start\ndata: {oops\n\n",
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 9}\n\n',
        b'event: message_start\ndata: {"type": "message_start", "message": 5}\n\n',
        b"event: message_start\ndata: [1, 2]\n\n",
        b'data: {"choices": 7}\n\n',
        b'data: {"choices": [{"delta": {"tool_calls": [3]}}]}\n\n',
        b"event: x\ndata: \xff\xfe\n\n",
        b"\x00" * 100,
        b"",
    ],
)
def test_garbage_is_an_error_of_one_line(side: Side, server: Server, garbage: bytes) -> None:
    server.says(Answer((garbage,) if garbage else ()))
    assert failure(side, server).kind == "broken_stream"


def test_a_server_that_says_nothing_is_given_up(side: Side, server: Server) -> None:
    server.says(Answer(status=0, ending="hang"))
    error = failure(side, server, policy=RetryPolicy(pauses=(0,), read=0.2))
    assert error.kind == "overloaded"
    assert "nothing came" in error.message
    assert len(server.asked) <= 1, "it is not asked again"


def test_a_stream_that_falls_silent_is_broken(side: Side, server: Server) -> None:
    server.says(side.says("Half of a long reply", keep=5, ending="hang"))
    error = failure(side, server, policy=RetryPolicy(pauses=(0,), read=2))
    assert error.kind == "broken_stream"
    assert server.gone.wait(60)


def test_a_port_where_nobody_listens_is_no_network(side: Side) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = failure(side, url)
    assert error.kind == "no_network"
    assert url.removeprefix("http://") in error.message


def test_a_closed_stream_leaves_no_connection(side: Side, server: Server) -> None:
    server.says(side.says("One two three four", keep=5, ending="hang"))

    async def first() -> str:
        async with aclosing(side.at(server).stream(ask())) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    return event.text
        return ""

    async def both() -> None:
        assert await first()
        assert await asyncio.to_thread(server.gone.wait, 10)

    asyncio.run(both())


def test_a_cancelled_task_leaves_no_connection(side: Side, server: Server) -> None:
    server.says(Answer(status=0, ending="hang"))

    async def begin() -> None:
        task = asyncio.create_task(_drain(side, server))
        while not server.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.gone.wait, 10)

    asyncio.run(begin())


async def _drain(side: Side, server: Server) -> None:
    async for _ in side.at(server).stream(ask()):
        pass


def test_closing_while_it_waits_asks_no_more(side: Side, server: Server) -> None:
    server.says(side.error(529, "overloaded_error", "later"))

    async def stop() -> None:
        async with aclosing(side.at(server, RetryPolicy(pauses=(50,))).stream(ask())) as events:
            async for event in events:
                assert isinstance(event, Retrying)
                return

    asyncio.run(stop())
    assert len(server.asked) == 1


def test_the_same_model_serves_one_loop_after_another(side: Side, server: Server) -> None:
    of = side.at(server)
    assert [text_of(heard(of)), text_of(heard(of))] == ["Done.", "Done."]


def test_two_replies_at_once_do_not_mix(side: Side, server: Server) -> None:
    server.hears("first", side.says("1" * 40))
    server.hears("second", side.says("2" * 40))
    of = side.at(server)

    async def one(text: str) -> str:
        return "".join([e.text async for e in of.stream(ask(text)) if isinstance(e, TextDelta)])

    async def both() -> list[str]:
        return list(await asyncio.gather(one("first"), one("second")))

    assert asyncio.run(both()) == ["1" * 40, "2" * 40]


def test_the_server_is_asked_which_models_it_has(side: Side, server: Server) -> None:
    assert asyncio.run(side.at(server).offered()) == ["model-a", "model-b"]


def test_text_that_cannot_be_encoded_is_sent_all_the_same(side: Side, server: Server) -> None:
    heard(side.at(server), ask("a\udcff b", system=("sys \ud800",)))
    assert server.asked[0].last == "a? b"


def test_the_key_is_in_no_repr(side: Side) -> None:
    of = side.at("http://127.0.0.1:1")
    assert KEY not in repr(of)
    assert all(KEY not in repr(value) for value in vars(of).values())


NO_NETWORK = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a connection was made")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from retain import config
from retain.talk.models import model
env = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}
of = [model(name, config.load("", "", env), env) for name in ("claude-sonnet-5-5", "gpt-5")]
loaded = {"anthropic", "openai", "httpx2", "pydantic", "asyncio"} & set(sys.modules)
import asyncio
for one in of:
    asyncio.run(one.prepare())
    one._client()
print(sorted(loaded - {"asyncio"}))
"""


@pytest.mark.slow
def test_making_a_model_connects_to_nobody_and_loads_no_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_NETWORK], check=True, capture_output=True, encoding="utf-8"
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_have_break_only_the_call(
    side: Side, server: Server, number: str
) -> None:
    text = f'{{"path": "x", "limit": {number}}}'
    server.says(side.says(Use("read_file", text=text)))
    (use,) = (one for one in heard(side.at(server)) if isinstance(one, ToolUse))
    assert (use.input, use.broken) == ({}, text)


def test_an_id_that_is_a_secret_is_replaced(side: Side, server: Server) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    server.says(side.says(Use("read_file", {}, secret), Use("read_file", {}, "id-2")))
    one, two = (event for event in heard(side.at(server)) if isinstance(event, ToolUse))
    assert one.id
    assert secret not in one.id
    assert two.id == "id-2"


def test_names_that_a_model_made_up_are_sent_as_a_provider_takes_them(
    side: Side, server: Server
) -> None:
    used = Turn("assistant", (ToolUse("1", "re ad/[x]" * 30, {}),))
    messages = (Turn("user", (Text("hi"),)), used, Turn("user", (ToolResult("1", "no"),)))
    heard(side.at(server), ask()._replace(messages=messages))
    sent = server.asked[-1].body["messages"][-2]
    name = (sent["content"] if side.provider == "anthropic" else sent["tool_calls"])[-1]
    name = name.get("function", name)["name"]
    assert name.startswith("re_ad__x_re_ad")
    assert len(name) == 64
