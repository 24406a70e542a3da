"""Retain from Python: every method, from several threads, and light to import."""

from __future__ import annotations

import doctest
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import retain
from retain.app import App
from retain.errors import Conflict, NotFound, RetainError, UsageError
from retain.memory import Hit, Memory


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model, where meaning does not matter."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


@pytest.fixture
def memory(home: Path, words: None) -> Iterator[App]:
    with retain.open("bank", background=False) as opened:
        yield opened


def waited(until: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not until() and time.monotonic() < end:
        time.sleep(0.02)
    return until()


def working() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "retain-vectors"]


# Opening


def test_open_makes_a_bank_unless_told_not_to_and_opens_it_again(home: Path, words: None) -> None:
    with retain.open("notes", create=False) as memory, pytest.raises(NotFound):
        memory.list()
    assert not (home / "work" / "notes").exists()
    with retain.open("notes") as memory:
        memory.put("One.", id="one")
    with retain.open("notes") as memory:
        assert [one.id for one in memory.list()] == ["one"]


def test_open_without_a_path_takes_the_bank_in_force(home: Path, words: None) -> None:
    with retain.open() as memory:
        assert memory.search("anything").hits == ()
        memory.put("Mine.", id="mine")
        assert memory.get("mine").scope == "global"
    assert (home / ".retain" / "memories" / "mine.md").exists()


# Every method


def test_memory_is_put_read_changed_and_deleted(memory: App) -> None:
    written = memory.put(
        "# Build\n\nNeeds Node 18.",
        id="build",
        collection="facts",
        title="The build",
        type="fact",
        tags=["build", "node"],
        metadata={"priority": 1},
        created_by="Ada",
    )
    assert (written.status, written.memory.ref) == ("created", "facts/build")
    found = memory.get("build")
    assert (found.title, found.type, found.tags) == ("The build", "fact", ("build", "node"))
    assert (found.meta["priority"], found.meta["created_by"]) == (1, "Ada")
    memory.append("build", "Also npm.")
    assert memory.get("facts/build").body.endswith("\n\nAlso npm.")
    changed = memory.update(
        "build", "Needs Node 20.", tags=["build"], expect=memory.get("build").hash
    )
    assert changed.status == "updated"
    assert memory.get("build", version=changed.kept).body != memory.get("build").body
    with pytest.raises(Conflict):
        memory.update("build", "x", expect=found.hash)
    for conditions in ({"type": "fact"}, {"collection": "facts"}, {"filter": ["tags=build"]}):
        assert [one.id for one in memory.list(**conditions)] == ["build"]
    assert [hit.id for hit in memory.search("node 20").hits] == ["build"]
    assert memory.delete("build").trashed.id == "build"
    assert memory.search("node 20").hits == ()


def test_links_brief_and_merge_through_the_api(memory: App, home: Path) -> None:
    memory.put("Plan for [[src/a.py]], see [[b]].", id="a")
    memory.put("The walrus.", id="b")
    assert [hit.id for hit in memory.linked("src/a.py", "plan", limit=1).hits] == ["a"]
    assert {node.name for node in memory.graph("b", depth=1).nodes} == {"memories/a", "memories/b"}
    assert [one.id for one in memory.related("b", limit=3)] == ["a"]
    brief = memory.brief("walrus", budget=300)
    assert memory.get(brief.items[0].handle).id == "b"
    assert memory.suggest_merges() == []
    assert memory.dedupe() == []
    assert memory.merge(["a", "b"], "ab", "Both.").written.memory.id == "ab"
    (home / "work/bank/memories/bad.md").write_bytes(b"---\nid: [\n---\n\xff")
    assert memory.sync().added == 1
    assert [Path(one.path).name for one in memory.status().problems] == ["bad.md"]


def test_vectors_that_are_missing_are_made_and_counted(home: Path) -> None:
    with retain.open("bank", background=False) as memory:
        for number in range(3):
            memory.put(f"Seal {number}.", id=f"s{number}")
        told: list[tuple[int, int]] = []
        assert memory.make_vectors(progress=lambda done, of: told.append((done, of))) == 3
        assert told == [(3, 3)]
        assert memory.make_vectors() == 0


# Threads


def test_eight_threads_put_and_search_at_once(home: Path, words: None) -> None:
    with retain.open("bank") as memory, ThreadPoolExecutor(8) as pool:

        def work(thread: int) -> int:
            found = 0
            for number in range(10):
                name = f"t{thread}n{number}"
                memory.put(f"The walrus {name}.", id=name)
                found += [hit.id for hit in memory.search(name).hits] == [name]
            return found

        assert sum(pool.map(work, range(8))) == 80
        assert len(memory.search("walrus", limit=100).hits) == 80


