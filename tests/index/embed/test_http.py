"""A model behind an address: whatever comes back is a right answer or a clear error."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from retain.index.embed import EmbedderError, embedder, http
from retain.index.embed.http import RemoteModel
from tests.index.embed import server
from tests.index.embed.server import Answer, Asked, Server

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def running() -> Iterator[Server]:
    with server.running() as one:
        yield one


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_PAUSES", (0.01, 0.01))


def model(running: Server, **options: Any) -> RemoteModel:
    return RemoteModel(running.base, "small", **options)


def refused(one: RemoteModel, texts: list[str] | None = None) -> EmbedderError:
    with pytest.raises(EmbedderError) as caught:
        one.embed(["tea", "rain"] if texts is None else texts)
    assert caught.value.hint
    return caught.value


def unit(texts: list[str]) -> np.ndarray:
    vectors = np.array([server.vector(text) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def listed(vectors: list[Any]) -> Answer:
    data = [{"index": n, "embedding": one} for n, one in enumerate(vectors)]
    return Answer(body=json.dumps({"data": data}))


# What is sent


def test_texts_are_sent_in_batches_and_vectors_come_back_in_their_order(running: Server) -> None:
    texts = [f"note {n}" for n in range(130)]
    vectors = model(running).embed(texts)
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(unit(texts), abs=1e-6)
    assert [len(asked.body["input"]) for asked in running.asked] == [64, 64, 2]
    assert running.asked[2].body == {"model": "small", "input": texts[128:]}


def test_the_key_is_sent_only_where_there_is_one(running: Server) -> None:
    model(running, api_key=f" {KEY}\n").query("tea")
    model(running).query("tea")
    assert running.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in running.asked[1].headers


def test_no_text_is_sent_empty_or_without_end(running: Server) -> None:
    model(running).embed(["", "tea" * 10_000, "\ud800"])
    sent = running.asked[0].body["input"]
    assert (sent[0], len(sent[1]), sent[2]) == (" ", 8_000, "?")


@pytest.mark.parametrize(
    "address, path",
    [
        ("/v1", "/v1/embeddings"), ("/v1/", "/v1/embeddings"),
        ("/v1/embeddings", "/v1/embeddings"), ("", "/v1/embeddings"), ("/", "/v1/embeddings"),
        ("/openai/v1?version=2", "/openai/v1/embeddings?version=2"),
    ],
)  # fmt: skip
def test_an_address_may_be_that_of_the_api_or_of_the_embeddings(
    address: str, path: str, running: Server
) -> None:
    RemoteModel(f"http://127.0.0.1:{running.port}{address}", "small").query("tea")
    assert running.asked[0].path == path


def test_the_name_is_known_and_the_dimension_is_asked_for_once(running: Server) -> None:
    one = model(running)
    assert one.name == f"openai:127.0.0.1:{running.port}/small"
    assert RemoteModel("https://api.example.com/v1", "m").name == "openai:api.example.com/m"
    assert running.asked == []
    assert one.dimension == one.dimension == server.DIMENSION
    assert len(running.asked) == 1


@pytest.mark.parametrize(
    "address",
    [
        "http://", "http:///v1", "http://host:port/v1", "http://host:99999/v1", "http://[::1/v1",
        "http://ho st/v1", "https://user:secret@host/v1", "http://höst/v1",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_unrepeated(address: str) -> None:
    with pytest.raises(EmbedderError) as caught:
        RemoteModel(address, "m")
    assert "secret" not in caught.value.message + caught.value.hint


def test_a_model_must_be_named() -> None:
    with pytest.raises(EmbedderError, match="no model"):
        embedder("http://127.0.0.1:9/v1")


def test_only_a_server_elsewhere_is_reached_through_the_proxy(
    running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert model(running).query("tea").shape == (server.DIMENSION,)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{running.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    RemoteModel("http://embed.example/v1", "m").query("tea")
    assert running.asked[1].path == "http://embed.example/v1/embeddings"


# Trying again


def test_what_may_pass_is_tried_again_and_given_up_in_the_end(running: Server) -> None:
    running.says(Answer(429), Answer(503))
    assert model(running).embed(["tea"]) == pytest.approx(unit(["tea"]), abs=1e-6)
    running.says(*[Answer(500, "out of memory")] * 3)
    assert "answered 500: out of memory" in refused(model(running)).message
    assert len(running.asked) == 6


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 501])
def test_what_will_not_pass_is_not_tried_again(status: int, running: Server) -> None:
    running.says(Answer(status, "no"))
    assert f"answered {status}" in refused(model(running)).message
    assert len(running.asked) == 1


@pytest.mark.parametrize(
    "retry_after, pause",
    [("0", 0.0), ("3", 3.0), ("86400", 5.0), ("9" * 400, 5.0), ("soon", 0.01)],
    ids=["0", "3", "86400", "endless", "soon"],
)
def test_the_server_says_how_long_to_wait_within_reason(
    retry_after: str, pause: float, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    running.says(Answer(429, headers={"Retry-After": retry_after}))
    model(running).query("tea")
    assert pauses == [pause]


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["/v2/embeddings", "https://127.0.0.1/v1", "file:///etc/x"])
def test_a_redirect_is_refused_with_where_it_leads(
    status: int, location: str, running: Server
) -> None:
    running.says(Answer(status, headers={"Location": location}))
    error = refused(model(running, api_key=KEY))
    assert f"redirects to {location}" in error.message
    assert len(running.asked) == 1


# Answers that cannot be used


UNLIKE = "2 vectors for 2 texts"
WRONG: dict[str, tuple[Answer, str]] = {
    "not JSON": (Answer(body="<html>"), "other than JSON"),
    "too deep": (Answer(body="[" * 100_000), "other than JSON"),
    "no data": (Answer(body='{"object": "list"}'), UNLIKE),
    "data of words": (Answer(body='{"data": ["a", "b"]}'), UNLIKE),
    "too few": (listed([[1.0]]), UNLIKE),
    "no index": (Answer(body='{"data": [{"embedding": [1]}, {"embedding": [1]}]}'), UNLIKE),
    "the same index twice": (
        Answer(body=json.dumps({"data": [{"index": 0, "embedding": [1.0]}] * 2})),
        UNLIKE,
    ),
    "NaN": (listed([[1.0, float("nan")], [1.0, 2.0]]), "without a direction"),
    "infinity": (Answer(body=listed([[1.0], [2.5]]).body.replace("2.5", "1e999")), "direction"),
    "too large to measure": (listed([[1e200, 1e200], [1.0, 2.0]]), "without a direction"),
    "zeros": (listed([[0.0, 0.0], [1.0, 2.0]]), "without a direction"),
    "several lengths": (listed([[1.0], [1.0, 2.0]]), UNLIKE),
    "words": (listed([["one"], ["two"]]), UNLIKE),
    "nothing in a vector": (listed([[1.0], None]), UNLIKE),
    "huge numbers": (listed([[10**400], [1]]), UNLIKE),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_a_clear_error(name: str, running: Server) -> None:
    answer, said = WRONG[name]
    running.says(answer)
    assert said in refused(model(running)).message
    assert len(running.asked) == 1


def test_another_dimension_than_before_is_an_error(running: Server) -> None:
    one = model(running)
    one.query("tea")
    running.says(listed([[1.0, 2.0]]))
    assert "2 numbers after some of 6" in refused(one, ["tea"]).message


def test_an_answer_without_end_is_given_up(
    running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MAX_ANSWER", 100_000)
    running.says(Answer(body=" " * 300_000))
    assert "without end" in refused(model(running)).message


def test_a_slow_server_is_given_up(running: Server) -> None:
    given_up = threading.Event()

    def slow(asked: Asked) -> Answer:
        given_up.wait(60)
        return server.right(asked)

    running.says(slow)
    try:
        assert "within 0.2 seconds" in refused(model(running, timeout=0.2)).message
    finally:
        given_up.set()


@contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[RemoteModel]:
    """A server that takes one connection and does with it what it is told."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        try:
            yield RemoteModel(address, "m", timeout=0.3)
        finally:
            thread.join()


