"""What a session begins with: who the person is, what holds, what is open, what was last."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from retain.capture.proposal import Proposal
from retain.memory import PROFILES
from tests.capture.proposals import inbox
from tests.cli.door import done
from tests.hooks.door import ask, begin, kept, nothing, prompt, state_file


def titles(text: str) -> list[str]:
    """The titles in a brief, in their order."""
    lines = (line for line in text.split("\n") if line.startswith("- ["))
    return [line.partition("] ")[2].partition(" -> ")[0] for line in lines]


def test_without_a_memory_to_tell_of_nothing_is_said(home: Path) -> None:
    assert nothing(ask("session-start", source="startup"))
    done("init")
    assert nothing(ask("session-start", source="startup"))


@pytest.mark.parametrize("kind", ["bank", "store"])
def test_a_brief_has_its_parts_in_order(kind: str, request: pytest.FixtureRequest) -> None:
    root: Path = request.getfixturevalue(kind)
    for category in ("session_summary", "tech_debt", "constraint", "preference", "decision"):
        kept(root, category, category)
    lines = begin().split("\n")[1:-1]
    assert [line.partition(" -> ")[0] for line in lines] == [
        "Preferences:",
        "- [PREFERENCE] The preference of its kind",
        "  2026-05-08: value: spaces; reason: house style",
        "Constraints:",
        "- [CONSTRAINT] The constraint of its kind",
        "  2026-05-08: rule: ten requests a second; impact: slow imports",
        "Open work:",
        "- [TECH_DEBT] The tech_debt of its kind",
        "  2026-05-08: description: no retries",
        "Last sessions:",
        "- [SESSION_SUMMARY] The session_summary of its kind",
        "  2026-05-08: goal: Move the queue; outcome: success; completed: queue moved",
    ]


@pytest.mark.parametrize(
    "category, changes",
    [
        ("tech_debt", {"content": {"status": "resolved"}}),
        ("tech_debt", {"content": {"status": "wont_fix"}}),
        ("constraint", {"content": {"active": False}}),
        ("constraint", {"record_status": "retired"}),
        ("constraint", {"record_status": "archived"}),
    ],
    ids=str,
)
def test_what_is_over_or_broken_is_not_told(
    category: str, changes: dict[str, Any], store: Path
) -> None:
    kept(store, category, **changes)
    kept(store, category, "bad").write_text("{", encoding="utf-8")
    (store / "USER.md").write_text("I am Ada.", encoding="utf-8")  # no profile in such a store
    assert begin() == ""


def test_the_newest_come_first_three_sessions_and_ten_of_another_kind(store: Path) -> None:
    for day in (3, 1, 4, 2, 5):
        kept(store, "session_summary", f"day-{day}", updated_at=f"2026-05-0{day}T00:00:00Z")
    newest = [f"The day-{day} of its kind" for day in (5, 4, 3)]
    assert titles(begin()) == newest
    for number in range(15):
        kept(store, "constraint", f"n-{number}", content={"rule": "x", "impact": ["y"]})
    assert len(titles(begin())) == 10 + len(newest)


def test_profiles_come_first_and_only_so_much_of_them(bank: Path) -> None:
    (bank / "USER.md").write_text("I am Ada.\n" + "word " * 1000, encoding="utf-8")
    (bank / "PREFERENCES.md").write_text("Short answers.\n", encoding="utf-8")
    kept(bank, "constraint")
    (bank / "MEMORY.md").write_text("Lanterns.\n" + "word " * 1000, encoding="utf-8")
    lines = begin().split("\n")[1:]
    assert lines[:2] == ["USER.md, of this repository (.retain/USER.md):", "  I am Ada."]
    headings = [line for line in lines if line.endswith(":")]
    assert headings == [
        *(f"{name}, of this repository (.retain/{name}):" for name in PROFILES),
        "Constraints:",
    ]
    assert sum(map(len, lines)) < 4000


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "bytes"])
def test_a_profile_that_is_no_text_is_done_without(kind: str, bank: Path, tmp_path: Path) -> None:
    path = bank / "USER.md"
    if kind == "link":
        (tmp_path / "secret").write_text("numbat", encoding="utf-8")
        path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe\x00")
    assert "numbat" not in begin()


def test_the_person_s_own_bank_is_told_too(home: Path, store: Path) -> None:
    done("init", "--global")
    (home / ".retain" / "USER.md").write_text("I am Ada.", encoding="utf-8")
    kept(home / ".retain", "preference", "mine")
    kept(store, "preference", "theirs")
    text = begin()
    assert "USER.md, yours everywhere (~/.retain/USER.md):\n  I am Ada.\n" in text
    assert (
        "Preferences, yours everywhere:\n- [PREFERENCE] The mine of its kind -> ~/.retain/" in text
    )
    assert titles(text) == ["The theirs of its kind", "The mine of its kind"]


def test_waiting_proposals_are_mentioned_to_the_person(bank: Path) -> None:
    for number in (1, 2):
        inbox(bank).propose(Proposal("", "decision", "t", f"text {number}"))
        said = json.loads(ask("session-start", source="startup").out)
        verb = "1 proposal waits" if number == 1 else "2 proposals wait"
        assert said == {"systemMessage": f"Retain: {verb} for you; see `retain inbox`."}


# What was shown before


@pytest.mark.parametrize(
    "source, is_anew", [("startup", True), ("clear", True), ("compact", True), ("resume", False)]
)
def test_a_conversation_that_begins_anew_is_shown_its_memories_again(
    source: str, is_anew: bool, bank: Path
) -> None:
    done("put", "-", "--id", "lantern", input="The lantern burns whale oil.")
    asked = "which oil does the lantern burn"
    assert "whale" in prompt(asked)
    assert prompt(asked) == ""
    begin(source)
    assert bool(prompt(asked)) == is_anew


def test_memos_of_sessions_long_over_are_swept_out(bank: Path) -> None:
    done("put", "-", "--id", "lantern", input="The lantern burns whale oil.")
    prompt("which oil does the lantern burn")
    folder = state_file(bank).parent
    (folder / "old.json").write_text("{}", encoding="utf-8")
    os.utime(folder / "old.json", (time.time() - 41 * 86_400,) * 2)
    begin()
    assert os.listdir(folder) == [state_file(bank).name]
