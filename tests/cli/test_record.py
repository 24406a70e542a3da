"""record: the flags, answers and error blocks that scripts and agents rely on."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from retain.errors import NotSaved
from tests.cli.door import call
from tests.conftest import Ran, command
from tests.typed.filing import CONTENT, FOLDERS, Record, Store, draft, keys

REF = "decisions/use-postgres"


@pytest.fixture(params=[".json", ".md"])
def store(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    return Store(home / "work", request.param)


@pytest.fixture
def claude(home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    return Store(home / "work", ".json")


def configure(store: Store, **settings: object) -> None:
    """Settings of a store in its own words: memory-config.json, or config.toml."""
    if store.is_json:
        text = json.dumps(settings)
        (store.root / "memory-config.json").write_text(text, encoding="utf-8")
        return
    lines = ["format = 1"]
    for name, fields in settings.get("categories", {}).items():  # type: ignore[attr-defined]
        lines.append(f"[categories.{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    if "max_memories_per_category" in settings:
        lines += ["[records]", f"max_per_category = {settings['max_memories_per_category']}"]
    (store.root / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def refused(store: Store, ran: Ran, first: str, *names: str) -> dict[str, str]:
    """The lines of the one block a call must be refused with."""
    assert (ran.code, keys(ran.out)) == (1, [first, *names]), ran
    lines = ran.out.strip().split("\n")[1:]
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


# The steps of a life


def test_create_answers_in_one_line_and_says_what_was_mended(store: Store) -> None:
    ran = store.create()
    assert store.answer(ran) == {
        "status": "created",
        "target": store.target(REF),
        "id": "use-postgres",
        "title": "Use Postgres",
    }
    filled_in = [
        "[AUTO-FIX] schema_version: set to '1.0'",
        "[AUTO-FIX] updated_at: set to current UTC",
        "[AUTO-FIX] created_at: set to current UTC",
        "[AUTO-FIX] category: set to 'decision'",
        "[AUTO-FIX] id: set to match filename 'use-postgres'",
    ]
    assert ran.err.splitlines() == (filled_in if store.is_json else [])
    assert not store.input.exists()
    record = store.record(REF)
    assert (record["record_status"], record["times_updated"]) == ("active", 0)
    assert record["content"] == CONTENT["decision"]
    assert store.path(REF).read_bytes().endswith(b"\n")


@pytest.mark.parametrize("category", CONTENT)
def test_every_category_is_stored_found_and_valid(store: Store, category: str) -> None:
    ref = f"{FOLDERS[category]}/a-record"
    store.answer(store.create(ref, category=category))
    assert store.record(ref)["content"] == CONTENT[category]
    assert call("status", "--bank", str(store.root), "--json").code == 0
    told = json.loads(call("status", "--bank", str(store.root), "--json").out)
    assert told["problems"] == []
    store.index_agrees()


def test_update_answers_and_leaves_an_entry(store: Store) -> None:
    store.create()
    content = {**CONTENT["decision"], "decision": "Postgres 18"}
    ran = store.write("update", REF, given=draft(content=content))
    assert store.answer(ran) == {
        "status": "updated",
        "target": store.target(REF),
        "id": "use-postgres",
        "title": "Use Postgres",
        "times_updated": 1,
    }
    assert "WARNING: --hash not provided for update. OCC protection disabled." in ran.err
    assert not store.input.exists()
    record = store.record(REF)
    (entry,) = record["changes"]
    assert entry["summary"] == "content.decision changed"
    assert (entry["old_value"], entry["new_value"]) == ("Postgres 17", "Postgres 18")
    assert record["content"] == content
    store.index_agrees()


@pytest.mark.parametrize(
    "action, status", [("delete", "retired"), ("retire", "retired"), ("archive", "archived")]
)
def test_retired_and_archived_twice_is_said_and_changes_nothing(
    store: Store, action: str, status: str
) -> None:
    store.create()
    said = store.answer(store.write(action, REF, "--reason", "we moved on"))
    assert said == {"status": status, "target": store.target(REF), "reason": "we moved on"}
    record = store.record(REF)
    assert (record["record_status"], record[f"{status}_reason"]) == (status, "we moved on")
    assert record["changes"][-1]["summary"] == f"{status.capitalize()}: we moved on"
    if store.is_json:
        assert not store.entries()
    before = store.files()
    said = store.answer(store.write(action, REF))
    assert said == {"status": f"already_{status}", "target": store.target(REF)}
    assert store.files() == before
    store.index_agrees()


def test_reason_that_was_not_given_is_said_to_be_missing(store: Store) -> None:
    store.create()
    assert store.answer(store.write("delete", REF))["reason"] == "No reason provided"


def test_a_record_goes_and_comes_back(store: Store) -> None:
    store.create()
    store.write("archive", REF)
    said = store.answer(store.write("unarchive", REF))
    assert said == {"status": "unarchived", "target": store.target(REF)}
    store.write("delete", REF)
    assert store.answer(store.write("restore", REF))["status"] == "restored"
    assert store.answer(store.write("restore", REF))["status"] == "already_active"
    record = store.record(REF)
    assert [entry["summary"] for entry in record["changes"]] == [
        "Archived: No reason provided",
        "Unarchived: restored to active",
        "Retired: No reason provided",
        "Restored: returned to active from retired",
    ]
    assert not {"retired_at", "archived_at", "retired_reason", "archived_reason"} & set(record)
    if store.is_json:
        assert len(store.entries()) == 1
    store.index_agrees()


# Refusals


def test_missing_arguments_are_named(store: Store) -> None:
    target = store.target(REF)
    ran = call("record", "write", "--action", "create", "--target", target)
    assert ran == Ran(1, "ERROR: --input is required for create and update actions.\n", "")
    ran = call("record", "write", "--action", "update", "--target", target)
    assert ran == Ran(1, "ERROR: --input is required for create and update actions.\n", "")
    ran = call("record", "write", "--action", "create", "--target", target, "--input", "-")
    assert ran == Ran(1, "ERROR: --category is required for create action.\n", "")
    assert call("record", "write", "--action", "destroy", "--target", target).code == 2
    assert call("record", "write", "--action", "delete").code == 2
    assert call("record").code == 2


@pytest.mark.parametrize(
    "action, code",
    [
        ("update", "UPDATE_ERROR"),
        ("delete", "DELETE_ERROR"),
        ("archive", "ARCHIVE_ERROR"),
        ("unarchive", "UNARCHIVE_ERROR"),
        ("restore", "RESTORE_ERROR"),
    ],
)
def test_a_record_that_is_not_there(store: Store, action: str, code: str) -> None:
    given = draft() if action == "update" else None
    said = refused(store, store.write(action, REF, given=given), code, "target", "fix")
    assert said["target"] == store.target(REF)
    if action == "update":
        assert said["fix"] == "Use --action create instead."
        assert store.input.exists()


@pytest.mark.parametrize(
    "first, action, code",
    [
        ("archive", "delete", "DELETE_ERROR"),
        ("delete", "archive", "ARCHIVE_ERROR"),
        ("", "unarchive", "UNARCHIVE_ERROR"),
        ("delete", "unarchive", "UNARCHIVE_ERROR"),
        ("archive", "restore", "RESTORE_ERROR"),
    ],
)
def test_a_step_that_the_state_forbids(store: Store, first: str, action: str, code: str) -> None:
    store.create()
    if first:
        store.write(first, REF)
    before = store.files()
    said = refused(store, store.write(action, REF), code, "target", "record_status", "fix")
    status = {"archive": "archived", "delete": "retired", "": "active"}[first]
    assert (said["target"], said["record_status"]) == (store.target(REF), status)
    assert store.files() == before


def test_every_fault_of_a_record_has_its_own_block(store: Store) -> None:
    content = {**CONTENT["decision"], "status": "maybe", "rationale": [], "extra": 1}
    ran = store.create(given=draft(content=content, confidence="high"))
    assert ran.code == 1
    blocks = ran.out.removesuffix("\n\n").split("\n\n")
    assert all(
        keys(block) == ["VALIDATION_ERROR", "field", "expected", "got", "fix"] for block in blocks
    )
    fields = {block.split("\n")[1] for block in blocks}
    assert fields == {
        "field: content.status",
        "field: content.rationale",
        "field: content.extra",
        "field: confidence",
    }
    assert "fix: Correct the value for 'content.status'" in ran.out
    assert store.input.exists()
    assert store.files() == {}


def test_one_fault_ends_with_an_empty_line_too(store: Store) -> None:
    content = {**CONTENT["decision"], "status": "maybe"}
    ran = store.create(given=draft(content=content))
    assert ran.out == (
        "VALIDATION_ERROR\nfield: content.status\n"
        "expected: one of proposed, accepted, deprecated, superseded\n"
        "got: \"maybe\"\nfix: Correct the value for 'content.status'\n\n"
    )


def test_unknown_category_and_errors_as_json(store: Store) -> None:
    ran = store.create("recipes/soup", category="decision", given={**draft(), "title": "x" * 121})
    refused(store, ran, "VALIDATION_ERROR", "field", "expected", "got", "fix")
    ran = store.write("create", "recipes/soup", "--category", "recipe", "--json", given=draft())
    (block,) = json.loads(ran.out)["errors"]
    assert (ran.code, keys(block)[0]) == (1, "VALIDATION_ERROR")
    assert "field: category" in block


RULES: list[tuple[Record, list[str], str]] = [
    ({"created_at": "2020-01-01T00:00:00Z"}, ["old", "new"], "immutable"),
    ({"category": "runbook"}, ["old", "new"], "immutable"),
    ({"schema_version": "2.0"}, ["old", "new"], "immutable"),
    ({"record_status": "retired"}, [], "immutable via UPDATE"),
    ({"tags": ["other"]}, ["removed"], "grow-only (below cap of 12)"),
    (
        {"related_files": []},
        ["removed"],
        "grow-only (cannot remove existing file reference)",
    ),
    ({"changes": []}, ["old_count", "new_count"], "append-only"),
    ({}, ["old_count", "total_count"], "append-only (new entry required)"),
]


def test_an_update_that_breaks_a_rule(store: Store) -> None:
    (store.project / "there.py").touch()
    first = {"date": "2026-01-01T00:00:00Z", "summary": "made"}
    whole = draft(related_files=["there.py"], changes=[first])
    store.create(given=whole)
    before = store.files()
    for change, names, rule in RULES:
        ran = store.write("update", REF, given={**whole, **change})
        said = refused(store, ran, "MERGE_ERROR", "field", "rule", *names, "fix")
        assert said["rule"] == rule
        assert said["field"] == next(iter(change), "changes")
        assert store.files() == before, rule
        assert store.input.exists(), rule


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_update_needs_the_hash_of_the_text_that_is_there(store: Store, algorithm: str) -> None:
    store.create()
    before = store.files()
    current = hashlib.new(algorithm, store.path(REF).read_bytes()).hexdigest()
    wrong = hashlib.new(algorithm, b"another text").hexdigest()
    given = draft(content={**CONTENT["decision"], "context": "two writers"})
    ran = store.write("update", REF, "--hash", wrong, given=given)
    names = ("target", "expected_hash", "current_hash", "fix")
    said = refused(store, ran, "OCC_CONFLICT", *names)
    assert (said["expected_hash"], said["current_hash"]) == (wrong, current)
    assert store.files() == before
    ran = store.write("update", REF, "--hash", current.upper(), given=given)
    assert store.answer(ran)["status"] == "updated"
    assert "WARNING" not in ran.err


def test_a_hash_of_any_other_form_is_wrong(store: Store) -> None:
    store.create()
    for wrong in ("abc", "0" * 64, "md5:" + "0" * 32, "no hash at all"):
        ran = store.write("update", REF, "--hash", wrong, given=draft(title="Use Postgres 17"))
        assert keys(ran.out)[0] == "OCC_CONFLICT", wrong


def test_a_person_who_saves_between_read_and_write_wins(store: Store) -> None:
    from retain.typed import merging

    store.create()
    theirs = store.path(REF).read_bytes().replace(b"one writer", b"1 writer")
    merged = merging.merged

    def slow(*args: object, **options: object) -> object:
        store.path(REF).write_bytes(theirs)
        return merged(*args, **options)  # type: ignore[arg-type]

    given = draft(content={**CONTENT["decision"], "decision": "MySQL"})
    with mock.patch.object(merging, "merged", slow):
        ran = store.write("update", REF, given=given)
    names = ("target", "expected_hash", "current_hash", "fix")
    said = refused(store, ran, "OCC_CONFLICT", *names)
    assert said["current_hash"] == hashlib.sha256(theirs).hexdigest()
    assert said["expected_hash"] != said["current_hash"]
    assert store.path(REF).read_bytes() == theirs


def test_create_over_what_is_in_force_needs_force(store: Store) -> None:
    store.create()
    before = store.files()
    other = draft(title="Use MySQL")
    said = refused(
        store, store.create(given=other), "CREATE_ERROR", "target", "record_status", "fix"
    )
    assert said["record_status"] == "active"
    assert store.files() == before
    assert store.input.exists()
    assert store.answer(store.create(REF, "--force", given=other))["title"] == "Use MySQL"
    assert store.memory(REF).title == "Use MySQL"
    if store.is_json:
        assert len(store.entries()) == 1
    store.index_agrees()


@pytest.mark.parametrize("hours, code", [(1, 1), (23, 1), (25, 0)])
def test_what_was_just_retired_does_not_rise_as_new(store: Store, hours: int, code: int) -> None:
    from datetime import UTC, datetime, timedelta

    store.create()
    store.write("delete", REF)
    stamp = store.record(REF)["retired_at"]
    earlier = (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
    data = store.path(REF).read_text(encoding="utf-8").replace(stamp, earlier)
    store.path(REF).write_text(data, encoding="utf-8")
    ran = store.create(REF, "--force")
    if code:
        said = refused(store, ran, "ANTI_RESURRECTION_ERROR", "target", "retired_at", "fix")
        assert said["retired_at"] == earlier
    else:
        assert store.answer(ran)["status"] == "created"
        assert "retired_at" not in store.record(REF)
    store.index_agrees()


def test_a_file_that_cannot_be_read_is_said_so_and_left(store: Store) -> None:
    store.create()
    broken = b'{"title": ' if store.is_json else b"---\ntitle: [\n---\n"
    store.path(REF).write_bytes(broken)
    for action in ("update", "delete", "archive"):
        given = draft() if action == "update" else None
        ran = store.write(action, REF, given=given)
        refused(store, ran, "READ_ERROR", "target", "error")
    refused(store, store.create(REF, "--force"), "READ_ERROR", "target", "error")
    assert store.path(REF).read_bytes() == broken


def test_the_other_kind_of_file_is_not_meant(store: Store) -> None:
    store.create()
    before = store.files()
    other = store.target(REF).removesuffix(store.suffix) + (".md" if store.is_json else ".json")
    for action in ("delete", "archive", "restore"):
        ran = call("record", "write", "--action", action, "--target", other)
        assert (ran.code, keys(ran.out)[1:]) == (1, ["target", "fix"])
    store.input.write_text(json.dumps(draft(title="x")), encoding="utf-8")
    words = ("record", "write", "--target", other, "--input", str(store.input))
    ran = call(*words, "--action", "update")
    assert keys(ran.out)[0] == "UPDATE_ERROR"
    ran = call(*words, "--action", "create", "--category", "decision", "--force")
    assert keys(ran.out)[0] in ("CREATE_ERROR", "PATH_ERROR")
    assert store.files() == before


def test_a_disk_that_refuses_is_a_block_too_and_keeps_the_draft(store: Store) -> None:
    with mock.patch("retain.bank.Bank.create", side_effect=NotSaved("the disk is full")):
        ran = store.create()
    said = refused(store, ran, "NOT_SAVED_ERROR", "error", "fix")
    assert said["error"] == "the disk is full"
    assert store.input.exists()
    assert store.files() == {}


# Renaming


def test_a_title_that_becomes_another_one_renames_the_file(store: Store) -> None:
    store.create()
    whole = draft(title="Keep everything in files")
    ran = store.write("update", REF, given=whole)
    new = "decisions/keep-everything-in-files"
    said = store.answer(ran)
    assert said["renamed_from"] == store.target(REF)
    assert (said["target"], said["id"]) == (store.target(new), "keep-everything-in-files")
    assert not store.path(REF).exists()
    record = store.record(new)
    assert record["id"] == "keep-everything-in-files"
    assert "title changed" in [entry["summary"] for entry in record["changes"]]
    versions = json.loads(call("versions", new, "--bank", str(store.root), "--json").out)
    assert len(versions) == 3  # before the update, the id inside the file, the entry about it
    if store.is_json:
        assert len(store.entries()) == 1
        assert store.target(new) in store.index()
    store.index_agrees()


@pytest.mark.parametrize(
    "title", ["Use Postgres always", "use postgres", "Postgres Use", "使用数据库作为存储"]
)
def test_a_title_that_stays_near_or_has_no_latin_letters_keeps_the_name(
    store: Store, title: str
) -> None:
    store.create()
    said = store.answer(store.write("update", REF, given=draft(title=title)))
    assert "renamed_from" not in said
    assert (said["id"], store.memory(REF).title) == ("use-postgres", title)
    store.index_agrees()


def test_a_name_that_is_taken_is_left_and_the_old_one_kept(store: Store) -> None:
    store.create()
    store.create("decisions/keep-files", given=draft(title="Keep files"))
    ran = store.write("update", REF, given=draft(title="Keep files"))
    assert store.answer(ran)["id"] == "use-postgres"
    assert "[WARN] the new title suggests the id 'keep-files', which is taken" in ran.err
    assert store.memory("decisions/keep-files").data
    assert store.memory(REF).title == "Keep files"
    store.index_agrees()


def test_a_title_that_no_file_can_have_keeps_the_name(store: Store) -> None:
    store.create()
    ran = store.write("update", REF, given=draft(title="Con"))
    assert store.answer(ran)["id"] == "use-postgres"
    assert "[WARN] the new title suggests the id 'con'" in ran.err


# Categories and limits


def test_changes_are_kept_to_fifty_and_the_oldest_go(store: Store) -> None:
    entries = [{"date": "2026-01-01T00:00:00Z", "summary": f"change {n}"} for n in range(50)]
    store.create(given=draft(changes=entries))
    given = draft(content={**CONTENT["decision"], "context": "other"})
    store.answer(store.write("update", REF, given=given))
    kept = store.record(REF)["changes"]
    assert len(kept) == 50
    assert kept[0]["summary"] == "change 1"
    assert kept[-1]["summary"] == "content.context changed"


def test_a_category_that_is_switched_off_needs_force(store: Store) -> None:
    configure(store, categories={"decision": {"enabled": False}})
    said = refused(store, store.create(), "VALIDATION_ERROR", "field", "expected", "got", "fix")
    assert said["field"] == "category"
    assert store.answer(store.create(REF, "--force"))["status"] == "created"
    # What is there already may still be changed.
    assert store.answer(store.write("delete", REF))["status"] == "retired"


def test_a_full_category_takes_no_more(store: Store) -> None:
    configure(store, max_memories_per_category=2)
    for n in range(2):
        store.answer(store.create(f"decisions/one-{n}"))
    before = store.files()
    ran = store.create("decisions/one-3")
    said = refused(store, ran, "LIMIT_ERROR", "category", "active", "limit", "fix")
    assert (said["active"], said["limit"]) == ("2", "2")
    assert store.files() == before
    store.answer(store.write("delete", "decisions/one-0"))
    store.answer(store.create("decisions/one-3"))
    store.answer(store.create("decisions/one-4", "--force"))


def test_a_record_that_is_too_large_has_a_block_of_its_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_MEMORY_MAX_BYTES", "400")
    given = draft(content={**CONTENT["decision"], "context": "x" * 500})
    said = refused(store, store.create(given=given), "SIZE_ERROR", "error", "fix")
    assert "400 is the limit" in said["error"]
    assert store.input.exists()


def test_a_category_of_ones_own_takes_any_content_or_what_its_schema_allows(store: Store) -> None:
    schema = {
        "type": "object",
        "required": ["serves"],
        "properties": {"serves": {"type": "integer"}},
    }
    configure(
        store,
        categories={
            "recipe": {"folder": "recipes"},
            "meal": {"folder": "meals", "schema": json.dumps(schema)},
        },
    )
    given = {"title": "Soup", "tags": ["food"], "content": {"serves": "many"}}
    store.answer(store.create("recipes/soup", category="recipe", given=given))
    ran = store.create("meals/soup", category="meal", given=given)
    said = refused(store, ran, "VALIDATION_ERROR", "field", "expected", "got", "fix")
    assert said["field"] == "content.serves"
    given["content"] = {"serves": 4}
    store.answer(store.create("meals/soup", category="meal", given=given))
    ran = store.write("update", "meals/soup", given={**given, "content": {"serves": "few"}})
    assert keys(ran.out)[0] == "VALIDATION_ERROR"
    if store.is_json:
        assert "- [MEAL] Soup -> .claude/memory/meals/soup.json #tags:food\n" in store.index()
    store.index_agrees()


def session(n: int, **content: object) -> Record:
    return draft(
        "session_summary",
        f"Session {n}",
        created_at=f"2026-01-{n:02}T00:00:00Z",
        content={**CONTENT["session_summary"], **content},
    )


def test_only_the_newest_sessions_stay(store: Store) -> None:
    configure(store, categories={"session_summary": {"max_retained": 2}})
    only = "the flux capacitor wants plutonium"
    store.create("sessions/s1", category="session_summary", given=session(1, blockers=[only]))
    store.create("sessions/s2", category="session_summary", given=session(2))
    ran = store.create("sessions/s3", category="session_summary", given=session(3))
    assert store.answer(ran)["status"] == "created"
    assert "[WARN] retired sessions/s1" in ran.err
    assert f"content found nowhere else: {only}" in ran.err
    assert store.record("sessions/s1")["retired_reason"] == "rolling window: max_retained is 2"
    ran = store.create("sessions/s4", category="session_summary", given=session(4))
    assert "retired sessions/s2" in ran.err
    assert "nowhere else" not in ran.err
    store.index_agrees()


@pytest.mark.parametrize("most", [1, 2])
def test_a_session_that_is_dated_back_stays_and_the_window_holds(store: Store, most: int) -> None:
    configure(store, categories={"session_summary": {"max_retained": most}})
    for n in (3, 2, 1):
        store.create(f"sessions/s{n}", category="session_summary", given=session(n))
    active = [n for n in (1, 2, 3) if store.record(f"sessions/s{n}")["record_status"] == "active"]
    assert len(active) == most
    assert 1 in active


# Where a record may be


def outside(store: Store) -> dict[str, bytes]:
    """Everything in the test's world but the store."""
    return {
        str(path): path.read_bytes()
        for path in sorted(store.project.parent.parent.rglob("*"))
        if path.is_file() and store.root not in path.parents and path != store.input
    }


