"""Proposals on disk: private, whole, each once, and never more than text a person reads."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from retain.capture import inbox as module
from retain.capture.inbox import Inbox
from retain.capture.proposal import MAX_TEXT
from retain.errors import Conflict, LimitExceeded, NotFound, NotSaved
from tests.capture.proposals import DECISION, inbox
from tests.crash import Outcome, failing, in_child, killed_at, new_bank, together

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".local" / "state"))
    path = tmp_path / "bank"
    new_bank(path).close()
    return path


@pytest.fixture
def box(root: Path) -> Inbox:
    return inbox(root)


def file_of(box: Inbox, name: str) -> Path:
    return Path(box.path, f"{name}.json")


def test_proposal_comes_back_as_it_was_given_and_is_private(root: Path, box: Inbox) -> None:
    bank = sorted(root.rglob("*"))
    before = os.umask(0)
    try:
        name = box.propose(DECISION)
    finally:
        os.umask(before)
    assert box.proposals() == [DECISION._replace(id=name)]
    assert stat.S_IMODE(os.stat(box.path).st_mode) == 0o700
    assert stat.S_IMODE(file_of(box, name).stat().st_mode) == 0o600
    assert os.listdir(box.path) == [f"{name}.json"]
    assert sorted(root.rglob("*")) == bank


def test_a_clone_cannot_plant_proposals(root: Path, box: Inbox) -> None:
    """What a repository brings, under the names of the state or of the old inbox, is nobody's."""
    for folder in (".inbox", "inbox", ".inbox/ignored", "inbox/ignored"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        planted = root / folder / "0123456789abcdef.json"
        planted.write_text(json.dumps(DECISION._asdict()), encoding="utf-8")
        planted.chmod(0o600)
    assert (box.proposals(), box.count(), box.ignored()) == ([], 0, [])
    app = new_bank(root)
    found = app.status()
    assert (found.proposals, app.ignored_pairs()) == (0, [])
    app.close()


def test_same_words_of_the_same_session_are_one_proposal(box: Inbox) -> None:
    first = box.propose(DECISION)
    before = file_of(box, first).stat()
    later = DECISION._replace(created_at="2026-11-16T18:00:00Z", score=0.9)
    assert box.propose(later) == first
    assert file_of(box, first).stat() == before
    others = [
        box.propose(DECISION._replace(session_id="s2")),
        box.propose(DECISION._replace(category="preference")),
        box.propose(DECISION._replace(text="Something else.")),
    ]
    assert len({first, *others}) == 4


def test_what_a_person_has_decided_on_does_not_come_again(box: Inbox) -> None:
    name = box.propose(DECISION)
    for step in (box.drop, box.accept):
        step(name)
        assert box.propose(DECISION) == name
        assert (box.proposals(), box.count()) == ([], 0)
        (box.restore if step == box.drop else box.reopen)(name)
    assert box.count() == 1


def test_oldest_come_first_and_those_of_one_second_as_they_came(box: Inbox) -> None:
    for number, title in enumerate("bcde"):
        name = box.propose(DECISION._replace(title=title, text=title))
        os.utime(file_of(box, name), ns=(0, number))
    box.propose(DECISION._replace(title="a", text="a", created_at="2025-01-01T00:00:00Z"))
    assert [one.title for one in box.proposals()] == list("abcde")


def test_secrets_and_terminal_sequences_are_never_written(box: Inbox) -> None:
    text = (
        f"\x1b[31mred\x1b[0m \x1b]0;title\x07token={TOKEN[:8]}\x1b[1m{TOKEN[8:]}\u202e end\r\nnext"
    )
    name = box.propose(DECISION._replace(title=f"Keep\n{TOKEN}\x07", text=text))
    data = file_of(box, name).read_bytes()
    assert TOKEN.encode() not in data
    assert b"\x1b" not in data
    assert b"\\u001b" not in data
    (one,) = box.proposals()
    assert one.title == "Keep [REDACTED:github-token]"
    assert one.text == "red token=[REDACTED:github-token] end\nnext"


def test_odd_values_are_made_fit(box: Inbox) -> None:
    text = "\ud83d first line\n" + "x" * 200_000
    box.propose(DECISION._replace(title="", text=text, created_at="", host="a\nb"))
    (one,) = box.proposals()
    assert (one.title, len(one.text), one.text[-1]) == ("? first line", MAX_TEXT, "…")
    assert one.created_at.endswith("Z")
    assert one.host == "a b"


def test_full_inbox_refuses_the_newest_and_deletes_nothing(
    box: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    kept = [box.propose(DECISION._replace(text=str(number))) for number in range(3)]
    with pytest.raises(LimitExceeded, match="3 proposals wait"):
        box.propose(DECISION)
    assert {one.id for one in box.proposals()} == set(kept)
    assert box.propose(DECISION._replace(text="1")) == kept[1]
    box.drop(kept[0])
    box.propose(DECISION)


def test_reading_makes_nothing(box: Inbox) -> None:
    assert (box.proposals(), box.count(), box.ignored()) == ([], 0, [])
    box.unignore(["a", "b"])
    assert not os.path.exists(box.path)


# Dropped, restored, revised


@pytest.mark.parametrize("name", ["0123456789abcdef", "../config", "x" * 16, ""])
def test_what_is_not_there_cannot_be_moved(box: Inbox, name: str) -> None:
    box.propose(DECISION)
    for step in (box.drop, box.restore, box.accept, box.reopen):
        with pytest.raises(NotFound):
            step(name)
    assert box.count() == 1


def test_revised_words_keep_the_id_unless_someone_changed_them(box: Inbox) -> None:
    box.propose(DECISION)
    (old,) = box.proposals()
    box.revise(old, old._replace(title="Use MariaDB", text=f"token={TOKEN}"))
    (new,) = box.proposals()
    assert new == old._replace(title="Use MariaDB", text="token=[REDACTED:github-token]")
    with pytest.raises(Conflict, match="changed by someone else"):
        box.revise(old, old._replace(title="Mine"))
    assert box.proposals() == [new]


@pytest.mark.parametrize("text", ["", "not json", "[]", "{}", "[" * 100_000, "\xff"], ids=ascii)
def test_unreadable_file_is_skipped_named_and_never_deleted(box: Inbox, text: str) -> None:
    name = box.propose(DECISION)
    file = file_of(box, "0123456789abcdef")
    file.write_text(text, encoding="latin-1")
    proposals, problems = box.scan()
    assert [one.id for one in proposals] == [name]
    assert problems == [f"{file} is not a proposal"]
    assert file.read_text(encoding="latin-1") == text


# Suggestions that a person ignores


def test_ignored_groups_are_kept_until_they_are_heeded(box: Inbox) -> None:
    for refs in (["a", "facts/b"], ["facts/b", "a"], ["c", "d"]):
        box.ignore(refs)
    assert set(box.ignored()) == {frozenset(("a", "facts/b")), frozenset("cd")}
    box.unignore(["d", "c"])
    Path(box.path, "ignored", "odd.json").write_text("{", encoding="utf-8")
    assert box.ignored() == [frozenset(("a", "facts/b"))]


# Many processes, kills and full disks


@pytest.mark.slow
def test_eight_processes_leave_each_proposal_once(box: Inbox) -> None:
    works = [
        lambda number=number: box.propose(DECISION._replace(text=f"number {number % 4}"))
        for number in range(8)
    ]
    assert [outcome.code for outcome in together(works)] == [""] * 8
    assert len(box.proposals()) == len(os.listdir(box.path)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_kill_at_any_call_leaves_a_whole_proposal_or_none(box: Inbox, after: bool) -> None:
    number, outcome = 0, Outcome(signal=9)
    while outcome.signal:
        number += 1
        one = DECISION._replace(text=f"attempt {number}")
        outcome = killed_at(number, lambda one=one: box.propose(one), after=after)  # type: ignore[misc]
        found, problems = box.scan()
        assert problems == []
        assert all(other.text.startswith("attempt") for other in found)
        assert box.propose(one) in {other.id for other in box.proposals()}
    assert number > 4


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_disk_that_refuses_is_said_and_leaves_nothing(box: Inbox, call: str) -> None:
    box.propose(DECISION)
    before = os.listdir(box.path)
    another = DECISION._replace(text="another")
    outcome = in_child(failing(call, 1, errno.ENOSPC, lambda: box.propose(another)))
    assert outcome.code == NotSaved.code
    assert os.listdir(box.path) == before
    box.propose(another)
