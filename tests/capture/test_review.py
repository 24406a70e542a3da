"""Proposals under review: whoever is stopped when, each becomes one memory or stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retain.app.review import Reviewed
from retain.capture.proposal import Proposal
from retain.errors import Conflict, NotFound
from tests.capture.proposals import inbox
from tests.crash import files, killed_at, memories, new_bank, open_bank

ONE = Proposal(
    "", "decision", "Use Postgres", "Because of it.", host="claude-code", session_id="s1"
)
SUMMARY = ONE._replace(category="session_summary")


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".local" / "state"))
    new_bank(tmp_path / "bank")
    return tmp_path / "bank"


def accepted(root: Path) -> Reviewed:
    app = open_bank(root)
    done = app.inbox.accept(app.inbox.proposals())
    app.close()
    return done


@pytest.mark.parametrize("one", [ONE, SUMMARY], ids=["decision", "summary"])
def test_accept_that_is_killed_anywhere_is_finished_by_the_next(one: Proposal, bank: Path) -> None:
    inbox(bank).propose(one._replace(text="An older one."))
    accepted(bank)
    number = 1
    while True:
        text = f"Text {number}."
        title = one.title if one is SUMMARY else f"Title {number}"
        inbox(bank).propose(one._replace(title=title, text=text, session_id=str(number)))
        outcome = killed_at(number, lambda: accepted(bank), after=True)
        accepted(bank)
        assert open_bank(bank).inbox.proposals() == []
        assert sum(text.encode() in data for data in memories(bank).values()) == 1
        assert open_bank(bank).status().problems == ()
        if not outcome.signal:
            break
        number += 7
    assert number > 7
    assert not any(".new-" in name for name in files(Path(inbox(bank).path)))


def test_retired_memory_does_not_come_back_unseen(bank: Path) -> None:
    inbox(bank).propose(ONE)
    accepted(bank)
    open_bank(bank).retire("use-postgres")
    inbox(bank).propose(ONE._replace(session_id="s2"))
    (refused,) = accepted(bank).refused
    assert "was retired only" in refused[1].message


def test_memory_that_was_retired_long_ago_gives_way_and_the_new_one_says_its_source(
    bank: Path,
) -> None:
    inbox(bank).propose(ONE)
    accepted(bank)
    open_bank(bank).retire("use-postgres")
    file = bank / "decisions/use-postgres.md"
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub("retired_at: .*", "retired_at: 2020-01-01T00:00:00Z", text), "utf-8")
    inbox(bank).propose(ONE._replace(session_id="s2"))
    (one,) = accepted(bank).accepted
    assert one.outcome.memory.status == "active"
    assert one.outcome.memory.meta["source"] == "claude-code session s2"


def test_acceptance_is_taken_back_and_can_be_given_again(bank: Path) -> None:
    inbox(bank).propose(ONE)
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
    inbox(bank).propose(ONE)
    (done,) = accepted(bank).accepted
    memory = done.outcome.memory
    file = Path(memory.path)
    file.write_text(f"{file.read_text(encoding='utf-8')}\nMore.\n", encoding="utf-8")
    app = open_bank(bank)
    with pytest.raises(NotFound):  # it never was
        app.inbox.take_back("0" * 16, memory.address, app.bank.find(memory.address).hash)
    with pytest.raises(Conflict):
        app.inbox.take_back(done.proposal.id, memory.address, memory.hash)
    assert app.inbox.proposals() == []
    assert "More." in file.read_text(encoding="utf-8")
    app.close()
