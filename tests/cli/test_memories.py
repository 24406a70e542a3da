"""put, get, list, move and delete as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.door import answered, call, done

pytestmark = pytest.mark.usefixtures("bank")


@pytest.fixture
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")


def content(ref: str) -> str:
    return str(json.loads(done("get", ref, "--json"))["content"])


@pytest.mark.parametrize("words", [("the port is 8080",), ("the", "port", "is", "8080")])
def test_words_that_name_no_file_are_the_text(words: tuple[str, ...]) -> None:
    ran = call("put", *words, "--id", "port")
    assert (ran.code, "no file" in ran.err) == (0, False)
    assert content("port") == "the port is 8080\n"
    done("append port --collection memories also 8081")
    assert content("port") == "the port is 8080\n\nalso 8081\n"
    done("update port the port --tags net is 8082")
    assert content("port") == "the port is 8082\n"
    done("update", "port", "--content", "the port is 8080")
    assert content("port") == "the port is 8080\n"
    assert call("update port --content 8080").code == 3
    assert json.loads(done("brief --json port --limit 3 8080"))["query"] == "port 8080"
    hits = json.loads(done("search --json port --limit 3 8080"))
    assert (hits["query"], [hit["id"] for hit in hits["hits"]]) == ("port 8080", ["port"])


def test_a_file_is_read_and_a_missing_one_is_missed(home: Path) -> None:
    Path("my notes.md").write_text("from the file\n", encoding="utf-8")
    assert call("put", "my notes.md", "--id", "a").err == ""
    assert content("a") == "from the file\n"
    for path in ("missing.md", "notes/missing"):
        ran = call("put", path)
        assert (ran.code, f"there is no file {path}" in ran.err) == (3, True)
    ran = call("put", "my notes.md", "other.md")
    assert (ran.code, "is a file, but other text" in ran.err) == (2, True)
    assert done("list --quiet") == "memories/a\n"


def test_status_is_said_when_a_memory_is_not_in_force() -> None:
    done("put - --id old", input="text")
    assert "Status" not in done("get old") + done("list")
    done("archive old")
    assert "\nStatus: archived\n" in done("get old")
    done("unarchive old")
    done("retire old")
    assert "\nStatus: retired\n" in done("get old")
    assert "retired" in done("list --status all")
    assert "is retired" in call("get old --format raw").err


def test_tags_are_the_same_in_any_case() -> None:
    done("put - --id a --tags Ops,db", input="text")
    done("put - --id b --tags web", input="text")
    for words in (("--tags", "OPS"), ("--tags", "x, DB"), ("--filter", "tags=oPs")):
        assert done("list", "--quiet", *words) == "memories/a\n"


def test_several_are_deleted_or_none() -> None:
    for name in ("a", "b", "c"):
        done("put", "-", "--id", name, input=name)
    assert call("delete a nothing-like-it").code == 3
    assert call("delete", "a", "b", "--expect", "0" * 64).code == 2
    assert done("list --quiet").split() == ["memories/a", "memories/b", "memories/c"]
    rows = json.loads(done("delete a b memories/a --json"))
    assert [row["id"] for row in rows] == ["a", "b"]
    assert done("list --quiet") == "memories/c\n"


def test_a_memory_moves_to_another_bank(home: Path) -> None:
    done("put - --id a", input="text")
    assert "The original is in the trash: " in call("move a --to global --id mine").err
    assert content("mine") == "text"
    assert done("list --quiet --local") == ""
    assert done("list --quiet --global") == "memories/mine\n"
    done("move", "mine", "--global", "--to", str(home / "work/.retain"))
    assert done("list --quiet --local") == "memories/mine\n"
    ran = call("move mine --to .retain")
    assert (ran.code, "already" in ran.err) == (2, True)


def test_a_long_title_is_cut_after_a_word() -> None:
    done("put - --id a", input="A sentence that goes on for much longer than a title may")
    assert "A sentence that goes on for much longer than a…" in done("list")


def test_a_table_is_no_wider_than_the_terminal() -> None:
    done("put", "-", "--id", "a-name", "--title", "more words " * 8, "--tags", "x" * 30, input="a")
    _, screen = answered("", "list")
    assert max(map(len, screen.splitlines())) <= 80
    assert "a-name" in screen
    assert "…" in screen
    assert max(map(len, done("list").splitlines())) > 80


def test_list_fits_a_terminal_and_cuts_long_ids_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    name = "what-we-learned-about-the-scheduler-of-the-second-cluster"
    done("put", "-", "--tags", "scheduler", "--id", name, input=f"# {name.replace('-', ' ')}")
    _, screen = answered("", "list")
    lines = [line for line in screen.splitlines() if line]
    assert max(map(len, lines)) <= 80
    assert f"{name[:35]}…" in lines[-1]
    assert name in done("list")