OUTSIDE = [
    "decisions/x{}",
    "/etc/x{}",
    "{root}",
    "{root}/",
    "{root}/../x{}",
    "{root}/../../x{}",
    "{root}/decisions/../../x{}",
    "{root}/decisions/../runbooks/x{}",
    "{root}/decisions/deeper/x{}",
    "{root}/decisions/x.txt",
    "{root}/decisions/x",
    "{root}/decisions/{}",
    "{root}/.index/x{}",
    "{root}/.git/config{}",
    "{root}/%2e%2e/x{}",
    "{root}/..\\x{}",
    "{root}/decisions/C:\\x{}",
    "{root}/decisions/~x{}",
    "{root}-beside/decisions/x{}",
    "{root}/decisions/x\n{}",
    "{root}/decisions/x\0{}",
    "{root}/decisions/x\x1b[2J{}",
    "{root}/decisions/" + "x" * 5000 + "{}",
    "{root}/" + "x" * 5000 + "/x{}",
    "~/x{}",
    "",
]


@pytest.mark.parametrize("action", ["create", "delete"])
def test_a_target_outside_a_store_is_refused(store: Store, action: str) -> None:
    store.create()
    before, beyond = store.files(), outside(store)
    store.input.write_text(json.dumps(draft()), encoding="utf-8")
    root = store.target("").removesuffix(f"/{store.suffix}").removesuffix(store.suffix)
    words = ["--category", "decision", "--input", str(store.input)] if action == "create" else []
    wrong = []
    for target in OUTSIDE:
        named = target.replace("{root}", root).replace("{}", store.suffix)
        ran = call("record", "write", "--action", action, "--target", named, *words)
        is_refused = (ran.code, keys(ran.out)) == (1, ["PATH_ERROR", "target", "fix"])
        is_as_before = (store.files(), outside(store)) == (before, beyond)
        if not (is_refused and is_as_before and store.input.exists()) or "\x1b" in ran.out:
            wrong.append((target, ran))
    assert not wrong


