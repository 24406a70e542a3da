"""The typed memories of a bank as a whole: due, changed, listed, in health."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from retain.errors import NotSaved, UsageError
from retain.typed import reports, upkeep
from tests.typed.filing import draft
from tests.typed.test_ledger import Filed

LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture(params=[".json", ".md"])
def filed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filed]:
    found = Filed(tmp_path / "project", request.param)
    yield found
    found.app.close()


def retire(filed: Filed, ref: str, at: str = LONG_AGO) -> None:
    filed.ledger.retire(filed.at(ref))
    age(filed, ref, "retired_at", at)


def age(filed: Filed, ref: str, field: str, value: str = LONG_AGO) -> None:
    path, stamp = filed.path(ref), filed.record(ref)[field]
    path.write_text(path.read_text(encoding="utf-8").replace(stamp, value), encoding="utf-8")


def rules(filed: Filed, **changes: Any) -> Any:
    ledger = filed.ledger
    ledger.rules = ledger.rules._replace(**changes)
    return ledger


def test_one_that_cannot_be_removed_does_not_stop_the_others(filed: Filed) -> None:
    for name in ("one", "two"):
        filed.create(f"decisions/{name}", title=name)
        retire(filed, f"decisions/{name}")
    ledger = filed.ledger
    delete = ledger.bank.delete

    def refusing(ref: str, **options: Any) -> Any:
        if ref == "decisions/one":
            raise NotSaved("the disk is full")
        return delete(ref, **options)

    with mock.patch.object(ledger.bank, "delete", refusing):
        done = upkeep.gc(ledger)
    assert [Path(one.path).stem for one in done.deleted] == ["two"]
    assert done.problems == [f"ERROR deleting one{filed.suffix}: the disk is full"]
    assert filed.path("decisions/one").exists()


def test_one_that_cannot_be_retired_does_not_stop_the_others(filed: Filed) -> None:
    for name in ("one", "two"):
        filed.create(f"decisions/{name}", title=name)
        age(filed, f"decisions/{name}", "updated_at")
    kinds = filed.ledger.rules.categories
    kept = {**kinds, "decision": kinds["decision"]._replace(retention_days=10)}
    ledger = rules(filed, categories=kept)
    retire_one = ledger.retire

    def refusing(at: Any, reason: str) -> Any:
        if at.name == "one":
            raise NotSaved("the disk is full")
        return retire_one(at, reason)

    with mock.patch.object(ledger, "retire", refusing):
        done = upkeep.gc(ledger)
    assert [Path(one.path).stem for one in done.retired] == ["two"]
    assert done.problems == ["ERROR retiring decisions/one: the disk is full"]


def test_only_typed_memories_are_retired_for_their_age(filed: Filed) -> None:
    sessions = filed.root / "sessions"
    sessions.mkdir()
    text = f"---\ntype: session_summary\nupdated_at: {LONG_AGO}\n---\nmy own notes\n"
    (sessions / "mine.md").write_text(text, encoding="utf-8")
    at = filed.at("sessions/typed")
    filed.ledger.create("session_summary", at, draft("session_summary", "Typed"))
    age(filed, "sessions/typed", "updated_at")
    for done in (upkeep.gc(filed.ledger, dry_run=True), upkeep.gc(filed.ledger)):
        assert [Path(one.path).stem for one in done.retired] == ["typed"]
    assert (sessions / "mine.md").read_text(encoding="utf-8") == text


def test_one_that_was_changed_since_it_was_judged_stays(filed: Filed) -> None:
    filed.create()
    retire(filed, "decisions/one")
    ledger = filed.ledger
    judge = reports.due

    def slow(*args: Any) -> Any:
        found = judge(*args)
        filed.ledger.restore(filed.at("decisions/one"))
        return found

    with mock.patch.object(reports, "due", slow):
        done = upkeep.gc(ledger)
    assert not done.deleted
    assert len(done.problems) == 1
    assert filed.record("decisions/one")["record_status"] == "active"


def test_what_is_discarded_leaves_nothing_in_the_trash(filed: Filed) -> None:
    filed.create()
    retire(filed, "decisions/one")
    upkeep.gc(rules(filed, archive_retired=False))
    assert filed.app.trashed() == []
    assert not filed.path("decisions/one").exists()


def test_changes_are_ordered_by_time_however_it_is_written(filed: Filed) -> None:
    dates = ["2026-03-01T12:00:00+02:00", "2026-03-01T11:00:00Z", "2026-03-01", "last week", ""]
    entries = [{"date": date, "summary": date or "none"} for date in dates]
    filed.create(changes=entries)
    ledger = filed.ledger
    assert [one.summary for one in upkeep.changes(ledger)] == [
        "2026-03-01T11:00:00Z",
        "2026-03-01T12:00:00+02:00",
        "2026-03-01",
        "none",
        "last week",
    ]
    since = upkeep.changes(ledger, since="2026-03-01T10:00:00Z")
    assert [one.date for one in since] == dates[1::-1]
    assert len(upkeep.changes(ledger, "decisions/one")) == 5


def test_entries_that_are_none_are_passed_over(filed: Filed) -> None:
    filed.create()
    path = filed.path("decisions/one")
    text = path.read_text(encoding="utf-8")
    if filed.suffix == ".json":
        text = json.dumps({**json.loads(text), "changes": ["x", 5, {"date": "d"}]})
    else:
        text = text.replace("---\nid", "---\nchanges: [x, 5, {date: d}]\nid", 1)
    path.write_text(text, encoding="utf-8")
    (change,) = upkeep.changes(filed.ledger)
    assert (change.date, change.summary, change.field) == ("d", "", "")
    text, is_well = upkeep.health(filed.ledger)
    assert "DECISION: 1" in text
    assert is_well


def test_lists_of_either_kind_of_store(filed: Filed) -> None:
    ledger = filed.ledger
    assert upkeep.lines(ledger) == []
    filed.create()
    filed.create("decisions/two", title="Two")
    filed.ledger.archive(filed.at("decisions/two"))
    (line,) = upkeep.lines(ledger)
    assert (line.display, line.title) == ("DECISION", "Use Postgres")
    assert upkeep.unlisted(ledger) == ([], [])
    assert upkeep.listed(ledger) == [line]
    if filed.suffix == ".json":
        (filed.root / "index.md").unlink()
        assert upkeep.unlisted(ledger) is None
        assert upkeep.listed(ledger) is None
        assert not upkeep.health(ledger)[1]


def test_a_candidate_is_chosen_by_search_where_the_rules_say_so(filed: Filed) -> None:
    filed.create()
    path = str(filed.path("decisions/one"))
    ledger = rules(filed, match_strategy="hybrid")
    asked: list[tuple[str, str]] = []
    score = 0.7

    def search(category: str, words: str) -> list[tuple[str, float]]:
        asked.append((category, words))
        return [("/nowhere/else.md", 0.9), (path, score)]

    said = upkeep.chosen(ledger, "decision", "which database", None, search)
    assert asked == [("decision", "which database")]
    assert said["candidate"]["path"] == ledger.named(path)
    assert said["hints"] == ["1 candidate found (score=8)"]
    for sure, points in ((1.0, 10), (0.05, 3)):  # on the scale of words and tags
        said = upkeep.chosen(ledger, "decision", "x", None, lambda *_, it=sure: [(path, it)])
        assert said["hints"] == [f"1 candidate found (score={points})"]
    score = 0.1  # far below what the answer is sure of
    assert upkeep.chosen(ledger, "decision", "x", None, search)["candidate"] is None
    assert upkeep.chosen(ledger, "decision", "x", None, lambda *_: [])["candidate"] is None


def test_a_category_that_is_not_captured_says_so(filed: Filed) -> None:
    kinds = filed.ledger.rules.categories
    quiet = {**kinds, "decision": kinds["decision"]._replace(auto_capture=False)}
    ledger = rules(filed, categories=quiet)
    said = upkeep.chosen(ledger, "decision", "news", None, lambda *_: [])
    assert said["hints"] == ["auto_capture is off for decision; save only what was asked for"]
    with pytest.raises(UsageError):
        upkeep.chosen(ledger, "nonsense", "news", None, lambda *_: [])


def test_only_active_records_of_the_category_are_candidates(filed: Filed) -> None:
    filed.create(title="Postgres database", tags=["postgres"])
    filed.ledger.create(
        "runbook", filed.at("runbooks/pg"), draft("runbook", "Postgres database", tags=["postgres"])
    )
    filed.ledger.retire(filed.at("decisions/one"))
    said = upkeep.chosen(filed.ledger, "decision", "postgres database", None, lambda *_: [])
    assert said["candidate"] is None
