"""A model behind an address: whatever comes back is a right answer or a clear error."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
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
    texts = [f"note {n}" for n in range(128)]
    vectors = model(running).embed([*texts, "", "tea" * 10_000, "\ud800"])
    assert vectors.dtype == np.float32
    assert vectors[:128] == pytest.approx(unit(texts), abs=1e-6)
    assert [len(asked.body["input"]) for asked in running.asked] == [64, 64, 3]
    assert running.asked[1].body == {"model": "small", "input": texts[64:]}
    empty, long, broken = running.asked[2].body["input"]
    assert (empty, len(long), broken) == (" ", 8_000, "?")


def test_the_key_is_sent_only_where_there_is_one(running: Server) -> None:
    model(running, api_key=f" {KEY}\n").query("tea")
    model(running).query("tea")
    assert running.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in running.asked[1].headers


@pytest.mark.parametrize(
    "address, path",
    [
        ("/v1", "/v1/embeddings"), ("/v1/embeddings", "/v1/embeddings"), ("/", "/v1/embeddings"),
        ("/openai/v1/?version=2", "/openai/v1/embeddings?version=2"),
    ],
)  # fmt: skip
def test_an_address_may_be_that_of_the_api_or_of_the_embeddings(
    address: str, path: str, running: Server
) -> None:
    RemoteModel(f"http://127.0.0.1:{running.port}{address}", "small").query("tea")
    assert running.asked[0].path == path


def test_the_name_is_known_before_anything_is_asked(running: Server) -> None:
    assert model(running).name == f"openai:127.0.0.1:{running.port}/small"
    assert running.asked == []


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


@pytest.mark.parametrize("key", ["a\nb", "a b", "schlüssel", "a\0b"])
def test_a_key_that_is_none_is_refused_unrepeated(key: str) -> None:
    with pytest.raises(EmbedderError) as caught:
        RemoteModel("http://127.0.0.1:9/v1", "m", api_key=key)
    assert key not in caught.value.message


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


@pytest.mark.parametrize(
    "retry_after, pause", [("0", 0.0), ("3", 3.0), ("86400", 5.0), ("soon", 0.01)]
)
def test_the_server_says_how_long_to_wait_within_reason(
    retry_after: str, pause: float, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    running.says(Answer(429, headers={"Retry-After": retry_after}))
    model(running).query("tea")
    assert pauses == [pause]


# Answers that cannot be used


UNLIKE = "2 vectors for 2 texts"
WRONG: dict[str, tuple[Answer, str]] = {
    "a bad request": (Answer(400, "no"), "answered 400: no"),
    "a wrong key": (Answer(401, f"Incorrect: {KEY}\x1b[2J"), "answered 401: Incorrect: [key]"),
    "a redirect": (Answer(307, headers={"Location": "https://x/v2"}), "go to https://x/v2"),
    "not JSON": (Answer(body="<html>"), "other than JSON"),
    "too deep": (Answer(body="[" * 100_000), "other than JSON"),
    "no data": (Answer(body='{"object": "list"}'), UNLIKE),
    "data of words": (Answer(body='{"data": ["a", "b"]}'), UNLIKE),
    "too few": (listed([[1.0]]), UNLIKE),
    "no index": (Answer(body='{"data": [{"embedding": [1]}, {"embedding": [1]}]}'), UNLIKE),
    "NaN": (listed([[1.0, float("nan")], [1.0, 2.0]]), "without a direction"),
    "too large to measure": (listed([[1e200, 1e200], [1.0, 2.0]]), "without a direction"),
    "zeros": (listed([[0.0, 0.0], [1.0, 2.0]]), "without a direction"),
    "several lengths": (listed([[1.0], [1.0, 2.0]]), UNLIKE),
    "words": (listed([["one"], ["two"]]), UNLIKE),
    "huge numbers": (listed([[10**400], [1]]), UNLIKE),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_a_clear_error_and_is_not_asked_for_again(
    name: str, running: Server
) -> None:
    answer, said = WRONG[name]
    running.says(answer)
    error = refused(model(running, api_key=KEY))
    assert said in error.message
    assert len(running.asked) == 1
    assert "\x1b" not in error.message
    assert KEY not in repr(error) + error.hint + repr(error.__cause__)


def test_another_dimension_than_before_is_an_error(running: Server) -> None:
    one = model(running)
    one.query("tea")
    running.says(listed([[1.0, 2.0]]))
    assert "2 numbers after some of 6" in refused(one, ["tea"]).message


def test_a_slow_server_is_given_up(running: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_TIMEOUT", 0.2)
    given_up = threading.Event()

    def slow(asked: Asked) -> Answer:
        given_up.wait(60)
        return server.right(asked)

    running.says(slow)
    try:
        assert "timed out" in refused(model(running)).message
    finally:
        given_up.set()


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    error = refused(RemoteModel(f"http://127.0.0.1:{port}/v1", "m"))
    assert "cannot be reached" in error.message