@pytest.mark.parametrize("action", ["create", "delete", "update"])
def test_what_the_store_keeps_for_itself_is_no_record(claude: Store, action: str) -> None:
    claude.input.write_text(json.dumps(draft()), encoding="utf-8")
    for name in ("index.md", "memory-config.json", "INDEX.md"):
        ran = call(
            *("record", "write", "--action", action, "--target", f".claude/memory/{name}"),
            *("--category", "decision", "--input", str(claude.input), "--force"),
        )
        refused(claude, ran, "PATH_ERROR", "target", "fix")
        assert claude.files() == {}, name
        assert claude.input.exists(), name


def test_a_path_from_a_folder_below_the_project_is_fine(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (store.project / "src").mkdir()
    monkeypatch.chdir(store.project / "src")
    store.input.write_text(json.dumps(draft()), encoding="utf-8")
    target = f"../{store.target(REF)}"
    ran = call(
        *("record", "write", "--action", "create", "--target", target),
        *("--category", "decision", "--input", str(store.input)),
    )
    assert store.answer(ran)["target"] == target
    absolute = str(store.path(REF))
    ran = call("record", "write", "--action", "delete", "--target", absolute)
    assert store.answer(ran)["target"] == absolute


def test_a_project_reached_through_a_link_is_fine(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "linked").symlink_to(store.project)
    target = str(home / "linked" / store.target(REF))
    store.input.write_text(json.dumps(draft()), encoding="utf-8")
    ran = call(
        *("record", "write", "--action", "create", "--target", target),
        *("--category", "decision", "--input", str(store.input)),
    )
    assert store.answer(ran)["status"] == "created"
    assert store.path(REF).exists()


def linked_store(store: Store, elsewhere: Path) -> None:
    os.rename(store.root, elsewhere / "store")
    store.root.symlink_to(elsewhere / "store")


def linked_parent(store: Store, elsewhere: Path) -> None:
    above = store.root.parent if store.is_json else store.root
    os.rename(above, elsewhere / "above")
    above.symlink_to(elsewhere / "above")


def linked_folder(store: Store, elsewhere: Path) -> None:
    os.rename(store.root / "decisions", elsewhere / "decisions")
    (store.root / "decisions").symlink_to(elsewhere / "decisions")


def linked_within(store: Store, elsewhere: Path) -> None:
    os.rename(store.root / "decisions", store.root / "runbooks")
    (store.root / "decisions").symlink_to(store.root / "runbooks")


def linked_target(store: Store, elsewhere: Path) -> None:
    os.rename(store.path(REF), elsewhere / "x")
    store.path(REF).symlink_to(elsewhere / "x")


def linked_neighbour(store: Store, elsewhere: Path) -> None:
    other = store.path("decisions/other")
    os.rename(store.path(REF), other)
    store.path(REF).symlink_to(other)


LINKS = [
    linked_store,
    linked_parent,
    linked_folder,
    linked_within,
    linked_target,
    linked_neighbour,
]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("action", ["create", "update", "delete"])
def test_no_link_is_followed(
    store: Store, home: Path, link: Callable[[Store, Path], None], action: str
) -> None:
    store.create()
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    link(store, elsewhere)
    texts = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    given = draft(title="Another") if action != "delete" else None
    words = ["--category", "decision", "--force"] if action == "create" else []
    ran = store.write(action, REF, *words, given=given)
    refused(store, ran, "PATH_ERROR", "target", "fix")
    now = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    now.pop(store.input, None)
    assert now == texts


def test_a_linked_store_is_not_rebuilt_or_collected(claude: Store, home: Path) -> None:
    claude.create()
    (home / "elsewhere").mkdir()
    linked_store(claude, home / "elsewhere")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    for what in ("--rebuild", "--gc", "--validate"):
        assert call("record", "index", what).code == 1
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_the_first_record_makes_the_store_and_a_refused_one_does_not(home: Path) -> None:
    target = ".claude/memory/decisions/use-postgres.json"
    words = ("record", "write", "--action", "create", "--category", "decision", "--input", "-")
    bad = draft(content={})
    assert call(*words, "--target", target, input=json.dumps(bad)).code == 1
    assert call(*words, "--target", target, input="[]").code == 1
    assert not (home / "work/.claude").exists()
    assert call(*words, "--target", target, input=json.dumps(draft())).code == 0
    assert (home / "work/.claude/memory/index.md").exists()
    assert (home / "work/.claude").stat().st_mode & 0o777 == 0o700


def test_a_bank_by_another_name_is_used_when_it_is_in_force(home: Path) -> None:
    bank = home / "elsewhere"
    assert call("init", "--bank", str(bank)).code == 0
    words = ("record", "write", "--action", "create", "--category", "decision", "--input", "-")
    target = str(bank / "decisions/use-postgres.md")
    ran = call(*words, "--target", target, input=json.dumps(draft()))
    assert keys(ran.out) == ["PATH_ERROR", "target", "fix"]
    ran = call(*words, "--target", target, "--bank", str(bank), input=json.dumps(draft()))
    assert ran.code == 0, ran.out
    assert (bank / "decisions/use-postgres.md").exists()


@pytest.mark.parametrize("flags", [("--bank", "../mine"), ("--global",)])
def test_a_target_in_another_bank_than_the_one_named_is_refused(
    store: Store, home: Path, flags: tuple[str, ...]
) -> None:
    assert call("init", "--bank", str(home / "mine")).code == 0
    ran = store.create(REF, *flags)
    said = refused(store, ran, "PATH_ERROR", "target", "fix")
    named = home / ("mine" if len(flags) > 1 else ".retain")
    assert said["fix"] == f"Target must be inside the bank that is named: {named}"
    assert store.files() == {}
    assert store.input.exists()
    assert store.answer(store.create(REF, "--bank", str(store.root)))["status"] == "created"
    assert store.answer(store.write("archive", REF, "--local"))["status"] == "archived"


# What is handed in


@pytest.fixture
def place(home: Path) -> Path:
    """A directory below /tmp."""
    folder = home.parent / "staging"
    folder.mkdir()
    return folder


def put_in(store: Store, source: str, action: str = "create") -> Ran:
    return call(
        *("record", "write", "--action", action, "--category", "decision"),
        *("--target", store.target(REF), "--input", source),
    )


def test_input_from_elsewhere_is_refused(store: Store, place: Path) -> None:
    (place / "draft.json").write_text(json.dumps(draft()), encoding="utf-8")
    (place / "out.json").symlink_to("/etc/hostname")
    sources = [
        "/etc/hostname",
        "/var/tmp/x.json",
        "/tmpx/draft.json",
        "/tmp",
        f"{place}/../{place.name}/draft.json",
        str(place / "out.json"),
        "/tmp/x\0y",
        "/proc/self/environ",
    ]
    for source in sources:
        ran = put_in(store, source)
        said = refused(store, ran, "SECURITY_ERROR", "path", "resolved", "fix")
        assert said["fix"].startswith("Input file must be in /tmp/")
    assert store.files() == {}
    assert (place / "draft.json").exists()
    assert (place / "out.json").is_symlink()


NO_RECORDS = [
    ("", "not valid JSON"),
    ("{", "not valid JSON"),
    ("[1]", "not an object"),
    ('{"title": "a", "title": "b"}', "stands twice"),
    ('{"confidence": NaN}', "NaN is not a JSON number"),
    ('{"confidence": Infinity}', "Infinity is not a JSON number"),
    ('{"title": "\\ud800"}', "not valid JSON"),
    ("[" * 100_000, "not valid JSON"),
    ('{"a":' * 500 + "1" + "}" * 500, "nested deeper"),
    (json.dumps({"title": "x" * 3_000_000}), "larger than 2,000,000 bytes"),
]


@pytest.mark.parametrize("via", ["file", "stdin"])
def test_input_that_is_no_record(store: Store, place: Path, via: str) -> None:
    source = place / "draft.json"
    wrong = []
    for text, error in NO_RECORDS:
        if via == "file":
            source.write_text(text, encoding="utf-8")
            ran = put_in(store, str(source))
            assert source.exists()
        else:
            ran = call(
                *("record", "write", "--action", "create", "--category", "decision"),
                *("--target", store.target(REF), "--input", "-"),
                input=text,
            )
        is_refused = (ran.code, keys(ran.out)) == (1, ["INPUT_ERROR", "path", "error", "fix"])
        (said,) = [line for line in ran.out.split("\n") if line.startswith("error: ")] or [""]
        if not is_refused or error not in said or store.files() != {}:
            wrong.append((text[:60], ran))
    assert not wrong


def test_input_that_is_no_file(store: Store, place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    (place / "loop").symlink_to(place / "loop")
    (place / "bytes").write_bytes(b"\xff\xfe{}")
    for name in ("pipe", "folder", "loop", "absent", "bytes", "x" * 300):
        ran = put_in(store, str(place / name))
        refused(store, ran, "INPUT_ERROR", "path", "error", "fix")
    assert store.files() == {}
    assert len(os.listdir(place)) == 4


def test_a_link_to_a_draft_is_read_and_only_the_link_goes(store: Store, place: Path) -> None:
    (place / "real.json").write_text(json.dumps(draft()), encoding="utf-8")
    (place / "link.json").symlink_to(place / "real.json")
    store.answer(put_in(store, str(place / "link.json")))
    assert os.listdir(place) == ["real.json"]


def test_a_stored_memory_is_never_taken_for_a_draft(store: Store, home: Path, place: Path) -> None:
    store.create("decisions/other", given=draft(title="Other"))
    store.create()
    assert call("init", "--bank", str(home / "mine")).code == 0
    elsewhere = []
    for folder in (home / "mine/notes", home / "x/.claude/memory", home / "x/.memories/notes"):
        folder.mkdir(parents=True)
        elsewhere.append(folder / "a.json")
        elsewhere[-1].write_text(json.dumps(draft(title="News")), encoding="utf-8")
    (place / "link.json").symlink_to(store.path("decisions/other"))
    before = store.files()
    inputs = [store.path(REF), store.path("decisions/other"), place / "link.json", *elsewhere]
    for source in inputs:
        for action in ("update", "create"):
            ran = put_in(store, str(source), action)
            said = refused(store, ran, "SECURITY_ERROR", "path", "resolved", "fix")
            assert said["fix"].startswith("Input file must not be in a memory store."), source
            assert source.exists()
    assert store.files() == before


def test_a_draft_inside_the_bank_that_is_named_is_refused(home: Path) -> None:
    bank = home / "plain"
    bank.mkdir()
    source = bank / "a.json"
    source.write_text(json.dumps(draft()), encoding="utf-8")
    ran = call(
        *("record", "write", "--action", "create", "--category", "decision"),
        *("--target", str(bank / "decisions/b.md"), "--bank", str(bank), "--input", str(source)),
    )
    assert (ran.code, keys(ran.out)[0]) == (1, "SECURITY_ERROR")
    assert [path.name for path in bank.iterdir()] == ["a.json"]


def test_a_file_that_took_the_drafts_name_is_not_deleted(store: Store, place: Path) -> None:
    from retain.typed.ledger import Ledger

    source = place / "draft.json"
    source.write_text(json.dumps(draft()), encoding="utf-8")
    create = Ledger.create

    def slow(*args: object, **options: object) -> object:
        (place / "next").write_text("the next draft", encoding="utf-8")
        os.replace(place / "next", source)
        return create(*args, **options)  # type: ignore[arg-type]

    with mock.patch.object(Ledger, "create", slow):
        store.answer(put_in(store, str(source)))
    assert source.read_text(encoding="utf-8") == "the next draft"


def test_standard_input_that_cannot_be_read_is_a_block(store: Store) -> None:
    words = [*command(), "record", "write", "--action", "create", "--category", "decision"]
    words += ["--target", store.target(REF), "--input", "-"]
    for redirection in ("<&-", "0>/dev/null"):
        script = f'exec "$@" {redirection}'
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *words],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        ran = Ran(done.returncode, done.stdout, done.stderr)
        refused(store, ran, "INPUT_ERROR", "path", "error", "fix")
        assert ran.err == ""


def test_a_record_from_a_pipe_that_comes_too_late_is_kept(store: Store) -> None:
    store.create()
    before = store.files()
    late = draft(content={**CONTENT["decision"], "decision": "MySQL"})
    words = ["record", "write", "--action", "update", "--target", store.target(REF)]
    words += ["--hash", "0" * 32, "--input"]
    ran = call(*words, "-", input=json.dumps(late))
    said = refused(store, ran, "OCC_CONFLICT", "target", "expected_hash", "current_hash", "fix")
    (kept,) = (store.root / ".trash/decisions").iterdir()
    assert said["fix"].endswith(f"Your record is in the trash as {kept.name}.")
    assert json.loads(kept.read_text(encoding="utf-8")) == late
    assert store.files() == before
    assert (
        call("restore", "--trash", kept.name, "--id", "late", "--bank", str(store.root)).code == 0
    )
    # A file is still where it was.
    store.input.write_text(json.dumps(late), encoding="utf-8")
    ran = call(*words, str(store.input))
    said = refused(store, ran, "OCC_CONFLICT", "target", "expected_hash", "current_hash", "fix")
    assert said["fix"] == "Re-read the file and retry with its current hash."
    assert store.input.exists()
    assert not list((store.root / ".trash/decisions").iterdir())


def test_a_late_record_that_cannot_be_kept_is_a_conflict_all_the_same(store: Store) -> None:
    store.create()
    words = ("record", "write", "--action", "update", "--target", store.target(REF))
    with mock.patch("retain.trash.put_aside", side_effect=NotSaved("the disk is full")):
        ran = call(*words, "--hash", "0" * 32, "--input", "-", input=json.dumps(draft()))
    said = refused(store, ran, "OCC_CONFLICT", "target", "expected_hash", "current_hash", "fix")
    assert said["fix"].endswith("Your record could not be kept: the disk is full.")


def test_only_a_draft_that_became_a_record_is_deleted(store: Store, place: Path) -> None:
    source = place / "draft.json"
    source.write_text(json.dumps(draft()), encoding="utf-8")
    store.create()
    for action in ("delete", "archive", "unarchive", "restore", "create"):
        put_in(store, str(source), action)
        assert source.exists(), action
    # Not even one that has nothing to do with the action, wherever it is.
    mine = store.project / "mine.txt"
    mine.touch()
    put_in(store, str(mine), "delete")
    assert mine.exists()


def test_secrets_are_replaced_in_record_reason_and_refused_in_names(store: Store) -> None:
    token = "ghp_" + "a1B2" * 9
    given = draft(content={**CONTENT["decision"], "context": f"the token is {token}"})
    ran = store.create(given=given)
    assert store.answer(ran)["status"] == "created"
    assert "[WARN] replaced 1 secret" in ran.err
    assert "[REDACTED:" in store.record(REF)["content"]["context"]
    said = store.answer(store.write("delete", REF, "--reason", f"leaked {token}"))
    assert "[REDACTED:" in said["reason"]
    ran = store.create(f"decisions/{token}")
    refused(store, ran, "PATH_ERROR", "target", "fix")
    for path in store.root.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path
    ran = store.create("decisions/kept", "--allow-secret", given=given)
    assert store.answer(ran)["status"] == "created"
    assert token in store.record("decisions/kept")["content"]["context"]


def test_titles_in_any_script(store: Store) -> None:
    for n, title in enumerate(("使用 Postgres", "Решение", "قرار", "Ünïcödé — naïve", "🦆")):
        store.answer(store.create(f"decisions/d{n}", given=draft(title=title)))
        assert store.memory(f"decisions/d{n}").title == title
    store.index_agrees()


def test_a_title_cannot_forge_a_line_of_the_index(claude: Store) -> None:
    title = "a\n- [DECISION] b -> /etc/passwd #tags:x\u202e"
    claude.answer(claude.create(given=draft(title=title, tags=["a,b -> c", "#tags:z"])))
    assert claude.index().count("\n- [") == 1
    assert call("record", "index", "--validate").code == 0
    claude.index_agrees()


# index and candidate


def test_the_reports_of_the_index_are_word_for_word(claude: Store) -> None:
    root = str(claude.root)
    ran = call("record", "index", "--rebuild", "--root", "nowhere")
    assert ran == Ran(1, "", "ERROR: Memory root 'nowhere' is not a directory.\n")
    no_index = "ERROR: index.md does not exist. Run --rebuild first.\n"
    assert call("record", "index", "--validate") == Ran(1, no_index, "")
    assert call("record", "index", "--query", "x") == Ran(0, no_index, "")
    claude.create()
    claude.create("runbooks/stuck", category="runbook", given=draft("runbook", "Queue stuck"))
    said = call("record", "index", "--rebuild").out
    assert said == f"Rebuilt index.md with 2 entries at {root}/index.md\n"
    assert claude.index() == (
        "# Memory Index\n\n"
        "<!-- Auto-generated by memory_index.py. Do not edit manually. -->\n\n"
        "- [DECISION] Use Postgres -> .claude/memory/decisions/use-postgres.json #tags:db\n"
        "- [RUNBOOK] Queue stuck -> .claude/memory/runbooks/stuck.json #tags:db\n"
    )
    ran = call("record", "index", "--validate")
    assert ran == Ran(0, "Index is valid. 2 entries match 2 files.\n", "")
    assert call("record", "index", "--query", "QUEUE").out == (
        "Found 1 match(es) for 'QUEUE':\n"
        "  - [RUNBOOK] Queue stuck -> .claude/memory/runbooks/stuck.json #tags:db\n"
    )
    assert call("record", "index", "--query", "zebra").out == "No matches found for 'zebra'.\n"
    text = claude.index().replace("stuck.json", "gone.json")
    (claude.root / "index.md").write_text(text, encoding="utf-8")
    assert call("record", "index", "--validate") == Ran(
        1,
        "Files NOT in index.md:\n  + .claude/memory/runbooks/stuck.json\n"
        "Index entries with NO matching file:\n  - .claude/memory/runbooks/gone.json\n"
        "\nIndex has mismatches. Run --rebuild to fix.\n",
        "",
    )
    assert "  - Index out of sync or missing\n" in call("record", "index", "--health").out
    assert call("record", "index", "--gc").out == (
        f"Garbage Collection (grace period: 30 days)\n{'=' * 50}\n\n"
        "No retired memories past grace period.\n"
    )


def test_a_bank_that_is_named_is_the_one_that_is_reported_and_collected(
    claude: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.create()
    claude.write("delete", REF)
    stamp = claude.record(REF)["retired_at"]
    old = claude.path(REF).read_text(encoding="utf-8").replace(stamp, "2020-01-01T00:00:00Z")
    claude.path(REF).write_text(old, encoding="utf-8")
    other = Store(home / "other", ".json")
    with monkeypatch.context() as there:
        there.chdir(other.project)
        other.answer(other.create(given=draft(tags=["postgres"])))
    for flags in (("--bank", str(other.root)), ("--global",)):
        ran = call("record", "index", "--gc", *flags)
        assert "DELETED" not in ran.out
    assert claude.path(REF).exists()
    ran = call("record", "index", "--query", "postgres", "--bank", str(other.root))
    assert "Use Postgres" in ran.out
    assert "DELETED" in call("record", "index", "--gc", "--local").out
    words = ("record", "candidate", "--category", "decision", "--new-info", "postgres 18")
    assert json.loads(call(*words).out)["candidate"] is None
    said = json.loads(call(*words, "--bank", str(other.root)).out)
    assert said["candidate"]["title"] == "Use Postgres"
    for flags in (("--bank", str(other.root)), ("--global",)):
        assert call(*words, "--root", str(claude.root), *flags).code == 2
        assert call("record", "index", "--gc", "--root", str(claude.root), *flags).code == 2


def test_the_first_news_of_a_project_is_a_record_to_create(home: Path) -> None:
    words = ("record", "candidate", "--category", "decision", "--new-info", "we use Postgres")
    for flags in ((), ("--global",)):
        ran = call(*words, *flags)
        assert (ran.code, json.loads(ran.out)["structural_cud"]) == (0, "CREATE")
        said = json.loads(call(*words, *flags, "--lifecycle-event", "removed").out)
        assert said["structural_cud"] == "NOOP"
        assert call(*words, *flags, "--category", "nonsense").code == 2
    assert list((home / "work").iterdir()) == []
    assert not (home / ".retain").exists()
    for flag in ("--root", "--bank"):
        ran = call(*words, flag, "nowhere")
        assert ran.code == 1
        assert ran.err.endswith("nowhere' is not a directory.\n")
    (home / "work/.claude").mkdir()
    (home / "work/.claude/memory").touch()
    assert call(*words).code == 1


def test_the_bank_in_force_need_not_be_there_yet(home: Path) -> None:
    words = ("record", "candidate", "--category", "decision", "--new-info", "we use Postgres")
    root = json.loads(call("status", "--json").out)["root"]
    assert root == str(home / ".retain")
    ran = call(*words, "--root", root)
    assert (ran.code, json.loads(ran.out)["structural_cud"]) == (0, "CREATE")
    assert not os.path.exists(root)


@pytest.mark.parametrize("ending", [".json", ".md"])
def test_the_first_record_makes_its_bank_as_init_does(home: Path, ending: str) -> None:
    store = Store(home / "work", ending)
    store.root.rmdir()
    bad = store.create(given=draft(content={}))
    assert bad.code == 1
    assert not store.root.exists()
    store.answer(store.create())
    made = {path.name for path in store.root.iterdir()}
    assert {"config.toml", ".gitignore"} <= made if ending == ".md" else "config.toml" not in made
    call("init", "--bank", str(home / "other"))
    for name in ("config.toml", ".gitignore") if ending == ".md" else ():
        assert (store.root / name).read_bytes() == (home / "other" / name).read_bytes()


def test_without_a_root_the_bank_in_force_is_meant(home: Path) -> None:
    words = ("record", "candidate", "--category", "decision", "--new-info", "use postgres 18")
    theirs = Store(home / "work", ".json")
    theirs.create(given=draft(title="Use Postgres elsewhere", tags=["postgres"]))
    assert json.loads(call(*words).out)["candidate"]["title"] == "Use Postgres elsewhere"
    ours = Store(home / "work", ".md")  # which comes before the other
    ours.create(given=draft(tags=["postgres"]))
    assert json.loads(call(*words).out)["candidate"]["title"] == "Use Postgres"
    assert "Use Postgres" in call("record", "index", "--query", "postgres").out


def test_a_root_that_is_not_there_is_an_error_in_json_too(home: Path) -> None:
    said = json.loads(call("record", "index", "--health", "--root", "nope", "--json").out)
    assert said == {"error": "Memory root 'nope' is not a directory."}


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_list_that_cannot_be_written_is_said_and_the_record_stored(
    claude: Store, home: Path, kind: str
) -> None:
    listing, note = claude.root / "index.md", home / "note.md"
    note.write_text("mine", encoding="utf-8")
    if kind == "link":
        listing.symlink_to(note)
    elif kind == "folder":
        listing.mkdir()
    else:
        os.mkfifo(listing)
    ran = claude.create()
    assert claude.answer(ran)["status"] == "created"
    assert ran.err.count("[WARN] index.md could not be written: ") == 1
    ran = claude.write("update", REF, given=draft(title="Keep everything in files"))
    assert "renamed_from" in claude.answer(ran)
    assert ran.err.count("[WARN] index.md could not be written: ") == 1
    ran = call("retire", "keep-everything-in-files")
    assert (ran.code, ran.err.count("warning: index.md could not be written: ")) == (0, 1), ran
    ran = call("put", "-", "--id", "plain", input="text")
    assert (ran.code, ran.err.count("warning: index.md could not be written: ")) == (0, 1), ran
    assert note.read_text(encoding="utf-8") == "mine"
    listing.rmdir() if kind == "folder" else listing.unlink()
    ran = claude.create("decisions/two", given=draft(title="Two"))
    assert "index.md" not in ran.err
    assert len(claude.entries()) == 1


def test_the_commit_of_a_change_has_the_list_too(claude: Store) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], capture_output=True, encoding="utf-8", check=True)
        return done.stdout

    git("init", "-q")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    configure(claude, auto_commit=True)
    claude.answer(claude.create())
    names = git("show", "--format=", "--name-only", "HEAD").split()
    assert names == [".claude/memory/decisions/use-postgres.json", ".claude/memory/index.md"]
    assert call("retire", "use-postgres").code == 0
    assert git("show", "HEAD:.claude/memory/index.md") == claude.index()
    # One that cannot be written is not in the way.
    os.unlink(claude.root / "index.md")
    os.mkfifo(claude.root / "index.md")
    claude.answer(claude.create("decisions/two", given=draft(title="Two")))
    names = git("show", "--format=", "--name-only", "HEAD").split()
    assert names == [".claude/memory/decisions/two.json"]


