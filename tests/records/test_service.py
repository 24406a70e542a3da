"""Every rule of a typed memory applied, every change kept, nothing half done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from retain.bank import index_md
from retain.errors import Conflict, NotSaved, RetainError, UsageError
from retain.memory import Memory
from retain.records import lifecycle
from retain.records.merge import check_edit
from retain.records.schema import find_faults
from retain.records.service import Outcome, Records
from tests.records.filing import FOLDERS, Store, draft

LONG_AGO = "2020-01-01T00:00:00Z"


class Filed(Store):
    """A store whose records are made without the command line."""

    @property
    def records(self) -> Records:
        return self.app.records

    def find(self, ref: str = "decisions/one") -> Memory:
        return self.app.bank.find(ref)

    def file(self, ref: str = "decisions/one", **fields: Any) -> Outcome:
        folder, _, name = ref.rpartition("/")
        category = next(name for name, its in FOLDERS.items() if its == folder)
        given = draft(category, **fields)
        return self.app.settle(self.records.create(category, given, name=name))

    def retire(self, ref: str, at: str = LONG_AGO) -> None:
        self.records.step("retire", self.find(ref))
        self.age(ref, "retired_at", at)


@pytest.fixture(params=[".json", ".md"])
def filed(
    request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Filed]:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    store = Filed(home / "work", request.param)
    yield store
    store.app.close()


def test_a_forced_record_says_which_version_the_text_before_is(filed: Filed) -> None:
    filed.records.create("decision", draft(), name="one")
    forced = filed.records.create("decision", draft(), name="one", force=True)
    assert (forced.kept, forced.message) == ("v1", "update decisions/one")


def test_a_record_that_appears_while_one_is_forced_is_not_written_over(filed: Filed) -> None:
    filed.file()
    theirs = filed.path("decisions/one").read_bytes().replace(b"one writer", b"1 writer")
    allow = lifecycle.refuse_overwrite

    def slow(*args: Any, **options: Any) -> None:
        filed.path("decisions/one").write_bytes(theirs)
        allow(*args, **options)

    with mock.patch.object(lifecycle, "refuse_overwrite", slow), pytest.raises(Conflict):
        filed.records.create("decision", draft(), name="one", force=True)
    assert filed.path("decisions/one").read_bytes() == theirs


def test_supersede_is_both_or_neither_when_someone_else_writes(filed: Filed) -> None:
    filed.file("decisions/one")
    filed.file("decisions/two", title="Two")
    path = filed.path("decisions/two")
    before, theirs = filed.path("decisions/one").read_bytes(), path.read_bytes() + b"\n"
    make_entry = lifecycle.change_entry

    def slow(*args: Any, **options: Any) -> Any:
        path.write_bytes(theirs)
        return make_entry(*args, **options)

    with mock.patch.object(lifecycle, "change_entry", slow), pytest.raises(Conflict):
        filed.records.supersede(filed.find("decisions/one"), filed.find("decisions/two"))
    assert filed.path("decisions/one").read_bytes() == before
    assert path.read_bytes() == theirs


def test_the_history_of_a_replacement_outlives_fifty_changes(filed: Filed) -> None:
    filed.file("decisions/one")
    filed.file("decisions/two", title="Two")
    records = filed.records
    records.supersede(filed.find("decisions/one"), filed.find("decisions/two"))
    entries = [{"date": "2026-01-01T00:00:00Z", "summary": f"c{n}"} for n in range(60)]
    given = filed.record("decisions/two")
    given["changes"] = [*given["changes"], *entries]
    records.update(filed.find("decisions/two"), given)
    found = filed.record("decisions/two")
    assert len(found["changes"]) == 50
    assert found["changes"][0]["summary"] == "Supersedes decisions/one"
    assert find_faults(found) == []


def test_a_rename_carries_the_versions_and_tells_git_and_index_both_names(filed: Filed) -> None:
    filed.file()
    app = filed.app
    app.records.update(filed.find("decisions/one"), draft(title="Use Postgres always"))
    done = app.records.update(filed.find("decisions/one"), draft(title="Keep all in files"))
    assert (done.memory.id, done.renamed_from) == ("keep-all-in-files", "one")
    assert set(done.changes) == {
        str(filed.path("decisions/one")),
        str(filed.path("decisions/keep-all-in-files")),
    }
    assert done.changes[str(filed.path("decisions/one"))] is None
    texts = [
        app.get("keep-all-in-files", version=it.version) for it in app.versions(done.memory.id)
    ]
    assert "Use Postgres" in [text.title for text in texts]
    assert not (filed.root / ".versions/decisions/one").exists()


def test_hand_edits_are_checked_and_noted(filed: Filed) -> None:
    filed.file()
    memory, rules = filed.app.bank.find("decisions/one"), filed.records.rules
    assert check_edit(memory, memory.data, rules) == memory.data
    changed = check_edit(memory, memory.data.replace(b"Postgres 17", b"Postgres 18"), rules)
    assert b"content.decision changed" in changed
    with pytest.raises(RetainError):
        check_edit(memory, memory.data.replace(b"accepted", b"perhaps"), rules)
    with pytest.raises(RetainError):
        check_edit(
            memory, b'{"title": ' if filed.suffix == ".json" else b"---\ntype: [\n---\n", rules
        )


# The typed memories of a bank as a whole


def rules(filed: Filed, **changes: Any) -> Any:
    records = filed.records
    records.rules = records.rules._replace(**changes)
    return records


def test_one_that_cannot_be_collected_stays_and_does_not_stop_the_others(filed: Filed) -> None:
    for name in ("one", "two", "three", "four"):
        filed.file(f"decisions/{name}", title=name)
        filed.age(f"decisions/{name}", "updated_at")
    for name in ("one", "two"):
        filed.retire(f"decisions/{name}")
    kinds = filed.records.rules.categories
    kept = {**kinds, "decision": kinds["decision"]._replace(retention_days=10)}
    records = rules(filed, categories=kept)
    delete, step = records.bank.delete, records.step

    def deletes(ref: str, **options: Any) -> Any:
        if ref == "decisions/one":  # which someone wants after all
            step("restore", filed.find(ref))
        return delete(ref, **options)

    def retires(action: str, memory: Memory, reason: str) -> Any:
        if memory.id == "three":
            raise NotSaved("the disk is full")
        return step(action, memory, reason)

    planned = records.gc(dry_run=True)
    assert sorted(it.memory.id for it in (*planned.deleted, *planned.retired)) == [
        "four", "one", "three", "two",
    ]  # fmt: skip
    with (
        mock.patch.object(records.bank, "delete", deletes),
        mock.patch.object(records, "step", retires),
    ):
        done = records.gc()
    assert [it.memory.id for it in done.deleted] == ["two"]
    assert [it.memory.id for it in done.retired] == ["four"]
    assert done.problems[0] == "ERROR retiring decisions/three: the disk is full"
    assert "was changed by someone else" in done.problems[1]
    assert filed.record("decisions/one")["record_status"] == "active"


@pytest.mark.parametrize(
    "at, is_due, problem",
    [
        (LONG_AGO, True, ""),
        ("2020-01-01T00:00:00+02:00", True, ""),
        ("9999-12-31T23:59:59Z", False, ""),
        ("soon", False, "invalid"),
        ("", False, "missing"),
    ],
)
def test_only_a_time_that_can_be_read_makes_a_record_old(
    filed: Filed, at: str, is_due: bool, problem: str
) -> None:
    filed.file()
    filed.retire("decisions/one", at)
    done = filed.records.gc(dry_run=True)
    assert len(done.deleted) == is_due
    note = f"SKIP one{filed.suffix}: {problem} retired_at timestamp"
    assert done.problems == ([note] if problem else [])


def test_only_typed_memories_are_retired_for_their_age(filed: Filed) -> None:
    sessions = filed.root / "sessions"
    sessions.mkdir()
    text = f"---\ntype: session_summary\nupdated_at: {LONG_AGO}\n---\nmy own notes\n"
    (sessions / "mine.md").write_text(text, encoding="utf-8")
    filed.file("sessions/typed", title="Typed")
    filed.age("sessions/typed", "updated_at")
    for done in (filed.records.gc(dry_run=True), filed.records.gc()):
        assert [one.memory.id for one in done.retired] == ["typed"]
    assert (sessions / "mine.md").read_text(encoding="utf-8") == text


def test_changes_are_ordered_by_time_however_it_is_written(filed: Filed) -> None:
    dates = ["2026-03-01T12:00:00+02:00", "2026-03-01T11:00:00Z", "2026-03-01", "last week", ""]
    entries = [{"date": date, "summary": date or "none"} for date in dates]
    filed.file(changes=entries)
    records = filed.records
    assert [one.summary for one in records.history()] == [
        "2026-03-01T11:00:00Z",
        "2026-03-01T12:00:00+02:00",
        "2026-03-01",
        "none",
        "last week",
    ]
    since = records.history(since="2026-03-01T10:00:00Z")
    assert [one.date for one in since] == dates[1::-1]
    assert len(records.history(filed.find())) == 5


def test_of_steps_in_one_second_the_last_written_comes_first(filed: Filed) -> None:
    entry = {"date": "2026-03-01T11:00:00Z", "summary": "a step"}
    for name, modified in (("one", 2), ("two", 3), ("three", 1)):
        filed.file(f"decisions/{name}", changes=[entry])
        os.utime(filed.path(f"decisions/{name}"), ns=(modified, modified))
    assert [one.id for one in filed.records.history()] == ["two", "one", "three"]


def test_entries_that_are_none_are_passed_over(filed: Filed) -> None:
    filed.file()
    path = filed.path("decisions/one")
    text = path.read_text(encoding="utf-8")
    if filed.suffix == ".json":
        text = json.dumps({**json.loads(text), "changes": ["x", 5, {"date": "d"}]})
    else:
        text = text.replace("---\nid", "---\nchanges: [x, 5, {date: d}]\nid", 1)
    path.write_text(text, encoding="utf-8")
    (change,) = filed.records.history()
    assert (change.date, change.summary, change.field) == ("d", "", None)
    text, is_well = filed.records.health()
    assert "DECISION: 1" in text
    assert is_well


def test_lists_of_either_kind_of_store(filed: Filed) -> None:
    records = filed.records
    assert index_md.list_records(filed.app.bank) == []
    filed.file()
    filed.file("decisions/two", title="Two")
    filed.app.archive("decisions/two")
    (line,) = index_md.list_records(filed.app.bank)
    assert (line.display, line.title) == ("DECISION", "Use Postgres")
    assert index_md.parse(records.read_list() or "") == [line]
    assert records.health()[1]
    if filed.suffix == ".json":
        (filed.root / "index.md").unlink()
        assert records.read_list() is None
        assert not records.health()[1]


def test_a_candidate_is_chosen_by_search_where_the_rules_say_so(filed: Filed) -> None:
    filed.file()
    path = str(filed.path("decisions/one"))
    records = rules(filed, match_strategy="hybrid")
    said = records.candidate("decision", "x", None, [("/nowhere/else.md", 0.9), (path, 0.7)])
    assert said["candidate"]["path"] == records.relative_path(path)
    assert said["hints"] == ["1 candidate found (score=8)"]
    assert records.candidate("decision", "use postgres db")["candidate"] is None
    with pytest.raises(UsageError):
        records.candidate("nonsense", "news")
