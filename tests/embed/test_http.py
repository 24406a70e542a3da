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

from retain.embed import EmbedderError, embedder, http
from retain.embed.http import RemoteModel
from tests.embed import server
from tests.embed.server import Answer, Asked, Server

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


def test_vectors_come_back_in_the_order_of_the_texts(running: Server) -> None:
    texts = ["tea", "rain", "cup"]
    vectors = model(running).embed(texts)
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(unit(texts), abs=1e-6)
    assert running.asked[0].path == "/v1/embeddings"
    assert running.asked[0].body == {"model": "small", "input": texts}


def test_many_texts_are_sent_in_batches(running: Server) -> None:
    texts = [f"note {n}" for n in range(130)]
    assert model(running).embed(texts) == pytest.approx(unit(texts), abs=1e-6)
    assert [len(asked.body["input"]) for asked in running.asked] == [64, 64, 2]


def test_the_key_is_sent_only_where_there_is_one(running: Server) -> None:
    model(running, api_key=f" {KEY}\n").query("tea")
    model(running).query("tea")
    assert running.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in running.asked[1].headers


def test_no_text_is_sent_empty_or_without_end(running: Server) -> None:
    model(running).embed(["", "tea" * 10_000, "\ud800"])
    sent = running.asked[0].body["input"]
    assert sent[0] == " "
    assert len(sent[1]) == 8_000
    assert sent[2] == "?"


@pytest.mark.parametrize(
    "address, path",
    [
        ("/v1", "/v1/embeddings"),
        ("/v1/", "/v1/embeddings"),
        ("/v1/embeddings", "/v1/embeddings"),
        ("", "/v1/embeddings"),
        ("/", "/v1/embeddings"),
        ("/openai/v1?version=2", "/openai/v1/embeddings?version=2"),
    ],
)
def test_an_address_may_be_that_of_the_api_or_of_the_embeddings(
    address: str, path: str, running: Server
) -> None:
    RemoteModel(f"http://127.0.0.1:{running.port}{address}", "small").query("tea")
    assert running.asked[0].path == path


def test_the_name_is_that_of_the_host_and_the_model(running: Server) -> None:
    assert model(running).name == f"openai:127.0.0.1:{running.port}/small"
    assert RemoteModel("https://api.example.com/v1", "m").name == "openai:api.example.com/m"
    assert running.asked == []


def test_the_dimension_is_asked_for_once(running: Server) -> None:
    one = model(running)
    assert one.dimension == server.DIMENSION
    assert one.dimension == server.DIMENSION
    assert len(running.asked) == 1


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        "http:///v1",
        "http://host:port/v1",
        "http://host:99999/v1",
        "http://[::1/v1",
        "http://ho st/v1",
        "https://user:secret@host/v1",
        "http://höst/v1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_unrepeated(address: str) -> None:
    with pytest.raises(EmbedderError) as caught:
        RemoteModel(address, "m")
    assert "secret" not in caught.value.message + caught.value.hint


def test_a_model_must_be_named() -> None:
    with pytest.raises(EmbedderError, match="no model"):
        embedder("http://127.0.0.1:9/v1")


# Proxies


