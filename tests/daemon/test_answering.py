"""What a warm process answers, to whom, and what becomes of garbage."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retain import __version__
from retain.daemon import client
from retain.index.embed import MINILM, embedder
from tests.cli.door import done
from tests.daemon.process import holder, raw, said, serve

pytestmark = pytest.mark.slow


@pytest.fixture
def bank(bank: str) -> str:
    done("put", "-", "--id", "tea", input="# Tea\n\nThe tea is hot at noon.\n")
    done("put", "-", "--id", "rain", input="# Rain\n\nIt rains in [[src/a.py]].\n")
    done("index")
    return bank


@pytest.fixture
def served(bank: str) -> Iterator[str]:
    with serve(bank):
        yield bank


def asked(bank: str, **request: object) -> dict[str, Any]:
    answer = client.ask(bank, request, 30)
    assert answer is not None
    return answer


def loaded(*words: str) -> tuple[str, set[str]]:
    """What a command prints, and the modules it needs for it."""
    program = (
        "import sys\nfrom retain.cli.command import run\n"
        f"run({list(words)!r})\nprint('LOADED', *sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8"
    )
    return ran.stdout, set(ran.stderr.rpartition("LOADED ")[2].split())


def test_search_and_brief_are_what_the_command_line_answers(served: str) -> None:
    answer = asked(served, op="search", query="warm beverage", limit=1, scope="bank")
    told = json.loads(done("search", "warm beverage", "--limit", "1", "--json", "--bank", served))
    assert {**answer, "notes": []} == told
    assert [hit["id"] for hit in told["hits"]] == ["tea"]
    answer = asked(served, op="brief", query="is the tea hot at noon", budget=300)
    words = ("brief", "is the tea hot at noon", "--budget", "300", "--json", "--bank", served)
    assert answer == json.loads(done(*words))
    assert answer["items"]


def test_vectors_are_those_of_the_model_to_the_last_bit(served: str) -> None:
    texts = ["the tea is hot", "", "a\ud800b", "ünïcödé 茶"]
    answer = asked(served, op="embed", texts=texts)
    assert (answer["model"], answer["dimension"]) == (MINILM.name, 384)
    for text, vector in zip(texts, answer["vectors"], strict=True):
        made = np.frombuffer(base64.b64decode(vector), "<f4")
        assert made == pytest.approx(MINILM.query(text), abs=1e-6)


def request(bank: str, /, **fields: object) -> bytes:
    return json.dumps({"version": __version__, "bank": bank, **fields}).encode() + b"\n"


def test_another_version_bank_scope_or_model_is_refused(served: str) -> None:
    fine = {"op": "search", "query": "tea"}
    assert said(served, request(served, **fine))
    refusals: list[dict[str, object]] = [
        {"version": "0.0.1"},
        {"version": None},
        {"bank": "/elsewhere"},
        {"scope": "project"},
        {"op": "embed", "texts": ["x"], "model": "another"},
    ]
    for fields in refusals:
        answer = said(served, request(served, **{**fine, **fields}))
        assert answer
        assert answer["error"]["code"] == "refused", fields
        assert client.ask(served, {**fine, **fields}, 30) is None


WRONG: list[dict[str, object]] = [
    {},
    {"op": "delete"},
    {"op": ["search"]},
    {"op": "search"},
    {"op": "search", "query": 7},
    {"op": "search", "query": "x", "limit": 0},
    {"op": "brief", "query": "x", "budget": None},
    {"op": "embed", "texts": "text"},
    {"op": "embed", "texts": [1]},
    {"op": "embed", "texts": ["x"] * 65},
]
GARBAGE = [
    b"\n",
    b"\0\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff\xfe\n",
    b"null\n",
    b"[" * 100_000 + b"\n",
    b'{"op": "ping"\n',
]


def test_a_wrong_question_is_told_what_is_wrong_and_does_no_harm(served: str) -> None:
    before = holder(served)
    for data in (*GARBAGE, *(request(served, **fields) for fields in WRONG)):
        answer = said(served, data)
        assert answer, data[:20]
        assert set(answer) == {"error"}
        assert set(answer["error"]) >= {"code", "message", "unchanged", "hint"}
        assert answer["error"]["code"] == "usage", data[:80]
    assert said(served, b" " * (3 << 20)) is None, "longer than any line may be"
    with raw(served):
        pass  # one that says nothing and goes
    with raw(served) as gone:
        gone.sendall(request(served, op="search", query="tea"))
    assert said(served, b'{"op": "ping"}\nmore') is not None
    assert holder(served) == before


# The command line


def test_a_search_is_the_same_with_a_warm_process_and_loads_no_model(bank: str) -> None:
    words = ("search", "warm beverage", "--json", "--explain", "--bank", bank)
    cold, modules = loaded(*words)
    assert "retain.index.embed.bert" in modules
    with serve(bank):
        answer, modules = loaded(*words)
    assert answer == cold
    assert "retain.index.embed.bert" not in modules
    again, modules = loaded(*words)
    assert again == cold
    assert "retain.index.embed.bert" in modules


def test_the_persons_own_warm_process_serves_a_project_without_one(bank: str, home: Path) -> None:
    done("init", "--global")
    with serve(str(home / ".retain")):
        _, modules = loaded("search", "warm beverage", "--local")
    assert "retain.index.embed.bert" not in modules


@contextlib.contextmanager
def answering(bank: str, answer: bytes | None) -> Iterator[None]:
    """Someone in the place of a warm process who gives one answer, or stays silent."""
    is_over = threading.Event()

    def answer_one() -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            if answer is None:
                is_over.wait(30)
            else:
                connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listening:
        os.makedirs(os.path.dirname(client.socket_path(bank)), 0o700, exist_ok=True)
        listening.bind(client.socket_path(bank))
        Path(client.socket_path(bank)).chmod(0o600)
        listening.listen()
        thread = threading.Thread(target=answer_one)
        thread.start()
        yield
        is_over.set()
        thread.join()


def vector(*numbers: float) -> str:
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"garbage\n",
        b'{"error": "x"}\n',
        b"x" * (2 << 20),
        json.dumps({"model": "another", "vectors": [vector(1, *[0] * 383)]}).encode() + b"\n",
        *(
            json.dumps({"model": MINILM.name, "vectors": vectors}).encode() + b"\n"
            for vectors in (
                None,
                [7],
                ["!"],
                [vector(1, *[0] * 383)] * 2,
            )
        ),
    ],
    ids=lambda answer: repr(answer)[:40],
)
def test_a_false_answer_is_not_believed(answer: bytes | None, bank: str) -> None:
    with answering(bank, answer):
        model = embedder(warm=[bank])
        assert model is not None
        assert model.query("tea") == pytest.approx(MINILM.query("tea"), abs=1e-6)
