"""A typed memory's history has no gaps, whichever door its changes come through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retain.errors import RetainError
from retain.typed.ledger import Ledger
from tests.cli.door import call, done
from tests.typed.filing import Store

FIELDS = (
    *("--field", "status=accepted", "--field", "context=one writer is not enough"),
    *("--field", "decision=Postgres 17", "--field", "rationale=transactions"),
)
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture(params=[".json", ".md"])
def store(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    return Store(home / "work", request.param)


def new(title: str, *words: str) -> str:
    return done("new", "decision", "--title", title, *FIELDS, "--quiet", *words).strip()


def summaries(ref: str) -> list[str]:
    return [one["summary"] for one in json.loads(done("changes", ref, "--json"))]


def test_a_move_is_noted_and_followed_by_what_it_replaces(store: Store) -> None:
    old, by = new("Old way"), new("New way")
    done("supersede", old, "--by", by)
    done("move", by, "--id", "newer-way")
    assert "Moved from decisions/new-way" in summaries("newer-way")
    assert json.loads(done("get", old, "--json"))["superseded_by"] == "decisions/newer-way"
    done("move", old, "--collection", "attic")
    record = done("get", "newer-way", "--json")
    assert "attic/old-way" in record


def test_what_replaced_a_memory_cannot_be_replaced_by_it(store: Store) -> None:
    first, second, third = new("First"), new("Second"), new("Third")
    done("supersede", first, "--by", second)
    done("supersede", second, "--by", third)
    before = store.files()
    ran = call("supersede", third, "--by", first)
    assert ran.code == 2
    assert store.files() == before


def test_a_record_put_over_another_keeps_its_history(store: Store) -> None:
    ref = new("Use Postgres")
    done("update", ref, "--tags", "db")
    created = store.record(ref)["created_at"]
    if not store.is_json:
        with store.path(ref).open("a", encoding="utf-8") as file:
            file.write("My own notes.\n")
    new("Use Postgres", "--force")
    assert summaries(ref)[0] == "Replaced by a new record"
    assert "tags changed" in summaries(ref)
    assert store.record(ref)["created_at"] == created
    if not store.is_json:
        assert "My own notes." in store.path(ref).read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_old_text_comes_back_when_the_history_is_full(store: Store) -> None:
    ref = new("Use Postgres")
    for number in range(55):
        done("update", ref, "--tags", f"t{number}")
    assert len(store.record(ref)["changes"]) == 50
    version = json.loads(done("versions", ref, "--json"))[3]["version"]
    done("restore", ref, "--version", version)
    assert len(store.record(ref)["changes"]) == 50


def test_a_secret_taken_out_does_not_live_on_in_the_history(store: Store) -> None:
    ref = new("Use Postgres", "--field", f"consequences={TOKEN}", "--allow-secret")
    assert TOKEN in store.path(ref).read_text(encoding="utf-8")
    content = {
        "status": "accepted",
        "context": "x",
        "decision": "y",
        "rationale": ["z"],
    }
    if store.is_json:
        done("update", ref, "--content", "-", input=json.dumps(content))
    else:
        done("update", ref, "--metadata", json.dumps({"content": content}))
    assert TOKEN not in store.path(ref).read_text(encoding="utf-8")


def test_a_category_is_for_life(store: Store) -> None:
    ref = new("Use Postgres")
    before = store.files()
    for kind in ("decison", "note", "runbook", "journal"):
        assert call("update", ref, "--type", kind).code == 1, kind
    assert store.files() == before


def test_status_lists_what_was_surely_meant_to_be_typed(home: Path) -> None:
    done("init")
    bank = home / "work" / ".retain" / "decisions"
    bank.mkdir()
    for name, head in (
        ("a", "type: decison\ncontent: {a: 1}"),
        ("b", "type: decision\ncontent: x"),
    ):
        (bank / f"{name}.md").write_text(f"---\n{head}\n---\n\ntext\n", encoding="utf-8")
    (bank / "c.md").write_text("---\ntype: recipe\ncontent: {a: 1}\n---\n\nt\n", encoding="utf-8")
    said = json.loads(done("status", "--json"))["problems"]
    assert {Path(one["path"]).stem for one in said} == {"a", "b"}


def test_a_window_that_cannot_retire_does_not_undo_the_create(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = ("--field", "goal=g", "--field", "outcome=success")
    lists = ("--field", "completed=[]", "--field", "next_actions=[]")

    def refuse(*_: object) -> None:
        raise RetainError("no room")

    for number in range(5):
        done("new", "session_summary", "--title", f"Session {number}", *fields, *lists)
    monkeypatch.setattr(Ledger, "retire", refuse)
    ran = call("new", "session_summary", "--title", "Session 5", *fields, *lists)
    assert ran.code == 0
    assert "could not be retired: no room" in ran.err


def test_a_window_leaves_plain_memories_alone(home: Path) -> None:
    done("init")
    done("put", "-", "--id", "diary", "--type", "session_summary", input="Dear diary.")
    fields = ("--field", "goal=g", "--field", "outcome=success")
    lists = ("--field", "completed=[]", "--field", "next_actions=[]")
    for number in range(6):
        done("new", "session_summary", "--title", f"Session {number}", *fields, *lists)
    assert "diary" in done("list", "--quiet")


def test_an_empty_title_asks_for_no_other_name(store: Store) -> None:
    ref = new("Use Postgres")
    record = {**store.record(ref), "title": ""}
    record.pop("changes", None)
    path = store.path(ref)
    ran = call(
        *("record", "write", "--action", "update", "--target", str(path), "--input", "-"),
        input=json.dumps(record),
    )
    assert ran.code == 0, ran
    assert path.exists()
