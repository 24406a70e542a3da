"""A bank full of accidents: all of it is read, named and left alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from retain.app import App
from retain.doctor import orphaned_states, sweep_states
from retain.errors import BadName, Unreadable
from retain.text.links import MAX_LINKS, find_links
from tests.cli.door import done
from tests.malformed import BROKEN, FINE, ODD, WORD

ALL = {**BROKEN, **ODD, **FINE}


@pytest.fixture
def bank(home: Path) -> Path:
    """A bank with every malformed file in one collection, and a good memory on either side."""
    App().init()
    folder = home / "work" / ".retain" / "mess"
    folder.mkdir()
    for name, data in ALL.items():
        (folder / name).write_bytes(data)
    for name in ("AAA", "zzz"):
        App().put(f"A good {name} memory.", title=name, collection="mess", id=name)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_bad_file_is_listed_and_named_and_no_good_one(bank: Path) -> None:
    listed = {Path(memory.path).name for memory in App().list(collection="mess")}
    assert listed == {"AAA.md", "zzz.md", *ALL}
    named = {Path(problem.path).name for problem in App().status().problems}
    assert {*BROKEN, *ODD} - named == set()
    assert named & {*FINE, "AAA.md", "zzz.md"} == set()
    assert all(problem.reason for problem in App().status().problems)


@pytest.mark.parametrize("name", [*BROKEN, *FINE])
def test_the_text_of_any_file_can_be_read(home: Path, name: str) -> None:
    App().init()
    (home / "work" / ".retain" / name).write_bytes(ALL[name])
    memory = App().get(Path(name).stem)
    decoded = ALL[name].decode("utf-8", "replace")
    assert bool(memory.problem) == (name in BROKEN)
    if name in BROKEN:
        assert memory.body == decoded.removeprefix("\ufeff")
        assert memory.meta == {}
    else:
        assert WORD in memory.body
    assert "" not in (memory.title, memory.type, memory.status)


def test_reading_and_writing_beside_them_leaves_every_byte(bank: Path) -> None:
    before = contents(bank)
    app = App()
    app.list()
    app.status()
    app.collections()
    for name in ALL:
        try:
            app.get(f"mess/{Path(name).stem}")
        except BadName:
            assert name in ODD
    app.put("new", collection="mess", id="new")
    app.update("mess/AAA", tags=["a"])
    app.append("mess/zzz", "more")
    app.move("mess/new", to_collection="other", to_id="")
    app.delete("other/new")
    after = contents(bank)
    for name in ALL:
        assert after[name] == before[name], name


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_parsed_is_never_changed(home: Path, name: str) -> None:
    App().init()
    path = home / "work" / ".retain" / name
    path.write_bytes(BROKEN[name])
    ref = Path(name).stem
    attempts: list[Callable[[], object]] = [
        lambda: App().update(ref, tags=["a"]),
        lambda: App().update(ref, '{"a": 1}'),
        lambda: App().update(ref, metadata={"priority": "high"}),
        lambda: App().append(ref, "more"),
    ]
    for attempt in attempts:
        with pytest.raises(Unreadable):
            attempt()
        assert path.read_bytes() == BROKEN[name]
    shutil.rmtree(home / "work" / ".retain" / ".versions", ignore_errors=True)
    assert [entry for entry in os.listdir(path.parent) if entry.endswith((".md", ".json"))] == [
        name
    ]


def test_a_memory_with_more_links_than_count_is_named_as_read_in_part(home: Path) -> None:
    App().init()
    link = "[[elsewhere]]\n"
    full = App().put(link * MAX_LINKS + f"`{link.strip()}`\n", id="full").memory
    over = App().put(link * (MAX_LINKS + 1), id="over").memory
    assert len(find_links(full.body)) == len(find_links(over.body)) == MAX_LINKS
    (problem,) = App().status().problems
    assert problem.path == over.path
    assert problem.reason == "read only in part: of its 10,001 links the first 10,000 count"


def test_findings_count_what_is_there(home: Path) -> None:
    App().init()
    App().put("one", type="plan", id="one")
    App().put("two", id="two", collection="other")
    App().delete("two")
    findings = App().status()
    assert (findings.memories, findings.trashed) == (1, 1)
    assert findings.types == {"plan": 1}
    assert findings.collections == {"memories": 1}
    assert findings.statuses == {"active": 1}
    assert findings.problems == ()
    assert findings.bytes == len(App().get("one").data)


# What is kept for banks that are gone, or that nobody uses


def _states(home: Path) -> list[str]:
    folder = home / ".local" / "state" / "retain" / "banks"
    return sorted(path.name.rpartition("-")[0] for path in folder.iterdir())


def _bank(home: Path, name: str) -> Path:
    """A bank with an index, and with a proposal in its inbox."""
    root = home / name / ".retain"
    app = App(bank=str(root))
    app.init()
    app.put("text", id="one")
    app.close()
    return root


def _propose(home: Path, name: str) -> None:
    (state,) = (home / ".local/state/retain/banks").glob(f"{name}-*")
    (state / "inbox").mkdir()
    (state / "inbox" / f"{'0' * 16}.json").write_text("{}", encoding="utf-8")


def test_the_state_of_a_bank_that_is_gone_is_named_and_removed_but_for_proposals(
    home: Path,
) -> None:
    for name in ("gone", "here", "moved"):
        _bank(home, name)
    _propose(home, "moved")
    assert orphaned_states(os.environ) == []
    shutil.rmtree(home / "gone")
    (home / "moved").rename(home / "elsewhere")
    gone, moved = orphaned_states(os.environ)
    assert (gone.bank, gone.proposals) == (str(home / "gone/.retain"), 0)
    assert (moved.bank, moved.proposals) == (str(home / "moved/.retain"), 1)
    assert f"{moved.bank}, with 1 proposal in its inbox" in done("doctor", "--repair", "--global")
    assert _states(home) == ["here", "moved"]
    assert [state.bank for state in orphaned_states(os.environ)] == [moved.bank]


def test_a_state_that_nobody_used_for_long_is_removed_but_for_its_proposals(home: Path) -> None:
    for name in ("old", "proposing", "new"):
        _bank(home, name)
    _propose(home, "proposing")
    for state in (home / ".local" / "state" / "retain" / "banks").iterdir():
        if not state.name.startswith("new"):
            for path in (*state.iterdir(), state):
                os.utime(path, (0, 0))
    sweep_states(os.environ)
    assert _states(home) == ["new", "proposing"]
    assert not [*(home / ".local/state/retain/banks").glob("proposing-*/index.db")]
    assert App(bank=str(home / "old" / ".retain")).index_facts().memories == 1