def test_a_server_on_this_machine_is_reached_without_the_proxy(
    running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert model(running).query("tea").shape == (server.DIMENSION,)


def test_any_other_server_is_reached_through_it(
    running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{running.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    RemoteModel("http://embed.example/v1", "m").query("tea")
    assert running.asked[0].path == "http://embed.example/v1/embeddings"


# Trying again


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(status: int, running: Server) -> None:
    running.says(Answer(status), Answer(status))
    assert model(running).embed(["tea"]) == pytest.approx(unit(["tea"]), abs=1e-6)
    assert len(running.asked) == 3


def test_what_does_not_pass_is_given_up(running: Server) -> None:
    running.says(*[Answer(500, "out of memory")] * 4)
    assert "answered 500: out of memory" in refused(model(running)).message
    assert len(running.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 501])
def test_what_will_not_pass_is_not_tried_again(status: int, running: Server) -> None:
    running.says(Answer(status, "no"))
    assert f"answered {status}" in refused(model(running)).message
    assert len(running.asked) == 1


@pytest.mark.parametrize(
    "retry_after, least",
    [
        ("0", 0.0),
        ("86400", 0.3),
        ("Fri, 31 Dec 2100 23:59:59 GMT", 0.3),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0.0),
        ("soon", 0.0),
        ("9" * 400, 0.3),
    ],
)
def test_the_server_says_how_long_to_wait_within_reason(
    retry_after: str, least: float, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MAX_WAIT", 0.3)
    running.says(Answer(429, headers={"Retry-After": retry_after}))
    start = time.monotonic()
    model(running).query("tea")
    assert least <= time.monotonic() - start < least + 60
    assert len(running.asked) == 2


# Redirects


def test_a_redirect_to_another_server_is_refused(running: Server) -> None:
    with server.running() as other:
        for status in (301, 302, 303, 307, 308):
            running.says(Answer(status, headers={"Location": f"{other.base}/embeddings"}))
            error = refused(model(running, api_key=KEY))
            assert "redirects to" in error.message
        assert other.asked == []


@pytest.mark.parametrize("location", ["https://127.0.0.1/v1", "file:///etc/passwd", "ftp://x/"])
def test_a_redirect_to_another_kind_of_address_is_refused(location: str, running: Server) -> None:
    running.says(Answer(307, headers={"Location": location}))
    refused(model(running))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_within_the_server_is_followed(status: int, running: Server) -> None:
    running.says(Answer(status, headers={"Location": "/v2/embeddings"}))
    assert model(running, api_key=KEY).embed(["tea"]) == pytest.approx(unit(["tea"]), abs=1e-6)
    assert running.asked[1].path == "/v2/embeddings"
    assert running.asked[1].headers["authorization"] == f"Bearer {KEY}"


def test_a_redirect_in_a_circle_ends(running: Server) -> None:
    running.says(*[Answer(307, headers={"Location": "/v1/embeddings"})] * 20)
    assert "answered 307" in refused(model(running)).message
    assert len(running.asked) < 12


# Answers that cannot be used


WRONG: dict[str, tuple[Answer, str]] = {
    "nothing": (Answer(), "other than JSON"),
    "not JSON": (Answer(body="<html>"), "other than JSON"),
    "too deep": (Answer(body="[" * 100_000), "other than JSON"),
    "a list": (Answer(body="[]"), "without a list"),
    "no data": (Answer(body='{"object": "list"}'), "without a list"),
    "data of words": (Answer(body='{"data": ["a", "b"]}'), "without a list"),
    "too few": (listed([[1.0]]), "1 vectors for 2 texts"),
    "too many": (listed([[1.0], [2.0], [3.0]]), "3 vectors for 2 texts"),
    "no index": (Answer(body='{"data": [{"embedding": [1]}, {"embedding": [1]}]}'), "whose"),
    "the same index twice": (
        Answer(body=json.dumps({"data": [{"index": 0, "embedding": [1.0]}] * 2})),
        "whose",
    ),
    "an index that is true": (
        Answer(body='{"data": [{"index": 0, "embedding": [1]}, {"index": true}]}'),
        "whose",
    ),
    "NaN": (listed([[1.0, float("nan")], [1.0, 2.0]]), "without a direction"),
    "infinity": (Answer(body=listed([[1.0], [2.5]]).body.replace("2.5", "1e999")), "direction"),
    "too large to measure": (listed([[1e200, 1e200], [1.0, 2.0]]), "without a direction"),
    "zeros": (listed([[0.0, 0.0], [1.0, 2.0]]), "without a direction"),
    "several lengths": (listed([[1.0], [1.0, 2.0]]), "lengths"),
    "no numbers": (listed([[], []]), "without a direction"),
    "words": (listed([["1"], ["2"]]), "not lists of numbers"),
    "nothing in a vector": (listed([[1.0], None]), "vectors"),
    "base64": (listed(["AACAPw==", "AACAPw=="]), "not lists of numbers"),
    "lists in lists": (listed([[[1.0]], [[1.0]]]), "not lists of numbers"),
    "huge numbers": (listed([[10**400], [1]]), "not lists of numbers"),
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
    def slow(asked: Asked) -> Answer:
        time.sleep(0.6)
        return server.right(asked)

    running.says(slow)
    start = time.monotonic()
    assert "within 0.2 seconds" in refused(model(running, timeout=0.2)).message
    assert time.monotonic() - start < 60
    while not running.asked:
        time.sleep(0.01)  # a busy server may hear of it after it was given up
    assert len(running.asked) == 1


def test_a_server_that_trickles_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = threading.Event()

        def trickle() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not done.wait(0.02):
                    connection.sendall(b" ")

        thread = threading.Thread(target=trickle)
        thread.start()
        one = RemoteModel(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", "m", timeout=0.3)
        try:
            assert "within 0.3 seconds" in refused(one).message
        finally:
            done.set()
            thread.join()


def test_a_connection_that_breaks_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def hang_up() -> None:
            connection, _ = listening.accept()
            connection.recv(65536)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        one = RemoteModel(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", "m")
        assert "cannot be reached" in refused(one).message
        thread.join()


def test_no_server_is_an_error() -> None:
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