def test_vectors_follow_in_the_background(home: Path) -> None:
    with retain.open("bank") as memory:
        for number in range(5):
            memory.put(f"Seal {number}.", id=f"s{number}")
        assert waited(lambda: memory.index_facts().pending == 0)
    assert working() == []


@pytest.mark.slow
def test_background_ends_with_the_object_when_nobody_closes_it(home: Path) -> None:
    def forgotten() -> None:
        memory = retain.open("bank")
        memory.put("Seal.", id="s")
        waited(lambda: memory.index_facts().pending == 0)

    forgotten()
    gc.collect()
    assert waited(lambda: not working())


def test_a_fault_in_the_background_is_told_and_the_next_call_begins_anew(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[Exception] = []
    app = App(bank="bank", stays=True)
    app.init()
    app.forget()
    with monkeypatch.context() as broken:
        broken.setattr(App, "deliver", property(lambda _: 1 / 0))
        app.start_worker(faults.append)
        assert waited(lambda: bool(faults) and not working())
    app.put("Seal.", id="s")
    assert waited(lambda: app.index_facts().pending == 0)
    app.close()
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


def test_model_that_fails_in_the_background_stops_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "./no-such-model")
    with retain.open("bank") as memory:
        memory.put("Seal.", id="s")
        answer = memory.search("seal")
        assert (len(answer.hits), bool(answer.degraded)) == (1, True)


# Closing


CALLS: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(["get", "delete", "linked", "related", "retire", "unretire"], ("a",)),
    **dict.fromkeys(["list", "graph", "dedupe", "sync", "make_vectors", "status", "changes"], ()),
    **dict.fromkeys(["put", "search", "brief"], ("walrus",)),
    **dict.fromkeys(["update", "append", "supersede"], ("a", "b")),
    "merge": (["a", "b"], "c", "Both."),
    "record": ("decision", {}),
    "suggest_merges": (),
    "__enter__": (),
}


def test_closed_bank_is_not_opened_again_unasked(home: Path) -> None:
    memory = retain.open("bank")
    memory.put("The walrus.", id="a")
    memory.close()
    memory.close()
    for name, arguments in CALLS.items():
        with pytest.raises(UsageError, match="this bank is closed"):
            getattr(memory, name)(*arguments)


# What makes no sense


@pytest.mark.parametrize(
    "name, use",
    [
        ("limit", lambda memory, bad: memory.search("walrus", limit=bad)),
        ("limit", lambda memory, bad: memory.list(limit=bad)),
        ("limit", lambda memory, bad: memory.linked("a", limit=bad)),
        ("limit", lambda memory, bad: memory.related("a", limit=bad)),
        ("limit", lambda memory, bad: memory.suggest_merges(limit=bad)),
        ("budget", lambda memory, bad: memory.brief("walrus", budget=bad)),
    ],
)
def test_number_that_makes_no_sense_is_refused_by_its_name(
    name: str, use: Callable[[App, object], object], memory: App
) -> None:
    memory.put("The walrus.", id="a")
    for bad in (0, -1, 1.5, "5", float("nan")):
        with pytest.raises(UsageError, match=f"^{name} must be a whole number of at least 1"):
            use(memory, bad)
    use(memory, 1)
    for bad in (-0.1, 1.1, float("nan"), "0.5"):
        with pytest.raises(UsageError, match=r"^threshold is a number from 0 to 1"):
            memory.suggest_merges(threshold=bad)  # type: ignore[arg-type]


# In a process of its own


def child(code: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode()


def test_import_is_light(home: Path) -> None:
    code = (
        "import json, sys; before = set(sys.modules); import retain; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    loaded = {name.partition(".")[0] for name in json.loads(child(code))}
    heavy = {"sqlite3", "numpy", "yaml", "threading", "subprocess", "hashlib", "socket", "Stemmer"}
    assert loaded & heavy == set()


@pytest.mark.slow
def test_program_that_never_closes_ends_cleanly(home: Path) -> None:
    code = (
        "import retain\n"
        "memory = retain.open('bank')\n"
        "for n in range(40): memory.put(f'Seal {n}.', id=f's{n}')\n"
        "print(len(memory.search('seal', 50).hits))"
    )
    assert child(code).strip() == "40"


@pytest.mark.slow
def test_example_in_the_package_works(home: Path) -> None:
    (test,) = doctest.DocTestFinder(recurse=False).find(retain, "retain")
    code = "".join(example.source for example in test.examples)
    score, name, text = child(code).split(" ", 2)
    assert 0 < float(score) <= 1
    assert name
    assert text == "The build needs Node 20.\n"


def test_the_package_has_the_classes_that_calls_return() -> None:
    assert (retain.Memory, retain.Hit, retain.RetainError) == (Memory, Hit, RetainError)
    with pytest.raises(AttributeError, match="nothing_such"):
        retain.nothing_such  # noqa: B018