def test_the_next_write_mends_a_stale_doubled_or_missing_index(claude: Store) -> None:
    claude.create()
    right = claude.index()
    entry = right.splitlines()[-1] + "\n"
    gone = "- [DECISION] Gone -> .claude/memory/decisions/gone.json\n"
    for text in (right + entry, right + gone, "", "no index at all\n" + gone):
        (claude.root / "index.md").write_text(text, encoding="utf-8")
        claude.answer(claude.write("archive", REF))
        claude.answer(claude.write("unarchive", REF))
        assert len(claude.entries()) == 1
        assert call("record", "index", "--validate").code == 0
    (claude.root / "index.md").unlink()
    claude.answer(claude.write("restore", REF))  # which changes nothing else
    assert claude.index() == right


def test_what_a_person_wrote_above_the_entries_stays(claude: Store) -> None:
    claude.create()
    text = claude.index().replace("\n- [", "\nMy own note.\n\n- [")
    (claude.root / "index.md").write_text(text, encoding="utf-8")
    claude.create("decisions/another", given=draft(title="Another"))
    assert "My own note." in claude.index()
    assert len(claude.entries()) == 2


def test_a_file_that_is_no_json_is_named_and_passed_over(claude: Store) -> None:
    claude.create()
    broken = claude.path("decisions/broken")
    broken.write_text("{", encoding="utf-8")
    for what in ("--rebuild", "--validate", "--health", "--gc"):
        ran = call("record", "index", what)
        assert ran.code == 0, what
        assert ran.err.startswith(f"WARNING: Could not parse {broken}: not valid JSON"), what
    assert len(claude.entries()) == 1
    claude.answer(claude.create("decisions/two", given=draft(title="Two")))
    assert len(claude.entries()) == 2


