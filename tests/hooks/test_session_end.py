"""A conversation that is compacted or ends leaves a summary in the inbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from retain.capture.proposal import Proposal
from tests.capture import transcripts
from tests.capture.proposals import inbox
from tests.hooks.door import DECIDED, ask, busy, nothing, said


def waiting(root: Path) -> list[Proposal]:
    return inbox(root).proposals()


@pytest.mark.parametrize("event", ["pre-compact", "post-compact", "session-end"])
def test_without_anything_to_go_by_nothing_is_proposed(event: str, bank: Path, work: Path) -> None:
    for path in ("", "/no/such/file", 7, said(work / "t.jsonl", "All is well.")):
        for summary in (None, 7, "   ", "<memory-context>x</memory-context>"):
            assert nothing(ask(event, transcript_path=path, compact_summary=summary))
    assert waiting(bank) == []


# A compaction


@pytest.mark.parametrize(
    "summary",
    [
        "The wick is new. <memory-context>old news</memory-context>It burns.",
        "<analysis>\nLet me think.\n</analysis>\n<summary>\nThe wick is new. It burns.\n</summary>",
        "<analysis>Let me think.</analysis>\nThe wick is new. It burns.",
        "<summary>The wick is new. It burns.",
    ],
)
def test_the_host_s_summary_is_proposed_without_its_thoughts(
    summary: str, bank: Path, work: Path
) -> None:
    path = said(work / "t.jsonl", "All is well.")
    assert nothing(ask("post-compact", transcript_path=path, compact_summary=summary))
    (one,) = waiting(bank)
    assert (one.category, one.score, one.event) == ("session_summary", 1.0, "post-compact")
    assert (one.title, one.text) == ("Please look at the store.", "The wick is new. It burns.")


def test_what_a_compaction_would_lose_is_proposed_before_it(bank: Path, work: Path) -> None:
    fix = "The error is gone: fixed by rotating the token, run `make rotate`."
    rule = "We agreed: from now on always use `uv`."
    text = f"{fix}\nNo failure since.\n\nFine.\n\nSo.\n\n{rule}\nIt is our convention."
    path = said(work / "t.jsonl", text)
    for _ in range(2):
        assert nothing(ask("pre-compact", transcript_path=path, trigger="auto"))
        assert {one.category: (one.title, one.text) for one in waiting(bank)} == {
            "runbook": (fix, f"{fix}\nNo failure since.\n\nFine."),
            "preference": (rule, f"So.\n\n{rule}\nIt is our convention."),
        }
    assert nothing(ask("stop", transcript_path=path))  # it has been looked at


def test_a_summary_is_left_to_the_compaction_itself(bank: Path, work: Path) -> None:
    ask("pre-compact", transcript_path=busy(work / "t.jsonl"))
    assert waiting(bank) == []


# The end of a session


def test_a_session_in_which_something_was_done_leaves_one_summary(bank: Path, work: Path) -> None:
    path = busy(work / "t.jsonl")
    for _ in range(2):
        assert nothing(ask("session-end", transcript_path=path, reason="other"))
        (one,) = waiting(bank)
    assert (one.category, one.event) == ("session_summary", "session-end")
    assert one.title == "Please mend the lantern."
    asked, answered, activity = one.text.split("\n\n")
    assert asked == "Asked for: Please mend the lantern."
    assert answered == "Last answer: It burns again."
    assert "Tool uses: 12" in activity
    assert (one.start, one.end > one.start) == (0, True)


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_the_agent_was_asked_for_and_left_is_proposed_at_the_end(
    is_gone: bool, bank: Path, work: Path
) -> None:
    path = said(work / "t.jsonl", DECIDED)
    assert ask("stop", transcript_path=path).code == 2
    if is_gone:
        Path(path).unlink()
    assert nothing(ask("session-end", transcript_path=path))
    assert [(one.category, one.event) for one in waiting(bank)] == [("decision", "session-end")]


def test_an_inbox_that_cannot_be_written_is_said(bank: Path) -> None:
    folder = Path(inbox(bank).path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way", encoding="utf-8")
    answer = ask("post-compact", compact_summary="They mended the lantern.")
    assert (answer.out, answer.code) == ("", 0)
    assert answer.err.startswith("retain hook: ")


def test_a_session_of_codex_is_told_apart(bank: Path, work: Path) -> None:
    path = transcripts.written(work / "t.jsonl", transcripts.codex())
    ask("post-compact", transcript_path=path, turn_id="7", compact_summary="Done.")
    assert [(one.host, one.title) for one in waiting(bank)] == [
        ("codex", "Please look at the build.")
    ]


def test_no_secret_is_in_a_title_or_a_summary_however_it_is_cut(bank: Path, work: Path) -> None:
    token = "gh" + "p_" + "aB3" * 12
    for before in (70, 49_980, 99_980):
        path = busy(work / "t.jsonl", request=f"{'x ' * (before // 2)}{token} is it")
        ask("session-end", transcript_path=path, session_id=str(before))
        ask("post-compact", transcript_path=path, compact_summary=f"{'x ' * before}{token}")
    for one in waiting(bank):
        assert "aB3" not in f"{one.title}{one.text}"
