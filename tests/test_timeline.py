"""What happened in a bank: when, by whom, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from retain.app import App
from retain.index.queries import Dated
from retain.memory import Trashed
from retain.sessions.model import Fact, Session
from retain.timeline import Event, build_timeline

NOON = "2026-11-15T12:00:00Z"
ONE = Dated("notes", "one", "One", "journal", "active", (), NOON, NOON, "", "", ())


def told(*memories: Dated, hours: float = 0) -> list[Event]:
    zone = timezone(timedelta(hours=hours))
    return build_timeline(memories, (), (), (), lambda _collection, _name: (), zone)


def test_memory_is_learned_once_and_changed_when_it_says_so() -> None:
    (learned,) = told(ONE)
    assert (learned.kind, learned.when, learned.day) == ("learned", NOON, "2026-11-15")
    later = ONE._replace(updated="2026-11-16T08:00:00Z")
    assert [(one.kind, one.day) for one in told(later)] == [
        ("changed", "2026-11-16"),
        ("learned", "2026-11-15"),
    ]


@pytest.mark.parametrize(
    "hours, when, day",
    [
        (0, NOON, "2026-11-15"),
        (13, NOON, "2026-11-16"),
        (-11, "2026-11-15T08:30:00Z", "2026-11-14"),
        (5.5, "2026-11-15T18:29:59Z", "2026-11-15"),
        (5.5, "2026-11-15T18:30:00Z", "2026-11-16"),
        (0, "2026-11-15", "2026-11-15"),
        (0, "2026-11-15T23:30:00-02:00", "2026-11-16"),
    ],
)
def test_day_is_the_one_of_the_persons_own_calendar(hours: float, when: str, day: str) -> None:
    (learned,) = told(ONE._replace(created=when, updated=when), hours=hours)
    assert learned.day == day


def test_time_that_is_none_is_left_out() -> None:
    assert told(ONE._replace(created="soon", updated="soon")) == []


@pytest.mark.parametrize(
    "author, source, by",
    [
        ("Claude", "", "agent"),
        ("claude-code", "", "agent"),
        ("Roo Code", "", "agent"),
        ("root", "", "person"),
        ("sam", "", "person"),
        ("claude-sonnet-4-5", "session:20261115-001", "chat"),
        ("", "", ""),
    ],
)
def test_author_is_an_agent_a_chat_or_a_person(author: str, source: str, by: str) -> None:
    (learned,) = told(ONE._replace(created_by=author, source=source))
    assert (learned.by, learned.who) == (by, author)


def test_typed_memory_tells_its_own_changes_and_the_last_is_not_told_twice() -> None:
    state = {"date": NOON, "summary": "Retired: old", "field": "record_status"}
    entries = ({**state, "new_value": "retired"}, {"date": NOON, "summary": "Another word"})
    found = told(ONE._replace(updated="2026-11-16T08:00:00Z", changes=entries))
    assert sorted((one.kind, one.summary) for one in found) == [
        ("changed", "Another word"),
        ("learned", ""),
        ("retired", "Retired: old"),
    ]


def test_kept_versions_tell_of_earlier_changes_and_the_last_is_not_told_twice() -> None:
    memory = ONE._replace(updated="2026-11-15T15:00:00Z")
    kept = [(f"2026-11-15T{hour}:00:00Z", f"v{hour - 12}") for hour in (13, 14, 15)]
    found = build_timeline([memory], (), (), (), lambda _collection, _name: kept)
    assert [(one.when[11:13], one.older, one.newer) for one in found] == [
        ("15", "v3", "current"),
        ("14", "v2", "v3"),
        ("13", "v1", "v2"),
        ("12", "", ""),
    ]


def test_plain_memory_taken_out_of_force_is_told_so_and_its_other_changes_as_changes() -> None:
    out = ONE._replace(status="retired", ended="2026-11-15T14:00:00Z", reason="cold")
    kept = [(f"2026-11-15T{hour}:00:00Z", f"v{hour - 12}") for hour in (13, 14, 15)]
    found = build_timeline(
        [out._replace(updated="2026-11-15T15:00:00Z")], (), (), (), lambda _collection, _name: kept
    )
    assert [(one.when[11:13], one.kind, one.summary, one.older) for one in found] == [
        ("15", "changed", "", "v3"),
        ("14", "retired", "Retired: cold", "v2"),
        ("13", "changed", "", "v1"),
        ("12", "learned", "", ""),
    ]
    # Where no version was kept, or no other time is stated, the file's own word is enough.
    for updated, kinds in (
        ("2026-11-15T15:00:00Z", ["changed", "retired", "learned"]),
        ("2026-11-15T14:00:00Z", ["retired", "learned"]),
        (NOON, ["retired", "learned"]),
    ):
        assert [one.kind for one in told(out._replace(updated=updated))] == kinds


def test_trash_chats_and_facts_are_told_and_a_fact_that_is_a_memory_is_not_doubled() -> None:
    session = Session("s1", "Talk", "", NOON, NOON, (), 2, 0, "model")
    facts = [
        Fact(1, "One", "", "s1", NOON, None, "notes/one"),
        Fact(2, "Lost", "", "s1", NOON, None, "facts/lost"),
    ]
    trashed = [
        Trashed("x_20261115_120000.md", "x", "notes", NOON, "", 1),
        Trashed("s0_20261115_120000.json", "s0", ".sessions", NOON, "", 1),
    ]
    found = build_timeline([ONE], trashed, [session], facts, lambda _collection, _name: ())
    assert sorted((one.kind, one.title, one.is_there) for one in found) == [
        ("chat", "Talk", True),
        ("deleted", "s0", False),
        ("deleted", "x", False),
        ("learned", "Lost", False),
        ("learned", "One", True),
    ]


# On a real bank


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    made = App()
    yield made
    made.close()


def test_bank_that_is_not_there_has_no_past_and_is_not_made(app: App, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert list(app.timeline()) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_bank_tells_of_everything_that_was_done_in_it(app: App) -> None:
    app.put("# A\n", id="notes/a", created_by="Claude")
    app.put("# The firewall\n", id="notes/fw-1")
    app.delete("notes/fw-1")
    app.record(
        "preference", {"topic": "t", "value": "v", "reason": "r", "strength": "default"}, id="p"
    )
    app.retire("p", "not any more")
    told = {(one.kind, one.title, one.id, one.by) for one in app.timeline()}
    assert ("deleted", "The firewall", "fw-1", "") in told
    assert {("learned", "a", "agent"), ("retired", "p", "")} <= {(a, c, d) for a, _, c, d in told}


def test_plain_memory_that_is_retired_or_archived_is_more_than_changed(app: App) -> None:
    for name in "ab":
        app.put("# Tea\n", id=f"notes/{name}")
    app.retire("notes/a")
    app.archive("notes/b", "cold")
    told = sorted((one.id, one.kind, one.summary) for one in app.timeline())
    assert told == [
        ("a", "learned", ""),
        ("a", "retired", "Retired"),
        ("b", "learned", ""),
        ("b", "retired", "Archived: cold"),
    ]


def test_memory_whose_fields_are_no_json_is_dated_by_its_file(app: App) -> None:
    written = app.put("# A\n", id="notes/a").memory
    file = Path(written.path)
    file.write_text("---\ntitle: A\nweight: .nan\n---\n\nText\n", encoding="utf-8")
    (event,) = app.timeline()
    assert (event.kind, event.title, event.who) == ("learned", "A", "")


def test_text_that_was_refused_is_nothing_that_was_deleted(app: App) -> None:
    written = app.put("# A\n", id="notes/a").memory
    trash = Path(written.path).parents[1] / ".trash" / "notes"
    trash.mkdir(parents=True)
    (trash / "a.conflict_20261115_120000.md").write_text("# Mine\n", encoding="utf-8")
    assert app.trashed()
    assert {one.kind for one in app.timeline()} == {"learned"}
