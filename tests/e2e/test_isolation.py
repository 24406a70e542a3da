"""What is one project's stays there (S21), and nothing leaves the machine (S23)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retain.app import App
from retain.errors import RetainError
from retain.search.brief import handle
from retain.search.request import SearchRequest
from tests.conftest import Run

# S21: two projects and the person's own bank

WORDS = ["walrus", "penguin", "heron", "stork", "narwhal", "seal"]
SCOPES = ["one", "two", "global"]


class World:
    """Three banks, each with memories of its own that carry its mark everywhere."""

    def __init__(self, home: Path) -> None:
        self.home = home
        for name in ("one", "two"):
            (home / "work" / name / "src").mkdir(parents=True)
            (home / "work" / name / "src" / f"{name}.py").write_text("x\n", encoding="utf-8")
            self.app(name).init()

    def app(self, scope: str) -> App:
        if scope == "global":
            return App(everywhere=True, cwd=str(self.home / "work"))
        return App(cwd=str(self.home / "work" / scope))

    def put(self, scope: str, word: str, number: int) -> None:
        text = (
            f"# The {word} {scope}mark\n\nA {word} of {scope}mark, "
            f"see [[src/{scope}.py]] and [[{word}-0]]."
        )
        app = self.app(scope)
        app.put(
            text,
            tags=[word, f"{scope}mark"],
            metadata={"superseded_by": ""},
            id=f"{word}-{number}",
            collection=f"{scope}mark" if number % 2 else "shared",
        )
        app.close()


def asked(app: App, word: str) -> list[Callable[[], object]]:
    """Every way to ask a bank for something."""
    ways: list[Callable[[], object]] = [
        lambda: app.search(SearchRequest(word, limit=50, explain=True)),
        lambda: app.search(SearchRequest(f"{word} onemark twomark globalmark", limit=50)),
        lambda: app.search(SearchRequest(word, limit=50, per="chunk")),
        lambda: app.linked("src/one.py", word, 50),
        lambda: app.linked("src/two.py", word, 50),
        lambda: app.linked(f"{word}-0", "", 50),
        lambda: app.brief(f"{word} onemark twomark", 5_000, 50),
        app.graph,
        lambda: app.graph(f"{word}-0"),
        lambda: app.related(f"{word}-0", 50),
        app.stats,
        lambda: app.get(f"{word}-1"),
        lambda: app.get(f"twomark/{word}-1"),
        lambda: app.get(handle(f"twomark/{word}-1")),
        lambda: app.get(f"{word}-11"),
        app.list,
        lambda: app.delete(f"{word}-999"),
        lambda: app.merge([f"{word}-1", f"{word}-99"], "new", "x"),
        app.names,
        app.collections,
    ]
    return ways


def told(way: Callable[[], object]) -> str:
    try:
        return repr(way())
    except RetainError as error:
        return f"{error.message} {error.unchanged} {error.hint}"


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=4)
@given(
    memories=st.lists(
        st.tuples(st.sampled_from(SCOPES), st.sampled_from(WORDS), st.integers(0, 2)),
        min_size=3,
        max_size=10,
        unique=True,
    )
)
def test_nothing_of_one_project_shows_in_another(
    memories: list[tuple[str, str, int]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path_factory.mktemp("world")
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RETAIN_HOME", str(home / ".retain"))
    world = World(home)
    for scope, word, number in memories:
        world.put(scope, word, number)
    words = {word for _, word, _ in memories}
    for scope, hidden in (("one", ["two"]), ("two", ["one"]), ("global", ["one", "two"])):
        app = world.app(scope)
        for word in words:
            for way in asked(app, word):
                shown = told(way).replace("src/one.py", "").replace("src/two.py", "")
                for other in hidden:
                    # What was asked for by name may be repeated; nothing else may be known.
                    shown = shown.replace(f"twomark/{word}-1' is", "").replace("'twomark/", "")
                    assert f"The {word} {other}mark" not in shown
                    assert f"of {other}mark" not in shown
                    assert f"/work/{other}/" not in shown
        app.close()


def test_global_memories_are_labelled_and_can_be_left_out(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    world = World(home)
    for scope in SCOPES:
        world.put(scope, "walrus", 0)
    app = world.app("one")
    hits = app.search(SearchRequest("walrus")).hits
    assert {hit.scope for hit in hits} == {"project", "global"}
    assert "(global)" in app.brief("walrus").text
    assert {node.title for node in app.graph().nodes if node.kind == "memory"} == {
        "The walrus onemark"
    }
    app.close()
    local = App(cwd=str(home / "work" / "one"), local=True)
    assert {hit.scope for hit in local.search(SearchRequest("walrus")).hits} == {"project"}
    local.close()


def test_vectors_of_two_projects_are_never_in_one_answer(home: Path) -> None:
    world = World(home)
    for scope in ("one", "two"):
        for word in WORDS[:3]:
            world.put(scope, word, 0)
    app = world.app("one")
    shown = repr(app.search(SearchRequest("a bird that is a penguin", limit=50)))
    shown += repr(app.related("penguin-0")) + repr(app.dedupe())
    app.close()
    assert "onemark" in shown
    assert "twomark" not in shown


# S23: no network

GUARD = """
import json, sys
calls = []
def watch(event, arguments):
    if event.startswith("socket.") and event not in ("socket.gethostname",):
        calls.append(event)
        raise ConnectionRefusedError(event)
sys.addaudithook(watch)
"""
LIBRARY = """
import retain
with retain.open("bank") as memory:
    for number in range(5):
        memory.put(f"Seal number {number} swims, see [[src/a.py]].", id=f"s{number}")
    memory.make_vectors()
    answer = memory.search("which animal swims?", explain=True)
    assert answer.hits and not answer.degraded, answer
    assert memory.search("swims", mode="text").hits and memory.search("sea", mode="semantic").hits
    assert memory.brief("swimming seals").items
    memory.linked("src/a.py", "seals"); memory.graph(); memory.related("s1")
    memory.suggest_merges(); memory.dedupe(); memory.sync(); memory.status().problems
print(json.dumps(calls))
"""
COMMANDS = """
from retain.cli.command import run
for words in json.loads(sys.argv[1]):
    code = run(words)
    assert code in (0, 3), (words, code)
sys.stdout.flush()
print("\\nCALLS " + json.dumps(calls))
"""


def guarded(code: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", GUARD + code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()


@pytest.mark.slow
def test_library_makes_no_connection(home: Path) -> None:
    assert json.loads(guarded(LIBRARY)) == []


@pytest.mark.slow
def test_commands_make_no_connection(home: Path, run: Run) -> None:
    (home / "work" / "a.md").write_text("Seals swim.", encoding="utf-8")
    commands = [
        ["init"],
        ["put", "a.md", "--id", "a"],
        ["search", "which animal swims?"],
        ["search", "swim", "--text", "--json"],
        ["brief", "swimming seals"],
        ["linked", "src/a.py"],
        ["graph"],
        ["related", "a"],
        ["suggest-merges"],
        ["dedupe"],
        ["index", "--rebuild"],
        ["sync"],
        ["stats"],
        ["status"],
        ["doctor"],
        ["list"],
        ["get", "a"],
        ["update", "a", "--tags", "x"],
        ["versions", "a"],
        ["delete", "a"],
    ]
    told = guarded(COMMANDS, json.dumps(commands)).rpartition("CALLS ")[2]
    assert json.loads(told) == []
