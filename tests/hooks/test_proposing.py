"""What goes to the inbox of the bank in force, and what counts as saved."""

from __future__ import annotations

import os
import time
from pathlib import Path

from retain.capture import inbox
from retain.hooks.call import Call
from retain.hooks.memo import Memo
from retain.hooks.proposing import propose, settle
from tests.cli.door import done
from tests.hooks.door import SESSION, kept, saved

FOUND = {"category": "decision", "title": "A title", "text": "What was said", "score": 0.5}


def call(**payload: object) -> Call:
    whole = {"session_id": SESSION, "cwd": os.getcwd(), **payload}
    return Call("stop", whole, os.environ, time.monotonic())


def test_a_proposal_says_where_it_came_from(bank: Path, work: Path) -> None:
    given = call(transcript_path="/tmp/t.jsonl")
    assert propose(given, {**FOUND, "start": 3, "end": 9}) == ""
    (one,) = inbox.proposals(str(bank))
    assert one[1:5] == ("decision", "A title", "What was said", 0.5)
    assert one[6:] == ("stop", "claude-code", SESSION, "/tmp/t.jsonl", 3, 9, str(work))
    assert abs(time.time() - time.mktime(time.strptime(one.created_at, "%Y-%m-%dT%H:%M:%SZ"))) < 60


def test_the_same_twice_is_one_proposal(bank: Path) -> None:
    for _ in range(2):
        propose(call(), FOUND)
    assert len(inbox.proposals(str(bank))) == 1


def test_a_proposal_goes_to_the_person_s_bank_where_the_project_has_none(home: Path) -> None:
    assert propose(call(), FOUND) == "there is no bank to propose a memory to"
    done("init", "--global")
    assert propose(call(), FOUND) == ""
    assert len(inbox.proposals(str(home / ".retain"))) == 1


def raised(root: Path, *categories: str) -> Memo:
    memo = Memo(str(root), SESSION)
    memo.raise_now([{**FOUND, "category": category} for category in categories])
    return memo


def test_what_was_written_since_counts_as_saved(store: Path) -> None:
    kept(store, "runbook", "old")
    memo = raised(store, "decision", "runbook", "constraint")
    saved(store, "decision")
    assert settle(call(), memo) == []
    assert sorted(one.category for one in inbox.proposals(str(store))) == ["constraint", "runbook"]
    assert memo.raised == (0.0, [])


def test_what_only_came_from_a_repository_is_not_what_was_saved(store: Path) -> None:
    memo = raised(store, "decision")
    kept(store, "decision", "pulled")  # a new file with an old date
    (store / "decisions" / "half.json").write_text("{", encoding="utf-8")
    (store / "decisions" / "note.txt").write_text("x", encoding="utf-8")
    assert settle(call(), memo) == []
    assert [one.category for one in inbox.proposals(str(store))] == ["decision"]


def test_a_category_nobody_knows_is_proposed(store: Path) -> None:
    assert settle(call(), raised(store, "unheard-of")) == []
    assert [one.category for one in inbox.proposals(str(store))] == ["unheard-of"]


def test_a_summary_that_was_raised_needs_no_other(store: Path) -> None:
    memo = raised(store, "session_summary")
    settle(call(), memo)
    assert memo.is_summarised


def test_a_memo_from_elsewhere_is_no_more_than_text(store: Path) -> None:
    memo = Memo(str(store), SESSION)
    memo.raise_now([{"category": "../../x", "title": "\x1b[31m", "text": "x", "start": "9"}])
    settle(call(), memo)
    (one,) = inbox.proposals(str(store))
    assert "\x1b" not in one.title