def test_a_server_that_trickles_is_given_up() -> None:
    done = threading.Event()

    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not done.wait(0.02):
            connection.sendall(b" ")

    with raw_server(trickle) as one:
        try:
            assert "within 0.3 seconds" in refused(one).message
        finally:
            done.set()


def test_a_connection_that_breaks_or_never_comes_is_an_error() -> None:
    with raw_server(lambda _: None) as one:
        assert "cannot be reached" in refused(one).message
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    error = refused(RemoteModel(f"http://127.0.0.1:{port}/v1", "m"))
    assert "cannot be reached" in error.message


# The key


def test_the_key_is_never_repeated(running: Server) -> None:
    running.says(Answer(401, f"Incorrect API key provided: {KEY}\x1b[2J"))
    one = model(running, api_key=KEY)
    error = refused(one)
    assert "Incorrect API key provided: [key]" in error.message
    assert "\x1b" not in error.message
    assert KEY not in repr(error) + repr(one) + error.hint + repr(error.__cause__)


@pytest.mark.parametrize("key", ["a\nb", "a b", "schlüssel", "a\0b"])
def test_a_key_that_is_none_is_refused_unrepeated(key: str) -> None:
    with pytest.raises(EmbedderError) as caught:
        RemoteModel("http://127.0.0.1:9/v1", "m", api_key=key)
    assert key not in caught.value.message
