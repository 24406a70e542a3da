"""Servers of several agents among other writers on one bank: every memory is stored and found."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests import crash, indexes
from tests.conftest import Run
from tests.e2e.test_index_concurrency import (
    Told,
    _text,
    _through_the_api,
    _through_the_app,
    _word,
)
from tests.mcp.door import Pipes

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


def _through_a_server(root: Path, writer: int, count: int) -> Told:
    """As an agent's host does: `retain mcp`, a process that stays."""
    told = Told([], [], [])
    with Pipes("--bank", str(root)) as server:
        server.greet()
        for number in range(count):
            name = f"w{writer}-{number}"
            server.call("create_memory", number, filename=name, content=_text(writer, number))
            result = _answer(server, number)
            told.warnings.extend(result["warnings"])
            if number % 5 == 0:
                server.call("search_memories", 10_000 + number, query=_word(writer, number))
                hits = _answer(server, 10_000 + number)["result"]
                found = [hit["memory_id"] for hit in hits]
                right = found == [f"memory:memories/{name}"]
                told.missed.extend([] if right else [f"{name}: {found}"])
        server.stdin.close()
        assert server.end() == (0, b"", b"")
    return told


def _answer(server: Pipes, number: int) -> dict:
    """The result of a call; notifications come in between."""
    while (message := server.receive()).get("id") != number:
        assert message["method"] == "notifications/resources/list_changed"
    result = message["result"]
    assert not result["isError"], result
    content: dict = result["structuredContent"]
    return content


def _through_the_command(run: Run, root: Path, writer: int, count: int) -> Told:
    """As a person or a hook does: a process for each memory."""
    told = Told([], [], [])
    for number in range(count):
        words = ("put", "-", "--id", f"w{writer}-{number}", "--quiet", "--bank", str(root))
        ran = run(*words, input=_text(writer, number))
        assert ran.code == 0, ran.err
        told.warnings.extend(ran.err.splitlines())
    return told


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_what_servers_and_other_writers_store_at_once_is_all_found(
    tmp_path: Path, run: Run, count: int
) -> None:
    root = tmp_path / "bank"
    crash.new_bank(root)
    doors: list[Callable[[Path, int, int], Told]] = [
        *[_through_a_server] * 4,
        *[partial(_through_the_command, run)] * 2,
        _through_the_app,
        _through_the_api,
    ]
    works = [partial(door, root, writer, count) for writer, door in enumerate(doors)]
    outcomes = crash.together(works)
    assert [outcome.message for outcome in outcomes] == [""] * len(doors)
    told: list[Told] = [outcome.value for outcome in outcomes]
    assert [warning for one in told for warning in one.warnings] == []
    assert [missed for one in told for missed in one.missed] == []
    waits = sorted(wait for one in told for wait in one.waits)
    print(f"{len(waits)} transactions, p99 {waits[int(len(waits) * 0.99)]:.3f} s")

    names = {f"w{writer}-{number}" for writer in range(len(doors)) for number in range(count)}
    assert {path.stem for path in (root / "memories").glob("*.md")} == names
    with indexes.opened(root) as bank:
        indexes.agrees(bank)
        words = [_word(writer, number) for writer in range(len(doors)) for number in range(count)]
        assert {name for word in words for name in indexes.ids(bank, word)} == names
    assert crash.leftovers(root) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(0, os.WNOHANG)  # of this process's own group; the undertaker has another
