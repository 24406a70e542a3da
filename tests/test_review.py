"""Proposals under review: whoever is stopped when, each becomes one memory or stays."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from retain.capture.inbox import Proposal, propose
from retain.errors import Conflict, NotFound, RetainError
from retain.review import Reviewed, source
from tests.crash import files, killed_at, memories, new_bank, open_bank

ONE = Proposal(
    "", "decision", "Use Postgres", "Because of it.", host="claude-code", session_id="s1"
)
SUMMARY = ONE._replace(category="session_summary")


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    new_bank(tmp_path / "bank")
    return tmp_path / "bank"


def accepted(root: Path) -> Reviewed:
    app = open_bank(root)
    done = app.inbox.accept(app.inbox.proposals())
    app.close()
    return done


@pytest.mark.parametrize("one", [ONE, SUMMARY], ids=["decision", "summary"])
def test_accept_that_is_killed_anywhere_is_finished_by_the_next(one: Proposal, bank: Path) -> None:
    propose(str(bank), one._replace(text="An older one."))
    accepted(bank)
    number = 1
    while True:
        text = f"Text {number}."
        title = one.title if one is SUMMARY else f"Title {number}"
        propose(str(bank), one._replace(title=title, text=text, session_id=str(number)))
        outcome = killed_at(number, lambda: accepted(bank), after=True)
        accepted(bank)
        assert open_bank(bank).inbox.proposals() == []
        assert sum(text.encode() in data for data in memories(bank).values()) == 1
        assert open_bank(bank).status().problems == ()
        if not outcome.signal:
            break
        number += 7
    assert number > 7
    assert not any(".new-" in name for name in files(bank / ".inbox"))


def test_refusal_of_one_does_not_stop_the_others(bank: Path) -> None:
    for category in ("gossip", "decision"):
        propose(str(bank), ONE._replace(category=category))
    done = accepted(bank)
    assert [one.proposal.category for one in done.accepted] == ["decision"]
    assert [one.proposal.category for one in done.refused] == ["gossip"]


def test_retired_memory_does_not_come_back_unseen(bank: Path) -> None:
    propose(str(bank), ONE)
    accepted(bank)
    open_bank(bank).desk.retire("use-postgres")
    propose(str(bank), ONE._replace(session_id="s2"))
    (refused,) = accepted(bank).refused
    assert "was retired only" in refused.error.message


def test_memory_that_was_retired_long_ago_gives_way_and_the_new_one_says_its_source(
    bank: Path,
) -> None:
    propose(str(bank), ONE)
    accepted(bank)
    open_bank(bank).desk.retire("use-postgres")
    file = bank / "decisions/use-postgres.md"
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub("retired_at: .*", "retired_at: 2020-01-01T00:00:00Z", text), "utf-8")
    propose(str(bank), ONE._replace(session_id="s2"))
    (one,) = accepted(bank).accepted
    assert one.outcome.memory.status == "active"
    assert one.outcome.memory.meta["source"] == "claude-code session s2"


def test_source_shortens_the_home_directory_only_where_it_is_one() -> None:
    there = ONE._replace(transcript_path="/home/ada/x.jsonl", start=1, end=2)
    assert source(there, "/home/ada").endswith("s1, ~/x.jsonl bytes 1-2")
    assert source(there, "/home/ad").endswith("s1, /home/ada/x.jsonl bytes 1-2")
    assert source(there).endswith("/home/ada/x.jsonl bytes 1-2")
    assert source(Proposal("", "decision", "t", "x")) == "an agent"


@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_where_no_host_keeps_transcripts_is_not_shown(
    bank: Path, tmp_path: Path, is_link: bool
) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:
        path = Path(elsewhere, "s.jsonl")
        path.write_text('{"message": {"role": "user", "content": "private"}}\n', encoding="utf-8")
        if is_link:
            folder = tmp_path / "folder"
            folder.symlink_to(elsewhere)
            path = folder / "s.jsonl"
        name = propose(str(bank), ONE._replace(transcript_path=str(path), start=0, end=100))
        app = open_bank(bank)
        found = app.inbox.span(app.inbox.find([name], app.inbox.proposals())[0])
        assert (found.messages, "is not where transcripts are kept" in found.missing) == ((), True)


def test_acceptance_is_taken_back_and_can_be_given_again(bank: Path) -> None:
    propose(str(bank), ONE)
    (done,) = accepted(bank).accepted
    app = open_bank(bank)
    memory = done.outcome.memory
    app.inbox.take_back(done.proposal.id, memory.address, memory.hash)
    assert [one.title for one in app.inbox.proposals()] == ["Use Postgres"]
    assert memories(bank) == {}
    assert [one.id for one in app.trashed()] == ["use-postgres"]
    app.close()
    assert len(accepted(bank).accepted) == 1


def test_acceptance_of_a_memory_that_was_changed_since_is_not_taken_back(bank: Path) -> None:
    propose(str(bank), ONE)
    (done,) = accepted(bank).accepted
    memory = done.outcome.memory
    file = Path(memory.path)
    file.write_text(f"{file.read_text(encoding='utf-8')}\nMore.\n", encoding="utf-8")
    app = open_bank(bank)
    with pytest.raises(Conflict):
        app.inbox.take_back(done.proposal.id, memory.address, memory.hash)
    assert app.inbox.proposals() == []
    assert "More." in file.read_text(encoding="utf-8")
    app.close()


def test_acceptance_that_never_was_is_not_taken_back(bank: Path) -> None:
    propose(str(bank), ONE)
    (done,) = accepted(bank).accepted
    memory = done.outcome.memory
    app = open_bank(bank)
    with pytest.raises(NotFound):
        app.inbox.take_back("0" * 16, memory.address, memory.hash)
    assert Path(memory.path).exists()
    app.close()


def test_proposal_is_not_revised_to_what_could_not_be_accepted(bank: Path) -> None:
    propose(str(bank), ONE)
    app = open_bank(bank)
    (seen,) = app.inbox.proposals()
    with pytest.raises(RetainError):
        app.inbox.revise(seen, seen._replace(category="gossip"))
    revised = app.inbox.revise(seen, seen._replace(title="Use MySQL"))
    assert [one.title for one in app.inbox.proposals()] == ["Use MySQL"] == [revised.title]
    app.close()