def test_gc_of_the_old_tool_says_what_it_deleted(claude: Store) -> None:
    claude.create()
    claude.write("delete", REF)
    stamp = claude.record(REF)["retired_at"]
    old = claude.path(REF).read_text(encoding="utf-8").replace(stamp, "2020-01-01T00:00:00Z")
    claude.path(REF).write_text(old, encoding="utf-8")
    claude.create("decisions/odd")
    claude.write("delete", "decisions/odd")
    odd = claude.path("decisions/odd")
    text = odd.read_text(encoding="utf-8")
    odd.write_text(text.replace(claude.record("decisions/odd")["retired_at"], "once"), "utf-8")
    said = call("record", "index", "--gc").out
    assert "\nDeleted 1 file(s):\n  DELETED use-postgres.json (retired " in said
    assert "Warnings/errors (1):\n  SKIP odd.json: invalid retired_at timestamp\n" in said
    assert not claude.path(REF).exists()
    claude.index_agrees()


def test_candidate_finds_the_record_that_news_belongs_to(store: Store) -> None:
    store.create(given=draft(title="Use Postgres for the queue", tags=["postgres"]))
    root = str(store.root)
    words = ("record", "candidate", "--root", root, "--category", "decision", "--new-info")
    ran = call(*words, "postgres is the queue now")
    said = json.loads(ran.out)
    assert ran.out.startswith("{\n  ")
    assert list(said) == [
        "candidate",
        "lifecycle_event",
        "delete_allowed",
        "pre_action",
        "structural_cud",
        "vetoes",
        "hints",
    ]
    assert said["candidate"]["path"] == store.target(REF)
    assert said["candidate"]["excerpt"]["last_change_summary"] == "Initial creation"
    assert said["structural_cud"] == "UPDATE"
    assert said["vetoes"] == ["Cannot DELETE decision (triage-initiated)"]
    said = json.loads(call(*words, "zebras", "--lifecycle-event", "removed").out)
    assert (said["candidate"], said["pre_action"]) == (None, "NOOP")
    assert call(*words, "x", "--category", "nonsense").code == 2
    store.write("delete", REF)
    assert json.loads(call(*words, "postgres queue").out)["structural_cud"] == "CREATE"
