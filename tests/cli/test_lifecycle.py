"""new, retire, archive, supersede, changes, gc, health, candidate: typed memories for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retain.records.schema import find_faults
from tests.cli.door import answered, call, done
from tests.records.filing import CONTENT, Store, draft

FIELDS = (
    *("--field", "status=accepted", "--field", "context=one writer is not enough"),
    *("--field", "decision=Postgres 17", "--field", "rationale=transactions"),
)
SESSION = (
    *("--field", "goal=g", "--field", "outcome=success"),
    *("--field", "completed=[]", "--field", "next_actions=[]"),
)
TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture(params=[".json", ".md"])
def store(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    return Store(home / "work", request.param)


def new(title: str, *words: str) -> str:
    return done("new", "decision", "--title", title, *FIELDS, "--quiet", *words).strip()


def valid(store: Store, ref: str) -> bool:
    return not find_faults(store.record(ref))


# new


def _runbook(trigger: str) -> tuple[str, ...]:
    return (
        *("--field", f"trigger={trigger}", "--field", "steps=restart"),
        *("--field", "verification=it drains"),
    )


def test_new_hides_secrets_and_refuses_them_as_names(store: Store) -> None:
    ran = call("new", "runbook", *_runbook(f"the token {TOKEN} is gone"))
    assert ran.code == 0
    assert "warning: replaced 2 secrets" in ran.err  # the title is made of it too
    assert call("new", "runbook", *_runbook("x"), "--id", TOKEN).code == 2
    for path in store.root.rglob("*"):
        assert TOKEN not in path.name
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes()


@pytest.mark.slow
def test_new_asks_on_a_terminal(store: Store) -> None:
    answers = [
        "",  # the title is made from the fields
        *("maybe", "accepted"),  # what is no choice is asked again
        *("", "one writer is not enough"),  # and so is what cannot be left out
        "Postgres 17",
        *("", "transactions", ""),  # one reason at least
        "",
    ]
    code, said = answered("\n".join(answers), "new", "decision")
    assert code == 0, said
    assert "Status (proposed|accepted|deprecated|superseded): " in said
    assert "Rationale 1: " in said
    assert "Rationale 2 (empty: done): " in said
    assert store.record("decisions/postgres-17")["content"] == CONTENT["decision"]


# The steps


def test_a_note_can_be_retired_and_keeps_no_list_of_changes(store: Store) -> None:
    done("put", "-", "--id", "note", input="just a note\n")
    done("retire", "note", "--reason", "old")
    text = next(store.root.rglob("note.md")).read_text(encoding="utf-8")
    assert "status: retired" in text
    assert "changes" not in text
    assert "category" not in text
    done("restore", "note")
    text = next(store.root.rglob("note.md")).read_text(encoding="utf-8")
    assert "retired" not in text
    assert text.endswith("just a note\n")


# supersede


def test_supersede_is_remembered_by_both_and_demotes_the_old_one(store: Store) -> None:
    old = new("Database MySQL", "--tags", "db")
    young = new("Database Postgres", "--tags", "db")
    said = done("supersede", old, "--by", young)
    assert said.startswith(f"Superseded: {old}\n")
    assert said.endswith(f"By: {young}\n")
    before, after = store.record(old), store.record(young)
    assert before["content"]["status"] == "superseded"
    assert before["changes"][-1]["summary"] == f"Superseded by {young}"
    assert after["changes"][-1]["summary"] == f"Supersedes {old}"
    assert valid(store, old)
    assert valid(store, young)
    assert store.memory(old).meta["superseded_by"] == young
    hits = json.loads(done("search", "database", "--json"))["hits"]
    assert [hit["id"] for hit in hits] == ["database-postgres", "database-mysql"]
    kept = store.files()
    told = json.loads(done("supersede", old, "--by", young, "--json"))
    assert (told["status"], told["superseded_by"]) == ("already_superseded", young)
    assert store.files() == kept
    assert json.loads(done("status", "--json"))["problems"] == []
    store.index_agrees()


def test_supersede_refuses_itself_the_absent_and_the_unreadable(store: Store) -> None:
    ref = new("Use Postgres")
    assert call("supersede", ref, "--by", ref).code == 2
    assert call("supersede", ref, "--by", "absent").code == 3
    (store.root / "decisions/broken.json").write_text("{", encoding="utf-8")
    (store.root / "decisions/free.json").write_text('{"a": 1}', encoding="utf-8")
    before = store.files()
    for name in ("broken", "free"):
        assert call("supersede", ref, "--by", name).code == 1
        assert call("supersede", name, "--by", ref).code == 1
    assert store.files() == before


# What people do to typed memories by other commands


def test_update_leaves_an_entry_and_refuses_what_is_invalid(store: Store) -> None:
    ref = new("Use Postgres", "--tags", "db")
    done("update", ref, "--title", "Use Postgres 18")
    record = store.record(ref)
    assert record["changes"][-1]["summary"] == "title changed"
    assert record["times_updated"] == 1
    before = store.files()
    for bad, field in (
        ({"content": {"status": "maybe"}}, "content.status"),
        ({"confidence": 2}, "confidence"),
        ({"changes": "none"}, "changes"),
    ):
        ran = call("update", ref, "--metadata", json.dumps(bad))
        assert (ran.code, f"{field}: expected" in ran.err) == (1, True), ran.err
    assert store.files() == before


def test_update_of_the_content_of_a_json_record(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    store = Store(home / "work", ".json")
    ref = new("Use Postgres")
    content = {**CONTENT["decision"], "decision": "Postgres 18"}
    done("update", ref, "--content", "-", input=json.dumps(content))
    assert store.record(ref)["changes"][-1]["field"] == "content.decision"
    before = store.files()
    for bad in ({**content, "status": "maybe"}, {"x": 1}):
        ran = call("update", ref, "--content", "-", input=json.dumps(bad))
        assert (ran.code, "content." in ran.err) == (1, True)
    assert call("append", ref, "--content", "-", input="more").code == 1
    assert store.files() == before
    store.index_agrees()


def test_restoring_a_version_leaves_an_entry_and_keeps_the_history(store: Store) -> None:
    ref = new("Use Postgres")
    for n in (18, 19):
        content = {**CONTENT["decision"], "decision": f"Postgres {n}"}
        store.answer(store.write("update", ref, given=draft(content=content, tags=["untagged"])))
    done("restore", ref, "--version", "v1")
    record = store.record(ref)
    assert record["content"]["decision"] == "Postgres 17"
    assert [entry["new_value"] for entry in record["changes"]] == [
        "Postgres 18",
        "Postgres 19",
        "Postgres 17",
    ]
    assert valid(store, ref)


def test_put_of_a_typed_memory_is_checked(store: Store) -> None:
    good = (
        "---\ntitle: Use SQLite\ntype: decision\ncontent:\n  status: accepted\n  context: c\n"
        "  decision: d\n  rationale: [r]\n---\nBody text.\n"
    )
    done("put", "-", "--id", "decisions/use-sqlite", input=good)
    record_of = json.loads(done("get", "decisions/use-sqlite", "--json"))
    assert record_of["type"] == "decision"
    before = store.files()
    bad = good.replace("accepted", "perhaps")
    ran = call("put", "-", "--id", "decisions/other", input=bad)
    assert (ran.code, "content.status" in ran.err) == (1, True)
    ran = call("put", "-", "--id", "decisions/use-sqlite", input=bad)
    assert (ran.code, "content.status" in ran.err) == (1, True)
    assert store.files() == before
    # Without fields it is a text like any other.
    done("put", "-", "--id", "decisions/loose", "--type", "decision", input="just a text\n")


# changes, gc, health, candidate


def test_changes_shows_the_newest_first_and_since(store: Store) -> None:
    one, other = new("Number one"), new("Number two")
    done("archive", one, "--reason", "done")
    store.age(one, "archived_at")
    done("retire", other)
    said = json.loads(done("changes", "--json"))
    assert [(it["collection"] + "/" + it["id"], it["summary"]) for it in said] == [
        (other, "Retired: No reason provided"),
        (one, "Archived: done"),
    ]
    assert [it["id"] for it in json.loads(done("changes", "--since", "1d", "--json"))] == [
        "number-two"
    ]
    assert len(json.loads(done("changes", "--since", "2019-01-01", "--json"))) == 2
    assert json.loads(done("changes", one, "--json"))[0]["id"] == "number-one"
    ran = call("changes", "--limit", "1")
    assert "... and 1 earlier ones: --limit 2" in ran.err
    assert call("changes", "--limit", "0").code == 2
    assert call("changes", "--since", "the day after never").code == 2
    assert call("changes", "absent").code == 3


def test_gc_destroys_what_the_person_does_not_keep(store: Store, home: Path) -> None:
    (home / ".retain").mkdir()
    text = "format = 1\n[records]\narchive_retired = false\n"
    (home / ".retain/config.toml").write_text(text, encoding="utf-8")
    ref = new("Secret affair")
    done("retire", ref)
    store.age(ref, "retired_at")
    done("gc")
    assert json.loads(done("trash", "list", "--json")) == []
    assert not [it for it in store.root.rglob("secret-affair*") if ".trash" in it.parts]


# A history without gaps, whichever door its changes come through


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
    wrong = "type: decision\ncontent: {status: perhaps, context: c, decision: d, rationale: [r]}"
    (bank / "d.md").write_text(f"---\n{wrong}\n---\n", encoding="utf-8")
    (bank / "c.md").write_text("---\ntype: recipe\ncontent: {a: 1}\n---\n\nt\n", encoding="utf-8")
    said = json.loads(done("status", "--json"))["problems"]
    assert {Path(one["path"]).stem for one in said} == {"a", "b", "d"}
    assert "content.status: expected one of proposed" in str(said)
    assert call("retire", "d").code == 0  # what is wrong can always be retired


def test_a_window_leaves_plain_memories_alone(home: Path) -> None:
    done("init")
    done("put", "-", "--id", "diary", "--type", "session_summary", input="Dear diary.")
    for number in range(6):
        done("new", "session_summary", "--title", f"Session {number}", *SESSION)
    assert "diary" in done("list", "--quiet")
